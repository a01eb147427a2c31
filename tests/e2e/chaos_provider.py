"""A provider of LLM answers that misbehaves, for test_proxy_chaos.py: what it does to a request is fixed by the request's name.

    python3 chaos_provider.py LOG

Prints its port, serves until its input ends, and then writes LOG: a line for each request that came whole, `name TAB provider TAB act`.
"""
import asyncio
import json
import logging
import random
import socket
import struct
import sys
import zlib

# Acts with their shares of all requests.
ACTS = {"whole": 60, "slow": 6, "busy": 6, "failed": 5, "reset": 3, "reset_inside": 5, "hang": 1, "hang_inside": 1, "no_http": 2, "bad_chunk": 2,
        "no_json": 2, "short": 3, "endless": 3, "no_end": 2}
# After these a client has no whole answer, or one without usage.
CUT = ("reset_inside", "hang_inside", "bad_chunk", "short", "endless")
UNANSWERED = ("reset", "hang", "no_http")
WORDS = 6


def usage_of(name):
    """Prompt, cached and answered tokens; other names have others, so that mixed-up charges differ."""
    n = zlib.crc32(name.encode())
    prompt = 50 + n % 100
    return prompt, n // 100 % prompt, 1 + n // 10_000 % 60


def act_of(name, provider):
    return random.Random(f"{name} {provider}").choices(list(ACTS), ACTS.values())[0]


def chat(name):
    prompt, cached, answered = usage_of(name)
    return {"id": name, "object": "chat.completion", "created": 1, "model": "gpt-test",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * WORDS}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered,
                      "prompt_tokens_details": {"cached_tokens": cached}}}


def event(value, name=None):
    return (f"event: {name}\n" if name else "").encode() + b"data: " + (value if isinstance(value, str) else json.dumps(value)).encode() + b"\n\n"


def chat_events(name, counts):
    chunk = {"id": name, "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", **({"usage": None} if counts else {})}
    for _ in range(WORDS):
        yield event({**chunk, "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]})
    yield event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if counts:
        yield event({**chunk, "choices": [], "usage": chat(name)["usage"]})
    yield event("[DONE]")


def message_events(name):
    prompt, cached, answered = usage_of(name)
    usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
    message = {"id": name, "type": "message", "role": "assistant", "model": "claude-test", "content": [], "stop_reason": None, "stop_sequence": None}
    yield event({"type": "message_start", "message": {**message, "usage": {**usage, "output_tokens": 1}}}, "message_start")
    for _ in range(WORDS):
        yield event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}, "content_block_delta")
    yield event({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": answered}}, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


class Provider:
    def __init__(self):
        self.log = []

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                request = json.loads(await reader.readexactly(int(length[15:])))
                path = head.split(b" ", 2)[1].decode()
                name, provider = request["user"], path.split("/")[1]
                act = act_of(name, provider)
                self.log.append(f"{name}\t{provider}\t{act}\n")
                if not await self.answer(reader, writer, name, path, request, act):
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, reader, writer, name, path, request, act):
        """Whether the connection goes on."""
        if act in ("busy", "failed"):
            self.whole(writer, "429 Too Many Requests" if act == "busy" else "500 Failed", name, json.dumps({"error": {"message": act, "type": act}}).encode())
        elif act == "hang":
            await reader.read(1)
            return False
        elif act == "no_http":
            writer.write(b"\x16\x03\x01 SSH-2.0 \xff\xfe\r\n\r\n")
            return False
        elif act == "reset":
            return self.reset(writer)
        elif request.get("stream"):
            events = message_events(name) if path.endswith("/messages") else chat_events(name, (request.get("stream_options") or {}).get("include_usage"))
            return await self.stream(reader, writer, name, act, list(events))
        else:
            return await self.plain(reader, writer, name, act, json.dumps(chat(name)).encode())
        return True

    @staticmethod
    def whole(writer, status, name, body):
        writer.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nx-request-id: %s\r\n\r\n%s"
                     % (status.encode(), len(body), name.encode(), body))

    @staticmethod
    def reset(writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False

    async def plain(self, reader, writer, name, act, body):
        if act in ("whole", "no_end"):
            self.whole(writer, "200 OK", name, body)
        elif act == "no_json":
            self.whole(writer, "200 OK", name, b"<html>\x00\xff it is well </html>")
        elif act == "slow":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nx-request-id: %s\r\n\r\n" % (len(body), name.encode()))
            for at in range(0, len(body), 100):
                writer.write(body[at:at + 100])
                await asyncio.sleep(0.02)
        elif act in ("short", "reset_inside", "hang_inside"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nx-request-id: %s\r\n\r\n" % (len(body), name.encode()))
            return await self.end(reader, writer, act, body[:len(body) // 2])
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nx-request-id: %s\r\n\r\n" % name.encode())
            if act == "bad_chunk":
                writer.write(b"10\r\n%s\r\nzz\r\n" % body[:16])
                return False
            return await self.endless(writer, b" " * 1000)
        return True

    async def stream(self, reader, writer, name, act, events):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nx-request-id: %s\r\n\r\n" % name.encode())
        if act in ("whole", "slow", "no_end"):
            for one in events[:-1] if act == "no_end" and b"[DONE]" in events[-1] else events:
                writer.write(b"%x\r\n%s\r\n" % (len(one), one))
                if act == "slow":
                    await asyncio.sleep(0.02)
            writer.write(b"0\r\n\r\n")
            return True
        if act == "no_json":
            bad = event("\ufffd{{{") + b": \xff\xfe\ndata: nothing\n\n"
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(bad), bad))
            return True
        first = b"".join(events[:3]) + events[3][:20]
        if act == "endless":
            writer.write(b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in events[:2]))
            return await self.endless(writer, events[1])
        writer.write(b"%x\r\n%s" % (len(first) + (act == "short"), first))
        return await self.end(reader, writer, act, b"\r\nzz\r\n" if act == "bad_chunk" else b"" if act == "short" else b"\r\n")

    async def end(self, reader, writer, act, last):
        writer.write(last)
        if act == "hang_inside":
            await reader.read(1)
        if act == "reset_inside":
            await asyncio.sleep(0.005)  # so that what was written is not reset with it
            return self.reset(writer)
        return False

    @staticmethod
    async def endless(writer, piece):
        while True:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.001)


async def main(path):
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # clients that are gone are no news here
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    with open(path, "w") as out:
        out.writelines(provider.log)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
