#include "sources/nvml/driver/driver_loop.h"

#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>

#include "base/parse.h"
#include "base/result.h"
#include "sources/nvml/driver/gpu_thread.h"
#include "sources/nvml/driver/nvml_library.h"
#include "sources/nvml/message_encoder.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kMaxIntervalNs = int64_t{24} * 3600 * 1'000'000'000;
constexpr Duration kFarewell = std::chrono::milliseconds(50);

std::string Version(int cuda) { return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10); }

// The names in a folder as one number, whatever their order; 0 when it is not there.
uint64_t NamesIn(const std::string& folder) {
  DIR* open = folder.empty() ? nullptr : ::opendir(folder.c_str());
  if (!open) return 0;
  uint64_t sum = 0;
  while (const dirent* entry = ::readdir(open)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") sum += std::hash<std::string_view>()(name) | 1;
  }
  ::closedir(open);
  return sum;
}

// The driver's main thread: library start, heartbeats, requests of the agent.
class Driver {
 public:
  Driver(const DriverOptions& options, CallPage& page)
      : options_(options), page_(page), shared_(std::make_shared<DriverShared>(options.socket_fd)) {}

  int Run() {
    shared_->Send(encoder_.Encode(Hello{.build_id = options_.build_id}));
    if (int exit = OpenLibrary(); exit != kDriverDone) return exit;
    OpenEvents();
    for (unsigned i = 0; i < gpu_count_; ++i) {
      if (!(options_.left_out >> i & 1)) StartGpu(i);
    }
    // What opening the library allocated and freed again is given back: this process stays small.
    ::malloc_trim(0);
    int exit = Serve();
    shared_->Stop(kFarewell);
    return exit;
  }

 private:
  int Fail(LibraryPhase phase, int code, std::string_view detail, int exit) {
    shared_->Send(encoder_.Encode(LibraryReport{
        .phase = phase, .code = code, .gpu_count = 0, .path = options_.library_path, .detail = detail}));
    return exit;
  }

  int OpenLibrary() {
    page_.main.Begin(Call::kLoadLibrary, RealClock().Now().boot_ns);
    Result<NvmlLibrary> library = options_.lookup
                                      ? NvmlLibrary::FromLookup(options_.lookup, "simulated library")
                                      : NvmlLibrary::Open(options_.library_path);
    page_.main.End();
    if (!library) {
      int code = library.error().code == gpulens::Code::kPermissionDenied ? kNoPermission : kLibraryNotFound;
      return Fail(LibraryPhase::kLoad, code, library.error().detail, kDriverNoLibrary);
    }
    library_ = std::make_shared<const NvmlLibrary>(*std::move(library));
    Caller caller(*library_, page_.main, RealClock());
    const Symbols& fn = caller.fn();
    int code = fn.Init ? caller.Do(Call::kInit, fn.Init) : caller.Do(Call::kInitV1, fn.InitV1);
    if (code != kSuccess) return Fail(LibraryPhase::kInit, code, ReturnText(code), kDriverInitFailed);
    char driver[80] = "", nvml[80] = "";
    int cuda = 0;
    caller.Do(Call::kDriverVersion, fn.DriverVersion, driver, unsigned{sizeof driver});
    caller.Do(Call::kNvmlVersion, fn.NvmlVersion, nvml, unsigned{sizeof nvml});
    bool has_cuda = caller.Do(Call::kCudaVersion, fn.CudaVersion, &cuda) == kSuccess && cuda > 0;
    driver[sizeof driver - 1] = nvml[sizeof nvml - 1] = '\0';
    unsigned count = 0;
    code = CountGpus(caller, count);
    if (code != kSuccess) return Fail(LibraryPhase::kInit, code, ReturnText(code), kDriverInitFailed);
    gpu_count_ = std::min(count, kMaxGpus);
    std::string cuda_version = has_cuda ? Version(cuda) : std::string();
    shared_->Send(encoder_.Encode(LibraryReport{.phase = LibraryPhase::kReady,
                                                .code = 0,
                                                .gpu_count = gpu_count_,
                                                .path = library_->path(),
                                                .library_version = nvml,
                                                .driver_version = driver,
                                                .cuda_version = cuda_version,
                                                .detail = ""}));
    reader_options_.periods = {options_.interval, options_.medium, options_.slow};
    reader_options_.details = options_.details;
    reader_options_.avoid_process_v3 = BadProcessV3(driver);
    kernel_gpus_ = NamesIn(options_.gpu_folder);
    return kDriverDone;
  }

  static int CountGpus(Caller& caller, unsigned& count) {
    const Symbols& fn = caller.fn();
    return fn.DeviceCount ? caller.Do(Call::kDeviceCount, fn.DeviceCount, &count)
                          : caller.Do(Call::kDeviceCountV1, fn.DeviceCountV1, &count);
  }

  // Whether GPUs have come or gone, for the library or for the kernel.
  bool GpusChanged() {
    Caller caller(*library_, page_.main, RealClock());
    unsigned count = 0;
    if (CountGpus(caller, count) == kSuccess && std::min(count, kMaxGpus) != gpu_count_) return true;
    return NamesIn(options_.gpu_folder) != kernel_gpus_;
  }

  void OpenEvents() {
    Caller caller(*library_, page_.main, RealClock());
    auto hub = std::make_shared<EventHub>(options_.event_types);
    if (hub->Open(caller) && StartEventThread(shared_, library_, hub, page_.events)) events_ = hub;
  }

  // 535.43 to 535.97 put a further number into each element of a _v3 list.
  static bool BadProcessV3(std::string_view version) {
    int major = ParseInt<int>(TakeUntil(version, '.')).value_or(0);
    int minor = ParseInt<int>(TakeUntil(version, '.')).value_or(0);
    return major == 535 && minor < 98;
  }

  void StartGpu(unsigned index) {
    if (index >= gpu_count_ || started_ >> index & 1) return;
    GpuThreadOptions options{
        .index = index, .interval = options_.interval, .reader = reader_options_, .events = events_};
    if (StartGpuThread(shared_, library_, page_.gpus[index], options)) started_ |= uint64_t{1} << index;
  }

  // The exit code.
  int Serve() {
    int64_t next = RealClock().Now().boot_ns;
    int64_t next_count = next + options_.slow.count();
    uint64_t sequence = 0;
    while (true) {
      int64_t now = RealClock().Now().boot_ns;
      if (now >= next) {
        shared_->Send(encoder_.Encode(Heartbeat{.boot_ns = now,
                                                .sequence = sequence++,
                                                .calls = shared_->calls.load(std::memory_order_relaxed),
                                                .dropped = shared_->dropped.load(std::memory_order_relaxed),
                                                .watched = events_ ? events_->devices() : 0}));
        next = NextTick(now, options_.interval);
      }
      if (now >= next_count) {
        if (GpusChanged()) return kDriverRecount;
        next_count = now + options_.slow.count();
      }
      pollfd poll{.fd = options_.socket_fd, .events = POLLIN, .revents = 0};
      timespec wait{.tv_sec = (next - now) / 1'000'000'000, .tv_nsec = (next - now) % 1'000'000'000};
      if (now >= next) continue;
      if (::ppoll(&poll, 1, &wait, nullptr) > 0 && !TakeRequests()) return kDriverDone;
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
      Result<Message> message = DecodeMessage(std::span(bytes).first(static_cast<size_t>(size)));
      if (!message) continue;
      if (const auto* attach = std::get_if<AttachRequest>(&*message)) StartGpu(attach->entity);
    }
  }

  const DriverOptions& options_;
  CallPage& page_;
  std::shared_ptr<DriverShared> shared_;
  MessageEncoder encoder_;
  std::shared_ptr<const NvmlLibrary> library_;  // Shared with readers, of which a stuck one outlives us.
  unsigned gpu_count_ = 0;
  uint64_t started_ = 0, kernel_gpus_ = 0;
  std::shared_ptr<EventHub> events_;  // Null: the library has no events.
  ReaderOptions reader_options_;
};

Status ParseOne(std::string_view key, std::string_view value, DriverOptions& out) {
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
  if (key == "--build-id") good = true, out.build_id = value;
  if (key == "--gpu-folder") good = true, out.gpu_folder = value;
  if (key == "--leave-out" || key == "--events") {
    std::optional<uint64_t> mask = ParseInt<uint64_t>(value, 16);
    good = mask.has_value();
    (key == "--events" ? out.event_types : out.left_out) = mask.value_or(0);
  }
  if (key == "--details") {
    std::optional<uint32_t> mask = ParseInt<uint32_t>(value, 16);
    good = mask && (*mask & ~uint32_t{kDetailsAll}) == 0;
    out.details = mask.value_or(0);
  }
  if (good) return Ok();
  return {gpulens::Code::kInvalidArgument,
          "driver: bad argument " + std::string(key) + "=" + std::string(value)};
}

}  // namespace

Result<DriverOptions> ParseDriverArguments(std::span<const std::string_view> arguments) {
  DriverOptions out;
  for (std::string_view argument : arguments) {
    std::string_view value = argument;
    std::string_view key = TakeUntil(value, '=');
    RETURN_IF_ERROR(ParseOne(key, value, out));
  }
  if (out.socket_fd >= 0 && out.page_fd >= 0) return out;
  return Status{gpulens::Code::kInvalidArgument, "driver: started by the agent only (no socket given)"};
}

int RunNvmlDriver(const DriverOptions& options) {
  // One heap for all threads: an arena of its own would cost each of them pages.
  ::mallopt(M_ARENA_MAX, 1);
  struct stat page_stat{};
  if (::fstat(options.page_fd, &page_stat) != 0 || page_stat.st_size < static_cast<off_t>(sizeof(CallPage))) {
    return kDriverBadStart;
  }
  void* memory = ::mmap(nullptr, kCallPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, options.page_fd, 0);
  if (memory == MAP_FAILED) return kDriverBadStart;
  // Not unmapped: a stuck reader still writes there when it comes back.
  return Driver(options, *static_cast<CallPage*>(memory)).Run();
}

}  // namespace gpulens::nvml
