"""Telemetry of every kind that OTLP has, in the Collector's JSON lines: what a relay must not alter."""
import base64
import json
import pathlib

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_tap import message_of

NOW = 1_700_000_000_000_000_000


def with_hex_ids(node):
    """protobuf's own JSON with ids as OTLP has them."""
    if isinstance(node, list):
        return [with_hex_ids(one) for one in node]
    if not isinstance(node, dict):
        return node
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(one).hex() if key in ids else with_hex_ids(one) for key, one in node.items()}


def line(message):
    return json.dumps(with_hex_ids(json_format.MessageToDict(message, use_integers_for_enums=True)))


def signal_lines(path):
    """The messages of a file of such lines."""
    return [message_of(json.loads(text)) for text in pathlib.Path(path).read_text().splitlines()]


def put(attributes, **more):
    """Values of every type."""
    values = {"text": {"string_value": "ä € \n"}, "yes": {"bool_value": True}, "number": {"int_value": -(2**53) - 1},
              "part": {"double_value": 0.1}, "bytes": {"bytes_value": bytes(range(256))}, **more}  # fmt: skip
    for key, value in values.items():
        pair = attributes.add(key=key)
        for field, one in value.items():
            setattr(pair.value, field, one)
    nested = attributes.add(key="nested").value.kvlist_value.values.add(key="list").value.array_value
    nested.values.add(string_value="a")
    nested.values.add(int_value=7)


def around(of, scopes, number):
    """The scope of a new Resource."""
    put(of.resource.attributes)
    of.resource.attributes.add(key="service.name").value.string_value = f"service {number % 3}"
    of.resource.dropped_attributes_count = 2
    of.schema_url = "https://opentelemetry.io/schemas/1.30.0"
    scope = scopes.add(schema_url="https://opentelemetry.io/schemas/1.29.0")
    scope.scope.name, scope.scope.version, scope.scope.dropped_attributes_count = "of.test", "1.2", 1
    put(scope.scope.attributes)
    return scope


def add_exemplar(point):
    exemplar = point.exemplars.add(time_unix_nano=NOW, as_double=0.4, trace_id=bytes(range(1, 17)), span_id=bytes(range(1, 9)))
    put(exemplar.filtered_attributes)


def metrics(count):
    """`count` requests, each with every kind of metric."""
    for number in range(count):
        request = ExportMetricsServiceRequest()
        of = request.resource_metrics.add()
        scope = around(of, of.scope_metrics, number)
        times = {"start_time_unix_nano": NOW, "time_unix_nano": NOW + number}
        gauge = scope.metrics.add(name="a.gauge", unit="W", description="What it draws").gauge
        for one in ({"as_double": float("nan")}, {"as_double": -1.5e-300}, {"as_int": -(2**63)}, {"flags": 1}):
            put(gauge.data_points.add(time_unix_nano=NOW + number, **one).attributes, which={"string_value": str(one)})
        for monotonic, temporality in ((True, 2), (True, 1), (False, 2)):
            total = scope.metrics.add(name=f"a.sum.{monotonic}.{temporality}", unit="{token}").sum
            total.is_monotonic, total.aggregation_temporality = monotonic, temporality
            add_exemplar(total.data_points.add(as_int=2**63 - 1, **times))
        explicit = scope.metrics.add(name="a.histogram", unit="s").histogram
        explicit.aggregation_temporality = 2
        point = explicit.data_points.add(count=6, sum=1.5, min=0.05, max=9, bucket_counts=[3, 2, 1], explicit_bounds=[0.1, 1], **times)
        add_exemplar(point)
        explicit.data_points.add(count=0, **times)
        wide = scope.metrics.add(name="a.exponential", unit="s").exponential_histogram
        wide.aggregation_temporality = 1
        point = wide.data_points.add(count=9, sum=-1, scale=-3, zero_count=2, zero_threshold=1e-9, **times)
        point.positive.offset, point.negative.offset = -5, 7
        point.positive.bucket_counts.extend([1, 0, 2])
        point.negative.bucket_counts.extend([4])
        summary = scope.metrics.add(name="a.summary").summary.data_points.add(count=8, sum=4, **times)
        summary.quantile_values.add(quantile=0.5, value=0.25)
        yield line(request)


def logs(count):
    for number in range(count):
        request = ExportLogsServiceRequest()
        of = request.resource_logs.add()
        scope = around(of, of.scope_logs, number)
        record = scope.log_records.add(time_unix_nano=NOW + number, observed_time_unix_nano=NOW + 7, severity_number=17, severity_text="ERROR",
                                       flags=1, trace_id=bytes(range(1, 17)), span_id=bytes(range(1, 9)), event_name="an.event",
                                       dropped_attributes_count=3)  # fmt: skip
        put(record.attributes)
        record.body.kvlist_value.values.add(key="deep").value.array_value.values.add(string_value="x" * 1000)
        yield line(request)


def traces(count):
    for number in range(count):
        request = ExportTraceServiceRequest()
        of = request.resource_spans.add()
        scope = around(of, of.scope_spans, number)
        span = scope.spans.add(trace_id=bytes(range(1, 17)), span_id=number.to_bytes(7, "big") + b"\1", parent_span_id=bytes(range(1, 9)),
                               trace_state="a=b", name=f"span {number}", kind=3, flags=0x101, start_time_unix_nano=NOW,
                               end_time_unix_nano=NOW + number, dropped_events_count=1, dropped_links_count=2)  # fmt: skip
        put(span.attributes)
        put(span.events.add(time_unix_nano=NOW + 1, name="an event", dropped_attributes_count=1).attributes)
        put(span.links.add(trace_id=bytes(range(16, 0, -1)), span_id=bytes(range(8, 0, -1)), trace_state="c=d", flags=0x300).attributes)
        span.status.code, span.status.message = 2, "it failed"
        yield line(request)
