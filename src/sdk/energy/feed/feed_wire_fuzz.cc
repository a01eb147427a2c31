// Any bytes from the socket of the energy feed are rejected, or equal their encoded value.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "sdk/energy/feed/feed_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::sdk;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto request = DecodeFeedRequest(bytes)) {
    const auto again = DecodeFeedRequest(EncodeFeedRequest(*request));
    CHECK(again && again->kind == request->kind && again->device == request->device);
  }
  if (const auto devices = DecodeFeedDevices(bytes)) {
    CHECK(devices->size() <= kMostFeedDevices);
    const auto again = DecodeFeedDevices(EncodeFeedDevices(*devices));
    CHECK(again && again->size() == devices->size());
    for (size_t i = 0; i < devices->size(); ++i) CHECK((*again)[i].device.id == (*devices)[i].device.id);
  }
  if (const auto reading = DecodeFeedReading(bytes)) {
    CHECK(reading->began_ns <= reading->ended_ns && !std::isinf(reading->reading.joules));
    CHECK(DecodeFeedReading(EncodeFeedReading(*reading)).ok());
  }
  if (const auto processes = DecodeFeedProcesses(bytes)) {
    const auto again = DecodeFeedProcesses(EncodeFeedProcesses(*processes));
    CHECK(again && again->list.size() == processes->list.size() &&
          again->since_last == processes->since_last);
    for (size_t i = 0; i < processes->list.size(); ++i) CHECK(again->list[i].own == processes->list[i].own);
  }
  return 0;
}
