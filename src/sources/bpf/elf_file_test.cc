#include "sources/bpf/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/text.h"

namespace gpulens::bpf {
namespace {

// A small library: cuLaunchKernel in .dynsym, cuGraphLaunch in .symtab, a note of its build.
struct SmallElf {
  Elf64_Ehdr header{};
  Elf64_Phdr segments[2]{};
  Elf64_Shdr sections[5]{};
  Elf64_Sym dynamic[3]{};
  Elf64_Sym all[3]{};
  char names[64] = "\0cuLaunchKernel\0cuGraphLaunch\0cuStreamSynchronize";
  unsigned char note[24] = {4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd, 0x01, 0x02};
  unsigned char code[32] = {0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3, 0, 0, 0x90, 0xc3};

  static uint64_t At(const void* member, const SmallElf& elf) {
    return static_cast<uint64_t>(static_cast<const char*>(member) - reinterpret_cast<const char*>(&elf));
  }
  SmallElf() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_phoff = At(segments, *this), header.e_phnum = 2, header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shoff = At(sections, *this), header.e_shnum = 5, header.e_shentsize = sizeof(Elf64_Shdr);
    segments[0].p_type = PT_LOAD, segments[0].p_flags = PF_R | PF_X, segments[0].p_vaddr = 0x1000;
    segments[0].p_offset = At(code, *this), segments[0].p_filesz = sizeof code;
    segments[1].p_type = PT_NOTE, segments[1].p_offset = At(note, *this), segments[1].p_filesz = 20;
    sections[1].sh_type = SHT_DYNSYM, sections[1].sh_link = 3, sections[1].sh_offset = At(dynamic, *this);
    sections[1].sh_size = sizeof dynamic;
    sections[2].sh_type = SHT_SYMTAB, sections[2].sh_link = 3, sections[2].sh_offset = At(all, *this);
    sections[2].sh_size = sizeof all;
    sections[3].sh_type = SHT_STRTAB, sections[3].sh_offset = At(names, *this),
    sections[3].sh_size = sizeof names;
    dynamic[1] = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1000, 6};
    dynamic[2] = {30, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, SHN_UNDEF, 0, 0};  // imported
    all[1] = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1004, 6};          // .dynsym is right
    all[2] = {16, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, 1, 0x1008, 2};
  }
};

constexpr std::string_view kNames[] = {"cuLaunchKernel", "cuGraphLaunch", "cuStreamSynchronize"};

Result<ElfFunctions> Find(const SmallElf& elf, size_t size = sizeof(SmallElf)) {
  return FindElfFunctions(
      [&](uint64_t offset, std::span<unsigned char> into) -> Status {
        if (offset > size || into.size() > size - offset) return {Code::kDataLoss, "it ends early"};
        std::memcpy(into.data(), reinterpret_cast<const char*>(&elf) + offset, into.size());
        return Ok();
      },
      kNames);
}

TEST(ElfFileTest, FunctionsOfBothTables) {
  const SmallElf elf;
  const auto found = Find(elf);
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->architecture, "x86_64");
  EXPECT_EQ(found->build_id, "abcd0102");
  ASSERT_EQ(found->functions.size(), 2u);
  EXPECT_EQ(found->functions[0].name, "cuLaunchKernel");
  EXPECT_EQ(found->functions[0].offset, SmallElf::At(elf.code, elf));
  EXPECT_EQ(found->functions[0].code[0], 0x55);
  EXPECT_EQ(found->functions[1].name, "cuGraphLaunch");
  EXPECT_EQ(found->functions[1].offset, SmallElf::At(elf.code, elf) + 8);
  EXPECT_EQ(found->functions[1].code[0], 0x90);
}

TEST(ElfFileTest, BuildId) {
  SmallElf elf;
  elf.note[4] = 4;
  EXPECT_EQ(Find(elf).value_or({}).build_id, "abcd0102");
  elf.note[4] = 200;  // beyond its segment
  EXPECT_EQ(Find(elf).value_or({}).build_id, "");
}

TEST(ElfFileTest, WrongFilesAreRefused) {
  const auto expect = [](std::string_view what, Code code, auto change) {
    SmallElf elf;
    change(elf);
    const auto found = Find(elf);
    ASSERT_FALSE(found) << what;
    EXPECT_EQ(found.error().code, code) << what;
  };
  expect("magic", Code::kDataLoss, [](SmallElf& e) { e.header.e_ident[0] = 0; });
  expect("32 bits", Code::kDataLoss, [](SmallElf& e) { e.header.e_ident[EI_CLASS] = ELFCLASS32; });
  expect("big-endian", Code::kDataLoss, [](SmallElf& e) { e.header.e_ident[EI_DATA] = ELFDATA2MSB; });
  expect("size of a section", Code::kDataLoss, [](SmallElf& e) { e.header.e_shentsize = 8; });
  expect("sections beyond the end", Code::kDataLoss, [](SmallElf& e) { e.header.e_shoff = UINT64_MAX - 8; });
  expect("symbols beyond the end", Code::kDataLoss,
         [](SmallElf& e) { e.sections[1].sh_offset = UINT64_MAX - 8; });
  expect("too many sections", Code::kExhausted, [](SmallElf& e) { e.header.e_shnum = 9000; });
  expect("symbols of 1 TiB", Code::kExhausted,
         [](SmallElf& e) { e.sections[1].sh_size = uint64_t{1} << 40; });
  expect("names of symbols are code", Code::kDataLoss,
         [](SmallElf& e) { e.sections[3].sh_type = SHT_PROGBITS; });
  const SmallElf elf;
  for (size_t size = 0; size < sizeof elf; ++size) (void)Find(elf, size).ok();
}

TEST(ElfFileTest, SymbolsOutsideOfTheCodeAreLeft) {
  SmallElf elf;
  elf.dynamic[1].st_value = 0x1000 + sizeof elf.code;
  elf.all[1].st_value = 0xfff;
  elf.all[2].st_name = sizeof elf.names + 1;
  const auto found = Find(elf);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->functions.empty());
  elf = {};
  elf.segments[0].p_offset = UINT64_MAX;
  EXPECT_FALSE(Find(elf).value_or({}).functions.size() > 2);
}

TEST(ElfFileTest, OfThisProgram) { EXPECT_FALSE(FindElfFunctions(-1, kNames)); }

}  // namespace
}  // namespace gpulens::bpf
