"""Features of another project for the cost of GPUs, row by row: cost_monitor on the simulated NVML and the page of a vLLM server.

The formulas have their unit tests in src/plugins/analyzers/cost and src/ledger/rates_test.cc.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, ROOT, Agent, samples, wait_until
from http_stub import HttpStub, serve_page

PROMPT, GENERATED, PREFILL, DECODE = 1000.0, 500.0, 0.25, 0.75  # in each second


class Vllm:
    """A vLLM server under constant load."""

    def __init__(self):
        self.begin = time.monotonic()

    def __call__(self):
        t = 100 + time.monotonic() - self.begin
        text = ""
        for name, rate in (("prompt_tokens", PROMPT), ("generation_tokens", GENERATED)):
            text += f'# TYPE vllm:{name}_total counter\nvllm:{name}_total{{model_name="m"}} {rate * t}\n'
        for name, rate in (("request_prefill_time_seconds", PREFILL), ("request_decode_time_seconds", DECODE)):
            family = f"vllm:{name}"
            text += (f'# TYPE {family} histogram\n{family}_bucket{{model_name="m",le="+Inf"}} {t}\n'
                     f'{family}_sum{{model_name="m"}} {rate * t}\n{family}_count{{model_name="m"}} {t}\n')
        return text


def run(*arguments, environment=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=60,
                          env={**clean, **(environment or {})}, check=False)


def monitor(*arguments, environment=None):
    """The values of one run by name: a list of (entity, attributes, value)."""
    done = run("cost_monitor", "--demo", "--once", "--sink", "stdout", *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    found = {}
    for element in json.loads(done.stdout):
        for reading in element["readings"]:
            found.setdefault(reading["name"], []).append((element, reading.get("attributes", {}), reading["value"]))
    return found, done.stderr


def values(found, name):
    return [reading[2] for reading in found.get(name, [])]


class CostMonitor(unittest.TestCase):
    """Rows of one run with a price, a carbon intensity and an engine."""

    @classmethod
    def setUpClass(cls):
        with serve_page(Vllm()) as url:
            cls.found, cls.log = monitor("--cost-per-gpu-hour", "6.88", "--vllm-endpoint", url, "--co2-grams-per-kwh", "380.95",
                                         "--pue", "1.2", "--idle-threshold", "0.05", "--push-interval", "60")
        cls.gpus = len(values(cls.found, "gpu.cost.per_gpu_hour"))

    def one(self, name):
        (found,) = self.found[name]
        self.assertEqual(found[0]["entity_type"], "engine")
        self.assertEqual(found[0]["entity"]["inference.engine"], "vllm")
        self.assertEqual(found[1], {"gpu.cost.binding": "all_gpus"}, "no process of the engine is known here")
        return found[2]

    def test_l9_011_cost_monitor_runs_as_documented(self):
        self.assertEqual(self.gpus, 8)
        self.assertEqual(set(self.found) >= {"gpu.cost.per_gpu_hour", "gpu.cost.per_prompt_token", "gpu.energy.co2_rate"}, True)

    def test_l9_158_per_gpu_hour_is_the_price(self):
        self.assertEqual(values(self.found, "gpu.cost.per_gpu_hour"), [6.88] * 8)

    def test_l9_159_rate_is_the_price_of_a_second(self):
        for rate in values(self.found, "gpu.cost.rate"):
            self.assertAlmostEqual(rate, 6.88 / 3600, 15)

    def test_l9_160_prices_of_tokens_add_up_to_the_money_spent_once(self):
        prompt, generation = self.one("gpu.cost.per_prompt_token"), self.one("gpu.cost.per_generation_token")
        spent = 8 * 6.88 / 3600
        # The page's tokens pass in the time between its own two answers, which is known to some milliseconds.
        self.assertAlmostEqual((PROMPT * prompt + GENERATED * generation) / spent, 1, delta=0.03)
        self.assertAlmostEqual(PROMPT * prompt / (GENERATED * generation), PREFILL / DECODE, delta=2e-3)  # the page has whole tokens

    def test_l9_161_eight_gpus_are_charged_for_one_engine(self):
        self.assertAlmostEqual(GENERATED * self.one("gpu.cost.per_generation_token") / (0.75 * 8 * 6.88 / 3600), 1, delta=0.03)

    def test_l9_162_tokens_per_watt_is_the_inverse_of_joules_per_token(self):
        self.assertAlmostEqual(self.one("gpu.efficiency.tokens_per_watt") * self.one("gpu.efficiency.joules_per_token"), 1, 12)

    def test_l9_163_joules_per_token_is_the_energy_of_all_gpus(self):
        done = run("nvml_monitor", "--demo", "--once")
        watts = sum(reading["value"] for element in json.loads(done.stdout) for reading in element["readings"]
                    if reading["name"] == "gpu.power.draw")
        # Powers of the simulation move by the minute.
        self.assertAlmostEqual(self.one("gpu.efficiency.joules_per_token") * (PROMPT + GENERATED) / watts, 1, delta=0.5)

    def test_l9_164_idle_is_0_for_a_gpu_in_use(self):
        self.assertIn(0, values(self.found, "gpu.idle"))  # 1 after the hold time, absent: CostMetricsTest and Idle

    def test_l9_165_idle_rate_is_0_for_a_gpu_in_use(self):
        self.assertEqual(len(values(self.found, "gpu.cost.idle_rate")), len(values(self.found, "gpu.idle")))
        self.assertIn(0, values(self.found, "gpu.cost.idle_rate"))

    def test_l9_166_co2_intensity_is_the_configured_one(self):
        self.assertEqual(values(self.found, "gpu.energy.co2_intensity"), [380.95] * 8)
        for arguments in ((), ("--co2-grams-per-kwh", "0")):
            found, _ = monitor("--cost-per-gpu-hour", "6.88", *arguments)
            self.assertNotIn("gpu.energy.co2_intensity", found)
            self.assertNotIn("gpu.energy.co2_rate", found)

    def test_l9_167_co2_rate_is_of_the_power_with_the_data_centre(self):
        for rate in values(self.found, "gpu.energy.co2_rate"):
            watts = rate * 3600 / 380.95 * 1000 / 1.2
            self.assertGreater(watts, 50)
            self.assertLess(watts, 1000)


@contextlib.contextmanager
def metadata(answers):
    """A metadata service; `answers` by path. EC2's token is given first."""
    def answer(request, _):
        if request.path.startswith("/latest/api/token"):
            return 200, {}, b"token"
        return (200, {}, json.dumps(answers[request.path]).encode()) if request.path in answers else (404, {}, b"")

    def put_as_get(stub):  # the stub answers GET and POST, EC2 is sent a PUT
        handler = stub._server.RequestHandlerClass
        handler.do_PUT = handler.do_GET
        return stub

    with put_as_get(HttpStub(answer)) as stub:
        yield stub.origin


EC2, GCE = "/latest/dynamic/instance-identity/document", "/computeMetadata/v1/instance/?recursive=true"
AZURE = "/metadata/instance?api-version=2021-02-01"


class Clouds(unittest.TestCase):
    def monitor(self, provider, path, answer):
        with metadata({path: answer}) as url:
            return monitor(environment={"GPULENS_ENRICHERS_CLOUD_PROVIDER": provider, "GPULENS_ENRICHERS_CLOUD_ENDPOINT": url})

    def test_l9_227_the_price_of_p5_48xlarge_from_ec2(self):
        found, log = self.monitor("aws", EC2, {"instanceType": "p5.48xlarge", "region": "us-east-1", "instanceId": "i-1"})
        self.assertEqual(values(found, "gpu.cost.per_gpu_hour"), [6.88] * 8, log)
        # Its source and date are in the list of prices.
        self.assertRegex((ROOT / "src/ledger/gpu_prices.def").read_text(),
                         r'PRICE\("aws", "p5\.48xlarge", 8, "55\.04", "us-east-1", "20\d\d-\d\d-\d\d", ".+"\)')

    def test_compute_engine_and_azure_have_prices(self):
        found, log = self.monitor("gcp", GCE, {"zone": "projects/1/zones/us-central1-a", "id": 1,
                                               "machineType": "projects/1/machineTypes/a3-ultragpu-8g"})
        self.assertEqual(values(found, "gpu.cost.per_gpu_hour"), [10.4365] * 8, log)
        found, log = self.monitor("azure", AZURE, {"compute": {"location": "eastus", "vmId": "1",
                                                               "vmSize": "Standard_ND96isr_H100_v5"}})
        self.assertEqual(values(found, "gpu.cost.per_gpu_hour"), [12.29] * 8, log)

    def test_a_price_that_is_not_known_is_absent_with_a_reason(self):
        found, log = self.monitor("aws", EC2, {"instanceType": "p5.48xlarge", "region": "eu-north-1", "instanceId": "i-1"})
        self.assertNotIn("gpu.cost.per_gpu_hour", found)
        self.assertIn("gpu.idle", found)
        self.assertIn("the built-in list has a price for us-east-1, not for the region eu-north-1", log)
        found, log = self.monitor("gcp", GCE, {"zone": "projects/1/zones/us-central1-a", "id": 1,
                                               "machineType": "projects/1/machineTypes/n2-standard-4"})
        self.assertNotIn("gpu.cost.per_gpu_hour", found)
        self.assertIn("no list has a price of the instance type n2-standard-4", log)

    def test_off_every_cloud_and_without_a_price_the_rest_is_exported(self):
        found, log = monitor()
        self.assertIn("gpu.idle", found)
        self.assertNotIn("gpu.cost.per_gpu_hour", found)
        self.assertIn("the instance type of this machine is not known. Set price_per_gpu_hour", log)


class Options(unittest.TestCase):
    def test_an_instance_type_has_its_list_price(self):
        found, _ = monitor("--instance-type", "g6e.12xlarge")
        self.assertEqual(values(found, "gpu.cost.per_gpu_hour"), [2.62315] * 8, "a quarter of the instance's")

    def test_wrong_values_are_wrong_use(self):
        for arguments, word in ((("--cost-per-gpu-hour", "6,88"), "price_per_gpu_hour is no price"),
                                (("--pue", "0.5"), "pue is not between 1 and 10"),
                                (("--co2-grams-per-kwh", "-1"), "co2_grams_per_kwh is no intensity"),
                                (("--vllm-endpoint", "nonsense"), "--vllm-endpoint"),
                                (("-o", "price_file=/nonexistent/prices.tsv", "--cost-per-gpu-hour", "1"), "/nonexistent/prices.tsv")):
            done = run("cost_monitor", "--demo", "--once", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(word, done.stderr)

    def test_a_dry_run_prints_the_command(self):
        done = run("cost_monitor", "--cost-per-gpu-hour", "6.88", "--vllm-endpoint", "http://localhost:8000/metrics", "--once",
                   "--dry-run")
        self.assertEqual(done.stdout.strip(), "gpulens collect cost --endpoint http://localhost:8000/metrics --once --sink stdout "
                                              "-o price_per_gpu_hour=6.88")
        done = run("cost_monitor", "--push-interval", "60", "--dry-run")
        self.assertEqual(done.stdout.strip(), "GPULENS_ENRICHERS_CLOUD_ENABLED=true gpulens collect cost --interval 60s --sink stdout "
                                              "-o longest_gap=180s -o gpus_only=true")


class InTheAgent(unittest.TestCase):
    def test_l9_226_the_demo_has_the_configured_price(self):
        config = "analyzers: {cost: {price_per_gpu_hour: 6.88}}\n"
        with Agent("--demo", config=config) as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "gpu_cost_per_gpu_hour_USD") else "")(agent.page()))
            self.assertEqual({sample.value for sample in samples(page, "gpu_cost_per_gpu_hour_USD")}, {6.88})

    def test_a_price_file_counts_by_the_name_of_the_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            prices = pathlib.Path(folder, "prices.csv")
            prices.write_text("gpu_product,usd_per_hour\nH100,4.5\nL4,0.8\n")
            found, _ = monitor("-o", f"price_file={prices}")
            self.assertEqual(values(found, "gpu.cost.per_gpu_hour"), [4.5] * 8)


if __name__ == "__main__":
    unittest.main()
