"""Made queue_0_1_0: folders that version 0.1.0 left when it was killed while its receivers were away.

    cd tests/e2e && GPULENS_BIN=…/gpulens-0.1.0 ../../tools/venv_python.sh data/make_queue_0_1_0.py

The first requests of each sink were taken; what came then was answered with 503 until the agent was killed. `own` holds the agent's own
data for three sinks, `grpc` for otlp over gRPC, `received` what an OTLP receiver took in, of all signals.
"""
import concurrent.futures
import pathlib
import shutil
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import grpc  # noqa: E402
import otlp_receiver  # noqa: E402
import queue_files  # noqa: E402
import test_otlp_grpc  # noqa: E402
import test_otlp_in  # noqa: E402
from agent import Agent, free_port, wait_until  # noqa: E402
from http_stub import HttpStub  # noqa: E402

COMMON = "interval: 200ms, include: ['gpulens.tick.*'], retry: {initial: 50ms, max: 100ms}"


class Taking:
    """Answers with 200 so many times, and with 503 from then on."""

    def __init__(self, most):
        self.left = most

    def __call__(self, *_):
        self.left -= 1
        return (200 if self.left >= 0 else 503), {}, b""


def make(case, sinks, more="", act=None):
    with tempfile.TemporaryDirectory() as state:
        agent = Agent(config=f"interval: 200ms\nstate_dir: '{state}'\ncollectors: {{nvidia: {{enabled: false}}, host: {{enabled: false}}}}\n{more}sinks:\n"
                      + "".join(f"  {name}: {{{options}, {COMMON}}}\n" for name, options in sinks.items()))  # fmt: skip
        with agent:
            folders = {name: pathlib.Path(state, "queue", name) for name in sinks}
            if act:
                act()
            for name, folder in folders.items():
                wait_until(lambda folder=folder: folder.exists() and len(queue_files.waiting(folder)) >= 5 and queue_files.position(folder) > 1, 30, name)
            agent.process.send_signal(signal.SIGKILL)
            agent.process.wait()
            for name, folder in folders.items():
                target = HERE / "queue_0_1_0" / case / name
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(folder, target, ignore=shutil.ignore_patterns("lock"))
                print(case, name, [(record.number, record.kind, len(record.body)) for record in queue_files.waiting(target)])


def send(port):
    for number in range(3):
        log = otlp_receiver.ExportLogsServiceRequest()
        log.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=number + 1).body.string_value = f"log {number}"
        trace = otlp_receiver.ExportTraceServiceRequest()
        trace.resource_spans.add().scope_spans.add().spans.add(name=f"span {number}", trace_id=bytes(15) + b"1", span_id=b"12345678")
        for path, message in (("metrics", test_otlp_in.gauge("old", 2, {"number": str(number)})), ("logs", log), ("traces", trace)):
            assert test_otlp_in.post(port, f"/v1/{path}", message.SerializeToString()).status == 200


def main():
    with HttpStub(Taking(1)) as otlp, HttpStub(Taking(2)) as written, HttpStub(Taking(1)) as hook:
        make("own", {"otlp": f"endpoint: '{otlp.origin}'", "remote_write": f"url: '{written.origin}/w'", "webhook": f"url: '{hook.origin}/h'"})
    collector = test_otlp_grpc.Collector(lambda number: None if number < 3 else (grpc.StatusCode.UNAVAILABLE, "busy", None))
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[collector])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    make("grpc", {"otlp": f"endpoint: 'http://127.0.0.1:{port}', protocol: grpc"})
    server.stop(0).wait()
    receiver = free_port()
    with HttpStub(Taking(1)) as otlp:
        make("received", {"otlp": f"endpoint: '{otlp.origin}'"},
             f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{receiver}'}}, grpc: {{listen: []}}}}}}\n", lambda: send(receiver))  # fmt: skip


if __name__ == "__main__":
    main()
