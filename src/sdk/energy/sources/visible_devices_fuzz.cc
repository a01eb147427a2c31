#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sdk/energy/sources/visible_devices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::sdk::VisibleName;
  static const std::array<VisibleName, 3> devices = {
      VisibleName{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", {}},
      VisibleName{"GPU-8932f937-aaaa-4106-c12f-20bd9faed9f6", {"MIG-1111", "MIG-1112"}},
      VisibleName{"GPU-00000000-0000-0000-0000-000000000000", {"MIG-2222"}}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto found = gpulens::sdk::VisibleDevices(text, devices);
  if (found.size() > devices.size()) std::abort();
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] >= devices.size()) std::abort();
    for (size_t j = 0; j < i; ++j)
      if (found[i] == found[j]) std::abort();
  }
  return 0;
}
