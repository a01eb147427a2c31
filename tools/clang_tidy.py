#!/usr/bin/env python3
"""Runs clang-tidy over src/**/*.cc (not tests, benchmarks, fuzzers): tools/clang_tidy.py BUILD_TREE [WORD…].

Takes the commands of BUILD_TREE/compile_commands.json. A file that was clean is not run again while itself,
every header of ours that it includes, its command and .clang-tidy stay as they are: BUILD_TREE/tidy_cache
holds one empty file per such state. With WORDs only files whose path contains one are run.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import tree

TOOL = "clang-tidy-19"
_INCLUDE = re.compile(rb'^\s*#\s*include\s+(?:"([^"]+)"|<(gpulens/[^>]+)>)', re.M)


def ours_behind(path, known):
    """The files of ours that `path` includes, directly or not, and itself."""
    todo, seen = [path], set()
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        if here not in known:
            known[here] = here.read_bytes()
        for own, public in _INCLUDE.findall(known[here]):
            name = (own or public).decode()
            for candidate in (tree.ROOT / "src" / name, tree.ROOT / "include" / name, here.parent / name):
                if candidate.is_file():
                    todo.append(candidate)
                    break
    return seen


def key_of(path, command, version, known):
    digest = hashlib.sha256(f"{version}\0{command}\0".encode())
    digest.update((tree.ROOT / ".clang-tidy").read_bytes())
    for file in sorted(ours_behind(path, known)):
        digest.update(str(file.relative_to(tree.ROOT)).encode() + b"\0" + known[file])
    return digest.hexdigest()


def lint(build, path):
    """What clang-tidy has to say; empty when nothing."""
    command = [TOOL, "-p", str(build), "--quiet", "--warnings-as-errors=*", str(path)]
    done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return re.sub(r"^(?:\d+ warnings? .*|Suppressed \d+ .*|Use -header-filter.*)\n", "", done.stdout + done.stderr, flags=re.M)


def main(build, words):
    build = pathlib.Path(build).resolve()
    cache = build / "tidy_cache"
    cache.mkdir(exist_ok=True)
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    todo, clean, known = [], 0, {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        relative = path.relative_to(tree.ROOT) if path.is_relative_to(tree.ROOT) else pathlib.Path("/")
        if relative.parts[0] != "src" or tree.is_test(relative):
            continue
        if words and not any(word in str(relative) for word in words):
            continue
        mark = cache / key_of(path, entry["command"], version, known)
        if mark.exists():
            clean += 1
        else:
            todo.append((path, mark))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        for (path, mark), said in zip(todo, pool.map(lambda item: lint(build, item[0]), todo)):
            if said:
                failed += 1
                print(said.rstrip(), flush=True)
            else:
                mark.touch()
    print(f"clang-tidy: {len(todo)} files looked at, {clean} unchanged since they were clean, {failed} with findings")
    return 1 if failed or not todo and not clean else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
