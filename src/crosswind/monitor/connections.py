"""A bound on the threads of a server that gives each connection one."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

__all__ = ["CONNECTIONS_MAX", "bound_connections"]

CONNECTIONS_MAX = 64
"""Those of all viewers, of which browsers hold some more than they use, and no more."""

_IDLE_S = 30
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def bound_connections(server: Any) -> None:
    """Let ``server`` hold :data:`CONNECTIONS_MAX` connections at once, and none that says nothing for long.

    Others are turned away, by the thread that listens.

    Parameters
    ----------
    server : socketserver.ThreadingMixIn
        The server, ours or a library's.
    """
    free = threading.BoundedSemaphore(CONNECTIONS_MAX)
    begin, serve = server.process_request, server.process_request_thread

    def process_request(request: Any, address: Any) -> None:
        if not free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.setblocking(False)
                request.send(_BUSY)
            server.shutdown_request(request)
            return
        request.settimeout(_IDLE_S)
        try:
            begin(request, address)
        except BaseException:  # there is no thread to be had
            free.release()
            raise

    def process_request_thread(request: Any, address: Any) -> None:
        try:
            serve(request, address)
        finally:
            free.release()

    server.process_request, server.process_request_thread = process_request, process_request_thread
