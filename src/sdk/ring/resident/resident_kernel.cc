#include <gpulens/resident_kernel.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/result.h"
#include "sdk/ring/resident/resident_block.h"

namespace gpulens {
namespace {

using cuda::CudaSymbols;
using cuda::Handle;

constexpr size_t kMostQueue = size_t{1} << 20;
constexpr int kTries = 10'000;  // attempts to read 64 bytes that are written in about a microsecond

// Makes a context current in the calling thread, and restores the previous one.
class InContext {
 public:
  InContext(const CudaSymbols& cuda, Handle context)
      : cuda_(cuda), status_(cuda::StatusOf(cuda, cuda.ContextPush(context), "cuCtxPushCurrent")) {}
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext() {
    Handle popped = nullptr;
    if (status_.ok()) cuda_.ContextPop(&popped);
  }
  const Status& status() const noexcept { return status_; }

 private:
  const CudaSymbols& cuda_;
  Status status_;
};

}  // namespace

// Owns the resources of a launch, and frees them when a later step of it fails.
class ResidentKernel::Core {
 public:
  Core(const CudaSymbols& cuda, const ResidentOptions& options) : cuda_(cuda), options_(options) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { static_cast<void>(Terminate(std::chrono::seconds(5))); }

  Status Start() {
    if (const Status init = Check(cuda_.Init(0), "cuInit"); !init.ok())
      return {Code::kUnavailable, "no CUDA device that can be used: " + init.detail};
    int devices = 0;
    RETURN_IF_ERROR(Check(cuda_.DeviceCount(&devices), "cuDeviceGetCount"));
    if (options_.device < 0 || options_.device >= devices)
      return {Code::kUnavailable, "there is no CUDA device " + std::to_string(options_.device) + " among " +
                                      std::to_string(devices)};
    RETURN_IF_ERROR(Check(cuda_.DeviceGet(&device_, options_.device), "cuDeviceGet"));
    RETURN_IF_ERROR(Check(cuda_.ContextRetain(&context_, device_), "cuDevicePrimaryCtxRetain"));
    const InContext in(cuda_, context_);
    RETURN_IF_ERROR(in.status());
    RETURN_IF_ERROR(Check(cuda_.ModuleLoad(&module_, ring::kResidentPtx), "cuModuleLoadData"));
    Handle function = nullptr;
    RETURN_IF_ERROR(
        Check(cuda_.ModuleFunction(&function, module_, ring::kResidentEntry), "cuModuleGetFunction"));
    const size_t size = ring::kRingsAt + 2 * options_.queue_size * sizeof(uint64_t);
    RETURN_IF_ERROR(
        Check(cuda_.HostAlloc(&block_, size, cuda::kHostPortable | cuda::kHostMapped), "cuMemHostAlloc"));
    std::memset(block_, 0, size);
    cuda::DevicePointer seen = 0;
    RETURN_IF_ERROR(Check(cuda_.HostDevicePointer(&seen, block_, 0), "cuMemHostGetDevicePointer"));
    RETURN_IF_ERROR(Check(cuda_.StreamCreate(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate"));
    uint64_t block = seen, mask = options_.queue_size - 1, multiply = options_.multiply, add = options_.add;
    void* parameters[] = {&block, &mask, &multiply, &add};
    RETURN_IF_ERROR(
        Check(cuda_.Launch(function, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr), "cuLaunchKernel"));
    launched_ = true;
    return Ok();
  }

  bool TrySend(uint64_t message) noexcept {
    if (!launched_) return false;
    const uint64_t sent = Word(ring::kSentAt).load(std::memory_order_relaxed);
    if (sent - Word(ring::kTakenAt).load(std::memory_order_acquire) >= options_.queue_size) return false;
    Slot(0, sent).store(message, std::memory_order_relaxed);
    Word(ring::kSentAt).store(sent + 1, std::memory_order_release);
    return true;
  }
  void Reject() noexcept { rejected_.fetch_add(1, std::memory_order_relaxed); }

  bool TryReceive(uint64_t& reply) noexcept {
    const uint64_t received = Word(ring::kReceivedAt).load(std::memory_order_relaxed);
    if (Word(ring::kRepliedAt).load(std::memory_order_acquire) == received) return false;
    reply = Slot(options_.queue_size, received).load(std::memory_order_relaxed);
    Word(ring::kReceivedAt).store(received + 1, std::memory_order_release);
    return true;
  }

  // Ok while the GPU runs the kernel.
  Status Running() const {
    if (!launched_) return {Code::kUnavailable, "the resident kernel was terminated"};
    const InContext in(cuda_, context_);
    RETURN_IF_ERROR(in.status());
    const int code = cuda_.StreamQuery(stream_);
    if (code == cuda::kNotReady) return Ok();
    if (code == cuda::kSuccess) return {Code::kUnavailable, "the resident kernel has ended"};
    return {Code::kUnavailable, cuda::StatusOf(cuda_, code, "the resident kernel").detail};
  }

  Result<ResidentTelemetry> Telemetry() const {
    if (!launched_) return Status{Code::kUnavailable, "the resident kernel was terminated"};
    uint64_t words[8];
    for (int tries = 0;; ++tries) {
      if (tries == kTries) return Status{Code::kTimeout, "the GPU stopped while it wrote its telemetry"};
      const uint64_t before = Word(8 * ring::kSequence).load(std::memory_order_acquire);
      for (size_t i = 0; i < 8; ++i) words[i] = Word(8 * i).load(std::memory_order_acquire);
      if (before % 2 == 0 && words[ring::kSequence] == before) break;
      std::this_thread::yield();
    }
    ResidentTelemetry out;
    out.processed = words[ring::kProcessed];
    out.rejected = rejected_.load(std::memory_order_relaxed);
    out.queue_depth = Word(ring::kSentAt).load(std::memory_order_relaxed) -
                      Word(ring::kTakenAt).load(std::memory_order_relaxed);
    out.heartbeats = words[ring::kHeartbeats];
    out.running = Running().ok();
    if (out.processed == 0) return out;
    out.latency_seconds_sum = static_cast<double>(words[ring::kLatencySum]) * 1e-9;
    out.latency_seconds_mean = out.latency_seconds_sum / static_cast<double>(out.processed);
    out.latency_seconds_min = static_cast<double>(words[ring::kLatencyLeast]) * 1e-9;
    out.latency_seconds_max = static_cast<double>(words[ring::kLatencyMost]) * 1e-9;
    return out;
  }

  Status Terminate(Duration timeout) {
    if (launched_) {
      Word(ring::kStopAt).store(1, std::memory_order_release);
      const auto until = std::chrono::steady_clock::now() + timeout;
      while (Running().ok()) {
        if (std::chrono::steady_clock::now() >= until)
          return {Code::kTimeout, "the resident kernel does not end"};
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      launched_ = false;
    }
    if (!context_) return Ok();
    {
      const InContext in(cuda_, context_);
      if (stream_) cuda_.StreamDestroy(stream_);
      if (block_) cuda_.HostFree(block_);
      if (module_) cuda_.ModuleUnload(module_);
    }
    cuda_.ContextRelease(device_);
    stream_ = module_ = context_ = nullptr;
    block_ = nullptr;
    return Ok();
  }

 private:
  Status Check(int code, const char* call) const { return cuda::StatusOf(cuda_, code, call); }
  std::atomic_ref<uint64_t> Word(size_t offset) const noexcept {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(static_cast<std::byte*>(block_) + offset));
  }
  std::atomic_ref<uint64_t> Slot(size_t first, uint64_t number) const noexcept {
    return Word(ring::kRingsAt + 8 * (first + static_cast<size_t>(number & (options_.queue_size - 1))));
  }

  const CudaSymbols cuda_;
  const ResidentOptions options_;
  cuda::Device device_ = 0;
  Handle context_ = nullptr, module_ = nullptr, stream_ = nullptr;
  void* block_ = nullptr;
  bool launched_ = false;
  std::atomic<uint64_t> rejected_{0};
};

namespace {

// Repeats `attempt` until it succeeds, the kernel ends or the time is up. Does not sleep during the first
// microseconds, since a GPU answers in about two.
template <class Try>
Status Until(const ResidentKernel::Core& core, Duration timeout, const char* what, const Try& attempt) {
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    if (attempt()) return Ok();
    const Duration waited = std::chrono::steady_clock::now() - begun;
    if (waited < std::chrono::microseconds(50)) continue;
    if (waited >= timeout) return {Code::kTimeout, what};
    if (Status status = core.Running(); !status.ok()) return attempt() ? Ok() : status;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

Result<ResidentKernel> ResidentAccess::Launch(const CudaSymbols& cuda, const ResidentOptions& options) {
  const size_t size = options.queue_size;
  if (size == 0 || size > kMostQueue || (size & (size - 1)) != 0)
    return Status{Code::kInvalidArgument,
                  "queue_size must be a power of two up to 1,048,576, not " + std::to_string(size)};
  auto core = std::make_unique<ResidentKernel::Core>(cuda, options);
  RETURN_IF_ERROR(core->Start());
  return ResidentKernel(std::move(core));
}

Result<ResidentKernel> ResidentKernel::Launch(const ResidentOptions& options) {
  auto cuda = cuda::Open();
  if (!cuda) return cuda.error();
  return ResidentAccess::Launch(*cuda, options);
}

ResidentKernel::ResidentKernel(std::unique_ptr<Core> core) noexcept : core_(std::move(core)) {}
ResidentKernel::ResidentKernel(ResidentKernel&&) noexcept = default;
ResidentKernel& ResidentKernel::operator=(ResidentKernel&&) noexcept = default;
ResidentKernel::~ResidentKernel() = default;

bool ResidentKernel::TrySend(uint64_t message) noexcept {
  const bool sent = core_->TrySend(message);
  if (!sent) core_->Reject();
  return sent;
}

Status ResidentKernel::Send(uint64_t message, Duration timeout) {
  if (!core_->Running().ok()) return core_->Running();
  Status status =
      Until(*core_, timeout, "the resident kernel's queue is full", [&] { return core_->TrySend(message); });
  if (status.code == Code::kTimeout) core_->Reject();
  return status;
}

Result<uint64_t> ResidentKernel::Receive(Duration timeout) {
  if (Status status = core_->Running(); !status.ok()) return status;
  uint64_t reply = 0;
  RETURN_IF_ERROR(
      Until(*core_, timeout, "the resident kernel has no reply", [&] { return core_->TryReceive(reply); }));
  return reply;
}

Result<ResidentTelemetry> ResidentKernel::telemetry() const { return core_->Telemetry(); }
Status ResidentKernel::Terminate(Duration timeout) { return core_->Terminate(timeout); }

}  // namespace gpulens
