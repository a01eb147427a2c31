// Kernels by name in the job page.
#pragma once

#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "job_page/job_page.h"

#pragma GCC visibility push(hidden)
namespace gpulens::inject {

inline constexpr size_t kLongestKernelName = 4096;

// Adds one run of a kernel. Any thread; never waits. Where there is no room, it is one of `other`.
inline void AddKernel(job_page::Kernels& kernels, const char* name, int32_t device, uint64_t ns) noexcept {
  using job_page::Kernel;
  size_t length = 0;
  uint64_t key = 0xCBF29CE484222325 ^ static_cast<uint64_t>(device);
  for (; name && length < kLongestKernelName && name[length] != '\0'; ++length)
    key = (key ^ static_cast<unsigned char>(name[length])) * 0x100000001B3;
  if (key == 0) key = 1;
  constexpr size_t kTries = 32;
  for (size_t i = 0; length > 0 && i < kTries; ++i) {
    Kernel& at = kernels.kernels[(key + i) % job_page::kKernels];
    uint64_t held = at.key.load(std::memory_order_acquire);
    if (held == 0) {
      // Names first: a slot without one would be of no use.
      if (kernels.names_used.load(std::memory_order_relaxed) + length > sizeof kernels.names) break;
      if (at.key.compare_exchange_strong(held, key, std::memory_order_acq_rel)) {
        const uint32_t from =
            kernels.names_used.fetch_add(static_cast<uint32_t>(length), std::memory_order_relaxed);
        at.device = device;
        if (from + length <= sizeof kernels.names) {
          ::memcpy(kernels.names + from, name, length);
          at.name_at = from;
          at.name_end.store(static_cast<uint32_t>(from + length), std::memory_order_release);
        }
        held = key;
      }
    }
    if (held != key) continue;
    at.count.fetch_add(1, std::memory_order_relaxed);
    at.total_ns.fetch_add(ns, std::memory_order_relaxed);
    return;
  }
  kernels.other_count.fetch_add(1, std::memory_order_relaxed);
  kernels.other_ns.fetch_add(ns, std::memory_order_relaxed);
}

}  // namespace gpulens::inject
#pragma GCC visibility pop
