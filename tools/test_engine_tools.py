"""Tests of the tables of LLM engines and of their generated pages:  cd tools && python3 -m unittest test_engine_tools"""
import pathlib
import tempfile
import unittest

import engine_pages
import engine_tables

Path = pathlib.Path


class EngineTables(unittest.TestCase):
    """What the compiler of the tables refuses, and where it says so."""
    ROW = "x:running\tgauge\tmodel>model.name\t{request}\tRunning\t1\t-\t-\t-\t-"

    def text(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.tsv"
            path.write_text("# a comment\n" + "\n".join(("\t".join(engine_tables.COLUMNS), *rows)) + "\n")
            return engine_tables.table_text(path, "kRows_x", {"Running": "kRunning"})

    def refused(self, *rows):
        with self.assertRaises(SystemExit) as refused:
            self.text(*rows)
        return str(refused.exception)

    def test_a_row(self):
        text = self.text(self.ROW)
        self.assertIn('{"x:running", 1u << static_cast<unsigned>(ExpositionType::kGauge), Use::kSame, &kRunning, 1.0,', text)

    def test_uses(self):
        for role, use in (("Running:sum", "kSumOfRole"), ("Running@count", "kOwnCount"), ("pass", "kPass")):
            self.assertIn("Use::" + use, self.text(self.ROW.replace("\tRunning\t", f"\t{role}\t")))
        text = self.text(self.ROW.replace("\t1\t", "\tlabel:size\t"))
        self.assertIn('Use::kLabelNumber, &kRunning, 1, "size"', text)

    def test_refusals_name_the_line_and_what_is_wrong(self):
        cases = {"'Runing' is no role": ("Running", "Runing"), "'gague' is none of": ("gauge", "gague"),
                 "'model>' is nothing that can happen": ("model>model.name", "model>"),
                 "'1x' is no name of a family": ("x:running", "1x"), "without a reason": ("Running", "ignore"),
                 "9 columns or an empty one": ("\t{request}", "")}
        for what, (old, new) in cases.items():
            error = self.refused(self.ROW.replace(old, new, 1))
            self.assertIn(what, error)
            self.assertIn("x.tsv:3:", error)

    def test_rows_of_a_family_stand_together(self):
        other = self.ROW.replace("x:running", "x:waiting")
        self.assertIn("x.tsv:5: rows of x:running stand apart", self.refused(self.ROW, other, self.ROW))


class EnginePages(unittest.TestCase):
    def samples(self, text):
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def test_every_family_of_every_engine_is_there_and_marked(self):
        for engine in engine_pages.engine_names():
            text = engine_pages.page_of(engine)
            self.assertTrue(text.startswith("# generated from the table, not recorded\n"), engine)
            for row in engine_pages.rows_of(engine):
                kinds = row["type"].split("|")
                self.assertIn(f"# TYPE {row['family'].replace('*', 'example')} {kinds[0]}\n", text, engine)

    def test_no_series_twice_and_numbers_fit_together(self):
        for engine in engine_pages.engine_names():
            text = engine_pages.page_of(engine, seed=3)
            samples = self.samples(text)
            self.assertEqual(len(samples), sum(not line.startswith("#") for line in text.splitlines()), engine)
            last = {}
            for series, value in samples.items():
                if "_bucket{" not in series or 'le="' not in series:
                    continue
                name, _, labels = series.partition("_bucket{")
                bare = labels.partition('le="')[0].rstrip(",")
                self.assertGreaterEqual(value, last.get((name, bare), 0), series)
                last[name, bare] = value
                if 'le="+Inf"' in series:
                    count = f"{name}_count" + (f"{{{bare}}}" if bare else "")
                    self.assertEqual(samples[count], value, series)

    def test_a_later_page_has_grown(self):
        first, later = (self.samples(engine_pages.page_of("vllm", scale=scale)) for scale in (1, 3))
        self.assertEqual(first.keys(), later.keys())
        grown = 0
        for series, value in first.items():
            if "_total{" in series or "_bucket{" in series or "_count{" in series:
                self.assertGreaterEqual(later[series], value, series)
                grown += later[series] > value
        self.assertGreater(grown, 300)

    def test_the_same_arguments_give_the_same_bytes(self):
        self.assertEqual(engine_pages.page_of("sglang", 5, 2), engine_pages.page_of("sglang", 5, 2))
        self.assertNotEqual(engine_pages.page_of("sglang", 5, 2), engine_pages.page_of("sglang", 6, 2))

    def test_two_names_agree_and_a_total_is_the_sum(self):
        vllm = self.samples(engine_pages.page_of("vllm"))
        by_family = {}
        for series, value in vllm.items():
            by_family.setdefault(series.partition("{")[0], []).append(value)
        self.assertEqual(by_family["vllm:gpu_cache_usage_perc"], by_family["vllm:kv_cache_usage_perc"])
        cached = {key.partition('cache_source="')[2].partition('"')[0]: value
                  for key, value in self.samples(engine_pages.page_of("sglang")).items()
                  if key.startswith("sglang:cached_tokens_total")}
        self.assertEqual(cached.pop("total"), sum(cached.values()))

    def test_more_models_are_more_series(self):
        text = engine_pages.page_of("vllm", models=3)
        self.assertEqual(text.count("vllm:num_requests_running{"), 6)
        self.assertIn('model_name="maker/model-2"', text)


if __name__ == "__main__":
    unittest.main()
