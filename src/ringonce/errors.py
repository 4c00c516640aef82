"""The tree of exceptions. Blame is the type: the caller, the configuration, the database, or us.

::

    RingonceError
    ├── InputError              the caller's input: names the field and the mend; nothing was stored
    │   ├── PayloadTooLarge
    │   └── TemplateError       a template, or what it needs of the event's data: names file, part and line
    ├── ConflictError           the same event id with another body, or a step that the state forbids
    ├── NotFoundError
    ├── ForgedError             a callback without a signature that its vendor made, or made just now
    ├── ConfigError             ringonce.toml, RINGONCE_* or a provider's options
    ├── StoreError              the database
    │   ├── StoreUnavailable    unreachable, read-only, out of space: try again later
    │   ├── SchemaError         migrations missing, or a newer schema than this program knows
    │   └── SqliteBuildError    an SQLite build that could lose commits on this file
    └── IllegalTransition       a bug of ours: the transition table has no such entry
"""

from __future__ import annotations


class RingonceError(Exception):
    """Base of all. ``code`` has a row in ``docs/reference/errors.md``; ``mend`` says what to do."""

    code = "ringonce_error"

    def __init__(
        self, message: str, *, mend: str = "", field: str | None = None, code: str | None = None
    ) -> None:
        """Keep the message, the mend and the name of the field that is to blame."""
        super().__init__(message)
        self.message = message
        self.mend = mend
        self.field = field
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        """Field, message and mend in one line."""
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.message}" + (f" ({self.mend})" if self.mend else "")


class InputError(RingonceError):
    """The caller's input is wrong; nothing was stored."""

    code = "invalid_input"


class PayloadTooLarge(InputError):  # noqa: N818 - the name of the HTTP status
    """The input is larger than the limit."""

    code = "payload_too_large"


class TemplateError(InputError):
    """A template can not be used, or not with these data; the message names file, part and line."""

    code = "template_invalid"


class ConflictError(RingonceError):
    """The request contradicts what is stored."""

    code = "conflict"


class NotFoundError(RingonceError):
    """There is no such thing (for this tenant)."""

    code = "not_found"


class ForgedError(RingonceError):
    """A callback does not carry a valid and timely signature of its vendor; nothing was done."""

    code = "forged"

    def __init__(self, message: str = "the signature is missing, wrong or too old") -> None:
        """Say always the same: what exactly is wrong helps nobody but a forger."""
        super().__init__(message, mend="compare the channel's secret with the vendor's page, and the clocks")


class ConfigError(RingonceError):
    """The configuration is wrong."""

    code = "invalid_config"


class StoreError(RingonceError):
    """The database."""

    code = "store_error"


class StoreUnavailable(StoreError):  # noqa: N818 - reads better than StoreUnavailableError
    """The database can not be reached or written now; nothing is lost, try again."""

    code = "store_unavailable"


class SchemaError(StoreError):
    """The database's schema is not the one that this program needs."""

    code = "schema_mismatch"


class SqliteBuildError(StoreError):
    """This SQLite build could lose committed transactions on this file."""

    code = "sqlite_build_unsafe"


class IllegalTransition(RingonceError):  # noqa: N818 - the field's standard term
    """The transition table has no entry for this status and event: a bug."""

    code = "illegal_transition"
