"""The pages of docs/: their links; and the site that `./dev docs` makes of them."""
import html.parser
import pathlib
import re
import shutil
import subprocess
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")


def prose(path):
    """The lines of a page that are not code."""
    fenced = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield re.sub(r"`[^`]*`", "", line)


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in sorted(DOCS.rglob("*.md")):
            for line in prose(page):
                for target in LINK.findall(line):
                    path = urllib.parse.unquote(target.partition("#")[0])
                    if path and "://" not in target and not target.startswith("mailto:"):
                        self.assertTrue((page.parent / path).exists(), f"{page.relative_to(ROOT)}: {target}")

    def test_packages_of_the_site_have_versions(self):
        for line in (ROOT / "tools" / "docs" / "requirements.txt").read_text().splitlines():
            self.assertTrue(line.startswith("#") or re.fullmatch(r"[A-Za-z0-9-]+==[0-9.]+", line), line)


class Resources(html.parser.HTMLParser):
    """What a page loads, and where it leads."""

    LOADS = {"script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"), "video": ("src", "poster"), "audio": ("src",),
             "embed": ("src",), "object": ("data",), "input": ("src",), "track": ("src",)}
    RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest", "apple-touch-icon", "shortcut"}

    def __init__(self, text):
        super().__init__()
        self.loads, self.leads = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = {key: value or "" for key, value in attrs}
        self.loads += [attributes[name] for name in self.LOADS.get(tag, ()) if name in attributes]
        if tag == "link" and "href" in attributes:
            loaded = self.RELATIONS & set(attributes.get("rel", "").lower().split())
            (self.loads if loaded else self.leads).append(attributes["href"])
        if tag == "a" and "href" in attributes:
            self.leads.append(attributes["href"])


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("doxygen"):
            raise unittest.SkipTest("no doxygen here: apt-get install doxygen")
        cls.done = subprocess.run([str(ROOT / "tools" / "docs.sh")], capture_output=True, text=True, timeout=550, check=False)
        if "cannot be had" in cls.done.stderr:
            raise unittest.SkipTest(cls.done.stderr.strip())

    def pages(self):
        return sorted(SITE.rglob("*.html"))

    def test_it_is_made_without_a_warning(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual(self.done.stderr, "")
        self.assertGreater(len(self.pages()), 200)

    def test_nothing_is_loaded_from_elsewhere(self):
        for path in self.pages():
            text = path.read_text(encoding="utf-8", errors="replace")
            for target in Resources(text).loads:
                self.assertFalse(re.match(r"(?i)\s*(https?:|ftp:)?//", target), f"{path.relative_to(SITE)} loads {target}")
            self.assertNotRegex(text, r"@import\s+(url\()?[\"']?https?:", path)
        for path in SITE.rglob("*.css"):
            self.assertNotRegex(path.read_text(encoding="utf-8", errors="replace"), r"url\([\"']?\s*(https?:)?//|@import\s+[\"']https?:", path)

    def test_links_within_it_lead_somewhere(self):
        for path in self.pages():
            found = Resources(path.read_text(encoding="utf-8", errors="replace"))
            for target in found.loads + found.leads:
                parts = urllib.parse.urlsplit(target)
                if parts.scheme or parts.netloc or not parts.path or path.name == "404.html":
                    continue
                self.assertTrue((path.parent / urllib.parse.unquote(parts.path)).exists(), f"{path.relative_to(SITE)}: {target}")

    def test_the_references_have_the_sdks(self):
        self.assertIn("gpulens.Counter", (SITE / "reference" / "python.html").read_text())
        self.assertTrue(list((SITE / "reference" / "cpp").glob("classgpulens_*.html")))

    def test_search_works_offline(self):
        index = (SITE / "search" / "search_index.js").read_text()
        self.assertIn("gpu_power_draw_watts", index)
        self.assertIn('src="search/iframe-worker.js"', (SITE / "index.html").read_text())


if __name__ == "__main__":
    unittest.main()
