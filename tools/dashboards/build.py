#!/usr/bin/env python3
"""Writes deploy/dashboards/*.json from the tables of this folder. `--check` fails when a file is not current or a rule is broken."""
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
FAMILIES = (native.BOARDS, l9gpu.BOARDS, zumik.BOARDS)
BOARDS = tuple(board for family in FAMILIES for board in family)


def dashboards():
    """{board: JSON}."""
    return {board: model.to_json(board, family) for family in FAMILIES for board in family}


def text(dashboard):
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


def queries(board):
    """{(panel id, refId): Query} of a board: the ranges beside the JSON's queries."""
    return {(number, chr(ord("A") + i)): query for number, _, _, item in model.placed(board) if isinstance(item, model.Panel)
            for i, query in enumerate(item.queries)}


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
    known = {board.file for board in BOARDS}
    yield from (f"{path.name}: made by no table" for path in FOLDER.glob("*.json") if path.name not in known)


def main(arguments):
    if "--check" not in arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in FOLDER.glob("*.json"):
            path.unlink()
        for board, dashboard in dashboards().items():
            (FOLDER / board.file).write_text(text(dashboard))
    found = list(problems())
    for line in found:
        print(f"dashboards: {line}", file=sys.stderr)
    if not found:
        print(f"dashboards: {len(BOARDS)} boards, {sum(len(queries(board)) for board in BOARDS)} queries")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
