#!/usr/bin/env python3
"""Runs clang-tidy over src/**/*.cc (not tests, benchmarks, fuzzers): tools/clang_tidy.py
[--changed] BUILD_TREE [WORD…].

Takes the commands of BUILD_TREE/compile_commands.json. A file that was clean is not run again while itself,
every header of ours that it includes, its command and .clang-tidy stay as they are: GPULENS_CACHE/clang-tidy
(~/.cache/gpulens/clang-tidy) holds one empty file per such state, for every checkout of this machine. With WORDs only files whose path contains one are run, with --changed only
those that are, or include, what has changed since the last full check (tools/affected.py).

Most of the time goes into the standard library's headers, so neighbours are looked at together, as one file that
includes them. Where that finds something, or two of them use one name, each half is looked at again, down to
the single file, whose word counts.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import affected
import tree

TOOL = "clang-tidy-19"
GROUP, OPEN = 8, 4  # files looked at together; groups that may still grow
_DEFINITION = re.compile(r"^(?:class|struct|enum class|enum|union) (\w+)|^(?!namespace|using namespace)[A-Za-z][^=({;\[]*?(?<![:~])\b(\w+)\s*[=({;\[]", re.M)


def kept():
    """The folder of results that other checkouts share."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("GPULENS_CACHE") or home / "gpulens")


def key_of(path, command, version):
    digest = hashlib.sha256(f"{version}\0{command.replace(str(tree.ROOT), '.')}\0".encode())
    digest.update((tree.ROOT / ".clang-tidy").read_bytes())
    for file in sorted(affected.closure_of([path])):
        digest.update(str(file.relative_to(tree.ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def arguments_of(entry):
    """The compiler's arguments without its name, the file and the output."""
    arguments = shlex.split(entry["command"])[1:]
    output = arguments.index("-o")
    del arguments[output : output + 2]
    return tuple(each for each in arguments if each not in ("-c", entry["file"]))


def run_tool(build, path, arguments):
    """The output of clang-tidy for a file compiled with these arguments; empty without a finding."""
    command = [TOOL, "--quiet", "--warnings-as-errors=*", str(path), "--", *arguments]
    done = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return re.sub(r"^(?:\d+ warnings? .*|Suppressed \d+ .*|Use -header-filter.*)\n", "", done.stdout + done.stderr, flags=re.M)


def lint(build, files, arguments):
    """[(file, output of clang-tidy)] of a list of files that share their arguments."""
    if len(files) == 1:
        return [(files[0], run_tool(build, files[0], arguments))]
    together = build / "tidy_groups" / (hashlib.sha256("\0".join(map(str, files)).encode()).hexdigest()[:16] + ".cc")
    together.write_text("".join(f'#include "{file}"\n' for file in files))
    if not run_tool(build, together, (*arguments, "-Wno-shadow")):
        return [(file, "") for file in files]
    half = len(files) // 2
    return lint(build, files[:half], arguments) + lint(build, files[half:], arguments)


def names_of(text):
    """The names that a source defines at file scope, more or less: those that two of them may not share."""
    return {first or second for first, second in _DEFINITION.findall(text.decode())}


def groups_of(todo, names_in):
    """[(files, arguments)] of {file: arguments} and {file: its names}: at most GROUP neighbours that are compiled alike and share no name."""
    groups, open_groups = [], {}
    for file, arguments in sorted(todo.items()):
        names = names_in[file]
        waiting = open_groups.setdefault(arguments, [])
        for group in waiting:
            if len(group[0]) < GROUP and not names & group[1]:
                break
        else:
            group = ([], set())
            waiting.append(group)
            groups.append((group[0], arguments))
            del waiting[:-OPEN]
        group[0].append(file)
        group[1].update(names)
    return groups


def main(arguments):
    only_changed = arguments[:1] == ["--changed"]
    build, *words = arguments[only_changed:]
    changed = affected.changes() if only_changed else None
    build = pathlib.Path(build).resolve()
    cache = kept() / "clang-tidy"
    cache.mkdir(parents=True, exist_ok=True)
    (build / "tidy_groups").mkdir(exist_ok=True)
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    todo, marks, clean, left_out = {}, {}, 0, 0
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        relative = path.relative_to(tree.ROOT) if path.is_relative_to(tree.ROOT) else pathlib.Path("/")
        if relative.parts[0] != "src" or tree.is_test(relative):
            continue
        if words and not any(word in str(relative) for word in words):
            continue
        if changed is not None and not any(tree.ROOT / each in affected.closure_of([path]) for each in changed):
            left_out += 1
            continue
        mark = cache / key_of(path, entry["command"], version)
        if mark.exists():
            clean += 1
        else:
            marks[path] = mark
            todo[path] = arguments_of(entry)
    failed, done, begin, printed = 0, 0, time.monotonic(), 0.0
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        for group in pool.map(lambda item: lint(build, *item), groups_of(todo, {file: names_of(file.read_bytes()) for file in todo})):
            for path, output in group:
                if output:
                    failed += 1
                    print(output.rstrip(), flush=True)
                else:
                    marks[path].touch()
            done += len(group)
            passed = time.monotonic() - begin
            if passed - printed > 30:
                printed = passed
                print(f"                {done} of {len(todo)} files, {passed * (len(todo) - done) / done / 60:.0f} min left", flush=True)
    print(f"clang-tidy: {len(todo)} files looked at, {clean} unchanged since they were clean, {failed} with findings"
          + (f"; {left_out} left out: nothing that they include has changed" if changed is not None else ""))
    return 1 if failed or not todo and not clean and not left_out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
