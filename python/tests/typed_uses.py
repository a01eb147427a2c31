"""Not a test: what type checkers read (test_typing.py). A line without a mark is right; one with the mark "wrong" is refused, with
one of the codes of mypy that stand there."""
import asyncio
from typing import Callable

import gpulens
import gpulens.compat.openjarvis
from gpulens.ring import ring_kernel

latency = gpulens.Histogram("latency", unit="s", bounds=(1, 2.5))
requests = gpulens.Counter("requests").bind({"http.route": "/chat"}, n=5)
requests.add(1, {"route": "/chat"})
requests.ad(1)  # wrong: attr-defined
gpulens.Counter(5)  # wrong: arg-type
gpulens.nothing  # wrong: attr-defined
gpulens.stats.describe(value for value in (1, 2.5))
gpulens.describe("12")  # wrong: arg-type
queue = gpulens.Gauge("queue")
queue.inc()
queue.dec(2)
queue.set_function(lambda: 1.5)
queue.set_function(lambda: "1")  # wrong: return-value,arg-type


@latency.time()
def length(text: str) -> int:
    return len(text)


@requests.count_exceptions(ValueError)
@queue.track_inprogress()
async def later(text: str) -> int:
    return len(text)


whole: int = length("a")
length(5)  # wrong: arg-type
text: str = length("a")  # wrong: assignment
with latency.time(), requests.count_exceptions((KeyError, OSError)):
    pass

monitor = gpulens.EnergyMonitor(share="tokens", prefer="amd")
gpulens.EnergyMonitor(share="token")  # wrong: arg-type
gpulens.EnergyMonitor(prefer="intel")  # wrong: arg-type
gpulens.EnergyDevice("a", part="cpus")  # wrong: arg-type


class Meter(gpulens.EnergySource):
    name = "meter"

    def open(self) -> "list[gpulens.EnergyDevice]":
        return [gpulens.EnergyDevice("socket-1", part="cpu")]

    def read(self, device: int) -> gpulens.SourceReading:
        return gpulens.SourceReading(watts=300)


gpulens.EnergyMonitor(sources=(Meter(),))


async def main() -> float:
    async with monitor.window() as window:
        window.mark("work")
    result = await window.settle()
    if result.validity == "valid":
        return result.energy_joules
    if result.validity == "vaild":  # wrong: comparison-overlap
        return 0
    return await later("a")


store = gpulens.InferenceStore("a.db", energy=monitor)
gpulens.InferenceStore("b.db", when_full="block")
gpulens.InferenceStore("b.db", when_full="wait")  # wrong: arg-type
monitor.window(sync="torch")
monitor.window(sync="tensorflow")  # wrong: arg-type
store.record(model="m", prompt_tokens=5, ttft_seconds=0.5)
store.record(gpulens.InferenceRecord(model="m"))
store.record(modell="m")  # wrong: call-arg
store.record(prompt_tokens="5")  # wrong: arg-type
gpulens.InferenceRecord(outcome="okay")  # wrong: arg-type
store.summary(by="model")
store.summary(by="models")  # wrong: arg-type
with store.begin(model="m", agent="a") as call:
    number: int = call.wait(lambda: 5)
    word: str = call.wait(lambda: 5)  # wrong: assignment,arg-type,return-value
    call.finish(outcome="error", error_type="ValueError")
    call.finish(outcome="failed")  # wrong: arg-type
store.begin(engin="e")  # wrong: call-arg


@ring_kernel("square", queue_size=16, when_full="reject")
async def square(x: int) -> int:
    return x * x


ring_kernel("cube", when_full="wait")  # wrong: call-overload
gpulens.mfu(1e14, 1.0, gpulens.find_gpu_spec("NVIDIA L4"), "bf16")
gpulens.mfu(1e14, 1.0, precision="bf17", peak_flops=1e12)  # wrong: arg-type
gpulens.TrainingMonitor(precision="fp7")  # wrong: arg-type
with gpulens.experiment("a", tags={"team": "nlp"}) as run:
    run.log_metric("loss", 0.5)
    with run.nested("fold-1", {"fold": 1}, energy=False) as fold:
        fold.log_metrics({"loss": 0.25}, step=3)
    run.nested("fold-2", energi=False)  # wrong: call-arg
    run.end("failed", "diverged")
    run.end("crashed")  # wrong: arg-type
for found in gpulens.search_runs("a", status="done", metrics={"loss": (None, 0.5)}, order_by="-metrics.loss"):
    last: float = found.metrics["loss"].last
    values = found.history("loss").values
    best: float = min(values)
gpulens.search_runs(status="ended")  # wrong: arg-type
gpulens.export_otlp("http://127.0.0.1:4318", protocol="grpc")
gpulens.export_otlp(protocol="http")  # wrong: arg-type
page = gpulens.expose()
state: str = page.status()
stats: "Callable[..., object]" = gpulens.compat.openjarvis.compute_itl_stats
asyncio.run(main())
