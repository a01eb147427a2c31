#!/usr/bin/env python3
"""Measures how long it takes from a built checkout to the first right number on the screen.

    tools/first_number.py                 runs ./dev run --demo, waits for the address that it prints, and reads the page there
    tools/first_number.py PROGRAM         the same with PROGRAM agent --demo

The number is the power of GPU 0 in the page and in /api/now, compared with /metrics of the same tick. Exit 1 when it does not come within 60 s.
"""
import html
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_S = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def power_on(page):
    """Watts of GPU 0 by /metrics; None before the first reading."""
    found = re.search(r'^gpu_power_draw_watts\{[^}]*gpu_index="0"[^}]*\} ([0-9.]+)', page, re.M)
    return float(found[1]) if found else None


def power_now(page):
    """The same by /api/now."""
    now = json.loads(page)
    ids = [one["id"] for one in now["series"] if one["name"] == "gpu.power.draw" and str(one["attributes"].get("gpu.index")) == "0"]
    values = dict(zip(now["v"][::2], now["v"][1::2]))
    return values.get(ids[0]) if ids else None


def right_number(address):
    """Watts that the page shows, where /api/now and /metrics before and after it agree; None otherwise."""
    before, now, page, after = get(address + "metrics"), get(address + "api/now"), get(address), get(address + "metrics")
    watts = power_on(before)
    if watts is None or power_on(after) != watts or power_now(now) is None or abs(power_now(now) - watts) > 0.05:
        return None
    shown = [float(text.replace(",", "")) for text in re.findall(r"([0-9][0-9,.]*)\s*W\b", html.unescape(re.sub(r"<[^>]*>", " ", page)))]
    return watts if any(abs(one - watts) <= 0.5 for one in shown) else None


def main():
    with tempfile.TemporaryDirectory(prefix="gpulens-first-") as folder:
        listen = ["--http-listen", f"127.0.0.1:{free_port()}", "--ws-listen", f"127.0.0.1:{free_port()}"]
        command = [sys.argv[1], "agent", "--demo", *listen] if len(sys.argv) > 1 else [str(ROOT / "dev"), "run", "--demo", "--no-install", "--", *listen]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")}
        environment.update(HOME=folder, STATE_DIRECTORY=folder, GPULENS_CONTROL_SOCKET=folder + "/agent.sock", GPULENS_DISCOVERY_LOCAL_ENABLED="false")
        begin = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        lines, address = [], []

        def follow():
            for line in process.stdout:
                lines.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                    address.append((found[0], time.monotonic() - begin))

        threading.Thread(target=follow, daemon=True).start()
        watts = None
        try:
            while watts is None and time.monotonic() - begin < MOST_S and process.poll() is None:
                time.sleep(0.05)
                if address:
                    try:
                        watts = right_number(address[0][0])
                    except (urllib.error.URLError, OSError):
                        continue
            took = time.monotonic() - begin
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(20)
        if watts is None:
            sys.exit(f"no right number within {MOST_S} s; the last lines:\n" + "".join(lines[-10:]))
        print(f"{address[0][1]:.2f} s to the address, {took:.2f} s to GPU 0's {watts:.1f} W on the page, in /api/now and in /metrics")


if __name__ == "__main__":
    main()
