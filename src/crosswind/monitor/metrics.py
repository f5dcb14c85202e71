"""The metrics of a join for Prometheus, over HTTP, in its text format or in OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from crosswind.errors import MonitorError
from crosswind.monitor.connections import bound_connections
from crosswind.monitor.reading import METRICS
from crosswind.monitor.recorder import Recorder

__all__ = ["MetricsEndpoint"]


class _Collector:
    """Makes samples of the latest reading, when it is asked for them."""

    def __init__(self, recorder: Recorder, version: str) -> None:
        self._recorder, self._version = recorder, version

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import InfoMetricFamily
        from prometheus_client.metrics_core import Metric as Family

        reading = self._recorder.latest
        facts = {"job": self._recorder.job, "engine": self._recorder.engine, "version": self._version}
        yield InfoMetricFamily("crosswind_job", "The job that runs.", value=facts)
        for metric in METRICS:
            family = Family(metric.name, metric.about, metric.kind, metric.unit)
            for labels, value in metric.samples(reading):
                family.add_sample(metric.sample_name, dict(labels), value)
            yield family


class MetricsEndpoint:
    """Serves ``/metrics`` from a thread of its own. A context manager.

    Parameters
    ----------
    recorder : Recorder
        What is served.
    version : str
        Of Crosswind.
    host : str
        Where it listens: this machine alone, unless another is named.
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

    def __init__(self, recorder: Recorder, version: str, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(recorder, version))
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise MonitorError.of_port("metrics", host, port, "--metrics-port", error) from error
        bound_connections(self._server)
        self.address = f"http://{host}:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
