"""Just enough of HTTP/2 (RFC 9113) to answer, refuse and break a request by hand. No header is decoded."""

from tests.servers.sockets import Peer

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
REFUSED_STREAM = 7
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATUS_200 = b"\x88"  # RFC 7541 appendix A, entry 8


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class Http2Peer:
    """The server's side of an HTTP/2 connection."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        assert self._take(len(PREFACE)) == PREFACE
        peer.send(frame(SETTINGS, 0, 0))

    def _take(self, count: int) -> bytes:
        while len(self.peer.buffer) < count:
            data = self.peer.sock.recv(65536)
            if not data:
                return b""
            self.peer.buffer += data
        taken, self.peer.buffer = self.peer.buffer[:count], self.peer.buffer[count:]
        return taken

    def read(self) -> tuple[int, int, int, bytes] | None:
        """The next frame: kind, flags, stream, payload; None when the client has closed."""
        head = self._take(9)
        if not head:
            return None
        length = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big"), self._take(length) if length else b""

    def request(self) -> tuple[int, bytes] | None:
        """The stream and body of the next complete request, recorded; None when the client has closed."""
        bodies: dict[int, bytes] = {}
        while (got := self.read()) is not None:
            kind, flags, stream, payload = got
            if kind == SETTINGS and not flags & ACK:
                self.peer.send(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.peer.send(frame(PING, ACK, 0, payload))
            elif kind in {HEADERS, DATA}:
                bodies[stream] = bodies.get(stream, b"") + (payload if kind == DATA else b"")
                if flags & END_STREAM:
                    self.peer.server.record(bodies[stream])
                    return stream, bodies[stream]
        return None

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        """Send one frame."""
        self.peer.send(frame(kind, flags, stream, payload))

    def ok(self, stream: int, body: bytes = b"ok") -> None:
        """Answer 200."""
        self.send(HEADERS, END_HEADERS, stream, STATUS_200)
        self.send(DATA, END_STREAM, stream, body)
