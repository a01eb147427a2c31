#!/usr/bin/env python3
"""Builds the page of an engine's release from the sources in its Python wheel, and checks the tables against it.

    tools/engine_release.py                          the newest vLLM, SGLang, LMCache and LiteLLM: download, build, check
    tools/engine_release.py vllm --version 0.33.0    one engine, one release
    tools/engine_release.py vllm --wheel FILE        a wheel that is there already
    tools/engine_release.py vllm --page              prints the page instead of checking it
    tools/engine_release.py --keep                   the same as the first, and keeps the pages for the unit tests

Nothing of a wheel is installed or run: its sources are parsed. A family is a call that makes a counter, gauge, histogram,
summary or info and whose name can be read from the source: a literal, a constant, a default argument, a loop over literals.
Names that occur only in a table or an enumeration are families without a TYPE.
A name that begins as the engine's do but cannot be read is printed, and fails the check: look at its line.

The check is `gpulens engines check`: it prints a row for each family that no table knows. Exit code 1: there is one. After
it, put the rows right (HACKING.md, "Add an LLM engine") and run this again.
"""
import argparse
import ast
import dataclasses
import itertools
import pathlib
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE.parent / "src" / "scrape" / "engine" / "testdata" / "releases"
WHEELS = HERE.parent / "build" / "engine_wheels"
DEFAULT = ("vllm", "sglang", "lmcache", "litellm")
# engine: the package, how the names of its families begin in the sources, and the pattern of a name anywhere in the sources.
ENGINES = {"vllm": ("vllm", ("vllm:",), r"vllm:[a-z]\w*"),
           "sglang": ("sglang", ("sglang:",), r"sglang:[a-z]\w*"),
           "lmcache": ("lmcache", ("lmcache:", "lmcache_mp", "lmcache_blend", "lmcache_coordinator", "vllm:lmcache_"),
                       r"(vllm:lmcache_|lmcache:|lmcache_(mp|blend|coordinator)\.)[a-z][\w.]*"),
           "litellm": ("litellm", ("litellm_",), None),
           "lmdeploy": ("lmdeploy", ("lmdeploy:",), r"lmdeploy:[a-z]\w*"),
           "kserve": ("kserve", ("request_preprocess", "request_postprocess", "request_predict", "request_explain"), None),
           "xinference": ("xinference", ("xinference:",), r"xinference:[a-z]\w*")}
KINDS = ("counter", "gauge", "histogram", "summary")
# Suffixes that OpenTelemetry's Prometheus exporter appends for a unit.
OTEL_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes",
              "GiBy": "gibibytes", "MBy": "megabytes", "GBy": "gigabytes", "1": "", "%": "percent"}
OTEL_PER = {"s": "second", "m": "minute", "h": "hour"}


@dataclasses.dataclass(frozen=True)
class Family:
    name: str  # as a page of the text format 0.0.4 has it
    kind: str
    labels: tuple = ()


@dataclasses.dataclass
class Found:
    families: dict = dataclasses.field(default_factory=dict)  # name: Family
    mentions: dict = dataclasses.field(default_factory=dict)  # names that occur in the source; their kind is unknown
    constants: dict = dataclasses.field(default_factory=dict)  # text: the constant that it is the value of
    kinds: dict = dataclasses.field(default_factory=dict)      # constant: the kind that a table gives it
    unread: list = dataclasses.field(default_factory=list)    # "file:line: text"


def otel_unit(unit):
    unit = re.sub(r"\{[^}]*\}", "", unit)
    if unit in OTEL_UNITS:
        return OTEL_UNITS[unit]
    top, slash, bottom = unit.partition("/")
    if slash:
        top, bottom = re.sub(r"\W", "_", top), re.sub(r"\W", "_", bottom)
        top, bottom = OTEL_UNITS.get(top, top), OTEL_PER.get(bottom, bottom)
        return f"{top}_per_{bottom}" if top else f"per_{bottom}"
    return re.sub(r"\W", "_", unit).strip("_")


def kind_of(function):
    """The kind that a called function makes: Counter, self._histogram_cls, meter.create_observable_gauge, …"""
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    # A number with two sides of a bucket as labels, of SGLang.
    if name == "GaugeHistogram" or "up_down_counter" in name:
        return "gauge"
    if name == "Info":
        return "info"
    return next((kind for kind in KINDS if kind in name.lower()), None)


class Reader(ast.NodeVisitor):
    """Reads the families of one file."""

    def __init__(self, path, prefixes, mention, found):
        self.path, self.prefixes, self.mention, self.found = path, prefixes, mention, found
        self.values = [{}]  # innermost scope last: name: its possible texts

    # The texts that a name may be bound to.
    def bind(self, target, texts):
        if isinstance(target, ast.Name) and texts:
            self.values[-1][target.id] = texts
        elif isinstance(target, ast.Attribute) and texts:
            self.values[0][target.attr] = texts

    def visit_Assign(self, node):
        texts = self.texts(node.value)
        for target in node.targets:
            self.bind(target, texts)
            if isinstance(target, ast.Name) and len(texts) == 1:
                self.found.constants[texts[0]] = target.id
            # kinds[Names.X] = CounterOf(…), wherever Names is.
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Attribute) and isinstance(node.value, ast.Call):
                self.found.kinds[target.slice.attr] = kind_of(node.value.func)
        self.generic_visit(node)

    def visit_AnnAssign(self, node):
        if node.value:
            self.bind(node.target, self.texts(node.value))
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        scope = {}
        arguments = node.args.posonlyargs + node.args.args
        for argument, default in zip(reversed(arguments), reversed(node.args.defaults)):
            scope[argument.arg] = self.texts(default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults):
            if default is not None:
                scope[argument.arg] = self.texts(default)
        self.values.append({name: texts for name, texts in scope.items() if texts})
        self.generic_visit(node)
        self.values.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_For(self, node):
        self.loop(node.target, node.iter)
        self.generic_visit(node)

    def visit_DictComp(self, node):
        self.comprehension(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp

    def comprehension(self, node):
        for generator in node.generators:
            self.loop(generator.target, generator.iter)
        self.generic_visit(node)

    def loop(self, target, items):
        while isinstance(items, ast.Call):
            function = items.func.attr if isinstance(items.func, ast.Attribute) else getattr(items.func, "id", "")
            if function in ("items", "keys", "values"):
                items = items.func.value
            elif items.args and function in ("fromkeys", "list", "tuple", "sorted", "set", "enumerate"):
                items = items.args[0]
            else:
                break
        if isinstance(items, ast.Dict):
            items = ast.Tuple([ast.Tuple([key, value]) for key, value in zip(items.keys, items.values)])
        if isinstance(items, (ast.Tuple, ast.List, ast.Set)):
            columns = target.elts if isinstance(target, ast.Tuple) else [target]
            for place, column in enumerate(columns):
                cells = [i.elts[place] if isinstance(i, ast.Tuple) and isinstance(target, ast.Tuple) and place < len(i.elts) else i
                         for i in items.elts]
                self.bind(column, list(itertools.chain.from_iterable(self.texts(cell) for cell in cells)))
        else:
            self.bind(target, self.texts(items))

    def texts(self, node):
        """All texts that an expression may have, as far as the source shows; empty when it does not."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.Name):
            return next((scope[node.id] for scope in reversed(self.values) if node.id in scope), [])
        if isinstance(node, ast.Attribute):
            return self.values[0].get(node.attr, [])
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return list(itertools.chain.from_iterable(self.texts(item) for item in node.elts))
        if isinstance(node, ast.Dict):
            return list(itertools.chain.from_iterable(self.texts(value) for value in node.values))
        if isinstance(node, ast.IfExp):
            return self.texts(node.body) + self.texts(node.orelse)
        if isinstance(node, ast.FormattedValue):
            return self.texts(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = [self.texts(part) for part in node.values]
            return ["".join(words) for words in itertools.product(*parts)] if all(parts) else []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return [a + b for a in self.texts(node.left) for b in self.texts(node.right)]
        return []

    def names(self, node):
        return [text for text in self.texts(node) if text.startswith(self.prefixes) and re.fullmatch(r"[\w:.]+", text)]

    def visit_Constant(self, node):
        """Names that are made elsewhere of a constant: in enumerations, tables, keyword arguments."""
        if self.mention and isinstance(node.value, str) and re.fullmatch(self.mention, node.value):
            self.found.mentions.setdefault(node.value.replace(".", "_"))

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Call(self, node):
        # Names of meters and loggers look alike.
        if re.search(r"get_?(meter|tracer|logger)", ast.unparse(node.func), re.IGNORECASE):
            return
        self.generic_visit(node)
        kind = kind_of(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        # Helpers may have the name behind other arguments.
        candidates = [keywords[key] for key in ("name", "metric_name") if key in keywords] + node.args[:2]
        if kind is None or not candidates:
            return
        name = next((given for given in candidates if self.names(given)), candidates[0])
        names = self.names(name)
        otel = isinstance(node.func, ast.Attribute) and node.func.attr.startswith("create_")
        unit = self.texts(keywords["unit"]) if "unit" in keywords else []
        for text in names:
            self.add(text, kind, self.labels(node, keywords), otel_unit(unit[0]) if otel and unit else None if not otel else "")
        begins = [part.value for part in ast.walk(name) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if not names and not isinstance(name, ast.Call) and any(text.startswith(self.prefixes) for text in begins):
            self.found.unread.append(f"{self.path}:{node.lineno}: {ast.unparse(name)}")

    def labels(self, node, keywords):
        given = keywords.get("labelnames") or keywords.get("labels") or (node.args[2] if len(node.args) > 2 else None)
        if not isinstance(given, (ast.List, ast.Tuple)):
            return ()
        return tuple(text for text in self.texts(given) if re.fullmatch(r"[A-Za-z_]\w*", text))

    def add(self, name, kind, labels, unit):
        name = re.sub(r"[^\w:]", "_", name)
        if unit and not name.endswith("_" + unit):
            # OpenTelemetry puts the unit in front of _total.
            name = name.removesuffix("_total") + "_" + unit
        # The client of Xinference, aioprometheus, leaves names as they are.
        if kind == "counter" and not name.endswith(("_total", "_total_counter")):
            name += "_total"
        if kind == "info":
            name, kind = name.removesuffix("_info") + "_info", "gauge"
        self.found.families.setdefault(name, Family(name, kind, labels))


def read_sources(sources, prefixes, mention=None):
    """`sources`: (path, text) pairs."""
    found = Found()
    for path, text in sources:
        if not any(prefix in text for prefix in prefixes):
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            found.unread.append(f"{path}:{error.lineno}: {error.msg}")
            continue
        Reader(path, tuple(prefixes), mention, found).visit(tree)
    add_mentions(found)
    return found


def add_mentions(found):
    """Takes names that are no beginning and no sample of another one for families without a TYPE."""
    known = {re.sub("_(total|info)$", "", name) for name in found.families}
    for name in sorted(found.mentions):
        bare = re.sub("_(total|info|bucket|sum|count)$", "", name)
        begins = any(other != bare and other.startswith((bare + "_", bare + ":", name)) for other in (*known, *found.mentions))
        if bare not in known and not begins and not name.endswith(("_", ":")):
            kind = found.kinds.get(found.constants.get(name)) or "untyped"
            name += "_total" if kind == "counter" and not name.endswith("_total") else ""
            found.families[name] = Family(name, kind)


def sources_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".py") and not re.search(r"(^|/)(tests?|examples|benchmarks)/", name):
                yield name, archive.read(name).decode("utf-8", errors="replace")


def page_of(families, source):
    lines = [f"# built from {source}, not recorded"]
    for family in sorted(families.values(), key=lambda family: family.name):
        labels = ",".join(f'{label}="x"' for label in family.labels)
        inside = f"{{{labels}}}" if labels else ""
        lines += [f"# HELP {family.name} built", f"# TYPE {family.name} {family.kind}"]
        if family.kind == "histogram":
            with_le = "{" + ",".join(filter(None, (labels, 'le="+Inf"'))) + "}"
            lines.append(f"{family.name}_bucket{with_le} 1")
        if family.kind in ("histogram", "summary"):
            lines += [f"{family.name}_sum{inside} 1", f"{family.name}_count{inside} 1"]
        else:
            lines.append(f"{family.name}{inside} 1")
    return "\n".join(lines) + "\n"


def download(package, version):
    WHEELS.mkdir(parents=True, exist_ok=True)
    what = package + (f"=={version}" if version else "")
    folder = WHEELS / (what if version else package)
    for old in [] if version else folder.glob("*.whl"):
        old.unlink()  # the newest is requested
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, what],
                   check=True)
    return next(folder.glob("*.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=", ".join(ENGINES) + f"; default: {' '.join(DEFAULT)}")
    parser.add_argument("--version", help="of the package; default: the newest")
    parser.add_argument("--wheel", type=pathlib.Path, help="a wheel instead of a download; for one engine")
    parser.add_argument("--page", action="store_true", help="print the page and check nothing")
    parser.add_argument("--keep", action="store_true", help=f"write the pages to {KEPT.relative_to(HERE.parent)}")
    parser.add_argument("--gpulens", default=HERE.parent / "build" / "release" / "gpulens", help="the program that checks")
    options = parser.parse_args()
    engines = options.engines or list(DEFAULT)
    if unknown := [engine for engine in engines if engine not in ENGINES]:
        parser.error(f"{unknown[0]} is none of {', '.join(ENGINES)}")
    if len(engines) != 1 and (options.wheel or options.version):
        parser.error("--wheel and --version are for one engine")
    failed = False
    for engine in engines:
        package, prefixes, mention = ENGINES[engine]
        wheel = options.wheel or download(package, options.version)
        found = read_sources(sources_of(wheel), prefixes, mention)
        page = page_of(found.families, wheel.name)
        if options.page:
            sys.stdout.write(page)
            continue
        if options.keep:
            (KEPT / f"{engine}.txt").write_text(page, encoding="utf-8")
        print(f"{wheel.name}: {len(found.families)} families", flush=True)
        for line in found.unread:
            print(f"  cannot read the name at {line}")
        check = subprocess.run([options.gpulens, "engines", "check", "-", "--engine", engine], input=page, text=True,
                               stdout=subprocess.PIPE, check=False)
        unknown = check.stdout.partition("\nunknown, ")[2]
        print("  every family is known" if check.returncode == 0 else f"unknown, {unknown}")
        failed = failed or check.returncode != 0 or bool(found.unread) or not found.families
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
