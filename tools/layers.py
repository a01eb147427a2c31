#!/usr/bin/env python3
"""Fails when a file includes a floor that it may not see, or when folders include each other.

The tables are the architecture (docs/ARCHITECTURE.md draws it). To change it, change them, the page
and write a page under docs/adr/ in the same commit. A star means "each folder below is a module of its
own and never includes its siblings". Tests, benchmarks and fuzzers may also include anything on a
lower floor than their own folder.
"""
import re
import sys

import tree

# module: (floor, what its own code may include besides itself and include/gpulens)
FLOORS = {
    "base": (0, ()),
    "job_page": (0, ("base",)),
    "inject/*": (1, ("job_page",)),
    "core": (1, ("base",)),
    "net": (1, ("base",)),
    "reader": (1, ("base",)),
    "sources/*": (1, ("base", "job_page", "net", "reader")),
    "catalog": (2, ("base", "core")),
    "wire": (2, ("base", "core")),
    "names": (2, ("core", "catalog")),
    "instruments": (2, ("base",)),
    "energy": (2, ("base",)),
    "ledger": (2, ("base",)),
    "collectives": (2, ("base", "job_page")),
    "phases": (2, ("base", "job_page")),
    "pricing": (2, ("base", "wire")),
    "store": (2, ("base", "core", "net", "wire", "ledger")),
    "delivery": (2, ("base", "net")),
    "plugins": (3, ("base", "core", "net")),
    "history": (3, ("base", "core", "catalog")),
    "migrate": (3, ("base", "core", "catalog", "names")),
    "why": (4, ("base", "core", "catalog", "history")),
    "quality": (4, ("base", "core", "catalog", "plugins")),
    "pipeline": (5, ("base", "core", "net", "reader", "catalog", "delivery", "plugins", "quality")),
    "export": (6, ("base", "core", "net", "catalog", "wire", "names", "plugins", "pipeline")),
    "ingest": (6, ("base", "net", "wire", "plugins", "pipeline")),
    "scrape": (6, ("base", "core", "net", "reader", "catalog", "wire", "plugins", "quality", "pipeline")),
    "plugins/collectors/*": (
        7,
        (
            "base", "job_page", "core", "net", "reader", "sources/*", "catalog", "wire", "instruments", "collectives", "phases", "plugins",
            "quality", "pipeline", "scrape",
        ),
    ),
    "plugins/analyzers/*": (7, ("base", "core", "catalog", "energy", "ledger", "store", "collectives", "phases", "plugins")),
    "plugins/enrichers/*": (7, ("base", "core", "net", "sources/*", "catalog", "plugins")),
    "plugins/discovery/*": (7, ("base", "core", "net", "sources/*", "catalog", "plugins", "scrape")),
    "plugins/sinks/*": (
        7,
        ("base", "core", "net", "catalog", "wire", "names", "store", "delivery", "plugins", "pipeline", "export"),
    ),
    "plugins/receivers/*": (7, ("base", "core", "net", "catalog", "wire", "collectives", "plugins", "ingest")),
    "sdk": (7, ("base", "job_page", "core", "net", "sources/*", "catalog", "wire", "instruments", "energy", "store")),
    "proxy": (7, ("base", "core", "net", "catalog", "wire", "names", "instruments", "energy", "ledger", "pricing", "store", "delivery")),
    "config": (7, ("base", "net", "plugins", "export")),
    "agent": (8, ("*",)),
    "cli": (9, ("*",)),
}
# Where a foreign header may be included at all.
FOREIGN = {
    "boost/": ("net",),
    "openssl/": ("net",),
    "nghttp2/": ("net",),
    "protozero/": ("wire", "net", "sources/*"),
    "snappy-c.h": ("wire",),
    "sqlite3.h": ("store",),
    "ncursesw/": ("cli",),
    "CLI/": ("cli",),
    "yaml-cpp/": ("base",),
    "libdeflate.h": ("net", "wire", "delivery"),
    "zstd": ("wire",),
    "zlib.h": ("net", "wire", "delivery"),
    "bpf/": ("sources/*",),
    "dlfcn.h": ("base", "job_page", "net", "sources/*", "store"),
}
# dlfcn.h: the symbols of an old glibc are chosen where they are declared.
FOREIGN_IN_HEADERS = {"boost/": ("net",), "openssl/": ("net",), "dlfcn.h": ("job_page",)}
# wire/ turns values into bytes and back; its callers read and write.
NO_IO = ("wire", "names", "catalog", "energy", "ledger", "pricing")
IO_HEADERS = re.compile(
    r"<(fstream|unistd\.h|fcntl\.h|filesystem|thread|sys/(socket|stat|epoll|uio)\.h|netdb\.h|netinet/.*)>"
    r'|"base/(files|fd|process)\.h"'
)
STARRED = {name[:-2] for name in FLOORS if name.endswith("/*")}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


def module_of(path):
    """The module of a path below src/: "net", or "plugins/sinks/file" where each folder is one."""
    parts = str(path).split("/")
    for depth in (1, 2):
        if "/".join(parts[:depth]) in STARRED and len(parts) > depth + 1:
            return "/".join(parts[: depth + 1])
    return parts[0]


def rule_of(module):
    parent = module.rpartition("/")[0]
    return parent + "/*" if parent in STARRED else module


def may_include(here, there, test):
    """None when `here` may include `there`, else why not."""
    rule, other = rule_of(here), rule_of(there)
    if here == there:
        return None
    if other not in FLOORS:
        return f"'{there}' is on no floor; give it a row in FLOORS of tools/layers.py"
    floor, allowed = FLOORS[rule]
    if "*" in allowed and FLOORS[other][0] < floor or other in allowed and other != rule:
        return None
    if test and FLOORS[other][0] < floor:
        return None
    if other == rule:
        return f"{here} may not include its sibling {there}; move what both need to a lower floor"
    if FLOORS[other][0] >= floor:
        return f"{here} (floor {floor}) may not include {there} (floor {FLOORS[other][0]}); turn it round or pass it in"
    return f"{here} may not include {there}, only {', '.join(allowed) or 'nothing'}; let the agent pass it in"


def check_foreign(here, header, name, test):
    if test or here in ("agent", "cli") and not header:
        return None
    for prefix, modules in FOREIGN.items():
        if not name.startswith(prefix):
            continue
        if rule_of(here) not in modules:
            return f"<{name}> belongs to {', '.join(modules)} alone; use what they offer"
        if header and rule_of(here) not in FOREIGN_IN_HEADERS.get(prefix, ()):
            return f"<{name}> in a header spreads to all who include it; hide it in the .cc"
    return None


def check_file(path, text):
    """Errors of one file; `path` is relative to the root of the project."""
    header = path.suffix == ".h"
    if path.parts[0] == "include":
        here, test = "include", False
    else:
        here, test = module_of(path.relative_to("src")), tree.is_test(path)
        if rule_of(here) not in FLOORS:
            return [f"{path}:1: folder '{here}' is on no floor; give it a row in FLOORS of tools/layers.py"]
    errors = []
    for number, line in enumerate(tree.code_of(text).splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        own, foreign = match.groups()
        why = None
        if foreign is not None:
            if here == "include" and not foreign.startswith("gpulens/"):
                if "/" in foreign and not foreign.startswith("sys/"):
                    why = f"<{foreign}> in the public headers; they know the standard library alone"
            elif here != "include":
                why = check_foreign(here, header, foreign, test)
        elif here == "include":
            why = f'"{own}" in the public headers; they include <gpulens/…> alone'
        elif own.startswith("tests/"):
            why = None if test else f"{here} may not include tests"
        elif "/" in own:
            why = may_include(here, module_of(own), test)
        if why is None and rule_of(here) in NO_IO and not test and IO_HEADERS.search(line):
            why = f"{here} does no I/O; pass the bytes in"
        if why:
            errors.append(f"{path}:{number}: {why}")
    return errors


def cycles(includes):
    """Groups of folders that include each other, directly or round about; `includes` has the folders that each folder includes."""
    index, low, stack, found = {}, {}, [], []

    def visit(folder):
        index[folder] = low[folder] = len(index)
        stack.append(folder)
        for other in sorted(includes.get(folder, ())):
            if other not in index:
                visit(other)
                low[folder] = min(low[folder], low[other])
            elif other in stack:
                low[folder] = min(low[folder], index[other])
        if low[folder] == index[folder]:
            group = []
            while not group or group[-1] != folder:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for folder in sorted(includes):
        if folder not in index:
            visit(folder)
    return found


def folders_included(path, text):
    """The folders below src/ whose headers a file includes."""
    names = (match.group(1) for match in map(INCLUDE.match, tree.code_of(text).splitlines()) if match and match.group(1))
    return {name.rpartition("/")[0] for name in names if "/" in name} - {str(path.parent.relative_to("src"))}


def main():
    errors, count, includes = [], 0, {}
    for path in tree.files():
        if path.suffix in (".h", ".cc") and path.parts[0] in ("src", "include") and "testdata" not in path.parts:
            count += 1
            text = (tree.ROOT / path).read_text(encoding="utf-8")
            errors += check_file(path, text)
            if path.parts[0] == "src" and not tree.is_test(path):
                includes.setdefault(str(path.parent.relative_to("src")), set()).update(folders_included(path, text))
    errors += [f"src/{group[0]}: these folders include each other: {', '.join(group)}" for group in cycles(includes)]
    print("\n".join(errors) if errors else f"layers: {count} files include only what is below them")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
