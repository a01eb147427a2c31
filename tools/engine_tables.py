#!/usr/bin/env python3
"""Turns the tables of LLM engines (src/scrape/engine/tables/*.tsv) into rows of C++ that are compiled in.

Fails on an invalid table: a role that does not exist, an unknown operator on labels,
rows of one family apart, an ignored family without a reason. What columns mean: src/scrape/engine/engine_row.h.
"""
import pathlib
import re
import sys

COLUMNS = ["family", "type", "labels", "unit", "role", "scale", "alias_of", "since", "until", "note"]
ENGINE_COLUMNS = ["engine", "layer", "port", "path", "provider", "recognised", "reads", "instead_of"]
TYPES = {"counter": "kCounter", "gauge": "kGauge", "histogram": "kHistogram", "summary": "kSummary",
         "untyped": "kUnknown"}
LAYERS = {"engine", "worker", "cache", "router", "gateway"}
USES = {"": "kSame", ":sum": "kSumOfRole", ":count": "kCountOfRole", ":count@count": "kCellCountRole",
        "@sum": "kOwnSum", "@count": "kOwnCount"}
LABEL = re.compile(r"\+[\w.]+=\S*|\w+>[\w.]+(\([^()]+\))?|\w+[=?~]\S*|\w+!")


def rows_of(path, columns):
    """The rows below the header, with their line numbers. `@` among the labels of a row is replaced by the text of the line
    `@labels` above the header: what most rows of a file do with labels."""
    rows, common = [], None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("@labels\t"):
            common = line.partition("\t")[2]
        elif line and not line.startswith("#"):
            rows.append((number, line.split("\t")))
    if rows[0][1] != columns:
        raise SystemExit(f"{path}: the columns are {' '.join(rows[0][1])}, not {' '.join(columns)}")
    for number, row in rows[1:]:
        if len(row) != len(columns) or not all(row):
            raise SystemExit(f"{path}:{number}: {len(row)} columns or an empty one; write - for what is not known")
        if columns is COLUMNS and "@" in (labels := row[2].split(",")):
            if common is None:
                raise SystemExit(f"{path}:{number}: the labels have @, and the file no line @labels")
            row[2] = ",".join(common if label == "@" else label for label in labels)
    return rows[1:]


def roles_of(folder):
    """{"TimeToFirstToken": "kInferenceTimeToFirstToken"}: the ENGINE_METRIC rows of catalog/inference.def."""
    text = (folder / "inference.def").read_text(encoding="utf-8")
    return {name[len("kInference"):]: name for name in re.findall(r"^ENGINE_METRIC\(\s*(k\w+),", text, re.MULTILINE)}


def literal(text):
    return '"' + ("" if text == "-" else text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def row_text(where, row, roles):
    family, types, labels, unit, role, scale, alias, since, until, note = row
    if not re.fullmatch(r"[A-Za-z_:][\w:]*\*?|\*[\w:]+", family):
        raise SystemExit(f"{where}: '{family}' is no name of a family")
    unknown = [t for t in types.split("|") if t not in TYPES]
    if unknown:
        raise SystemExit(f"{where}: '{unknown[0]}' is none of {' '.join(TYPES)}")
    for label in [] if labels == "-" else labels.split(","):
        if not LABEL.fullmatch(label):
            raise SystemExit(f"{where}: '{label}' is nothing that can happen to a label")
    use, metric, label = {"pass": ("kPass", "nullptr", ""), "ignore": ("kIgnore", "nullptr", "")}.get(role, (None,) * 3)
    if use == "kIgnore" and note == "-":
        raise SystemExit(f"{where}: {family} is ignored without a reason; write it into the note")
    if not use:
        name, rest = re.fullmatch(r"(\w+)(\S*)", role).groups()
        if name not in roles or rest not in USES:
            raise SystemExit(f"{where}: '{role}' is no role of src/catalog/inference.def")
        use, metric, label = USES[rest], "&" + roles[name], ""
    factor = "1"
    if scale.startswith("label:"):
        use, label = "kLabelNumber", scale[6:]
    elif scale.startswith("names:"):
        use, label = "kLabelNames", scale[6:]
    elif scale != "-":
        factor = repr(float(scale))
    mask = " | ".join(f"1u << static_cast<unsigned>(ExpositionType::{TYPES[t]})" for t in types.split("|"))
    texts = ", ".join(map(literal, (labels, unit, alias, since, until, note)))
    return f"    {{{literal(family)}, {mask}, RowUse::{use}, {metric}, {factor}, {literal(label)}, {texts}}},\n"


def table_text(path, name, roles):
    seen, last, text = set(), None, f"constexpr EngineRow {name}[] = {{\n"
    for number, row in rows_of(path, COLUMNS):
        if row[0] != last and row[0] in seen:
            raise SystemExit(f"{path}:{number}: rows of {row[0]} are apart")
        last = row[0]
        seen.add(last)
        text += row_text(f"{path}:{number}", row, roles)
    return text + "};\n"


def main():
    folder, roles_folder, out = (pathlib.Path(p) for p in sys.argv[1:4])
    roles = roles_of(roles_folder)
    text = "// Made by tools/engine_tables.py.\n"
    engines = "constexpr Engine kEngines[] = {\n"
    rows = rows_of(folder / "engines.tsv", ENGINE_COLUMNS)
    names = {"-", *(row[0] for _, row in rows)}
    for number, (name, layer, port, page, provider, recognised, reads, instead_of) in rows:
        if unknown := {reads, instead_of} - names:
            raise SystemExit(f"{folder}/engines.tsv:{number}: '{unknown.pop()}' is no engine of this table")
        if layer not in LAYERS:
            raise SystemExit(f"{folder}/engines.tsv:{number}: layer '{layer}' is none of {' '.join(sorted(LAYERS))}")
        table = "kRows_" + re.sub(r"\W", "_", name)
        text += table_text(folder / (re.sub(r"\W", "_", name) + ".tsv"), table, roles)
        engines += f"    {{{literal(name)}, {literal(layer)}, {literal(provider)}, {int(port)}, {literal(page)}, " \
                   f"{literal(recognised)}, {literal(reads)}, {literal(instead_of)}, {table}}},\n"
    text += table_text(folder / "common.tsv", "kCommonRows", roles)
    prefixes = rows_of(folder / "prefixes.tsv", ["prefix", "replaces", "where"])
    text += engines + "};\nconstexpr EnginePrefix kPrefixes[] = {\n"
    text += "".join(f"    {{{literal(row[0])}, {literal(row[1])}}},\n" for _, row in prefixes) + "};\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    # Included into a list of strings.
    out.with_name("engine_names.inc").write_text("".join(f"    {literal(row[0])},\n" for _, row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
