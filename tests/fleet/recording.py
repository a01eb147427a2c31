"""Records what `gpulens agent` sends with the configuration of docs/fleet.md, for fleet_load to send it as many nodes.

    python3 recording.py FOLDER SECONDS [STREAM…]

Each stream has an agent of its own: a simulated node (training_node.yaml or serving_node.yaml), and one sink. FOLDER/STREAM gets the
bodies of requests as they came, and `frames`: a line "FRAME FILE ENCODING ITEMS SAMPLES" for each (snappy1: remote write 1.0). What was sent within half an interval
is one frame. SAMPLES is how many a store of Prometheus' kind gets of it by remote write: of OTLP, with a sample for each bucket.
FOLDER/pages/NNN are scraped pages.
"""
import contextlib
import pathlib
import re
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from agent import ROOT, Agent  # noqa: E402
from http_stub import HttpStub  # noqa: E402
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest  # noqa: E402
from otlp_tap import unpacked  # noqa: E402
from remote_write_receiver import SECOND, decode_first, decode_second, unsnappy  # noqa: E402

TEXT = (ROOT / "docs" / "fleet.md").read_text()
NO_VALUE = 1  # the flag of a point


def documented(name):
    """The configuration file of that name in docs/fleet.md."""
    found = re.search(rf"```yaml\n# {re.escape(name)}\b.*?\n(.*?)```", TEXT, re.S)
    assert found, f"docs/fleet.md has no {name}"
    return found[1]


def changed(config, level, interval):
    config = re.sub(r"(?m)^metrics: \w+", f"metrics: {level}", config)
    return re.sub(r"(?m)^( +)interval: \d+s", rf"\g<1>interval: {interval}s", config)


# (node, file of docs/fleet.md, level, seconds between two frames)
STREAMS = {
    "otlp-standard": ("training", "agent-otlp.yaml", "standard", 60),
    "otlp-15s": ("training", "agent-otlp.yaml", "standard", 15),
    "otlp-essential": ("training", "agent-otlp.yaml", "essential", 60),
    "otlp-all": ("training", "agent-otlp.yaml", "all", 60),
    "otlp-serving": ("serving", "agent-otlp.yaml", "standard", 60),
    "rw-standard": ("training", "agent.yaml", "standard", 15),
    "rw-essential": ("training", "agent.yaml", "essential", 15),
    "rw-all": ("training", "agent.yaml", "all", 15),
    "rw-serving": ("serving", "agent.yaml", "standard", 15),
    "rw1-standard": ("training", "agent.yaml", "standard", 15),
    "rw-rollups": ("training", "agent-rollups.yaml", "standard", 60),
}


def samples_of(metric):
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        if point.flags & NO_VALUE:
            continue
        if kind == "histogram":
            yield len(point.explicit_bounds) + 3  # the last bucket, sum and count
        elif kind == "summary":
            yield len(point.quantile_values) + 2
        else:
            yield 1


def count_otlp(body, encoding):
    """(points, samples); `target_info` is not counted, since the translation makes another one of each request."""
    metrics = [metric for resource in ExportMetricsServiceRequest.FromString(unpacked(body, encoding)).resource_metrics
               for scope in resource.scope_metrics for metric in scope.metrics]
    return (sum(len(getattr(metric, metric.WhichOneof("data")).data_points) for metric in metrics),
            sum(sum(samples_of(metric)) for metric in metrics if metric.name != "target.info"))


class Recorder(HttpStub):
    """Takes OTLP and remote write; `requests` has (seconds, encoding, points, samples, body) of each that has metrics."""

    def __init__(self):
        self.requests = []
        super().__init__(self._take, protocol="HTTP/1.1")

    def _take(self, request, body):
        if request.path == "/v1/metrics":
            encoding = request.headers.get("Content-Encoding", "none")
            self.requests.append((time.monotonic(), encoding, *count_otlp(body, encoding), body))
            return 200, {"Content-Type": "application/x-protobuf"}, b""
        if request.path != "/api/v1/write":
            return 200, {"Content-Type": "application/x-protobuf"}, b""  # events
        second = request.headers["Content-Type"] == SECOND
        samples = list((decode_second if second else decode_first)(unsnappy(body)))
        self.requests.append((time.monotonic(), "snappy" if second else "snappy1", len(samples), sum(not one.ended for one in samples), body))
        return 204, {"X-Prometheus-Remote-Write-Samples-Written": str(len(samples))}, b""


def local(config, ports):
    """The documented configuration with gateways on this machine, without TLS and passwords, and with the mark for the node's name."""
    for number, port in enumerate(ports):
        config = re.sub(rf"https://gateway-{number}\.example\.org:\d+", f"http://127.0.0.1:{port}", config)
    assert "example.org" not in config, config
    config = re.sub(r"(?m)^ +transport: .*\n", "", config)
    return config.replace("resource: {", "resource: {attributes: {host.name: gpu-n00000}, ", 1)


@contextlib.contextmanager
def recording_agent(stream):
    node, file, level, interval = STREAMS[stream]
    with Recorder() as first, Recorder() as second:
        config = local(changed(documented(file), level, interval), (first.port, second.port))
        if stream.startswith("rw1"):
            config = config.replace("remote_write:\n", "remote_write:\n    protocol: '1.0'\n")
        config += "control: {socket: none}\ncollectors: {programs: {enabled: false}}\n"
        with Agent("--demo", "--scenario", str(HERE / f"{node}_node.yaml"), config=config) as agent:
            yield agent, first, second, interval


def frames_of(requests, interval):
    """Requests by frame."""
    frames = []
    for request in sorted(requests, key=lambda one: one[0]):
        if not frames or request[0] - frames[-1][-1][0] > interval / 2:
            frames.append([])
        frames[-1].append(request)
    return frames


def save(folder, frames):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for number, frame in enumerate(frames):
        for part, (_, encoding, points, samples, body) in enumerate(frame):
            name = f"{number:03d}-{part}"
            (folder / name).write_bytes(body)
            lines.append(f"{number} {name} {encoding} {points} {samples}\n")
    (folder / "frames").write_text("".join(lines))


def record(folder, seconds, names=tuple(STREAMS), pages=True):
    """Writes the streams of these names, without their first frame: rates need two readings."""
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(recording_agent(name)) for name in names}
        end, seen = time.monotonic() + seconds, []
        while time.monotonic() < end:
            time.sleep(min(15, max(0, end - time.monotonic())))
            seen += [running["rw-standard"][0].page()] if pages and "rw-standard" in running else []
        for name, (_, first, second, interval) in running.items():
            save(folder / name, frames_of(first.requests + second.requests, interval)[1:])
    if seen:
        shutil.rmtree(folder / "pages", ignore_errors=True)
        (folder / "pages").mkdir()
        for number, page in enumerate(seen):
            (folder / "pages" / f"{number:03d}").write_text(page)


def frames(folder, stream):
    """[(requests, bytes as sent, points, samples)] of each frame."""
    found = {}
    for line in (folder / stream / "frames").read_text().splitlines():
        number, file, _, points, samples = line.split()
        one = found.setdefault(int(number), [0, 0, 0, 0])
        one[0] += 1
        one[1] += (folder / stream / file).stat().st_size
        one[2] += int(points)
        one[3] += int(samples)
    return [tuple(found[number]) for number in sorted(found)]


if __name__ == "__main__":
    where, names = pathlib.Path(sys.argv[1]), sys.argv[3:] or STREAMS
    record(where, float(sys.argv[2]), names)
    for name in names:
        print(name, frames(where, name)[-1])
