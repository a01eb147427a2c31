#!/usr/bin/env python3
"""Packs one file by gzip into C++ that is compiled in: an expression of std::string_view.

    tools/embed_file.py OUT FILE

The same file gives the same text.
"""
import pathlib
import sys

from embed_page import literal, packed


def main(out, path):
    small = packed(pathlib.Path(path).read_bytes())
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(out).write_text(f"std::string_view(\n{literal(small)},\n    {len(small)})\n", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
