#!/usr/bin/env python3
"""Serves many targets on one port, for the benchmark of scraping: no program that is measured shares its time.

usage: target_server.py TARGETS ENGINES

  /N/metrics   the page of target N: vLLM's families for ENGINES engines, names of its own. Every other request is
               answered with the page a scrape later, in which every number that is not 0 is another one
  /counts      how many pages were sent
  POST         is read and thrown away

Prints its port and the samples of one page; ends with SIGTERM.
"""
import asyncio
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "pages"))
import make_pages  # noqa: E402

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\r\n"


def answers(families, target):
    text = make_pages.page_text(families).replace("Llama-3.1-", f"Llama-{target:02d}-")
    return (HEAD.format(len(text)) + text).encode()


class Targets:
    def __init__(self, count, engines):
        first = make_pages.engine_page(random.Random(2), engines)
        after = make_pages.changed(first, random.Random(3))
        self.samples = sum(len(lines) for _, _, lines in first.values())
        self.pages = [(answers(first, n), answers(after, n)) for n in range(count)]
        self.turns, self.sent = [0] * count, 0

    def answer(self, path):
        parts = path.split("/")
        if len(parts) == 3 and parts[2] == "metrics" and parts[1].isdigit() and int(parts[1]) < len(self.pages):
            target = int(parts[1])
            self.turns[target] ^= 1
            self.sent += 1
            return self.pages[target][self.turns[target]]
        if path == "/counts":
            return (HEAD.format(len(str(self.sent))) + str(self.sent)).encode()
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path = head.split(" ", 2)[:2]
                if method == "POST":
                    lengths = [line for line in head.split("\r\n") if line.lower().startswith("content-length:")]
                    await reader.readexactly(int(lengths[0].partition(":")[2]) if lengths else 0)
                    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                else:
                    writer.write(self.answer(path))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def main(count, engines):
    targets = Targets(count, engines)
    server = await asyncio.start_server(targets.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], targets.samples, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
