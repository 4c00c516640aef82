"""What streams of an inbox tell, whichever way it is carried: copies, read marks, and how many are unread."""

from collections.abc import Iterator, Sequence

from ringonce.engine.views import copy_view, stamp
from ringonce.ports import Copy, ReadMark

View = dict[str, object]


def told(changes: Sequence[Copy | ReadMark]) -> Iterator[tuple[str, int, View]]:
    """(name, number, data) of each change, in order. What was read together is told together."""
    marks: list[ReadMark] = []
    for change in changes:
        if marks and not (isinstance(change, ReadMark) and change.read_at == marks[0].read_at):
            yield _read(marks)
            marks = []
        if isinstance(change, ReadMark):
            marks.append(change)
        else:
            yield "notification", change.seq, copy_view(change)
    if marks:
        yield _read(marks)


def _read(marks: Sequence[ReadMark]) -> tuple[str, int, View]:
    ids = [str(mark.id) for mark in marks]
    return "read", marks[-1].seq, {"ids": ids, "read_at": stamp(marks[0].read_at)}
