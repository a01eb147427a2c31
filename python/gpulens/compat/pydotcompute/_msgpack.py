"""MessagePack (msgpack.org) for messages, without the package msgpack.

Only data is read: nil, booleans, numbers, text, bytes, lists and maps. Nothing names code to run, and
extension types are refused.
"""
import struct
from typing import Any, Callable, List, Tuple

__all__ = ["MOST_BYTES", "MOST_DEPTH", "pack", "unpack"]

MOST_BYTES = 64 << 20  # of one message
MOST_DEPTH = 64  # lists and maps within each other

# First byte of a number of fixed size, and its format.
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
# Of what has a length: its kind, and the bytes of the length.
_LENGTHS = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


def pack(value: Any, other: Callable[[Any], Any]) -> bytes:
    """Returns the bytes of a value.

    other: returns a value of these types for one of another type, or raises TypeError.

    Raises TypeError, and ValueError beyond MOST_BYTES and MOST_DEPTH and for integers that need more than
    64 bits.
    """
    out = bytearray()
    _pack(out, value, other, MOST_DEPTH)
    if len(out) > MOST_BYTES:
        raise ValueError(f"{len(out)} bytes; a message has at most {MOST_BYTES}")
    return bytes(out)


def _pack(out: bytearray, value: Any, other: Callable[[Any], Any], depth: int) -> None:
    if depth < 0:
        raise ValueError(f"more than {MOST_DEPTH} lists and maps within each other")
    if value is None or isinstance(value, bool):
        out.append(0xC0 if value is None else 0xC3 if value else 0xC2)
    elif isinstance(value, int):
        out += _packed_int(value)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        text = value.encode("utf-8")
        out += _head(len(text), 0xA0, 31, (0xD9, 0xDA, 0xDB)) + text
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        out += _head(len(data), None, 0, (0xC4, 0xC5, 0xC6)) + data
    elif isinstance(value, (list, tuple)):
        out += _head(len(value), 0x90, 15, (None, 0xDC, 0xDD))
        for one in value:
            _pack(out, one, other, depth - 1)
    elif isinstance(value, dict):
        out += _head(len(value), 0x80, 15, (None, 0xDE, 0xDF))
        for key, one in value.items():
            _pack(out, key, other, depth - 1)
            _pack(out, one, other, depth - 1)
    else:
        _pack(out, other(value), other, depth - 1)


def _packed_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b" if value < 0 else ">B", value)
    codes = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code in codes:
        try:
            return bytes([code]) + struct.pack(_NUMBERS[code], value)
        except struct.error:
            continue
    raise ValueError(f"the integer {value} needs more than 64 bits")


def _head(size: int, short: Any, most_short: int, codes: Tuple[Any, ...]) -> bytes:
    if short is not None and size <= most_short:
        return bytes([short | size])
    for code, form, most in zip(codes, (">BB", ">BH", ">BI"), (0xFF, 0xFFFF, 0xFFFFFFFF)):
        if code is not None and size <= most:
            return struct.pack(form, code, size)
    raise ValueError(f"a length of {size}")


def unpack(data: bytes, with_map: Callable[[dict], Any]) -> Any:
    """Returns the value in the bytes.

    with_map: called with each map inside another value; what it returns takes the map's place.

    Raises ValueError for anything that is not one complete value, and beyond MOST_BYTES and MOST_DEPTH. A
    length that exceeds the rest of the bytes allocates nothing.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"bytes are expected, not {type(data).__name__}")
    if len(data) > MOST_BYTES:
        raise ValueError(f"{len(data)} bytes; a message has at most {MOST_BYTES}")
    reader = _Reader(bytes(data), with_map)
    value = reader.value(MOST_DEPTH)
    if reader.at != len(reader.data):
        raise ValueError(f"{len(reader.data) - reader.at} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: bytes, with_map: Callable[[dict], Any]):
        self.data = data
        self.at = 0
        self.with_map = with_map

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise ValueError(f"the bytes end at {len(self.data)}, inside a value")
        part, self.at = self.data[self.at : end], end
        return part

    def value(self, depth: int) -> Any:
        first = self.take(1)[0]
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first < 0xC0:
            kind, size = ("map", first & 15) if first < 0x90 else ("list", first & 15) if first < 0xA0 else ("text", first & 31)
        elif first in _NUMBERS:
            form = _NUMBERS[first]
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        elif first in _LENGTHS:
            kind, width = _LENGTHS[first]
            size = int.from_bytes(self.take(width), "big")
        elif first in (0xC0, 0xC2, 0xC3):
            return None if first == 0xC0 else first == 0xC3
        else:
            raise ValueError(f"byte {first:#x} at {self.at - 1} begins no value of a message")
        if kind in ("bytes", "text"):
            part = self.take(size)
            return part if kind == "bytes" else part.decode("utf-8")
        if depth == 0:
            raise ValueError(f"more than {MOST_DEPTH} lists and maps within each other")
        if size > len(self.data) - self.at:  # an element takes a byte at least
            raise ValueError(f"a {kind} of {size} in {len(self.data) - self.at} bytes")
        return self.elements(size, depth) if kind == "list" else self.map(size, depth)

    def elements(self, size: int, depth: int) -> List[Any]:
        return [self.value(depth - 1) for _ in range(size)]

    def map(self, size: int, depth: int) -> Any:
        made = {}
        for _ in range(size):
            key = self.value(depth - 1)
            if not isinstance(key, (str, int, float, bytes, type(None))):
                raise ValueError(f"a key of the type {type(key).__name__}")
            made[key] = self.value(depth - 1)
        return made if depth == MOST_DEPTH else self.with_map(made)
