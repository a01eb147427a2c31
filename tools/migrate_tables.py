#!/usr/bin/env python3
"""Turns the tables of other exporters (src/migrate/tables/*.tsv) into rows of C++ that are compiled in.

Fails on an invalid table: other columns, a name that comes twice, a row that neither has a native metric nor says why not.
Whether a native metric exists is checked by migrate_test.
"""
import pathlib
import re
import sys

COLUMNS = ["name", "native", "where", "factor", "labels", "note"]
# Rows of these are called differently from those of src/names.
CALLED = {"l9gpu": "L9gpuRowsHere", "zernel": "ZernelRowsHere", "all-smi": "AllSmiRows"}
FACTOR = re.compile(r"(1/)?[1-9][0-9]*")


def rows_of(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    if rows[0] != COLUMNS:
        raise SystemExit(f"{path}: the columns are {' '.join(rows[0])}, not {' '.join(COLUMNS)}")
    seen = set()
    for row in rows[1:]:
        if len(row) != len(COLUMNS) or not all(row):
            raise SystemExit(f"{path}: {row[0]}: {len(row)} columns or an empty one; write - for none")
        name, native, where, factor, labels, note = row
        if name in seen:
            raise SystemExit(f"{path}: {name} comes twice")
        seen.add(name)
        if native == "-" and note == "-":
            raise SystemExit(f"{path}: {name} has no native metric: its note is the reason")
        if "*" in name and native != "-":
            raise SystemExit(f"{path}: {name}: a pattern cannot have a native metric")
        if factor != "-" and not FACTOR.fullmatch(factor):
            raise SystemExit(f"{path}: {name}: factor {factor}; write 100 or 1/1024")
        for text in (where, labels):
            if text != "-" and not all("=" in pair for pair in text.split(",")):
                raise SystemExit(f"{path}: {name}: '{text}' is not key=value,…")
    return rows[1:]


def literal(text):
    return '"' + ("" if text == "-" else text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = "// Made by tools/migrate_tables.py.\n"
    for path in sorted(folder.glob("*.tsv")):
        name = CALLED.get(path.stem, path.stem.capitalize() + "Rows")
        rows = rows_of(path)
        text += f"constexpr TableRow k{name}[] = {{\n"
        text += "".join("    {" + ", ".join(map(literal, row)) + "},\n" for row in rows) + "};\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
