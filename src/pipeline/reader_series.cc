#include "pipeline/reader_series.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/version.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

using reader::ReaderFault;
using reader::ReadStatus;
using reader::StartReason;

// The driver's fields by status, under the catalogue's words.
constexpr std::array<std::pair<ReadStatus, std::string_view>, ReaderSeries::kStatuses> kFieldStatuses = {{
    {ReadStatus::kOk, "ok"},
    {ReadStatus::kNotSupported, "not_supported"},
    {ReadStatus::kNoPermission, "no_permission"},
    {ReadStatus::kNotFound, "not_found"},
    {ReadStatus::kError, "error"},
}};

Code CodeOf(ReaderFault fault) {
  switch (fault) {
    case ReaderFault::kNoPermission: return Code::kPermissionDenied;
    case ReaderFault::kLibraryNotFound:
    case ReaderFault::kDriverNotLoaded:
    case ReaderFault::kReleased:
    case ReaderFault::kNoDevices: return Code::kUnavailable;
    case ReaderFault::kHung:
    case ReaderFault::kStuckInKernel: return Code::kTimeout;
    case ReaderFault::kBadMessage: return Code::kDataLoss;
    default: return Code::kIo;
  }
}

// Periods of the slower tiers, unless the interval is longer.
constexpr Duration kMedium = std::chrono::seconds(10), kSlow = std::chrono::seconds(60);

}  // namespace

void SetPeriods(Duration interval, reader::SourceOptions& options) {
  options.interval = interval;
  options.medium = std::max(kMedium, interval);
  options.slow = std::max(kSlow, interval);
  options.build_id = std::string(Version()) + " " + std::string(Revision());
}

FieldMaxAge MaxAgeFor(Duration interval) noexcept {
  const int64_t ns = interval.count();
  return {{2 * ns, std::max(kMedium, interval).count() + 2 * ns, std::max(kSlow, interval).count() + 2 * ns}};
}

bool IsStarting(const reader::ReaderState& state) noexcept {
  return !state.up && state.fault == ReaderFault::kNone;
}

Status StatusOf(const reader::ReaderState& state) {
  if (state.up && state.unread > 0) {
    const std::string all = std::to_string(state.used + state.left_out + state.unread);
    return {Code::kExhausted, std::to_string(state.unread) + " of " + all +
                                  " GPUs are not read: the reader process cannot start more threads (see its "
                                  "limits: ulimit -u, TasksMax, pids.max)"};
  }
  if (state.up) return Ok();
  if (IsStarting(state)) return {Code::kTimeout, "the reader process is starting"};
  return {CodeOf(state.fault), state.last_error};
}

void ReaderSeries::Update(const reader::ReaderSource& source, FrameWriter& out) {
  const bool declares = !entity_;
  if (declares) entity_ = MakeRef<Entity>("reader", AttributeSet({{"reader", driver_}}));
  const EntitySeries of(out, entity_, declares);
  const reader::ReaderState& state = source.state();
  of.Set(up_, kSelfDriverUp, state.up ? 1 : 0);
  of.Declare(heartbeat_, kSelfDriverHeartbeatAge);
  if (state.last_heartbeat_boot_ns != 0)
    out.Set(heartbeat_, static_cast<double>(out.read_at().boot_ns - state.last_heartbeat_boot_ns) * 1e-9);
  // The thread that waits for events hangs in one call at a time, as that of a device does.
  of.Set(hung_, kSelfDriverCallsHung, state.hung + (state.waiting_call != reader::kNoCall ? 1U : 0U));
  of.Set(used_, kSelfDriverDevices, state.used, {{"state", "used"}});
  of.Set(left_out_, kSelfDriverDevices, state.left_out, {{"state", "left_out"}});
  of.Declare(files_, kSelfDriverFiles);
  if (state.files != 0) out.Set(files_, state.files);
  of.Set(unread_, kSelfDriverDevices, state.unread, {{"state", "unread"}});
  for (size_t i = 0; i < starts_.size(); ++i)
    of.Set(starts_[i], kSelfDriverStarts, state.starts[i],
           {{"reason", reader::StartReasonName(static_cast<StartReason>(i))}});
  const auto by_status = source.FieldsByStatus();
  for (size_t i = 0; i < kStatuses; ++i)
    of.Set(fields_[i], kSelfDriverFields, by_status[static_cast<size_t>(kFieldStatuses[i].first)],
           {{"status", kFieldStatuses[i].second}});
  // A library without events has no watched devices.
  EntitySeries(out, entity_, !watched_ && state.watched > 0)
      .Declare(watched_, kSelfDriverDevices, {{"state", "watched"}});
  if (watched_ && state.up) out.Set(watched_, state.watched);
}

}  // namespace gpulens
