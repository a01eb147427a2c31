#include "driver/source.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "base/process.h"
#include "base/text.h"
#include "driver/device_book.h"
#include "driver/driver_link.h"

namespace gpulens::driver {
namespace {

constexpr size_t kMaxStuck = 4;
constexpr int64_t kDyingNs = 1'000'000'000;
constexpr int kMessagesPerPoll = 4096;  // More than any driver sends in an interval: a flood ends here.

}  // namespace

class DriverSource::Impl {
 public:
  Impl(const Vendor& vendor, SourceOptions options)
      : vendor_(vendor), options_(std::move(options)), book_(vendor), buffer_(kMaxMessage + 1) {
    if (options_.deadline <= Duration(0)) options_.deadline = options_.interval * 2;
    backoff_ = options_.backoff_first;
  }

  void Poll(Instant now) {
    bool paused = last_poll_ns_ != 0 && now.boot_ns - last_poll_ns_ > options_.deadline.count();
    last_poll_ns_ = now.boot_ns;
    ReapDying(now);
    if (link_.child.running()) {
      if (paused) alive_ns_ = now.boot_ns;
      Drain(now);
      if (link_.child.running()) CheckEnd(now);
      if (link_.child.running() && !paused) CheckDeadlines(now);
      if (link_.child.running()) RetryLeftOut(now);
    }
    if (!link_.child.running() && !suspended_ && now.boot_ns >= next_start_ns_) Start(now);
  }

  void Reload() {
    next_start_ns_ = 0;
    if (!link_.child.running()) return;
    End();
    next_reason_ = StartReason::kReload;
  }

  void Suspend() {
    suspended_ = true;
    if (link_.child.running()) End();
    next_reason_ = StartReason::kReload;
  }
  void Resume() {
    suspended_ = false;
    next_start_ns_ = 0;
  }

  std::span<const Device> devices() const noexcept { return book_.devices(); }
  const DriverState& driver() const noexcept { return driver_; }
  int fd() const noexcept { return link_.socket.get(); }

  int64_t NextDue() const noexcept {
    if (suspended_) return INT64_MAX;
    if (!link_.child.running()) return next_start_ns_;
    return alive_ns_ + options_.deadline.count();
  }

 private:
  struct Dying {
    ChildProcess child;
    int64_t since_ns;
  };

  void Start(Instant now) {
    if (driver_.stuck_pids.size() >= kMaxStuck) {
      Fail(Fault::kStuckInKernel,
           "processes that read the devices are stuck in the kernel; a reboot may be needed");
      next_start_ns_ = now.boot_ns + options_.backoff_limit.count();
      return;
    }
    uint64_t left_out = book_.Begin(now, options_.retry_left_out);
    CountDevices();
    ++driver_.starts[static_cast<size_t>(next_reason_)];
    started_ns_ = alive_ns_ = now.boot_ns;
    spoke_ = told_ = ready_ = false;
    Status status = link_.Start(options_, left_out);
    if (!status) {
      Fail(Fault::kCannotStart, status.detail);
      Schedule(StartReason::kExited, now);
      return;
    }
    driver_.pid = link_.child.pid();
  }

  // Kills without waiting. What the kernel does not end at once is reaped by a later Poll.
  void End() {
    link_.child.Signal(SIGKILL);
    link_.Close();
    if (link_.child.running() && !link_.child.TryWait()) {
      dying_.push_back({std::move(link_.child), last_poll_ns_});
    }
    link_.child = ChildProcess();
    driver_.pid = -1;
    driver_.up = false;
  }

  // A process that was killed ends within milliseconds, unless it is stuck in the kernel (state D).
  void ReapDying(Instant now) {
    if (dying_.empty()) return;
    std::erase_if(dying_, [](Dying& dying) { return dying.child.TryWait().has_value(); });
    driver_.stuck_pids.clear();
    for (const Dying& dying : dying_) {
      if (now.boot_ns - dying.since_ns > kDyingNs) driver_.stuck_pids.push_back(dying.child.pid());
    }
  }

  void Schedule(StartReason reason, Instant now) {
    if (now.boot_ns - started_ns_ >= options_.healthy.count()) backoff_ = options_.backoff_first;
    next_reason_ = reason;
    next_start_ns_ = now.boot_ns + backoff_.count();
    backoff_ = std::min(backoff_ * 2, options_.backoff_limit);
  }

  void Kill(Fault fault, std::string text, StartReason reason, Instant now) {
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
    link_.Close();
    driver_.pid = -1;
    driver_.up = false;
    bool exited = WIFEXITED(*status);
    int signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
    // What the library said is more than how the process ended.
    if (!exited || !told_) {
      Fault fault = exited && !spoke_ ? Fault::kCannotStart : Fault::kCrashed;
      Fail(fault, "driver process " + std::to_string(pid) + " " + DescribeWaitStatus(*status));
    }
    bool killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    Schedule(exited ? StartReason::kExited : killed ? StartReason::kKilled : StartReason::kCrash, now);
  }

  void Drain(Instant now) {
    for (int i = 0; i < kMessagesPerPoll && link_.socket; ++i) {
      ssize_t size = ::recv(link_.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;  // Nothing there; or the end, which CheckEnd sees as soon as it is one.
      ++driver_.messages;
      if (static_cast<size_t>(size) > kMaxMessage) {
        return Kill(Fault::kBadMessage, "driver message: over 64 KiB", StartReason::kProtocol, now);
      }
      auto bytes = std::span(buffer_).first(static_cast<size_t>(size));
      Result<Message> message = DecodeMessage(bytes, vendor_.fields.size());
      Status status = message ? Take(*message, now) : message.error();
      if (!status) return Kill(Fault::kBadMessage, status.detail, StartReason::kProtocol, now);
    }
  }

  Status Take(const Message& message, Instant now) {
    spoke_ = true;
    if (const auto* readings = std::get_if<ReadingsReport>(&message)) return book_.Take(*readings, now);
    if (const auto* beat = std::get_if<Heartbeat>(&message)) return TakeHeartbeat(*beat, now);
    if (const auto* list = std::get_if<ProcessesReport>(&message)) return book_.Take(*list, now);
    if (const auto* device = std::get_if<DeviceReport>(&message)) {
      Status status = book_.Take(*device);
      CountDevices();
      return status;
    }
    if (const auto* library = std::get_if<LibraryReport>(&message)) return TakeLibrary(*library);
    if (const auto* hello = std::get_if<Hello>(&message)) {
      if (hello->protocol == kProtocolVersion) return Status{};
      return {Code::kDataLoss, "driver speaks protocol " + std::to_string(hello->protocol)};
    }
    return {Code::kDataLoss, "driver message: a request came back"};
  }

  Status TakeHeartbeat(const Heartbeat& beat, Instant now) {
    alive_ns_ = std::max(alive_ns_, std::min(beat.boot_ns, now.boot_ns));
    driver_.last_heartbeat_boot_ns = alive_ns_;
    driver_.library_calls = beat.calls;
    driver_.dropped_messages = beat.dropped;
    return Status{};
  }

  Status TakeLibrary(const LibraryReport& report) {
    driver_.library_path = report.path;
    driver_.library_code = report.code;
    if (report.fault != Fault::kNone) {
      std::string text;
      AppendPrintable(text, report.detail);
      Fail(report.fault, std::move(text));
      told_ = true;
      return Status{};
    }
    driver_.library_version = report.library_version;
    driver_.driver_version = report.driver_version;
    driver_.runtime_version = report.runtime_version;
    driver_.up = ready_ = true;
    driver_.fault = report.devices == 0 ? Fault::kNoDevices : Fault::kNone;
    driver_.last_error = report.devices == 0 ? vendor_.no_devices : "";
    book_.Expect(report.devices);
    CountDevices();
    return Status{};
  }

  void CountDevices() noexcept {
    driver_.used = book_.used();
    driver_.left_out = book_.left_out();
  }

  void CheckDeadlines(Instant now) {
    const CallPage& page = link_.page();
    CallSlot::View main = page.main.Read();
    int64_t silent = now.boot_ns - alive_ns_;
    Duration slow = std::max(options_.slow_deadline, options_.deadline);
    if (silent > (ready_ ? options_.deadline : slow).count()) {
      std::string text = "driver process " + std::to_string(driver_.pid) + " has been silent for " +
                         std::to_string(silent / 1'000'000) + " ms";
      if (main.call != kNoCall) {
        text += ", in " + std::string(vendor_.call_name(main.call));
        ++driver_.hung_calls;
      }
      return Kill(Fault::kHung, std::move(text), StartReason::kHang, now);
    }
    if (!ready_) return;
    DeviceBook::Hangs hangs = book_.CheckCalls(page, {.usual = options_.deadline, .slow = slow}, now);
    driver_.hung_calls += hangs.started;
    if (!hangs.all) return;
    Kill(Fault::kHung, "every device hangs, the first in " + book_.HungCall(), StartReason::kHang, now);
  }

  void RetryLeftOut(Instant now) {
    while (ready_ && driver_.left_out > 0) {
      uint32_t index = book_.DueForRetry(now, options_.retry_left_out);
      if (index == kMaxDevices) return;
      MessageEncoder encoder;
      auto bytes = encoder.Encode(AttachRequest{.device = index});
      if (::send(link_.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
      book_.Retry(index);
      CountDevices();
    }
  }

  const Vendor& vendor_;
  SourceOptions options_;
  DriverLink link_;
  DriverState driver_;
  DeviceBook book_;
  std::vector<std::byte> buffer_;
  std::vector<Dying> dying_;
  Duration backoff_{};
  StartReason next_reason_ = StartReason::kFirst;
  int64_t next_start_ns_ = 0, started_ns_ = 0, alive_ns_ = 0, last_poll_ns_ = 0;
  bool suspended_ = false, spoke_ = false, told_ = false, ready_ = false;
};

DriverSource::DriverSource(const Vendor& vendor, SourceOptions options)
    : impl_(std::make_unique<Impl>(vendor, std::move(options))) {}
DriverSource::~DriverSource() = default;
void DriverSource::Poll(Instant now) { impl_->Poll(now); }
void DriverSource::Reload() { impl_->Reload(); }
void DriverSource::Suspend() { impl_->Suspend(); }
void DriverSource::Resume() { impl_->Resume(); }
std::span<const Device> DriverSource::devices() const noexcept { return impl_->devices(); }
const DriverState& DriverSource::driver() const noexcept { return impl_->driver(); }
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
