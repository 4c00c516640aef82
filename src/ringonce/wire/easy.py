"""One HTTP exchange on one reusable libcurl handle: how it is set up, and what came of it.

What is known about libcurl and holds here (each line has a test at the level of sockets):

- With ``POSTFIELDS`` libcurl sends a request again by itself when a reused connection dies without an answer.
  Bodies therefore go through ``READFUNCTION`` without a seek function: libcurl can not rewind, and says so
  (error 65). A request without a body needs no rewinding, so ``PREREQFUNCTION`` refuses any second start.
- ``REQUEST_SIZE`` counts the bytes that were written to the connection: 0 means certainly not sent.
- A connection idle for less than a second is not looked at before it is used again: ``links`` does that.
- ``OPENSOCKETFUNCTION`` sees every address before it is connected to, however it was spelled;
  ``PREREQFUNCTION`` sees the peer of a connection taken from the pool.
"""

from __future__ import annotations

import io
import socket
from functools import lru_cache
from typing import TYPE_CHECKING

import pycurl

from ringonce.model.exchange import Fault, HttpAnswer, HttpRequest, NoAnswer

if TYPE_CHECKING:
    from ringonce.model.exchange import Answer
    from ringonce.ports import Deliver
    from ringonce.wire.guard import Guard
    from ringonce.wire.links import Links

MAX_IDLE = 5
"""Seconds after which an idle connection is not used again (STORE: Send)."""

_GO, _ABORT = int(pycurl.PREREQFUNC_OK), int(pycurl.PREREQFUNC_ABORT)
_TAKEN, _BAD = int(pycurl.SOCKOPT_OK), int(pycurl.SOCKET_BAD)
_CERTIFICATE = {
    pycurl.E_PEER_FAILED_VERIFICATION,
    pycurl.E_SSL_CACERT_BADFILE,
    pycurl.E_SSL_ISSUER_ERROR,
    pycurl.E_SSL_INVALIDCERTSTATUS,
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH,
}
_NEVER_BEGAN = {pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_BAD_FUNCTION_ARGUMENT}
STOPPED = -1
"""Stands for a libcurl error code: the exchange was given up because the wire closes."""


class _Lent:
    """A socket on loan: pycurl duplicates its descriptor and drops this object, which closes the original."""

    __slots__ = ("_socket",)

    def __init__(self, lent: socket.socket) -> None:
        self._socket = lent

    def fileno(self) -> int:
        return self._socket.fileno()

    def __del__(self) -> None:
        self._socket.close()


class Exchange:
    """A libcurl handle and the request that it carries now.

    A handle is set up once for all requests of its ``kind`` (guarded, HTTP/2); ``load`` changes the rest.
    """

    __slots__ = (
        "_announced",
        "_began",
        "_body",
        "_connectable",
        "_dead",
        "_fresh",
        "_goaway",
        "_guard",
        "_head",
        "_headers",
        "_links",
        "_refused",
        "_room",
        "_shape",
        "_sockets",
        "_source",
        "_spelled",
        "_starts",
        "_stream_refused",
        "_times",
        "_truncated",
        "_url",
        "curl",
        "deliver",
        "kind",
        "token",
    )

    def __init__(
        self,
        kind: tuple[bool, bool],
        guard: Guard,
        links: Links,
        ca: tuple[str | None, str | None],
        agent: str,
    ) -> None:
        self.kind = kind
        self.token: object = None
        self.deliver: Deliver | None = None
        self._guard = guard
        self._links = links
        # What the handle is set to; setting all of it again costs as much as libcurl's work on a request.
        self._fresh = False
        self._url = ""
        self._shape = self._spelled = ""
        self._announced = -1
        self._headers: tuple[tuple[str, str], ...] | None = None
        self._times = (0.0, 0.0)
        self._began = 0.0
        self._source = io.BytesIO()
        self._sockets: list[int] = []
        self._dead = False
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._room = 0
        self._starts = 0
        self._truncated = False
        self._refused: str | None = None
        self._connectable = False
        self._stream_refused = False
        self._goaway = False
        guarded, http2 = kind
        curl = self.curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.NOPROGRESS, 1)
        curl.setopt(pycurl.PROXY, "")  # also switches the environment's proxies off
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.MAXAGE_CONN, MAX_IDLE)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        if ca[0] is not None:
            curl.setopt(pycurl.CAINFO, ca[0])
        if ca[1] is not None:
            curl.setopt(pycurl.CAPATH, ca[1])
        curl.setopt(pycurl.USERAGENT, agent)
        curl.setopt(pycurl.HEADERFUNCTION, self._head.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._write)
        curl.setopt(pycurl.READFUNCTION, self._source.read)
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._opened)
        curl.setopt(pycurl.PREREQFUNCTION, self._begin)
        if guarded:
            curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open)
        if http2:
            curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
            curl.setopt(pycurl.PIPEWAIT, 1)
            # Only libcurl's own words tell a refused stream from a broken one.
            curl.setopt(pycurl.VERBOSE, 1)
            curl.setopt(pycurl.DEBUGFUNCTION, self._listen)
        else:
            curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)

    def load(self, request: HttpRequest, token: object, deliver: Deliver, now: float) -> None:
        """Make the handle ready for ``request``. ``now``: monotonic seconds.

        Raises:
            ValueError: libcurl can not carry it (a line break in a header, an address with a null byte).
        """
        self.token = token
        self.deliver = deliver
        self._began = now
        self._room = request.max_answer
        curl = self.curl
        if self._fresh:
            self._fresh = False
            curl.setopt(pycurl.FRESH_CONNECT, 0)
        url, headers, body = request.url, request.headers, request.body
        if url != self._url:
            curl.setopt(pycurl.URL, url.encode())
            self._url = url
        if request.method != self._spelled or bool(body) is not (self._announced > 0):
            self._spell(request.method, bool(body))
        if self._shape == "POST":
            if len(body) != self._announced:
                curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
                self._announced = len(body)
            # Takes the place of the last body, from its beginning, without a copy.
            self._source.__init__(body)  # type: ignore[misc]
        if headers != self._headers:
            curl.setopt(pycurl.HTTPHEADER, _header_lines(headers))
            self._headers = headers
        if request.timeout != self._times[0] or request.connect_timeout != self._times[1]:
            curl.setopt(pycurl.TIMEOUT_MS, max(1, int(request.timeout * 1000)))
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(request.connect_timeout * 1000)))
            self._times = request.timeout, request.connect_timeout

    def _spell(self, method: str, has_body: bool) -> None:  # noqa: FBT001 - one call, right above
        """Set the method, and what kind of request libcurl is to make of it."""
        curl = self.curl
        if method == "POST" or has_body:
            curl.setopt(pycurl.POST, 1)
            shape = "POST"
        elif method == "HEAD":
            curl.setopt(pycurl.NOBODY, 1)
            shape = "HEAD"
        else:
            curl.setopt(pycurl.HTTPGET, 1)
            shape = "GET"
        if method == shape:
            curl.unsetopt(pycurl.CUSTOMREQUEST)
        elif method.isascii() and method.isalpha():
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        else:
            raise ValueError("the method is not a word")
        self._shape, self._spelled, self._announced = shape, method, -1

    def overdue(self, now: float) -> bool:
        """True: its time is over. libcurl does not know from now on; the caller ends it, if no answer does."""
        if now - self._began < self._times[0]:
            return False
        self.curl.setopt(pycurl.TIMEOUT_MS, 0)
        self._times = (0.0, 0.0)
        return True

    def again(self) -> bool:
        """True: nothing was sent, the pooled connection was dead; the handle is ready to go on a new one."""
        if not self._dead:
            return False
        self._rewind()
        self._fresh = True
        self.curl.setopt(pycurl.FRESH_CONNECT, 1)
        return True

    def _rewind(self) -> None:
        self._head.clear()
        self._body.clear()
        self._starts = 0
        if self._sockets:
            self._sockets.clear()
        self._truncated = self._connectable = self._dead = self._stream_refused = self._goaway = False
        self._refused = None

    # What libcurl calls.

    def _open(self, _purpose: int, address: tuple[int, int, int, tuple[str, int]]) -> _Lent | int:
        family, kind, protocol, where = address
        if not self._guard.permits(where[0]):
            self._refused = where[0]
            return _BAD
        self._connectable = True
        return _Lent(socket.socket(family, kind, protocol))

    def _opened(self, descriptor: int, _purpose: int) -> int:
        self._sockets.append(descriptor)
        return _TAKEN

    def _begin(self, peer: str, local: str, peer_port: int, local_port: int) -> int:
        self._starts += 1
        if self._starts > 1:
            return _ABORT
        guarded, shared = self.kind
        if guarded and not self._guard.permits(peer):
            self._refused = peer
            self._connectable = False
            return _ABORT
        ends = (peer, peer_port, local, local_port)
        if self._sockets:
            self._links.opened(self._sockets, ends)
        elif self._links.dead(ends, shared):
            self._dead = True
            return _ABORT
        return _GO

    def _write(self, data: bytes) -> int:
        size = len(data)
        if size > self._room:
            self._body.append(data[: self._room])
            self._room = 0
            self._truncated = True
            return 0
        self._room -= size
        self._body.append(data)
        return size

    def _listen(self, kind: int, text: bytes) -> None:
        if kind == pycurl.INFOTYPE_TEXT:
            # How it begins decides: the headers of our own request are told in other lines.
            if text.startswith(b"HTTP/2 stream ") and b" refused by server" in text:
                self._stream_refused = True
            elif text.startswith(b"received GOAWAY"):
                self._goaway = True

    # What came of it.

    def answer(self, code: int, words: str = "") -> Answer:
        """Tell it as a value: ``code`` is libcurl's result (0: complete), ``words`` its message."""
        told = b"".join(self._head)
        head = _common_head(told) if len(told) <= _COMMON else parse_head(told)
        if head is not None:
            status, headers = head[0], dict(head[1])
            if code == 0 or self._truncated:
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                return HttpAnswer(status, headers, body, self._truncated)
            if 200 <= status < 300:  # noqa: PLR2004 - the family of success
                return NoAnswer(
                    Fault.TRUNCATED_BODY_AFTER_2XX, sent=True, detail=f"status {status}, {_why(code)}"
                )
            return HttpAnswer(status, headers, b"".join(self._body), truncated=True)
        sent = int(self.curl.getinfo(pycurl.REQUEST_SIZE)) > 0
        if self._refused is not None and not self._connectable:
            return NoAnswer(
                Fault.ADDRESS_REFUSED,
                sent=False,
                detail=f"{self._refused} is not public (exceptions: security.allow_private_networks)",
            )
        if self._stream_refused:
            # RFC 9113 sections 6.8 and 8.7: such a stream was not processed in any way.
            return NoAnswer(
                Fault.GOAWAY if self._goaway else Fault.REFUSED_STREAM, sent=False, detail=_why(code)
            )
        return NoAnswer(self._fault(code, sent=sent), sent=sent, detail=_detail(code, words))

    def _fault(self, code: int, *, sent: bool) -> Fault:
        if sent:
            if code in {pycurl.E_OPERATION_TIMEDOUT, STOPPED}:
                return Fault.READ_TIMEOUT
            return Fault.WRITE_RESET if code == pycurl.E_SEND_ERROR else Fault.RESET_BEFORE_STATUS
        if code == STOPPED or code in _NEVER_BEGAN:
            return Fault.NOT_STARTED
        if code == pycurl.E_COULDNT_RESOLVE_HOST:
            return Fault.DNS_NXDOMAIN
        if code in _CERTIFICATE:
            return Fault.TLS_CERT_INVALID
        if code == pycurl.E_OPERATION_TIMEDOUT:
            looked_up = self._starts or float(self.curl.getinfo(pycurl.NAMELOOKUP_TIME)) > 0
            return Fault.CONNECT_TIMEOUT if looked_up else Fault.DNS_TIMEOUT
        # Not a byte was written: the connection, or the handshake on it, did not come about or died unused.
        return Fault.WRITE_RESET if self._starts else Fault.CONNECT_REFUSED

    def unload(self) -> None:
        """Let go of the request, so that an idle handle holds no one's message."""
        self.token = self.deliver = None
        self._rewind()
        self._source.__init__()  # type: ignore[misc]


def parse_head(head: bytes) -> tuple[int, dict[str, str]] | None:
    """Status and headers of the final answer, or None: there is none, or its head is not complete.

    Informational answers (1xx) come first and are skipped; trailers come after and are ignored.
    """
    told = iter(head.split(b"\n")[:-1])  # libcurl hands over whole lines only
    for first in told:
        status = _status(first)
        if not status:
            return None
        headers: dict[str, str] = {}
        name = ""
        for line in told:
            if line in _END:
                break
            if line[0] in b" \t":
                headers[name] = f"{headers.get(name, '')} {line.decode('latin-1').strip()}".strip()
                continue
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        else:
            return None
        if status >= 200:  # noqa: PLR2004 - final
            return status, headers
    return None


_END = (b"\r", b"")
_COMMON = 1024
# Within a second a server says the same of nearly every answer, its date included.
_common_head = lru_cache(maxsize=64)(parse_head)


def _status(line: bytes) -> int:
    """The status in the first line of a head; 0: it is none."""
    parts = line.split(None, 2)
    known = line.startswith(b"HTTP/") and len(parts) > 1 and parts[1].isdigit()
    return int(parts[1]) if known else 0


def _header_lines(headers: tuple[tuple[str, str], ...]) -> list[str] | list[bytes]:
    # Libcurl would announce a form and wait for "100 Continue"; nobody asked for either.
    lines = ["Expect:"]
    for name, value in headers:
        lines.append(f"{name}: {value}" if value else f"{name};")
    text = "\n".join(lines)
    if text.count("\n") != len(headers) or "\r" in text or "\0" in text:
        raise ValueError("a header holds a line break or a null byte")
    if "\ncontent-type:" not in text.lower():
        lines.append("Content-Type:")
    return lines if text.isascii() else [line.encode() for line in lines]


def _detail(code: int, words: str) -> str:
    """For people. Libcurl's own words name hosts and ports only where they speak of certificates."""
    return f"{_why(code)}: {words}" if code in _CERTIFICATE and words else _why(code)


def _why(code: int) -> str:
    if code == STOPPED:
        return "given up at shutdown"
    return f"{_WORDS.get(code, 'the exchange broke')} (libcurl {code})"


_WORDS = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "not HTTP",
    pycurl.E_URL_MALFORMAT: "the URL is malformed",
    pycurl.E_COULDNT_RESOLVE_HOST: "the host name does not resolve",
    pycurl.E_COULDNT_CONNECT: "no connection",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "the answer is not HTTP",
    pycurl.E_PARTIAL_FILE: "the body ended early",
    pycurl.E_OPERATION_TIMEDOUT: "time is over",
    pycurl.E_SSL_CONNECT_ERROR: "the TLS handshake failed",
    pycurl.E_GOT_NOTHING: "closed without an answer",
    pycurl.E_SEND_ERROR: "the connection broke while writing",
    pycurl.E_RECV_ERROR: "the connection broke while reading",
    pycurl.E_PEER_FAILED_VERIFICATION: "the certificate is not valid",
    pycurl.E_SSL_CACERT_BADFILE: "the file of trusted certificates can not be read",
    pycurl.E_SEND_FAIL_REWIND: "a reused connection died without an answer",
    pycurl.E_ABORTED_BY_CALLBACK: "a reused connection died without an answer",
}
