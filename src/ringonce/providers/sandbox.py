"""Sends nothing: a script says what each attempt comes to. For tests, demonstrations and dry runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ringonce.provider import (
    Address,
    ConfigError,
    Context,
    Features,
    InDoubt,
    Message,
    OutcomeClass,
    Provider,
    Rule,
    ScriptedRequest,
)

_SCRIPT = "the sandbox's script"

RULES: tuple[Rule, ...] = (
    Rule("sandbox.ok", OutcomeClass.ACCEPTED, _SCRIPT, step="ok"),
    Rule("sandbox.transient", OutcomeClass.TRANSIENT, _SCRIPT, step="transient"),
    Rule(
        "sandbox.rate_limited",
        OutcomeClass.RATE_LIMITED,
        _SCRIPT,
        step="rate_limited",
        retry_after=("text:^(.+)$",),
    ),
    Rule(
        "sandbox.dead_address",
        OutcomeClass.INVALID_RECIPIENT,
        _SCRIPT,
        step="invalid_recipient",
        text="^drop$",
        drop_address=True,
    ),
    Rule("sandbox.invalid_recipient", OutcomeClass.INVALID_RECIPIENT, _SCRIPT, step="invalid_recipient"),
    Rule("sandbox.blocked", OutcomeClass.BLOCKED, _SCRIPT, step="blocked"),
    Rule("sandbox.auth", OutcomeClass.AUTH, _SCRIPT, step="auth"),
    Rule("sandbox.not_implemented", OutcomeClass.NOT_IMPLEMENTED, _SCRIPT, step="not_implemented"),
    Rule("sandbox.disabled", OutcomeClass.DISABLED, _SCRIPT, step="disabled"),
    Rule("sandbox.payload", OutcomeClass.INVALID_PAYLOAD, _SCRIPT, step="payload"),
    Rule("sandbox.timeout", OutcomeClass.TRANSIENT, _SCRIPT, step="timeout", ambiguous=True),
    Rule("sandbox.hang", OutcomeClass.TRANSIENT, _SCRIPT, step="hang", ambiguous=True),
)

_NUMBER = r"[0-9]{1,6}(?:\.[0-9]{1,6})?"
_STEP = re.compile(
    rf"ok|transient|rate_limited(?::{_NUMBER})?|invalid_recipient(?::drop)?|blocked|auth|not_implemented|disabled"
    rf"|payload|timeout|hang|delay:{_NUMBER}"
)


@dataclass(frozen=True)
class SandboxOptions:
    """``script``: one step per attempt, the last one repeated, as a list or separated by commas.

    Steps: ``ok``, ``transient``, ``rate_limited[:SECONDS]``, ``invalid_recipient[:drop]``, ``blocked``, ``auth``,
    ``not_implemented``, ``disabled``, ``payload``, ``timeout`` (no verdict), ``hang`` (no answer until the timeout),
    ``delay:SECONDS`` (accepted after a while).
    """

    script: str | tuple[str, ...] = ("ok",)


class Sandbox(Provider):
    """Scripted answers."""

    name = "sandbox"
    title = "Sandbox"
    features = Features(html=True, data=True)
    in_doubt = InDoubt.RESEND
    second_send = "recorded under the same id"
    transport = "script"
    rules = RULES
    Options = SandboxOptions

    def __init__(self, options: SandboxOptions) -> None:
        """Check the script. Raises ConfigError naming the bad step."""
        super().__init__(options)
        given = options.script.split(",") if isinstance(options.script, str) else options.script
        self._script = tuple(step.strip() for step in given)
        for step in self._script:
            if not _STEP.fullmatch(step):
                raise ConfigError(
                    f'unknown step "{step}"',
                    field="script",
                    mend="steps: ok, transient, rate_limited:30, invalid_recipient, invalid_recipient:drop, blocked, "
                    "auth, not_implemented, disabled, payload, timeout, hang, delay:0.5",
                )
        if not self._script:
            raise ConfigError("the script is empty", field="script", mend='write script = "ok"')

    def request(self, message: Message, address: Address, context: Context) -> ScriptedRequest:
        """The step of this attempt: the first for the first, the last for all that come after it."""
        step = self._script[min(max(message.attempt, 1), len(self._script)) - 1]
        word, _, seconds = step.partition(":")
        if word == "delay":
            return ScriptedRequest(message.reference, "ok", float(seconds))
        if word == "hang":
            return ScriptedRequest(message.reference, step, context.timeout)
        return ScriptedRequest(message.reference, step)
