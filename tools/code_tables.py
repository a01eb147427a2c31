#!/usr/bin/env python3
"""Turns the tables of codes (src/catalog/codes/*.tsv) into rows of C++ that are compiled in.

Fails on an invalid table: a word outside the closed lists, a source without a row in sources.tsv, a duplicate code or a
code out of order.
"""
import pathlib
import sys

COLUMNS = ["code", "name", "class", "action", "severity", "source", "date", "meaning"]
CLASSES = {"application", "driver", "hardware", "memory", "bus", "thermal", "nvlink", "unknown"}
ACTIONS = {"none", "restart_app", "reset_gpu", "reboot", "drain", "contact_vendor", "check_mechanicals", "unknown"}
SEVERITIES = {"info", "warning", "error", "fatal", "unknown"}


def rows_of(path, columns):
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    if rows[0] != columns:
        raise SystemExit(f"{path}: the columns are {' '.join(rows[0])}, not {' '.join(columns)}")
    for number, row in enumerate(rows[1:], 3):
        if len(row) != len(columns) or not all(row):
            raise SystemExit(f"{path}:{number}: {len(row)} columns or an empty one; write - for what is not known")
    return rows[1:]


def check(path, rows, sources, numeric):
    before = None
    for row in rows:
        code, _, cls, action, severity, cited, _, _ = row
        key = int(code) if numeric else code
        if before is not None and key <= before:
            raise SystemExit(f"{path}: {code} is out of order or a duplicate")
        before = key
        for word, allowed in ((cls, CLASSES), (action, ACTIONS), (severity, SEVERITIES)):
            if word not in allowed:
                raise SystemExit(f"{path}: {code}: '{word}' is none of {' '.join(sorted(allowed))}")
        for source in cited.split():
            if source not in sources:
                raise SystemExit(f"{path}: {code}: source '{source}' has no row in sources.tsv")


def literal(text):
    return '"' + ("" if text == "-" else text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sources = rows_of(folder / "sources.tsv", ["source", "date", "citation"])
    names = {row[0] for row in sources}
    text = "// Made by tools/code_tables.py.\nconstexpr CodeSource kSources[] = {\n"
    text += "".join("    {" + ", ".join(map(literal, row)) + "},\n" for row in sources) + "};\n"
    for table in ("xid", "sxid", "ras"):
        path = folder / f"{table}.tsv"
        rows = rows_of(path, COLUMNS)
        check(path, rows, names, numeric=table != "ras")
        text += f"constexpr CodeFacts k{table.capitalize()}[] = {{\n"
        text += "".join("    {" + ", ".join(map(literal, row)) + "},\n" for row in rows) + "};\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
