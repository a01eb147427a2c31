"""Section `proxy`: `gpulens proxy`, metering, and other proxies before one scripted provider. Each proxy serves with one thread or process on one
core, provider and client share another. Rounds in turn, so that all meet the same neighbours; medians are kept."""
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

from harness import gateways, measure, scrapes
from harness.budget import Budget
from harness.measure import Absent, RELEASE, WORK
from harness.tables import number, table

ROUNDS = int(os.environ.get("GPULENS_BENCH_ROUNDS", "3"))
EVENTS, EVERY_US = 64, 10_000
PLAIN, STREAMS, IDLE = 64, 512, 10_000  # connections with one request in flight each
PLAIN_OF_SLOW, STREAMS_OF_SLOW, IDLE_OF_SLOW = 16, 32, 500
PLAIN_MS, STREAMS_MS, HALF_MS = 2000, 3000, 4000
WARM_MS, WARM_OF_SLOW_MS = 500, 5000  # LiteLLM takes seconds for its first answers
SLOW = ("LiteLLM", "LiteLLM, messages", "LiteLLM, messages, Rust core", "Portkey")
KEYS = 10_000


def body_of(kind):
    text = "HOLD" if kind == "idle" else "the question "
    body = {"model": "gpt-4o-mini", "messages": [{"role": "system", "content": "You answer in few words. " * 16},
                                                 {"role": "user", "content": text + "of someone who wants to know " * 10}],
            "temperature": 0.2, "max_tokens": 200}  # fmt: skip
    return body if kind == "plain" else body | {"stream": True}


def message_of(kind):
    body = body_of(kind)
    return {"model": "claude-sonnet-4-5", "max_tokens": 200, "messages": body["messages"][1:], **({"stream": True} if "stream" in body else {})}


def request_of(kind, headers, messages=False):
    body = json.dumps(message_of(kind) if messages else body_of(kind), separators=(",", ":"))
    lines = [f"POST /v1/{'messages' if messages else 'chat/completions'} HTTP/1.1", "Host: 127.0.0.1", "Accept: application/json",
             "Content-Type: application/json", "User-Agent: OpenAI/Python 2.9.0", *headers, *["anthropic-version: 2023-06-01"] * messages,
             f"Content-Length: {len(body)}"]  # fmt: skip
    return "\r\n".join(lines) + "\r\n\r\n" + body


def on_the_other_core():
    os.sched_setaffinity(0, scrapes.cores()[1])


class Case:
    """One proxy under the loads; `port` alone is the provider itself."""

    def __init__(self, folder, port, gateway=None, messages=False):
        self.folder, self.port, self.gateway, self.messages = folder, port, gateway, messages

    def command(self, kind, connections, milliseconds, rate):
        headers = self.gateway.headers if self.gateway and self.gateway.headers else ["Authorization: Bearer " + "k" * 52]
        file = pathlib.Path(self.folder, f"request.{kind}")
        file.write_text(request_of(kind, headers, self.messages), encoding="utf-8")
        keys = [self.gateway.keys] if self.gateway and self.gateway.keys else []
        return [str(part) for part in (RELEASE / "llm_load", self.port, connections, milliseconds, rate, file, *keys)]

    def load(self, kind, connections, milliseconds, rate=0):
        before = self.gateway.cpu_seconds() if self.gateway else 0
        found = json.loads(measure.output_of(self.command(kind, connections, milliseconds, rate), preexec_fn=on_the_other_core))
        if not found["answers"]:
            raise Absent(f"no answer to {kind} requests")
        if self.gateway:
            found["cpu_us"] = (self.gateway.cpu_seconds() - before) * 1e6 / found["answers"]
        return found

    def idle_bytes(self, streams):
        """Memory of one stream that has got its first event."""
        self.load("plain", 8, WARM_OF_SLOW_MS if streams == IDLE_OF_SLOW else WARM_MS)
        before = self.gateway.rss_bytes()
        held = subprocess.Popen(self.command("idle", streams, 0, 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if not held.stdout.readline():
                raise Absent(f"{streams} idle streams: {held.stderr.read().strip()}")
            return (self.gateway.rss_bytes() - before) / streams
        finally:
            held.kill()
            held.communicate()


def first_line(reason):
    return str(reason).strip().split("\n")[0].strip()


def idle_streams(name):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return IDLE_OF_SLOW if name in SLOW else min(IDLE, (limit - 1000) // 2)


def cases():
    """Name → (function that starts it, whether it gets Anthropic's messages)."""
    return {
        "nginx": (gateways.nginx, False),
        "gpulens proxy": (gateways.ours, False),
        "gpulens proxy, 10,000 keys": (lambda upstream, folder: gateways.ours(upstream, folder, KEYS), False),
        "HAProxy": (gateways.haproxy, False),
        "Envoy": (gateways.envoy, False),
        "Portkey": (gateways.portkey, False),
        "LiteLLM": (gateways.litellm, False),
        "LiteLLM, messages": (gateways.litellm, True),
        "LiteLLM, messages, Rust core": (lambda upstream, folder: gateways.litellm(upstream, folder, rust=True), True),
    }


@contextlib.contextmanager
def provider():
    """The port of a scripted provider."""
    program = RELEASE / "llm_upstream"
    if not program.exists():
        raise Absent("llm_upstream is not built")
    process = subprocess.Popen([program, str(EVENTS), str(EVERY_US)], stdout=subprocess.PIPE, text=True, preexec_fn=on_the_other_core)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def half_load(case, streams):
    """At half of the rate that `streams` brought: time to the first byte through the proxy and, at that rate, to the provider itself."""
    rate = max(round(streams["answers"] / streams["seconds"] / 2), 1)
    direct = Case(case.folder, case.direct, None, case.messages).load("stream", STREAMS, HALF_MS, rate)
    found = case.load("stream", STREAMS, HALF_MS, rate)
    return {"rate": rate, "late": found["late"],
            **{f"added_{q}_us": found[f"first_{q}_us"] - direct[f"first_{q}_us"] for q in ("p50", "p99")}}  # fmt: skip


def round_of(name, start, messages, upstream, absent):
    """The numbers of one round; a load that fails is absent, the others count."""
    found, slow = {}, name in SLOW
    plain, streams, times = (PLAIN_OF_SLOW, STREAMS_OF_SLOW, 2) if slow else (PLAIN, STREAMS, 1)
    with tempfile.TemporaryDirectory(dir=WORK, prefix="proxy-") as folder:
        gateway = start(upstream, folder)
        found["version"] = gateway.version
        try:
            case = Case(folder, gateway.port, gateway, messages)
            case.direct = upstream
            for part, run in (
                ("plain", lambda: case.load("plain", plain, WARM_OF_SLOW_MS if slow else WARM_MS) and case.load("plain", plain, times * PLAIN_MS)),
                ("stream", lambda: case.load("stream", streams, times * STREAMS_MS)),
                ("half", lambda: half_load(case, found["stream"])),
            ):
                try:
                    found[part] = run()
                except (Absent, KeyError) as reason:
                    absent.setdefault(f"{name}, {part}", first_line(reason))
        finally:
            gateway.stop()
    # A process that has served little: what it has freed would be counted for the streams.
    with tempfile.TemporaryDirectory(dir=WORK, prefix="proxy-") as folder:
        gateway = start(upstream, folder)
        try:
            found["idle_bytes"] = Case(folder, gateway.port, gateway, messages).idle_bytes(idle_streams(name))
        except Absent as reason:
            absent.setdefault(f"{name}, idle streams", first_line(reason))
        finally:
            gateway.stop()
    return found


def median_of(rounds):
    """The rounds' medians, number by number."""
    medians = {}
    for part in ("plain", "stream", "half"):
        of_part = [one[part] for one in rounds if part in one]
        if of_part:
            medians[part] = {key: statistics.median(one[key] for one in of_part) for key in of_part[0]}
    sizes = [one["idle_bytes"] for one in rounds if "idle_bytes" in one]
    if sizes:
        medians["idle_bytes"] = statistics.median(sizes)
    return medians | {"version": rounds[0]["version"], "rounds": len(rounds)}


def journal(absent):
    """p50 and p99 of a settlement, from the benchmark of the journal: the median of 1, 64 and 10,000 open streams, with `sync: interval`."""
    try:
        text = measure.output_of([RELEASE / "proxy_journal_bench", "--benchmark_filter=SettleLatency.*sync:1", "--benchmark_format=json"])
        runs = [run for run in json.loads(text)["benchmarks"] if "p50_us" in run]
        return {key: statistics.median(run[key] for run in runs) for key in ("p50_us", "p99_us")}
    except (Absent, statistics.StatisticsError) as reason:
        absent["journal"] = str(reason)
        return {}


def proxy():
    rounds, absent = {}, {}
    with provider() as upstream:
        for _ in range(ROUNDS):
            for name, (start, messages) in cases().items():
                if name in absent:
                    continue
                try:
                    rounds.setdefault(name, []).append(round_of(name, start, messages, upstream, absent))
                except (Absent, OSError) as reason:
                    absent[name] = first_line(reason)
    return {"idle_streams": idle_streams("gpulens proxy"), "proxies": {name: median_of(found) for name, found in rounds.items() if found}, "journal": journal(absent), "absent": absent}


def _cpu(kind):
    return lambda part: 1e6 / part[kind]["cpu_us"]


def _against_nginx(kind):
    return lambda found: _cpu(kind)(found["proxies"]["gpulens proxy"]) / _cpu(kind)(found["proxies"]["nginx"])


def _against_text(kind):
    def text(found):
        ours, theirs = (_cpu(kind)(found["proxies"][name]) for name in ("gpulens proxy", "nginx"))
        return f"{ours:,.0f} against {theirs:,.0f} a CPU second"

    return text


BUDGETS = (
    Budget("proxy_plain", "proxy", "a metering proxy: plain requests a CPU second against nginx", 0.9, False, "×", True,
           _against_nginx("plain"), _against_text("plain")),
    Budget("proxy_stream", "proxy", "… streams of 64 events", 0.9, False, "×", True, _against_nginx("stream"), _against_text("stream")),
    Budget("proxy_ttft", "proxy", "… added to the time to first byte at half load, p99", 1, True, "ms", False,
           lambda found: found["proxies"]["gpulens proxy"]["half"]["added_p99_us"] / 1000,
           lambda found: f"p50 {found['proxies']['gpulens proxy']['half']['added_p50_us'] / 1000:.2f} ms"),
    Budget("proxy_stream_memory", "proxy", "… memory of an idle stream", 20, True, "KiB", True,
           lambda found: found["proxies"]["gpulens proxy"]["idle_bytes"] / 1024, lambda found: f"{found['idle_streams']:,} streams"),
    Budget("proxy_journal", "proxy", "… a settlement in the journal, p50", 50, True, "µs", False,
           lambda found: found["journal"]["p50_us"], lambda found: f"p99 {found['journal']['p99_us']:.0f} µs"),
)  # fmt: skip


def show(found):
    """The section's tables."""
    rows = []
    for name, part in found["proxies"].items():
        plain, stream, half = part.get("plain"), part.get("stream"), part.get("half")
        rows.append([
            f"{name} {part['version']}", *[number(1e6 / one["cpu_us"]) if one and one["cpu_us"] else "–" for one in (plain, stream)],
            *[number(one["cpu_us"]) if one else "–" for one in (plain, stream)],
            *[f"{half[f'added_{q}_us'] / 1000:.2f}" if half else "–" for q in ("p50", "p99")], f"{half['rate']:.0f}" if half else "–",
            f"{part['idle_bytes'] / 1024:.1f}" if "idle_bytes" in part else "–",
        ])  # fmt: skip
    header = ["", "plain requests a CPU second", "streams a CPU second", "CPU µs, plain", "stream", "added TTFT ms at half load, p50", "p99",
              "streams a second then", "KiB an idle stream"]  # fmt: skip
    lines = table(header, rows) + [""]
    if found["journal"]:
        lines += [f"A settlement in the journal: p50 {found['journal']['p50_us']:.0f} µs, p99 {found['journal']['p99_us']:.0f} µs.", ""]
    return lines


SECTIONS = {
    "proxy": ("Next to other proxies", f"{ROUNDS} rounds in turn, medians. Chat completions of 1 KB by a scripted provider, or {EVENTS} events, {EVERY_US / 1000:g} ms "
              f"apart. {PLAIN} plain requests or {STREAMS} streams at once ({PLAIN_OF_SLOW} and {STREAMS_OF_SLOW} with LiteLLM and Portkey), one core for the "
              "proxy, the other for provider and client. CPU is that of all processes of the proxy. Added TTFT: quantile through the proxy less that of the "
              "provider itself, at half of the streams a second of the column before. Memory: RSS of so many streams with one event, less that before, "
              f"by their number (500 with LiteLLM and Portkey). gpulens meters with a hard budget, one key or {KEYS:,}, journal and charges in a file; nginx, "
              "HAProxy and Envoy meter nothing. LiteLLM's Rust core serves Anthropic's messages alone (LITELLM_RUST=true), so these are compared "
              "without it, too.", show),
}  # fmt: skip
