#include "sources/nvml/driver_supervisor.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/process.h"
#include "sources/nvml/driver_link.h"
#include "sources/nvml/gpu_book.h"
#include "sources/nvml/message_encoder.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxStuck = 4;
constexpr int64_t kDyingNs = 1'000'000'000;
constexpr int kRecountExit = 5;  // DriverExit: GPUs have come or gone.
constexpr int kMaxLostRetryFactor = 16;
constexpr int kMessagesPerPoll = 4096;  // More than any driver sends in an interval: a flood ends here.

}  // namespace

class NvmlSource::Impl {
 public:
  explicit Impl(SourceOptions options) : options_(std::move(options)), buffer_(kMaxMessage + 1) {
    if (options_.deadline <= Duration(0)) options_.deadline = options_.interval * 2;
    backoff_ = options_.backoff_first;
    retry_lost_ = options_.retry_lost;
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
      if (link_.child.running()) RetryLost(now);
    }
    if (!link_.child.running() && !suspended_ && now.boot_ns >= next_start_ns_) Start(now);
  }

  void Reload() {
    if (!link_.child.running()) {
      next_start_ns_ = 0;
      return;
    }
    End();
    next_reason_ = StartReason::kReload;
    next_start_ns_ = 0;
  }

  void Suspend(std::string why) {
    if (suspended_) return;
    suspended_ = true;
    if (link_.child.running()) End();
    next_reason_ = StartReason::kReload;
    Change(DriverChange::kReleased, why);
    Fault(DriverFault::kReleased, std::move(why));
  }
  void Resume() {
    if (suspended_) Fault(DriverFault::kNone, "");
    suspended_ = false;
    next_start_ns_ = 0;
    book_.ForgetHangs();
  }
  bool quiet() const noexcept { return !link_.child.running() && dying_.empty(); }

  DriverNotes& notes() noexcept { return notes_; }

  std::span<const Gpu> gpus() const noexcept { return book_.gpus(); }
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
    bool told = false;
  };

  void Start(Instant now) {
    if (driver_.stuck_pids.size() >= kMaxStuck) {
      Fault(DriverFault::kStuckInKernel,
            "processes that read the GPUs are stuck in the kernel; a reboot may be needed");
      next_start_ns_ = now.boot_ns + options_.backoff_limit.count();
      return;
    }
    uint64_t left_out = book_.Begin(now, options_.retry_left_out);
    CountGpus();
    ++driver_.starts[static_cast<size_t>(next_reason_)];
    started_ns_ = alive_ns_ = now.boot_ns;
    spoke_ = told_ = false;
    ready_ = false;
    Status status = link_.Start(options_, left_out);
    if (!status) {
      Fault(DriverFault::kCannotStart, status.detail);
      Schedule(StartReason::kExited, now);
      return;
    }
    driver_.pid = link_.child.pid();
    Change(DriverChange::kStarted, "");
  }

  void Change(DriverChange::Kind kind, std::string detail) {
    notes_.Add({kind, last_poll_ns_, std::move(detail)});
  }

  // Kills without waiting. What the kernel does not end at once is reaped by a later Poll.
  void End() {
    link_.child.Signal(SIGKILL);
    link_.Close();
    if (link_.child.running() && !link_.child.TryWait()) {
      dying_.push_back({std::move(link_.child), last_poll_ns_, false});
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
    for (Dying& dying : dying_) {
      if (now.boot_ns - dying.since_ns <= kDyingNs) continue;
      driver_.stuck_pids.push_back(dying.child.pid());
      if (std::exchange(dying.told, true)) continue;
      Change(DriverChange::kStuck, "process " + std::to_string(dying.child.pid()) + " cannot be ended");
    }
  }

  void Schedule(StartReason reason, Instant now) {
    if (now.boot_ns - started_ns_ >= options_.healthy.count()) backoff_ = options_.backoff_first;
    next_reason_ = reason;
    next_start_ns_ = now.boot_ns + backoff_.count();
    backoff_ = std::min(backoff_ * 2, options_.backoff_limit);
  }

  void Kill(DriverFault fault, std::string text, StartReason reason, Instant now) {
    Change(fault == DriverFault::kHung ? DriverChange::kHung : DriverChange::kCrashed, text);
    Fault(fault, std::move(text));
    End();
    Schedule(reason, now);
  }

  void Fault(DriverFault fault, std::string text) {
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
    if (exited && WEXITSTATUS(*status) == kRecountExit) {
      book_.ForgetHangs();
      next_reason_ = StartReason::kReload;
      next_start_ns_ = now.boot_ns + options_.backoff_first.count();
      return;
    }
    int signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
    // What the library said is more than how the process ended.
    if (!exited || !told_) {
      DriverFault fault = exited && !spoke_ ? DriverFault::kCannotStart : DriverFault::kCrashed;
      Fault(fault, "driver process " + std::to_string(pid) + " " + DescribeWaitStatus(*status));
    }
    bool killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    if (!told_) Change(killed ? DriverChange::kKilled : DriverChange::kCrashed, driver_.last_error);
    Schedule(exited ? StartReason::kExited : killed ? StartReason::kKilled : StartReason::kCrash, now);
  }

  void Drain(Instant now) {
    for (int i = 0; i < kMessagesPerPoll && link_.socket; ++i) {
      ssize_t size = ::recv(link_.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;  // Nothing there; or the end, which CheckEnd sees as soon as it is one.
      ++driver_.messages;
      if (static_cast<size_t>(size) > kMaxMessage) {
        return Kill(DriverFault::kBadMessage, "driver message: over 64 KiB", StartReason::kProtocol, now);
      }
      Result<Message> message = DecodeMessage(std::span(buffer_).first(static_cast<size_t>(size)));
      if (!message)
        return Kill(DriverFault::kBadMessage, message.error().detail, StartReason::kProtocol, now);
      if (Status status = Take(*message, now); !status) {
        return Kill(DriverFault::kBadMessage, status.detail, StartReason::kProtocol, now);
      }
    }
  }

  Status Take(const Message& message, Instant now) {
    spoke_ = true;
    if (const auto* readings = std::get_if<ReadingsReport>(&message)) return book_.Take(*readings, now);
    if (const auto* beat = std::get_if<Heartbeat>(&message)) return TakeHeartbeat(*beat, now);
    if (const auto* list = std::get_if<ProcessesReport>(&message)) return book_.Take(*list, now);
    if (const auto* entity = std::get_if<EntityReport>(&message)) {
      Status status = book_.Take(*entity);
      CountGpus();
      return status;
    }
    if (const auto* library = std::get_if<LibraryReport>(&message)) return TakeLibrary(*library);
    if (const auto* events = std::get_if<EventsReport>(&message)) {
      driver_.events += events->events.size();
      driver_.events_dropped += notes_.Add(*events);
      return Status{};
    }
    if (const auto* parts = std::get_if<PartsReport>(&message)) return book_.Take(*parts);
    if (const auto* part = std::get_if<PartReport>(&message)) return book_.Take(*part);
    if (const auto* values = std::get_if<PartReadingsReport>(&message)) return book_.Take(*values, now);
    if (const auto* shares = std::get_if<ProcessSharesReport>(&message)) return book_.Take(*shares, now);
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
    driver_.gpus_watched = beat.watched;
    return Status{};
  }

  Status TakeLibrary(const LibraryReport& report) {
    driver_.library_path = report.path;
    driver_.library_code = report.code;
    if (report.phase != LibraryPhase::kReady) {
      Fault(FaultOf(report), Sentence(report));
      told_ = true;
      return Status{};
    }
    driver_.library_version = report.library_version;
    driver_.driver_version = report.driver_version;
    driver_.cuda_version = report.cuda_version;
    driver_.up = ready_ = true;
    driver_.fault = report.gpu_count == 0 ? DriverFault::kNoGpus : DriverFault::kNone;
    driver_.last_error = report.gpu_count == 0 ? "the NVIDIA driver sees no GPU" : "";
    book_.Expect(report.gpu_count);
    CountGpus();
    return Status{};
  }

  void CountGpus() noexcept {
    driver_.gpus_used = book_.used();
    driver_.gpus_left_out = book_.left_out();
  }

  void CheckDeadlines(Instant now) {
    const CallPage& page = link_.page();
    CallSlot::View main = page.main.Read();
    int64_t silent = now.boot_ns - alive_ns_;
    Duration limit = ready_ ? options_.deadline : std::max(options_.slow_deadline, options_.deadline);
    if (silent > limit.count()) {
      std::string text = "driver process " + std::to_string(driver_.pid) + " has been silent for " +
                         std::to_string(silent / 1'000'000) + " ms";
      if (main.call != Call::kNone) text += ", in " + std::string(CallName(main.call));
      if (main.call != Call::kNone) ++driver_.hung_calls;
      return Kill(DriverFault::kHung, std::move(text), StartReason::kHang, now);
    }
    if (!ready_) return;
    Duration slow = std::max(options_.slow_deadline, options_.deadline);
    GpuBook::Hangs hangs = book_.CheckCalls(page, {.usual = options_.deadline, .slow = slow}, now);
    driver_.hung_calls += hangs.started;
    if (!hangs.all) return;
    Kill(DriverFault::kHung, "every GPU hangs, the first in " + book_.HungCall(), StartReason::kHang, now);
  }

  void RetryLeftOut(Instant now) {
    while (ready_ && driver_.gpus_left_out > 0) {
      uint32_t index = book_.DueForRetry(now, options_.retry_left_out);
      if (index == kMaxGpus) return;
      MessageEncoder encoder;
      auto bytes = encoder.Encode(AttachRequest{.entity = index});
      if (::send(link_.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
      book_.Retry(index);
      CountGpus();
    }
  }

  // A library that has lost a GPU does not find it again.
  void RetryLost(Instant now) {
    if (!ready_ || !book_.AnyLost()) {
      lost_since_ns_ = 0;
      if (ready_ && now.boot_ns - started_ns_ >= options_.healthy.count()) retry_lost_ = options_.retry_lost;
      return;
    }
    if (lost_since_ns_ == 0) lost_since_ns_ = now.boot_ns;
    if (now.boot_ns - lost_since_ns_ < retry_lost_.count()) return;
    lost_since_ns_ = 0;
    retry_lost_ = std::min(retry_lost_ * 2, options_.retry_lost * kMaxLostRetryFactor);
    Reload();
  }

  SourceOptions options_;
  DriverLink link_;
  DriverState driver_;
  GpuBook book_;
  std::vector<std::byte> buffer_;
  std::vector<Dying> dying_;
  DriverNotes notes_;
  Duration backoff_{}, retry_lost_{};
  StartReason next_reason_ = StartReason::kFirst;
  int64_t next_start_ns_ = 0, started_ns_ = 0, alive_ns_ = 0, last_poll_ns_ = 0, lost_since_ns_ = 0;
  bool suspended_ = false, spoke_ = false, told_ = false, ready_ = false;
};

NvmlSource::NvmlSource(SourceOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
NvmlSource::~NvmlSource() = default;
void NvmlSource::Poll(Instant now) { impl_->Poll(now); }
void NvmlSource::Reload() { impl_->Reload(); }
void NvmlSource::Suspend(std::string why) { impl_->Suspend(std::move(why)); }
void NvmlSource::Resume() { impl_->Resume(); }
bool NvmlSource::quiet() const noexcept { return impl_->quiet(); }
void NvmlSource::TakeEvents(std::vector<DeviceEvent>& out) { impl_->notes().TakeEvents(out); }
void NvmlSource::TakeChanges(std::vector<DriverChange>& out) { impl_->notes().TakeChanges(out); }
std::span<const Gpu> NvmlSource::gpus() const noexcept { return impl_->gpus(); }
const DriverState& NvmlSource::driver() const noexcept { return impl_->driver(); }
int NvmlSource::fd() const noexcept { return impl_->fd(); }
int64_t NvmlSource::NextDueBootNs() const noexcept { return impl_->NextDue(); }

}  // namespace gpulens::nvml
