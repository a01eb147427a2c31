// The library's lists of the processes that use a GPU, whichever version of the functions it has.
#pragma once

#include <cstddef>
#include <vector>

#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {

inline constexpr size_t kProcessLists = 3;  // by ProcessType

// Used by one thread; `caller` outlives it. Allocates only while there are more processes than before.
class ProcessLister {
 public:
  // `avoid_v3`: where this driver's _v3 functions write what nobody can read.
  explicit ProcessLister(Caller& caller, bool avoid_v3 = false) noexcept
      : caller_(caller), avoid_v3_(avoid_v3) {}

  // Of a GPU or a MIG device. The library's code; `found` is what it told when that is kSuccess.
  int Read(Device device, ProcessType list);
  const std::vector<GpuProcess>& found() const noexcept { return found_; }

 private:
  void Take(ProcessType list, size_t count, bool v1);

  Caller& caller_;
  const bool avoid_v3_;
  std::vector<std::byte> buffer_;
  std::vector<GpuProcess> found_;
};

}  // namespace gpulens::nvml
