#include "wire/perfetto/timeline.h"

#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace gpulens {

std::string TimelineText(std::string_view text) {
  std::string room;
  std::string_view valid = ValidUtf8(text.substr(0, TimelineWriter::kMostText), room);
  size_t size = 0;
  while (size < valid.size()) {
    const size_t one = Utf8Length(valid.substr(size));
    if (one == 0 || size + one > TimelineWriter::kMostText) break;
    size += one;
  }
  return std::string(valid.substr(0, size));
}

std::string TimelineUnit(std::string_view unit) {
  if (unit == "1") return {};
  if (unit == "Cel") return "°C";
  std::string shown;
  for (char c : unit) {
    if (c != '{' && c != '}') shown += c;
  }
  return shown;
}

uint32_t TimelineWriter::AddTrack(TimelineTrack track) {
  CHECK(track.parent <= tracks_.size());
  track.name = TimelineText(track.name);
  track.unit = TimelineText(track.unit);
  track.description = TimelineText(track.description);
  tracks_.push_back(std::move(track));
  open_.push_back(0);
  const auto number = static_cast<uint32_t>(tracks_.size());
  WriteTrack(number);
  return number;
}

void TimelineWriter::Count(uint32_t track, int64_t unix_ns, double value) {
  if (!std::isfinite(value)) return;
  ++counts_;
  WriteCount(track, unix_ns, value);
}

void TimelineWriter::Begin(uint32_t track, int64_t unix_ns, std::string_view name,
                           const AttributeSet& attributes) {
  ++slices_;
  ++open_[track - 1];
  WriteBegin(track, unix_ns, TimelineText(name), attributes);
}

void TimelineWriter::End(uint32_t track, int64_t unix_ns) {
  if (open_[track - 1] == 0) return;
  --open_[track - 1];
  WriteEnd(track, unix_ns);
}

void TimelineWriter::Mark(uint32_t track, int64_t unix_ns, std::string_view name,
                          const AttributeSet& attributes) {
  ++marks_;
  WriteMark(track, unix_ns, TimelineText(name), attributes);
}

void TimelineWriter::Finish(int64_t unix_ns) {
  for (uint32_t track = 1; track <= tracks_.size(); ++track) {
    while (open_[track - 1] > 0) End(track, unix_ns);
  }
  WriteLast();
}

std::string TimelineWriter::PathOf(uint32_t number, std::string_view between) const {
  const TimelineTrack& one = track(number);
  if (one.parent == 0) return one.name;
  return PathOf(one.parent, between).append(between).append(one.name);
}

}  // namespace gpulens
