// libamd_smi as a table of functions, from a file or a lookup function; the list of its GPUs, and their
// facts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "reader/process/device_reader.h"
#include "sources/amdsmi/reader/amdsmi_abi.h"

namespace gpulens::amdsmi {

// Finds a function by its symbol; null when there is none.
using SymbolLookup = void* (*)(const char* name);

using AmdsmiCaller = reader::LibraryCaller<AmdsmiSymbols, kFunctionMissing>;

// One entry of the library's list: a GPU, or a partition of one.
struct ListedProcessor {
  Handle handle = nullptr;
  uint64_t bdf = 0;         // Function 3 bits, device 5, bus 8, domain above; 0: unknown.
  uint32_t gpu = 0;         // Among the boards, in the order of the list.
  uint32_t partition = 0;   // Of its GPU.
  uint32_t partitions = 1;  // That its GPU has.
};

// A library that was opened stays open until the process ends: readers may be stuck inside it. After
// Open() it may be used by all threads at once, as far as the library can.
class AmdsmiLibrary final : public reader::VendorLibrary {
 public:
  // `lookup`: instead of a file, for a library that is linked in. `path` empty: the usual places.
  AmdsmiLibrary(std::string path, SymbolLookup lookup) : path_(std::move(path)), lookup_(lookup) {}

  static const std::vector<std::string>& DefaultPaths();

  Opened Open(reader::CallSlot& slot) override;
  std::unique_ptr<reader::DeviceReader> MakeReader(uint32_t index, reader::CallSlot& slot, const Clock& clock,
                                                   const reader::TierClock::Periods& periods) override;

  const AmdsmiSymbols& fn() const noexcept { return symbols_; }
  // Null: the version is not known, and no struct may be read.
  const StructLayout* layout() const noexcept { return layout_; }
  const std::vector<ListedProcessor>& processors() const noexcept { return processors_; }

 private:
  Status Load();
  Status Complete() const;
  // The library's code.
  int Enumerate(AmdsmiCaller& caller);
  void NumberBoards();

  std::string path_;
  SymbolLookup lookup_;
  AmdsmiSymbols symbols_;
  AmdsmiVersion version_;
  const StructLayout* layout_ = nullptr;
  std::vector<ListedProcessor> processors_;
};

// What a GPU is: the facts that do not change while it is attached, read once.

// Keys: gpu (its number among the boards) partition partitions uuid name serial pci_bus_id numa_node vbios
// architecture compute_units. Unknown facts are omitted. `scratch` is overwritten.
reader::DeviceFacts ReadFacts(AmdsmiCaller& caller, const AmdsmiLibrary& library,
                              const ListedProcessor& processor, std::span<std::byte> scratch);

// "gfx942" from a number that different versions of the library write as 90402, 942 or 0x942; empty when it
// is none of an architecture that we know.
std::string ArchitectureOf(uint64_t target_version);

// The reader process of AMD GPUs: `gpulens reader amdsmi`.

// `arguments` come from reader::ReaderSource. `simulated`: the library to be read in place of a file, or
// null. Returns the exit code; the caller must end the process with _exit (see reader::RunReader).
int RunAmdsmiReader(std::span<const std::string_view> arguments, SymbolLookup simulated);

}  // namespace gpulens::amdsmi
