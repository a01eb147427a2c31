// System calls of BPF that libbpf 1.1 does not have, and a function of this program to try probes on.
// Internal to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"
#include "sources/bpf/capability.h"

namespace gpulens::bpf {

// expected_attach_type of a program; 0 for kPerfEvent.
uint32_t AttachTypeOf(Mechanism mechanism) noexcept;

// Attaches a program to places of an open file, in all processes that map it. One link; for kPerfEvent one
// place alone. The error's text ends with errno's.
Result<UniqueFd> LinkProbes(int program, Mechanism mechanism, int file, std::span<const uint64_t> offsets,
                            std::span<const uint64_t> cookies);

// Attaches a program of sched_* by BTF.
Result<UniqueFd> LinkTracepoint(int program);

// Loads a program that returns 1. `type` is bpf_prog_type, `btf_id` of what it is attached to. -errno on
// failure.
int LoadSmallestProgram(uint32_t type, uint32_t attach_type, uint32_t btf_id) noexcept;

// A function of this program whose first instruction the kernel emulates.
struct SelfFunction {
  UniqueFd file;
  uint64_t offset = 0;
  void (*call)() = nullptr;
};
Result<SelfFunction> FindSelfFunction();

}  // namespace gpulens::bpf
