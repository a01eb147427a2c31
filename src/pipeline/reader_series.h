// Series gpulens.reader.* of a reader process, and the status of a collector that uses one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "reader/source.h"

namespace gpulens {

// Used inside the collector's run. A steady Update does not allocate.
class ReaderSeries {
 public:
  // "nvml": the value of the attribute `reader`. Static storage.
  explicit ReaderSeries(std::string_view driver) noexcept : driver_(driver) {}

  void Update(const driver::DriverSource& source, FrameWriter& out);
  // The reader process. Null before the first Update.
  const EntityRef& entity() const noexcept { return entity_; }

  // The driver's field statuses that the catalogue has a word for.
  static constexpr size_t kStatuses = 5;

 private:
  void Declare(SeriesTable& table);

  const std::string_view driver_;
  EntityRef entity_;
  Series up_, heartbeat_, hung_, used_, left_out_, unread_, watched_, files_;
  std::array<Series, static_cast<size_t>(driver::StartReason::kCount)> starts_;
  std::array<Series, kStatuses> fields_;
};

// Whether the process is being started, and nothing has failed so far.
bool IsStarting(const driver::DriverState& state) noexcept;

// Status of the collector's run: ok while the process runs, its library is open and each device has a thread.
Status StatusOf(const driver::DriverState& state);

}  // namespace gpulens
