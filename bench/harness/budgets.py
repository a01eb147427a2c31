"""The budgets of the design, one row each: what is compared, and what was found. Only ratios, counts and
sizes are gates; times are shown, since they say as much about the machine as about the program."""
import dataclasses
from typing import Callable

MB = 1e6


@dataclasses.dataclass
class Budget:
    key: str
    section: str
    what: str
    limit: float
    at_most: bool  # else at least
    unit: str
    gate: bool
    ours: Callable  # results of the section to a number; KeyError when something is absent
    detail: Callable = lambda found: ""

    def verdict(self, results):
        """(number or None, words)."""
        found = results.get(self.section)
        if not found:
            return None, "not measured"
        try:
            number = self.ours(found["found"])
        except KeyError as missing:
            name = missing.args[0]
            return None, f"incomplete: {self.section if name in ('timings', 'loads', 'allocations') else name} absent"
        if self.met(number):
            return number, "met"
        if self.limit == 0:
            return number, f"missed by {number:.3g}"
        factor = number / self.limit if self.at_most else self.limit / number
        return number, f"missed by {(factor - 1) * 100:.0f} %"

    def met(self, number):
        return number <= self.limit if self.at_most else number >= self.limit


def _timing(name, key="best_s"):
    return lambda found: found["timings"][name][key]


def _ratio(ours, peer):
    """How many times more bytes per second."""
    return lambda found: found["timings"][ours]["bytes_per_s"] / found["timings"][peer]["bytes_per_s"]


def _both(ours, peer):
    def text(found):
        rates = [found["timings"][name]["bytes_per_s"] / MB for name in (ours, peer)]
        return f"{rates[0]:,.0f} against {rates[1]:,.0f} MB/s"

    return text


def _load(name, key):
    return lambda found: found["loads"][name][key]


def _requests(kind):
    return lambda found: found["loads"][f"ours many {kind}"]["requests_per_s"] / found["loads"][f"nginx many {kind}"]["requests_per_s"]  # fmt: skip


def _requests_text(kind):
    def text(found):
        rates = [found["loads"][f"{who} many {kind}"]["requests_per_s"] for who in ("ours", "nginx")]
        return f"{rates[0]:,.0f} against {rates[1]:,.0f} requests/s"

    return text


def _median(name):
    return lambda found: f"median {found['timings'][name]['median_s'] * 1e6:,.0f} µs of CPU"


def _allocations(found):
    steady = [t["allocs"] for name, t in found["timings"].items() if name.startswith("BM_TextPageSteady")]
    if not steady:
        raise KeyError("wire_bench")
    return max(steady)


def _latency_text(kind):
    def text(found):
        load = found["loads"][f"ours fresh {kind}"]
        peer = found["loads"].get(f"nginx one {kind}")
        said = f"median of runs {load['p99_us_median'] / 1000:.2f} ms, p50 {load['p50_us'] / 1000:.2f} ms"
        return said + (f"; nginx, ready bytes: p99 {peer['p99_us'] / 1000:.2f} ms" if peer else "")

    return text


def _part(name, key, scale=1.0):
    return lambda found: found[name][key] * scale


def _memory_text(name):
    return lambda found: f"{found[name]['processes']} processes, {found[name]['samples']} samples on the page"


def _per_series(found):
    more = found["scrape"]["pss_bytes"] - found["host"]["pss_bytes"]
    return more / (found["scrape"]["samples"] - found["host"]["samples"])


ENCODE = "BM_Encode"
BUDGETS = (
    Budget("tick_allocations", "ticks", "a steady run and snapshot: heap allocations", 0, True, "", True,
           lambda found: found["allocations"]),
    Budget("encode_time", "encode", "/metrics, 5,000 series: one page written", 100, True, "µs", False,
           lambda found: _timing(ENCODE)(found) * 1e6, _median(ENCODE)),
    Budget("encode_client_golang", "encode", "… bytes/s against client_golang", 50, False, "×", True,
           _ratio(ENCODE, "client_golang"), _both(ENCODE, "client_golang")),
    Budget("encode_victoriametrics", "encode", "… bytes/s against VictoriaMetrics/metrics", 20, False, "×", True,
           _ratio(ENCODE, "victoriametrics_metrics"), _both(ENCODE, "victoriametrics_metrics")),
    Budget("encode_allocations", "encode", "… heap allocations, steady", 0, True, "", True, _allocations),
    Budget("p99_plain", "http", "… p99 over HTTP, every scrape meets a new tick", 1, True, "ms", False,
           lambda found: _load("ours fresh plain", "p99_us")(found) / 1000, _latency_text("plain")),
    Budget("p99_gzip", "http", "… p99 with gzip, every scrape meets a new tick", 3, True, "ms", False,
           lambda found: _load("ours fresh gzip", "p99_us")(found) / 1000, _latency_text("gzip")),
    Budget("nginx_plain", "http", "… requests/s against nginx, same bytes", 0.9, False, "×", True,
           _requests("plain"), _requests_text("plain")),
    Budget("nginx_gzip", "http", "… the same, gzip", 0.9, False, "×", True,
           _requests("gzip"), _requests_text("gzip")),
    Budget("parse_victoriametrics", "parse", "parser, steady scrape, against VictoriaMetrics' parser", 4, False, "×",
           True, _ratio("BM_ParseSteady", "victoriametrics"), _both("BM_ParseSteady", "victoriametrics")),
    Budget("parse_textparse", "parse", "… against Prometheus' textparse with labels", 20, False, "×", True,
           _ratio("BM_ParseSteady", "textparse_labels"), _both("BM_ParseSteady", "textparse_labels")),
    Budget("parse_first", "parse", "… first scrape, series made, against the latter", 4, False, "×", True,
           _ratio("BM_ParseFirst", "textparse_labels"), _both("BM_ParseFirst", "textparse_labels")),
    Budget("memory_host", "agent", "memory (sum of PSS), host without GPU or TLS", 10, True, "MB", True,
           _part("host", "pss_bytes", 1 / MB), _memory_text("host")),
    Budget("memory_gpus", "agent", "… with 8 GPUs (fake library)", 16, True, "MB", True,
           _part("demo", "pss_bytes", 1 / MB), _memory_text("demo")),
    Budget("memory_series", "agent", "… for each scraped series", 300, True, "B", True, _per_series,
           lambda found: f"{found['scrape']['samples'] - found['host']['samples']} samples scraped each second"),
    Budget("cpu_gpus", "agent", "CPU at 1 s, host and 8 GPUs, scraped each second", 0.3, True, "% of a core", False,
           _part("demo", "cpu", 100)),
    Budget("start", "agent", "start to first good scrape, host metrics", 50, True, "ms", False,
           _part("start", "median_s", 1000), lambda found: f"median of {found['start']['runs']}"),
)  # fmt: skip


def failures(results):
    """What a gate has to say: gates that were measured and missed."""
    found = []
    for budget in BUDGETS:
        number, verdict = budget.verdict(results)
        if budget.gate and number is not None and not budget.met(number):
            found.append(f"{budget.what}: {number:.3g} {budget.unit}, {verdict}")
    return found
