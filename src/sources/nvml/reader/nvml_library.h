// The vendor library as a table of functions, found by dlopen or given by whoever has one, and the way
// to call them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "reader/process/reader.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

// Finds a function by its symbol; null when there is none.
using SymbolLookup = void* (*)(const char* name);

// The table. Copyable; the functions are thread-safe as far as the library is. A library that was
// opened stays open until the process ends: readers may be stuck inside it.
class NvmlLibrary {
 public:
  // Opens `path`; when it is empty, the first of DefaultPaths() that opens. kUnavailable with all that
  // was tried, kPermissionDenied when the file may not be read, kDataLoss when it lacks init or count.
  static Result<NvmlLibrary> Open(const std::string& path);
  // For a library that is linked in: the simulated one.
  static Result<NvmlLibrary> FromLookup(SymbolLookup lookup, std::string name);

  static const std::vector<std::string>& DefaultPaths();

  const Symbols& fn() const noexcept { return symbols_; }
  const std::string& path() const noexcept { return path_; }

 private:
  Status Complete() const;

  Symbols symbols_;
  std::string path_;
};

// One library call at a time: announced on the shared page, timed, and missing functions answered for.
// Used by one thread. The slot, the library and the clock outlive it.
class Caller {
 public:
  Caller(const NvmlLibrary& library, CallSlot& slot, const Clock& clock) noexcept
      : fn_(library.fn()), gate_(slot, clock) {}

  const Symbols& fn() const noexcept { return fn_; }

  // The library's return code; kFunctionNotFound when it has no such function.
  template <class... Parameters, class... Arguments>
  int Do(Call call, int (*function)(Parameters...), Arguments... arguments) {
    if (!function) return kFunctionNotFound;
    gate_.Begin(static_cast<driver::CallNumber>(call));
    int code = function(arguments...);
    gate_.End();
    return code;
  }

  int64_t now() const noexcept { return gate_.now(); }
  // When the last call began.
  int64_t last_boot_ns() const noexcept { return gate_.last_boot_ns(); }
  uint64_t calls() const noexcept { return gate_.calls(); }

 private:
  const Symbols& fn_;
  driver::CallGate gate_;
};

}  // namespace gpulens::nvml
