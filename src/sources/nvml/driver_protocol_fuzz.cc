// The agent's decoder meets whatever a driver process sends. What it accepts must be in range.
#include <cstdlib>

#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/message_encoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nvml;
  auto message = DecodeMessage(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  if (const auto* readings = std::get_if<ReadingsReport>(&*message)) {
    for (size_t i = 0; i < readings->readings.size(); ++i) {
      Reading reading = readings->readings[i];
      if (reading.entity >= kMaxGpus || reading.field >= kFieldCount) std::abort();
    }
  }
  if (const auto* entity = std::get_if<EntityReport>(&*message)) {
    if (entity->entity >= kMaxGpus || entity->fact_count > kMaxFacts) std::abort();
    size_t bytes = 0;
    for (size_t i = 0; i < entity->fact_count; ++i) {
      for (char c : entity->facts[i].value) bytes += static_cast<unsigned char>(c) != 0;
    }
    if (bytes > size) std::abort();
    MessageEncoder encoder;
    auto again =
        encoder.Encode(entity->entity, entity->code, std::span(entity->facts).first(entity->fact_count));
    if (!std::equal(again.begin(), again.end(), std::as_bytes(std::span(data, size)).begin())) std::abort();
  }
  if (const auto* processes = std::get_if<ProcessesReport>(&*message)) {
    if (processes->processes.size() > kMaxProcesses) std::abort();
  }
  if (const auto* parts = std::get_if<PartsReport>(&*message)) {
    if (parts->keys.size() > kMaxParts || parts->kind == PartKind::kWhole) std::abort();
  }
  if (const auto* part = std::get_if<PartReport>(&*message)) {
    if (part->entity >= kMaxGpus || part->fact_count > kMaxPartFacts) std::abort();
  }
  if (const auto* values = std::get_if<PartReadingsReport>(&*message)) {
    for (size_t i = 0; i < values->readings.size(); ++i) {
      if (values->readings[i].field >= kPartFieldCount) std::abort();
    }
  }
  if (const auto* shares = std::get_if<ProcessSharesReport>(&*message)) {
    if (shares->shares.size() > kMaxProcesses) std::abort();
  }
  return 0;
}
