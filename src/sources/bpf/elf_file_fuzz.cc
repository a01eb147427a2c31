// Any bytes as an ELF file.
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "sources/bpf/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  constexpr std::string_view kNames[] = {"cuLaunchKernel", "cuGraphLaunch", "cuCtxSynchronize"};
  const auto found = bpf::FindElfFunctions(
      [&](uint64_t offset, std::span<unsigned char> into) -> Status {
        if (offset > size || into.size() > size - offset) return {Code::kDataLoss, "it ends early"};
        std::memcpy(into.data(), data + offset, into.size());
        return Ok();
      },
      kNames);
  if (!found) return 0;
  CHECK(found->functions.size() <= 3 && found->build_id.size() <= 128);
  for (const bpf::ElfFunction& function : found->functions) CHECK(function.offset < size);
  return 0;
}
