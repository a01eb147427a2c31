// What one run of one instance read: numbers, their quality, and when the source read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ref.h"
#include "core/layout.h"
#include "core/validate.h"

namespace gpulens {

// `MetricDesc::number` says which member holds.
union Cell {
  double d;
  int64_t i;
};
static_assert(sizeof(Cell) == 8);

enum class Quality : uint8_t {
  kAbsent,  // Never read, rejected, or older than its time to live: no output shows it.
  kOk,      // with an age where the source itself says of when the value is
  kStale,   // The last good value, shown with its age.
};

// Why a slot is kAbsent. From kRejected on: its last reading was not believed, by Validation.
enum class Absence : uint8_t { kPresent, kNotRead, kTooOld, kRejected };
constexpr Absence RejectedAs(Validation why) noexcept {
  return static_cast<Absence>(static_cast<uint8_t>(Absence::kRejected) + static_cast<uint8_t>(why));
}
// "not_read", "too_old", "out_of_range", …; empty for what is present. Static storage.
std::string_view AbsenceName(Absence absence) noexcept;

// An example behind a bucket or a counter: a trace id with the value it had.
struct Exemplar {
  uint32_t cell = 0;
  double value = 0;
  int64_t unix_ns = 0;  // 0: the source did not say
  AttributeSet attributes;
};

// Immutable once published, shared by every tick until the instance's next run, then used again by
// its writer when nobody holds it any more. Values are cumulative, never deltas.
struct Frame : RefCounted<Frame> {
  std::string source;  // the instance whose run it is: "host", "scrape/node"
  Ref<const Layout> layout;
  uint64_t run = 0;                 // counts up; an analyzer integrates only when it moved
  Instant read_at;                  // when the source read it, not when the tick closed
  std::vector<Cell> cells;          // layout->cells()
  std::vector<Quality> quality;     // layout->slots()
  std::vector<Absence> absence;     // layout->slots(), of kAbsent ones; empty: nobody knows why
  std::vector<uint32_t> age_ms;     // of kStale slots and dated ones, before read_at; empty: all 0
  std::vector<Exemplar> exemplars;  // by cell

  uint32_t AgeMs(uint32_t slot) const noexcept { return age_ms.empty() ? 0 : age_ms[slot]; }
};

// Which source wins when two say the same family or series: lower is stronger.
enum class Precedence : uint8_t { kNative, kPassThrough };

struct SnapshotEntry {
  Ref<const Frame> frame;
  std::string_view source;  // frame->source
  Precedence precedence = Precedence::kNative;
  bool overdue = false;  // it rides again although its instance should have run since
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

// Something that happened, once: an XID, an OOM kill.
struct Event {
  Instant at;
  std::string_view name;  // of a catalogue row
  EntityRef entity;
  AttributeSet attributes;
  std::string body;
  EventSeverity severity = EventSeverity::kUnset;  // kUnset: what its catalogue row says
};
// What became ready in one tick.
struct Events : RefCounted<Events> {
  AttributeSet resource;
  std::vector<Event> list;
};

}  // namespace gpulens
