"""The WebSocket stream, with the unchanged client program of the zernel seed."""
import asyncio
import json
import time
import unittest

from agent import Agent, samples, wait_until

try:
    import websockets
except ImportError:
    websockets = None

# The seed's snippet, indented as Python needs it, its address replaced by the test's.
SEED = '''
import asyncio
import websockets
import json
async def watch():
    async with websockets.connect("ws://localhost:9092") as ws:
        async for message in ws:
            data = json.loads(message)
            print(f"CUDA p50: {data['cuda_latency_p50_us']:.0f}us")
asyncio.run(watch())
'''
FIELDS = {"gpu_utilization": list, "cuda_latency_p50_us": float, "cuda_latency_p99_us": float, "nccl_allreduce_p50_ms": float,
          "nccl_allreduce_p99_ms": float, "dataloader_wait_p50_ms": float, "last_update_ms": int}


@unittest.skipUnless(websockets, "peer not here: websockets")
class WebSocket(unittest.TestCase):
    def frames(self, agent, seconds, **options):
        async def read():
            out = []
            async with websockets.connect(f"ws://127.0.0.1:{agent.ws_port}/any/path", **options) as ws:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    try:
                        out.append(json.loads(await asyncio.wait_for(ws.recv(), end - time.monotonic())))
                    except asyncio.TimeoutError:
                        break
            return out
        return asyncio.run(read())

    def test_the_seven_fields_without_a_probe(self):
        with Agent() as agent:
            frame = self.frames(agent, 0.5)[0]
            for name, kind in FIELDS.items():
                self.assertIsInstance(frame[name], (int, float) if kind is float else kind)
            self.assertEqual(frame["gpu_utilization"], [])
            self.assertFalse(frame["valid"]["cuda_latency_p50_us"])
            self.assertLess(abs(frame["last_update_ms"] / 1000 - time.time()), 2)

    def test_first_frame_at_once_then_one_a_second(self):
        with Agent() as agent:
            begin = time.monotonic()
            self.assertTrue(self.frames(agent, 0.4))
            self.assertLess(time.monotonic() - begin, 1.5)
            self.assertIn(len(self.frames(agent, 5)), (5, 6))

    def test_a_frame_carries_the_tick_that_has_just_closed(self):
        async def ages(agent):
            out = []
            async with websockets.connect(f"ws://127.0.0.1:{agent.ws_port}/") as ws:
                await ws.recv()  # the first comes at once, whatever its age
                for _ in range(6):
                    frame = json.loads(await asyncio.wait_for(ws.recv(), 10))
                    out.append(time.time() - frame["last_update_ms"] / 1000)
            return sorted(out)
        with Agent("--demo") as agent:
            wait_until(lambda: samples(agent.page(), "zernel_gpu_memory_used_bytes"))
            # It was a whole interval; a busy machine may be slow now and then.
            self.assertLess(asyncio.run(ages(agent))[3], 0.3)

    def test_push_interval_of_200_ms(self):
        with Agent(config="websocket: {push_interval: 200ms}\n") as agent:
            self.assertTrue(20 <= len(self.frames(agent, 5)) <= 27)

    def test_the_frame_agrees_with_metrics(self):
        with Agent("--demo") as agent:
            wait_until(lambda: samples(agent.page(), "zernel_gpu_memory_used_bytes"))
            frame = self.frames(agent, 0.5)[-1]
            keys = {f"{s.labels['pid']}:{s.labels['gpu_id']}" for s in samples(agent.page(), "zernel_gpu_memory_used_bytes")}
            self.assertEqual({entry["key"] for entry in frame["gpu_utilization"]}, keys)
            for entry in frame["gpu_utilization"]:
                self.assertGreater(entry["current_bytes"], 0)
                self.assertGreaterEqual(entry["peak_bytes"], entry["current_bytes"])

    def test_a_page_of_another_origin_is_refused(self):
        with Agent() as agent:
            with self.assertRaises(Exception) as refused:
                self.frames(agent, 1, origin="https://evil.example")
            self.assertIn("403", str(refused.exception))
            self.assertTrue(self.frames(agent, 0.4, origin="http://localhost:3000"))

    def test_the_seeds_own_client(self):
        import subprocess
        import sys
        with Agent() as agent:
            program = SEED.replace("localhost:9092", f"localhost:{agent.ws_port}")
            client = subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True)
            try:
                lines = [client.stdout.readline() for _ in range(2)]
            finally:
                client.kill()
                client.communicate()
            self.assertEqual(lines, ["CUDA p50: 0us\n"] * 2)


if __name__ == "__main__":
    unittest.main()
