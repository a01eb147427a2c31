#!/usr/bin/env python3
"""Compares our exposition parser with prometheus_client's (samples, one by one) and with promtool
(whether it takes the page) over every capture at hand and over our own edge cases.

  exposition_differential.py --dump build/exposition_dump [--promtool PATH] [--captures DIR]

Exit 0: no difference, or only those of the tables below. 1: others. 77: skipped, with the reason.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = ROOT / "src/wire/exposition/testdata"

# Lines that we refuse and prometheus_client takes, or the other way round: page -> why. A page in a
# table that shows no difference any more fails the run, so the tables stay true.
KNOWN_SAMPLES = {
    "invalid/bucket_without_bound": "we refuse a bucket whose `le` is absent or no number; theirs takes any sample",
    "invalid/dots_need_quotes": "theirs takes my.name{...} without quotes, which no version of the format allows",
    "invalid/exemplar_in_text": "theirs ignores the text after the timestamp",
    "invalid/label_name_with_colon": "theirs takes colons in label names, which no version of the format allows",
    "invalid/quantile_no_number": "we refuse a quantile that is no number; theirs takes any sample",
    "invalid/quoted_name_not_first": "theirs takes the quoted name anywhere between the braces",
    "invalid/timestamp_float_in_text": "theirs takes fractions of milliseconds",
    "invalid/timestamp_overflow": "theirs takes milliseconds that do not fit 64 bits",
}
REPEATED_HELP = "real pages repeat HELP; Prometheus itself takes that, its linter does not"
KNOWN_PROMTOOL = {
    "exposition-edge-cases/all-smi_metrics_dup_type_spaces.txt": REPEATED_HELP,
    "dcgm/mig_disabled_empty.txt": REPEATED_HELP,
    "invalid/dots_need_quotes": "quoted names need a linter of Prometheus 3",
    "edge/text": "quoted names need a linter of Prometheus 3",
}


def find_promtool():
    """promtool on PATH or among the fetched peers; None when it is nowhere."""
    peers = pathlib.Path(os.environ.get("GPULENS_PEERS", ROOT / "build/peers")) / "usr/bin"
    return shutil.which("promtool", path=f"{peers}:{os.environ.get('PATH', '')}")


def fail_skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def import_peer(cache):
    """prometheus_client's parsers, from this Python or from a virtual environment made for it."""
    try:
        from prometheus_client.openmetrics import parser as open_parser
        from prometheus_client import parser as text_parser
        return text_parser, open_parser
    except ImportError:
        pass
    target = pathlib.Path(cache)
    if not (target / "bin/pip").exists():
        try:
            venv.create(target, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            fail_skip("no virtual environment: %s" % error)
    if subprocess.run([target / "bin/pip", "install", "-q", "prometheus_client"]).returncode:
        fail_skip("prometheus_client cannot be installed")
    sys.path[:0] = [str(path) for path in target.glob("lib/python*/site-packages")]
    from prometheus_client.openmetrics import parser as open_parser
    from prometheus_client import parser as text_parser
    return text_parser, open_parser


def number(value):
    # Theirs reads "-0" as the integer 0: the sign of zero is not compared (our unit tests hold it).
    value = float(value) + 0.0
    return "nan" if math.isnan(value) else repr(value)


def ours(dump, page, kind):
    run = subprocess.run([dump, kind], input=page, capture_output=True, check=True)
    samples, bad, families, end = collections.Counter(), [], {}, {}
    # Not splitlines(): it also breaks at characters that JSON strings may hold.
    for line in run.stdout.decode("utf-8").split("\n"):
        if not line:
            continue
        row = json.loads(line)
        if "sample" in row:
            time = row.get("timestamp_ms")
            name = row["sample"]
            # Theirs gives the samples of a text-format counter their `_total`; we keep names as written.
            counter = kind == "text" and families[row["of"]]["type"] == "counter" and name == row["of"]
            if counter and not name.endswith("_total"):
                name += "_total"
            samples[(name, tuple(sorted(map(tuple, row["labels"]))), number(row["value"]), time)] += 1
        elif "bad" in row:
            bad.append(row["bad"])
        elif "family" in row:
            families[row["family"]] = row
        else:
            end = row
    return samples, bad, families, end


def theirs(peers, page, kind):
    text_parser, open_parser = peers
    parse = open_parser if kind == "openmetrics" else text_parser
    samples = collections.Counter()
    for family in parse.text_string_to_metric_families(page.decode("utf-8")):
        for sample in family.samples:
            time = None if sample.timestamp is None else round(float(sample.timestamp) * 1000)
            samples[(sample.name, tuple(sorted(sample.labels.items())), number(sample.value), time)] += 1
    return samples


def without(page, numbers):
    lines = page.split(b"\n")
    return b"\n".join(line for index, line in enumerate(lines, 1) if index not in set(numbers))


def describe(left, right):
    only_ours, only_theirs = left - right, right - left
    parts = ["ours alone: %s" % (row,) for row in list(only_ours)[:2]]
    parts += ["theirs alone: %s" % (row,) for row in list(only_theirs)[:2]]
    return "; ".join(parts)


def compare_samples(dump, peers, page, kind):
    """None, or how the samples differ. Lines that we refuse are taken out for the peer when it would
    otherwise give up the whole page; it must then agree on all the others."""
    samples, bad, _, _ = ours(dump, page, kind)
    try:
        other = theirs(peers, page, kind)
        if bad:
            return "theirs takes a page of which we refuse lines %s" % bad if other != samples else None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError) as error:
        if not bad:
            return "theirs refuses: %r" % error
        try:
            other = theirs(peers, without(page, bad), kind)
        except Exception as second:  # the peer raises whatever comes
            return "theirs refuses even without lines %s: %r" % (bad, second)
    return None if samples == other else describe(samples, other)


def compare_promtool(promtool, dump, page, kind):
    if promtool is None or kind != "text":
        return None
    samples, bad, _, _ = ours(dump, page, kind)
    run = subprocess.run([promtool, "check", "metrics"], input=without(page, bad).rstrip(b"\n") + b"\n",
                         capture_output=True)
    # Its reader insists on the last newline, so one is added.
    # 0: fine; 3: the page was read and something about it is unwise; else it could not be read.
    if run.returncode in (0, 3):
        return None
    return "promtool cannot read what we can: %s" % run.stderr.decode("utf-8", "replace").strip()[:200]


def pages(captures):
    for path in sorted((TESTDATA / "exposition_invalid").glob("*.txt")):
        head, _, body = path.read_bytes().partition(b"\n")
        kind = head.split()[0].decode()
        # A cut page and bytes behind the end are compared by our own tests alone.
        if b"truncated" not in head and b"after_eof" not in head:
            yield "invalid/" + path.stem, body, "openmetrics" if kind == "openmetrics" else "text"
    for kind in ("text", "openmetrics"):
        yield "edge/" + kind, (TESTDATA / "exposition_parser_corpus" / kind).read_bytes(), kind
    sources = captures / "SOURCES.tsv"
    if not sources.exists():
        print("captures not here: %s" % captures)
        return
    for row in sources.read_text("utf-8").splitlines()[1:]:
        name = row.split("\t")[0]
        path = captures / name
        if path.suffix in (".txt", ".metrics", ".prom") and path.exists():
            page = path.read_bytes()
            if b"# TYPE " in page or path.suffix == ".prom":
                yield name, page, "text"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", default=str(ROOT / "build/exposition_dump"))
    parser.add_argument("--promtool", default=find_promtool())
    parser.add_argument("--captures", type=pathlib.Path, default=ROOT.parent / "shared/fixtures")
    parser.add_argument("--venv", default=tempfile.gettempdir() + "/gpulens-differential-venv")
    options = parser.parse_args()
    if not pathlib.Path(options.dump).exists():
        fail_skip("no %s: build the target exposition_dump" % options.dump)
    peers = import_peer(options.venv)
    if options.promtool is None:
        print("promtool not found: its half is skipped")

    failures, read, seen_samples = [], 0, 0
    for name, page, kind in pages(options.captures):
        read += 1
        seen_samples += sum(ours(options.dump, page, kind)[0].values())
        for table, difference in ((KNOWN_SAMPLES, compare_samples(options.dump, peers, page, kind)),
                                  (KNOWN_PROMTOOL, compare_promtool(options.promtool, options.dump, page, kind))):
            known = table.get(name)
            if table is KNOWN_PROMTOOL and options.promtool is None:
                continue
            if difference and not known:
                failures.append("%s: %s" % (name, difference))
            elif known and not difference:
                failures.append("%s: no difference any more, take it out of the table (%s)" % (name, known))
    print("%d pages, %d samples, %d known differences, %d others" % (
        read, seen_samples, len(KNOWN_SAMPLES) + len(KNOWN_PROMTOOL), len(failures)))
    for failure in failures:
        print("DIFFERS " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
