#!/usr/bin/env python3
"""Writes the pages that every program of a benchmark reads, the same bytes on every machine.

usage: make_pages.py FOLDER

  series.prom      5,000 samples of a GPU node: gauges, counters and histograms with 5 to 8 labels
  series_next.prom the same lines a scrape later, every number that is not 0 another one
  engine.prom      about 10 MB as inference engines show them: mostly histogram buckets
  engine_next.prom the same a scrape later
  engine_new.prom  engine_next with 1 % of the lines replaced by series never seen before

Names are those of real exporters, numbers are made up from a fixed seed. Families are in the order of
their names and labels in the order of theirs, as most encoders write them.
"""
import pathlib
import random
import sys

ENGINE_BYTES = 10_000_000
LATENCY_BOUNDS = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20".split()
STEP_BOUNDS = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160".split()
TOKEN_BOUNDS = "1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000 50000 100000".split()


def labels_text(labels):
    return ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))


def histogram(name, labels, bounds, counts, total):
    """Lines of one histogram; `counts` are the observations of each bucket and above the last."""
    text, cumulative, lines = labels_text(labels), 0, []
    for bound, count in zip(bounds + ["+Inf"], counts):
        cumulative += count
        lines.append((f'{name}_bucket{{{text},le="{bound}"}}', str(cumulative)))
    lines.append((f"{name}_sum{{{text}}}", total))
    lines.append((f"{name}_count{{{text}}}", str(cumulative)))
    return lines


def short(value, decimals):
    return repr(round(value, decimals)).removesuffix(".0")


def number(rnd, family):
    """Values of a family: of six, three are whole numbers of some size, two have 1 to 3 decimals, and one
    has doubles of full length."""
    kind = family % 6
    if kind < 3:
        size = 10 ** (1 + family * 5 % 12)
        return str(rnd.randrange(size // 10, size))
    if kind < 5:
        return short(rnd.uniform(0, 1000), 1 + family % 3)
    return repr(rnd.uniform(0, 1000))


def node_labels(index, wide):
    """5 labels, or 8 when `wide`; `index` makes them differ."""
    labels = {
        "gpu": str(index % 8),
        "gpu_model": "H100",
        "host": f"gpu-node-{index // 8:04d}",
        "rack": f"r{index // 32:02d}",
        "uuid": f"GPU-{0x5A1B0000 + index * 7919:08x}",
    }
    if wide:
        labels |= {"namespace": f"team-{index % 5}", "pod": f"train-{index % 40}-worker-0", "container": "main"}
    return labels


def series_page(rnd):
    """Families by name: (type, help, lines). 1,500 gauges, 1,500 counters, 100 histograms of 20 lines."""
    families = {}
    for family in range(30):
        for kind, suffix in (("gauge", "_ratio"), ("counter", "_total")):
            name = f"node_gpu_{kind}_{family:02d}{suffix}"
            lines = []
            for index in range(50):
                text = labels_text(node_labels(index, wide=family % 2 == 1))
                lines.append((f"{name}{{{text}}}", number(rnd, family)))
            families[name] = (kind, f"Reading {family} of a simulated GPU.", lines)
    for family in range(5):
        name = f"node_request_{family}_seconds"
        lines = []
        for index in range(20):
            counts = [rnd.randrange(60) for _ in range(len(LATENCY_BOUNDS) + 1)]
            total = repr(rnd.uniform(0, 5000))
            lines += histogram(name, node_labels(index, wide=family % 2 == 1), LATENCY_BOUNDS, counts, total)
        families[name] = ("histogram", f"Seconds that step {family} of a request took.", lines)
    return families


ENGINE_GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "engine_sleep_state")
ENGINE_COUNTERS = (
    "prompt_tokens_total", "generation_tokens_total", "num_preemptions_total", "prefix_cache_queries_total",
    "prefix_cache_hits_total", "request_success_total",
)
ENGINE_HISTOGRAMS = {
    "time_to_first_token_seconds": LATENCY_BOUNDS,
    "inter_token_latency_seconds": LATENCY_BOUNDS,
    "request_time_per_output_token_seconds": LATENCY_BOUNDS,
    "e2e_request_latency_seconds": STEP_BOUNDS,
    "request_queue_time_seconds": STEP_BOUNDS,
    "request_inference_time_seconds": STEP_BOUNDS,
    "request_prefill_time_seconds": STEP_BOUNDS,
    "request_decode_time_seconds": STEP_BOUNDS,
    "request_prompt_tokens": TOKEN_BOUNDS,
    "request_generation_tokens": TOKEN_BOUNDS,
    "iteration_tokens_total": TOKEN_BOUNDS,
}


def engine_labels(index):
    return {"engine": str(index % 8), "model_name": f"meta-llama/Llama-3.1-{index // 8:03d}-Instruct"}


def engine_page(rnd, engines):
    families = {}
    for family, name in enumerate(ENGINE_GAUGES):
        lines = [(f"vllm:{name}{{{labels_text(engine_labels(i))}}}", number(rnd, family + 2)) for i in range(engines)]
        families[f"vllm:{name}"] = ("gauge", "State of a simulated engine.", lines)
    for name in ENGINE_COUNTERS:
        lines = [(f"vllm:{name}{{{labels_text(engine_labels(i))}}}", f"{rnd.randrange(10**9)}.0") for i in range(engines)]
        families[f"vllm:{name}"] = ("counter", "Work of a simulated engine.", lines)
    for name, bounds in ENGINE_HISTOGRAMS.items():
        lines = []
        for index in range(engines):
            # Few requests meet the first and last buckets, as in life: there counts are 0 or stay.
            counts = [rnd.randrange(10 ** rnd.randrange(1, 6)) if rnd.random() < 0.6 else 0 for _ in range(len(bounds) + 1)]
            lines += histogram(f"vllm:{name}", engine_labels(index), bounds, counts, repr(rnd.uniform(0, 1e5)))
        lines = [(text, value if "_sum{" in text else value + ".0") for text, value in lines]
        families[f"vllm:{name}"] = ("histogram", "Requests of a simulated engine.", lines)
    return families


def step(value, rnd):
    """A slightly larger number in the same format; 0 stays."""
    before = float(value)
    if before == 0:
        return value
    whole, _, decimals = value.partition(".")
    if decimals in ("", "0"):
        return str(int(whole) + rnd.randrange(1, 99)) + value[len(whole) :]
    after = before * (1 + rnd.random() / 100)
    return short(after, len(decimals)) if len(decimals) < 4 else repr(after)


def changed(families, rnd):
    """Every number other than 0 another one. Buckets stay cumulative, a count stays its last bucket."""
    after = {}
    for name, (kind, text, lines) in families.items():
        fresh, more = [], 0
        for line, value in lines:
            if kind != "histogram" or "_sum{" in line:
                fresh.append((line, step(value, rnd)))
                continue
            counted = "_count{" in line
            if float(value) != 0 and not counted:
                more += rnd.randrange(1, 99)
            point = ".0" if value.endswith(".0") else ""
            fresh.append((line, f"{int(float(value)) + more}{point}"))
            more = 0 if counted else more
        after[name] = (kind, text, fresh)
    return after


def renewed(families, rnd):
    def renew(line):
        return line[:-1] + f',replica="{rnd.randrange(10**9)}"}}' if rnd.random() < 0.01 else line

    return {
        name: (kind, text, [(renew(line), value) for line, value in lines])
        for name, (kind, text, lines) in families.items()
    }


def page_text(families):
    parts = []
    for name, (kind, text, lines) in sorted(families.items()):
        parts.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
        parts += [f"{line} {value}\n" for line, value in lines]
    return "".join(parts)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    per_engine = len(page_text(engine_page(random.Random(2), 8))) / 8
    engine = engine_page(random.Random(2), round(ENGINE_BYTES / per_engine))
    after = changed(engine, random.Random(3))
    series = series_page(random.Random(1))
    pages = {
        "series": series,
        "series_next": changed(series, random.Random(5)),
        "engine": engine,
        "engine_next": after,
        "engine_new": renewed(after, random.Random(4)),
    }
    for name, families in pages.items():
        text = page_text(families)
        (folder / f"{name}.prom").write_text(text, encoding="utf-8")
        samples = sum(len(lines) for _, _, lines in families.values())
        print(f"{name:12} {len(text):9} bytes {samples:7} samples {len(families):4} families")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
