"""The units of deploy/: how systemd rates them without running them. tests/packages/test_systemd.py runs them."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, ROOT  # noqa: E402

UNIT, PROXY, PROBES = (ROOT / "deploy" / f"{name}.service" for name in ("gpulens", "gpulens-proxy", "gpulens-probes"))
# systemd's measure of what a unit could do to the machine, of 10.
MOST_EXPOSURE = 2.0


def run(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False, **options)


def needs(program, option):
    if not shutil.which(program):
        raise unittest.SkipTest(f"no {program} here (Debian: systemd)")
    if option not in run(program, "--help").stdout:
        raise unittest.SkipTest(f"this {program} has no {option}")


def exposure(unit):
    shown = run("systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)).stdout
    return float(re.search(r"Overall exposure level for [a-z-]+[.]service: ([0-9.]+)", shown)[1])


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-units-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_exposure(self):
        needs("systemd-analyze", "--offline")
        self.assertLessEqual(exposure(UNIT), MOST_EXPOSURE)
        weaker = self.folder / UNIT.name
        weaker.write_text(UNIT.read_text().replace("CapabilityBoundingSet=CAP_SYSLOG\n", ""))
        self.assertGreater(exposure(weaker), MOST_EXPOSURE, "the measure sees a difference")
        self.assertLess(exposure(PROXY), exposure(UNIT))

    def test_docs_name_the_measured_exposure(self):
        needs("systemd-analyze", "--offline")
        stated = re.search(r"exposure of ([0-9.]+)", (ROOT / "docs/install.md").read_text())
        self.assertEqual(float(stated[1]), exposure(UNIT))
        stated = re.search(r"of the proxy ([0-9.]+)", (ROOT / "docs/install.md").read_text())
        self.assertEqual(float(stated[1]), exposure(PROXY))
        stated = re.search(r"an exposure of ([0-9.]+)", (ROOT / "docs/probes.md").read_text())
        self.assertEqual(float(stated[1]), exposure(PROBES))

    def test_systemd_understands_every_line(self):
        needs("systemd-analyze", "--man")
        for name in ("gpulens.service", "gpulens.socket", "gpulens-proxy.service", "gpulens-probes.service"):
            text = (ROOT / "deploy" / name).read_text()
            (self.folder / name).write_text(text.replace("/usr/bin/gpulens", "/bin/true"))
        done = run("systemd-analyze", "verify", "--man=no", *(str(path) for path in sorted(self.folder.iterdir())))
        ours = [line for line in done.stdout.splitlines() if "gpulens" in line]
        self.assertEqual(ours, [])

    def test_docs_explain_every_setting(self):
        text = (ROOT / "docs/install.md").read_text()
        section = text.split("## What the unit permits")[1].split("\n## ")[0]
        named = set(re.findall(r"`([A-Z][A-Za-z]+)=", section))
        keys = set(re.findall(r"(?m)^([A-Z][A-Za-z]+)=", UNIT.read_text().split("[Service]")[1].split("[Install]")[0]))
        plain = {"Type", "NotifyAccess", "WatchdogSec", "ExecStart", "ExecReload", "Restart", "RestartSec", "TimeoutStopSec", "LimitNOFILE",
                 "StateDirectoryMode", "RuntimeDirectoryPreserve"}  # fmt: skip
        self.assertEqual(keys - plain - named, set(), "settings that the page does not explain")

    def test_the_example_of_the_proxy_is_good(self):
        """And the unit's state folder is the one that it names: keys of commands and those of the unit are in one file."""
        example = ROOT / "deploy/proxy.yaml"
        self.assertEqual(yaml.safe_load(example.read_text())["state_dir"], "/var/lib/" + re.search(r"(?m)^StateDirectory=(.*)", PROXY.read_text())[1])
        # With what it has as comments, too.
        whole = re.sub(r"(?m)^( *)# (?=routes:|budgets:|  - |- )", r"\1", example.read_text())
        for text in (example.read_text(), whole):
            (self.folder / "proxy.yaml").write_text(text.replace("/var/lib/gpulens-proxy", str(self.folder)))
            for name in ("openai", "anthropic"):
                (self.folder / name).write_text("secret\n")
            environment = {"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": str(self.folder)}
            words = [str(BINARY), "proxy", "--config", str(self.folder / "proxy.yaml")]
            if not (self.folder / "keys.tsv").exists():
                run(*words[:2], "keys", "new", "--id", "ada", "--tenant", "acme", *words[2:], env=environment)
            done = run(*words, "--check", env=environment)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([name for name in ("openai", "anthropic", "lab", "acme") if name not in done.stdout], [])

    def test_the_user_is_made_and_an_account_of_that_name_is_kept(self):
        needs("systemd-sysusers", "--root")
        (self.folder / "etc").mkdir()
        for passwd in ("", "gpulens:x:1234:1234:Mine:/home/gpulens:/bin/bash\n"):
            for name, text in (("passwd", passwd), ("group", "gpulens:x:1234:\n" if passwd else ""), ("shadow", ""), ("gshadow", "")):
                (self.folder / "etc" / name).write_text(text)
            done = run("systemd-sysusers", f"--root={self.folder}", str(ROOT / "deploy/gpulens.sysusers"))
            self.assertEqual(done.returncode, 0, done.stdout)
            made = (self.folder / "etc/passwd").read_text()
            groups = (self.folder / "etc/group").read_text()
            self.assertEqual(groups.count(":gpulens\n"), 2, groups)
            self.assertRegex(made, r"(?m)^gpulens-proxy:.*:/var/lib/gpulens-proxy:/usr/sbin/nologin$")
            if passwd:
                self.assertIn(passwd, made)
            else:
                self.assertRegex(made, r"(?m)^gpulens:.*:/var/lib/gpulens:/usr/sbin/nologin$")

    def test_containers_have_no_capability_and_a_root_that_cannot_be_written(self):
        """The pods of the chart's plain form, and the compose files."""
        for path in sorted((ROOT / "deploy/kustomize/base").glob("*set-*.yaml")):
            pod = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"}, path.name)
            for container in pod["containers"]:
                context = container["securityContext"]
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, path.name)
                self.assertEqual((context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]), (False, True), path.name)
        for path, name in (("single-box/docker-compose.yml", "gpulens"), ("zumik/infra/deploy/docker-compose.yml", "gpulens"),
                           ("zumik/infra/deploy/docker-compose.proxy.yml", "llm-proxy")):
            service = yaml.safe_load((ROOT / "deploy/compose" / path).read_text())["services"][name]
            self.assertEqual(json.dumps([service["read_only"], service["cap_drop"], service["security_opt"]]),
                             '[true, ["ALL"], ["no-new-privileges:true"]]', path)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
