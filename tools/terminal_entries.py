#!/usr/bin/env python3
"""Writes src/cli/top/terminal_entries.h: descriptions of common terminals, compiled into the program for machines without a
terminfo database. They are those of this machine's ncurses: infocmp -Q2 prints one for the variable TERMINFO (ncurses 6.1 and later
read "b64:…" there). The entries of xterm and others need Debian's ncurses-term; without it the file stays.
"""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TERMINALS = ("xterm", "xterm-256color", "screen", "tmux", "tmux-256color", "linux", "dumb", "vt100")
HEAD = """// Descriptions of terminals, made by tools/terminal_entries.py from infocmp's output. Do not edit.
#pragma once

#include <string_view>

namespace gpulens {

struct TerminalEntry {
  std::string_view name;
  const char* description;  // for the variable TERMINFO
};

inline constexpr TerminalEntry kTerminalEntries[] = {
"""


def entry(name):
    text = subprocess.run(["infocmp", "-q", "-x", "-Q2", name], check=True, capture_output=True, text=True).stdout
    return "".join(line for line in text.splitlines() if not line.startswith("#"))


def main():
    out = HEAD
    for name in TERMINALS:
        pieces = re.findall(".{1,92}", entry(name))
        out += f'    {{"{name}",\n' + "\n".join(f'     "{piece}"' for piece in pieces) + "},\n"
    out += "};\n\n}  // namespace gpulens\n"
    (ROOT / "src" / "cli" / "top" / "terminal_entries.h").write_text(out)


if __name__ == "__main__":
    main()
