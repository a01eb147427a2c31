#!/usr/bin/env python3
"""Writes deploy/dashboards/*.json and the tables of docs/dashboards.md from the tables of this folder. `--check` fails when a file is not current or a rule is broken."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import l9gpu  # noqa: E402
import lint  # noqa: E402
import model  # noqa: E402
import native  # noqa: E402
import zumik  # noqa: E402

FOLDER = model.ROOT / "deploy" / "dashboards"
PAGE = model.ROOT / "docs" / "dashboards.md"
BEGIN, END = "<!-- made by tools/dashboards/build.py -->\n", "<!-- end -->\n"
FAMILIES = (native.BOARDS, l9gpu.BOARDS, zumik.BOARDS)
BOARDS = tuple(board for family in FAMILIES for board in family)


def dashboards():
    """{board: JSON}."""
    return {board: model.to_json(board, family) for family in FAMILIES for board in family}


def text(dashboard):
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


def queries(board):
    """{(panel id, refId): Query} of a board: the ranges of the JSON's queries."""
    return {(number, chr(ord("A") + i)): query for number, _, _, item in model.placed(board) if isinstance(item, model.Panel)
            for i, query in enumerate(item.queries)}


def tables():
    """The part of docs/dashboards.md that follows from the tables."""
    lines = []
    for heading, family in (("Ours", native.BOARDS), ("l9gpu's", l9gpu.BOARDS), ("zumik's", zumik.BOARDS)):
        lines += [f"## {heading}", "", "| dashboard | file, uid | `names` | questions that it answers | panels |", "|---|---|---|---|---|"]
        for board in family:
            panels = "; ".join(f"{row.title}: " + ", ".join(panel.title for panel in row.panels) for row in board.rows)
            lines.append(f"| {board.title} | `{board.file}`, `{board.uid}` | {f'`[{board.names}]`' if board.names else '–'} | {' '.join(board.answers)} | {panels} |")
        lines.append("")
    lines += ["## Panels that need `metrics: all`", "", "| dashboard | panel | metrics |", "|---|---|---|"]
    each = [(board, panel) for board in BOARDS for row in board.rows for panel in row.panels]
    lines += [f"| {board.title} | {panel.title} | {', '.join(f'`{name}`' for name in model.needs_all(board, panel))} |"
              for board, panel in each if model.needs_all(board, panel)]
    lines += ["", "## Queries that nothing answers yet", "", "| dashboard | panel | query | why |", "|---|---|---|---|"]
    lines += [f"| {board.title} | {panel.title} | `{query.expr}` | {query.absent} |" for board, panel in each for query in panel.queries if query.absent]
    return "\n".join(lines) + "\n"


def with_tables(page):
    """A page with its generated part as it must be."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + tables() + END + rest.partition(END)[2]


def problems():
    """What is wrong, in lines."""
    uids = [board.uid for board in BOARDS]
    yield from (f"{uid}: used twice" for uid in {uid for uid in uids if uids.count(uid) > 1})
    for board, dashboard in dashboards().items():
        fixed = {key for key, query in queries(board).items() if query.window}
        yield from (f"{board.file}: {finding}" for finding in lint.findings(dashboard, fixed))
        path = FOLDER / board.file
        if not path.exists() or path.read_text() != text(dashboard):
            yield f"{board.file}: not current; run tools/dashboards/build.py"
    if PAGE.read_text() != with_tables(PAGE.read_text()):
        yield f"docs/{PAGE.name}: not current; run tools/dashboards/build.py"
    known = {board.file for board in BOARDS}
    yield from (f"{path.name}: made by no table" for path in FOLDER.glob("*.json") if path.name not in known)


def main(arguments):
    if "--check" not in arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in FOLDER.glob("*.json"):
            path.unlink()
        for board, dashboard in dashboards().items():
            (FOLDER / board.file).write_text(text(dashboard))
        PAGE.write_text(with_tables(PAGE.read_text()))
    found = list(problems())
    for line in found:
        print(f"dashboards: {line}", file=sys.stderr)
    if not found:
        print(f"dashboards: {len(BOARDS)} boards, {sum(len(queries(board)) for board in BOARDS)} queries")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
