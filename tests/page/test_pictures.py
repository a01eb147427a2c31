"""The pictures of README show what the program shows: the names of views, tiles, charts, columns and causes are those that were there when they were made."""
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tools")]
import demo_views  # noqa: E402
from agent import BINARY  # noqa: E402

MOST_BYTES = 600_000


class Pictures(unittest.TestCase):
    def test_they_are_not_old(self):
        made = json.loads(demo_views.LABELS.read_text(encoding="utf-8"))
        missing = demo_views.browser_missing()
        with demo_views.Demo(BINARY, settle=1, after=6) as demo:
            now = demo_views.labels(demo, with_page=not missing)
        for what, names in now.items():
            with self.subTest(what):
                self.assertEqual(names, made[what], "docs/pictures shows something else: ./dev screenshots makes it again")
        if missing:
            self.skipTest(f"the page was not looked at: {missing}")

    def test_readme_shows_them(self):
        readme = (ROOT / "README.md").read_text()
        shown = set(re.findall(r"docs/pictures/([\w.-]+)", readme))
        there = {path.name for path in demo_views.PICTURES.iterdir()} - {"labels.json"}
        self.assertEqual(shown, there)
        self.assertLessEqual(sum(path.stat().st_size for path in demo_views.PICTURES.iterdir()), MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
