#include "sources/bpf/instruction.h"

#include <algorithm>
#include <array>

namespace gpulens::bpf {
namespace {

// The kernel simulates it since then.
constexpr KernelVersion kNopOnArm = {6, 13};

using CodeBytes = std::span<const unsigned char>;

bool IsPush(CodeBytes code) {
  if (code.empty()) return false;
  if ((code[0] & 0xf8) == 0x50) return true;
  return code.size() >= 2 && code[0] == 0x41 && (code[1] & 0xf8) == 0x50;
}

ProbePlace ClassifyX86(CodeBytes code) {
  constexpr std::array<unsigned char, 4> kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};
  if (IsPush(code)) return {FirstInstruction::kPush, 0, true};
  if (code.size() > 4 && std::equal(kEndbr.begin(), kEndbr.end(), code.begin())) {
    if (IsPush(code.subspan(4))) return {FirstInstruction::kEndbrPush, 4, true};
    return {};
  }
  if (code.empty()) return {};
  if (code[0] == 0x90) return {FirstInstruction::kNop, 0, true};
  if (code.size() >= 2 && code[0] == 0x66 && code[1] == 0x90) return {FirstInstruction::kLongNop, 0, false};
  const CodeBytes rest = code[0] == 0x66 ? code.subspan(1) : code;
  if (rest.size() >= 2 && rest[0] == 0x0f && rest[1] == 0x1f) return {FirstInstruction::kLongNop, 0, false};
  // jmp rel8, jmp rel32, call rel32. Conditional ones do not begin a function.
  if (code[0] == 0xeb || code[0] == 0xe9 || code[0] == 0xe8) return {FirstInstruction::kBranch, 0, true};
  return {};
}

ProbePlace ClassifyArm(KernelVersion kernel, CodeBytes code) {
  if (code.size() < 4) return {};
  const uint32_t word =
      uint32_t{code[0]} | uint32_t{code[1]} << 8 | uint32_t{code[2]} << 16 | uint32_t{code[3]} << 24;
  if (word == 0xd503201f) return {FirstInstruction::kNop, 0, kernel >= kNopOnArm};
  // b, bl; b.cond; cbz, cbnz; tbz, tbnz
  if ((word & 0x7c000000) == 0x14000000 || (word & 0xff000010) == 0x54000000 ||
      (word & 0x7e000000) == 0x34000000 || (word & 0x7e000000) == 0x36000000)
    return {FirstInstruction::kBranch, 0, true};
  // adr, adrp; ldr and ldrsw of a literal
  if ((word & 0x1f000000) == 0x10000000 || (word & 0xbf000000) == 0x18000000 ||
      (word & 0xff000000) == 0x98000000)
    return {FirstInstruction::kAddress, 0, true};
  return {};
}

}  // namespace

std::string_view FirstInstructionName(FirstInstruction instruction) noexcept {
  switch (instruction) {
    case FirstInstruction::kPush: return "push";
    case FirstInstruction::kNop: return "nop";
    case FirstInstruction::kLongNop: return "long_nop";
    case FirstInstruction::kBranch: return "branch";
    case FirstInstruction::kEndbrPush: return "endbr_push";
    case FirstInstruction::kAddress: return "address";
    default: return "other";
  }
}

ProbePlace ClassifyFirstInstruction(std::string_view architecture, KernelVersion kernel,
                                    CodeBytes code) noexcept {
  if (architecture == "x86_64") return ClassifyX86(code);
  if (architecture == "aarch64") return ClassifyArm(kernel, code);
  return {};
}

}  // namespace gpulens::bpf
