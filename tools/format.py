#!/usr/bin/env python3
"""Fails when clang-format would change a C++ file. `tools/format.py --fix` changes them."""
import subprocess
import sys

import tree


def main(arguments):
    files = [str(path) for path in tree.files() if path.suffix in (".cc", ".h")]
    command = ["clang-format-19"] + (["-i"] if "--fix" in arguments else ["--dry-run", "--Werror"])
    failed = False
    for start in range(0, len(files), 50):
        failed |= subprocess.run(command + files[start : start + 50], cwd=tree.ROOT).returncode != 0
    if failed:
        print("format: run  tools/format.py --fix", file=sys.stderr)
        return 1
    print(f"format: {len(files)} files are as clang-format-19 writes them")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
