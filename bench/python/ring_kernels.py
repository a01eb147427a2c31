#!/usr/bin/env python3
"""Actors of gpulens.ring, compared with the minimum in asyncio: two queues and a task. Prints a line of JSON for each way of
each: CPU and wall nanoseconds a message, of rounds in which all take turns.

Run by a Python that has gpulens: the section `ring` of tools/bench.py does.
"""
import asyncio
import json
import sys
import time

import gpulens
from gpulens.ring import RingKernelRuntime

ROUNDS, TRIPS, IN_FLIGHT = 9, 2000, 256


async def echo(x):
    return x


class Plain:
    """asyncio alone."""

    async def __aenter__(self):
        self.messages, self.replies = asyncio.Queue(4096), asyncio.Queue(4096)
        self.task = asyncio.ensure_future(self.run())
        return self

    async def run(self):
        while True:
            await self.replies.put(await echo(await self.messages.get()))

    async def __aexit__(self, *exception):
        self.task.cancel()

    async def send(self, x):
        await self.messages.put(x)

    async def receive(self):
        return await self.replies.get()


class Ring:
    """A kernel of ours."""

    def __init__(self, telemetry):
        self.runtime = RingKernelRuntime(enable_telemetry=telemetry, registry=gpulens.Registry())

    async def __aenter__(self):
        await self.runtime.__aenter__()
        return await self.runtime.start(echo)

    async def __aexit__(self, *exception):
        await self.runtime.__aexit__(*exception)


async def round_trips(actor):
    for i in range(TRIPS):
        await actor.send(i)
        await actor.receive()


async def pipelined(actor):
    for _ in range(TRIPS // IN_FLIGHT):
        for i in range(IN_FLIGHT):
            await actor.send(i)
        for _ in range(IN_FLIGHT):
            await actor.receive()


async def main():
    actors = {"asyncio": Plain, "off": lambda: Ring(False), "on": lambda: Ring(True)}
    found = {}
    for _ in range(ROUNDS):
        for name, make in actors.items():
            for way, count in ((round_trips, TRIPS), (pipelined, TRIPS // IN_FLIGHT * IN_FLIGHT)):
                async with make() as actor:
                    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
                    await way(actor)
                    entry = found.setdefault(f"{way.__name__}/{name}", {"cpu_ns": [], "wall_ns": []})
                    entry["cpu_ns"].append((time.process_time_ns() - cpu) / count)
                    entry["wall_ns"].append((time.perf_counter_ns() - wall) / count)
    version = "Python " + sys.version.split()[0]
    for name, times in found.items():
        print(json.dumps({"name": name, "bytes": 0, "samples": 1, "version": version, **times}))


asyncio.run(main())
