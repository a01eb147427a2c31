"""gpulens.compat.openjarvis: its instrumented engines, and what they publish."""
import asyncio
import contextlib
import types
import unittest
from unittest import mock

from engines import USAGE, AsyncEngine, Bus, Engine, pause
from gpulens.compat import openjarvis as t
from monitors import FixedMonitor


class Engines(unittest.TestCase):
    def test_instrumented_generate(self):
        engine, bus = Engine(), Bus()
        before = dict(engine.answer)
        result = t.instrumented_generate(engine, ["hi"], model="m", bus=bus, top_p=0.5)
        self.assertIs(result, engine.answer)
        self.assertEqual(result, before)
        self.assertEqual(engine.seen, [(["hi"], "m", {"temperature": 0.7, "max_tokens": 1024, "top_p": 0.5})])
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        (r,) = bus.records()
        self.assertEqual((r.model_id, r.engine, r.prompt_tokens, r.completion_tokens, r.total_tokens, r.cost_usd),
                         ("m", "fake", 12, 3, 15, 0.25))
        self.assertEqual((r.ttft, r.energy_joules, r.token_counting_version), (0.0, 0.0, 2))

    def test_events_have_one_subscriber_each(self):
        bus, seen = t.EventBus(), []
        for kind in t.EventType:
            bus.subscribe(kind, lambda event: seen.append((event.event_type, event.data)))
        t.instrumented_generate(Engine(), [], model="m", bus=bus)
        self.assertEqual([kind for kind, _ in seen], ["inference_start", "inference_end", "telemetry_record"])

    def test_failed(self):
        bus = Bus()
        with self.assertRaises(KeyError):
            t.instrumented_generate(Engine(error=KeyError("k")), [], model="m", bus=bus)
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        self.assertEqual(bus.records()[0].metadata, {"outcome": "error", "error_type": "KeyError"})
        self.assertEqual(bus[1][1]["error"], "KeyError")

    def test_subscribers_do_not_break_inference(self):
        bus, seen = t.EventBus(), []
        bus.subscribe("telemetry_record", lambda event: 1 / 0)
        bus.subscribe("telemetry_record", seen.append)
        with self.assertLogs("gpulens", "WARNING"):
            self.assertEqual(t.instrumented_generate(Engine(), [], model="m", bus=bus)["content"], "abc")
        self.assertEqual(len(seen), 1)

    def test_with_energy(self):
        bus = Bus()
        engine = t.InstrumentedEngine(Engine(result={"usage": {"prompt_tokens": 7, "completion_tokens": 50}}), bus,
                                      energy_monitor=FixedMonitor(joules=10.0, watts=250.0))
        result = engine.generate([], model="m")
        (r,) = bus.records()
        self.assertAlmostEqual(r.energy_per_output_token_joules, 0.2)
        self.assertAlmostEqual(r.tokens_per_joule, 5.0)
        self.assertAlmostEqual(r.throughput_per_watt, r.throughput_tok_per_sec / 250)
        self.assertEqual((r.power_watts, r.gpu_utilization_pct, r.energy_method, r.energy_vendor), (250.0, 80.0, "hw_counter", "nvidia"))
        self.assertEqual((result["_telemetry"]["energy_joules"], r.total_tokens), (10.0, 57))
        engine = t.InstrumentedEngine(Engine(result={"usage": {"completion_tokens": 0}}), bus, energy_monitor=FixedMonitor())
        engine.generate([], model="m")
        self.assertEqual(bus.records()[1].energy_per_output_token_joules, 0.0)

    def test_monitors_of_others(self):
        """Whatever attributes they have: a class of one's own, and a MagicMock, which has all."""

        class Own:
            _native = types.SimpleNamespace(request=lambda: 1 / 0)

            @contextlib.contextmanager
            def sample(self):
                sample = types.SimpleNamespace()
                yield sample
                vars(sample).update(energy_joules=7.5, mean_power_watts=150.0, vendor="amd", energy_method="polling")

        sample = t.EnergySample(energy_joules=7.5, mean_power_watts=150.0, vendor="amd", energy_method="polling")
        magic = mock.MagicMock()
        magic.sample.return_value.__enter__.return_value = sample
        magic.sample.return_value.__exit__.return_value = False
        for option in ("energy_monitor", "gpu_monitor"):
            for monitor in (Own(), magic):
                bus = Bus()
                engine = t.InstrumentedEngine(Engine(), bus, **{option: monitor})
                result = engine.generate([], model="m")
                list(engine.stream([], model="m"))
                for r in bus.records():
                    self.assertEqual((r.energy_joules, r.power_watts, r.energy_vendor, r.energy_method), (7.5, 150.0, "amd", "polling"))
                    self.assertEqual(r.gpu_temperature_c, 0.0)
                self.assertEqual((len(bus.records()), result["_telemetry"]["energy_joules"]), (2, 7.5))
        self.assertEqual(magic.sample.return_value.__exit__.call_count, 4)

    def test_monitors_that_know_nothing_or_fail(self):
        failing = mock.MagicMock()
        failing.sample.return_value.__exit__.side_effect = OSError("gone")
        for monitor in (mock.MagicMock(), failing, object()):
            bus = Bus()
            with contextlib.nullcontext() if monitor is not failing and isinstance(monitor, mock.Mock) else self.assertLogs("gpulens"):
                t.InstrumentedEngine(Engine(seconds=0.01), bus, energy_monitor=monitor).generate([], model="m")
            (r,) = bus.records()
            self.assertEqual((r.energy_joules, r.energy_method, r.completion_tokens), (0.0, "", 3))
            self.assertGreaterEqual(r.latency_seconds, 0.01)

    def test_a_ttft_of_zero_is_not_known(self):
        """OpenJarvis' Ollama engine gives it where the server reports no prompt_eval_duration."""
        bus = Bus()
        engine = t.InstrumentedEngine(Engine(result={"usage": USAGE, "ttft": 0.0}, seconds=0.01), bus, energy_monitor=FixedMonitor())
        engine.generate([], model="m")
        (r,) = bus.records()
        self.assertEqual((r.ttft, r.prefill_latency_seconds, r.decode_latency_seconds), (0.0, 0.0, 0.0))
        self.assertEqual((r.energy_joules, r.prefill_energy_joules, r.decode_energy_joules), (20.0, 0.0, 0.0))

    def test_a_slow_consumer(self):
        bus = Bus()
        engine = t.InstrumentedEngine(Engine(["a"] * 5, {"prompt_tokens": 11, "completion_tokens": 5}, seconds=0.01), bus)
        for chunk in engine.stream([], model="m"):
            pause(0.1)
        (r,) = bus.records()
        self.assertEqual((r.prompt_tokens, r.completion_tokens, r.total_tokens, r.is_streaming), (11, 5, 16, True))
        self.assertTrue(0 < r.ttft < r.latency_seconds < 0.3, r)
        self.assertTrue(0 < r.mean_itl_ms < 100, r)
        self.assertAlmostEqual(r.prefill_latency_seconds + r.decode_latency_seconds, r.latency_seconds)

    def test_what_it_passes_on(self):
        inner, bus = Engine(), Bus()
        engine = t.InstrumentedEngine(inner, bus)
        self.assertEqual((engine.engine_id, engine.list_models(), engine.closed), ("instrumented", ["m"], False))
        self.assertEqual(list(engine.stream_full([], model="m")), ["a", "b", "c"])
        self.assertEqual(bus.records()[0].completion_tokens, 3)
        result = t.instrumented_generate(engine, [], model="m", bus=bus)
        self.assertEqual((len(bus.records()), "_telemetry" in result), (2, False))

    def test_in_coroutines(self):
        async def use(engine):
            await engine.generate([], model="m")
            return [chunk async for chunk in engine.stream([], model="m")]

        bus = Bus()
        asyncio.run(use(t.InstrumentedEngine(AsyncEngine(usage=USAGE), bus)))
        self.assertEqual([r.completion_tokens for r in bus.records()], [3, 3])

if __name__ == "__main__":
    unittest.main()
