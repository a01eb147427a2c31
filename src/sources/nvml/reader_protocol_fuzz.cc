// The agent's decoders meet whatever a reader process sends: the common messages, and NVML's own. What they
// accept must be in range, and what is encoded again must be the same.
#include "sources/nvml/reader_protocol.h"

#include <algorithm>
#include <cstdlib>

namespace {

using namespace gpulens;

void CheckCommon(const reader::ReaderMessage& message, std::span<const std::byte> bytes) {
  reader::MessageEncoder encoder;
  auto same = [&](std::span<const std::byte> again) {
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  };
  if (const auto* readings = std::get_if<reader::ReadingsReport>(&message)) {
    for (size_t i = 0; i < readings->readings.size(); ++i) {
      reader::DeviceReading reading = readings->readings[i];
      size_t fields = reading.link == 0 ? nvml::kFieldCount : nvml::kLinkFieldCount;
      if (reading.device >= reader::kMaxDevices || reading.field >= fields) std::abort();
      if (reading.link >= nvml::kLinkEnd || StatusName(reading.status) == "unknown") std::abort();
    }
  }
  if (const auto* device = std::get_if<reader::DeviceReport>(&message)) {
    if (device->device >= reader::kMaxDevices || device->fact_count > reader::kMaxFacts) std::abort();
    same(encoder.Encode(*device, std::span(device->facts).first(device->fact_count)));
  }
  if (const auto* library = std::get_if<reader::LibraryReport>(&message)) {
    if (library->devices > reader::kMaxDevices || library->fault >= reader::ReaderFault::kCount) std::abort();
    same(encoder.Encode(*library));
  }
  if (const auto* processes = std::get_if<reader::ProcessesReport>(&message)) {
    if (processes->processes.size() > reader::kMaxProcesses) std::abort();
    for (size_t i = 0; i < processes->processes.size(); ++i) {
      if (processes->processes[i].name.back() != '\0') std::abort();
    }
  }
}

void CheckOwn(const nvml::NvmlReport& report, uint32_t gpu, std::span<const std::byte> bytes) {
  using namespace nvml;
  if (const auto* processes = std::get_if<ProcessList>(&report)) {
    if (processes->processes.size() > nvml::kMaxProcesses) std::abort();
  }
  if (const auto* slices = std::get_if<SliceList>(&report)) {
    if (slices->keys.size() > kMaxSlices || slices->kind == SliceKind::kWhole) std::abort();
  }
  if (const auto* slice = std::get_if<SliceFactsReport>(&report)) {
    if (slice->fact_count > kMaxSliceFacts) std::abort();
    MessageEncoder encoder;
    auto again = EncodeSlice(encoder, gpu, slice->key, std::span(slice->facts).first(slice->fact_count));
    if (again.size() != bytes.size()) std::abort();
  }
  if (const auto* values = std::get_if<SliceReadings>(&report)) {
    for (size_t i = 0; i < values->readings.size(); ++i) {
      if (values->readings[i].field >= kSliceFieldCount || values->readings[i].entity != gpu) std::abort();
    }
  }
  if (const auto* events = std::get_if<EventList>(&report)) {
    for (size_t i = 0; i < events->events.size(); ++i) {
      if (events->events[i].entity != gpu) std::abort();
    }
  }
  if (const auto* shares = std::get_if<ShareList>(&report)) {
    if (shares->shares.size() > nvml::kMaxProcesses) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  auto message = reader::DecodeMessage(bytes, nvml::NvmlVendor());
  if (!message.ok()) return 0;
  CheckCommon(*message, bytes);
  if (const auto* report = std::get_if<reader::VendorReport>(&*message)) {
    auto own = nvml::DecodeReport(*report);
    if (own.ok()) CheckOwn(*own, report->device, bytes);
  }
  return 0;
}
