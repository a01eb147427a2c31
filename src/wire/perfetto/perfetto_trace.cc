#include <protozero/pbf_writer.hpp>

#include "base/hash.h"
#include "wire/perfetto/perfetto_fields.h"
#include "wire/perfetto/timeline.h"

namespace gpulens {
namespace {

using namespace perfetto;
using protozero::pbf_writer;

void AddAnnotations(pbf_writer& event, const AttributeSet& attributes, const std::vector<uint64_t>& keys) {
  size_t at = 0;
  for (const auto& [key, value] : attributes) {
    pbf_writer annotation(event, kEventAnnotation);
    annotation.add_uint64(kAnnotationNameIid, keys[at++]);
    if (const auto* text = std::get_if<std::string_view>(&value))
      annotation.add_string(kAnnotationText, TimelineText(*text));
    else if (const auto* whole = std::get_if<int64_t>(&value)) annotation.add_int64(kAnnotationInt, *whole);
    else if (const auto* real = std::get_if<double>(&value)) annotation.add_double(kAnnotationDouble, *real);
    else annotation.add_bool(kAnnotationBool, std::get<bool>(value));
  }
}

}  // namespace

PerfettoWriter::PerfettoWriter(const TimelineFacts& facts, int64_t begin_ns) {
  for (const auto& [key, value] : facts) {
    if (key == "node") seed_ = value;
  }
  // A number for the sequence by node, so that joined traces have one each; 0 is none.
  sequence_ = static_cast<uint32_t>(Fnv1a(seed_) & 0x7fffffff) | 1;
  {
    packet_.clear();
    pbf_writer packet(packet_);
    packet.add_uint32(kPacketSequence, sequence_);
    pbf_writer snapshot(packet, kPacketClocks);
    {
      pbf_writer clock(snapshot, kSnapshotClock);
      clock.add_uint32(kClockId, kRealtime);
      clock.add_uint64(kClockTime, static_cast<uint64_t>(begin_ns));
    }
    snapshot.add_enum(kSnapshotPrimary, kRealtime);
  }
  AppendPacket(packet_);
  {
    packet_.clear();
    pbf_writer packet(packet_);
    packet.add_uint32(kPacketSequence, sequence_);
    pbf_writer all(packet, kPacketAttributes);
    for (const auto& [key, value] : facts) {
      pbf_writer attribute(all, kAttribute);
      attribute.add_string(kAttributeKey, TimelineText("gpulens." + key));
      attribute.add_string(kAttributeText, TimelineText(value));
    }
  }
  AppendPacket(packet_);
  BeginInterning();
}

void PerfettoWriter::AppendPacket(std::string_view packet) {
  pbf_writer trace(out_);
  trace.add_message(kTracePacket, packet.data(), packet.size());
}

void PerfettoWriter::BeginInterning() {
  names_.clear();
  keys_.clear();
  packet_.clear();
  {
    pbf_writer packet(packet_);
    packet.add_uint32(kPacketSequence, sequence_);
    packet.add_uint32(kPacketFlags, kStateCleared);
    pbf_writer defaults(packet, kPacketDefaults);
    defaults.add_uint32(kDefaultsClock, kRealtime);
  }
  AppendPacket(packet_);
}

void PerfettoWriter::WriteTrack(uint32_t number) {
  const TimelineTrack& one = track(number);
  // Stable, and different for the tracks of another node; 0 is Perfetto's default track. A child's id is made
  // from its parent's, with a byte that no name in UTF-8 has.
  std::string path = one.parent == 0 ? seed_ : std::to_string(uuids_[one.parent - 1]);
  path.append("\xff").append(one.name).append("\xff").append(std::to_string(static_cast<int>(one.kind)));
  const uint64_t uuid = Fnv1a(path) | 1;
  uuids_.push_back(uuid);
  packet_.clear();
  {
    pbf_writer packet(packet_);
    packet.add_uint32(kPacketSequence, sequence_);
    pbf_writer descriptor(packet, kPacketTrack);
    descriptor.add_uint64(kTrackUuid, uuid);
    descriptor.add_string(kTrackName, one.name);
    if (one.parent != 0) descriptor.add_uint64(kTrackParent, uuids_[one.parent - 1]);
    if (one.kind == TimelineTrack::Kind::kCounter) {
      part_.clear();
      pbf_writer counter(part_);
      if (one.unit == "By") counter.add_enum(kCounterUnit, kUnitBytes);
      else if (const std::string unit = TimelineUnit(one.unit); !unit.empty())
        counter.add_string(kCounterUnitName, unit);
      // Also when it is empty, which protozero would leave out as a part of `descriptor`.
      descriptor.add_message(kTrackCounter, part_);
    } else if (one.kind == TimelineTrack::Kind::kGroup) {
      descriptor.add_enum(kTrackChildOrder, kOrderExplicit);
    }
    descriptor.add_int32(kTrackRank, one.rank);
    if (!one.description.empty()) descriptor.add_string(kTrackDescription, one.description);
    descriptor.add_enum(kTrackMerge, kMergeNone);
  }
  AppendPacket(packet_);
}

uint64_t PerfettoWriter::Intern(Table& table, std::string text,
                                std::vector<std::pair<uint64_t, std::string_view>>& added) {
  const auto [at, is_new] = table.try_emplace(std::move(text), table.size() + 1);
  if (is_new) added.emplace_back(at->second, at->first);
  return at->second;
}

void PerfettoWriter::WriteEvent(uint32_t type, uint32_t number, int64_t unix_ns, std::string_view name,
                                const AttributeSet& attributes) {
  if (names_.size() + keys_.size() > kMostInterned) BeginInterning();
  NewTexts added;
  std::vector<uint64_t> keys;
  for (const auto& [key, value] : attributes) keys.push_back(Intern(keys_, TimelineText(key), added.keys));
  const uint64_t iid = name.empty() ? 0 : Intern(names_, std::string(name), added.names);
  packet_.clear();
  {
    pbf_writer packet(packet_);
    packet.add_uint64(kPacketTime, static_cast<uint64_t>(unix_ns));
    packet.add_uint32(kPacketSequence, sequence_);
    packet.add_uint32(kPacketFlags, kNeedsState);
    if (!added.names.empty() || !added.keys.empty()) {
      pbf_writer interned(packet, kPacketInterned);
      const auto add = [&interned](uint32_t field, const auto& texts) {
        for (const auto& [id, text] : texts) {
          pbf_writer one(interned, field);
          one.add_uint64(kInternedIid, id);
          one.add_string(kInternedName, text.data(), text.size());
        }
      };
      add(kInternedNames, added.names);
      add(kInternedKeys, added.keys);
    }
    pbf_writer event(packet, kPacketEvent);
    AddAnnotations(event, attributes, keys);
    event.add_enum(kEventType, static_cast<int32_t>(type));
    if (iid != 0) event.add_uint64(kEventNameIid, iid);
    event.add_uint64(kEventTrack, uuids_[number - 1]);
  }
  AppendPacket(packet_);
}

void PerfettoWriter::WriteCount(uint32_t number, int64_t unix_ns, double value) {
  packet_.clear();
  {
    pbf_writer packet(packet_);
    packet.add_uint64(kPacketTime, static_cast<uint64_t>(unix_ns));
    packet.add_uint32(kPacketSequence, sequence_);
    packet.add_uint32(kPacketFlags, kNeedsState);
    pbf_writer event(packet, kPacketEvent);
    event.add_enum(kEventType, kTypeCounter);
    event.add_uint64(kEventTrack, uuids_[number - 1]);
    event.add_double(kEventDouble, value);
  }
  AppendPacket(packet_);
}

void PerfettoWriter::WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                                const AttributeSet& attributes) {
  WriteEvent(kTypeBegin, number, unix_ns, name, attributes);
}
void PerfettoWriter::WriteEnd(uint32_t number, int64_t unix_ns) {
  WriteEvent(kTypeEnd, number, unix_ns, {}, {});
}
void PerfettoWriter::WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                               const AttributeSet& attributes) {
  WriteEvent(kTypeInstant, number, unix_ns, name, attributes);
}

}  // namespace gpulens
