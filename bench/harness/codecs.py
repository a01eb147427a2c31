"""Sections `encode`, `parse` and `otlp`: one thread, everything in memory. Programs take turns, so that all of
them meet the same neighbours on a shared machine."""
from harness import measure, peers
from harness.measure import Absent

ROUNDS = 3
RUNS = 5  # of a peer in each round


def take_turns(steps):
    """Runs the steps ROUNDS times in turn. Returns {name: reason} of those that are absent."""
    absent = {}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            if name in absent:
                continue
            try:
                step()
            except Absent as reason:
                absent[name] = str(reason)
    return absent


def built(make, absent, *names):
    try:
        return make()
    except Absent as reason:
        absent.update({name: str(reason) for name in names})
        return None


def encode():
    timings, absent, steps = {}, {}, {}
    steps["ours"] = lambda: measure.google_benchmark(timings, "page_bench", "^BM_(Encode|Gzip)$")
    steps["ours alone"] = lambda: measure.google_benchmark(timings, "wire_bench", "^BM_TextPage", 3)
    go = built(peers.go_programs, absent, "client_golang", "victoriametrics_metrics")
    if go:
        steps["go"] = lambda: measure.json_lines(timings, [go / "encode", measure.PAGES / "series.prom", RUNS])
    cpp = built(peers.prometheus_cpp, absent, "prometheus_cpp")
    if cpp:
        program, environment, version = cpp
        command = [program, measure.PAGES / "series.prom", RUNS]
        steps["prometheus_cpp"] = lambda: measure.json_lines(timings, command, env=environment)
    absent.update(take_turns(steps))
    if cpp and "prometheus_cpp" in timings:
        timings["prometheus_cpp"].extra["version"] = version
    return {"timings": {name: timing.plain() for name, timing in timings.items()}, "absent": absent}


def parse():
    timings, absent, steps = {}, {}, {}
    steps["ours"] = lambda: measure.google_benchmark(timings, "page_bench", "^BM_Parse")
    go = built(peers.go_programs, absent, "victoriametrics", "textparse_labels")
    if go:
        steps["go"] = lambda: measure.json_lines(timings, [go / "parse", measure.PAGES / "engine.prom", RUNS])
    absent.update(take_turns(steps))
    return {"timings": {name: timing.plain() for name, timing in timings.items()}, "absent": absent}


def otlp():
    timings, absent, steps = {}, {}, {}
    steps["ours"] = lambda: measure.google_benchmark(timings, "wire_otlp_bench", "^Encode/")
    go = built(peers.go_programs, absent, "pdata", "pdata_built")
    if go:
        steps["go"] = lambda: measure.json_lines(timings, [go / "otlp", RUNS])
    absent.update(take_turns(steps))
    return {"timings": {name: timing.plain() for name, timing in timings.items()}, "absent": absent}
