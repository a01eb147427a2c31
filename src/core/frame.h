// Frames, snapshots and events: the values of one run, the frames of one tick, and what happened in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ref.h"
#include "core/layout.h"
#include "core/validate.h"

namespace gpulens {

// `MetricDesc::number` selects the member.
union Cell {
  double d;
  int64_t i;
};
static_assert(sizeof(Cell) == 8);

enum class Quality : uint8_t {
  kAbsent,  // never read, rejected, or older than its time to live; not exported
  kOk,      // with an age if the source dates the value
  kStale,   // the last good value, exported with its age
};

// Why a slot is kAbsent. From kRejected on: the Validation that rejected its last reading.
enum class Absence : uint8_t { kPresent, kNotRead, kTooOld, kRejected };
constexpr Absence RejectedAs(Validation why) noexcept {
  return static_cast<Absence>(static_cast<uint8_t>(Absence::kRejected) + static_cast<uint8_t>(why));
}
// "not_read", "too_old", "out_of_range", …; empty for kPresent. Static storage.
std::string_view AbsenceName(Absence absence) noexcept;

// An example of a bucket or a counter: a trace id with its value.
struct Exemplar {
  uint32_t cell = 0;
  double value = 0;
  int64_t unix_ns = 0;  // 0: unknown
  AttributeSet attributes;
};

// The values of one run of one instance. Immutable once published; its writer reuses it when no reference is
// left. Values are cumulative, never deltas.
struct Frame : RefCounted<Frame> {
  std::string source;  // the instance: "host", "scrape/node"
  Ref<const Layout> layout;
  uint64_t run = 0;                 // counts up; an analyzer integrates only when it changed
  Instant read_at;                  // when the source read it, not when the tick closed
  std::vector<Cell> cells;          // layout->cells()
  std::vector<Quality> quality;     // layout->slots()
  std::vector<Absence> absence;     // layout->slots(), of kAbsent ones; empty: unknown
  std::vector<uint32_t> age_ms;     // of kStale slots and dated ones, before read_at; empty: all 0
  std::vector<Exemplar> exemplars;  // by cell

  uint32_t AgeMs(uint32_t slot) const noexcept { return age_ms.empty() ? 0 : age_ms[slot]; }
};

// Which source wins when two export the same family or series: the lower value.
enum class Precedence : uint8_t { kNative, kPassThrough };

struct SnapshotEntry {
  Ref<const Frame> frame;
  std::string_view source;  // frame->source
  Precedence precedence = Precedence::kNative;
  bool overdue = false;  // an old frame: its instance should have run since
  Duration period{};     // between two readings of its collector; zero: each tick, or unknown
};

// One tick: the latest frame of every instance. Immutable once published, pooled, counted.
struct Snapshot : RefCounted<Snapshot> {
  Instant closed_at;
  uint64_t tick = 0;
  AttributeSet resource;
  std::vector<SnapshotEntry> frames;
};

enum class EventSeverity : uint8_t { kUnset, kInfo, kWarning, kError, kFatal };

// A single occurrence: an XID, an OOM kill.
struct Event {
  Instant at;
  std::string_view name;  // of a catalogue row
  EntityRef entity;
  AttributeSet attributes;
  std::string body;
  EventSeverity severity = EventSeverity::kUnset;  // kUnset: that of its catalogue row
};
// The events of one tick.
struct Events : RefCounted<Events> {
  AttributeSet resource;
  std::vector<Event> list;
};

}  // namespace gpulens
