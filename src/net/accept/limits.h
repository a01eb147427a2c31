// What a server allows its clients, and what it counts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace gpulens {

struct HttpLimits {
  size_t connections = 512;
  size_t header_bytes = 16 << 10;  // request line and fields
  size_t target_bytes = 8 << 10;   // the URL in it
  size_t header_count = 100;
  size_t body_bytes = 64 << 10;
  // Of all requests that are still arriving, together; a request that goes beyond it gets 429. 0: no limit.
  size_t arriving_bytes = 0;
  size_t pipelined = 16;  // requests of one connection that wait for their answers
  // From the first byte (or the accept, when nothing comes) to the end of the request, body included.
  Duration request_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(60);
  // Within each such span a client has to take 64 KiB of its answer, or the rest of it.
  Duration write_timeout = std::chrono::seconds(15);
  // How long bytes are still read after a last answer, so that it arrives before the reset.
  Duration linger = std::chrono::seconds(1);
};

// Why a client was turned away. Closed: the names are values of a metric's attribute.
enum class Refusal : uint8_t { kLimit, kTimeout, kHeaderSize, kBodySize, kTls, kAuth, kOrigin, kSlow };
inline constexpr size_t kRefusals = 8;
inline constexpr const char* kRefusalNames[kRefusals] = {"limit", "timeout", "header_size", "body_size",
                                                         "tls",   "auth",    "origin",      "slow"};

// Written on the loop, read from any thread. Counters only grow; the gauge is `connections`.
struct AdmissionStats {
  std::atomic<uint64_t> connections{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused[kRefusals] = {};

  void Refused(Refusal why) noexcept {
    refused[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t refusals(Refusal why) const noexcept {
    return refused[static_cast<size_t>(why)].load(std::memory_order_relaxed);
  }
};

struct ServerStats : AdmissionStats {
  std::atomic<uint64_t> answers[6] = {};  // by the first digit of the status
  std::atomic<uint64_t> bytes_sent{0};
};

}  // namespace gpulens
