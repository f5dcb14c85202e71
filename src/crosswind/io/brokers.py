"""Whether the brokers of a job answer: told at once, and not after minutes by a client that tries and tries."""

from __future__ import annotations

import socket

from crosswind.errors import JobError
from crosswind.io.endpoints import KafkaSink, KafkaSource
from crosswind.io.job import Job

__all__ = ["check_brokers"]

_ANSWER_S = 5.0
_PORT = 9092


def check_brokers(job: Job) -> None:
    """Refuse a job none of whose brokers, in one of its sections, can be reached from here.

    Raises
    ------
    JobError
        The section, the servers, and why they cannot be reached.
    """
    sections = {f"streams.{s.stream}": s.servers for s in job.sources if isinstance(s, KafkaSource)}
    if isinstance(job.sink, KafkaSink):
        sections["sink"] = job.sink.servers
    answered: set[str] = set()
    for section, servers in sections.items():
        if servers in answered:
            continue
        reasons = [_reach(server.strip()) for server in servers.split(",") if server.strip()]
        if all(reasons):
            reason = reasons[0] if reasons else "none is named"
            raise JobError(
                f"{job.path}: [{section}]: no broker answers at {servers}: {reason}. "
                "Start it (in a clone: scripts/kafka start), or correct 'kafka', which is host:port, perhaps several "
                "with commas between."
            )
        answered.add(servers)


def _reach(server: str) -> str | None:
    """Return why ``server`` cannot be reached; None: it can."""
    host, _, port = server.rpartition(":") if ":" in server else (server, "", str(_PORT))
    if not port.isdecimal():
        return f"'{port}' is not a port"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
