#!/usr/bin/env python3
"""Writes the tables of docs/migrate/*.md again: what `gpulens migrate table --format md` prints, between the lines of a page that mark it.

    python3 tools/migrate_guides.py build/gpulens
"""
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs" / "migrate"
PLACE = re.compile(r"(<!-- table ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main():
    def table(match):
        made = subprocess.run([sys.argv[1], "migrate", "table", "--from", match.group(2), "--format", "md"], capture_output=True, text=True, check=True)
        return f"{match.group(1)}\n{made.stdout}\n{match.group(3)}"

    for path in sorted(FOLDER.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(PLACE.sub(table, text), encoding="utf-8")


if __name__ == "__main__":
    main()
