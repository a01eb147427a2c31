"""Tests of the tools:  cd tools && python3 -m unittest test_tools"""
import pathlib
import re
import tempfile
import unittest
from xml.etree import ElementTree

import affected
import clang_tidy
import coverage
import layers
import test_summary
import tidy
import tree

Path = pathlib.Path


def rules_of(name, text):
    """The rules of tidy.py that this text of a C++ file breaks."""
    code = tree.code_of(text)
    found = list(tidy.text_rules(Path(name), text)) + list(tidy.banned(Path(name), code))
    return [f.rule for f in found]


class CodeOf(unittest.TestCase):
    def test_comments_and_literals_are_blanked_and_lines_stay(self):
        text = 'int a; // system(\n/* rand(\n */ auto s = "atoi(\\"1\\")"; char c = \'"\'; int n = 1\'000;\n'
        code = tree.code_of(text)
        self.assertEqual(len(code), len(text))
        self.assertEqual(code.count("\n"), text.count("\n"))
        for word in ("system", "rand", "atoi"):
            self.assertNotIn(word, code)
        self.assertIn("int n = 1'000;", code)

    def test_raw_strings(self):
        code = tree.code_of('auto s = R"x({ rand( )" still )x"; int after;')
        self.assertNotIn("rand", code)
        self.assertNotIn("{", code)
        self.assertIn("int after;", code)

    def test_names_of_included_files_are_kept(self):
        self.assertIn('"base/files.h"', tree.code_of('#include "base/files.h"  // why'))


class Layers(unittest.TestCase):
    def errors(self, path, *lines):
        return layers.check_file(Path(path), "\n".join(lines) + "\n")

    def test_downward_is_fine(self):
        self.assertEqual(self.errors("src/pipeline/a.cc", '#include "core/frame.h"', "#include <vector>"), [])
        self.assertEqual(self.errors("src/plugins/collectors/host/a.cc", '#include "sources/host/a.h"'), [])
        self.assertEqual(self.errors("src/net/http/a.cc", '#include "net/auth/b.h"'), [])

    def test_upward_names_line_and_floors(self):
        (error,) = self.errors("src/core/a.cc", "", '#include "plugins/plugin.h"')
        self.assertTrue(error.startswith("src/core/a.cc:2: core (floor 1) may not include plugins (floor 3)"), error)

    def test_siblings(self):
        self.assertIn("sibling", self.errors("src/plugins/sinks/file/a.cc", '#include "plugins/sinks/stdout/b.h"')[0])
        self.assertIn("sibling", self.errors("src/sources/nvml/a_test.cc", '#include "sources/host/b.h"')[0])
        self.assertEqual(self.errors("src/plugins/sinks/file/a.cc", '#include "plugins/sinks/file/b.h"'), [])

    def test_sinks_never_see_sources(self):
        self.assertIn("may not include sources/nvml", self.errors("src/plugins/sinks/file/a.cc", '#include "sources/nvml/b.h"')[0])

    def test_tests_may_look_at_every_lower_floor(self):
        line = '#include "core/frame.h"'
        self.assertEqual(len(self.errors("src/delivery/a.cc", line)), 1)
        self.assertEqual(self.errors("src/delivery/a_test.cc", line), [])
        self.assertEqual(len(self.errors("src/core/a_test.cc", '#include "wire/text.h"')), 1)

    def test_agent_sees_all_below_it(self):
        self.assertEqual(self.errors("src/agent/a.cc", '#include "plugins/sinks/file/b.h"', '#include "proxy/c.h"'), [])
        self.assertIn("floor 9", self.errors("src/agent/a.cc", '#include "cli/commands.h"')[0])

    def test_plugins_see_their_contract_and_it_sees_none_of_them(self):
        self.assertEqual(self.errors("src/plugins/sinks/file/a.cc", '#include "plugins/plugin.h"'), [])
        self.assertIn("may not include", self.errors("src/plugins/plugin.cc", '#include "plugins/sinks/file/a.h"')[0])

    def test_folders_that_include_each_other_are_found(self):
        self.assertEqual(layers.cycles({"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a"}}), [])
        self.assertEqual(layers.cycles({"a": {"a/b"}, "a/b": {"a"}, "c": {"a"}}), [["a", "a/b"]])
        self.assertEqual(layers.cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}}), [["a", "b", "c"]])

    def test_unknown_folders(self):
        self.assertIn("on no floor", self.errors("src/misc/a.cc")[0])
        self.assertIn("on no floor", self.errors("src/base/a.cc", '#include "misc/b.h"')[0])

    def test_foreign_headers(self):
        self.assertEqual(self.errors("src/net/a.cc", "#include <boost/asio.hpp>"), [])
        self.assertIn("belongs to net", self.errors("src/wire/a.cc", "#include <boost/asio.hpp>")[0])
        self.assertIn("hide it in the .cc", self.errors("src/wire/a.h", "#include <libdeflate.h>")[0])

    def test_codecs_do_no_io(self):
        self.assertIn("does no I/O", self.errors("src/wire/a.cc", "#include <fstream>")[0])
        self.assertIn("does no I/O", self.errors("src/wire/a.cc", '#include "base/files.h"')[0])
        self.assertEqual(self.errors("src/wire/a_test.cc", '#include "base/files.h"'), [])

    def test_public_headers_know_the_standard_library_alone(self):
        self.assertIn("alone", self.errors("include/gpulens/a.h", '#include "base/ref.h"')[0])
        self.assertIn("alone", self.errors("include/gpulens/a.h", "#include <boost/asio.hpp>")[0])
        self.assertEqual(self.errors("include/gpulens/a.h", "#include <gpulens/status.h>", "#include <string>"), [])

    def test_a_commented_include_is_none(self):
        self.assertEqual(self.errors("src/core/a.cc", '// #include "agent/b.h"'), [])


class Banned(unittest.TestCase):
    def test_each_rule_finds_its_call(self):
        cases = {
            "number_parsing": "int x = std::stoi(s);",
            "unbounded_copy": "sprintf(b, f);",
            "shell": 'int r = system("ls");',
            "rand": "int r = rand();",
            "regex": "std::regex r;",
            "iostream": "std::cerr << 1;",
            "endl": "out << std::endl;",
            "assert": "assert(ok);",
            "too_new": "#include <expected>",
            "include_from_root": '#include "sibling.h"',
        }
        for rule, line in cases.items():
            self.assertEqual(rules_of("src/core/a.cc", line + "\n"), [rule], line)

    def test_lookalikes_are_fine(self):
        text = "static_assert(true);\nfoo.system(1);\nint brand(int);\nstd::snprintf(b, 1, f);\nloop->rand(1);\n// atoi(\n"
        self.assertEqual(rules_of("src/core/a.cc", text), [])

    def test_sleep_is_banned_in_tests_alone(self):
        line = "std::this_thread::sleep_for(d);\n"
        self.assertEqual(rules_of("src/core/a_test.cc", line), ["sleep"])
        self.assertEqual(rules_of("src/core/a.cc", line), [])

    def test_using_namespace_is_banned_in_headers_alone(self):
        self.assertEqual(rules_of("src/core/a.h", "using namespace std;\n"), ["using_namespace"])
        self.assertEqual(rules_of("src/core/a.cc", "using namespace std::literals;\n"), [])

    def test_text(self):
        self.assertEqual(rules_of("src/core/a.cc", "int a; \n"), ["trailing_blank"])
        self.assertEqual(rules_of("src/core/a.cc", "\tint a;\n"), ["tab"])
        self.assertEqual(rules_of("src/core/a.cc", "// TO" "DO later\n"), ["unfinished"])
        self.assertEqual(rules_of("src/core/a.cc", '// see /wo' 'rk/main/x\n'), ["machine_path"])
        self.assertEqual(rules_of("a.py", "pip --index-" "url x\n"), ["registry"])


class Words(unittest.TestCase):
    def words(self, path, text):
        return [f.text.split('"')[1] for f in tidy.replaced_words(Path(path), text)]

    def test_names_comments_and_texts_are_checked(self):
        self.assertEqual(self.words("src/wire/a.cc", "int told_ = 1;  // asks for it\n"), ["told", "asks"])
        self.assertEqual(self.words("src/wire/a.cc", 'Log("nobody is here"); AskAgain();\n'), ["nobody", "ask"])
        self.assertEqual(self.words("docs/a.md", "The page says what is told anew.\n"), ["told", "anew"])

    def test_scripts_and_python(self):
        self.assertEqual(self.words("dev", "say hello  # what is told\n"), ["told"])
        self.assertEqual(self.words("tools/a.sh", "echo anew; ask\n"), ["anew"])
        self.assertEqual(self.words("cmake/A.cmake", "# The option stands in a file that says so.\n"), ["stands"])
        self.assertEqual(self.words("tools/a.py", 'print("The user says yes")  # nobody asks\n'), ["nobody"])
        self.assertEqual(self.words("tests/e2e/test_a.py", 'def test_it_says_so(): return ask(f"{told}")\n'), ["told", "says", "ask"])

    def test_which_files_are_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.py", "a.sh", "a.cmake", "CMakeLists.txt", "dev", "a.md", "a.json", "tidy.py"):
                path = Path(folder, "tools", name)
                path.parent.mkdir(exist_ok=True)
                path.write_text("# anew\n")
            paths = [path.relative_to(folder) for path in sorted(Path(folder, "tools").iterdir())]
            found = [f.text.split(":")[0] for f in tidy.findings(paths, Path(folder)) if f.rule == "words"]
            self.assertEqual(found, [f"tools/{name}" for name in ("CMakeLists.txt", "a.cmake", "a.md", "a.py", "a.sh", "dev")])

    def test_texts_of_tests_are_free(self):
        self.assertEqual(self.words("src/wire/a_test.cc", 'Say("told");\n'), ["say"])

    def test_field_words_and_parts_of_words_are_free(self):
        self.assertEqual(self.words("src/wire/a.h", "int task, mask, basket, essay;  // PCIe lanes\n"), [])
        self.assertEqual(self.words("docs/a.md", "The process runs as user nobody.\n"), [])
        self.assertEqual(self.words("tests/a.py", 'pwd.getpwnam("nobody")\n'), [])

    def test_an_area_is_one_row(self):
        found = list(tidy.replaced_words(Path("src/wire/otlp/a.h"), "int told, asked;\n"))
        self.assertIn("src/wire: 2 words", tidy.remaining(found, {("words", "src/wire"): 1})[0])
        self.assertEqual(tidy.remaining(found, {("words", "src/wire"): 2}), [])


class Functions(unittest.TestCase):
    def names(self, text):
        return [(name, length, parameters) for _, length, name, parameters in tidy.functions(tree.code_of(text))]

    def test_shapes(self):
        text = (
            "namespace a {\nclass B final : public C<D> {\n public:\n  B() : x_{1} {\n  }\n"
            "  int Get() const noexcept { return x_; }\n  B& operator=(B other) noexcept {\n    return *this;\n  }\n"
            "  bool operator()(int a, int b) { return true; }\n};\n"
            "const int kTable[] = {1, 2};\nauto kLambda = [](int x) { return x; };\n"
            "template <class T>\n  requires C<T>\nstd::map<int, int> Free(const std::map<int, T>& m, int n = f(1, 2)) {\n"
            "  for (;;) {\n    if (n) { n = 0; }\n  }\n  return {};\n}\nenum class E { k1 };\nTEST(X, Y) {\n}\n}\n"
        )
        found = {name: (length, parameters) for name, length, parameters in self.names(text)}
        self.assertEqual(found["Get"], (1, 0))
        self.assertEqual(found["operator="], (3, 1))
        self.assertEqual(found["Free"][1], 2)
        self.assertEqual(found["TEST"], (2, 2))
        self.assertNotIn("if", found)
        self.assertNotIn("kLambda", found)


class Tree(unittest.TestCase):
    """Rules that need folders, over a small tree of their own."""

    def findings(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            root = Path(folder)
            return [(f.rule, str(f.path)) for f in tidy.findings(tree.files(root), root)]

    def test_a_plugin_has_a_test_and_a_line(self):
        found = self.findings({
            "src/plugins/sinks.def": "GPULENS_PLUGIN(good)\n",
            "src/plugins/sinks/good/a.cc": "int a;\n", "src/plugins/sinks/good/a_test.cc": "int b;\n",
            "src/plugins/sinks/bad/a.cc": "int a;\n",
        })  # fmt: skip
        self.assertEqual(found, [("no_test", "src/plugins/sinks/bad"), ("not_listed", "src/plugins/sinks/bad")])

    def test_blobs_and_headers(self):
        found = self.findings({
            "src/core/b.h": "int a;\n", "src/core/testdata/page.txt": "bad \t\n", "docs/big.bin": "x" * (tidy.BLOB_LIMIT + 1),
        })  # fmt: skip
        self.assertEqual(found, [("blob", "docs/big.bin"), ("pragma_once", "src/core/b.h")])

    def test_large_files_are_listed_and_tables_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {
                "a.h": "\n" * 301, "b.h": "\n" * 300, "rows.h": "    {1, 2},\n" * 400, "a_test.cc": "\n" * 801, "b_test.cc": "\n" * 800,
                "c.cc": "void Long() {\n" + "  x();\n" * 69 + "}\nvoid Many(int a, int b, int c, int d, int e, int f) {}\n",
            }  # fmt: skip
            for name, text in files.items():
                Path(folder, name).write_text(text)
            found = [text for _, text in tidy.outliers(sorted(map(Path, files)), Path(folder))]
        self.assertEqual(
            found,
            ["a_test.cc: 801 lines, 800 wanted", "a.h: 301 lines, 300 wanted", "c.cc:1: Long has 71 lines, 70 wanted",
             "c.cc:72: Many takes 6 parameters; wants an options struct"],
        )  # fmt: skip


class Ratchet(unittest.TestCase):
    row = ("sleep", "src/core/a_test.cc")

    def remaining(self, count, allowed):
        found = [tidy.Finding(*self.row[:1], Path(self.row[1]), 1, count, "sleep")] if count else []
        return tidy.remaining(found, {self.row: allowed} if allowed else {})

    def test_more_than_the_row_fails(self):
        self.assertEqual(self.remaining(3, 3), [])
        self.assertEqual(len(self.remaining(4, 3)), 1)
        self.assertEqual(len(self.remaining(4, 0)), 1)

    def test_a_row_follows_downward(self):
        self.assertIn("lower the row", self.remaining(2, 3)[0])
        self.assertIn("remove the row", self.remaining(0, 3)[0])

    def test_a_row_needs_a_reason(self):
        self.assertEqual(tidy.read_allowed("# why\nassert\ta.h\t2\tpublic header, no CHECK there\n"), {("assert", "a.h"): 2})
        for bad in ("assert\ta.h\t2\n", "assert\ta.h\tx\tlong enough a reason\n", "assert\ta.h\t2\tno\n"):
            with self.assertRaisesRegex(ValueError, "tidy_allow.txt:1"):
                tidy.read_allowed(bad)


class Summary(unittest.TestCase):
    passed = (
        "[ RUN      ] A.B\nsrc/a_test.cc:5: Skipped\ncaptures not here: ../x\n\n[  SKIPPED ] A.B (0 ms)\n"
        "[==========] 3 tests from 1 test suite ran. (1 ms total)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.B\n"
    )
    bad = "[  FAILED  ] C.D (0 ms)\n[==========] 2 tests from 2 test suites ran. (1 ms total)\n[  FAILED  ] C.D\n"
    python = "test_a (e2e.A) ... skipped 'no prometheus, see above'\nRan 4 tests in 0.1s\n"

    def test_counts(self):
        suite = ElementTree.Element("testsuite")
        for name, status, output in (
            ("base", "run", self.passed), ("core", "fail", self.bad), ("e2e", "run", self.python), ("tidy", "run", "ok\n"),
        ):  # fmt: skip
            case = ElementTree.SubElement(suite, "testcase", name=name, status=status)
            ElementTree.SubElement(case, "system-out").text = output
        cases, failed_cases, skips, programs, failed = test_summary.summarize(suite)
        self.assertEqual((cases, failed_cases, programs, failed), (10, 1, 4, ["core"]))
        self.assertEqual(dict(skips), {"captures not here": 1, "no prometheus": 1})

    def test_tests_that_pass_alone_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "again.xml")
            self.assertEqual(test_summary.passed_again(["core"], path), [])
            path.write_text('<testsuite><testcase name="core" status="run"/><testcase name="e2e" status="fail"/></testsuite>')
            self.assertEqual(test_summary.passed_again(["core", "e2e", "other"], path), ["core"])


class Pinned(unittest.TestCase):
    """tools/pinned, which pip installs with --require-hashes."""

    def test_every_package_has_a_version_and_digests(self):
        files = sorted((tree.ROOT / "tools/pinned").glob("*.txt"))
        self.assertEqual([path.stem for path in files], ["chdb", "focus", "litellm", "sbom", "venv"])
        for path in files:
            for entry in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
                self.assertRegex(entry, r"^[A-Za-z0-9._-]+(\[[^]]*\])?==\S+( ; [^#]*?)? +(--hash=sha256:[0-9a-f]{64} *)+$", path.name)

    def test_what_is_asked_for_is_pinned(self):
        pinned = set(re.findall(r"(?m)^([a-z0-9-]+)==", (tree.ROOT / "tools/pinned/venv.txt").read_text(encoding="utf-8")))
        for line in (tree.ROOT / "tools/requirements.txt").read_text(encoding="utf-8").splitlines():
            name = re.match(r"[\w-]+", line)[0].lower().replace("_", "-")
            self.assertIn(name, pinned, "run tools/pin_requirements.sh venv")


class Others(unittest.TestCase):
    def test_coverage_counts_the_product(self):
        counted = [coverage.counted(Path(p)) for p in ("src/core/a.cc", "include/gpulens/status.h")]
        left_out = [
            coverage.counted(Path(p))
            for p in ("src/core/a_test.cc", "src/cli/gpulens_main.cc", "src/x/main.cc", "tests/a.cc", "src/a_fuzz.cc")
        ]
        self.assertEqual((counted, left_out), ([True] * 2, [False] * 5))

    def test_a_closure_has_headers_behind_headers(self):
        seen = affected.closure_of([tree.ROOT / "src/base/files.cc"])
        names = {str(path.relative_to(tree.ROOT)) for path in seen}
        self.assertLessEqual({"src/base/files.cc", "src/base/files.h", "include/gpulens/status.h"}, names)

    def test_names_that_two_sources_may_not_share(self):
        text = b"""namespace gpulens {
using std::chrono::seconds;
constexpr int kOptions[] = {1};
class Reader final : public Base {
Result<int> Create(const Config& config) {
  int inner = 1;
Status Reader::Open(int fd) {
extern const Spec one;
}  // namespace gpulens
"""
        self.assertEqual(clang_tidy.names_of(text), {"kOptions", "Reader", "Create", "one"})

    def test_neighbours_are_checked_together_unless_they_share_a_name(self):
        texts = {"a": b"int One() {", "b": b"int Two() {", "c": b"int One() {", "d": b"int Three() {", "e": b""}
        todo = dict.fromkeys("abcd", ("-O2",)) | {"e": ("-O0",)}
        groups = clang_tidy.groups_of(todo, {file: clang_tidy.names_of(text) for file, text in texts.items()})
        self.assertEqual(groups, [(["a", "b", "d"], ("-O2",)), (["c"], ("-O2",)), (["e"], ("-O0",))])


if __name__ == "__main__":
    unittest.main()
