// libamd_smi as a table of functions, found by dlopen or given by whoever has one; the list of its GPUs;
// and the way to call it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "reader/process/reader.h"
#include "sources/amdsmi/reader/amdsmi_abi.h"

namespace gpulens::amdsmi {

// Finds a function by its symbol; null when there is none.
using SymbolLookup = void* (*)(const char* name);

// One entry of the library's list: a GPU, or a partition of one.
struct Processor {
  Handle handle = nullptr;
  uint64_t bdf = 0;         // Function 3 bits, device 5, bus 8, domain above; 0: not told.
  uint32_t gpu = 0;         // Among the boards, in the order of the list.
  uint32_t partition = 0;   // Of its GPU.
  uint32_t partitions = 1;  // That its GPU has.
};

// A library that was opened stays open until the process ends: readers may be stuck inside it. After
// Open() it may be used by all threads at once, as far as the library can.
class AmdsmiLibrary final : public driver::VendorLibrary {
 public:
  // `lookup`: instead of a file, for a library that is linked in. `path` empty: the usual places.
  AmdsmiLibrary(std::string path, SymbolLookup lookup) : path_(std::move(path)), lookup_(lookup) {}

  static const std::vector<std::string>& DefaultPaths();

  Opened Open(driver::CallSlot& slot) override;
  std::unique_ptr<driver::DeviceReader> MakeReader(uint32_t index, driver::CallSlot& slot, const Clock& clock,
                                                   const driver::TierClock::Periods& periods) override;

  const Symbols& fn() const noexcept { return symbols_; }
  // Null: the version is not known, and no struct may be read.
  const Layout* layout() const noexcept { return layout_; }
  const std::vector<Processor>& processors() const noexcept { return processors_; }

 private:
  Status Load();
  Status Complete() const;
  // The library's code.
  int Enumerate(driver::CallGate& gate);
  void NumberBoards();

  std::string path_;
  SymbolLookup lookup_;
  Symbols symbols_;
  Version version_;
  const Layout* layout_ = nullptr;
  std::vector<Processor> processors_;
};

// One library call at a time: announced on the shared page, timed, and missing functions answered for.
// Used by one thread. What it is given outlives it.
class Caller {
 public:
  Caller(const AmdsmiLibrary& library, driver::CallGate& gate) noexcept : fn_(library.fn()), gate_(gate) {}

  const Symbols& fn() const noexcept { return fn_; }

  // The library's status code; kFunctionMissing when it has no such function.
  template <class... Parameters, class... Arguments>
  int Do(Call call, int (*function)(Parameters...), Arguments... arguments) {
    if (!function) return kFunctionMissing;
    gate_.Begin(static_cast<driver::CallNumber>(call));
    int code = function(arguments...);
    gate_.End();
    return code;
  }

 private:
  const Symbols& fn_;
  driver::CallGate& gate_;
};

}  // namespace gpulens::amdsmi
