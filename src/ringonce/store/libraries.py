"""SQLite builds: one library per file in one process, and no affected build on a WAL file.

POSIX locks belong to the process: two SQLite libraries in it do not see each other's, and acknowledged commits
vanish. So every file that this process uses is known here, with the library that uses it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ringonce.errors import SqliteBuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

SOUND = (3, 51, 3)
"""From here on a WAL file is safe. 3.7.0 to 3.51.2 can lose committed transactions when two connections write
and one of them checkpoints (https://sqlite.org/wal.html, the WAL-reset bug)."""
MEND = 'install ringonce[sqlite] (a sound SQLite), or convert the file: sqlite3 FILE "PRAGMA journal_mode=DELETE"'

_open_files: dict[tuple[int, int], list[str]] = {}
"""(device, inode) -> names of the libraries that stores of this process have the file open with."""
_application: dict[tuple[int, int], tuple[str, str]] = {}
"""(device, inode) -> the path and the library of an application's connection that came here. It stays: nobody tells
when such a connection is closed."""

_headers: dict[tuple[int, int], tuple[str, int]] = {}
"""(device, inode) -> the path and a descriptor that stays open."""


def header(path: str) -> bytes:
    """The first bytes of a file. Raises OSError.

    Its descriptor is never closed while the file exists: closing one takes away the locks that SQLite holds on the
    same file through others of this process (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    for inode, (known, descriptor) in list(_headers.items()):
        if not _is(known, inode):
            del _headers[inode]
            os.close(descriptor)
    inode = _inode(path)
    if inode not in _headers:
        _headers[inode] = (path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return os.pread(_headers[inode][1], 20, 0)


def refuse_wal(path: str, version: tuple[int, ...], state: str) -> SqliteBuildError:
    """What an affected build is told about a file that ``is`` or ``would be put`` in WAL mode."""
    text = ".".join(map(str, version))
    return SqliteBuildError(
        f"{path} {state} in WAL mode, and SQLite {text} can lose committed transactions in it", mend=MEND
    )


@contextlib.contextmanager
def one_library(path: str, module: str) -> Iterator[None]:
    """A store uses the file by ``module`` (``sqlite3``, ``pysqlite3``).

    Raises:
        SqliteBuildError: This process uses the file through another library.
    """
    inode = _inode(path)
    users = _open_files.setdefault(inode, [])
    other = next((user for user in users if user != module), None) or _applications(inode, module)
    if other is not None:
        raise SqliteBuildError(
            f"{path} is open in this process with {other}; {module} on the same file would lose commits",
            mend=_mend(other),
        )
    users.append(module)
    try:
        yield
    finally:
        users.remove(module)
        if not users:
            _open_files.pop(inode, None)


def application_uses(path: str, module: str) -> None:
    """An application's connection uses the file by ``module``, from now on.

    Raises:
        SqliteBuildError: A store of this process uses it through another library.
    """
    inode = _inode(path)
    other = next((user for user in _open_files.get(inode, ()) if user != module), None)
    if other is not None:
        raise SqliteBuildError(
            f"ringonce has {path} open in this process with {other}, this connection uses {module}: on the same "
            "file they would lose commits",
            mend=_mend(module),
        )
    _application[inode] = (path, module)


def _applications(inode: tuple[int, int], module: str) -> str | None:
    path, user = _application.get(inode, ("", module))
    if user == module:
        return None
    return user if _is(path, inode) else None


def _is(path: str, inode: tuple[int, int]) -> bool:
    """Is it still the same file? It may be gone and its inode belong to another one."""
    try:
        return _inode(path) == inode
    except OSError:
        return False


def _inode(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 - the inode is what counts
    return status.st_dev, status.st_ino


def _mend(module: str) -> str:
    name = "stdlib" if module == "sqlite3" else module
    return f'set sqlite_module = "{name}" in [store]: the library that the application uses'
