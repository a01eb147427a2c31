#include "sources/bpf/instruction.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpulens::bpf {
namespace {

constexpr KernelVersion kNew = {6, 18}, kOld = {6, 6};

struct Case {
  std::string_view what;
  std::vector<unsigned char> code;
  FirstInstruction instruction;
  uint32_t skip;
  bool emulated;
};

TEST(FirstInstructionTest, X86) {
  const Case cases[] = {
      {"push %rbp", {0x55}, FirstInstruction::kPush, 0, true},
      {"push %rdi", {0x57}, FirstInstruction::kPush, 0, true},
      {"push %r14", {0x41, 0x56}, FirstInstruction::kPush, 0, true},
      {"pop %r14", {0x41, 0x5e}, FirstInstruction::kOther, 0, false},
      {"endbr64; push %rbp", {0xf3, 0x0f, 0x1e, 0xfa, 0x55}, FirstInstruction::kEndbrPush, 4, true},
      {"endbr64; push %r12", {0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54}, FirstInstruction::kEndbrPush, 4, true},
      {"endbr64; sub $8,%rsp",
       {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08},
       FirstInstruction::kOther,
       0,
       false},
      {"endbr64 and no more", {0xf3, 0x0f, 0x1e, 0xfa}, FirstInstruction::kOther, 0, false},
      {"endbr32; push", {0xf3, 0x0f, 0x1e, 0xfb, 0x55}, FirstInstruction::kOther, 0, false},
      {"nop", {0x90}, FirstInstruction::kNop, 0, true},
      {"xchg %ax,%ax", {0x66, 0x90}, FirstInstruction::kLongNop, 0, false},
      {"nop5", {0x0f, 0x1f, 0x44, 0x00, 0x00}, FirstInstruction::kLongNop, 0, false},
      {"nopw", {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, FirstInstruction::kLongNop, 0, false},
      {"jmp rel32", {0xe9, 1, 2, 3, 4}, FirstInstruction::kBranch, 0, true},
      {"jmp rel8", {0xeb, 1}, FirstInstruction::kBranch, 0, true},
      {"call rel32", {0xe8, 1, 2, 3, 4}, FirstInstruction::kBranch, 0, true},
      {"jmp *%rax", {0xff, 0xe0}, FirstInstruction::kOther, 0, false},
      {"sub $8,%rsp", {0x48, 0x83, 0xec, 0x08}, FirstInstruction::kOther, 0, false},
      {"mov %rdi,%rax", {0x48, 0x89, 0xf8}, FirstInstruction::kOther, 0, false},
      {"movabs", {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, FirstInstruction::kOther, 0, false},
      {"nothing", {}, FirstInstruction::kOther, 0, false},
      {"half a push of r12", {0x41}, FirstInstruction::kOther, 0, false},
  };
  for (const Case& one : cases) {
    const ProbePlace place = ClassifyFirstInstruction("x86_64", kNew, one.code);
    EXPECT_EQ(place.instruction, one.instruction) << one.what;
    EXPECT_EQ(place.skip, one.skip) << one.what;
    EXPECT_EQ(place.emulated, one.emulated) << one.what;
  }
}

std::vector<unsigned char> Word(uint32_t word) {
  return {static_cast<unsigned char>(word), static_cast<unsigned char>(word >> 8),
          static_cast<unsigned char>(word >> 16), static_cast<unsigned char>(word >> 24)};
}

TEST(FirstInstructionTest, Arm64) {
  const struct {
    std::string_view what;
    uint32_t word;
    FirstInstruction instruction;
    bool on_new, on_old;
  } cases[] = {
      {"nop", 0xd503201f, FirstInstruction::kNop, true, false},
      {"bti c", 0xd503245f, FirstInstruction::kOther, false, false},
      {"paciasp", 0xd503233f, FirstInstruction::kOther, false, false},
      {"stp x29,x30,[sp,#-16]!", 0xa9bf7bfd, FirstInstruction::kOther, false, false},
      {"sub sp,sp,#16", 0xd10043ff, FirstInstruction::kOther, false, false},
      {"b", 0x14000001, FirstInstruction::kBranch, true, true},
      {"bl", 0x94000001, FirstInstruction::kBranch, true, true},
      {"b.eq", 0x54000020, FirstInstruction::kBranch, true, true},
      {"cbz x0", 0xb4000020, FirstInstruction::kBranch, true, true},
      {"tbnz w0", 0x37000020, FirstInstruction::kBranch, true, true},
      {"adrp x0", 0x90000000, FirstInstruction::kAddress, true, true},
      {"adr x0", 0x10000000, FirstInstruction::kAddress, true, true},
      {"ldr x0, literal", 0x58000000, FirstInstruction::kAddress, true, true},
      {"ldr x0,[x1]", 0xf9400020, FirstInstruction::kOther, false, false},
      {"ret", 0xd65f03c0, FirstInstruction::kOther, false, false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(ClassifyFirstInstruction("aarch64", kNew, Word(one.word)).instruction, one.instruction)
        << one.what;
    EXPECT_EQ(ClassifyFirstInstruction("aarch64", kNew, Word(one.word)).emulated, one.on_new) << one.what;
    EXPECT_EQ(ClassifyFirstInstruction("aarch64", kOld, Word(one.word)).emulated, one.on_old) << one.what;
  }
  EXPECT_FALSE(ClassifyFirstInstruction("aarch64", kNew, std::vector<unsigned char>{1, 2, 3}).emulated);
}

TEST(FirstInstructionTest, OtherArchitectures) {
  EXPECT_FALSE(ClassifyFirstInstruction("riscv64", kNew, std::vector<unsigned char>{0x55}).emulated);
  EXPECT_FALSE(ClassifyFirstInstruction("", kNew, std::vector<unsigned char>{0x55}).emulated);
}

}  // namespace
}  // namespace gpulens::bpf
