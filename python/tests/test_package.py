"""The package as a whole: what importing it costs, what it exports, what its stubs and help say."""
import ast
import importlib
import importlib.metadata
import inspect
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
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

    @unittest.skipIf(importlib.import_module("gpulens._core")._file_locks == "shared", "built without static archives")
    def test_the_native_parts_need_the_c_library_alone(self):
        mapped = """
            import ctypes, pathlib, re
            def libraries():
                return set(re.findall(r"/([^/\\s]+\\.so[.\\d]*)$", pathlib.Path("/proc/self/maps").read_text(), re.MULTILINE))
            before = libraries()
            import gpulens._core
            for library in pathlib.Path(gpulens.__file__).parent.glob("lib/*.so"):
                ctypes.CDLL(str(library))
            print(*sorted(name for name in libraries() - before if not re.match("_ctypes|libffi|_struct", name)))
            """
        allowed = r"(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|ld-linux-aarch64)\.so\.\d|_core\..*|libgpulens_secure\.so|libgpulens-job\.so"
        self.assertEqual([name for name in run(textwrap.dedent(mapped)).split() if not re.fullmatch(allowed, name)], [])

    @unittest.skipUnless(os.environ.get("PACKAGED_WHEEL"), "of wheels of ./dev package alone")
    def test_the_wheel_has_the_notices_of_what_is_in_it(self):
        texts = {file.name: file.read_text() for file in importlib.metadata.files("gpulens") if file.parent.name == "licenses"}
        self.assertIn("Apache License", texts["LICENSE"])
        for part in ("libsqlite3-dev", "libssl-dev", "libnghttp2-dev", "libdeflate-dev", "libstdc++", "nanobind, robin-map"):
            self.assertIn(part, texts["NOTICES"])

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


class Refused(unittest.TestCase):
    """Where the native part cannot work: one ImportError that says what to do."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-import-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.package = self.folder / "gpulens"
        shutil.copytree(pathlib.Path(gpulens.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.native = next(self.package.glob("_core.*.so"))

    def error_of(self, code, *options):
        """The one line of an ImportError; nothing else is on stderr."""
        code = f"import sys; sys.path.insert(0, {str(self.folder)!r})\ntry:\n    {code}\nexcept ImportError as error:\n    print(error)"
        done = subprocess.run([sys.executable, "-W", "always", *options, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_without_the_shared_object(self):
        self.native.unlink()
        for code in ("import gpulens; gpulens.Counter", "import gpulens.stats", "from gpulens.ring import RingKernelRuntime"):
            self.assertRegex(self.error_of(code), r"^the native part of gpulens is missing in .*/gpulens: install .*pip install")

    def test_built_for_another_python(self):
        self.native.rename(self.package / "_core.cpython-33-x86_64-linux-gnu.so")
        self.assertRegex(self.error_of("from gpulens import Counter"),
                         r"^the gpulens in .* is built for another Python \(_core.cpython-33-.*\); this is CPython 3\.\d+: install it with")

    def test_of_another_version(self):
        text = (self.package / "__init__.py").read_text(encoding="utf-8")
        (self.package / "__init__.py").write_text(re.sub(r'__version__ = ".*"', '__version__ = "9.8.7"', text), encoding="utf-8")
        self.assertRegex(self.error_of("from gpulens import Counter"),
                         rf"^gpulens 9\.8\.7 has a native part of version {re.escape(gpulens.__version__)}.*install it again")

    def test_another_implementation(self):
        self.native.unlink()
        for change in ("sys.implementation.name = 'pypy'", "sys.version_info = (3, 8, 1, 'final', 0)"):
            self.assertRegex(self.error_of(f"{change}; import gpulens.stats"), r"^gpulens runs on CPython 3\.9 or newer; this is \w+ 3\.\d+$")

    def test_a_subinterpreter(self):
        """Python itself refuses since 3.12, with a sentence of its own."""
        within = "import sys; sys.path.insert(0, {!r})\ntry:\n    from gpulens import Counter\nexcept ImportError as error:\n    print(error, flush=True)"
        code = ("import importlib, gpulens; gpulens.Counter; names = ['_xxsubinterpreters', '_interpreters']; "
                "made = next(importlib.import_module(n) for n in names if importlib.util.find_spec(n)); "
                f"one = made.create(); made.run_string(one, {within.format(str(self.folder))!r}); made.destroy(one)")
        text = self.error_of("import importlib.util; " + code)
        self.assertRegex(text, r"^gpulens works in the main interpreter of a process only.*use processes"
                         if sys.version_info < (3, 12) else "does not support loading in subinterpreters")
        self.assertEqual(len(text.splitlines()), 1)


class End(unittest.TestCase):
    """A program that ends says nothing, whatever it has open."""

    def quiet(self, code):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-end-")
        self.addCleanup(folder.cleanup)
        done = subprocess.run([sys.executable, "-W", "always", "-c", textwrap.dedent(code)], capture_output=True, text=True,
                              timeout=60, cwd=folder.name)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_with_a_source_of_python(self):
        self.quiet("""
            import gpulens

            class Meter(gpulens.EnergySource):
                def open(self):
                    return [gpulens.EnergyDevice("socket-1", most_watts=3000.0)]

                def read(self, device):
                    return gpulens.SourceReading(watts=250)

            monitor = gpulens.EnergyMonitor(sources=[Meter()])
            window = monitor.window()
            print(monitor, window)
            """)

    def test_with_daemon_threads(self):
        self.quiet("""
            import threading, time
            import gpulens

            counter, store, gauge = gpulens.Counter("a"), gpulens.InferenceStore("a.db"), gpulens.Gauge("load")
            gauge.set_function(time.time)
            page = gpulens.expose("127.0.0.1:0")

            def work():
                mine = gpulens.EnergyMonitor()
                while True:
                    with mine.window():  # a record that came after the store's end would be reported, rightly
                        counter.add(1, {"n": 5})
                        time.sleep(0.001)

            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            store.record(model="m")
            time.sleep(0.3)
            """)

    def test_with_everything_global(self):
        self.quiet("""
            import gpulens, gpulens.ring, sys

            kept = [getattr(gpulens, name) for name in gpulens.__all__]
            spec, distribution = gpulens.find_gpu_spec("NVIDIA L4"), gpulens.describe([1])
            run = gpulens.experiment("a", db="runs.db", energy=False)
            collector = gpulens.TelemetryCollector()
            recorder = collector.kernel("a")
            timed = gpulens.Histogram("h").time()(lambda: 1)
            timed()
            cycle = [spec]
            cycle.append(cycle)
            sys.kept = [cycle, timed, recorder, collector.get_all_telemetry(), run]
            """)


class Types(unittest.TestCase):
    ROOT = pathlib.Path(gpulens.__file__).parent

    def test_type_checkers_see_the_same_exports(self):
        tree = ast.parse((self.ROOT / "__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {}
        modules = set()
        for node in block.body:
            for alias in node.names:
                self.assertEqual(alias.name, alias.asname)  # that makes it an export
                if node.module is None:
                    modules.add("gpulens." + alias.name)
                else:
                    seen[alias.name] = "gpulens." + node.module
        self.assertEqual(seen, gpulens._MODULE_OF)
        self.assertEqual(modules, {*gpulens._EXPORTS, "gpulens.compat"})

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
