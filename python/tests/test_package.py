"""The package as a whole: what importing it costs, what it exports, what its stubs and help say."""
import ast
import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys
import unittest

import gpulens

COMPAT = "l9gpu l9gpu.metric_names l9gpu.training openjarvis pydotcompute zernel"
PARTLY = ("gpulens.ring",)  # what people import from there


def run(code):
    """What a fresh interpreter prints for this."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


class Import(unittest.TestCase):
    def test_starts_no_thread_and_loads_nothing(self):
        out = run(
            "import sys, threading; before = set(sys.modules); import gpulens;"
            "print(sorted(set(sys.modules) - before), threading.active_count(), len(__import__('os').listdir('/proc/self/task')))"
        )
        self.assertEqual(out, "['gpulens'] 1 1")

    def test_parts_come_with_first_use(self):
        out = run("import sys, gpulens; gpulens.Counter; print('gpulens._core' in sys.modules, 'gpulens.compat' in sys.modules)")
        self.assertEqual(out, "True False")

    def test_every_export_is_there(self):
        for name in gpulens.__all__:
            self.assertIsNotNone(getattr(gpulens, name), name)
        self.assertLessEqual(set(gpulens.__all__), set(dir(gpulens)))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Cuonter'"):
            gpulens.Cuonter

    def test_modules_need_no_import_of_their_own(self):
        for module in (*gpulens._EXPORTS, "gpulens.compat"):
            self.assertEqual(run(f"import gpulens; print({module}.__name__)"), module)

    def test_modules_list_what_the_package_exports(self):
        for module, names in gpulens._EXPORTS.items():
            listed = importlib.import_module(module).__all__
            if module in PARTLY:
                self.assertLess(set(names.split()), set(listed), module)
            else:
                self.assertEqual(sorted(names.split()), sorted(listed), module)


class Types(unittest.TestCase):
    ROOT = pathlib.Path(gpulens.__file__).parent

    def test_type_checkers_see_the_same_exports(self):
        tree = ast.parse((self.ROOT / "__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {}
        for node in block.body:
            for alias in node.names:
                self.assertEqual(alias.name, alias.asname)  # that makes it an export
                seen[alias.name] = "gpulens." + node.module
        self.assertEqual(seen, gpulens._MODULE_OF)

    def test_marked_as_typed(self):
        self.assertTrue((self.ROOT / "py.typed").exists())

    def test_stub_of_the_native_module(self):
        stub = (self.ROOT / "_core.pyi").read_text(encoding="utf-8")
        tree = ast.parse(stub)
        self.assertNotIn("std::", stub)  # a C++ type that Python has no name for
        self.assertNotIn("object)", stub)
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        core = importlib.import_module("gpulens._core")
        public = {name for name, value in vars(core).items() if isinstance(value, type) and not name.startswith("_")}
        self.assertLessEqual(public, set(classes))
        for name, node in classes.items():
            methods = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
            missing = {m for m in vars(getattr(core, name)) if not m.startswith("_")} - methods
            self.assertEqual(missing, set(), name)

    def test_everything_public_has_help(self):
        bare = []
        for info in pkgutil.walk_packages([str(self.ROOT)], "gpulens."):
            # The integrations import their frameworks, which are not here; test_training.py looks at them.
            if info.name.endswith("._core") or info.name.startswith("gpulens.integrations."):
                continue
            module = importlib.import_module(info.name)
            if not module.__doc__:
                bare.append(info.name)
            for name in getattr(module, "__all__", []):
                value = getattr(module, name)
                if callable(value) and not (value.__doc__ or "").strip():
                    bare.append(f"{info.name}.{name}")
        self.assertEqual(bare, [])

    def test_methods_have_help_and_hints(self):
        modules = [gpulens] + [importlib.import_module(f"gpulens.compat.{name}") for name in COMPAT.split()]
        wanting = set()
        for kind in [getattr(module, name) for module in modules for name in module.__all__]:
            own = [k for k in inspect.getmro(kind) if k.__module__.startswith("gpulens")] if inspect.isclass(kind) else []
            members = {name: value for k in reversed(own) for name, value in vars(k).items()} or {kind.__name__ if callable(kind) else "": kind}
            for name, value in members.items():
                value = getattr(value, "__func__", value)
                if isinstance(value, property) and not name.startswith("_") and not inspect.getdoc(value):
                    wanting.add(f"{kind.__qualname__}.{name} has no help")
                if type(value).__name__ == "nb_method" and name[0] != "_" and not re.search(r"(?m)^(?!\w+\().*\w", value.__doc__):
                    wanting.add(f"{kind.__qualname__}.{name} has no help but its signature")
                if not inspect.isfunction(value) or (name.startswith("_") and name != "__init__"):
                    continue
                where = f"{kind.__module__}.{kind.__qualname__}: {name}"
                if name != "__init__" and not self.help_of(own, name, value):
                    wanting.add(f"{where} has no help")
                signature = inspect.signature(value)
                hints = [p.annotation for p in signature.parameters.values() if p.name not in ("self", "cls")]
                hints += [signature.return_annotation] if name != "__init__" else []
                if inspect.Parameter.empty in hints:
                    wanting.add(f"{where}{signature} lacks a hint")
        self.assertEqual(sorted(wanting), [])

    @staticmethod
    def help_of(kinds, name, value):
        """Its own, or that of the method which it overrides, as help() has it."""
        return value.__doc__ or any(getattr(vars(kind).get(name), "__doc__", None) for kind in kinds)


class Errors(unittest.TestCase):
    def test_each_is_the_builtin_that_people_catch(self):
        expected = {
            "UnavailableError": RuntimeError,
            "PermissionDeniedError": PermissionError,
            "InvalidArgumentError": ValueError,
            "DataLossError": ValueError,
            "TimeoutError": TimeoutError,
            "ExhaustedError": RuntimeError,
            "IoError": OSError,
        }
        for name, builtin in expected.items():
            kind = getattr(gpulens, name)
            self.assertTrue(issubclass(kind, builtin) and issubclass(kind, gpulens.Error), name)
            error = kind("what, where, what to do")
            self.assertEqual(str(error), "what, where, what to do")
            self.assertEqual(error.detail, "what, where, what to do")
            self.assertIs(type(gpulens.errors.of_code(error.code, "x")), kind)

    def test_a_code_of_another_version_is_an_error_all_the_same(self):
        self.assertIs(type(gpulens.errors.of_code("novel", "x")), gpulens.Error)


if __name__ == "__main__":
    unittest.main()
