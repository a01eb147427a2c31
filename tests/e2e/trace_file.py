"""Reads what `gpulens trace` wrote with the classes of the `perfetto` package, and checks that it is sound."""
import collections
import json
import re

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

BEGIN, END, MARK, COUNT = (pb.TrackEvent.TYPE_SLICE_BEGIN, pb.TrackEvent.TYPE_SLICE_END, pb.TrackEvent.TYPE_INSTANT,
                           pb.TrackEvent.TYPE_COUNTER)


class Track:
    def __init__(self, descriptor, parent):
        self.name, self.parent = descriptor.name, parent
        self.path = (*parent.path, descriptor.name) if parent else (descriptor.name,)
        self.unit = "B" if descriptor.counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES else descriptor.counter.unit_name
        self.is_counter = descriptor.HasField("counter")
        self.rank = descriptor.sibling_order_rank
        self.values, self.slices, self.marks, self.open = [], [], [], []
        self.last = 0
        # "help name{attributes} source S"
        found = re.search(r"(\S+?)(\{.*\}) source (\S+)$", descriptor.description)
        self.metric, self.attributes, self.source = ((found[1], json.loads(found[2]), found[3]) if found else (None, None, None))


class TraceFile:
    """`faults` is what is wrong: it must be empty."""

    def __init__(self, data):
        trace = pb.Trace()
        trace.ParseFromString(data)
        self.faults, self.tracks, self.facts, self.clocks = [], {}, {}, []
        names, keys = collections.defaultdict(dict), collections.defaultdict(dict)
        cleared = set()
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            if not sequence:
                self.faults.append("a packet without a sequence")
            if packet.HasField("clock_snapshot"):
                self.clocks.append(packet.clock_snapshot)
            for attribute in packet.trace_attributes.attribute:
                self.facts[attribute.key] = attribute.string_value
            if packet.sequence_flags & pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
                cleared.add(sequence)
                names[sequence].clear(), keys[sequence].clear()
                if packet.trace_packet_defaults.timestamp_clock_id != pb.BUILTIN_CLOCK_REALTIME:
                    self.faults.append("a state without its clock")
            for table, found in ((packet.interned_data.event_names, names), (packet.interned_data.debug_annotation_names, keys)):
                for one in table:
                    if one.iid == 0 or one.iid in found[sequence]:
                        self.faults.append(f"interned id {one.iid} is not new")
                    found[sequence][one.iid] = one.name
            if packet.HasField("track_descriptor"):
                self.add_track(packet.track_descriptor)
            if packet.HasField("track_event"):
                if sequence not in cleared or not packet.sequence_flags & pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE:
                    self.faults.append("an event without a state")
                self.add_event(packet.timestamp, packet.track_event, names[sequence], keys[sequence])
        for track in self.tracks.values():
            if track.open:
                self.faults.append(f"{track.path}: {len(track.open)} slices have no end")

    def add_track(self, descriptor):
        parent = self.tracks.get(descriptor.parent_uuid)
        if descriptor.parent_uuid and parent is None:
            self.faults.append(f"{descriptor.name}: its parent comes later or never")
        if descriptor.uuid == 0 or descriptor.uuid in self.tracks:
            self.faults.append(f"{descriptor.name}: its id is not new")
        self.tracks[descriptor.uuid] = Track(descriptor, parent)

    def add_event(self, at, event, names, keys):
        track = self.tracks.get(event.track_uuid)
        if track is None:
            self.faults.append(f"an event on no track: {event}")
            return
        if at < track.last:
            self.faults.append(f"{track.path}: {at} after {track.last}")
        track.last = at
        if (event.type == COUNT) != track.is_counter:
            self.faults.append(f"{track.path}: an event of type {event.type}")
        if event.name_iid and event.name_iid not in names:
            self.faults.append(f"{track.path}: no name {event.name_iid}")
        if any(one.name_iid not in keys for one in event.debug_annotations):
            self.faults.append(f"{track.path}: an annotation without a name")
        name = names.get(event.name_iid)
        arguments = {keys.get(one.name_iid): getattr(one, one.WhichOneof("value")) for one in event.debug_annotations}
        if event.type == COUNT:
            track.values.append((at, event.double_counter_value))
        elif event.type == BEGIN:
            track.open.append((at, name, arguments))
        elif event.type == MARK:
            track.marks.append((at, name, arguments))
        elif not track.open:
            self.faults.append(f"{track.path}: an end without a begin at {at}")
        else:
            begin, name, arguments = track.open.pop()
            if at <= begin:
                self.faults.append(f"{track.path}: {name} lasts {at - begin} ns")
            if track.open and begin < track.open[-1][0]:
                self.faults.append(f"{track.path}: {name} reaches out of {track.open[-1][1]}")
            track.slices.append((begin, at, name, arguments))

    def with_name(self, text):
        return [track for track in self.tracks.values() if text in track.name]

    def counters(self):
        return [track for track in self.tracks.values() if track.is_counter]
