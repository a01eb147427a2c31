"""The budgets of the design, one row each: what is compared, and what was found. Only ratios, counts and
sizes are gates; times are shown, since they depend on the machine as much as on the program."""
from harness import proxy
from harness.budget import Budget
from harness.sdk import budgets as sdk

MB = 1e6


def _timing(name, key="best_s"):
    return lambda found: found["timings"][name][key]


def _ratio(ours, peer):
    """Ratio of bytes per second to the peer's."""
    return lambda found: found["timings"][ours]["bytes_per_s"] / found["timings"][peer]["bytes_per_s"]


def _both(ours, peer):
    def text(found):
        rates = [found["timings"][name]["bytes_per_s"] / MB for name in (ours, peer)]
        return f"{rates[0]:,.0f} against {rates[1]:,.0f} MB/s"

    return text


def _points(name):
    """Million samples a second."""
    return lambda found: found["timings"][name]["samples"] / found["timings"][name]["best_s"] / 1e6


def _points_ratio(ours, peer):
    return lambda found: _points(ours)(found) / _points(peer)(found)


def _points_text(ours, peer):
    return lambda found: f"{_points(ours)(found):,.1f} against {_points(peer)(found):,.2f} M points/s"


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
        summary = f"median of runs {load['p99_us_median'] / 1000:.2f} ms, p50 {load['p50_us'] / 1000:.2f} ms"
        return summary + (f"; nginx, ready bytes: p99 {peer['p99_us'] / 1000:.2f} ms" if peer else "")

    return text


def _part(name, key, scale=1.0):
    return lambda found: found[name][key] * scale


def _memory_text(name):
    return lambda found: f"{found[name]['processes']} processes, {found[name]['samples']} samples on the page"


def _per_series(found):
    more = found["scrape"]["pss_bytes"] - found["few"]["pss_bytes"]
    return more / (found["scrape"]["samples"] - found["few"]["samples"])


def _of(name, value):
    """`value` of one agent of the section `gpus`; KeyError with its name when it is absent."""
    return lambda found: value(found["agents"][name])


def _against(name, value):
    """Ratio to the value of a peer."""
    return lambda found: value(found["agents"][GPUS_8]) / value(found["agents"][name])


def _pss(part):
    return sum(part["pss"])


def _scrape(part):
    return part["pages"]["gzip"]["best_s"]


def _pss_text(name):
    def text(found):
        part = found["agents"][name]
        sizes = " + ".join(f"{size / MB:.1f}" for size in part["pss"])
        return f"agent and reader process {sizes}, {part['samples']:,} samples on the page"

    return text


def _pair_text(name, value, unit, scale):
    def text(found):
        ours, peer = (found["agents"][one] for one in (GPUS_8, name))
        return f"{value(ours) * scale:.2f} {unit} for {ours['samples']:,} samples, {value(peer) * scale:.2f} {unit} for {peer['samples']:,}"

    return text


def _tick_text(name):
    def text(found):
        part = found["agents"][name]
        return f"median of {part['ticks']}; {part['quiet']['allocations'][0]} in all of them, {part['allocations_per_scrape']:.0f} a scrape"

    return text


def _targets(value, peer):
    """Ratio to the value of a peer with the same targets."""
    return lambda found: value(found["agents"][TARGETS_OURS]) / value(found["agents"][peer])


def _targets_text(value, peer, unit, scale):
    def text(found):
        ours, theirs = (value(found["agents"][name]) * scale for name in (TARGETS_OURS, peer))
        return f"{ours:.1f} against {theirs:.1f} {unit}; {found['agents'][TARGETS_OURS]['samples']:,} samples a second"

    return text


def _cpu(part):
    return part["cpu"]


def _pss_bytes(part):
    return part["pss_bytes"]


def _receive_ratio(load):
    """Ratio of points per CPU second to the Collector's."""
    return lambda found: found["agents"]["gpulens"][load]["points_per_cpu_s"] / found["agents"][COLLECTOR][load]["points_per_cpu_s"]


def _receive_text(load):
    def text(found):
        ours, theirs = (found["agents"][name][load]["points_per_cpu_s"] / 1e6 for name in ("gpulens", COLLECTOR))
        return f"{ours:.1f} against {theirs:.2f} M points per CPU second"

    return text


def _receive_memory(who):
    return lambda found: max(part["pss_bytes"] for part in found["agents"][who].values())


def _receive_memory_text(found):
    return f"{_receive_memory('gpulens')(found) / MB:.1f} against {_receive_memory(COLLECTOR)(found) / MB:.1f} MB, the load that takes most"


TARGETS_OURS, VMAGENT, COLLECTOR = "gpulens, kind: prometheus", "vmagent 1.140.0", "OpenTelemetry Collector 0.152.0"
GPUS_8, GPUS_16 = "gpulens, 8 GPUs", "gpulens, 16 GPUs"
PEER = "nvitop-exporter, 8 GPUs"
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
    Budget("otlp_points", "otlp", "OTLP, 5,000 gauges of five attributes: points encoded", 80, False, "M/s", False,
           _points("Encode/gauges"), lambda found: f"{_points('Encode/gauges_fresh')(found):,.0f} M/s where the last request cannot be kept"),
    Budget("otlp_pdata", "otlp", "… points/s against Go pdata", 10, False, "×", True,
           _points_ratio("Encode/gauges", "pdata"), _points_text("Encode/gauges", "pdata")),
    Budget("otlp_pdata_fresh", "otlp", "… without a kept request", 10, False, "×", True,
           _points_ratio("Encode/gauges_fresh", "pdata"), _points_text("Encode/gauges_fresh", "pdata")),
    Budget("memory_host", "agent", "memory (sum of PSS), host without GPU or TLS", 10, True, "MB", True,
           _part("host", "pss_bytes", 1 / MB), _memory_text("host")),
    Budget("memory_gpus", "agent", "… with 8 GPUs (fake library)", 16, True, "MB", True,
           _part("demo", "pss_bytes", 1 / MB), _memory_text("demo")),
    Budget("memory_series", "agent", "… for each scraped series", 300, True, "B", True, _per_series,
           lambda found: f"{found['scrape']['samples'] - found['few']['samples']} samples more on a page that is scraped each second"),
    Budget("cpu_gpus", "agent", "CPU at 1 s, host and 8 GPUs, scraped each second", 0.3, True, "% of a core", False,
           _part("demo", "cpu", 100)),
    Budget("memory_all_8", "gpus", "memory with 8 GPUs and everything switched on", 16, True, "MB", True,
           _of(GPUS_8, lambda part: _pss(part) / MB), _pss_text(GPUS_8)),
    Budget("memory_all_16", "gpus", "… with 16 GPUs (10 MB and 0.75 MB a GPU, as the design has it for 8)", 22, True, "MB", True,
           _of(GPUS_16, lambda part: _pss(part) / MB), _pss_text(GPUS_16)),
    Budget("memory_peer", "gpus", "… with 8 GPUs against nvitop-exporter", 1, True, "×", True,
           _against(PEER, _pss), _pair_text(PEER, _pss, "MB", 1 / MB)),
    Budget("allocations_8", "gpus", "heap allocations of the agent in a tick, 8 GPUs, everything on", 0, True, "", True,
           _of(GPUS_8, lambda part: part["allocations_per_tick"]), _tick_text(GPUS_8)),
    Budget("allocations_16", "gpus", "… with 16 GPUs", 0, True, "", True,
           _of(GPUS_16, lambda part: part["allocations_per_tick"]), _tick_text(GPUS_16)),
    Budget("cpu_all_8", "gpus", "CPU with 8 GPUs and everything switched on, scraped each second", 0.3, True, "% of a core", False,
           _of(GPUS_8, lambda part: sum(part["busy"]["cpu"]) * 100)),
    Budget("scrape_peer", "gpus", "one scrape, gzip, 8 GPUs, against nvitop-exporter", 1, True, "×", True,
           _against(PEER, _scrape), _pair_text(PEER, _scrape, "ms", 1000)),
    Budget("targets_cpu_vmagent", "scrape", "50 targets read each second: CPU against vmagent", 1, True, "×", True,
           _targets(_cpu, VMAGENT), _targets_text(_cpu, VMAGENT, "% of a core", 100)),
    Budget("targets_cpu_collector", "scrape", "… against the OpenTelemetry Collector", 1, True, "×", True,
           _targets(_cpu, COLLECTOR), _targets_text(_cpu, COLLECTOR, "% of a core", 100)),
    Budget("targets_memory_vmagent", "scrape", "… memory against vmagent", 1, True, "×", True,
           _targets(_pss_bytes, VMAGENT), _targets_text(_pss_bytes, VMAGENT, "MB", 1 / MB)),
    Budget("targets_memory_collector", "scrape", "… memory against the OpenTelemetry Collector", 1, True, "×", True,
           _targets(_pss_bytes, COLLECTOR), _targets_text(_pss_bytes, COLLECTOR, "MB", 1 / MB)),
    Budget("receive_http", "receive", "OTLP/HTTP in, 1,000 points a request: points per core against the OpenTelemetry Collector", 5, False, "×", True,
           _receive_ratio("http, 1,000 points"), _receive_text("http, 1,000 points")),
    Budget("receive_http_large", "receive", "… 10,000 points a request", 5, False, "×", True,
           _receive_ratio("http, 10,000 points"), _receive_text("http, 10,000 points")),
    Budget("receive_grpc", "receive", "… gRPC, 1,000 points a request", 5, False, "×", True,
           _receive_ratio("grpc, 1,000 points"), _receive_text("grpc, 1,000 points")),
    Budget("receive_grpc_large", "receive", "… gRPC, 10,000 points a request", 5, False, "×", True,
           _receive_ratio("grpc, 10,000 points"), _receive_text("grpc, 10,000 points")),
    Budget("receive_memory", "receive", "… memory meanwhile", 0.25, True, "×", True,
           lambda found: _receive_memory("gpulens")(found) / _receive_memory(COLLECTOR)(found), _receive_memory_text),
    Budget("start", "agent", "start to first good scrape, host metrics", 50, True, "ms", False,
           _part("start", "median_s", 1000), lambda found: f"median of {found['start']['runs']}"),
) + sdk.BUDGETS + proxy.BUDGETS  # fmt: skip


def failures(results):
    """A line for each gate that was measured and missed."""
    found = []
    for budget in BUDGETS:
        number, verdict = budget.verdict(results)
        if budget.gate and number is not None and not budget.met(number):
            found.append(f"{budget.what}: {number:.3g} {budget.unit}, {verdict}")
    return found
