"""An OTLP/HTTP receiver for tests: decodes requests with the protocol's own Python classes."""
import gzip
import json
import threading

from http_stub import HttpStub
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


def plain(attributes):
    """{key: value} of a list of KeyValue, each value as its own type."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def refusal(answer, encoding):
    """The message of a google.rpc.Status that refuses a request; its Content-Type is to be application/ENCODING."""
    from google.rpc.status_pb2 import Status

    assert answer.getheader("Content-Type") == f"application/{encoding}", answer.headers
    return json.loads(answer.text)["message"] if encoding == "json" else Status.FromString(answer.text).message


class Received:
    """One request: its time and headers, and the message."""

    def __init__(self, path, headers, message):
        self.path, self.headers, self.message = path, headers, message

    def metrics(self):
        """(resource, scope, metric) of a metrics request."""
        for resource in getattr(self.message, "resource_metrics", ()):
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    yield plain(resource.resource.attributes), scope.scope.name, metric

    def points(self, name):
        """(attributes, point) of one metric, whatever its kind."""
        for _, _, metric in self.metrics():
            if metric.name == name:
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    yield plain(point.attributes), point


    def spans(self):
        """(resource, span) of a traces request."""
        for resource in getattr(self.message, "resource_spans", ()):
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield plain(resource.resource.attributes), span

    def logs(self):
        """(resource, record) of a logs request."""
        for resource in getattr(self.message, "resource_logs", ()):
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    yield plain(resource.resource.attributes), record


class Receiver(HttpStub):
    """Listens on a free port, or on `port`. `answer(path, number)` gives (status, headers) of each request; default 200.
    In a with statement; `requests` are those that were answered with 200."""

    def __init__(self, answer=None, port=0):
        super().__init__(lambda request, body: self.take(request, body), port, "HTTP/1.1")
        self.answer = answer or (lambda path, number: (200, {}))
        self.requests, self.refused, self.changed = [], [], threading.Condition()
        self.url = self.origin

    def take(self, handler, body):
        with self.changed:
            status, headers = self.answer(handler.path, len(self.requests) + len(self.refused))
            if handler.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            message = KINDS[handler.path].FromString(body)
            (self.requests if status == 200 else self.refused).append(Received(handler.path, dict(handler.headers), message))
            self.changed.notify_all()
        return status, {**headers, "Content-Type": "application/x-protobuf"}, b""

    def wait(self, holds, what, seconds=30):
        """The first true answer of `holds(requests)`."""
        with self.changed:
            if not self.changed.wait_for(lambda: holds(self.requests), seconds):
                raise AssertionError(f"{what} did not come within {seconds} s; {len(self.requests)} requests")
            return holds(self.requests)

    def times(self):
        """The times of the received ticks, one for each request."""
        of_each = ({point.time_unix_nano for _, point in request.points("gpulens.tick.duration")} for request in self.requests)
        return [min(times) for times in of_each if times]
