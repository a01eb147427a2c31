"""Writes dumps of PyTorch's flight recorder as PyTorch writes them, without PyTorch and without GPUs: for tests, and the seeds of
the fuzzer.

usage: recorder_dumps.py FOLDER CASE [RANKS]

One file a rank, FOLDER/rank_N. CASE: complete, not_called, different, not_started, not_ended, python (as pickle.dump writes it),
json (of _dump_nccl_trace_json).
"""
import json
import pathlib
import pickle
import struct
import sys

CASES = ("complete", "not_called", "different", "not_started", "not_ended", "python", "json")


class Pickler:
    """The opcodes that the pickler of PyTorch's C++ library writes: texts are remembered, large integers have 8 bytes."""

    def __init__(self):
        self.out, self.texts = bytearray(b"\x80\x02"), {}

    def dump(self, value):
        self.write(value)
        return bytes(self.out + b".")

    def write(self, value):
        out = self.out
        if value is None:
            out += b"N"
        elif value is True or value is False:
            out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            if 0 <= value < 256:
                out += b"K" + bytes([value])
            elif 0 <= value < 65536:
                out += b"M" + struct.pack("<H", value)
            elif -(2**31) <= value < 2**31:
                out += b"J" + struct.pack("<i", value)
            else:
                out += b"\x8a\x08" + struct.pack("<q", value)
        elif isinstance(value, float):
            out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            if value in self.texts:
                at = self.texts[value]
                out += b"h" + bytes([at]) if at < 256 else b"j" + struct.pack("<I", at)
                return
            at = self.texts[value] = len(self.texts)
            out += b"X" + struct.pack("<I", len(value.encode())) + value.encode()
            out += b"q" + bytes([at]) if at < 256 else b"r" + struct.pack("<I", at)
        elif isinstance(value, list):
            out += b"]("
            for item in value:
                self.write(item)
            out += b"e"
        elif isinstance(value, tuple):
            out += b"("
            for item in value:
                self.write(item)
            out += b"t"
        else:
            out += b"}("
            for key, item in value.items():
                self.write(key)
                self.write(item)
            out += b"u"


def entry(group, number, name, state, rank, size=64, dtype="Float"):
    created = 1_790_000_000_000_000_000 + number * 1_000_000 + rank
    made = {
        "record_id": number, "pg_id": 0, "process_group": list(group), "collective_seq_id": number, "p2p_seq_id": 0,
        "op_id": number, "profiling_name": name, "time_created_ns": created, "timeout_ms": 600_000,
        "input_sizes": [[size, 4]], "input_dtypes": [dtype], "output_sizes": [[size, 4]], "output_dtypes": [dtype],
        "state": state, "is_p2p": False, "retired": state == "completed",
        "frames": [{"name": "train", "filename": "train.py", "line": 10}],
    }
    if state != "scheduled":
        made["time_discovered_started_ns"] = created + 1000
    if state == "completed":
        made["time_discovered_completed_ns"] = created + 2000
        made["duration_ms"] = 0.25
    return made


def dump(case, rank, ranks, count=12):
    """What rank `rank` has after `count` collectives; the last is that of the case, and the last rank its culprit."""
    world = ("0", "default_pg")
    entries = [
        entry(world, number, "nccl:all_reduce" if number % 2 else "nccl:broadcast", "completed", rank) for number in range(1, count)
    ]
    culprit = rank == ranks - 1
    last = "started"
    if case in ("complete", "python", "json"):
        last = "completed"
    if case == "not_started" and culprit:
        last = "scheduled"
    if not (case == "not_called" and culprit):
        name = "nccl:reduce_scatter" if case == "different" and culprit else "nccl:all_reduce"
        entries.append(entry(world, count, name, last, rank))
    send = entry(world, 0, "nccl:send 0->1", "completed", rank)
    send.update(is_p2p=True, p2p_seq_id=1)
    entries.insert(3, send)
    return {
        "version": "2.10", "entries": entries,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {"0": {"last_enqueued_collective": count, "last_started_collective": count, "last_completed_collective": -1}},
    }


def bytes_of(case, rank, ranks):
    value = dump(case, rank, ranks)
    if case == "python":
        return pickle.dumps(value)
    if case == "json":
        return json.dumps(value).encode()
    return Pickler().dump(value)


def main():
    folder, case = pathlib.Path(sys.argv[1]), sys.argv[2]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    if case not in CASES:
        sys.exit(__doc__)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        (folder / f"rank_{rank}").write_bytes(bytes_of(case, rank, ranks))


if __name__ == "__main__":
    main()
