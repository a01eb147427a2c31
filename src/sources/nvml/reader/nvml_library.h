// libnvidia-ml as a table of functions, from a file or from a lookup function.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "reader/process/device_reader.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

// Finds a function by its symbol; null when there is none.
using SymbolLookup = void* (*)(const char* name);

// Copyable; the functions are thread-safe as far as the library is. A library that was opened stays open
// until the process ends: readers may be stuck inside it.
class NvmlLibrary {
 public:
  // Opens `path`; when it is empty, the first of DefaultPaths() that opens. As OpenSharedLibrary, and
  // kDataLoss when it lacks init or count.
  static Result<NvmlLibrary> Open(const std::string& path);
  // For a library that is linked in: the simulated one.
  static Result<NvmlLibrary> FromLookup(SymbolLookup lookup, std::string name);

  static const std::vector<std::string>& DefaultPaths();

  const NvmlSymbols& fn() const noexcept { return symbols_; }
  const std::string& path() const noexcept { return path_; }

 private:
  Status Complete() const;

  NvmlSymbols symbols_;
  std::string path_;
};

using NvmlCaller = reader::LibraryCaller<NvmlSymbols, kFunctionNotFound>;

// The text that a function gives about `subject`; empty when it gives none.
template <class Function, class Subject, class... More>
std::string QueryText(NvmlCaller& caller, const Function& function, Subject subject, More... more) {
  std::array<char, 96> text{};
  if (caller.Do(function, subject, text.data(), static_cast<unsigned>(text.size()), more...) != kSuccess)
    return {};
  return {text.data(), ::strnlen(text.data(), text.size())};
}

// What a return code of the library means for a reading.
constexpr ReadStatus ReadStatusOf(int code) noexcept {
  switch (code) {
    case kSuccess: return ReadStatus::kOk;
    case kInvalidArgument:  // An id or enum value that this driver does not know yet.
    case kNotSupported:
    case kFunctionNotFound:
    case kArgumentVersionMismatch:
    case kDeprecated: return ReadStatus::kNotSupported;
    case kNoPermission: return ReadStatus::kNoPermission;
    case kNotFound: return ReadStatus::kNotFound;
    case kGpuIsLost:
    case kGpuNotFound: return ReadStatus::kLost;
    case nvml::kResetRequired: return ReadStatus::kResetRequired;
    default: return ReadStatus::kError;
  }
}

}  // namespace gpulens::nvml
