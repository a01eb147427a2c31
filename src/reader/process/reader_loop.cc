#include "reader/process/reader_loop.h"

#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/sanitizers.h"
#include "base/threads.h"

namespace gpulens::reader {
namespace {

void Lower(__rlimit_resource resource, rlim_t most) noexcept {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  static_cast<void>(::setrlimit(resource, &limit));
}

uint64_t CountNames(const char* folder) {
  uint64_t count = 0;
  static_cast<void>(ForEachName(folder, [&](std::string_view) { return ++count > 0; }));
  return count;
}

// Only touched pages cost memory; libraries keep buffers of many KiB on the stack.
constexpr size_t kStackBytes = 512 * 1024;
constexpr Duration kLongestRetry = std::chrono::seconds(30);
// The agent reads once in an interval, or has not been given time to: soon after, and not at once.
constexpr Duration kRoomPause = std::chrono::milliseconds(20);

class DeviceThread {
 public:
  DeviceThread(std::shared_ptr<AgentChannel> shared, std::shared_ptr<VendorLibrary> library,
               std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval)
      : shared_(std::move(shared)),
        library_(std::move(library)),
        reader_(std::move(reader)),
        index_(index),
        interval_(interval) {}

  const std::shared_ptr<AgentChannel>& shared() const noexcept { return shared_; }

  void Run() {
    Duration retry = interval_;
    int64_t next = 0;
    do {
      int64_t now = RealClock().Now().boot_ns;
      if (!attached_) Attach();
      if (attached_) {
        attached_ = reader_->Round(now, *shared_);
        retry = interval_;
      }
      CountCalls();
      now = RealClock().Now().boot_ns;
      if (attached_) {
        next = NextTick(now, interval_);
      } else {
        next = now + retry.count();
        retry = std::min(std::max(retry * 2, interval_), std::max(kLongestRetry, interval_));
      }
    } while (shared_->SleepUntil(next));
  }

 private:
  void Attach() {
    DeviceReader::Attached attached = reader_->Attach();
    attached_ = attached.state == DeviceState::kOk;
    std::vector<FactView> facts;
    for (const auto& [key, value] : reader_->facts()) facts.push_back({key, value});
    DeviceReport head;
    head.device = index_;
    head.state = attached.state;
    head.code = attached.code;
    shared_->Deliver(encoder_.Encode(head, facts));
  }

  void CountCalls() {
    shared_->calls.fetch_add(reader_->calls() - counted_, std::memory_order_relaxed);
    counted_ = reader_->calls();
  }

  std::shared_ptr<AgentChannel> shared_;
  std::shared_ptr<VendorLibrary> library_;
  std::unique_ptr<DeviceReader> reader_;
  const uint32_t index_;
  const Duration interval_;
  MessageEncoder encoder_;
  uint64_t counted_ = 0;
  bool attached_ = false;
};

constexpr int64_t kMaxIntervalNs = int64_t{24} * 3600 * 1'000'000'000;
constexpr Duration kFarewell = std::chrono::milliseconds(50);
// A device whose thread could not be made is tried again after so long.
constexpr int64_t kThreadRetryNs = 5'000'000'000;

// The names in a folder as one number, whatever their order; 0 when it is not there.
uint64_t NamesIn(const std::string& folder) {
  uint64_t sum = 0;
  auto add = [&](std::string_view name) { return sum += std::hash<std::string_view>()(name) | 1, true; };
  if (!folder.empty()) static_cast<void>(ForEachName(folder, add));
  return sum;
}

// The main thread of the reader process: library start, heartbeats, requests of the agent.
class ReaderLoop {
 public:
  ReaderLoop(const ReaderProcessOptions& options, std::shared_ptr<VendorLibrary> library, CallPage& page)
      : options_(options),
        page_(page),
        shared_(std::make_shared<AgentChannel>(options.socket_fd)),
        library_(std::move(library)) {}

  int Run() {
    shared_->Send(encoder_.Encode(HelloMessage{.build_id = options_.build_id}));
    // Before the library counts: what comes while it is being opened is a change. Where there is no folder
    // yet, it is the opening that loads the kernel driver.
    kernel_devices_ = NamesIn(options_.device_folder);
    VendorLibrary::Opened opened = library_->Open(page_.main);
    count_ = opened.fault == ReaderFault::kNone ? std::min(opened.devices, kMaxDevices) : 0;
    shared_->Send(encoder_.Encode(LibraryReport{.fault = opened.fault,
                                                .code = opened.code,
                                                .devices = count_,
                                                .path = opened.path,
                                                .library_version = opened.library_version,
                                                .driver_version = opened.driver_version,
                                                .runtime_version = opened.runtime_version,
                                                .detail = opened.detail}));
    if (opened.fault != ReaderFault::kNone) return kReaderNoLibrary;
    if (kernel_devices_ == 0) kernel_devices_ = NamesIn(options_.device_folder);
    if (options_.watch) library_->Watch(shared_, page_.waiting);
    for (uint32_t i = 0; i < count_; ++i) {
      if (!(options_.left_out >> i & 1)) StartDevice(i);
    }
    // What opening the library allocated and freed again is given back: this process stays small.
    ::malloc_trim(0);
    int exit = Serve();
    shared_->Stop(kFarewell);
    return exit;
  }

 private:
  // A device that no thread reads is reported as unread, and tried again later.
  void StartDevice(uint32_t index) {
    if (index >= count_ || started_ >> index & 1) return;
    const uint64_t bit = uint64_t{1} << index;
    auto reader = library_->MakeReader(index, page_.devices[index], RealClock(),
                                       {options_.interval, options_.medium, options_.slow});
    if (StartDeviceThread(shared_, library_, std::move(reader), index, options_.interval).ok()) {
      started_ |= bit;
      unread_ &= ~bit;
      return;
    }
    unread_ |= bit;
    DeviceReport head;
    head.device = index;
    head.state = DeviceState::kUnread;
    shared_->Send(encoder_.Encode(head, {}));
  }

  void RetryUnread() {
    for (uint32_t index = 0; index < count_; ++index) {
      if (unread_ >> index & 1) StartDevice(index);
    }
  }

  // Whether devices have come or gone, for the library or for the kernel.
  bool DevicesChanged() {
    std::optional<uint32_t> count = library_->Recount(page_.main);
    if (count && std::min(*count, kMaxDevices) != count_) return true;
    return NamesIn(options_.device_folder) != kernel_devices_;
  }

  // The exit code.
  int Serve() {
    int64_t next = RealClock().Now().boot_ns;
    int64_t next_use = next, next_count = next + options_.slow.count(), next_retry = next + kThreadRetryNs;
    uint64_t sequence = 0;
    while (true) {
      int64_t now = RealClock().Now().boot_ns;
      if (now >= next_use) {
        use_ = ReadOwnUse();
        next_use = now + options_.medium.count();
      }
      const bool beyond = IsBeyond(use_, kMostUse);
      if (now >= next || beyond) {
        shared_->Send(
            encoder_.Encode(HeartbeatMessage{.boot_ns = now,
                                             .sequence = sequence++,
                                             .calls = shared_->calls.load(std::memory_order_relaxed),
                                             .dropped = shared_->dropped.load(std::memory_order_relaxed),
                                             .watched = library_->watched(),
                                             .memory = use_.memory,
                                             .files = use_.files,
                                             .threads = use_.threads}));
        if (beyond) return kReaderOverLimit;
        next = NextTick(now, options_.interval);
      }
      if (now >= next_retry) {
        RetryUnread();
        next_retry = now + kThreadRetryNs;
      }
      if (now >= next_count) {
        if (DevicesChanged()) return kReaderRecount;
        next_count = now + options_.slow.count();
      }
      pollfd poll{.fd = options_.socket_fd, .events = POLLIN, .revents = 0};
      timespec wait{.tv_sec = (next - now) / 1'000'000'000, .tv_nsec = (next - now) % 1'000'000'000};
      if (::ppoll(&poll, 1, &wait, nullptr) > 0 && !TakeRequests()) return kReaderDone;
    }
  }

  // False when the agent has gone.
  bool TakeRequests() {
    while (true) {
      std::array<std::byte, 256> bytes;
      ssize_t size = ::recv(options_.socket_fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      if (size == 0) return false;
      static constexpr VendorTables kNoVendor{};  // A request is of no vendor.
      Result<ReaderMessage> message =
          DecodeMessage(std::span(bytes).first(static_cast<size_t>(size)), kNoVendor);
      if (!message) continue;
      if (const auto* attach = std::get_if<AttachRequest>(&*message)) StartDevice(attach->device);
    }
  }

  const ReaderProcessOptions& options_;
  CallPage& page_;
  std::shared_ptr<AgentChannel> shared_;
  std::shared_ptr<VendorLibrary> library_;
  MessageEncoder encoder_;
  uint32_t count_ = 0;
  OwnUse use_;
  uint64_t started_ = 0, unread_ = 0, kernel_devices_ = 0;
};

Status ParseOne(std::string_view key, std::string_view value, const MoreArguments& more,
                ReaderProcessOptions& out) {
  auto fd = [&](int& into) {
    std::optional<int> number = ParseInt<int>(value);
    if (number && *number >= 0) into = *number;
    return number && *number >= 0;
  };
  auto duration = [&](Duration& into) {
    std::optional<int64_t> number = ParseInt<int64_t>(value);
    bool good = number && *number >= 1'000'000 && *number <= kMaxIntervalNs;
    if (good) into = Duration(*number);
    return good;
  };
  bool good = false;
  if (key == "--socket-fd") good = fd(out.socket_fd);
  if (key == "--page-fd") good = fd(out.page_fd);
  if (key == "--interval-ns") good = duration(out.interval);
  if (key == "--medium-ns") good = duration(out.medium);
  if (key == "--slow-ns") good = duration(out.slow);
  if (key == "--library") good = true, out.library_path = value;
  if (key == "--watch") {
    good = value == "0" || value == "1";
    out.watch = value == "1";
  }
  if (key == "--build-id") good = true, out.build_id = value;
  if (key == "--leave-out") {
    std::optional<uint64_t> mask = ParseInt<uint64_t>(value, 16);
    good = mask.has_value();
    out.left_out = mask.value_or(0);
  }
  if (key == "--device-folder") good = true, out.device_folder = value;
  if (good || (more && more(key, value))) return Ok();
  return {Code::kInvalidArgument, "driver: bad argument " + std::string(key) + "=" + std::string(value)};
}

}  // namespace

OwnUse ReadOwnUse() {
  OwnUse out;
  // "7000 6400 1200 …": pages in all, and of those in memory.
  const std::string text = ReadFile("/proc/self/statm", 256).value_or("");
  std::string_view rest = text;
  TakeUntil(rest, ' ');
  out.memory = ParseInt<uint64_t>(TakeUntil(rest, ' ')).value_or(0) * static_cast<uint64_t>(::getpagesize());
  out.files = CountNames("/proc/self/fd");
  if (out.files > 0) --out.files;  // The one by which they were counted.
  out.threads = CountNames("/proc/self/task");
  return out;
}

bool IsBeyond(const OwnUse& use, const OwnUse& most) noexcept {
  return use.memory > most.memory || use.files > most.files || use.threads > most.threads;
}

void LimitOwnUse() noexcept {
  if (kSanitized) return;
  Lower(RLIMIT_DATA, rlim_t{2} * kMostUse.memory);
  Lower(RLIMIT_NOFILE, rlim_t{2} * kMostUse.files);
}

bool AgentChannel::TrySend(std::span<const std::byte> message) noexcept {
  ssize_t sent = ::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(message.size());
}

bool AgentChannel::Send(std::span<const std::byte> message) noexcept {
  if (TrySend(message)) return true;
  dropped.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool AgentChannel::Deliver(std::span<const std::byte> message) {
  while (!TrySend(message)) {
    if (SleepUntil((RealClock().Now() + kRoomPause).boot_ns)) continue;
    dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

bool AgentChannel::SleepUntil(int64_t boot_ns) {
  std::unique_lock lock(mutex_);
  auto wait = Duration(boot_ns - RealClock().Now().boot_ns);
  if (wait > Duration(0)) changed_.wait_for(lock, wait, [this] { return stopping_; });
  return !stopping_;
}

void AgentChannel::Stop(Duration timeout) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, timeout, [this] { return running_ == 0; });
}

void AgentChannel::Started() {
  std::lock_guard lock(mutex_);
  ++running_;
}

void AgentChannel::Ended() {
  std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

Status StartDeviceThread(std::shared_ptr<AgentChannel> shared, std::shared_ptr<VendorLibrary> library,
                         std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval) {
  auto thread =
      std::make_shared<DeviceThread>(shared, std::move(library), std::move(reader), index, interval);
  shared->Started();
  auto run = [thread = std::move(thread), shared]() mutable {
    thread->Run();
    thread.reset();
    shared->Ended();
  };
  Status started = StartDetachedThread(std::move(run), kStackBytes);
  if (!started) shared->Ended();
  return started;
}

int64_t NextTick(int64_t boot_ns, Duration interval) noexcept {
  return (boot_ns / interval.count() + 1) * interval.count();
}

Result<ReaderProcessOptions> ParseReaderArguments(std::span<const std::string_view> arguments,
                                                  const MoreArguments& more) {
  ReaderProcessOptions out;
  for (std::string_view argument : arguments) {
    std::string_view value = argument;
    std::string_view key = TakeUntil(value, '=');
    RETURN_IF_ERROR(ParseOne(key, value, more, out));
  }
  if (out.socket_fd >= 0 && out.page_fd >= 0) return out;
  return Status{Code::kInvalidArgument, "driver: started by the agent only (no socket given)"};
}

int RunReader(const ReaderProcessOptions& options, std::shared_ptr<VendorLibrary> library) {
  // One heap for all threads: an arena of its own would cost each of them pages.
  ::mallopt(M_ARENA_MAX, 1);
  struct stat page_stat{};
  if (::fstat(options.page_fd, &page_stat) != 0 || page_stat.st_size < static_cast<off_t>(sizeof(CallPage))) {
    return kReaderBadStart;
  }
  void* memory = ::mmap(nullptr, kCallPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, options.page_fd, 0);
  if (memory == MAP_FAILED) return kReaderBadStart;
  // Not unmapped: a stuck reader still writes there when it comes back.
  auto& page = *static_cast<CallPage*>(memory);
  NameEndingCallOn(page);
  if (options.limited) LimitOwnUse();
  return ReaderLoop(options, std::move(library), page).Run();
}

}  // namespace gpulens::reader
