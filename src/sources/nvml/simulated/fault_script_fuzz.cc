// Any bytes as a script or a command line: the faults parsed survive writing and reading.
#include <cstdint>
#include <cstdlib>

#include "sources/nvml/simulated/fault_list.h"
#include "sources/nvml/simulated/fault_watch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nvml;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kNow = 1'000'000'000'000;
  if (auto faults = ParseFaultScript(text)) {
    if (faults->size() > kMaxLiveFaults) std::abort();
    auto again = ParseFaultScript(FormatFaultScript(*faults));
    if (!again || *again != *faults) std::abort();
    static_cast<void>(GateOf(*faults, {"nvmlDeviceGetPowerUsage", 3, kNow, 0, 1}));
  }
  FaultList list;
  if (auto answer = list.Fail(text, kNow, 8); answer && answer->find_first_of(";\n") != std::string::npos)
    std::abort();
  if (!list.faults().empty()) {
    auto again = ParseFaultScript(FormatFaultScript(list.faults()));
    if (!again || *again != list.faults()) std::abort();
  }
  static_cast<void>(list.Heal(text, kNow));
  return 0;
}
