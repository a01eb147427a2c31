// How the kernel will run the first instruction of a function that is probed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sources/bpf/capability.h"

namespace gpulens::bpf {

enum class FirstInstruction : uint8_t {
  kOther,      // single-stepped out of line, or not understood: never probed
  kPush,       // x86-64: push of a register
  kNop,        // one byte; arm64: from Linux 6.13
  kLongNop,    // several bytes: replaced by a system call from Linux 6.18, single-stepped before
  kBranch,     // jump or call to a relative address
  kEndbrPush,  // endbr64, then push: the probe goes to the push
  kAddress,    // arm64: adr, adrp, or ldr of a literal
  kCount,
};
std::string_view FirstInstructionName(FirstInstruction instruction) noexcept;

struct ProbePlace {
  FirstInstruction instruction = FirstInstruction::kOther;
  uint32_t skip = 0;      // bytes from the symbol to the probe
  bool emulated = false;  // the kernel runs it without a single step
};

// `code` begins at the function; 16 bytes are enough. An architecture that is not known: kOther.
ProbePlace ClassifyFirstInstruction(std::string_view architecture, KernelVersion kernel,
                                    std::span<const unsigned char> code) noexcept;

}  // namespace gpulens::bpf
