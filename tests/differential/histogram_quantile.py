#!/usr/bin/env python3
"""Compares our quantiles of 100 random histograms with histogram_quantile of Prometheus, to 1e-9.

  histogram_quantile.py --dump build/quantile_dump [--promtool PATH]

The seed is fixed. Exit 0: equal; 1: they differ, or promtool cannot be run; 77: promtool or the dump is not here.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HISTOGRAMS = 100
QUANTILES = (0.01, 0.5, 0.9, 0.95, 0.99, 1)


def find_promtool():
    peers = pathlib.Path(os.environ.get("GPULENS_PEERS", ROOT / "build/peers")) / "usr/bin"
    return shutil.which("promtool", path=f"{peers}:{os.environ.get('PATH', '')}")


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def histogram(chance):
    """Ascending finite bounds, cumulative counts, and the count of all: some buckets empty, some bounds negative."""
    bounds = sorted({round(chance.uniform(-2 if chance.random() < 0.2 else 0, 100), 6) for _ in range(chance.randint(1, 30))})
    counts, total = [], 0
    for _ in bounds:
        total += chance.choice((0, 0, 1, chance.randint(0, 1000)))
        counts.append(total)
    return bounds, counts, total + chance.choice((0, 1, 50)) + (total == 0)


def ours(dump, histograms):
    """One list for each histogram, a quantile for each of QUANTILES."""
    lines = []
    for bounds, counts, total in histograms:
        for q in QUANTILES:
            lines.append(" ".join(map(repr, [q] + bounds)) + " | " + " ".join(map(repr, counts + [total])))
    run = subprocess.run([dump], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = [float(line) for line in run.stdout.split()]
    assert len(answers) == len(lines), f"{len(answers)} answers to {len(lines)} questions"
    return [answers[i:i + len(QUANTILES)] for i in range(0, len(answers), len(QUANTILES))]


def unit_test(histograms, answers, off=0.0):
    """A test file of promtool; `off` is added to each of our answers."""
    series, expressions = [], []
    for n, ((bounds, counts, total), values) in enumerate(zip(histograms, answers)):
        for bound, count in zip([repr(b) for b in bounds] + ["+Inf"], counts + [total]):
            series.append({"series": f'h_bucket{{n="{n}",le="{bound}"}}', "values": str(count)})
        for q, value in zip(QUANTILES, values):
            series.append({"series": f'ours{{n="{n}",q="{q}"}}', "values": format(value + off, ".17f")})
    for q in QUANTILES:
        difference = f'abs(histogram_quantile({q}, h_bucket) - on(n) ours{{q="{q}"}})'
        expressions.append({"expr": f"count({difference} <= 1e-9)", "eval_time": "0m",
                      "exp_samples": [{"labels": "{}", "value": len(histograms)}]})
        expressions.append({"expr": f"{difference} > 1e-9", "eval_time": "0m", "exp_samples": []})
    return {"evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": expressions}]}


def run_promtool(promtool, test):
    with tempfile.TemporaryDirectory(prefix="gpulens-quantile-") as folder:
        path = pathlib.Path(folder) / "test.yml"  # JSON is YAML
        path.write_text(json.dumps(test))
        return subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", default=str(ROOT / "build/quantile_dump"))
    parser.add_argument("--promtool", default=find_promtool())
    options = parser.parse_args()
    if not pathlib.Path(options.dump).exists():
        skip(f"no {options.dump}: build the target quantile_dump")
    if options.promtool is None:
        skip("peer not here: promtool; ./dev test fetches it")
    chance = random.Random(5)
    histograms = [histogram(chance) for _ in range(HISTOGRAMS)]
    answers = ours(options.dump, histograms)
    run = run_promtool(options.promtool, unit_test(histograms, answers))
    if run.returncode != 0:
        print(run.stdout[-3000:], run.stderr[-3000:])
        return 1
    if run_promtool(options.promtool, unit_test(histograms, answers, off=1e-6)).returncode == 0:
        print("promtool does not mind a difference of 1e-6: this test shows nothing")
        return 1
    print(f"{HISTOGRAMS} histograms, {len(QUANTILES)} quantiles each: equal to 1e-9")
    return 0


if __name__ == "__main__":
    sys.exit(main())
