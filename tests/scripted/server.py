"""The server: takes requests on loopback, and answers them by the script."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any

from scripted.answers import Answer, Message
from scripted.failures import BrokenStream, ErrorInStream, HttpError, Late, Raw, Reset
from scripted.received import Received, redact, redact_path
from scripted.wire import Wire
from scripted.wire_anthropic import AnthropicWire
from scripted.wire_google import GoogleWire
from scripted.wire_openai import OpenAIWire

Script = Sequence[Answer] | Callable[[Received], Answer]
WIRES: tuple[Wire, ...] = (OpenAIWire(), AnthropicWire(), GoogleWire())


class ScriptedServer:
    """Answers the requests that come by a script, one answer after the other or by what is asked.

    A request that the script has no answer for, at a path that nobody speaks, or for which the script raises, gets a
    400 (nothing retries that), and leaving the `with` block raises an AssertionError that names it.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[Received] = []
        self.closing = threading.Event()
        self._script = script
        self._errors: list[BaseException] = []
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._http = _Loopback(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """What Anthropic's and Google's clients take as base URL; OpenAI's takes `url + "/v1"`."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self._errors:
            raise AssertionError(f"the script could not answer: {self._errors[0]}") from self._errors[0]

    def close(self) -> None:
        """Whoever still waits for an answer gets none; further connections are refused."""
        if self.closing.is_set():
            return
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def connected(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._connections.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections.discard(connection)

    def choose(self, request: Received) -> Answer | None:
        """The script's answer, or None where there is none."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        try:
            if callable(self._script):
                return self._script(request)
            if number < len(self._script):
                return self._script[number]
            raise LookupError(f"request {number + 1} of a script with {len(self._script)} answers")
        except BaseException as error:
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self._errors.append(error)


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # HTTPServer looks up the host's name here, which without a name server takes seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keep-alive and chunks, as the providers have them

        def handle(self) -> None:
            # A client that gives up, or a server that closes: the test knows, and a traceback would tell nobody.
            with server.connected(self.connection), contextlib.suppress(ConnectionError):
                super().handle()

        def do_POST(self) -> None:
            try:
                _Exchange(self, server).run()
            except ConnectionError:
                raise
            except Exception as error:
                server.fail(error)
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read `requests`; a log on stderr only disturbs."""

    return Handler


class _Exchange:
    """One request and its answer."""

    def __init__(self, http: BaseHTTPRequestHandler, server: ScriptedServer) -> None:
        self.http = http
        self.server = server
        data = http.rfile.read(int(http.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        self.request = Received(http.command, redact_path(http.path), redact(dict(http.headers.items())), body)

    def run(self) -> None:
        wire = next((wire for wire in WIRES if wire.speaks(self.http.path)), None)
        answer = self.server.choose(self.request)
        if wire is None:
            self.server.fail(LookupError(f"no wire format at {self.request.path}"))
        if wire is None or answer is None:
            self._json(400, {"error": {"message": "the script has no answer for this request"}})
        else:
            self._answer(wire, answer)

    def _answer(self, wire: Wire, answer: Answer) -> None:
        match answer:
            case Late():
                self.server.closing.wait(answer.seconds)
                self._answer(wire, answer.answer)
            case Message() if self.request.stream:
                self._begin_stream()
                self._chunks(wire.stream(answer, self.request))
                self._end_stream()
            case Message():
                self._json(200, wire.plain(answer, self.request))
            case HttpError():
                status, body = wire.error(answer.reason, self.request)
                self._json(status, body, retry_after=answer.retry_after)
            case Raw():
                self._send(answer.status, answer.body, answer.content_type)
            case Reset() if self.request.stream:
                events = wire.stream(answer.answer, self.request)
                self._begin_stream()
                self._chunks(events[: len(events) // 2])
                self._reset()
            case Reset():
                data = json.dumps(wire.plain(answer.answer, self.request)).encode()
                self._head(200, "application/json", {"Content-Length": str(len(data))})
                self.http.wfile.write(data[: len(data) // 2])
                self._reset()
            case BrokenStream():
                self._begin_stream()
                self._chunks(wire.stream(answer.answer, self.request)[: answer.events])
                if answer.how == "reset":
                    self._reset()
                elif answer.how == "close":
                    self.http.close_connection = True
                else:
                    self._end_stream()
            case ErrorInStream():
                self._begin_stream()
                self._chunks(wire.stream(answer.answer, self.request)[: answer.events])
                self._chunks([wire.error_event(answer.reason, self.request)])
                self._end_stream()
            case _:
                raise TypeError(f"no answer of a script: {answer!r}")

    def _json(self, status: int, body: dict[str, Any], *, retry_after: float | None = None) -> None:
        more = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        self._send(status, json.dumps(body).encode(), "application/json", more)

    def _send(self, status: int, data: bytes, content_type: str, more: dict[str, str] | None = None) -> None:
        self._head(status, content_type, {"Content-Length": str(len(data))} | (more or {}))
        self.http.wfile.write(data)

    def _head(self, status: int, content_type: str, headers: dict[str, str]) -> None:
        self.http.send_response(status)
        for name, value in {"Content-Type": content_type, "request-id": "req_1", **headers}.items():
            self.http.send_header(name, value)
        self.http.end_headers()

    def _begin_stream(self) -> None:
        self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})

    def _chunks(self, events: Sequence[bytes]) -> None:
        for data in events:
            self.http.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _end_stream(self) -> None:
        self.http.wfile.write(b"0\r\n\r\n")

    def _reset(self) -> None:
        # Closing without lingering sends a reset. The socket server would say an orderly goodbye first, so the
        # descriptor is taken from it.
        self.http.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.http.connection.detach())
        self.http.close_connection = True
