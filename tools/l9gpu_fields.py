#!/usr/bin/env python3
"""Makes the Python of gpulens.compat.l9gpu from tools/l9gpu_fields.tsv and the catalogue of metrics.

usage: l9gpu_fields.py [--check] GPULENS

GPULENS is the program; its catalogue (`gpulens metrics --format json`) says which metrics there are, in what unit and with
what attributes. With --check nothing is written: it fails when a file is not what would be written.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools/l9gpu_fields.tsv"
TARGET = ROOT / "python/gpulens/compat/l9gpu"
COLUMNS = ["schema", "field", "type", "metric", "unit", "attributes"]
TYPES = {"int", "float", "Optional[int]", "Optional[float]", "Optional[str]", "Optional[bool]", "Optional[List[int]]",
         "Optional[Dict[str, int]]"}
# A vendor's device has the fields of DeviceMetrics, too.
BASES = {"AMDDeviceMetrics": "DeviceMetrics", "GaudiDeviceMetrics": "DeviceMetrics"}
ABOUT = {
    "DeviceMetrics": "What an NVIDIA GPU's driver tells.",
    "AMDDeviceMetrics": "What an AMD GPU's driver tells besides.",
    "GaudiDeviceMetrics": "What an Intel Gaudi accelerator's driver tells besides.",
    "HostMetrics": "Of a machine and all its GPUs.",
    "DcgmProfilingMetrics": "Profiling figures of DCGM.",
    "VllmMetrics": "Of a vLLM server.",
    "NimMetrics": "Of an NVIDIA NIM server.",
    "TritonMetrics": "Of a model of a Triton server.",
    "SGLangMetrics": "Of an SGLang server.",
    "TGIMetrics": "Of a Text Generation Inference server.",
    "GPUFleetHealthMetrics": "The health of a GPU.",
    "GPUCostMetrics": "What a GPU costs, and what it emits.",
    "NCCLCollectiveMetrics": "One collective operation of one rank.",
    "TrainingMetrics": "One step of a training job.",
}
HEAD = '"""%s\n\nMade by tools/l9gpu_fields.py; change its table, not this.\n"""\n'


class Wrong(Exception):
    pass


def read_table(text):
    rows = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if lines[0].split("\t") != COLUMNS:
        raise Wrong("the columns are " + " ".join(COLUMNS))
    for line in lines[1:]:
        cells = line.split("\t")
        if len(cells) != len(COLUMNS) or not all(cells):
            raise Wrong(f"{line!r}: too few columns, or an empty one; write - for nothing")
        row = dict(zip(COLUMNS, cells))
        row["attributes"] = dict(pair.split("=") for pair in cells[5].split()) if cells[5] != "-" else {}
        if row["type"] not in TYPES or row["schema"] not in ABOUT or not re.fullmatch(r"[a-z][a-z0-9_]*", row["field"]):
            raise Wrong(f"{line!r}: no such type, no such schema, or a field that is no name")
        rows.append(row)
    return rows


def settle(rows, catalogue):
    """Puts the catalogue's units in, and refuses what disagrees with it."""
    known = {}
    for metric in catalogue["metrics"]:
        known.setdefault(metric["name"], []).append(metric)
    seen = {}
    for row in rows:
        field, metric = row["field"], row["metric"]
        if metric == "-":
            continue
        entries = known.get(metric, [])
        units = {entry["unit"] for entry in entries}
        keys = {key for entry in entries for key in entry["attributes"].split()}
        if row["unit"] == "=":
            if len(units) != 1:
                raise Wrong(f"{field}: the catalogue has no metric {metric} of one unit; say the unit")
            (row["unit"],) = units
        elif units == {row["unit"]}:
            raise Wrong(f"{field}: {metric} is in the catalogue with that unit now; write =")
        if entries and not keys.issuperset(row["attributes"]):
            raise Wrong(f"{field}: {metric} has no attribute {sorted(set(row['attributes']) - keys)}")
        facts = (metric, row["unit"], row["attributes"])
        if seen.setdefault(field, facts) != facts:
            raise Wrong(f"{field}: two schemas mean different series by it")
    return rows


def names_module(rows):
    out = [HEAD % "Field to metric, unit and attributes.", "FIELDS = {"]
    done = set()
    for row in rows:
        if row["metric"] != "-" and row["field"] not in done:
            done.add(row["field"])
            pairs = ", ".join(f'"{key}": "{value}"' for key, value in row["attributes"].items())
            out.append(f'    "{row["field"]}": ("{row["metric"]}", "{row["unit"]}", {{{pairs}}}),')
    return "\n".join(out + ["}", ""])


def schemas_module(rows):
    out = [HEAD % "The records of the l9gpu project, field by field; None is what was not measured."]
    out += ["from dataclasses import dataclass", "from typing import Dict, List, Optional", "", "__all__ = ["]
    out += [f'    "{name}",' for name in ABOUT] + ["]"]
    for name, about in ABOUT.items():
        base = f"({BASES[name]})" if name in BASES else ""
        out += ["", "", "@dataclass", f"class {name}{base}:", f'    """{about}"""', ""]
        for row in rows:
            if row["schema"] != name:
                continue
            default = " = None" if row["type"].startswith("Optional") else ""
            told = "" if row["metric"] == "-" else f'  # {row["unit"]}'
            out.append(f'    {row["field"]}: {row["type"]}{default}{told}')
    return "\n".join(out + [""])


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        print(__doc__)
        return 2
    run = subprocess.run([arguments[-1], "metrics", "--format", "json"], check=True, capture_output=True, text=True)
    try:
        rows = settle(read_table(TABLE.read_text(encoding="utf-8")), json.loads(run.stdout))
    except Wrong as why:
        print(f"tools/l9gpu_fields.tsv: {why}", file=sys.stderr)
        return 1
    stale = []
    for name, text in (("_fields.py", names_module(rows)), ("schemas.py", schemas_module(rows))):
        path = TARGET / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"{', '.join(stale)}: not what tools/l9gpu_fields.py writes; run it", file=sys.stderr)
        return 1
    print(f"l9gpu: {len(rows)} fields, {'written: ' + ', '.join(stale) if stale else 'nothing to write'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
