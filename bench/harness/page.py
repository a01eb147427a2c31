"""The results as a page in Markdown and as a table for the terminal."""
from harness import proxy
from harness.budgets import BUDGETS
from harness.sdk import page as sdk
from harness.tables import number as _number
from harness.tables import table as _table

NAMES = {
    "BM_Encode": "gpulens, every number another one",
    "BM_Gzip": "gpulens, gzip of that page",
    "client_golang": "client_golang",
    "victoriametrics_metrics": "VictoriaMetrics/metrics",
    "prometheus_cpp": "prometheus-cpp",
    "BM_ParseSteady": "gpulens, steady, every number another one",
    "BM_ParseHundredthNew": "gpulens, 1 % of the lines new",
    "BM_ParseFirst": "gpulens, first scrape, series made",
    "victoriametrics": "VictoriaMetrics, rows of views",
    "textparse_labels": "Prometheus textparse, with labels",
    "Encode/gauges": "gpulens, numbers put into the last request",
    "Encode/counters": "gpulens, the same, sums with a start",
    "Encode/histograms": "gpulens, the same, histograms of 14 bounds",
    "Encode/gauges_fresh": "gpulens, without a kept request",
    "Encode/counters_fresh": "gpulens, the same, sums with a start",
    "pdata": "Go pdata, numbers set in a kept message",
    "pdata_built": "Go pdata, a new message each time",
}


def budget_rows(results, sections):
    rows = []
    for budget in BUDGETS:
        if budget.section not in sections:
            continue
        number, verdict = budget.verdict(results)
        sign = "≤" if budget.at_most else "≥"
        measured = "–" if number is None else f"{_number(number)} {budget.unit}".strip()
        detail = "" if number is None else budget.detail(results[budget.section]["found"])
        rows.append([budget.what, f"{sign} {budget.limit:g} {budget.unit}".strip(), measured, verdict, detail])
    return rows


def terminal(results):
    rows = [["", "budget", "measured", "verdict", ""]] + budget_rows(results, results)
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def _timings(found):
    rows = []
    for name, timing in found["timings"].items():
        if name.startswith("BM_TextPage"):
            continue
        note = timing.get("version", "")
        if "allocs" in timing:
            note += f" {_number(timing['allocs'])} allocations a call"
        if "packed" in timing:
            note += f" {_number(timing['bytes'] / timing['packed'])} × smaller"
        if "bytes_per_sample" in timing:
            note += f" {_number(timing['bytes_per_sample'])} B of memory a sample"
        rows.append([
            NAMES.get(name, name), _number(timing["best_s"] * 1e6), _number(timing["median_s"] * 1e6),
            _number(timing["wall_median_s"] * 1e6), _number(timing["bytes_per_s"] / 1e6),
            f"{timing['samples'] / timing['best_s'] / 1e6:.3g}", note.strip(),
        ])  # fmt: skip
    header = ["what", "CPU µs, best", "median", "wall µs, median", "MB/s, best", "M samples/s, best", ""]
    return _table(header, rows) + [""]


def _encoder_alone(found):
    rows = []
    for name, timing in found["timings"].items():
        if name.startswith("BM_TextPage"):
            rows.append([name, _number(timing["best_s"] * 1e6), _number(timing["median_s"] * 1e6), f"{timing['allocs']:.3g}"])
    if not rows:
        return []
    text = "5,000 gauges with five attributes; numbers 0: whole, 1: three decimals, 2: full length; format 0: text 0.0.4, 2: OpenMetrics."
    return [text, ""] + _table(["the encoder alone", "CPU µs, best", "median", "allocations"], rows) + [""]


def _loads(found):
    rows = []
    for name, load in sorted(found["loads"].items()):
        rows.append([
            name, _number(load["requests_per_s"]), _number(load["requests_per_s_median"]),
            _number(load["bytes_per_s"] / 1e6), f"{load['p50_us'] / 1000:.3f}", f"{load['p99_us'] / 1000:.3f}",
            f"{load['p99_us_median'] / 1000:.3f}", _number(load["server_cpu_us_median"]),
        ])  # fmt: skip
    header = ["", "requests/s, best", "median", "MB/s, best", "p50 ms, best", "p99 ms, best", "p99 ms, median", "server CPU µs a request"]
    return _table(header, rows) + [""]


def _agent(found):
    rows = []
    for name in ("host", "demo", "few", "scrape"):
        if name in found:
            part = found[name]
            rows.append([
                name, f"{part['pss_bytes'] / 1e6:.1f}", f"{part['pss_max_bytes'] / 1e6:.1f}", f"{part['cpu'] * 100:.2f}",
                str(part["processes"]), str(part["samples"]), f"{part['page_bytes'] / 1000:,.0f}",
            ])  # fmt: skip
    lines = _table(["", "PSS MB, median", "greatest", "CPU %", "processes", "samples", "page kB"], rows) if rows else []
    if "start" in found:
        start = found["start"]
        lines += ["", f"First good scrape after {start['median_s'] * 1000:.0f} ms (median of {start['runs']}; "
                      f"best {start['best_s'] * 1000:.0f} ms)."]  # fmt: skip
    return lines + [""]


def _gpus(found):
    rows, calls = [], []
    for name, part in found["agents"].items():
        quiet = part.get("quiet")
        both = lambda numbers, form: " + ".join(form.format(n) for n in numbers)  # noqa: E731
        rows.append([
            name, both((size / 1e6 for size in part["pss"]), "{:.1f}"),
            both((cpu * 100 for cpu in quiet["cpu"]), "{:.2f}") if quiet else "–",
            both((cpu * 100 for cpu in part["busy"]["cpu"]), "{:.2f}"), f"{part['samples']:,}",
            *[f"{part['pages'][kind]['bytes'] / 1000:,.0f}" for kind in ("plain", "gzip")],
            *[f"{part['pages'][kind]['best_s'] * 1000:.2f} ({part['pages'][kind]['median_s'] * 1000:.2f})" for kind in ("plain", "gzip")],
            both(part["threads"], "{}"), both(part["descriptors"], "{}"), f"{(quiet or part['busy'])['wakeups_per_s']:.0f}",
        ])  # fmt: skip
        if quiet:
            calls.append(f"{name}: {part['allocations_per_tick']:g} a tick (median of {part['ticks']}; {quiet['allocations'][0]} "
                         f"in all), {part['allocations_per_scrape']:.0f} a scrape; in the reader process, which holds the "
                         f"simulated library, {quiet['allocations'][1] / quiet['seconds']:.0f} a second")  # fmt: skip
    if not rows:
        return []
    header = ["", "PSS MB", "CPU %, no scrapes", "CPU %, scraped", "samples", "page kB", "gzip kB", "scrape ms, plain",
              "scrape ms, gzip", "threads", "descriptors", "wake-ups/s"]  # fmt: skip
    return _table(header, rows) + ["", "Heap allocations, counted before the C library's functions:", ""] + [f"- {line}" for line in calls] + [""]


def _targets(found):
    rows = []
    for name, part in found["agents"].items():
        tick = f"{part['tick_p99_s'] * 1000:.0f} ({part['tick_median_s'] * 1000:.0f})" if "tick_p99_s" in part else "–"
        rows.append([name, f"{part['cpu'] * 100:.1f}", f"{part['pss_bytes'] / 1e6:.1f}", f"{part['pss_max_bytes'] / 1e6:.1f}",
                     f"{part['pages_per_s']:.1f}", f"{part['samples']:,}", tick])  # fmt: skip
    return _table(["", "CPU %", "PSS MB, median", "greatest", "pages/s", "samples", "tick ms, p99 (median)"], rows) + [""]


def _receive(found):
    rows = []
    for name, loads in found["agents"].items():
        for load, part in loads.items():
            rows.append([name, load, f"{part['points_per_cpu_s'] / 1e6:.2f}", f"{part['points_per_cpu_s_median'] / 1e6:.2f}",
                         f"{part['points_per_s'] / 1e6:.2f}", f"{part['cpu']:.2f}", f"{part['idle'] / 1e6:.1f}", f"{part['pss_bytes'] / 1e6:.1f}",
                         f"{part['pss_max_bytes'] / 1e6:.1f}", f"{part['rss_max_bytes'] / 1e6:.1f}", str(part["failed"])])  # fmt: skip
    header = ["", "load", "M points per CPU second, best", "median", "M points/s", "cores", "PSS MB, idle", "in use, median", "greatest",
              "RSS MB, greatest", "refused"]  # fmt: skip
    return _table(header, rows) + [""]


SECTIONS = {
    "ticks": ("A steady tick", "Heap allocations of collectors, pipeline and encoders, counted by a test.",
              lambda found: [f"{found['allocations']:g} a tick.", ""]),
    "encode": ("Writing a page", "5,000 samples, 65 families, half with 5 labels and half with 8: bench/pages/make_pages.py, "
               "`series`. One thread, in memory. Peers are filled from the same page; Go runs with GOMAXPROCS=1, its "
               "garbage collection included.", lambda found: _timings(found) + _encoder_alone(found)),
    "parse": ("Reading a page", "About 10 MB as inference engines show them: `engine`. One thread, in memory. Peers read the "
              "same page again and again; ours reads two pages in turn.", _timings),
    "otlp": ("Writing OTLP", "5,000 points of 50 families, each with five attributes and every number another one, as protobuf. One "
             "thread, in memory, not packed. pdata, which the OpenTelemetry Collector is made of, has the same points; Go runs with "
             "GOMAXPROCS=1, its garbage collection included.", _timings),
    "http": ("Serving a page", "The page of `series` over kept-alive connections on the loopback, server on one core, client on "
             "another. *one*: one connection; *many*: 16. /metrics has a tick each second, as the agent closes them, and "
             "scrapes in between share its bytes; *fresh* renders (and packs) a page for every request. nginx serves the "
             "same bytes from files, gzip from a file packed before.", _loads),
    "agent": ("The agent", "All its processes, scraped once a second for 15 s after 5 s to settle. *host*: nothing but the "
              "machine; *demo*: 8 fake GPUs besides; *scrape*: the host and a target of 5,000 samples read each second; *few*: the same with 10 samples.", _agent),
    "gpus": ("Many GPUs, everything on", "Simulated H100 under a changing load, the last one divided by MIG, two processes a "
             "GPU; links, topology, details, samples, serial numbers, clock events, GPM, quality, health, events, host and "
             "self, at 1 s. *a + b*: agent and reader process, which runs the simulated library. Memory is of seconds in "
             "which one client requests gzip; a scrape is the best one, after a new tick, on a kept connection from Python "
             "(median in brackets). Peers open the same library with the same profile.", _gpus),
    "scrape": ("Many targets", "50 pages of vLLM's families, some 4,100 samples each, read once a second for 60 s after 10 s to "
               "settle; in every other answer every number that is not 0 is another one. One program after the other. What is "
               "read goes nowhere: no client scrapes the agent meanwhile, vmagent drops samples by a relabelling rule, the collector "
               "has the exporter `nop`. The ticks are of 30 s after that, in which one client takes the whole page each second.",
               _targets),
    "receive": ("Receiving OTLP", "Requests of gauges with six attributes, 218 bytes a point, encoded once and not packed, over four connections "
                "with one call in flight each, as protobuf; 8 s after 2 s to settle, three rounds in turn. Client and receiver share the "
                "cores, so CPU time counts, not what a second brought. Both receivers drop what they have read: gpulens has looked it "
                "through, put in the attributes of this machine and made batches of 1,000 for the sink `do_nothing`; the Collector has "
                "decoded it for the exporter `nop`.", _receive),
}  # fmt: skip


PAGES = {"README.md": ("Performance", SECTIONS), "sdk.md": ("Performance of the SDK", sdk.SECTIONS),
         "proxies.md": ("Performance of the proxy next to others", proxy.SECTIONS)}


def markdown(name, results, machine, reasons):
    """The page of this name, of PAGES."""
    title, sections = PAGES[name]
    results = {section: result for section, result in results.items() if section in sections}
    others = ", ".join(f"[{other}]({other})" for other in PAGES if other != name)
    lines = [
        f"# {title}",
        "",
        f"Written by `./dev bench`; numbers are from the machine and time named here, next to peers measured in the same run. The other page: {others}.",
        "",
        "The machine was shared while this ran: **the best of the runs is the property of the code, the median is what the",
        "machine gave.** Codecs are compared by CPU time of the best run. Only ratios, counts and sizes are gates",
        "(`python3 tools/bench.py --check`); a time depends on the machine as much as on the program.",
        "",
        *[f"- {name}: {value}" for name, value in machine.items()],
        "",
        "## Budgets",
        "",
        *_table(["what", "budget", "measured", "verdict", "found"], budget_rows(results, sections)),
        "",
    ]
    lines += _why(results, reasons)
    absent = {f"{section}: {name}": reason for section, result in results.items() for name, reason in result["found"]["absent"].items()}
    if absent or set(sections) - set(results):
        lines += ["**This page is incomplete.** What was not measured, and why:", ""]
        lines += [f"- {name}: {reason}" for name, reason in absent.items()]
        lines += [f"- {name}: not requested in any run here" for name in sections if name not in results] + [""]
    for section, (title, text, show) in sections.items():
        if section in results:
            lines += [f"## {title}", "", text, "", f"Measured {results[section]['when']}{_load(results[section])}.", ""]
            found = results[section]["found"]
            lines += show(found) if set(found) - {"absent"} else []
    return "\n".join(lines).rstrip() + "\n"


def _load(result):
    """The load of the machine, where it was recorded."""
    if "load" not in result:
        return ""
    load, cores = result["load"], result["cores"]
    busy = ", **a busy machine**: times are too long, ratios of what took turns hold" if load > cores + 0.5 else ""
    return f" on {cores} shared cores, load average {load:.1f}{busy}"


def _why(results, reasons):
    lines = []
    for budget in BUDGETS:
        number, verdict = budget.verdict(results)
        if number is not None and not budget.met(number):
            lines.append(f"- {budget.what}: {verdict}. {reasons.get(budget.key, 'Why is not known yet.')}")
    return ["Missed, and why:", "", *lines, ""] if lines else []
