#include "reader/source.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/backoff.h"
#include "base/process.h"
#include "base/text.h"
#include "reader/crash_history.h"
#include "reader/device_table.h"
#include "reader/driver_link.h"
#include "reader/reaper.h"

namespace gpulens::driver {
namespace {

constexpr size_t kMaxStuck = 4;
constexpr size_t kMaxChanges = 64;
constexpr int kMaxLostRetryFactor = 16;
constexpr int kMessagesPerPoll = 4096;  // More than any driver sends in an interval: a flood ends here.

SourceOptions WithDeadline(SourceOptions options) {
  if (options.deadline <= Duration(0)) options.deadline = options.interval * 2;
  return options;
}

}  // namespace

class DriverSource::Impl {
 public:
  Impl(const Vendor& vendor, SourceOptions options, std::unique_ptr<VendorState> state)
      : vendor_(vendor),
        options_(WithDeadline(std::move(options))),
        vendor_state_(state ? std::move(state) : std::make_unique<PlainVendorState>()),
        table_(vendor, *vendor_state_),
        crashes_({options_.interval, options_.deadline, options_.healthy, options_.retry_left_out}),
        buffer_(kMaxMessage + 1),
        backoff_({.initial = options_.backoff_first, .cap = options_.backoff_limit, .jitter = 0}, 0) {
    retry_lost_ = options_.retry_lost;
  }

  void Poll(Instant now) {
    bool paused = last_poll_ns_ != 0 && now.boot_ns - last_poll_ns_ > options_.deadline.count();
    last_poll_ns_ = now.boot_ns;
    if (pid_t pid = reaper_.Look(now, driver_.stuck_pids); pid > 0)
      Change(DriverChange::kStuck, "process " + std::to_string(pid) + " cannot be stopped");
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
    driver_.hung = table_.hung();
  }

  void Reload() {
    next_start_ns_ = 0;
    if (!link_.child.running()) return;
    End();
    next_reason_ = StartReason::kReload;
  }

  void Suspend(std::string why) {
    if (suspended_) return;
    suspended_ = true;
    if (link_.child.running()) End();
    next_reason_ = StartReason::kReload;
    Change(DriverChange::kReleased, why);
    Fail(Fault::kReleased, std::move(why));
  }
  void Resume() {
    if (suspended_) Fail(Fault::kNone, "");
    suspended_ = false;
    next_start_ns_ = 0;
    backoff_.Reset();  // What crashed before may have been repaired meanwhile.
    ForgetFaults();
  }
  bool quiet() const noexcept { return !link_.child.running() && reaper_.empty(); }

  void TakeChanges(std::vector<DriverChange>& out) {
    out.clear();
    std::swap(out, changes_);
  }

  std::string Trouble(Instant now) const {
    if (driver_.waiting_call == kNoCall) return {};
    return std::string(vendor_.call_name(driver_.waiting_call)) + " has not returned for " +
           std::to_string((now.boot_ns - driver_.waiting_since_boot_ns) / 1'000'000'000) +
           " s: no events are reported";
  }

  Devices devices() const noexcept { return table_.devices(); }
  const DriverState& driver() const noexcept { return driver_; }
  int fd() const noexcept { return link_.socket.get(); }

  int64_t NextDue() const noexcept {
    if (suspended_) return INT64_MAX;
    if (!link_.child.running()) return next_start_ns_;
    return alive_ns_ + options_.deadline.count();
  }

 private:
  void Start(Instant now) {
    if (driver_.stuck_pids.size() >= kMaxStuck) {
      Fail(Fault::kStuckInKernel,
           "processes that read the devices are stuck in the kernel; a reboot may be needed");
      next_start_ns_ = now.boot_ns + options_.backoff_limit.count();
      return;
    }
    crashes_.Start(now);
    DriverLink::How how{.left_out = table_.Begin(now, options_.retry_left_out),
                        .watch = crashes_.waits_for_events()};
    CountDevices();
    if (crashes_.one_by_one()) how.left_out = ~uint64_t{0};
    to_begin_ = 0;
    ++driver_.starts[static_cast<size_t>(next_reason_)];
    started_ns_ = alive_ns_ = now.boot_ns;
    spoke_ = reported_ = ready_ = false;
    Status status = link_.Start(options_, how);
    if (!status) {
      Fail(Fault::kCannotStart, status.detail);
      Schedule(StartReason::kExited, now);
      return;
    }
    driver_.pid = link_.child.pid();
    Change(DriverChange::kStarted, "");
  }

  void Change(DriverChange::Kind kind, std::string detail) {
    if (changes_.size() < kMaxChanges) changes_.push_back({kind, last_poll_ns_, std::move(detail)});
  }

  // Kills without waiting. What the kernel does not end at once is reaped by a later Poll.
  void End() {
    reaper_.Take(std::move(link_.child), last_poll_ns_);
    link_.Close();
    link_.child = ChildProcess();
    NotRunning();
  }

  void NotRunning() noexcept {
    driver_.pid = -1;
    driver_.up = false;
    driver_.waiting_call = kNoCall;
    driver_.watched = 0;
    driver_.memory = driver_.files = driver_.threads = 0;
  }

  void Schedule(StartReason reason, Instant now) {
    if (now.boot_ns - started_ns_ >= options_.healthy.count()) backoff_.Reset();
    backoff_.SetCap(ready_ ? std::min(options_.backoff_limit, options_.backoff_limit_answering)
                           : options_.backoff_limit);
    next_reason_ = reason;
    next_start_ns_ = now.boot_ns + backoff_.Next().count();
  }

  std::string Use() const {
    return ": it used " + std::to_string(driver_.memory >> 20) + " MiB of memory, " +
           std::to_string(driver_.files) + " open files and " + std::to_string(driver_.threads) +
           " threads, more than allowed";
  }

  // Finds the call that has ended the process, or keeps it from answering, and counts it. What is to be said
  // of it goes behind "reader process 17 ended". `in_call`: the process stands still where it failed.
  std::string Blame(bool in_call, Instant now) {
    if (!ready_ || !link_.started()) return {};
    const Culprit culprit = crashes_.Blame(link_.page(), in_call, now);
    const bool named = culprit.call != kNoCall;
    std::string text = named ? " in " + std::string(vendor_.call_name(culprit.call)) : "";
    switch (culprit.who) {
      case Culprit::kUnknown: return {};
      case Culprit::kMain: return text;
      case Culprit::kDevice:
        text = (named ? " in " : ", the last begun was ") + table_.CallOn(culprit.call, culprit.device);
        return table_.TakeEnd(culprit.device, now) ? text + ", which is left out for a while" : text;
      case Culprit::kWaiting: break;
    }
    if (!named) text = " outside of any " + std::string(vendor_.device) + "'s calls";
    return crashes_.waits_for_events() ? text : text + ": events of the library are no longer read";
  }

  void ForgetFaults() noexcept {
    table_.ForgetFaults();
    crashes_.Forget();
  }

  void Kill(Fault fault, std::string text, StartReason reason, Instant now) {
    Change(fault == Fault::kHung ? DriverChange::kHung : DriverChange::kCrashed, text);
    Fail(fault, std::move(text));
    End();
    Schedule(reason, now);
  }

  void Fail(Fault fault, std::string text) {
    driver_.fault = fault;
    driver_.last_error = std::move(text);
    driver_.up = false;
  }

  void CheckEnd(Instant now) {
    int pid = link_.child.pid();
    std::optional<int> status = link_.child.TryWait();
    if (!status) return;
    Drain(now);  // Its last words.
    bool exited = WIFEXITED(*status);
    int signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
    bool killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    bool recount = exited && WEXITSTATUS(*status) == kRecountExit;
    // One that has gone to its end by itself does not stand still where it failed.
    bool beyond = exited && WEXITSTATUS(*status) == kBeyondExit;
    std::string where = beyond ? Use() : recount || killed ? "" : Blame(!exited, now);
    link_.Close();
    NotRunning();
    if (recount) {
      ForgetFaults();
      next_reason_ = StartReason::kReload;
      next_start_ns_ = now.boot_ns + options_.backoff_first.count();
      return;
    }
    // What the library said is more than how the process ended.
    if (!exited || !reported_) {
      Fault fault = exited && !spoke_ ? Fault::kCannotStart : Fault::kCrashed;
      Fail(fault, "reader process " + std::to_string(pid) + " " + DescribeWaitStatus(*status) + where);
    }
    if (!reported_) Change(killed ? DriverChange::kKilled : DriverChange::kCrashed, driver_.last_error);
    Schedule(exited ? StartReason::kExited : killed ? StartReason::kKilled : StartReason::kCrash, now);
  }

  void Drain(Instant now) {
    for (int i = 0; i < kMessagesPerPoll && link_.socket; ++i) {
      ssize_t size = ::recv(link_.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;  // Nothing there; or the end, which CheckEnd sees as soon as it is one.
      ++driver_.messages;
      if (static_cast<size_t>(size) > kMaxMessage) {
        return Kill(Fault::kBadMessage, "driver message: over 64 KiB" + Blame(false, now),
                    StartReason::kProtocol, now);
      }
      auto bytes = std::span(buffer_).first(static_cast<size_t>(size));
      Result<Message> message = DecodeMessage(bytes, vendor_);
      Status status = message ? Take(*message, now) : message.error();
      if (!status)
        return Kill(Fault::kBadMessage, status.detail + Blame(false, now), StartReason::kProtocol, now);
    }
  }

  Status Take(const Message& message, Instant now) {
    spoke_ = true;
    if (const auto* beat = std::get_if<Heartbeat>(&message)) return TakeHeartbeat(*beat, now);
    if (const auto* library = std::get_if<LibraryReport>(&message)) return TakeLibrary(*library);
    if (const auto* hello = std::get_if<Hello>(&message)) {
      if (hello->protocol == kProtocolVersion) return Status{};
      return {Code::kDataLoss, "the reader process uses protocol " + std::to_string(hello->protocol)};
    }
    if (std::holds_alternative<AttachRequest>(message)) return BadMessage("unexpected request");
    Status status = table_.Take(message, now);
    if (std::holds_alternative<DeviceReport>(message)) CountDevices();
    return status;
  }

  Status TakeHeartbeat(const Heartbeat& beat, Instant now) {
    alive_ns_ = std::max(alive_ns_, std::min(beat.boot_ns, now.boot_ns));
    driver_.last_heartbeat_boot_ns = alive_ns_;
    driver_.library_calls = beat.calls;
    driver_.dropped_messages = beat.dropped;
    driver_.memory = beat.memory;
    driver_.files = beat.files;
    driver_.threads = beat.threads;
    if (driver_.waiting_call == kNoCall) driver_.watched = beat.watched;
    return Status{};
  }

  Status TakeLibrary(const LibraryReport& report) {
    driver_.library_path = report.path;
    driver_.library_code = report.code;
    if (report.fault != Fault::kNone) {
      std::string text;
      AppendPrintable(text, report.detail);
      Fail(report.fault, std::move(text));
      reported_ = true;
      return Status{};
    }
    driver_.library_version = report.library_version;
    driver_.driver_version = report.driver_version;
    driver_.runtime_version = report.runtime_version;
    driver_.up = ready_ = true;
    driver_.fault = report.devices == 0 ? Fault::kNoDevices : Fault::kNone;
    driver_.last_error = report.devices == 0 ? vendor_.no_devices : "";
    table_.Expect(report.devices);
    CountDevices();
    if (!crashes_.one_by_one()) return Status{};
    for (const Device& device : table_.devices()) {
      if (device.counted && device.state != DeviceState::kLeftOut) to_begin_ |= uint64_t{1} << device.index;
    }
    next_begin_ns_ = last_poll_ns_ + options_.interval.count();
    return Status{};
  }

  void CountDevices() noexcept {
    driver_.used = table_.used();
    driver_.left_out = table_.left_out();
    driver_.unread = table_.unread();
  }

  void CheckDeadlines(Instant now) {
    const CallPage& page = link_.page();
    CallSlot::View main = page.main.Read();
    int64_t silent = now.boot_ns - alive_ns_;
    Duration slow = std::max(options_.slow_deadline, options_.deadline);
    if (silent > (ready_ ? options_.deadline : slow).count()) {
      std::string text = "reader process " + std::to_string(driver_.pid) + " has been silent for " +
                         std::to_string(silent / 1'000'000) + " ms";
      if (main.call != kNoCall) {
        text += ", in " + std::string(vendor_.call_name(main.call));
        ++driver_.hung_calls;
      } else {
        text += Blame(true, now);
      }
      return Kill(Fault::kHung, std::move(text), StartReason::kHang, now);
    }
    if (!ready_) return;
    DeviceTable::Hangs hangs = table_.CheckCalls(page, {.usual = options_.deadline, .slow = slow}, now);
    driver_.hung_calls += hangs.started;
    CheckWaiting(page.waiting.Read(), now);
    if (!hangs.all) return;
    Kill(Fault::kHung, table_.AllHang(), StartReason::kHang, now);
  }

  // The devices are read all the same: it is told, and nothing else is done about it.
  void CheckWaiting(CallSlot::View slot, Instant now) {
    bool beyond = slot.call != kNoCall &&
                  now.boot_ns - slot.since_boot_ns > (vendor_.longest_wait + options_.deadline).count();
    driver_.hung_calls += beyond && driver_.waiting_call == kNoCall;
    driver_.waiting_call = beyond ? slot.call : kNoCall;
    driver_.waiting_since_boot_ns = slot.since_boot_ns;
    if (beyond) driver_.watched = 0;
  }

  // Tells the driver to read a device from now on. One at a time and not at once after the last one: an end
  // of the process then tells which it was.
  bool BeginDevice(uint32_t index, Instant now) {
    MessageEncoder encoder;
    auto bytes = encoder.Encode(AttachRequest{.device = index});
    if (::send(link_.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return false;
    crashes_.Begun(index, now);
    next_begin_ns_ = now.boot_ns + options_.interval.count();
    return true;
  }

  void BeginNext(Instant now) {
    if (!ready_ || to_begin_ == 0 || now.boot_ns < next_begin_ns_) return;
    const auto index = static_cast<uint32_t>(std::countr_zero(to_begin_));
    if (BeginDevice(index, now)) to_begin_ &= ~(uint64_t{1} << index);
  }

  void RetryLeftOut(Instant now) {
    if (!ready_ || driver_.left_out == 0 || to_begin_ != 0 || now.boot_ns < next_begin_ns_) return;
    uint32_t index = table_.DueForRetry(now);
    if (index == kMaxDevices || !BeginDevice(index, now)) return;
    table_.Retry(index, now);
    CountDevices();
  }

  // A library that has lost a device does not find it again, and a call that hangs ends with its process.
  // Where the kernel does not let go of such a process, another one would hang as well.
  void RetryAway(Instant now) {
    if (!ready_ || !table_.AnyAway() || !driver_.stuck_pids.empty()) {
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

  const Vendor& vendor_;
  SourceOptions options_;
  DriverLink link_;
  DriverState driver_;
  const std::unique_ptr<VendorState> vendor_state_;
  DeviceTable table_;
  CrashHistory crashes_;
  std::vector<std::byte> buffer_;
  Reaper reaper_;
  std::vector<DriverChange> changes_;
  Backoff backoff_;
  Duration retry_lost_{};
  StartReason next_reason_ = StartReason::kFirst;
  int64_t next_start_ns_ = 0, started_ns_ = 0, alive_ns_ = 0, last_poll_ns_ = 0, away_since_ns_ = 0;
  uint64_t to_begin_ = 0;  // Devices that are begun one at a time.
  int64_t next_begin_ns_ = 0;
  bool suspended_ = false, spoke_ = false, reported_ = false, ready_ = false;
};

DriverSource::DriverSource(const Vendor& vendor, SourceOptions options, std::unique_ptr<VendorState> state)
    : impl_(std::make_unique<Impl>(vendor, std::move(options), std::move(state))) {}
DriverSource::~DriverSource() = default;
void DriverSource::Poll(Instant now) { impl_->Poll(now); }
void DriverSource::Reload() { impl_->Reload(); }
void DriverSource::Suspend(std::string why) { impl_->Suspend(std::move(why)); }
void DriverSource::Resume() { impl_->Resume(); }
bool DriverSource::quiet() const noexcept { return impl_->quiet(); }
Devices DriverSource::devices() const noexcept { return impl_->devices(); }
const DriverState& DriverSource::driver() const noexcept { return impl_->driver(); }
void DriverSource::TakeChanges(std::vector<DriverChange>& out) { impl_->TakeChanges(out); }
std::string DriverSource::Trouble(Instant now) const { return impl_->Trouble(now); }
int DriverSource::fd() const noexcept { return impl_->fd(); }
int64_t DriverSource::NextDueBootNs() const noexcept { return impl_->NextDue(); }

std::array<uint32_t, kReadStatusCount> DriverSource::FieldsByStatus() const noexcept {
  std::array<uint32_t, kReadStatusCount> counts{};
  for (const Device& device : devices()) {
    for (const FieldReading& field : device.fields) ++counts[static_cast<size_t>(field.status)];
  }
  return counts;
}

}  // namespace gpulens::driver
