"""A receiver of Prometheus remote write for tests: unpacks and decodes requests by code of its own, of 1.0 and 2.0."""
import struct

from http_stub import HttpStub

STALE = 0x7FF0000000000002
FIRST = "application/x-protobuf"
SECOND = "application/x-protobuf;proto=io.prometheus.write.v2.Request"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def unsnappy(data):
    """A block in Snappy's format."""
    size, at = varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind, length = tag & 3, tag >> 2
        if kind == 0:
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at:at + extra], "little")
                at += extra
            out += data[at:at + length + 1]
            at += length + 1
            continue
        if kind == 1:
            length, offset = (length & 7) + 4, (tag >> 5) << 8 | data[at]
            at += 1
        else:
            wide = 2 if kind == 2 else 4
            length, offset = length + 1, int.from_bytes(data[at:at + wide], "little")
            at += wide
        for start in range(len(out) - offset, len(out) - offset + length, offset):
            out += out[start:start + min(offset, length)]
            length -= min(offset, length)
    assert len(out) == size, "a damaged block"
    return bytes(out)


def fields(data):
    """(number, value) of each field: an integer, eight bytes, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            assert key & 7 == 2, "a wire type that is not used"
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        yield key >> 3, value


class Exemplar:
    def __init__(self, labels, message):
        numbers = dict(fields(message))
        self.labels, self.value, self.ms = labels, struct.unpack("<d", numbers[2])[0], numbers[3]


class Sample:
    def __init__(self, labels, message, about=None, exemplars=()):
        numbers = dict(fields(message))
        self.labels, self.about, self.exemplars = labels, about or {}, list(exemplars)
        self.value = struct.unpack("<d", numbers[1])[0]
        self.ended = struct.unpack("<Q", numbers[1])[0] == STALE
        self.ms, self.start_ms = numbers[2], numbers.get(3)
        self.name = labels["__name__"]


def checked(labels):
    """The labels as a dictionary. Raises for labels that are out of order, duplicate or empty, which receivers refuse."""
    assert labels == sorted(labels) and len(dict(labels)) == len(labels), labels
    assert all(name and text for name, text in labels), labels
    return dict(labels)


def labels_first(parts):
    return checked([tuple(text.decode() for _, text in fields(label)) for field, label in parts if field == 1])


def decode_first(body):
    for number, series in fields(body):
        if number == 1:
            parts = list(fields(series))
            labels = labels_first(parts)
            exemplars = [Exemplar(labels_first(list(fields(one))), one) for field, one in parts if field == 3]
            yield from (Sample(labels, sample, exemplars=exemplars) for field, sample in parts if field == 2)


def labels_second(parts, symbols):
    refs, at = [], 0
    packed = b"".join(value for field, value in parts if field == 1)
    while at < len(packed):
        ref, at = varint(packed, at)
        refs.append(symbols[ref])
    assert len(refs) % 2 == 0, refs
    return checked(list(zip(refs[::2], refs[1::2])))


def decode_second(body):
    symbols = [text.decode() for number, text in fields(body) if number == 4]
    assert symbols[0] == "" and len(set(symbols)) == len(symbols)
    for number, series in fields(body):
        if number != 5:
            continue
        parts = list(fields(series))
        labels = labels_second(parts, symbols)
        exemplars = [Exemplar(labels_second(list(fields(one)), symbols), one) for field, one in parts if field == 4]
        about = dict(fields(next(value for field, value in parts if field == 5)))
        about = {"type": about.get(1, 0), "help": symbols[about.get(3, 0)], "unit": symbols[about.get(4, 0)]}
        yield from (Sample(labels, sample, about, exemplars) for field, sample in parts if field == 2)


class Request:
    def __init__(self, headers, body):
        self.headers = headers
        self.second = headers["Content-Type"] == SECOND
        self.samples = list((decode_second if self.second else decode_first)(unsnappy(body)))


class Receiver(HttpStub):
    """`answer(request, number)` gives (status, headers); default: 204, and for 2.0 what was written. In a with statement."""

    def __init__(self, answer=None):
        super().__init__(self._take, protocol="HTTP/1.1")
        self.answer = answer or self.good
        self.requests = []
        self.url = self.origin + "/api/v1/write"

    def _take(self, request, body):
        taken = Request(request.headers, body)
        status, headers = self.answer(taken, len(self.requests))
        self.requests.append(taken)
        return status, headers, b""

    @staticmethod
    def good(request, _):
        written = {"X-Prometheus-Remote-Write-Samples-Written": str(len(request.samples))}
        return 204, written if request.second else {}

    def samples(self, name):
        return [sample for request in self.requests for sample in request.samples if sample.name == name]
