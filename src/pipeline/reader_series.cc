#include "pipeline/reader_series.h"

#include <utility>

#include "catalog/self.h"

namespace gpulens {
namespace {

using driver::Fault;
using driver::ReadStatus;
using driver::StartReason;

// The driver's fields by status, under the catalogue's words.
constexpr std::array<std::pair<ReadStatus, std::string_view>, ReaderSeries::kStatuses> kFieldStatuses = {{
    {ReadStatus::kOk, "ok"},
    {ReadStatus::kNotSupported, "not_supported"},
    {ReadStatus::kNoPermission, "no_permission"},
    {ReadStatus::kNotFound, "not_found"},
    {ReadStatus::kError, "error"},
}};

Code CodeOf(Fault fault) {
  switch (fault) {
    case Fault::kNoPermission: return Code::kPermissionDenied;
    case Fault::kLibraryNotFound:
    case Fault::kDriverNotLoaded:
    case Fault::kReleased:
    case Fault::kNoDevices: return Code::kUnavailable;
    case Fault::kHung:
    case Fault::kStuckInKernel: return Code::kTimeout;
    case Fault::kBadMessage: return Code::kDataLoss;
    default: return Code::kIo;
  }
}

}  // namespace

bool IsStarting(const driver::DriverState& state) noexcept {
  return !state.up && state.fault == Fault::kNone;
}

Status StatusOf(const driver::DriverState& state) {
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

void ReaderSeries::Declare(SeriesTable& table) {
  entity_ = MakeRef<Entity>("reader", AttributeSet({{"reader", driver_}}));
  up_ = table.Declare(kSelfDriverUp, entity_);
  heartbeat_ = table.Declare(kSelfDriverHeartbeatAge, entity_);
  hung_ = table.Declare(kSelfDriverCallsHung, entity_);
  used_ = table.Declare(kSelfDriverDevices, entity_, {{"state", "used"}});
  left_out_ = table.Declare(kSelfDriverDevices, entity_, {{"state", "left_out"}});
  files_ = table.Declare(kSelfDriverFiles, entity_);
  unread_ = table.Declare(kSelfDriverDevices, entity_, {{"state", "unread"}});
  for (size_t i = 0; i < starts_.size(); ++i) {
    starts_[i] = table.Declare(kSelfDriverStarts, entity_,
                               {{"reason", driver::StartReasonName(static_cast<StartReason>(i))}});
  }
  for (size_t i = 0; i < kStatuses; ++i) {
    fields_[i] = table.Declare(kSelfDriverFields, entity_, {{"status", kFieldStatuses[i].second}});
  }
}

void ReaderSeries::Update(const driver::DriverSource& source, FrameWriter& out) {
  if (!entity_) Declare(out.table());
  const driver::DriverState& state = source.driver();
  out.Set(up_, state.up ? 1 : 0);
  if (state.last_heartbeat_boot_ns != 0) {
    out.Set(heartbeat_, static_cast<double>(out.read_at().boot_ns - state.last_heartbeat_boot_ns) * 1e-9);
  }
  // The thread that waits for events hangs in one call at a time, as that of a device does.
  out.Set(hung_, state.hung + (state.waiting_call != driver::kNoCall ? 1U : 0U));
  out.Set(used_, state.used);
  out.Set(left_out_, state.left_out);
  out.Set(unread_, state.unread);
  if (state.files != 0) out.Set(files_, state.files);
  // A library that tells no events has none to watch.
  if (!watched_ && state.watched > 0)
    watched_ = out.table().Declare(kSelfDriverDevices, entity_, {{"state", "watched"}});
  if (watched_ && state.up) out.Set(watched_, state.watched);
  for (size_t i = 0; i < starts_.size(); ++i) out.Set(starts_[i], state.starts[i]);
  auto by_status = source.FieldsByStatus();
  for (size_t i = 0; i < kStatuses; ++i) {
    out.Set(fields_[i], by_status[static_cast<size_t>(kFieldStatuses[i].first)]);
  }
}

}  // namespace gpulens
