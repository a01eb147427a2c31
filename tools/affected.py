#!/usr/bin/env python3
"""Lists what a change can have broken since the last full check: tools/affected.py since | changes | row | targets BUILD_TREE [--all] SUFFIX…

tests/full_checks.tsv has a row for each `./dev check --full` that passed: the tree of git that it looked at (`git rev-parse
HEAD^{tree}`), the compilers, the day. The newest row whose tree is in this repository and whose compilers are those of this
machine is what a change is compared with. Where there is none, everything has changed.

since     in a sentence, what is looked at
row       what a row of tests/full_checks.tsv begins with, for the commit that is checked out
changes   the files that differ from that tree, committed or not; "everything" alone where all of them must count
targets   the programs of a configured build tree whose names end in one of the suffixes (_test, _fuzz, _bench, gpulens) and
          that are made of, or read, one of these files; with --all, whether they are or not

A program is made of its sources, the headers that they include, the libraries that it links and the tables that are
compiled in. It reads the other files of its sources' folders and of folders that they name (testdata, profiles).
Documents change nothing; what the check itself is made of changes everything.
"""
import datetime
import functools
import pathlib
import re
import subprocess
import sys

import tree

RECORD = tree.ROOT / "tests/full_checks.tsv"
EVERYTHING = "everything"
# Files that decide how everything is compiled, run and checked.
_ALL = re.compile(
    r"(CMakeLists\.txt|CMakePresets\.json|dev|\.ci/.*|cmake/.*|(src|tests|bench)/.*\.cmake"
    r"|tools/(affected|fuzz|clang_tidy|coverage|test_summary|tree)\.py|tools/(packages|follow)\.sh|tools/leaks\.txt|\.clang-tidy)"
)
_NOTHING = re.compile(r".*\.md|docs/.*|LICENSE|\.gitignore|\.git-blame-ignore-revs|\.clang-format|deploy/.*|tests/full_checks\.tsv")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<(gpulens/[^>]+)>)', re.M)


def git(*arguments):
    """The lines that git prints, or None when it fails."""
    done = subprocess.run(["git", *arguments], cwd=tree.ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def compilers():
    """The versions that a full check was made with, as its row has them."""
    versions = []
    for program, option in (("g++", "-dumpfullversion"), ("clang++-19", "-dumpversion")):
        try:
            done = subprocess.run([program, option], capture_output=True, text=True, check=True)
            versions.append(f"{program} {done.stdout.strip()}")
        except (OSError, subprocess.CalledProcessError):
            return None
    return ", ".join(versions)


def rows():
    """[(tree, compilers, day, minutes)] of the record, oldest first."""
    if not RECORD.exists():
        return []
    lines = RECORD.read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


@functools.cache
def last_full_check():
    """The newest row that can be compared with, or None."""
    here = compilers()
    for row in reversed(rows()):
        if row[1] == here and git("cat-file", "-e", f"{row[0]}^{{tree}}") is not None:
            return row
    return None


@functools.cache
def changes():
    """The paths that differ from the last full check, or None for everything."""
    last = last_full_check()
    if last is None:
        return None
    differing = git("diff", "--name-only", "--no-renames", last[0])
    untracked = git("ls-files", "--others", "--exclude-standard")
    if differing is None or untracked is None:
        return None
    paths = {path for path in differing + untracked if not _NOTHING.fullmatch(path)}
    return None if any(_ALL.fullmatch(path) for path in paths) else frozenset(map(pathlib.Path, paths))


@functools.cache
def included_by(path):
    """The files of ours that a file includes."""
    found = []
    for own, public in _INCLUDE.findall(path.read_bytes()):
        name = (own or public).decode()
        for candidate in (tree.ROOT / "src" / name, tree.ROOT / "include" / name, tree.ROOT / name, tree.ROOT / "python" / name,
                          path.parent / name):
            if candidate.is_file():
                found.append(candidate)
                break
    return found


def closure_of(paths):
    """These files and all that they include, directly or not."""
    todo, seen = list(paths), set()
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += included_by(here)
    return seen


def inputs_of(build, target):
    """The files of the project, and the generated sources, that ninja makes a target from."""
    done = subprocess.run(["ninja", "-C", build, "-t", "inputs", target], capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        path = pathlib.Path(build, line.strip())
        if path.suffix in (".cc", ".h", ".tsv", ".py", ".c", ".txt") and path.is_file():
            found.add(path.resolve())
    return found


def reads(sources, changed):
    """Whether programs of these sources read a changed file that is no source: one of their folders, or one of a folder that a
    source names."""
    folders = {path.parent for path in sources}
    for path in changed:
        if path.suffix in (".cc", ".h") and "testdata" not in path.parts:
            # A source that is gone or new: the others of its folder were compiled with it.
            if not (tree.ROOT / path).exists() and tree.ROOT / path.parent in folders:
                return True
            continue
        home = path.parent
        while home.parts and ("testdata" in home.parts or home.name.endswith("_corpus")):
            home = home.parent
        if tree.ROOT / home in folders:
            return True
        named = str(path.parent).encode()
        if len(path.parent.parts) > 1 and any(named in source.read_bytes() for source in sources):
            return True
    return False


def is_affected(build, target, changed):
    closure = closure_of(inputs_of(build, target))
    if any(tree.ROOT / path in closure for path in changed):
        return True
    return reads({path for path in closure if path.is_relative_to(tree.ROOT / "src")}, changed)


def targets_of(build, suffixes):
    """The programs of a tree whose names end so."""
    done = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    names = (line.split(":")[0] for line in done.stdout.splitlines() if "EXECUTABLE_LINKER" in line)
    return sorted(name for name in names if name.endswith(tuple(suffixes)))


def affected_targets(build, suffixes):
    """The targets of targets_of() that a change can have broken, all of them with --all. Prints to stderr how many are left out."""
    everything = suffixes[0] == "--all"
    names, changed = targets_of(build, suffixes[everything:]), None if everything else changes()
    if changed is None:
        return names
    affected = [name for name in names if is_affected(build, name, changed)]
    if len(affected) < len(names):
        print(f"                {len(names) - len(affected)} of {len(names)} programs are left out: "
              "nothing that they are made of has changed", file=sys.stderr)  # fmt: skip
    return affected


def row():
    """The first columns of a row of the record, for the commit that is checked out."""
    return f"{git('rev-parse', 'HEAD^{tree}')[0]}\t{compilers()}"


def pretend_checked(checkout):
    """Writes into a clone of HEAD that a full check of it was made, so that a check there looks at what changes from now on."""
    with open(checkout / RECORD.relative_to(tree.ROOT), "a", encoding="utf-8") as file:
        file.write(f"{row()}\t{datetime.date.today()}\t0\n")


def main(arguments):
    if arguments == ["changes"]:
        changed = changes()
        for path in [EVERYTHING] if changed is None else sorted(map(str, changed)):
            print(path)
        return 0
    if arguments == ["since"]:
        last, changed = last_full_check(), changes()
        if last is None:
            print("everything: no full check of this repository with these compilers is recorded in tests/full_checks.tsv")
        elif changed is None:
            print(f"everything: what all of it is made with has changed since the full check of {last[2]}")
        else:
            print(f"{len(changed)} files that changed since the full check of {last[2]}, and what is made of them")
        return 0
    if arguments == ["row"]:
        print(row())
        return 0
    if len(arguments) > 2 and arguments[0] == "targets":
        for name in affected_targets(arguments[1], arguments[2:]):
            print(name)
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
