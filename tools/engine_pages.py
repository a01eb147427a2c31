#!/usr/bin/env python3
"""Prints a page that an engine could serve, with every family of its table (src/scrape/engine/tables).

    tools/engine_pages.py vllm                 one page, text format 0.0.4
    tools/engine_pages.py vllm --scale 2       the same engine later: what counts has grown, to the double
    tools/engine_pages.py vllm --models 20     a large page: every series once per model

For tests of engines of which no page was recorded, and for benchmarks. The same arguments give the same bytes.
Buckets, sums and counts fit together, and families that are two names of the same observations agree.
"""
import argparse
import itertools
import math
import pathlib
import random
import re
import sys

import engine_tables

TABLES = pathlib.Path(__file__).resolve().parent.parent / "src" / "scrape" / "engine" / "tables"
FIRST_LINE = "# generated from the table, not recorded"
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
POWERS = tuple(2 ** i for i in range(0, 15))
BOUNDS = {"s": SECONDS, "ms": tuple(s * 1000 for s in SECONDS), "us": tuple(s * 1e6 for s in SECONDS),
          "1": tuple(i / 10 for i in range(1, 11)), "By": tuple(1024 * 4 ** i for i in range(0, 11)),
          "MBy": tuple(4 ** i for i in range(0, 8)), "GBy": (1, 2, 4, 8, 16, 32, 64), "GBy/s": (0.5, 1, 2, 4, 8, 16, 32)}
# Values of a label that becomes this attribute.
VALUES = {"model.version": ["1"], "inference.dp_rank": ["0", "1"], "finish_reason": ["stop", "length", "abort"],
          "error.type": ["timeout", "overloaded"], "inference.wait_reason": ["capacity", "deferred"],
          "inference.engine.sleep_state": ["awake", "weights_offloaded", "discard_all"],
          "inference.position": ["0", "1", "2"], "inference.stage": ["prefill", "decode"],
          "inference.phase": ["prefill", "decode"], "cache.type": ["cpu", "disk"],
          "inference.memory_kind": ["gpu", "cpu", "pinned"], "inference.direction": ["load", "store"]}
# A part of a whole is not larger than it.
PARTS = {"PrefixCacheHits": 0.6, "MultimodalCacheHits": 0.5, "CachedTokens": 0.4, "SpecAcceptedTokens": 0.7,
         "SpecDrafts": 0.3, "SpecAcceptedTokensPerPosition": 0.2, "RequestsFailed": 0.02, "RequestsAborted": 0.01,
         "RequestsRejected": 0.01, "RequestsRetried": 0.01, "Errors": 0.001, "Preemptions": 0.01,
         "RecomputedTokens": 0.05}
SIZES = {"{token}": 500_000, "{request}": 1_000, "s": 300, "ms": 3e5, "us": 3e8, "By": 4e9, "{flop}": 1e15}


def number(value):
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def rows_of(engine):
    """The table's rows of one engine, as dictionaries."""
    path = TABLES / (re.sub(r"\W", "_", engine) + ".tsv")
    return [dict(zip(engine_tables.COLUMNS, row)) for _, row in engine_tables.rows_of(path, engine_tables.COLUMNS)]


def engine_names():
    rows = engine_tables.rows_of(TABLES / "engines.tsv", engine_tables.ENGINE_COLUMNS)
    return [row[0] for _, row in rows]


class Labels:
    """The labels that the rows of one family speak of, and the series that follow from them."""

    def __init__(self, rows):
        self.choices = {}  # label: its values
        self.totals = {}   # label: the value that is the total of all others
        self.pinned = []   # {label: value} of rows that are for one value
        attributes = set()
        for row in rows:
            pinned = {}
            for word in [] if row["labels"] == "-" else row["labels"].split(","):
                self.add(word, pinned, attributes)
            if row["scale"].startswith("label:"):
                self.choices[row["scale"][6:]] = ["16"]
            elif row["scale"].startswith("names:"):
                self.choices[row["scale"][6:]] = ["adapter-a,adapter-b"]
            if pinned not in self.pinned:
                self.pinned.append(pinned)

    def add(self, word, pinned, attributes):
        if match := re.fullmatch(r"(\w+)>([\w.]+)(?:\(([^()]+)\))?", word):
            label, attribute, mapped = match.groups()
            # Two labels with the same meaning are of two versions, and "version" belongs to "model".
            if attribute in attributes and label not in self.choices or label == "version" and "model_name" in self.choices:
                return
            attributes.add(attribute)
            values = [pair.split(":")[0].replace("*", "s3") for pair in mapped.split(" ")] if mapped else None
            self.choices[label] = values or VALUES.get(attribute, [label])
        elif match := re.fullmatch(r"(\w+)=(\S*)", word):
            pinned[match[1]] = match[2]
        elif match := re.fullmatch(r"(\w+)\?(\S+)", word):
            self.choices[match[1]] = [match[2], "other"]
        elif match := re.fullmatch(r"(\w+)~(\S+)", word):
            self.choices[match[1]] = [*self.choices.get(match[1], ["other"]), match[2]]
            self.totals[match[1]] = match[2]
        elif match := re.fullmatch(r"(\w+)!", word):
            self.choices[match[1]] = ["user-a"]

    def series(self, models):
        model_labels = [label for label in self.choices if label in ("model_name", "model", "gen_ai_request_model")]
        seen = set()
        for pinned in self.pinned:
            free = {label: values for label, values in self.choices.items() if label not in pinned}
            for label in model_labels:
                free[label] = [f"maker/model-{i}" for i in range(models)]
            for values in itertools.product(*free.values()):
                labels = {**dict(zip(free, values)), **{k: v for k, v in pinned.items() if v}}
                if (key := tuple(sorted(labels.items()))) not in seen:
                    seen.add(key)
                    yield labels


def text_of(labels, **more):
    pairs = {**labels, **more}
    inside = ",".join(f'{k}="{v}"' for k, v in pairs.items())
    return "{" + inside + "}" if inside else ""


class Page:
    def __init__(self, seed, scale, models):
        self.seed, self.scale, self.models = seed, scale, models
        self.lines = [FIRST_LINE]

    def dice(self, row, labels):
        """Fixed numbers for one series: two names of the same observations throw the same."""
        known = row["alias_of"] if row["alias_of"] != "-" else row["family"]
        return random.Random(f"{self.seed} {known.removesuffix('_total')} {sorted(labels.items())}")

    def add(self, rows):
        row = rows[0]
        kind = row["type"].split("|")[0]
        family = row["family"].replace("*", "example")
        self.lines += [f"# HELP {family} generated", f"# TYPE {family} {kind}"]
        write = {"counter": self.counter, "histogram": self.histogram, "summary": self.summary}.get(kind, self.gauge)
        known = Labels(rows)
        for labels in known.series(self.models):
            write(family, row, labels, known)

    def count(self, row, labels):
        role = re.match(r"\w*", row["role"])[0]
        size = SIZES.get(row["unit"], 5_000) * PARTS.get(role, 1)
        return math.floor(self.scale * size * self.dice(row, labels).uniform(0.8, 1))

    def counter(self, family, row, labels, known):
        parts = [labels]
        for label, total in known.totals.items():
            if labels.get(label) == total:
                parts = [{**labels, label: value} for value in known.choices[label] if value != total]
        self.lines.append(f"{family}{text_of(labels)} {number(sum(self.count(row, part) for part in parts))}")

    def gauge(self, family, row, labels, _known):
        dice = self.dice(row, labels)
        value = dice.uniform(0.05, 0.95) if row["unit"] == "1" else dice.randrange(1, 64)
        if row["role"] in ("EngineInfo",) or family.endswith("_info"):
            value = 1
        elif row["role"] == "EngineSleepState":
            value = int("awake" in labels.values())
        elif row["role"] == "EngineStartTime":
            value = 1.76e9
        if row["scale"].startswith("names:"):
            value = 1.76e9 + self.scale
        self.lines.append(f"{family}{text_of(labels)} {number(value)}")

    def observations(self, row, labels):
        """Number of observations between each two bounds; the last is above all of them."""
        dice, bounds = self.dice(row, labels), BOUNDS.get(row["unit"], POWERS)
        middle, count = dice.randrange(2, len(bounds) - 2), dice.randrange(200, 1000)
        weights = [math.exp(-((i - middle) / 2) ** 2) * dice.uniform(0.5, 1) for i in range(len(bounds) + 1)]
        return bounds, [math.floor(self.scale * count * w / sum(weights)) for w in weights]

    @staticmethod
    def total(bounds, counts):
        edges = [0, *bounds, bounds[-1] * 1.5]
        return sum(n * (low + high) / 2 for n, low, high in zip(counts, edges, edges[1:]))

    def histogram(self, family, row, labels, _known):
        bounds, counts = self.observations(row, labels)
        below = 0
        for bound, count in zip(bounds, counts):
            below += count
            self.lines.append(f"{family}_bucket{text_of(labels, le=number(bound))} {below}")
        self.lines.append(f'{family}_bucket{text_of(labels, le="+Inf")} {sum(counts)}')
        self.ends(family, labels, bounds, counts)

    def summary(self, family, row, labels, _known):
        bounds, counts = self.observations(row, labels)
        for quantile in (0.5, 0.9, 0.99):
            value = bounds[min(len(bounds) - 1, int(quantile * len(bounds)))]
            self.lines.append(f"{family}{text_of(labels, quantile=number(quantile))} {number(value)}")
        self.ends(family, labels, bounds, counts)

    def ends(self, family, labels, bounds, counts):
        self.lines.append(f"{family}_sum{text_of(labels)} {number(self.total(bounds, counts))}")
        self.lines.append(f"{family}_count{text_of(labels)} {sum(counts)}")


def page_of(engine, seed=1, scale=1.0, models=1):
    page = Page(seed, scale, models)
    for _, rows in itertools.groupby(rows_of(engine), key=lambda row: row["family"]):
        page.add(list(rows))
    return "\n".join(page.lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=engine_names(), metavar="ENGINE", help=", ".join(engine_names()))
    parser.add_argument("--seed", type=int, default=1, help="other numbers")
    parser.add_argument("--scale", type=float, default=1.0, help="how much was counted so far; more is later")
    parser.add_argument("--models", type=int, default=1, help="how many models it serves")
    options = parser.parse_args()
    if options.scale < 0 or options.models < 1:
        parser.error("--scale is not below 0 and --models at least 1")
    sys.stdout.write(page_of(options.engine, options.seed, options.scale, options.models))


if __name__ == "__main__":
    main()
