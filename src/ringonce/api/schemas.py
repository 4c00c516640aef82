"""The JSON forms for OpenAPI: the accepted structure comes from the contract itself, the answers from here."""

from typing import Any, Literal
from uuid import UUID

import msgspec
from pydantic import BaseModel, ConfigDict, Field, RootModel, StrictBool, StrictInt, model_validator

from ringonce.api.fields import TEXT, By, Moment
from ringonce.engine.contract import Body
from ringonce.model.transition import Verdict

REF = "#/components/schemas/{name}"


def body_components() -> dict[str, Any]:
    """The schemas of the accepted structure, by name."""
    return msgspec.json.schema_components([Body], ref_template=REF)[1]


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """``openapi_extra`` for a route that reads its body itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


ONE = json_body({"$ref": REF.format(name="Body")})
MANY = json_body({"type": "array", "items": {"$ref": REF.format(name="Body")}, "minItems": 1})


class Strict(BaseModel):
    """An unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


class CancelIn(Strict):
    """Who cancels; optional."""

    by: By = "api"


class RetryIn(CancelIn):
    """``force`` also from ``sent``, and over attempts without a verdict."""

    force: StrictBool = False


class ResolveIn(CancelIn):
    """What became of the doubt."""

    verdict: Verdict = Field(description="sent, not_sent or assumed")


class CancelSubjectIn(CancelIn):
    """The subject that is withdrawn."""

    subject: str = Field(min_length=1, max_length=256, pattern=TEXT)
    tenant: str | None = Field(default=None, max_length=128, pattern=TEXT)


class RetryFailuresIn(RetryIn):
    """Which failures, and whether only to look (the default)."""

    ids: list[UUID] | None = Field(default=None, min_length=1, max_length=500)
    tenant: str | None = Field(default=None, max_length=128, pattern=TEXT)
    channel: str | None = Field(default=None, max_length=256, pattern=TEXT)
    code: str | None = Field(default=None, max_length=256, pattern=TEXT)
    since: Moment | None = None
    until: Moment | None = None
    limit: StrictInt = Field(default=100, ge=1, le=500)
    dry_run: StrictBool = True


class RecipientChange(Strict):
    """What is not named stays."""

    locale: str | None = Field(default=None, min_length=1, max_length=64, pattern=TEXT)
    timezone: str | None = Field(default=None, min_length=1, max_length=64, pattern=TEXT)


class AddressIn(Strict):
    """A text, or what the channel's provider takes (a browser's PushSubscription)."""

    channel: str = Field(min_length=1, max_length=64)
    address: str | dict[str, Any]


class AddressesIn(RootModel[dict[str, str | dict[str, Any] | list[str | dict[str, Any]]]]):
    """Addresses by channel."""


class ReadIn(Strict):
    """Which copies were read: exactly one of these."""

    ids: list[UUID] | None = Field(default=None, min_length=1, max_length=500)
    up_to: UUID | None = Field(default=None, description="This one and all that came before it.")
    until: Moment | None = Field(default=None, description="All that were accepted until then.")
    all: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ReadIn":
        if len(self.model_fields_set) != 1 or all(
            value is None for value in (self.ids, self.up_to, self.until, self.all)
        ):
            raise ValueError("give exactly one of ids, up_to, until, all")
        return self


class Brief(BaseModel):
    """One notification of an accepted event."""

    id: str
    recipient: str
    channel: str
    status: str
    final: bool


class Accepted(BaseModel):
    """The answer to an accepted event."""

    event_id: str
    duplicate: bool
    notifications: list[Brief]


class LastError(BaseModel):
    """The last thing that went wrong."""

    code: str
    provider_code: str | None
    text: str


class Notification(BaseModel):
    """A notification without its content. The address is masked."""

    id: str
    event_id: str
    type: str
    tenant: str
    recipient: str
    channel: str
    address: str | None
    subject: str | None
    thread: str | None
    priority: str
    collapse: str | None
    status: str
    final: bool
    attempts: int
    next_attempt_at: str | None
    last_error: LastError | None
    provider_message_id: str | None
    version: int
    revision: int
    assumed: bool
    maybe_sent: bool
    read_at: str | None
    created_at: str
    expires_at: str | None


class Found(BaseModel):
    """A page of a search; ``next`` is the ``after`` of the following page."""

    notifications: list[Notification]
    next: str | None


class RetriedOne(BaseModel):
    """What became of one of them."""

    id: str
    result: str
    code: str | None = None
    detail: str | None = None


class Retried(BaseModel):
    """What was, or would be, sent again."""

    dry_run: bool
    refused: int
    more: bool
    results: list[RetriedOne]


class Address(BaseModel):
    """Where a recipient is reached."""

    id: int
    tenant: str
    recipient: str
    channel: str
    address: str
    registered_at: str
    invalidated_at: str | None
    reason: str | None


class Addresses(BaseModel):
    """All of them."""

    addresses: list[Address]


class Recipient(BaseModel):
    """What is known of a recipient."""

    id: str
    tenant: str
    locale: str | None
    timezone: str | None
    created_at: str | None
    updated_at: str | None
    addresses: list[Address]


class Dropped(BaseModel):
    """How many addresses were dropped."""

    dropped: int


class Erased(BaseModel):
    """How many notifications lost what they said and whom they were for."""

    erased: int


class Unread(BaseModel):
    """How many copies are unread."""

    unread: int


class MarkedRead(Unread):
    """How many became read, and how many are left."""

    read: int


class Content(BaseModel):
    """What is said."""

    title: str | None
    text: str | None
    html: str | None
    data: dict[str, Any]


class Copy(BaseModel):
    """An in-app copy."""

    id: str
    seq: int
    event_id: str
    type: str
    content: Content
    subject: str | None
    thread: str | None
    priority: str
    created_at: str
    read_at: str | None


class InboxPage(BaseModel):
    """``next``: the ``before`` of the following page; ``cursor``: where a stream goes on."""

    notifications: list[Copy]
    next: int | None
    cursor: int
    unread: int


class Decided(BaseModel):
    """A notification after a person's decision."""

    model_config = ConfigDict(extra="allow")

    id: str
    status: str
    final: bool
