"""Tests of the tables of LLM engines and of their generated pages:  cd tools && python3 -m unittest test_engine_tools"""
import pathlib
import tempfile
import unittest
import zipfile

import engine_pages
import engine_release
import engine_tables

Path = pathlib.Path


class EngineTables(unittest.TestCase):
    """Refusals of the compiler of the tables, and the lines that they name."""
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
        self.assertIn('{"x:running", 1u << static_cast<unsigned>(ExpositionType::kGauge), RowUse::kSame, &kRunning, 1.0,', text)

    def test_common_labels_are_written_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.tsv"
            head = "\t".join(engine_tables.COLUMNS)
            row = self.ROW.replace("model>model.name", "@,+cache.type=gpu")
            path.write_text(f"@labels\tmodel>model.name\n{head}\n{row}\n")
            self.assertIn('"model>model.name,+cache.type=gpu"', engine_tables.table_text(path, "t", {"Running": "kRunning"}))
        self.assertIn("the file no line @labels", self.refused(row))

    def test_uses(self):
        for role, use in (("Running:sum", "kSumOfRole"), ("Running@count", "kOwnCount"), ("pass", "kPass")):
            self.assertIn("RowUse::" + use, self.text(self.ROW.replace("\tRunning\t", f"\t{role}\t")))
        text = self.text(self.ROW.replace("\t1\t", "\tlabel:size\t"))
        self.assertIn('RowUse::kLabelNumber, &kRunning, 1, "size"', text)

    def test_refusals_name_the_line_and_the_mistake(self):
        cases = {"'Runing' is no role": ("Running", "Runing"), "'gague' is none of": ("gauge", "gague"),
                 "'model>' is nothing that can happen": ("model>model.name", "model>"),
                 "'1x' is no name of a family": ("x:running", "1x"), "without a reason": ("Running", "ignore"),
                 "9 columns or an empty one": ("\t{request}", "")}
        for what, (old, new) in cases.items():
            error = self.refused(self.ROW.replace(old, new, 1))
            self.assertIn(what, error)
            self.assertIn("x.tsv:3:", error)

    def test_rows_of_a_family_must_be_adjacent(self):
        other = self.ROW.replace("x:running", "x:waiting")
        self.assertIn("x.tsv:5: rows of x:running are apart", self.refused(self.ROW, other, self.ROW))


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


class EngineRelease(unittest.TestCase):
    """Families that are read from the sources of a release."""

    def families(self, source, engine="vllm"):
        _, prefixes, mention = engine_release.ENGINES[engine]
        found = engine_release.read_sources([("a.py", source)], prefixes, mention)
        return {family.name: family.kind for family in found.families.values()}, found.unread

    def test_ways_to_name_a_family(self):
        families, unread = self.families("""
PREFIX = "vllm:"
RUNNING = PREFIX + "running"
a = Gauge(RUNNING, "help", ["model_name"])
b = self._counter_cls(name="vllm:prompt_tokens", documentation="d", labelnames=labelnames)
c = Counter("vllm:done_total", "d")
d = Histogram(name=f"{PREFIX}latency_seconds", documentation="d")
for short, why in [("hits", "x"), ("misses", "y")]:
    Counter(f"vllm:{short}", why)
e = {p: Histogram(f"vllm:{p}_seconds", "d") for p in dict.fromkeys(STAGES.values())}
f = Info("vllm:cache_config", "d")
def made(name="vllm:made"):
    return Summary(name, "d")
g = wrap(Gauge(name="vllm:wrapped", documentation="d"))
logger.info("vllm:nothing %s", 1)
register_gauge("meter", "vllm:helped", "d", read)
class Names:
    LOADS = "vllm:loads"
    STORES = "vllm:stores"
kinds[Names.LOADS] = CounterMetadata("d")
\"\"\"vllm:in_a_docstring\"\"\"
get_meter("vllm:meter")
""".replace("STAGES.values()", '{1: "prefill", 2: "decode"}.values()').replace('\\"', '"'))
        self.assertEqual(families, {
            "vllm:running": "gauge", "vllm:prompt_tokens_total": "counter", "vllm:done_total": "counter",
            "vllm:latency_seconds": "histogram", "vllm:hits_total": "counter", "vllm:misses_total": "counter",
            "vllm:prefill_seconds": "histogram", "vllm:decode_seconds": "histogram", "vllm:cache_config_info": "gauge",
            "vllm:made": "summary", "vllm:wrapped": "gauge", "vllm:helped": "gauge", "vllm:loads_total": "counter",
            "vllm:stores": "untyped"})
        self.assertEqual(unread, [])

    def test_a_name_that_cannot_be_read_is_returned(self):
        families, unread = self.families('x = Gauge(f"vllm:{whatever()}_total", "d")\n')
        self.assertEqual(families, {})
        self.assertEqual(unread, ["a.py:1: f'vllm:{whatever()}_total'"])
        self.assertIn("a.py:2", self.families("# vllm:\nx = = 1\n")[1][0])

    def test_open_telemetry_appends_units(self):
        families, _ = self.families("""
a = meter.create_counter("lmcache_mp.lookup_hit", unit="tokens")
b = meter.create_histogram("lmcache_mp.l2_load_throughput", unit="GB/s")
c = meter.create_histogram("lmcache_mp.lifetime", unit="s")
d = meter.create_observable_counter("lmcache_mp.bus.dropped_total")
e = meter.create_up_down_counter("lmcache_mp.jobs", unit="{job}")
""", "lmcache")
        self.assertEqual(families, {
            "lmcache_mp_lookup_hit_tokens_total": "counter", "lmcache_mp_l2_load_throughput_GB_per_second": "histogram",
            "lmcache_mp_lifetime_seconds": "histogram", "lmcache_mp_bus_dropped_total": "counter", "lmcache_mp_jobs": "gauge"})

    def test_a_wheel_becomes_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder) / "vllm-1-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr("vllm/metrics.py", 'a = Histogram("vllm:x_seconds", "d", ["model_name"])\n')
                archive.writestr("vllm/tests/fake.py", 'a = Gauge("vllm:fake", "d")\n')
            found = engine_release.read_sources(engine_release.sources_of(wheel), ("vllm:",))
            page = engine_release.page_of(found.families, wheel.name)
        self.assertIn("# TYPE vllm:x_seconds histogram\n", page)
        self.assertIn('vllm:x_seconds_bucket{model_name="x",le="+Inf"} 1\n', page)
        self.assertIn('vllm:x_seconds_count{model_name="x"} 1\n', page)
        self.assertNotIn("fake", page)


if __name__ == "__main__":
    unittest.main()
