"""`gpulens migrate litellm`: what it prints is a file that the proxy accepts, and docs/migrate/litellm.md names families that the proxy's page has."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from agent import BINARY
from llm_upstream import LlmProxy, LlmUpstream

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/migrate/litellm.md"


class MigrateLiteLlm(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-litellm-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "AZURE_API_KEY": "k3",
                            "GPULENS_PROXY_STATE_DIR": str(self.folder / "state")}

    def run_it(self, *words):
        return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, env=self.environment, timeout=60, check=False)

    def block(self, kind):
        return re.search(rf"```yaml {kind}\n(.*?)```", PAGE.read_text(), re.S).group(1)

    def test_the_example_of_the_page_becomes_a_file_that_the_proxy_accepts(self):
        (self.folder / "config.yaml").write_text(self.block("litellm"))
        made = self.run_it("migrate", "litellm", self.folder / "config.yaml")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("not moved", made.stderr)
        self.assertNotIn("sk-", made.stdout)
        config = self.folder / "proxy.yaml"
        config.write_text(made.stdout)
        self.assertEqual(self.run_it("proxy", "keys", "new", "--id", "ada", "--tenant", "acme", "--config", config).returncode, 0)
        check = self.run_it("proxy", "--check", "--config", config)
        self.assertEqual((check.returncode, check.stderr), (0, ""), check.stdout)
        self.assertIn("provider anthropic: https://api.anthropic.com", check.stdout)
        # What the page has is what is made, but for comments and breaks of lines.
        config.write_text(self.block("proxy"))
        self.assertEqual(self.run_it("proxy", "--check", "--config", config).stdout, check.stdout)

    def test_wrong_files_have_an_error(self):
        wrong = self.folder / "wrong.yaml"
        wrong.write_text("a: 1\n")
        for file, code in ((wrong, 2), (self.folder / "none.yaml", 1)):
            ran = self.run_it("migrate", "litellm", file)
            self.assertEqual((ran.returncode, ran.stdout), (code, ""), ran.stderr)
            self.assertIn(file.name, ran.stderr)

    def test_each_family_that_the_page_names_is_on_the_page_of_the_proxy(self):
        rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `litellm_")]
        names = {name for row in rows for name in re.findall(r"`((?:gpulens_proxy|zumik|http)_[a-z0-9_]+)", row[2])}
        self.assertGreater(len(names), 8)
        with LlmUpstream() as upstream, LlmProxy(f"providers: [{{name: one, url: '{upstream.url}', prices: list}}]\nbudgets: [{{name: all, usd: '5'}}]") as proxy:
            self.assertEqual(proxy.send()[0], 200)
            self.assertEqual(proxy.send(stream=True)[0], 200)
            families = set(re.findall(r"^# TYPE (\S+)", proxy.page(), re.M))
        self.assertEqual({name for name in names if not {name, name.removesuffix("_total")} & families}, set())


if __name__ == "__main__":
    unittest.main()
