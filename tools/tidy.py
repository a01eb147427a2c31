#!/usr/bin/env python3
"""The rules of the code that no compiler checks: banned calls and words, what a folder must have. `--sizes` lists what is large.

Each finding names its cure. Findings that cannot be fixed are listed in tools/tidy_allow.txt as rows
    rule <tab> path <tab> count <tab> reason
where `count` is the number of findings that is let through. It is a ratchet: more fails, and a row that allows more
than there is fails, too, until it is lowered or removed. `--allow` prints the rows that would silence today's findings,
`--words [AREA…]` the words that docs/GLOSSARY.md replaces.
"""
import collections
import io
import pathlib
import re
import sys
import tokenize

import tree

Finding = collections.namedtuple("Finding", "rule path line count text")
TEXT_SUFFIXES = {".cc", ".h", ".def", ".py", ".sh", ".cmake", ".md", ".yaml", ".yml", ".service", ".txt", ".json"}
BLOB_LIMIT = 256 * 1024

# rule: (pattern over code without comments and strings, cure, which files)
_CODE = lambda path: not tree.is_test(path)  # noqa: E731
_TEST = tree.is_test
_ANY = lambda path: True  # noqa: E731
_HEADER = lambda path: path.suffix == ".h"  # noqa: E731
BANNED = {
    "number_parsing": (
        r"\bstd::sto[a-z]+\b|\b(?:atoi|atol|atoll|atof|strto[a-z]+|v?f?scanf|v?sscanf)\s*\(",
        "ParseInt and ParseDouble of base/parse.h: strict, no locale, no exception",
        _ANY,
    ),
    "unbounded_copy": (
        r"\b(?:v?sprintf|strcpy|strcat|gets|strtok)\s*\(",
        "snprintf into a sized array, std::string, or TakeUntil of base/parse.h",
        _ANY,
    ),
    "shell": (r"(?<![\w.:>])(?:std::)?(?:system|popen)\s*\(", "ChildProcess of base/process.h: no shell", _ANY),
    "rand": (
        r"(?<![\w.>])(?:std::)?s?rand\s*\(|\brandom_shuffle\b",
        "a std::mt19937_64 whose seed is passed in",
        _ANY,
    ),
    "regex": (r"\bstd::(?:basic_)?regex\b|#\s*include\s*<regex>", "TakeUntil, Trim or a hand-written matcher", _ANY),
    "iostream": (
        r"#\s*include\s*<iostream>|\bstd::(?:cout|cerr|cin|clog)\b",
        "Log of base/log.h for talk; the command line's writer for data",
        _ANY,
    ),
    "endl": (r"\bstd::endl\b", r"'\n'", _ANY),
    "using_namespace": (r"(?m)^using\s+namespace\b", "a using-declaration, or the full name", _HEADER),
    "sleep": (
        r"\bsleep_(?:for|until)\b|(?<![\w.>])(?:::|std::)?(?:sleep|usleep|nanosleep|clock_nanosleep)\s*\(",
        "a ManualClock; for a real process or socket, poll with a deadline",
        _TEST,
    ),
    "plain_option": (
        r"\bconfig_?\.(?:Bool|Int|Double|Time|Size|Texts?|TextMap|Groups?|Where|origin)\(",
        "OptionsOf of plugins/config.h, whose keys the compiler checks",
        lambda path: not tree.is_test(path) and path.parts[:2] == ("src", "plugins") and path.stem != "config",
    ),
    "assert": (r"(?<![\w.])assert\s*\(", "CHECK of base/check.h, which stays in the release", _CODE),
    "too_new": (
        r"\bstd::(?:format|print|println|expected|move_only_function|generator)\b"
        r"|#\s*include\s*<(?:format|print|expected|generator|flat_map)>",
        "base/text.h and gpulens/status.h; the standard library of Debian 12 has none of these",
        _ANY,
    ),
    "include_from_root": (
        r'#\s*include\s+"(?:\.\.?/|[^"/]+")',
        'the path from src/, like "base/files.h"',
        _ANY,
    ),
}
# Words that docs/GLOSSARY.md replaces, with the word to use. They are refused in comments, texts, names and documents.
WORDS = {
    "tell tells telling told untold": "report, export, return",
    "say says said": "report, name, state; a sentence with the thing as its subject",
    "ask asks asked asking": "query, request, call",
    "heard": "received",
    "stand stands stood": "is, has, is listed",
    "anew": "again",
    "whoever nobody somebody": "any, none, a caller, a program",
    "beside": "next to, with, besides",
    "house": "project, shared",
    "twin twins": "cross-check",
    "spell spells spelled spelt spelling spellings speller": "name, naming, namer",
    "dialect dialects": "names, naming",
    "parcel parcels": "request, record",
    "lane lanes": "queue",
    "intake": "ingest",
    "patience": "timeout, max age",
    "rig": "fixture",
    "crowd": "load",
    "book books desk shelf": "table, registry, queue",
    "judge judges judged judgement": "validate, validity",
    "guest guests": "foreign, external",
}
REPLACED = {word: cure for words, cure in WORDS.items() for word in words.split()}
# Ordinary verbs where a person or a program is the subject. They are free in documents, in scripts (.sh, .cmake, ./dev) and in
# comments and texts of Python; in names of Python and everywhere in C++ they are not.
PLAIN_VERBS = {"tell", "say", "says", "said", "ask", "asks", "asked", "asking", "stand"}
WORD_SUFFIXES = {".cc", ".h", ".def", ".md", ".py", ".sh", ".cmake"}
WORD_NAMES = {"dev", "run", "CMakeLists.txt"}  # files whose type has no suffix of its own
# Of the past, or with the words as their subject.
WORD_FREE = {"CHANGELOG.md", "docs/GLOSSARY.md", "docs/migration-0.2.md", "tools/tidy.py", "tools/test_tools.py"}
# Where such a word is the field's.
FIELD_WORDS = re.compile(
    r"(?:PCIe|NVLink|fewer|16|x16|per)[ _]lanes?|lanes? (?:of|in use|missing)|\{lanes\}|pcie_?lanes?|width in lanes"  # of a bus
    r"|(?:user|group|uid|as|user ==) [`\"]?nobody[`\"]?|guest_nice|vGPU guests?|sinks., .dialects|[.`]guest\b|steal, guest\b|clickhouse"
    r"|Ask the vendor|What the driver asks the operator"  # texts of the catalogue
    r"|export_?as_?environment_?says|this source does not tell who|says_something|(?:recorder\.|self\.|def )tell\b|(?:\.|def )ask(?=\()"  # of the SDK's interface
    r'|getpwnam\("nobody"\)|dialects: \['  # the account; the key that `names` replaced
    r"|(?:driver|hours) asks (?:for|to)|or to ask the vendor|kPcie, \"lane\""  # texts that users see
    r"|not ask for confirmation|--dialect|\"(?:book|house)\"",  # texts of commands; words of made-up prompts
    re.I,
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")
MACHINE = re.compile(r"(?<![\w.])/(?:work/(?:main|shared)|tmp/build)\b")
REGISTRY = re.compile(r"index-" r"url|\bGOPROXY=|https?://[^\s/]*\b(?:pypi|registry|artifactory|nexus|mirrors?)\b")
# Sizes for --sizes: files and functions above these lines, functions with more parameters. Wishes, not limits (STYLE.md).
SIZES = {".h": 300, ".cc": 600, ".py": 600, ".sh": 400}
TEST_LINES, FUNCTION_LINES, PARAMETERS = 800, 70, 5
TABLE = re.compile(r"^ *\{.*\},?$|^ *(?:inline )?constexpr .*;$|^ *X?\(.*\)$|^[A-Z_]+\(.*\)$", re.M)
UNSTEADY_ROWS = 0  # of tests/unsteady.tsv


def banned(path, code):
    for rule, (pattern, cure, applies) in BANNED.items():
        if not applies(path):
            continue
        for match in re.finditer(pattern, code):
            line = code.count("\n", 0, match.start()) + 1
            yield Finding(rule, path, line, 1, f"{match.group(0).strip()} is banned; use {cure}")


def replaced_words(path, text):
    """Words that the glossary replaces, in names, comments and texts; not in texts of C++ tests. PLAIN_VERBS only in names of C++ and Python."""
    if path.suffix in (".cc", ".h", ".def") and tree.is_test(path):
        text = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    text = FIELD_WORDS.sub(lambda m: " " * len(m.group(0)), text)
    found = [(text.count("\n", 0, m.start()) + 1, m.group(0).lower()) for m in _WORD.finditer(text)]
    if path.suffix not in (".cc", ".h", ".def"):
        found = [(line, word) for line, word in found if word not in PLAIN_VERBS]
    if path.suffix == ".py":
        names = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME]
        found += [(t.start[0], word.lower()) for t in names for word in _WORD.findall(t.string) if word.lower() in PLAIN_VERBS]
    for line, word in found:
        if word in REPLACED:
            yield Finding("words", pathlib.Path(*path.parts[:2]), line, 1, f"{path}:{line}: \"{word}\": {REPLACED[word]}")


def text_rules(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield Finding("trailing_blank", path, number, 1, "blanks at the end of the line; remove them")
        if "\t" in line and path.name != "tidy_allow.txt":
            yield Finding("tab", path, number, 1, "a tab; two spaces instead, or \\t in a string")
        if UNFINISHED.search(line):
            yield Finding("unfinished", path, number, 1, "a mark of unfinished work; do it, or open an issue")
        if MACHINE.search(line):
            yield Finding("machine_path", path, number, 1, "a path of one machine; use one relative to the project")
        if REGISTRY.search(line):
            yield Finding("registry", path, number, 1, "names a package registry; leave that to the machine's settings")


_CONTAINER = re.compile(r"^\s*(?:inline\s+)?(?:namespace|extern|export)\b|\b(?:class|struct|union|enum)\b[^()]*$")
_TYPE = re.compile(r"(?:^|[>\s\]])(?:class|struct|union|enum)\b(?:[^()]|\([^()]*\))*$")


def functions(code):
    """(line, length, name, parameter count) of each function with a body, by counting braces."""
    code = re.sub(r"^[ ]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M | re.S)
    depth_of_function, depth, start, heading_start = None, 0, 0, 0
    name = parameters = None
    result = []
    for match in re.finditer(r"[{};]", code):
        token = match.group(0)
        if token == "{":
            depth += 1
            heading = code[heading_start : match.start()]
            if depth_of_function is None:
                found = function_heading(heading)
                if found:
                    name, parameters = found
                    depth_of_function = depth
                    start = heading_start + len(heading) - len(heading.lstrip())
        elif token == "}":
            if depth == depth_of_function:
                first = code.count("\n", 0, start) + 1
                result.append((first, code.count("\n", 0, match.start()) + 2 - first, name, parameters))
                depth_of_function = None
            depth -= 1
        if depth_of_function is None:
            heading_start = match.end()
    return result


def function_heading(heading):
    """(name, parameter count) when the text in front of a brace begins a function."""
    heading = re.sub(r"\b(?:public|private|protected)\s*:", " ", heading)
    if "(" not in heading or _CONTAINER.search(heading):
        return None
    before = heading[: heading.index("(")]
    if "operator" not in before and _TYPE.search(before):
        return None
    if "operator" not in before and re.search(r"(?<![=!<>])=(?!=)[^()]*$|\breturn\b", before):
        return None
    open_at = heading.index("(")
    if re.search(r"\boperator\s*$", before):
        open_at = heading.index("(", heading.index(")", open_at)) if heading.count("(") > 1 else open_at
    name = re.search(r"([\w:~]+(?:\s*[^\w\s]+)?)\s*$", heading[:open_at])
    if not name:
        return None
    level, commas, any_text = 0, 0, False
    for character in heading[open_at:]:
        if character in "([{<":
            level += 1
        elif character in ")]}>":
            level -= 1
            if level == 0:
                break
        elif character == "," and level == 1:
            commas += 1
        elif not character.isspace():
            any_text = True
    return name.group(1), commas + 1 if any_text else 0


def outliers(paths, root=tree.ROOT):
    """(size, what it is) of each file and function that is larger than STYLE.md wishes, tables apart, the largest first."""
    found = []
    for path in paths:
        if path.suffix not in SIZES or "testdata" in path.parts:
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.count("\n")
        wanted = TEST_LINES if tree.is_test(path) else SIZES[path.suffix]
        if lines > wanted and 2 * len(TABLE.findall(text)) < lines:
            found.append((lines, f"{path}: {lines} lines, {wanted} wanted"))
        if path.suffix in (".cc", ".h"):
            for line, length, name, parameters in functions(tree.code_of(text)):
                if length > FUNCTION_LINES:
                    found.append((length, f"{path}:{line}: {name} has {length} lines, {FUNCTION_LINES} wanted"))
                if parameters > PARAMETERS and not name.startswith(("TEST", "MATCHER", "BENCHMARK")):
                    found.append((parameters, f"{path}:{line}: {name} takes {parameters} parameters; wants an options struct"))
    return sorted(found, reverse=True)


def plugin_rules(paths, root=tree.ROOT):
    folders = collections.defaultdict(list)
    for path in paths:
        if path.suffix in (".cc", ".h") and path.parts[:2] == ("src", "plugins") and len(path.parts) == 5:
            folders[path.parent].append(path)
    for folder, members in sorted(folders.items()):
        if not any(m.name.endswith("_test.cc") for m in members):
            yield Finding("no_test", folder, 1, 1, "a plugin without a test; add NAME_test.cc next to it")
        table = folder.parent.with_suffix(".def")
        if (root / table).exists() and f"({folder.name})" not in (root / table).read_text():
            yield Finding("not_listed", folder, 1, 1, f"no line in {table}; add GPULENS_PLUGIN({folder.name})")


def unsteady_rows(path, text):
    """The list of tests that fail at times only shrinks: UNSTEADY_ROWS follows it down."""
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    if len(rows) > UNSTEADY_ROWS:
        yield Finding("unsteady", path, len(rows), len(rows), f"{len(rows)} rows, {UNSTEADY_ROWS} at most; find its cause and mend it")


def findings(paths, root=tree.ROOT):
    for path in paths:
        if str(path) == "tests/unsteady.tsv":
            yield from unsteady_rows(path, (root / path).read_text(encoding="utf-8"))
        size = (root / path).stat().st_size
        if size > BLOB_LIMIT:
            yield Finding("blob", path, 1, size, f"{size} bytes, {BLOB_LIMIT} at most; make it smaller or generate it")
        if "testdata" in path.parts or not (path.suffix in TEXT_SUFFIXES or path.name in ("dev", "CMakeLists.txt", "run")):
            continue
        text = (root / path).read_text(encoding="utf-8")
        yield from text_rules(path, text)
        if (path.suffix in WORD_SUFFIXES or path.name in WORD_NAMES) and str(path) not in WORD_FREE:
            yield from replaced_words(path, text)
        if path.suffix in (".cc", ".h"):
            code = tree.code_of(text)
            if path.suffix == ".h" and "#pragma once" not in code:
                yield Finding("pragma_once", path, 1, 1, "no #pragma once")
            yield from banned(path, code)
        elif path.suffix == ".py" and path.parts[0] == "tests":
            for match in re.finditer(r"\btime\.sleep\(", text):
                line = text.count("\n", 0, match.start()) + 1
                yield Finding("sleep", path, line, 1, "time.sleep; wait for the process or socket with a deadline")
    yield from plugin_rules(paths, root)


def read_allowed(text):
    """{(rule, path): count}; ValueError names a row that is not right."""
    allowed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split("\t")
        if len(parts) != 4 or not parts[2].isdigit() or len(parts[3].strip()) < 10:
            raise ValueError(f"tools/tidy_allow.txt:{number}: expected rule, path, count and a reason, between tabs")
        allowed[parts[0], parts[1]] = int(parts[2])
    return allowed


def remaining(found, allowed):
    """The messages that are left when the rows have been applied."""
    by_row = collections.defaultdict(list)
    for finding in found:
        by_row[finding.rule, str(finding.path)].append(finding)
    messages = []
    for row, group in by_row.items():
        total, limit = sum(f.count for f in group), allowed.get(row, 0)
        if total > limit:
            if row[0] == "words":
                messages.append(f"{row[1]}: {total} words that docs/GLOSSARY.md replaces, {limit} allowed; tools/tidy.py --words {row[1]} lists them")
            else:
                messages += [f"{f.path}:{f.line}: {f.text} [{f.rule}]" for f in group]
        elif total < limit:
            messages.append(f"tools/tidy_allow.txt: {row[0]} {row[1]} allows {limit}, there is {total}; lower the row")
    for row in sorted(set(allowed) - set(by_row)):
        messages.append(f"tools/tidy_allow.txt: {row[0]} {row[1]} is not needed any more; remove the row")
    return messages


def main(arguments):
    paths = tree.files()
    if "--sizes" in arguments:
        large = outliers(paths)
        print("\n".join(text for _, text in large) or "sizes: nothing is larger than STYLE.md wishes")
        return 0
    if "--words" in arguments:
        areas = arguments[arguments.index("--words") + 1 :]
        chosen = [p for p in paths if not areas or str(p).startswith(tuple(areas))]
        print("\n".join(f.text for f in findings(chosen) if f.rule == "words") or "words: none is left")
        return 0
    found = list(findings(paths))
    if "--allow" in arguments:
        counts = collections.Counter((f.rule, str(f.path)) for f in found)
        for (rule, path), count in sorted(counts.items()):
            print(f"{rule}\t{path}\t{count}\tREASON")
        return 0
    try:
        allowed = read_allowed((tree.ROOT / "tools/tidy_allow.txt").read_text(encoding="utf-8"))
    except ValueError as error:
        print(error)
        return 1
    messages = remaining(found, allowed)
    print("\n".join(messages) if messages else f"tidy: {len(paths)} files, {len(allowed)} exceptions, each with its reason")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
