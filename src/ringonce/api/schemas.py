"""The JSON forms for OpenAPI: the accepted structure comes from the contract itself, the answers from here."""

from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from ringonce.engine.contract import Body

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

    by: str = Field(default="api", min_length=1, max_length=128)


class RetryIn(CancelIn):
    """``force`` also from ``sent``, and over attempts without a verdict."""

    force: bool = False


class ResolveIn(CancelIn):
    """What became of the doubt."""

    verdict: str = Field(description="sent, not_sent or assumed")


class CancelSubjectIn(CancelIn):
    """The subject that is withdrawn."""

    subject: str = Field(min_length=1, max_length=256)
    tenant: str = Field(default="", max_length=128)


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


class Decided(BaseModel):
    """A notification after a person's decision."""

    model_config = ConfigDict(extra="allow")

    id: str
    status: str
    final: bool
