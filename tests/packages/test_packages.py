"""What is in the packages, and that the same commit gives the same bytes."""
import gzip
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import packing

sys.path.insert(0, str(packing.ROOT / "tools"))
import notices  # noqa: E402


def unpacked(pattern, to):
    """Unpacks a package: the folder is / of a .deb or .rpm, /usr/local of a tar.gz."""
    file = packing.package(pattern)
    if file.suffix == ".deb":
        packing.run("dpkg", "-x", file, to)
    elif file.suffix == ".rpm":
        with subprocess.Popen(["rpm2cpio", str(file)], stdout=subprocess.PIPE) as archive:
            packing.run("cpio", "-idm", "--quiet", stdin=archive.stdout, cwd=to)
    else:
        packing.run("tar", "-xzf", file, "-C", to, "--strip-components=1")
    return pathlib.Path(to)


def rpm_here():
    return shutil.which("rpmbuild") and shutil.which("cpio")


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", packing.run("readelf", "--notes", path))[1]


class Packages(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def every(self):
        """(name, unpacked folder, its prefix) of each package."""
        for pattern, prefix in (
            ("gpulens_*.deb", "usr"),
            ("gpulens-dev_*.deb", "usr"),
            ("gpulens-[0-9]*.tar.gz", ""),
            ("gpulens-dev-*.tar.gz", ""),
            *((("gpulens-[0-9]*.rpm", "usr"), ("gpulens-devel-*.rpm", "usr")) if rpm_here() else ()),
        ):
            with self.subTest(package=pattern):
                root = unpacked(pattern, self.folder())
                yield pattern, root, root / prefix

    def test_the_same_commit_gives_the_same_bytes(self):
        first, second = packing.packages(), packing.packages("second")
        names = sorted(path.name for path in first.iterdir())
        self.assertEqual(names, sorted(path.name for path in second.iterdir()))
        self.assertGreaterEqual(len(names), 4)
        self.assertIn("SHA256SUMS", names)
        for name in names:
            with self.subTest(package=name):
                self.assertTrue((first / name).read_bytes() == (second / name).read_bytes(), "the bytes differ")

    def test_lintian_finds_nothing(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian here")
        for pattern in ("gpulens_*.deb", "gpulens-dev_*.deb", "gpulens-dbgsym_*.deb"):
            found = packing.run("lintian", packing.package(pattern), check=False)
            self.assertEqual([line for line in found.splitlines() if re.match("[EW]: ", line)], [])

    def test_rpmlint_finds_nothing(self):
        if not shutil.which("rpmlint") or not rpm_here():
            self.skipTest("no rpmlint or rpmbuild here")
        found = packing.run("rpmlint", "-c", packing.ROOT / "deploy/rpm/rpmlint.toml", *sorted(packing.packages().glob("*.rpm")))
        self.assertIn("3 packages and 0 specfiles checked; 0 errors, 0 warnings", found)

    def test_each_has_the_notices_of_what_is_in_it(self):
        for pattern, _, prefix in self.every():
            dev = "-dev" in pattern
            text = (prefix / "share/doc" / ("gpulens-dev" if dev else "gpulens") / "copyright").read_text()
            inside = notices.packages(str(packing.BUILD), "gpulens_sdk" if dev else "gpulens")
            self.assertIn("libssl-dev", inside)
            for name in inside:
                self.assertRegex(text, rf"(?m)^{re.escape(name)}\b|, {re.escape(name)}\b")
            self.assertIn("Permission is hereby granted, free of charge", text)
            if not pattern.endswith(".deb"):
                # Elsewhere nothing is in /usr/share/common-licenses.
                folder = prefix / "share/doc" / ("gpulens-dev" if dev else "gpulens") / "licenses"
                self.assertIn("Apache License", (folder / "Apache-2.0").read_text())

    def test_the_program_has_nothing_under_the_lgpl(self):
        self.assertNotIn("libcrypt-dev", notices.packages(str(packing.BUILD), "gpulens"))

    def test_docs_list_what_is_inside(self):
        text = (packing.ROOT / "docs/dependencies.md").read_text()
        table = text.split("## In the shipped program")[1].split("\n## ")[0]
        listed = set(re.findall(r"^\| `(lib[a-z0-9+.-]+)`", table, re.MULTILINE))
        inside = {
            re.sub(r"boost1\.\d+-dev", "boost-dev", name)
            for name in notices.packages(str(packing.BUILD), "gpulens")
            if not notices.RUNTIME.match(name)
        }
        self.assertEqual({re.sub(r"boost1\.\d+-dev", "boost-dev", name) for name in listed}, inside)

    def test_links_lead_to_packed_files(self):
        pages = 0
        for _, root, _ in self.every():
            for page in root.rglob("*.md"):
                pages += 1
                for target in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", page.read_text()):
                    if not re.match("[a-z]+:", target):
                        self.assertTrue((page.parent / target).exists(), f"{page.relative_to(root)}: {target}")
        self.assertGreater(pages, 100)

    def test_manual_pages_and_completions(self):
        commands = json.loads(packing.run(packing.BUILD / "gpulens", "help", "--json"))["commands"][0]["commands"]
        expected = {f"man1/{one['name'].replace(' ', '-')}.1.gz" for one in commands} | {"man1/gpulens.1.gz", "man5/gpulens.yaml.5.gz"}
        for pattern, _, prefix in self.every():
            if "-dev" in pattern:
                continue
            manual = prefix / "share/man"
            self.assertEqual({str(path.relative_to(manual)) for path in manual.rglob("*.gz")}, expected)
            text = {path.name: gzip.decompress(path.read_bytes()).decode() for path in manual.rglob("*.gz")}
            self.assertIn("\\fB\\-\\-http\\-listen\\fR \\fIHOST:PORT", text["gpulens-agent.1.gz"])
            self.assertIn('.SS "gpulens config check"', text["gpulens-config.1.gz"])
            self.assertIn("\\fBhttp.listen\\fR", text["gpulens.yaml.5.gz"])
            zsh = "share/zsh/vendor-completions" if pattern.endswith(".deb") else "share/zsh/site-functions"
            for shell, place in (("bash", "share/bash-completion/completions/gpulens"), ("zsh", f"{zsh}/_gpulens"),
                                 ("fish", "share/fish/vendor_completions.d/gpulens.fish")):  # fmt: skip
                self.assertEqual((prefix / place).read_text(), packing.run(packing.BUILD / "gpulens", "completion", shell))

    def test_manual_pages_are_laid_out_without_warnings(self):
        (prefix,) = [prefix for pattern, _, prefix in self.every() if pattern == "gpulens_*.deb"]
        pages = sorted((prefix / "share/man").rglob("*.gz"))
        packing.run("gunzip", *pages)
        plain = [path.with_suffix("") for path in pages]
        if shutil.which("groff"):
            self.assertEqual(packing.run("groff", "-Tutf8", "-man", "-ww", "-z", *plain), "")
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc here")
        self.assertEqual(packing.run("mandoc", "-T", "lint", "-W", "warning", *plain, check=False), "")

    def test_debug_symbols_fit_the_program(self):
        symbols, programs = {}, {}
        for pattern, root, _ in self.every():
            if "-dev" not in pattern:
                (program,) = root.rglob("bin/gpulens")
                programs[build_id(program)] = program
        for pattern in ("gpulens-dbgsym_*.deb", "gpulens-debug-[0-9]*.tar.gz", *(("gpulens-debuginfo-*.rpm",) if rpm_here() else ())):
            root = unpacked(pattern, self.folder())
            (symbols[pattern],) = root.rglob("lib/debug/.build-id/*/*.debug")
        self.assertEqual(len(programs), 1, "the same program is in all")
        ((identity, program),) = programs.items()
        for pattern, path in symbols.items():
            self.assertEqual(path.parent.name + path.stem, identity, pattern)
            self.assertEqual(build_id(path), identity)
        sections = packing.run("readelf", "--sections", "--wide", program)
        self.assertNotRegex(sections, r"\.debug_|\.symtab")
        self.assertRegex(packing.run("readelf", "--sections", "--wide", path), r"\.debug_line")
        if not shutil.which("gdb"):
            self.skipTest("no gdb here")
        folder = path.parents[2]
        found = packing.run("gdb", "-nx", "-batch", "-iex", f"set debug-file-directory {folder}", "-ex", "info line main", program)
        self.assertRegex(found, r'Line \d+ of ".*gpulens_main\.cc"')
        found = packing.run("gdb", "-nx", "-batch", "-iex", "set debug-file-directory /nonexistent", "-ex", "info line main", program, check=False)
        self.assertNotIn("gpulens_main.cc", found)

    def test_perf_names_functions(self):
        if not shutil.which("perf"):
            self.skipTest("no perf here")
        root = unpacked("gpulens_*.deb", self.folder())
        symbols = unpacked("gpulens-dbgsym_*.deb", self.folder()) / "usr/lib/debug"
        data = root / "perf.data"
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "20000", "-o", data, root / "usr/bin/gpulens", "collect", "host", "--once"]
        recorded = packing.run(*record, check=False)
        # perf looks in /usr/lib/debug alone: a mount that only this command sees puts the symbols there.
        report = f'mkdir -p /usr/lib/debug && mount --bind {symbols} /usr/lib/debug && perf --buildid-dir {root}/ids report -i {data} --stdio --dsos gpulens'
        if not data.exists() or subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
            self.skipTest(f"perf or mounts may not be used here: {recorded[-200:]}")
        self.assertIn("gpulens::", packing.run("unshare", "--mount", "sh", "-c", report))

    def test_units_name_the_place_of_the_program(self):
        for pattern, root, prefix in self.every():
            if "-dev" in pattern:
                continue
            unit = (prefix / "lib/systemd/system/gpulens.service").read_text()
            place = re.search(r"ExecStart=(\S+)", unit)[1]
            self.assertEqual(place, "/usr/local/bin/gpulens" if pattern.endswith(".tar.gz") else "/usr/bin/gpulens")
            self.assertEqual((root / "etc/gpulens/gpulens.yaml").exists(), not pattern.endswith(".tar.gz"))
            for name in ("systemd/system/gpulens.socket", "systemd/system/gpulens-probes.service", "systemd/system/gpulens-proxy.service", "sysusers.d/gpulens.conf", "tmpfiles.d/gpulens.conf"):
                self.assertTrue((prefix / "lib" / name).is_file(), f"{pattern}: {name}")

    def test_every_program_starts_and_needs_an_old_glibc(self):
        for pattern, _, prefix in self.every():
            if "-dev" not in pattern:
                packing.run(packing.ROOT / "tools/verify_binary.sh", prefix / "bin/gpulens")

    def test_programs_are_built_against_the_sdk(self):
        prefix = unpacked("gpulens-dev_*.deb", self.folder()) / "usr"
        work = pathlib.Path(self.folder())
        examples = prefix / "share/doc/gpulens-dev/examples"
        packing.run("cmake", "-S", examples, "-B", work / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
        packing.run("cmake", "--build", work / "build")
        self.assertIn("http_server_requests_total", packing.run(work / "build/consumer"))
        if not shutil.which("pkg-config"):
            self.skipTest("no pkg-config here")
        environment = {"PKG_CONFIG_PATH": str(prefix / "share/pkgconfig"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        flags = packing.run("pkg-config", "--cflags", "--libs", "gpulens", env=environment).split()
        self.assertEqual(packing.run("pkg-config", "--modversion", "gpulens", env=environment).strip(), packing.version())
        packing.run("g++", "-std=c++20", examples / "consumer_store.cc", *flags, "-o", work / "store")
        self.assertIn("llama-3.1-8b: 1 calls", packing.run(work / "store", work / "telemetry.db"))
        packing.run("gcc", examples / "consumer.c", *flags, "-o", work / "c")

    def test_every_format_has_the_same_sdk(self):
        names = {}
        for pattern, _, prefix in self.every():
            if "-dev" in pattern:
                names[pattern] = sorted(
                    str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file() and "share/doc" not in str(path)
                )
        first = names["gpulens-dev_*.deb"]
        self.assertIn("share/pkgconfig/gpulens.pc", first)
        for pattern, found in names.items():
            self.assertEqual(found, first, pattern)


if __name__ == "__main__":
    unittest.main()
