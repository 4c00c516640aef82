"""Field reports about keys, plain texts and mixed versions. The ids are those of docs/reference/field-reports.md."""

import base64
import json
import os
from dataclasses import replace

import pytest

from ringonce.app import Ringonce
from ringonce.model.exchange import HttpRequest
from ringonce.model.notification import Content
from ringonce.providers.telegram import Telegram, TelegramOptions
from ringonce.providers.webpush import WebPush, WebPushOptions
from ringonce.vendors.webpush import PushService
from tests.field.test_mail import built, parsed
from tests.providers.samples import address, context, message
from tests.requirements.conftest import Start

MARKED = "Tom & <b>Jerry</b> _x_ *y* [z](u) `c` &lt;"


def test_conf_02_keys_and_signatures_have_a_fixed_width() -> None:
    """CONF-02: a key with a leading zero, or a signature with one, was written too short and refused.

    Sources: ohcnetwork/care#782, web-push-libs/web-push#532. Here: a private key that begins with zero bytes works,
    its public key has 65 bytes, and each of 300 signatures has 64.
    """
    key = base64.urlsafe_b64encode(bytes(2) + bytes(range(1, 31))).decode().rstrip("=")
    provider = WebPush(WebPushOptions(vapid_private_key=key, subject="mailto:ops@example.com"))
    assert len(base64.urlsafe_b64decode(provider.public_key + "==")) == 65
    with PushService() as server:
        to = address(provider.address(server.subscribe(provider.public_key)))
    signatures = set()
    for n in range(300):
        later = replace(context(), now=context().now + n * 60_000_000, entropy=os.urandom)
        request = provider.request(message(), to, later)
        assert isinstance(request, HttpRequest)
        token = (
            {name.lower(): value for name, value in request.headers}["authorization"]
            .partition("t=")[2]
            .partition(",")[0]
        )
        signatures.add(token.rpartition(".")[2])
    assert {len(base64.urlsafe_b64decode(text + "==")) for text in signatures} == {64}


@pytest.mark.parametrize("length", [len(MARKED), 4096])
def test_encd_04_plain_text_stays_plain(length: int) -> None:
    """ENCD-04: a tag was cut in the middle and refused, or plain text was shown with escapes.

    Sources: enviodev/hyperindex#1398, statping-ng/statping-ng#190. Here: a text is sent as plain text, without a mode
    of markup and without escapes, in Telegram and in mail.
    """
    text = MARKED.ljust(length, "x")
    provider = Telegram(TelegramOptions(token="1:x"))
    request = provider.request(message(Content(text=text)), address("42"), context())
    assert isinstance(request, HttpRequest)
    body = json.loads(request.body)
    assert (body["text"], "parse_mode" in body) == (text, False)
    mail = parsed(built(Content("t", text)))
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().rstrip("\r\n") == text


async def test_ops_04_an_old_worker_leaves_alone_what_it_does_not_know(start: Start) -> None:
    """OPS-04: during an upgrade old workers took what new ones had written, and failed it within seconds.

    Sources: SocialGouv/iterion#510, RamaAditya49/titen#148, nesquena/backburner#154. Here: rows of a channel that a
    program does not know stay as they are, can be read by it, and are sent by one that knows it.
    """
    system = await start(box={"provider": "sandbox"}, new={"provider": "sandbox"})
    known, unknown = await system.accept("box", "a"), await system.accept("new", "b")
    old = {**system.config, "channels": {"box": system.config["channels"]["box"]}}
    async with Ringonce(old) as ring:
        await ring.run_worker(drain=True)
        assert {row.id for row in await ring.search()} == {known, unknown}
        assert (await ring.get(unknown)).row.state.status.value == "pending"
        assert await ring.explain(unknown)
        assert (await ring.get(known)).row.state.status.value == "sent"
    await system.work()
    assert (await system.view(unknown))["status"] == "sent"
