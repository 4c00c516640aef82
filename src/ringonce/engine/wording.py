"""Templates at acceptance and at expansion: rendered once before anything is stored, and once for each content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.fit import fitted
from ringonce.errors import InputError, TemplateError
from ringonce.model.notification import Content
from ringonce.model.records import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ringonce.core.render import Template
    from ringonce.engine.channels import Channels, Entry
    from ringonce.model.event import Event, Recipient
    from ringonce.ports import RecipientFacts, Templates


def check_template(event: Event, templates: Templates, channels: Channels) -> None:
    """Render at acceptance everything that the event may need, so that nothing is lost when it is sent.

    Once for each locale that is known or may turn out, on each channel: a variable that only the Russian text uses is
    missed here and not at three in the morning.

    Raises:
        TemplateError: unknown, broken, or a variable is missing.
        InputError: a named channel, or every channel, can not carry the text.
    """
    assert event.template is not None
    template = templates.get(event.template)
    named = [*(event.channels or ()), *event.to]
    for reader in _readers(template, event):
        for name in dict.fromkeys(named):
            if (entry := channels.get(name)) is not None:
                _carried(template, name, entry, reader, event.data)
        if event.recipients and event.channels is None:
            _carried_by_any(template, channels.all(), reader, event.data)


def _carried_by_any(
    template: Template, channels: Mapping[str, Entry], reader: Reader, data: Mapping[str, object]
) -> None:
    """A template must render wherever it has a text; at least one channel must carry it."""
    first: InputError | None = None
    carried = False
    for name, entry in channels.items():
        if not template.wording(name, reader).speaks:
            continue
        try:
            _carried(template, name, entry, reader, data)
        except TemplateError:
            raise
        except InputError as error:
            first = first or error
        else:
            carried = True
    if first is not None and not carried:
        raise first


def _carried(
    template: Template, channel: str, entry: Entry, reader: Reader, data: Mapping[str, object]
) -> None:
    try:
        write(template, channel, entry, reader, data)
    except TemplateError:
        raise
    except InputError as error:
        raise type(error)(
            f"channel {channel}: {error.message}",
            field="template",
            mend=error.mend,
            code=error.code,
        ) from None


def write(
    template: Template, channel: str, entry: Entry, reader: Reader, data: Mapping[str, object]
) -> Content:
    """The content for a reader on a channel, as long as the channel carries. Raises TemplateError, InputError."""
    content = template.render(channel, reader, data)
    if template.wording(channel, reader).cut:
        return fitted(content, entry.provider.check)
    entry.provider.check(content)
    return content


def _readers(template: Template, event: Event) -> Iterator[Reader]:
    """One for each way in which the text may be written. Whose locale is not in the event may have one in the store."""
    seen: set[str] = set()
    for reader in _all_readers(template, event):
        way = template.way(reader)
        if way not in seen:
            seen.add(way)
            yield reader


def _all_readers(template: Template, event: Event) -> Iterable[Reader]:
    unknown: Recipient | None = None
    for one in event.recipients:
        if one.locale is None:
            unknown = one
        yield Reader(one.id, one.locale, one.timezone)
    for channel, value in event.to.items():
        yield Reader(f"{channel}:{value}")
    if unknown is not None:
        for locale in template.texts:
            yield Reader(unknown.id, locale, unknown.timezone)


@dataclass(slots=True)
class Written:
    """What became of one content: the text, or why there is none. ``unsupported``: the channel can not carry it."""

    content: Content
    invalid: str | None = None
    unsupported: bool = False


@dataclass(slots=True)
class Writer:
    """Renders for a chunk of recipients: everything that is the same for many only once."""

    event: Event
    templates: Templates | None
    channels: Channels
    written: dict[str, Written] = field(default_factory=dict)

    def write(self, channel: str, one: RecipientFacts) -> tuple[str, Written]:
        """(key of the content, what became of it)."""
        reader = Reader(one.id, one.locale, one.timezone)
        try:
            template = self._template()
        except TemplateError as error:
            # It was there when the event was accepted.
            return channel, Written(Content(), invalid=str(error))
        key = template.key(channel, reader)
        found = self.written.get(key)
        if found is None:
            found = self.written[key] = self._write(template, channel, reader)
        return key, found

    def _template(self) -> Template:
        assert self.event.template is not None
        if self.templates is None:
            raise TemplateError(f"there is no template {self.event.template!r} here", field="template")
        return self.templates.get(self.event.template)

    def _write(self, template: Template, channel: str, reader: Reader) -> Written:
        entry = self.channels.get(channel)
        if entry is None:
            return Written(Content())
        if not template.wording(channel, reader).speaks and self.event.channels is None:
            return Written(Content(), unsupported=True)
        try:
            return Written(write(template, channel, entry, reader, self.event.data))
        except TemplateError as error:
            return Written(Content(), invalid=str(error))
        except InputError as error:
            if self.event.channels is None:
                return Written(Content(), unsupported=True)
            return Written(Content(), invalid=f"channel {channel}: {error}")
