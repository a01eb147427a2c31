"""Archive of all records that a delivery queue on disk has accepted, read from its files.

Its segments are read as src/delivery/segment_file.h describes them, by code of our own. Each is linked into another
folder while it is there, so that the records in it can still be read when the queue has delivered and removed it: a link is the same
file, and nothing in the queue's folder is touched. Ids are consecutive over all segments, so a record that was missed would be seen.
"""
import os
import pathlib
import struct
import zlib

HEADER = struct.Struct("<8sII Q16sI4x")
RECORD = struct.Struct("<4sIQqqIII")


def records(path):
    """(id, body) of each whole record of a segment."""
    data = path.read_bytes()
    if len(data) < 2 * HEADER.size:
        return
    magic, version, salt, first_id, _, _ = HEADER.unpack_from(data)
    assert (magic, version, first_id) == (b"GPLNSSEG", 1, int(path.name[:20])), path
    at = 2 * HEADER.size
    while at + RECORD.size <= len(data):
        marker, length, number, _, _, _, body_sum, head_sum = RECORD.unpack_from(data, at)
        assert marker == b"PRCL" and zlib.crc32(data[at:at + RECORD.size - 4], salt) == head_sum, f"{path} at {at}"
        body = data[at + RECORD.size:at + RECORD.size + length]
        if len(body) < length:
            return  # the process was killed while it wrote this one
        assert zlib.crc32(body, salt) == body_sum, f"{path}: the body of record {number}"
        yield number, body
        at += RECORD.size + length


class Archive:
    def __init__(self, queue, archive):
        self.queue, self.archive = pathlib.Path(queue), pathlib.Path(archive)
        self.archive.mkdir(parents=True)

    def keep(self):
        """Copies new records. Call it from one thread at a time, more often than a segment is filled and delivered."""
        for segment in self.queue.glob("*.seg"):
            kept = self.archive / segment.name
            try:
                if kept.exists() and kept.stat().st_ino != segment.stat().st_ino:
                    # It was made by a run that was killed before it wrote into it; the next run takes the name.
                    assert not list(records(kept)), f"{segment} was made again"
                    kept.unlink()
                os.link(segment, kept)
            except (FileExistsError, FileNotFoundError):
                pass  # we have it; it was just delivered

    def records(self):
        """{id: body} of all that was accepted."""
        found = {}
        for segment in sorted(self.archive.glob("*.seg")):
            for number, body in records(segment):
                assert number not in found, f"the id {number} was used twice"
                found[number] = body
        assert sorted(found) == list(range(1, len(found) + 1)), f"ids of {self.queue} have gaps"
        return found

    def position(self):
        """The id of the first record that is not delivered."""
        data = (self.queue / "position").read_bytes()
        numbers = []
        for at in (0, 512):
            slot = data[at:at + 20]
            if slot[:8] == b"GPLNSPO1" and zlib.crc32(slot[:16]) == struct.unpack_from("<I", slot, 16)[0]:
                numbers.append(struct.unpack_from("<Q", slot, 8)[0])
        return max(numbers)
