"""Public names of OpenJarvis, PyDotCompute, l9gpu and zernel, one a line in compat_names.tsv. Each is in gpulens.compat and accepts what the
original accepts, or is listed in docs/compat.md with the reason. There is no third case.
"""
import ast
import dataclasses
import enum
import fnmatch
import importlib
import inspect
import pathlib
import pkgutil
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/compat.md"
PROJECTS = {"openjarvis": "OpenJarvis", "pydotcompute": "PyDotCompute", "l9gpu": "l9gpu", "zernel": "zernel"}
ABSENT = object()


def names():
    """(project, module, name, parameters) of each line."""
    for line in (HERE / "compat_names.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            module, name, parameters = line.split("\t")
            yield module.split(".")[0], module, name, parameters


def modules(project):
    """The package and all its modules, the package first."""
    package = importlib.import_module(f"gpulens.compat.{project}")
    found = pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + ".")
    return [package] + [importlib.import_module(one.name) for one in found]


def find(places, name):
    head, *rest = name.split(".")
    thing = next((getattr(place, head) for place in places if hasattr(place, head)), ABSENT)
    for part in rest:
        if part in getattr(thing, "__dataclass_fields__", {}):
            return None
        thing = inspect.getattr_static(thing, part, ABSENT)
    return getattr(thing, "__func__", thing)


def value_of(text):
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text.rsplit(".", 1)[-1]  # a member of an enum, by its name


def refuses(thing, parameters):
    """Why a call that the parameters of the original allow is not allowed here, or means another default; None where there is no reason."""
    args = ast.parse(f"def f{parameters}: pass").body[0].args
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    theirs = [(a.arg, False, d) for a, d in zip(args.args, defaults)] + [(a.arg, True, d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    ours = [p for p in inspect.signature(thing).parameters.values() if p.name not in ("self", "cls") or p.name in [t[0] for t in theirs]]
    kinds = {p.kind for p in ours}
    if args.kwarg and inspect.Parameter.VAR_KEYWORD not in kinds:
        return "no further keyword arguments"
    by_name = {p.name: (i, p) for i, p in enumerate(ours)}
    for at, (name, by_keyword, default) in enumerate(theirs):
        if name not in by_name:
            return f"no parameter {name}"
        place, mine = by_name[name]
        if mine.kind is mine.POSITIONAL_ONLY or not by_keyword and (place != at or mine.kind is mine.KEYWORD_ONLY):
            return f"{name} is at another place"
        if default is not None:
            given = mine.default.name if isinstance(mine.default, enum.Enum) else mine.default
            if given != value_of(ast.unparse(default)):
                return f"the default of {name} is {given!r}"
    needed = [p.name for p in ours if p.name not in [t[0] for t in theirs] and p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return f"{needed[0]} is needed" if needed else None


def differences(page):
    """Of the tables of docs/compat.md: the rows of each section as cells."""
    found = {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")][2:]
        found[title.strip()] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return found


def covers(pattern, name):
    """A row about a class is about its members, too."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + ".*")


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = list(names())
        tables = differences(PAGE.read_text(encoding="utf-8"))
        cls.tables = {project: tables[title] for project, title in PROJECTS.items()}
        cls.patterns = {p: [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])] for p, rows in cls.tables.items()}

    def test_each_is_there_or_is_listed_with_a_reason(self):
        places = {project: modules(project) for project in PROJECTS}
        for project, module, name, parameters in self.rows:
            with self.subTest(f"{module}.{name}"):
                thing = find(places[project], name)
                why = "not here" if thing is ABSENT else None
                if why is None and parameters != "-":
                    why = refuses(thing, parameters)
                if why and not any(covers(pattern, name) for pattern in self.patterns[project]):
                    self.fail(f"{why}, and docs/compat.md has no reason")

    def test_each_row_of_the_table_is_about_a_name_and_has_a_reason(self):
        for project, rows in self.tables.items():
            listed = [name for one, _, name, _ in self.rows if one == project]
            for row in rows:
                with self.subTest(f"{project}: {row[0]}"):
                    self.assertEqual(len(row), 4, row)
                    self.assertTrue(all(row), "an empty cell")
            for pattern in self.patterns[project]:
                with self.subTest(f"{project}: {pattern}"):
                    self.assertTrue(any(covers(pattern, name) for name in listed), "no such name in compat_names.tsv")

    def test_the_list_is_one_of_every_project(self):
        counts = {project: sum(one == project for one, *_ in self.rows) for project in PROJECTS}
        self.assertGreater(counts["openjarvis"], 300)
        self.assertGreater(counts["pydotcompute"], 150)
        self.assertGreater(counts["l9gpu"], 200)
        self.assertEqual(len({row[1:3] for row in self.rows}), len(self.rows), "a name twice")

    def test_finds_what_differs(self):
        def here(a, b=1, *, c="x", **more): ...

        self.assertIsNone(refuses(here, "(a, b=1, *, c='x')"))
        self.assertIsNone(refuses(here, "(a, **kwargs)"))
        for other in ("(b=1)", "(a, b=2)", "(a, b=1, c='x')", "(a, d=1)", "()"):
            self.assertIsNotNone(refuses(here, other), other)
        self.assertIs(find([dataclasses], "field.nothing"), ABSENT)


if __name__ == "__main__":
    unittest.main()
