"""A training loop that waits for a loader, which sleeps; prints what the loop waited, measured inside.

    data_loader.py MODE BATCHES LOAD_MS STEP_MS    MODE: queue (a process over a pipe), pin (a thread)

Every tenth batch a checkpoint is written: fsync, and a pause. A line on stdin begins it; "waited SUM_NS LONGEST_NS SHORT_NS" is
printed: waits of at least 1 ms, and the sum of the shorter ones.
"""
import ctypes
import multiprocessing
import os
import queue
import sys
import tempfile
import threading
import time

PR_SET_NAME = 15
libc = ctypes.CDLL(None, use_errno=True)


def name(text):
    libc.prctl(PR_SET_NAME, text.encode(), 0, 0, 0)


def load(out, batches, seconds, text):
    name(text)
    for batch in range(batches):
        time.sleep(seconds)
        out.put(bytes([batch % 256]) * 10_000)


def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def checkpoint():
    with tempfile.NamedTemporaryFile(dir=os.environ.get("CHECKPOINTS")) as file:
        file.write(b"x" * 1_000_000)
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.03)


def main(mode, batches, load_ms, step_ms):
    batches, load_s, step_s = int(batches), int(load_ms) / 1e3, int(step_ms) / 1e3
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    if mode == "queue":
        out = multiprocessing.Queue(2)
        worker = multiprocessing.Process(target=load, args=(out, batches, load_s, "pt_data_worker"), daemon=True)
    else:
        out = queue.Queue(2)
        worker = threading.Thread(target=load, args=(out, batches, load_s, "pt_data_pin"), daemon=True)
    worker.start()
    total = longest = short = 0
    for batch in range(batches):
        begin = time.monotonic_ns()
        out.get()
        took = time.monotonic_ns() - begin
        if took >= 1_000_000:
            total += took
        else:
            short += took
        longest = max(longest, took)
        busy(step_s)
        if batch % 10 == 9:
            checkpoint()
    worker.join()
    print("waited", total, longest, short, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
