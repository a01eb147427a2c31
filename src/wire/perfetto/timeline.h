// Writers of timelines: tracks in a tree, with counters, slices and instants on them. Formats: Perfetto's
// protobuf trace, and the JSON of Chrome's trace events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/attribute_set.h"

namespace gpulens {

struct TimelineTrack {
  enum class Kind : uint8_t { kGroup, kCounter, kSlices };
  Kind kind = Kind::kGroup;
  uint32_t parent = 0;  // 0: none
  std::string name;     // different from those of its siblings
  std::string unit;     // UCUM; of a counter
  std::string description = {};
  int32_t rank = 0;  // among its siblings: smaller ones come first
};

// Appends to bytes(), which the caller takes away as it likes. Times are nanoseconds since 1970. Texts may be
// any bytes: they become UTF-8 of at most kMostText bytes. Used by one thread at a time.
class TimelineWriter {
 public:
  static constexpr size_t kMostText = 1024;

  virtual ~TimelineWriter() = default;
  TimelineWriter(const TimelineWriter&) = delete;
  TimelineWriter& operator=(const TimelineWriter&) = delete;

  // Returns the track's number, from 1 on. Parents come before children.
  uint32_t AddTrack(TimelineTrack track);
  // The value from this time on. A value that is not finite is left out.
  void Count(uint32_t track, int64_t unix_ns, double value);
  // A slice. Those of one track begin and end in the order of time, and lie within each other.
  void Begin(uint32_t track, int64_t unix_ns, std::string_view name, const AttributeSet& attributes = {});
  void End(uint32_t track, int64_t unix_ns);
  void Mark(uint32_t track, int64_t unix_ns, std::string_view name, const AttributeSet& attributes = {});
  // Ends open slices at `unix_ns`, and the text. Nothing is added afterwards.
  void Finish(int64_t unix_ns);

  std::string& bytes() noexcept { return out_; }
  uint64_t counts() const noexcept { return counts_; }
  uint64_t slices() const noexcept { return slices_; }
  uint64_t marks() const noexcept { return marks_; }
  size_t tracks() const noexcept { return tracks_.size(); }

 protected:
  TimelineWriter() = default;
  const TimelineTrack& track(uint32_t number) const noexcept { return tracks_[number - 1]; }
  // The names of the track and those above it.
  std::string PathOf(uint32_t number, std::string_view between) const;

  virtual void WriteTrack(uint32_t number) = 0;
  virtual void WriteCount(uint32_t number, int64_t unix_ns, double value) = 0;
  virtual void WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                          const AttributeSet& attributes) = 0;
  virtual void WriteEnd(uint32_t number, int64_t unix_ns) = 0;
  virtual void WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                         const AttributeSet& attributes) = 0;
  virtual void WriteLast() = 0;

  std::string out_;

 private:
  std::vector<TimelineTrack> tracks_;
  std::vector<uint32_t> open_;  // slices that have not ended, by track
  uint64_t counts_ = 0, slices_ = 0, marks_ = 0;
};

// What a timeline shows: "node" → "n1", "simulated" → "true".
using TimelineFacts = std::vector<std::pair<std::string, std::string>>;

// UTF-8 of at most TimelineWriter::kMostText bytes, cut between characters.
std::string TimelineText(std::string_view text);

// A unit of UCUM as people read it: "Cel" is "°C", "{request}/s" is "request/s", and "1" is nothing.
std::string TimelineUnit(std::string_view unit);

// Perfetto's trace: TracePackets of one sequence with interned names, on the wall clock. Traces of several
// nodes may be joined by putting one behind the other.
class PerfettoWriter final : public TimelineWriter {
 public:
  // `begin_ns`: the time of the clock's packet.
  PerfettoWriter(const TimelineFacts& facts, int64_t begin_ns);

  static constexpr size_t kMostInterned = 10'000;  // then the tables begin again

 private:
  using Table = std::map<std::string, uint64_t, std::less<>>;
  struct NewTexts {
    std::vector<std::pair<uint64_t, std::string_view>> names, keys;
  };

  void WriteTrack(uint32_t number) override;
  void WriteCount(uint32_t number, int64_t unix_ns, double value) override;
  void WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                  const AttributeSet& attributes) override;
  void WriteEnd(uint32_t number, int64_t unix_ns) override;
  void WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                 const AttributeSet& attributes) override;
  void WriteLast() override {}

  void AppendPacket(std::string_view packet);
  void BeginInterning();
  void WriteEvent(uint32_t type, uint32_t number, int64_t unix_ns, std::string_view name,
                  const AttributeSet& attributes);
  static uint64_t Intern(Table& table, std::string text,
                         std::vector<std::pair<uint64_t, std::string_view>>& added);

  uint32_t sequence_ = 1;
  std::string seed_;             // of the tracks' ids
  std::vector<uint64_t> uuids_;  // by track
  Table names_, keys_;
  std::string packet_, part_;  // memory that is used again
};

// The JSON that Chrome, Perfetto and Speedscope read: the groups below the first are processes, tracks of
// slices are threads.
class ChromeTraceWriter final : public TimelineWriter {
 public:
  explicit ChromeTraceWriter(const TimelineFacts& facts);

 private:
  void WriteTrack(uint32_t number) override;
  void WriteCount(uint32_t number, int64_t unix_ns, double value) override;
  void WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                  const AttributeSet& attributes) override;
  void WriteEnd(uint32_t number, int64_t unix_ns) override;
  void WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                 const AttributeSet& attributes) override;
  void WriteLast() override;
  void Head(const char* phase, uint32_t number, int64_t unix_ns, std::string_view name);

  bool first_ = true;
  std::vector<uint32_t> processes_;  // by track: the group that is its process
};

}  // namespace gpulens
