// Any bytes as a file of counts.
#include <cstddef>

#include "base/check.h"
#include "sources/pci_aer/pci_aer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::pci_aer;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (AerSeverity severity : {AerSeverity::kCorrectable, AerSeverity::kNonFatal, AerSeverity::kFatal}) {
    // A total needs its word.
    if (ParseTotal(text, severity)) CHECK(text.find("TOTAL_ERR_") != std::string_view::npos);
  }
  return 0;
}
