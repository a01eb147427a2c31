"""Reads and damages the files in which records wait for a receiver (docs/delivery-queue.md). Independent of the program's own
code, so that its output is compared with a second implementation."""
import pathlib
import struct

HEADER, HEAD = 96, struct.Struct("<4sIQqqIII")


class Record:
    def __init__(self, number, content):
        self.number, self.content = number, content
        self.old = content[:1] < b"\x80"  # as version 0.1.0 wrote it: one byte, and the request
        self.kind, self.body = (content[0], content[1:]) if self.old else (content[1], content[8:])


def segments(folder):
    return sorted(pathlib.Path(folder).glob("*.seg"))


def read_segment(path):
    """Whole records, in their order."""
    content, at = path.read_bytes(), HEADER
    while at + HEAD.size <= len(content):
        marker, length, number, *_ = HEAD.unpack_from(content, at)
        body = content[at + HEAD.size : at + HEAD.size + length]
        if marker != b"PRCL" or len(body) < length:
            break
        yield Record(number, body)
        at += HEAD.size + length


def position(folder, name="position"):
    """The number of the first record that was not delivered."""
    content = pathlib.Path(folder, name).read_bytes()
    return max(struct.unpack_from("<Q", content, at + 8)[0] for at in (0, 512) if content[at : at + 7] == b"GPLNSPO")


def waiting(folder):
    first = position(folder)
    return [record for path in segments(folder) for record in read_segment(path) if record.number >= first]
