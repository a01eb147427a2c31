"""How instruments leave the program: to the agent of this machine, to an OTLP receiver, or as a page to scrape.

    gpulens.export_to_agent()                  # the one line; it keeps trying while there is no agent
    gpulens.expose("127.0.0.1:9464")           # a page at /metrics

Or no line at all: GPULENS_EXPORT=agent, otlp or expose in the environment does the same from the first instrument on, and
OTEL_SDK_DISABLED=true switches everything off. Values are cumulative, so nothing is lost while the other side is away.
An exporter works until close() or the end of the program, whether it is kept or not.
"""
import atexit as _atexit
from typing import Mapping, Optional

from . import _core
from ._core import Exporter, Registry, to_prometheus

__all__ = ["Exporter", "export_otlp", "export_to_agent", "expose", "to_prometheus"]



def _end_all() -> None:
    for exporter in list(_core._running):
        exporter.close()


def _keep(exporter: Exporter) -> Exporter:
    if not _core._running:
        _atexit.unregister(_end_all)
        _atexit.register(_end_all)
    _core._running.add(exporter)
    return exporter


def export_to_agent(
    socket: Optional[str] = None, *, interval_seconds: Optional[float] = None, registry: Optional[Registry] = None
) -> Exporter:
    """To the agent of this machine, which adds pid, pod and job. Never fails: it keeps trying.

    socket: the agent's; else GPULENS_SOCKET, else the first that is there of /run/gpulens/otlp.sock and the user's.
    interval_seconds: else OTEL_METRIC_EXPORT_INTERVAL, else 10.
    """
    return _keep(_core.export_to_agent(socket or "", interval_seconds, registry))


def export_otlp(
    endpoint: str = "",
    *,
    protocol: str = "",
    headers: Optional[Mapping[str, str]] = None,
    ca_file: str = "",
    client_certificate_file: str = "",
    client_key_file: str = "",
    service_name: str = "",
    interval_seconds: Optional[float] = None,
    timeout_seconds: Optional[float] = None,
    registry: Optional[Registry] = None,
) -> Exporter:
    """To an OTLP receiver: as protobuf over HTTP, or over gRPC; in the clear, or over TLS where the endpoint is https.

    endpoint: "http://127.0.0.1:4318", "https://collector.example.org"; the path /v1/metrics is added where HTTP has none.
    protocol: "http/protobuf" or "grpc"; "": gRPC at port 4317, else HTTP. ca_file: PEM, who may have signed the receiver's
    certificate; "": the CAs of the machine. client_certificate_file, client_key_file: PEM, shown to a receiver that asks; both
    or none. service_name: how the program is called there. interval_seconds: 30. timeout_seconds: of one request, 10.

    What is not given comes from OTEL_EXPORTER_OTLP_…, else it is OpenTelemetry's default. Raises InvalidArgumentError for an
    address, protocol, header or certificate that is none, UnavailableError for a file that is not there, and for https and gRPC
    where the package was built without them; an absent receiver is none of these.
    """
    options = _core.OtlpOptions()
    options.endpoint, options.protocol, options.headers = endpoint, protocol, dict(headers or {})
    options.ca_file, options.service_name = ca_file, service_name
    options.client_certificate_file, options.client_key_file = client_certificate_file, client_key_file
    return _keep(_core.export_otlp(options, interval_seconds, timeout_seconds, registry))


def expose(listen: str = "127.0.0.1:9464", *, insecure: bool = False, registry: Optional[Registry] = None) -> Exporter:
    """A page to scrape at /metrics, as Prometheus' text or OpenMetrics as the scraper asks.

    listen: HOST:PORT; port 0 takes a free one, and `address` says which. insecure: serve other machines, too, without TLS and
    passwords. Raises InvalidArgumentError for an address of other machines without that, and an OSError when the port is
    taken.
    """
    return _keep(_core.expose(listen, insecure, registry))
