// The agent's decoders meet whatever a reader process sends: the common messages, and NVML's own. What they
// accept must be in range, and what is encoded again must be the same.
#include <algorithm>
#include <cstdlib>

#include "sources/nvml/driver_protocol.h"

namespace {

using namespace gpulens;

void CheckCommon(const driver::Message& message, std::span<const std::byte> bytes) {
  driver::MessageEncoder encoder;
  auto same = [&](std::span<const std::byte> again) {
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  };
  if (const auto* readings = std::get_if<driver::ReadingsReport>(&message)) {
    for (size_t i = 0; i < readings->readings.size(); ++i) {
      driver::Reading reading = readings->readings[i];
      size_t fields = reading.part == 0 ? nvml::kFieldCount : nvml::kLinkFieldCount;
      if (reading.device >= driver::kMaxDevices || reading.field >= fields) std::abort();
      if (reading.part >= nvml::kMaxLinkParts || StatusName(reading.status) == "unknown") std::abort();
    }
  }
  if (const auto* device = std::get_if<driver::DeviceReport>(&message)) {
    if (device->device >= driver::kMaxDevices || device->fact_count > driver::kMaxFacts) std::abort();
    same(encoder.Encode(*device, std::span(device->facts).first(device->fact_count)));
  }
  if (const auto* library = std::get_if<driver::LibraryReport>(&message)) {
    if (library->devices > driver::kMaxDevices || library->fault >= driver::Fault::kCount) std::abort();
    same(encoder.Encode(*library));
  }
  if (const auto* processes = std::get_if<driver::ProcessesReport>(&message)) {
    if (processes->processes.size() > driver::kMaxProcesses) std::abort();
    for (size_t i = 0; i < processes->processes.size(); ++i) {
      if (processes->processes[i].name.back() != '\0') std::abort();
    }
  }
}

void CheckOwn(const nvml::Report& report, uint32_t gpu, std::span<const std::byte> bytes) {
  using namespace nvml;
  if (const auto* processes = std::get_if<ProcessList>(&report)) {
    if (processes->processes.size() > nvml::kMaxProcesses) std::abort();
  }
  if (const auto* parts = std::get_if<PartList>(&report)) {
    if (parts->keys.size() > kMaxParts || parts->kind == PartKind::kWhole) std::abort();
  }
  if (const auto* part = std::get_if<PartFactsReport>(&report)) {
    if (part->fact_count > kMaxPartFacts) std::abort();
    MessageEncoder encoder;
    auto again = EncodePart(encoder, gpu, part->key, std::span(part->facts).first(part->fact_count));
    if (again.size() != bytes.size()) std::abort();
  }
  if (const auto* values = std::get_if<PartReadings>(&report)) {
    for (size_t i = 0; i < values->readings.size(); ++i) {
      if (values->readings[i].field >= kPartFieldCount || values->readings[i].entity != gpu) std::abort();
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
  auto message = driver::DecodeMessage(bytes, nvml::NvmlVendor());
  if (!message.ok()) return 0;
  CheckCommon(*message, bytes);
  if (const auto* report = std::get_if<driver::VendorReport>(&*message)) {
    auto own = nvml::DecodeReport(*report);
    if (own.ok()) CheckOwn(*own, report->device, bytes);
  }
  return 0;
}
