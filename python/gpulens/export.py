"""Exports instruments: to the agent of this machine, to an OTLP receiver, or as a page for Prometheus to
scrape.

    gpulens.export_to_agent()                  # retries while there is no agent
    gpulens.expose("127.0.0.1:9464")           # serves a page at /metrics

No call is needed when GPULENS_EXPORT=agent, otlp or expose is set in the environment: export then starts
with the first instrument. OTEL_SDK_DISABLED=true disables all export. Values are cumulative, so nothing is
lost while the receiver is unreachable. An exporter runs until close() or the end of the program, even if
the program keeps no reference to it.
"""
import atexit as _atexit
from typing import Literal, Mapping, Optional

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
    """Starts exporting to the agent of this machine, which adds process ID, pod and job. Never fails:
    retries while there is no agent.

    socket: path of the agent's socket; by default $GPULENS_SOCKET, else the first of
        /run/gpulens/otlp.sock and the user's own socket that exists.
    interval_seconds: time between two exports; by default OTEL_METRIC_EXPORT_INTERVAL, else 10.
    """
    return _keep(_core.export_to_agent(socket or "", interval_seconds, registry))


def export_otlp(
    endpoint: str = "",
    *,
    protocol: Literal["", "http/protobuf", "grpc"] = "",
    headers: Optional[Mapping[str, str]] = None,
    ca_file: str = "",
    client_certificate_file: str = "",
    client_key_file: str = "",
    service_name: str = "",
    interval_seconds: Optional[float] = None,
    timeout_seconds: Optional[float] = None,
    registry: Optional[Registry] = None,
) -> Exporter:
    """Starts exporting to an OTLP receiver: protobuf over HTTP, or gRPC; with TLS where the endpoint is
    https.

    endpoint: such as "http://127.0.0.1:4318" or "https://collector.example.org"; for HTTP the path
        /v1/metrics is added where the endpoint has none.
    protocol: "http/protobuf" or "grpc"; "": gRPC at port 4317, else HTTP.
    ca_file: PEM file of the CAs that may have signed the receiver's certificate; "": the CAs of the
        machine.
    client_certificate_file, client_key_file: PEM files for a receiver that requests a client certificate;
        set both or none.
    service_name: the program's service.name at the receiver.
    interval_seconds: time between two exports; default 30.
    timeout_seconds: limit of one request; default 10.

    Options that are not given come from OTEL_EXPORTER_OTLP_…, else they have OpenTelemetry's defaults.

    Raises InvalidArgumentError for an invalid address, protocol, header or certificate, and
    UnavailableError for a file that does not exist, and for https and gRPC where the package was built
    without them. An unreachable receiver is not an error.
    """
    options = _core.OtlpOptions()
    options.endpoint, options.protocol, options.headers = endpoint, protocol, dict(headers or {})
    options.ca_file, options.service_name = ca_file, service_name
    options.client_certificate_file, options.client_key_file = client_certificate_file, client_key_file
    return _keep(_core.export_otlp(options, interval_seconds, timeout_seconds, registry))


def expose(listen: str = "127.0.0.1:9464", *, insecure: bool = False, registry: Optional[Registry] = None) -> Exporter:
    """Starts serving a page at /metrics, in Prometheus' text format or OpenMetrics, whichever the scraper
    requests.

    listen: HOST:PORT; port 0 takes a free port, which the exporter's `address` contains.
    insecure: serve other machines, too, without TLS and passwords.

    Raises InvalidArgumentError for an address of other machines without `insecure`, and OSError when the
    port is in use.
    """
    return _keep(_core.expose(listen, insecure, registry))
