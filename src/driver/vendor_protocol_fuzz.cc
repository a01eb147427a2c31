// The agent's decoder meets whatever a driver process sends. What it accepts must be in range.
#include <algorithm>
#include <cstdlib>

#include "driver/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::driver;
  constexpr size_t kFields = 100;
  auto bytes = std::as_bytes(std::span(data, size));
  static constexpr FieldInfo kTable[kFields] = {};
  static constexpr Vendor kVendor{.fields = kTable, .links = 4, .link_fields = 3};
  auto message = DecodeMessage(bytes, kVendor);
  if (!message) return 0;
  MessageEncoder encoder;
  if (const auto* readings = std::get_if<ReadingsReport>(&*message)) {
    for (size_t i = 0; i < readings->readings.size(); ++i) {
      Reading reading = readings->readings[i];
      if (reading.device >= kMaxDevices || reading.field >= kFields) std::abort();
      if (StatusName(reading.status) == "unknown") std::abort();
    }
  }
  if (const auto* device = std::get_if<DeviceReport>(&*message)) {
    if (device->device >= kMaxDevices || device->fact_count > kMaxFacts) std::abort();
    auto again = encoder.Encode(*device, std::span(device->facts).first(device->fact_count));
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
  if (const auto* library = std::get_if<LibraryReport>(&*message)) {
    if (library->devices > kMaxDevices || library->fault >= Fault::kCount) std::abort();
    auto again = encoder.Encode(*library);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
  if (const auto* processes = std::get_if<ProcessesReport>(&*message)) {
    if (processes->processes.size() > kMaxProcesses) std::abort();
    for (size_t i = 0; i < processes->processes.size(); ++i) {
      if (processes->processes[i].name.back() != '\0') std::abort();
    }
  }
  return 0;
}
