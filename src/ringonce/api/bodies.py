"""What is sent to us, for OpenAPI: the accepted structure comes from the contract itself, the rest from here."""

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


class ResumeIn(Strict):
    """Which part of a channel is to go on."""

    scope: str = Field(
        min_length=1, max_length=200, pattern=TEXT, description="As the channel's scopes name it."
    )


class CancelSubjectIn(CancelIn):
    """The subject that is withdrawn."""

    subject: str = Field(min_length=1, max_length=256, pattern=TEXT)
    tenant: str | None = Field(default=None, max_length=128, pattern=TEXT)


class WhichFailuresIn(CancelIn):
    """Which failures, and whether only to look (the default)."""

    ids: list[UUID] | None = Field(default=None, min_length=1, max_length=500)
    tenant: str | None = Field(default=None, max_length=128, pattern=TEXT)
    channel: str | None = Field(default=None, max_length=256, pattern=TEXT)
    code: str | None = Field(default=None, max_length=256, pattern=TEXT)
    type: str | None = Field(default=None, max_length=256, pattern=TEXT)
    since: Moment | None = None
    until: Moment | None = None
    limit: StrictInt = Field(default=100, ge=1, le=500)
    after: UUID | None = Field(default=None, description="The `next` of the batch before.")
    dry_run: StrictBool = True


class RetryFailuresIn(WhichFailuresIn):
    """``force``: also over attempts without a verdict, and with ids from ``sent``."""

    force: StrictBool = False


class DiscardFailuresIn(WhichFailuresIn):
    """``reason`` is kept in the timeline."""

    reason: str = Field(default="", max_length=500, pattern=TEXT)


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


class TicketIn(Strict):
    """How long the ticket is good."""

    seconds: StrictInt = Field(default=3_600, ge=1, le=86_400)


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
