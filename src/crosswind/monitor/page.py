"""A page that shows a join at work, live: static files, and the state as server-sent events.

It is for whoever sits at this machine and for nobody else. The server listens on the loopback
address only, and answers only to requests that name it: a page of another site that has its own name
point here (DNS rebinding) gets nothing.
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from types import TracebackType
from typing import Any, Self

from crosswind.errors import MonitorError
from crosswind.monitor.connections import bound_connections
from crosswind.monitor.recorder import Recorder

__all__ = ["LOOPBACK", "LivePage"]

LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost")
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
_EVENT_S = 0.25
"""How often the state is sent: often enough to look alive, seldom enough to cost nothing."""
_VIEWERS_MAX = 16
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"


class LivePage:
    """Serves the page from threads of its own. A context manager.

    Parameters
    ----------
    recorder : Recorder
        What is shown.
    port : int
        0: any that is free.

    Attributes
    ----------
    address : str
        Where it is found.

    Raises
    ------
    MonitorError
        The port is taken, or may not be used.
    """

    def __init__(self, recorder: Recorder, port: int) -> None:
        self._stop = threading.Event()
        try:
            self._server = _Server(recorder, self._stop, port)
        except OSError as error:
            raise MonitorError.of_port("page", LOOPBACK, port, "--ui-port", error) from error
        self.port = int(self._server.server_address[1])
        self.address = f"http://{LOOPBACK}:{self.port}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="page", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, recorder: Recorder, stop: threading.Event, port: int) -> None:
        self.recorder, self.stop = recorder, stop
        self.viewers = threading.BoundedSemaphore(_VIEWERS_MAX)
        super().__init__((LOOPBACK, port), _Handler)
        bound_connections(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a browser that goes away in the middle is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30
    server_version = "crosswind"
    sys_version = ""

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.headers.get("Host") not in {*(f"{name}:{port}" for name in _NAMES), *(_NAMES if port == 80 else ())}:
            self._say(HTTPStatus.MISDIRECTED_REQUEST, f"this page is at http://{LOOPBACK}:{port}/ only\n")
            return
        path = self.path.partition("?")[0]
        if path == "/events":
            self._send_events()
        elif path == "/state":
            self._send(json.dumps(self.server.recorder.state()).encode(), "application/json")
        elif path in _FILES:
            name, kind = _FILES[path]
            self._send(resources.files("crosswind.monitor").joinpath(name).read_bytes(), kind)
        else:
            self._say(HTTPStatus.NOT_FOUND, "there is / and nothing else\n")

    def _send_events(self) -> None:
        if not self.server.viewers.acquire(blocking=False):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, f"{_VIEWERS_MAX} windows show this page already; close one\n")
            return
        try:
            self._begin(HTTPStatus.OK, "text/event-stream", None)
            while True:
                state = self.server.recorder.state()
                self.wfile.write(f"data: {json.dumps(state)}\n\n".encode())
                self.wfile.flush()
                if self.server.stop.wait(_EVENT_S):
                    # What happened since the last one, the end above all.
                    self.wfile.write(f"data: {json.dumps(self.server.recorder.state())}\n\n".encode())
                    return
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self.server.viewers.release()

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(text.encode(), "text/plain; charset=utf-8", status)

    def _send(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._begin(status, kind, len(body))
        self.wfile.write(body)

    def _begin(self, status: HTTPStatus, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: requests are nothing to report."""
