"""A page whose numbers follow from how often it was scraped, and how its samples are found in records and in a database.

The answer number k has: soak_ticks_total k, soak_tick k/4, and a histogram soak_wave with k observations up to 1 and as many above,
of the sum 3k. So one sample shows which answer it is from, and that it was not altered.
"""
import gzip
import threading

from http_stub import HttpStub
from otlp_receiver import ExportMetricsServiceRequest
from remote_write_receiver import decode_first, unsnappy

PAGE = """# TYPE soak_ticks_total counter
soak_ticks_total {k}
# TYPE soak_tick gauge
soak_tick {quarter}
# TYPE soak_wave histogram
soak_wave_bucket{{le="1"}} {k}
soak_wave_bucket{{le="+Inf"}} {twice}
soak_wave_sum {thrice}
soak_wave_count {twice}
"""
# The value of each series for answer k.
SHARES = {("soak_ticks_total", ""): 1, ("soak_tick", ""): 0.25, ("soak_wave_bucket", "1"): 1, ("soak_wave_bucket", "+Inf"): 2,
          ("soak_wave_sum", ""): 3, ("soak_wave_count", ""): 2}


def series_of(name, le=""):
    return name, le if le in ("", "+Inf") else f"{float(le):g}"


class TickingPage(HttpStub):
    """Server of the page, for a with statement; `answered` is the number of the last answer."""

    def __init__(self):
        self.answered, self.lock = 0, threading.Lock()
        super().__init__(self._next, protocol="HTTP/1.1")
        self.url = self.origin + "/metrics"

    def _next(self, *_):
        with self.lock:
            self.answered = k = self.answered + 1
        body = PAGE.format(k=k, quarter=k / 4, twice=2 * k, thrice=3 * k).encode()
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, body


# Of a request: {(series, milliseconds): value}, where a value of None means that the series has ended.

def of_remote_write(body):
    found = {}
    for sample in decode_first(unsnappy(body)):
        if sample.name.startswith("soak_"):
            found[series_of(sample.name, sample.labels.get("le", "")), sample.ms] = None if sample.ended else sample.value
    return found


def of_otlp(body):
    found = {}
    for resource in ExportMetricsServiceRequest.FromString(gzip.decompress(body)).resource_metrics:
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            if metric.name.startswith("soak_"):
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    for series, value in _numbers(metric, point):
                        found[series, point.time_unix_nano // 1_000_000] = None if point.flags & 1 else value
    return found


def _numbers(metric, point):
    if metric.WhichOneof("data") != "histogram":
        yield series_of(metric.name), getattr(point, point.WhichOneof("value") or "as_double")
        return
    yield series_of(metric.name + "_sum"), point.sum
    yield series_of(metric.name + "_count"), float(point.count)
    upto = 0
    for bound, count in zip([*map(str, point.explicit_bounds), "+Inf"], point.bucket_counts):
        upto += count
        yield series_of(metric.name + "_bucket", bound), float(upto)


def dropped_of_remote_write(body):
    """{sink: ticks that its queue dropped}, by the self-metrics of the agent."""
    found = {}
    for sample in decode_first(unsnappy(body)):
        if sample.name == "gpulens_sink_dropped_total" and sample.labels["queue"] == "snapshot" and not sample.ended:
            found[sample.labels["sink"]] = found.get(sample.labels["sink"], 0) + sample.value
    return found
