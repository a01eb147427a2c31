"""The last hour in the agent, over HTTP: what it has, its limits, and when it begins."""
import json
import unittest
import urllib.parse

from agent import Agent, wait_until


def history(agent, **parameters):
    """The answer's status and document."""
    answer = agent.get("/api/history?" + urllib.parse.urlencode(parameters, doseq=True))
    return answer.status, json.loads(answer.text)


def now(agent):
    return json.loads(agent.get("/api/now").text)


class History(unittest.TestCase):
    def test_samples_and_steps(self):
        with Agent("--demo") as agent:
            power = 'gpu.power.draw{gpu.index="0"}'
            energy = 'gpu.energy.consumption{gpu.index="0"}'

            def enough():
                found = history(agent, select=[power, energy])[1]["series"]
                return found if len(found) == 2 and min(len(s["at"]) for s in found) >= 6 else None

            found = {s["name"]: s for s in wait_until(enough, 30, "six samples")}
            series = found["gpu.power.draw"]
            self.assertEqual((series["unit"], series["kind"], series["source"], series["period_s"]), ("W", "gauge", "nvidia", 1))
            self.assertEqual(series["at"], sorted(series["at"]))
            self.assertTrue(all(0 < watts < 800 for watts in series["value"]), series["value"])
            total = found["gpu.energy.consumption"]
            self.assertEqual(total["value"], sorted(total["value"]))
            status, steps = history(agent, select=[power, energy], step="2s", window="10s")
            self.assertEqual((status, steps["step_s"]), (200, 2))
            by_name = {s["name"]: s for s in steps["series"]}
            for low, mean, high in zip(*(by_name["gpu.power.draw"][key] for key in ("min", "avg", "max"))):
                if mean is not None:
                    self.assertLessEqual(low, mean + 1e-9)
                    self.assertLessEqual(mean, high + 1e-9)
            self.assertNotIn("min", by_name["gpu.energy.consumption"])
            self.assertTrue(any(rate and rate > 0 for rate in by_name["gpu.energy.consumption"]["rate"]))
            kept = now(agent)
            self.assertLessEqual(kept["history"]["memory"], 4 << 20)
            self.assertEqual(kept["history"]["refused"], 0)
            ids = [s["id"] for s in kept["series"]]
            self.assertEqual(ids, sorted(set(ids)))
            self.assertNotIn("series", json.loads(agent.get(f"/api/now?known={kept['layout']}").text))

    def test_what_is_wrong_is_named(self):
        with Agent("--demo") as agent:
            for parameters, status, words in (({"select": "rate(x[5m])"}, 400, "selector"), ({"window": "5"}, 400, "window"),
                                              ({"step": "0s"}, 400, "step"), ({"values": "avg"}, 400, "step"),
                                              ({"values": "median", "step": "1s"}, 400, "min, avg, max"), ({"end": "now"}, 400, "end"),
                                              ({"query": "up"}, 400, "query"), ({"window": "101s", "step": "1ms"}, 413, "step")):
                answer = history(agent, **parameters)
                self.assertEqual(answer[0], status, parameters)
                self.assertIn(words, answer[1]["error"])
            self.assertEqual(history(agent, select="no.such.metric")[1]["series"], [])

    def test_it_begins_with_the_first_reader_or_at_once(self):
        config = "collectors: {nvidia: {enabled: false}}\nhistory: {start: START, memory: 1MiB, window: 5m}\n"
        for start in ("first_reader", "at_once"):
            with Agent(config=config.replace("START", start)) as agent:
                wait_until(lambda: agent.get("/-/ready").status == 200, 20, "the first tick")
                first = wait_until(lambda: (lambda n: n if n.get("tick", 0) >= 3 else None)(now(agent)), 20, "three ticks")["history"]
                self.assertEqual(first["window_s"], 300)
                self.assertLessEqual(first["memory"], 1 << 20)
                self.assertGreater(first["series"], 20)


if __name__ == "__main__":
    unittest.main()
