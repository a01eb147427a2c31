// A ring kernel that stays on a GPU: one thread of an NVIDIA GPU takes messages out of memory that it shares
// with the host, answers them, and keeps its telemetry in 64 bytes there, which the host reads without a call
// of the driver. Needs the driver's libcuda, which is opened at run time, and no toolkit; the code is PTX of
// ours.
//
//   auto kernel = gpulens::ResidentKernel::Launch({.multiply = 3, .add = 1});
//   if (!kernel) …  // kUnavailable, with the reason, where there is no driver or no GPU
//   kernel->Send(14, 1s);  kernel->Receive(1s);  // 43
//
// While it is there it keeps one multiprocessor's thread busy, and what waits for the whole device (as
// cudaDeviceSynchronize and cudaFree do) waits for its end.
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
  size_t queue_size = 1024;        // a power of two, up to 1,048,576: of messages, and of replies
  uint64_t multiply = 1, add = 0;  // a reply is message * multiply + add, modulo 2^64
};

// What the 64 bytes tell, at one instant of the GPU. Latencies are the GPU's own: from the moment it saw a
// message to the moment its reply was written, in seconds; NaN before the first.
struct ResidentTelemetry {
  uint64_t processed = 0;
  uint64_t rejected = 0;     // by TrySend and Send: the queue was full
  uint64_t queue_depth = 0;  // now
  uint64_t heartbeats = 0;   // grows while the GPU looks for messages
  double latency_seconds_sum = 0;
  double latency_seconds_mean = kNotMeasured, latency_seconds_min = kNotMeasured,
         latency_seconds_max = kNotMeasured;
  bool running = false;
};

// One thread sends and one receives, at a time each; telemetry is for any thread. Its end terminates the
// kernel and waits for it at most 5 s.
class ResidentKernel {
 public:
  // kUnavailable: no driver, no such GPU. kInvalidArgument: an option. kIo: a call of the driver failed; it
  // is named.
  static Result<ResidentKernel> Launch(const ResidentOptions& options = {});
  ResidentKernel(ResidentKernel&&) noexcept;
  ResidentKernel& operator=(ResidentKernel&&) noexcept;
  ~ResidentKernel();

  bool TrySend(uint64_t message) noexcept;
  // kTimeout: no room by then. kUnavailable: it was terminated, or the GPU has ended it.
  Status Send(uint64_t message, Duration timeout);
  Result<uint64_t> Receive(Duration timeout);
  // kTimeout: the GPU stopped in the middle of writing it.
  Result<ResidentTelemetry> telemetry() const;
  // kTimeout: it does not end. Its memory is then left to it.
  Status Terminate(Duration timeout = std::chrono::seconds(5));

  class Core;  // of the implementation

 private:
  friend struct ResidentAccess;
  explicit ResidentKernel(std::unique_ptr<Core> core) noexcept;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
