#!/usr/bin/env python3
"""Turns src/sdk/training/gpu_specs.tsv into rows of C++ that are compiled in: tools/spec_table.py TABLE OUT.

Fails on an invalid table: a duplicate product, an invalid number, a PCI id in another form, a
peak that is lower at less precision, or a row without a source. A PCI id of several products finds none of them.
"""
import collections
import pathlib
import re
import sys

NUMBERS = ["fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "memory_gb", "bandwidth_gb_s", "tdp_w"]
COLUMNS = ["product", "pci_ids", *NUMBERS, "source"]
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def fail(number, why):
    raise SystemExit(f"gpu_specs.tsv:{number}: {why}")


def read(path):
    rows, seen = [], set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if not seen:
            if cells != COLUMNS:
                fail(number, "the columns are " + " ".join(COLUMNS))
            seen.add("")
            continue
        if len(cells) != len(COLUMNS) or not all(cells):
            fail(number, "too few columns, or an empty one; write - for what is not known")
        row = dict(zip(COLUMNS, cells))
        if row["product"].lower() in seen:
            fail(number, f"{row['product']} is a duplicate")
        seen.add(row["product"].lower())
        for name in NUMBERS:
            if row[name] != "-" and not re.fullmatch(r"\d+(\.\d+)?", row[name]):
                fail(number, f"{name}: \"{row[name]}\" is no number")
        for pci in row["pci_ids"].split():
            if pci != "-" and not _PCI.fullmatch(pci):
                fail(number, f"\"{pci}\" is no PCI id")
        if row["source"] == "-":
            fail(number, "no source")
        known = [float(row[name]) for name in ("fp16", "fp8", "fp4") if row[name] != "-"]
        if known != sorted(known):
            fail(number, "a peak is lower at less precision")
        rows.append(row)
    return rows


def number(text):
    return "kNotMeasured" if text == "-" else text


def text(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    rows = read(pathlib.Path(sys.argv[1]))
    owners = collections.Counter(pci for row in rows for pci in row["pci_ids"].split())
    out = "// Made by tools/spec_table.py.\nconstexpr SpecRow kRows[] = {\n"
    for row in rows:
        ids = " ".join(pci for pci in row["pci_ids"].split() if pci != "-" and owners[pci] == 1)
        dates = _DATE.findall(row["source"])
        values = ", ".join(number(row[name]) for name in NUMBERS)
        out += f"    {{{text(row['product'])}, {text(ids)}, {{{values}}}, {text(row['source'])}, {text(max(dates, default=''))}}},\n"
    path = pathlib.Path(sys.argv[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(out + "};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
