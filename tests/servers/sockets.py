"""A TCP server whose behaviour is a plain function over one connection: for tests at the level of bytes."""

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator

WAIT = 30.0


class Peer:
    """The server's side of one connection. ``number`` counts connections from 1."""

    def __init__(self, sock: socket.socket, number: int, server: "RawServer") -> None:
        self.sock = sock
        self.number = number
        self.server = server
        self.buffer = b""

    def line(self) -> bytes:
        """One line without its end; b"" when the client has closed."""
        return self.until(b"\r\n")

    def until(self, mark: bytes) -> bytes:
        """Everything before ``mark``; b"" when the client has closed."""
        while mark not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self.buffer += data
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def request(self) -> bytes:
        """One HTTP request, recorded in ``server.received``; b"" when the client has closed."""
        head = self.until(b"\r\n\r\n")
        if not head:
            return b""
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(self.buffer) < length:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self.buffer += data
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        self.server.record(head + b"\r\n\r\n" + body)
        return head + b"\r\n\r\n" + body

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.sendall(data)

    def ok(self, body: bytes = b"ok") -> None:
        """Answer 200."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on in TLS."""
        self.sock = self.server.wrap(self.sock, context)

    def until_closed(self) -> None:
        """Hold the connection until the client closes it or the server stops."""
        with contextlib.suppress(OSError):
            while self.sock.recv(65536):
                pass


class RawServer:
    """Runs ``serve(peer)`` in a thread for each connection; closes the connection when it returns."""

    def __init__(self, serve: Callable[[Peer], None], context: ssl.SSLContext | None = None) -> None:
        self.received: list[bytes] = []
        self.connections = 0
        self._serve = serve
        self._context = context
        self._changed = threading.Condition()
        self._socks: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens, by address."""
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def record(self, data: bytes) -> None:
        """Remember what was received."""
        with self._changed:
            self.received.append(data)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[["RawServer"], bool]) -> None:
        """Block until ``condition(server)``; it is looked at whenever something was received or closed."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), WAIT), "the server waited in vain"

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._wake], [], [])
            if self._wake in ready:
                return
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.connections += 1
                self._socks.append(sock)
                self._changed.notify_all()
            thread = threading.Thread(target=self._run, args=(sock, self.connections))
            self._threads.append(thread)
            thread.start()

    def _run(self, sock: socket.socket, number: int) -> None:
        try:
            if self._context is not None:
                sock = self.wrap(sock, self._context)
            self._serve(Peer(sock, number, self))
        except OSError:
            pass  # the client went away, or the test is over
        finally:
            sock.close()
            with self._changed:
                self._changed.notify_all()

    def wrap(self, raw: socket.socket, context: ssl.SSLContext) -> socket.socket:
        """The server's side of TLS on a connection."""
        sock = context.wrap_socket(raw, server_side=True)
        with self._changed:
            self._socks.remove(raw)
            self._socks.append(sock)
        return sock

    def stop(self) -> None:
        """Close everything and join all threads."""
        self._waker.send(b"x")
        self._thread.join()
        self._listener.close()
        with self._changed:
            socks = list(self._socks)
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT)
        for sock in socks:
            sock.close()
        self._wake.close()
        self._waker.close()


@contextlib.contextmanager
def serving(serve: Callable[[Peer], None], context: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """A RawServer for the time of a block."""
    server = RawServer(serve, context)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port where a connection is never accepted and never refused: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
