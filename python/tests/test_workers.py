"""gpulens.share_with_workers: the page of a server with several processes, without gunicorn and uvicorn (servers_workers.py)."""
import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import gpulens

# What each script begins with.
BEGIN = """
import multiprocessing, os, signal, sys, threading, time
import gpulens

requests = gpulens.Counter("requests")
seconds = gpulens.Histogram("request.duration", unit="s")

def worker(body):
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    return pid

def count(n):
    for i in range(n):
        requests.add(1, {"route": "/chat"})
        seconds.record(0.001 * (1 + i % 50))

def total(page):
    return [int(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith("requests_total{")]
"""


def run(body, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GPULENS_", "OTEL_"))}
    done = subprocess.run([sys.executable, "-c", BEGIN + textwrap.dedent(body)], capture_output=True, text=True, timeout=120,
                          env={**clean, **environment}, check=False)
    if done.returncode:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@unittest.skipUnless(hasattr(os, "fork"), "no fork here")
class Workers(unittest.TestCase):
    def test_each_of_four_workers_has_the_page_of_all(self):
        out = run("""
            gpulens.share_with_workers()
            counted, ask = multiprocessing.Semaphore(0), multiprocessing.Semaphore(0)
            pages = multiprocessing.Queue()
            def body():
                threads = [threading.Thread(target=count, args=(250,)) for _ in range(4)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                counted.release()
                ask.acquire()
                pages.put(gpulens.to_prometheus())
                pages.close(); pages.join_thread()
            pids = [worker(body) for _ in range(4)]
            for _ in pids: counted.acquire()
            for _ in pids: ask.release()
            texts = {pages.get(timeout=30) for _ in pids}
            for pid in pids: os.waitpid(pid, 0)
            texts.add(gpulens.to_prometheus())
            print(len(texts), *map(total, texts))
            print(*[line for line in texts.pop().splitlines() if "_count" in line])
        """)
        self.assertEqual(out, "1 [4000]\nrequest_duration_seconds_count 4000\n")

    def test_a_killed_worker_is_counted_once(self):
        out = run("""
            gpulens.share_with_workers()
            counted = multiprocessing.Semaphore(0)
            def body():
                count(1000)
                counted.release()
                time.sleep(60)
            killed, other = worker(body), worker(body)
            counted.acquire(), counted.acquire()
            os.kill(killed, signal.SIGKILL)
            os.waitpid(killed, 0)
            print(total(gpulens.to_prometheus()))
            for _ in range(30):  # others come and go, and its counts are moved
                os.waitpid(worker(lambda: count(1)), 0)
            print(total(gpulens.to_prometheus()))
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)
            print(total(gpulens.to_prometheus()))
        """)
        self.assertEqual(out, "[2000]\n[2030]\n[2030]\n")

    def test_many_recycled_workers_take_little_space(self):
        with tempfile.TemporaryDirectory() as folder:
            out = run("""
                gpulens.share_with_workers(os.environ["FOLDER"])
                before = 0
                for i in range(200):
                    os.waitpid(worker(lambda: count(3)), 0)
                    if i % 20 == 0:
                        now = total(gpulens.to_prometheus())
                        assert now == [3 * (i + 1)], now
                print(total(gpulens.to_prometheus()))
            """, FOLDER=folder)
            self.assertEqual(out, "[600]\n")
            used = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
            self.assertLess(used, 3 << 20)
            self.assertLess(len(list(pathlib.Path(folder).iterdir())), 16)
            # And a server that is started again with that folder goes on from there.
            again = run("""
                count(1)
                print(total(gpulens.to_prometheus()))
            """, GPULENS_WORKERS_DIR=folder)
            self.assertEqual(again, "[601]\n")

    def test_scrapes_never_fall_while_workers_come_and_go(self):
        out = run("""
            gpulens.share_with_workers()
            joules = gpulens.DoubleCounter("joules")
            def body():
                for _ in range(200):
                    count(5)
                    joules.add(0.1)
                os.kill(os.getpid(), signal.SIGKILL)
            running = [worker(body) for _ in range(4)]
            started, highest, rounds = 4, [0, 0.0, 0], 0
            while running:
                page = gpulens.to_prometheus()
                now = [0, 0.0, 0]
                for line in page.splitlines():
                    for i, name in enumerate(("requests_total{", "joules_total ", "request_duration_seconds_count ")):
                        if line.startswith(name): now[i] = float(line.rpartition(" ")[2])
                assert all(a >= b for a, b in zip(now, highest)), (now, highest)
                highest, rounds = now, rounds + 1
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid:
                    running.remove(pid)
                    if started < 40:
                        running.append(worker(body)); started += 1
            page = gpulens.to_prometheus()
            print(total(page), started, *[round(float(line.rpartition(" ")[2]), 6) for line in page.splitlines() if line.startswith("joules_total ")])
        """)
        self.assertEqual(out, "[40000] 40 800.0\n")

    def test_spawned_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "spawned.py")
            module.write_text(textwrap.dedent("""
                import gpulens, multiprocessing

                def body(n):
                    gpulens.share_with_workers()
                    gpulens.Counter("requests").add(n)
                    return gpulens.to_prometheus()

                if __name__ == "__main__":
                    import sys
                    if "--parent" in sys.argv:
                        body(10)
                    context = multiprocessing.get_context("spawn")
                    for n in (1, 2, 4):
                        with context.Pool(1) as pool:
                            page = pool.apply(body, (n,))
                    print(page.splitlines()[-1])
            """))
            for words, sum_of_all in (([], 7), (["--parent"], 17)):
                done = subprocess.run([sys.executable, module, *words], capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.stdout, f"requests_total {sum_of_all}\n", done.stderr)

    def test_servers_of_one_machine_are_apart(self):
        out = [run("""
            gpulens.share_with_workers()
            os.waitpid(worker(lambda: count(5)), 0)
            print(total(gpulens.to_prometheus()))
        """) for _ in range(2)]
        self.assertEqual(out, ["[5]\n", "[5]\n"])

    def test_expose_is_served_by_another_worker_after_the_first(self):
        out = run("""
            import urllib.request
            def get(address):
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                until = time.monotonic() + 20
                while True:
                    try:
                        return opener.open(address, timeout=20).read().decode()
                    except OSError:
                        assert time.monotonic() < until
                        time.sleep(0.02)
            address, ready = multiprocessing.Queue(), multiprocessing.Semaphore(0)
            def body():
                page = gpulens.expose("127.0.0.1:0", workers=True)  # in each worker, as without preload
                count(10)
                address.put(page.address)
                time.sleep(60)
            first = worker(body)
            at = address.get(timeout=30)
            second = worker(body)
            assert address.get(timeout=30) == at
            print(total(get(at)))
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            print(total(get(at)))
            os.kill(second, signal.SIGKILL)
        """)
        self.assertEqual(out, "[20]\n[20]\n")

    def test_gauges(self):
        out = run("""
            gpulens.share_with_workers()
            each = gpulens.Gauge("each")
            sums = gpulens.Gauge("sum", workers="sum")
            most = gpulens.Gauge("max", workers="max")
            last = gpulens.Gauge("last", workers="latest")
            flight = gpulens.UpDownCounter("in.flight")
            ready, done = multiprocessing.Semaphore(0), multiprocessing.Semaphore(0)
            def body(n):
                for gauge in (each, sums, most, last): gauge.set(n)
                flight.add(n)
                ready.release(); done.acquire()
            pids = []
            for n in (3, 5, 4):
                pids.append(worker(lambda: body(n)))
                ready.acquire()
            page = [line for line in gpulens.to_prometheus().splitlines() if line.startswith(("each", "in_", "last", "max", "sum"))]
            print(*[line for line in page if not line.startswith("each")])
            print(sorted(line.partition("{")[2].replace(str(pid), "PID") for line in page for pid in pids if f'"{pid}"' in line))
            for _ in pids: done.release()
            for pid in pids: os.waitpid(pid, 0)
            print([line for line in gpulens.to_prometheus().splitlines() if line.startswith(("each", "in_", "last", "max", "sum"))])
        """)
        self.assertEqual(out, "in_flight 12 last 4 max 5 sum 12\n"
                         "['process_pid=\"PID\"} 3', 'process_pid=\"PID\"} 4', 'process_pid=\"PID\"} 5']\n['in_flight 0']\n")

    def test_what_is_refused(self):
        with self.assertRaises(gpulens.InvalidArgumentError):
            gpulens.Gauge("workers.refused", workers="average")
        with self.assertRaises(gpulens.InvalidArgumentError):
            gpulens.Gauge("workers.refused", workers="all")
        with self.assertRaises(gpulens.InvalidArgumentError):
            gpulens.expose("127.0.0.1:0", registry=gpulens.Registry(), workers=True)
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            with self.assertRaises(PermissionError):
                gpulens.share_with_workers(folder)

    def test_folder_that_vanishes_is_an_error_and_counts_stay(self):
        out = run("""
            import tempfile
            with tempfile.TemporaryDirectory() as folder:
                gpulens.share_with_workers(folder)
                count(3)
            count(4)
            print(total(gpulens.to_prometheus()))
        """)
        self.assertEqual(out, "[7]\n")


class Apps(unittest.TestCase):
    def test_wsgi(self):
        gpulens.Counter("workers.wsgi").add(2)
        app, started = gpulens.wsgi_app(), []
        body = b"".join(app({"REQUEST_METHOD": "GET"}, lambda *reply: started.append(reply)))
        self.assertIn("workers_wsgi_total 2", body.decode())
        status, headers = started[0]
        self.assertEqual((status, dict(headers)["Content-Length"]), ("200 OK", str(len(body))))
        self.assertTrue(dict(headers)["Content-Type"].startswith("text/plain; version=0.0.4"))
        accept = "application/openmetrics-text;version=1.0.0"
        body = b"".join(app({"REQUEST_METHOD": "GET", "HTTP_ACCEPT": accept}, lambda *reply: started.append(reply)))
        self.assertTrue(body.endswith(b"# EOF\n"))
        self.assertEqual(app({"REQUEST_METHOD": "HEAD"}, lambda *reply: started.append(reply)), [])
        self.assertEqual(app({"REQUEST_METHOD": "POST"}, lambda *reply: started.append(reply)), [])
        self.assertEqual([status for status, _ in started], ["200 OK"] * 3 + ["405 Method Not Allowed"])

    def test_asgi(self):
        gpulens.Counter("workers.asgi").add(3)
        app = gpulens.asgi_app()

        def call(scope, *received):
            sent, left = [], list(received)

            async def receive():
                return left.pop(0)

            async def send(message):
                sent.append(message)

            asyncio.run(app(scope, receive, send))
            return sent

        start, body = call({"type": "http", "method": "GET", "headers": [(b"accept", b"text/plain")]})
        self.assertEqual(start["status"], 200)
        self.assertIn(b"workers_asgi_total 3", body["body"])
        self.assertEqual(dict(start["headers"])[b"content-length"], str(len(body["body"])).encode())
        start, body = call({"type": "http", "method": "PUT", "headers": []})
        self.assertEqual((start["status"], body["body"]), (405, b""))
        events = call({"type": "lifespan"}, {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        self.assertEqual([event["type"] for event in events], ["lifespan.startup.complete", "lifespan.shutdown.complete"])
        with self.assertRaises(ValueError):
            call({"type": "websocket"})


if __name__ == "__main__":
    unittest.main()
