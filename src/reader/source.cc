#include "reader/source.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/process.h"
#include "base/text.h"

namespace gpulens::reader {
namespace {

constexpr size_t kMaxStuck = 4;
constexpr size_t kMaxChanges = 64;
constexpr int kMaxLostRetryFactor = 16;
constexpr int kMessagesPerPoll = 4096;  // More than any reader process sends in an interval.

SourceOptions WithDeadline(SourceOptions options) {
  if (options.deadline <= Duration(0)) options.deadline = options.interval * 2;
  return options;
}

}  // namespace

ReaderSource::ReaderSource(const VendorTables& vendor, SourceOptions options,
                           std::unique_ptr<VendorState> state)
    : vendor_(vendor),
      options_(WithDeadline(std::move(options))),
      vendor_state_(state ? std::move(state) : std::make_unique<PlainVendorState>()),
      table_(vendor, *vendor_state_),
      crashes_({options_.interval, options_.deadline, options_.healthy, options_.retry_left_out}),
      buffer_(kMaxMessage + 1),
      backoff_({.initial = options_.backoff_first, .cap = options_.backoff_limit, .jitter = 0}, 0) {
  retry_lost_ = options_.retry_lost;
}

void ReaderSource::Poll(Instant now) {
  bool paused = last_poll_ns_ != 0 && now.boot_ns - last_poll_ns_ > options_.deadline.count();
  last_poll_ns_ = now.boot_ns;
  if (pid_t pid = reaper_.Reap(now, state_.stuck_pids); pid > 0)
    Change(ReaderChange::kStuck, "process " + std::to_string(pid) + " cannot be stopped");
  if (link_.child.running()) {
    if (paused) alive_ns_ = now.boot_ns;
    Drain(now);
    if (link_.child.running()) CheckEnd(now);
    if (link_.child.running() && !paused) CheckDeadlines(now);
    if (link_.child.running()) BeginNext(now);
    if (link_.child.running()) RetryLeftOut(now);
    if (link_.child.running()) RetryAway(now);
  }
  if (!link_.child.running() && !suspended_ && now.boot_ns >= next_start_ns_) Start(now);
  state_.hung = table_.hung();
}

void ReaderSource::Reload() {
  next_start_ns_ = 0;
  if (!link_.child.running()) return;
  End();
  next_reason_ = StartReason::kReload;
}

void ReaderSource::Suspend(std::string why) {
  if (suspended_) return;
  suspended_ = true;
  if (link_.child.running()) End();
  next_reason_ = StartReason::kReload;
  Change(ReaderChange::kReleased, why);
  Fail(ReaderFault::kReleased, std::move(why));
}

void ReaderSource::Resume() {
  if (suspended_) Fail(ReaderFault::kNone, "");
  suspended_ = false;
  next_start_ns_ = 0;
  backoff_.Reset();  // What crashed before may have been repaired meanwhile.
  ForgetFaults();
}

bool ReaderSource::quiet() const noexcept { return !link_.child.running() && reaper_.empty(); }

void ReaderSource::TakeChanges(std::vector<ReaderChange>& out) {
  out.clear();
  std::swap(out, changes_);
}

std::string ReaderSource::Trouble(Instant now) const {
  if (state_.waiting_call == kNoCall) return {};
  return std::string(vendor_.call_name(state_.waiting_call)) + " has not returned for " +
         std::to_string((now.boot_ns - state_.waiting_since_boot_ns) / 1'000'000'000) +
         " s: no events are reported";
}

int64_t ReaderSource::NextDueBootNs() const noexcept {
  if (suspended_) return INT64_MAX;
  if (!link_.child.running()) return next_start_ns_;
  return alive_ns_ + options_.deadline.count();
}

void ReaderSource::Start(Instant now) {
  if (state_.stuck_pids.size() >= kMaxStuck) {
    Fail(ReaderFault::kStuckInKernel,
         "processes that read the devices are stuck in the kernel; a reboot may be needed");
    next_start_ns_ = now.boot_ns + options_.backoff_limit.count();
    return;
  }
  crashes_.Start(now);
  ReaderLink::StartOptions how{.left_out = table_.Begin(now, options_.retry_left_out),
                               .watch = crashes_.waits_for_events()};
  CountDevices();
  if (crashes_.one_by_one()) how.left_out = ~uint64_t{0};
  to_begin_ = 0;
  ++state_.starts[static_cast<size_t>(next_reason_)];
  started_ns_ = alive_ns_ = now.boot_ns;
  spoke_ = reported_ = ready_ = false;
  Status status = link_.Start(options_, how);
  if (!status) {
    Fail(ReaderFault::kCannotStart, status.detail);
    Schedule(StartReason::kExited, now);
    return;
  }
  state_.pid = link_.child.pid();
  Change(ReaderChange::kStarted, "");
}

void ReaderSource::Change(ReaderChange::Kind kind, std::string detail) {
  if (changes_.size() < kMaxChanges) changes_.push_back({kind, last_poll_ns_, std::move(detail)});
}

// Kills without waiting. What the kernel does not end at once is reaped by a later Poll.
void ReaderSource::End() {
  reaper_.Take(std::move(link_.child), last_poll_ns_);
  link_.Close();
  link_.child = ChildProcess();
  ClearProcess();
}

void ReaderSource::ClearProcess() noexcept {
  state_.pid = -1;
  state_.up = false;
  state_.waiting_call = kNoCall;
  state_.watched = 0;
  state_.memory = state_.files = state_.threads = 0;
}

void ReaderSource::Schedule(StartReason reason, Instant now) {
  if (now.boot_ns - started_ns_ >= options_.healthy.count()) backoff_.Reset();
  backoff_.SetCap(ready_ ? std::min(options_.backoff_limit, options_.backoff_limit_answering)
                         : options_.backoff_limit);
  next_reason_ = reason;
  next_start_ns_ = now.boot_ns + backoff_.Next().count();
}

std::string ReaderSource::Use() const {
  return ": it used " + std::to_string(state_.memory >> 20) + " MiB of memory, " +
         std::to_string(state_.files) + " open files and " + std::to_string(state_.threads) +
         " threads, more than allowed";
}

// Finds the call that has ended the process, or keeps it from answering, and counts it. The message
// goes behind "reader process 17 ended". `in_call`: the process is stopped where it failed.
std::string ReaderSource::Blame(bool in_call, Instant now) {
  if (!ready_ || !link_.started()) return {};
  const CrashCulprit culprit = crashes_.Blame(link_.page(), in_call, now);
  const bool named = culprit.call != kNoCall;
  std::string text = named ? " in " + std::string(vendor_.call_name(culprit.call)) : "";
  switch (culprit.who) {
    case CrashCulprit::kUnknown: return {};
    case CrashCulprit::kMain: return text;
    case CrashCulprit::kDevice:
      text = (named ? " in " : ", the last begun was ") + table_.CallOn(culprit.call, culprit.device);
      return table_.TakeEnd(culprit.device, now) ? text + ", which is left out for a while" : text;
    case CrashCulprit::kWaiting: break;
  }
  if (!named) text = " outside of any " + std::string(vendor_.device) + "'s calls";
  return crashes_.waits_for_events() ? text : text + ": events of the library are no longer read";
}

void ReaderSource::ForgetFaults() noexcept {
  table_.ForgetFaults();
  crashes_.Forget();
}

void ReaderSource::Kill(ReaderFault fault, std::string text, StartReason reason, Instant now) {
  Change(fault == ReaderFault::kHung ? ReaderChange::kHung : ReaderChange::kCrashed, text);
  Fail(fault, std::move(text));
  End();
  Schedule(reason, now);
}

void ReaderSource::Fail(ReaderFault fault, std::string text) {
  state_.fault = fault;
  state_.last_error = std::move(text);
  state_.up = false;
}

void ReaderSource::CheckEnd(Instant now) {
  int pid = link_.child.pid();
  std::optional<int> status = link_.child.TryWait();
  if (!status) return;
  Drain(now);  // Its last words.
  bool exited = WIFEXITED(*status);
  int signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
  bool killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
  bool recount = exited && WEXITSTATUS(*status) == kRecountExit;
  // One that has gone to its end by itself is not stopped where it failed.
  bool beyond = exited && WEXITSTATUS(*status) == kBeyondExit;
  std::string where = beyond ? Use() : recount || killed ? "" : Blame(!exited, now);
  link_.Close();
  ClearProcess();
  if (recount) {
    ForgetFaults();
    next_reason_ = StartReason::kReload;
    next_start_ns_ = now.boot_ns + options_.backoff_first.count();
    return;
  }
  // What the library reported is more than how the process ended.
  if (!exited || !reported_) {
    ReaderFault fault = exited && !spoke_ ? ReaderFault::kCannotStart : ReaderFault::kCrashed;
    Fail(fault, "reader process " + std::to_string(pid) + " " + DescribeWaitStatus(*status) + where);
  }
  if (!reported_) Change(killed ? ReaderChange::kKilled : ReaderChange::kCrashed, state_.last_error);
  Schedule(exited ? StartReason::kExited : killed ? StartReason::kKilled : StartReason::kCrash, now);
}

void ReaderSource::Drain(Instant now) {
  for (int i = 0; i < kMessagesPerPoll && link_.socket; ++i) {
    ssize_t size = ::recv(link_.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;  // Nothing there; or the end, which CheckEnd sees as soon as it is one.
    ++state_.messages;
    if (static_cast<size_t>(size) > kMaxMessage) {
      return Kill(ReaderFault::kBadMessage, "driver message: over 64 KiB" + Blame(false, now),
                  StartReason::kProtocol, now);
    }
    auto bytes = std::span(buffer_).first(static_cast<size_t>(size));
    Result<ReaderMessage> message = DecodeMessage(bytes, vendor_);
    Status status = message ? Take(*message, now) : message.error();
    if (!status)
      return Kill(ReaderFault::kBadMessage, status.detail + Blame(false, now), StartReason::kProtocol, now);
  }
}

Status ReaderSource::Take(const ReaderMessage& message, Instant now) {
  spoke_ = true;
  if (const auto* beat = std::get_if<HeartbeatMessage>(&message)) return TakeHeartbeat(*beat, now);
  if (const auto* library = std::get_if<LibraryReport>(&message)) return TakeLibrary(*library);
  if (const auto* hello = std::get_if<HelloMessage>(&message)) {
    if (hello->protocol == kProtocolVersion) return Status{};
    return {Code::kDataLoss, "the reader process uses protocol " + std::to_string(hello->protocol)};
  }
  if (std::holds_alternative<AttachRequest>(message)) return BadMessage("unexpected request");
  Status status = table_.Take(message, now);
  if (std::holds_alternative<DeviceReport>(message)) CountDevices();
  return status;
}

Status ReaderSource::TakeHeartbeat(const HeartbeatMessage& beat, Instant now) {
  alive_ns_ = std::max(alive_ns_, std::min(beat.boot_ns, now.boot_ns));
  state_.last_heartbeat_boot_ns = alive_ns_;
  state_.library_calls = beat.calls;
  state_.dropped_messages = beat.dropped;
  state_.memory = beat.memory;
  state_.files = beat.files;
  state_.threads = beat.threads;
  if (state_.waiting_call == kNoCall) state_.watched = beat.watched;
  return Status{};
}

Status ReaderSource::TakeLibrary(const LibraryReport& report) {
  state_.library_path = report.path;
  state_.library_code = report.code;
  if (report.fault != ReaderFault::kNone) {
    std::string text;
    AppendPrintable(text, report.detail);
    Fail(report.fault, std::move(text));
    reported_ = true;
    return Status{};
  }
  state_.library_version = report.library_version;
  state_.driver_version = report.driver_version;
  state_.runtime_version = report.runtime_version;
  state_.up = ready_ = true;
  state_.fault = report.devices == 0 ? ReaderFault::kNoDevices : ReaderFault::kNone;
  state_.last_error = report.devices == 0 ? vendor_.no_devices : "";
  table_.Expect(report.devices);
  CountDevices();
  if (!crashes_.one_by_one()) return Status{};
  for (const DeviceEntry& device : table_.devices()) {
    if (device.counted && device.state != DeviceState::kLeftOut) to_begin_ |= uint64_t{1} << device.index;
  }
  next_begin_ns_ = last_poll_ns_ + options_.interval.count();
  return Status{};
}

void ReaderSource::CountDevices() noexcept {
  state_.used = table_.used();
  state_.left_out = table_.left_out();
  state_.unread = table_.unread();
}

void ReaderSource::CheckDeadlines(Instant now) {
  const CallPage& page = link_.page();
  CallSlot::View main = page.main.Read();
  int64_t silent = now.boot_ns - alive_ns_;
  Duration slow = std::max(options_.slow_deadline, options_.deadline);
  if (silent > (ready_ ? options_.deadline : slow).count()) {
    std::string text = "reader process " + std::to_string(state_.pid) + " has been silent for " +
                       std::to_string(silent / 1'000'000) + " ms";
    if (main.call != kNoCall) {
      text += ", in " + std::string(vendor_.call_name(main.call));
      ++state_.hung_calls;
    } else {
      text += Blame(true, now);
    }
    return Kill(ReaderFault::kHung, std::move(text), StartReason::kHang, now);
  }
  if (!ready_) return;
  DeviceTable::Hangs hangs = table_.CheckCalls(page, {.usual = options_.deadline, .slow = slow}, now);
  state_.hung_calls += hangs.started;
  CheckWaiting(page.waiting.Read(), now);
  if (!hangs.all) return;
  Kill(ReaderFault::kHung, table_.AllHang(), StartReason::kHang, now);
}

// The devices are read all the same: it is logged, and nothing else is done about it.
void ReaderSource::CheckWaiting(CallSlot::View slot, Instant now) {
  bool beyond = slot.call != kNoCall &&
                now.boot_ns - slot.since_boot_ns > (vendor_.longest_wait + options_.deadline).count();
  state_.hung_calls += beyond && state_.waiting_call == kNoCall;
  state_.waiting_call = beyond ? slot.call : kNoCall;
  state_.waiting_since_boot_ns = slot.since_boot_ns;
  if (beyond) state_.watched = 0;
}

// Has the reader read a device from now on. One at a time and not at once after the last one: an end
// of the process then shows which it was.
bool ReaderSource::BeginDevice(uint32_t index, Instant now) {
  MessageEncoder encoder;
  auto bytes = encoder.Encode(AttachRequest{.device = index});
  if (::send(link_.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return false;
  crashes_.Begun(index, now);
  next_begin_ns_ = now.boot_ns + options_.interval.count();
  return true;
}

void ReaderSource::BeginNext(Instant now) {
  if (!ready_ || to_begin_ == 0 || now.boot_ns < next_begin_ns_) return;
  const auto index = static_cast<uint32_t>(std::countr_zero(to_begin_));
  if (BeginDevice(index, now)) to_begin_ &= ~(uint64_t{1} << index);
}

void ReaderSource::RetryLeftOut(Instant now) {
  if (!ready_ || state_.left_out == 0 || to_begin_ != 0 || now.boot_ns < next_begin_ns_) return;
  uint32_t index = table_.DueForRetry(now);
  if (index == kMaxDevices || !BeginDevice(index, now)) return;
  table_.Retry(index, now);
  CountDevices();
}

// A library that has lost a device does not find it again, and a call that hangs ends with its process.
// Where the kernel does not let go of such a process, another one would hang as well.
void ReaderSource::RetryAway(Instant now) {
  if (!ready_ || !table_.AnyAway() || !state_.stuck_pids.empty()) {
    away_since_ns_ = 0;
    if (ready_ && now.boot_ns - started_ns_ >= options_.healthy.count()) retry_lost_ = options_.retry_lost;
    return;
  }
  if (away_since_ns_ == 0) away_since_ns_ = now.boot_ns;
  if (now.boot_ns - away_since_ns_ < retry_lost_.count()) return;
  away_since_ns_ = 0;
  retry_lost_ = std::min(retry_lost_ * 2, options_.retry_lost * kMaxLostRetryFactor);
  Reload();
}

std::array<uint32_t, kReadStatusCount> ReaderSource::FieldsByStatus() const noexcept {
  std::array<uint32_t, kReadStatusCount> counts{};
  for (const DeviceEntry& device : devices()) {
    for (const FieldReading& field : device.fields) ++counts[static_cast<size_t>(field.status)];
  }
  return counts;
}

}  // namespace gpulens::reader
