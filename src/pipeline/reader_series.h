// Series gpulens.reader.* of a reader process, and what collectors that use one have in common.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame_writer.h"
#include "reader/source.h"

namespace gpulens {

// Used inside the collector's run. A steady Update does not allocate.
class ReaderSeries {
 public:
  // "nvml": the value of the attribute `reader`. Static storage.
  explicit ReaderSeries(std::string_view driver) noexcept : driver_(driver) {}

  void Update(const reader::ReaderSource& source, FrameWriter& out);
  // The reader process. Null before the first Update.
  const EntityRef& entity() const noexcept { return entity_; }

  // The driver's field statuses that the catalogue has a word for.
  static constexpr size_t kStatuses = 5;

 private:
  const std::string_view driver_;
  EntityRef entity_;
  Series up_, heartbeat_, hung_, used_, left_out_, unread_, watched_, files_;
  std::array<Series, static_cast<size_t>(reader::StartReason::kCount)> starts_;
  std::array<Series, kStatuses> fields_;
};

// Maximum age of a fresh reading by tier, in nanoseconds.
struct FieldMaxAge {
  std::array<int64_t, reader::kTierCount> ns{};
  int64_t of(reader::FieldTier tier) const noexcept { return ns[static_cast<size_t>(tier)]; }
};

// Sets the periods of the tiers for a collector with this interval, and the program's build.
void SetPeriods(Duration interval, reader::SourceOptions& options);
// Returns the period of each tier and the lateness of a reader: one interval more.
FieldMaxAge MaxAgeFor(Duration interval) noexcept;

// Whether the process is being started, and nothing has failed so far.
bool IsStarting(const reader::ReaderState& state) noexcept;

// Status of the collector's run: ok while the process runs, its library is open and each device has a thread.
Status StatusOf(const reader::ReaderState& state);

}  // namespace gpulens
