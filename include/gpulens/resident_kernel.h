// A ring kernel that stays resident on a GPU: one thread of an NVIDIA GPU takes messages from memory shared
// with the host, answers them, and keeps its telemetry in 64 bytes there, which the host reads without a
// driver call. Opens the driver's libcuda at run time and needs no toolkit; the GPU code is PTX.
//
//   auto kernel = gpulens::ResidentKernel::Launch({.multiply = 3, .add = 1});
//   if (!kernel) …  // kUnavailable, with the reason, where there is no driver or no GPU
//   kernel->Send(14, 1s);  kernel->Receive(1s);  // 43
//
// While it exists it keeps one thread of a multiprocessor busy, and calls that wait for the whole device,
// such as cudaDeviceSynchronize and cudaFree, wait for its end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

struct ResidentOptions {
  int device = 0;
  size_t queue_size = 1024;        // of messages, and of replies: a power of two up to 1,048,576
  uint64_t multiply = 1, add = 0;  // a reply is message * multiply + add, modulo 2^64
};

// A consistent snapshot of the 64 bytes. Latencies are measured by the GPU, from reading a message to writing
// its reply, in seconds; NaN before the first message.
struct ResidentTelemetry {
  uint64_t processed = 0;
  uint64_t rejected = 0;     // by TrySend and Send, because the queue was full
  uint64_t queue_depth = 0;  // now
  uint64_t heartbeats = 0;   // grows while the GPU polls for messages
  double latency_seconds_sum = 0;
  double latency_seconds_mean = kNotMeasured, latency_seconds_min = kNotMeasured,
         latency_seconds_max = kNotMeasured;
  bool running = false;
};

// One thread may send and one receive at a time; telemetry is thread-safe. The destructor terminates the
// kernel and waits at most 5 s for it.
class ResidentKernel {
 public:
  // kUnavailable: no driver or no such GPU. kInvalidArgument: an invalid option. kIo: the named driver call
  // failed.
  static Result<ResidentKernel> Launch(const ResidentOptions& options = {});
  ResidentKernel(ResidentKernel&&) noexcept;
  ResidentKernel& operator=(ResidentKernel&&) noexcept;
  ~ResidentKernel();

  bool TrySend(uint64_t message) noexcept;
  // kTimeout: the queue stayed full. kUnavailable: the kernel was terminated, or the GPU ended it.
  Status Send(uint64_t message, Duration timeout);
  Result<uint64_t> Receive(Duration timeout);
  // kTimeout: the GPU stopped while writing it.
  Result<ResidentTelemetry> telemetry() const;
  // kTimeout: the kernel does not end; its memory is then not freed.
  Status Terminate(Duration timeout = std::chrono::seconds(5));

  class Core;  // of the implementation

 private:
  friend struct ResidentAccess;
  explicit ResidentKernel(std::unique_ptr<Core> core) noexcept;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
