"""Exports instruments: to the agent of this machine, to an OTLP receiver, or as a page for Prometheus to
scrape.

    gpulens.export_to_agent()                  # retries while there is no agent
    gpulens.expose("127.0.0.1:9464")           # serves a page at /metrics
    gpulens.expose(workers=True)               # the same of all workers of a prefork server
    gpulens.asgi_app(workers=True)             # to mount in a server of your own; or wsgi_app

No call is needed when GPULENS_EXPORT=agent, otlp or expose is set in the environment: export then starts
with the first instrument. OTEL_SDK_DISABLED=true disables all export. Values are cumulative, so nothing is
lost while the receiver is unreachable. An exporter runs until close() or the end of the program, even if
the program keeps no reference to it.
"""
import atexit as _atexit
import hashlib as _hashlib
import os as _os
from multiprocessing import process as _process
from typing import Awaitable, Callable, Literal, Mapping, Optional

from . import _core
from ._core import Exporter, Registry, to_prometheus

__all__ = [
    "Exporter",
    "asgi_app",
    "export_otlp",
    "export_to_agent",
    "expose",
    "share_with_workers",
    "to_prometheus",
    "wsgi_app",
]


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


def share_with_workers(folder: Optional[str] = None) -> None:
    """Adds up what the worker processes of this server count (gunicorn, uvicorn, anything that forks or uses
    multiprocessing). Call it in each worker, or before they are forked; the second call does nothing.
    Afterwards pages and to_prometheus() of the process's registry have the counts of all workers, those of
    ended and killed ones once, whichever worker answers. Gauge(workers=…) chooses how gauges merge.

    folder: where the workers share their counts, which continue while it exists; made if it is missing. By
        default $GPULENS_WORKERS_DIR, else a folder in memory of the processes that come from one start of the
        server. Workers that are started otherwise need a folder.

    Raises PermissionError where others may write in the folder, OSError where its file system is full.
    """
    family = ""
    if not folder:
        process = _process.current_process()
        # Children of multiprocessing inherit both.
        family = process._config.get("gpulens_workers", "")
        if not family and _process.parent_process() is not None:
            family = _hashlib.sha256(b"gpulens workers" + process.authkey).hexdigest()[:32]
        elif not family:
            family = process._config["gpulens_workers"] = _core.family_of_forks()
    _core.share_with_workers(_os.fspath(folder) if folder else "", family)


def wsgi_app(*, workers: bool = False) -> Callable[[dict, Callable[..., object]], list]:
    """Returns a WSGI application that answers with the page: mount it at /metrics in your own server.

    workers: calls share_with_workers(), so that the page has the counts of all workers.
    """
    if workers:
        share_with_workers()

    def app(environ: dict, start_response: Callable[..., object]) -> list:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return []
        content_type, page = _core.page_for(environ.get("HTTP_ACCEPT", ""))
        start_response("200 OK", [("Content-Type", content_type), ("Content-Length", str(len(page))), ("Vary", "Accept")])
        return [page] if environ["REQUEST_METHOD"] == "GET" else []

    return app


def asgi_app(*, workers: bool = False) -> Callable[..., Awaitable[None]]:
    """Returns an ASGI application that answers with the page: mount it at /metrics in your own server.

    workers: calls share_with_workers(), so that the page has the counts of all workers.
    """
    if workers:
        share_with_workers()

    async def app(scope: dict, receive: Callable[[], Awaitable[dict]], send: Callable[[dict], Awaitable[None]]) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            return await send({"type": "lifespan.shutdown.complete"})
        if scope["type"] != "http":
            raise ValueError(f"the page is for http, not {scope['type']}")
        status, headers, page = 405, [(b"allow", b"GET, HEAD")], b""
        if scope["method"] in ("GET", "HEAD"):
            accept = b", ".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
            content_type, page = _core.page_for(accept)
            status, headers = 200, [(b"content-type", content_type.encode()), (b"vary", b"Accept")]
        headers.append((b"content-length", str(len(page)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": page if scope["method"] == "GET" else b""})

    return app


def expose(
    listen: str = "127.0.0.1:9464", *, insecure: bool = False, registry: Optional[Registry] = None, workers: bool = False
) -> Exporter:
    """Starts serving a page at /metrics, in Prometheus' text format or OpenMetrics, whichever the scraper
    requests.

    listen: HOST:PORT; port 0 takes a free port, which the exporter's `address` contains.
    insecure: serve other machines, too, without TLS and passwords.
    workers: calls share_with_workers(); the page has the counts of all workers, one of them serves it, and
        another one takes its place when it ends.

    Raises InvalidArgumentError for an address of other machines without `insecure`, and OSError when the
    port is in use.
    """
    if workers and registry in (None, _core.process_registry()):
        share_with_workers()
    return _keep(_core.expose(listen, insecure, registry, workers))
