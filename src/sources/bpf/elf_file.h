// Reads symbols of an ELF file (64 bits, little-endian): where functions begin in it. The bytes are from
// outside: every number is checked, tables are bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::bpf {

struct ElfFunction {
  std::string name;
  uint64_t offset = 0;                   // in the file
  std::array<unsigned char, 16> code{};  // its first bytes; 0 beyond the end of the segment
};

struct ElfFunctions {
  std::string architecture;            // "x86_64", "aarch64"; empty: another one
  std::string build_id;                // hexadecimal; empty: none
  std::vector<ElfFunction> functions;  // those of the names that the file defines, in the order of the names
};

// Reads exactly as many bytes of a file as `into` has.
using ReadAt = std::function<Status(uint64_t offset, std::span<unsigned char> into)>;

// Looks for functions in .dynsym, and in .symtab for what is not there. kDataLoss: no such ELF file, or a
// wrong one; kExhausted: tables of more than 64 MiB.
Result<ElfFunctions> FindElfFunctions(const ReadAt& read, std::span<const std::string_view> names);
// Of an open file.
Result<ElfFunctions> FindElfFunctions(int fd, std::span<const std::string_view> names);

}  // namespace gpulens::bpf
