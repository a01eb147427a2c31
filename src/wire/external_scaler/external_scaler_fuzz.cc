#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "wire/external_scaler/external_scaler.h"

// Whatever a client sends is read within the limits, or refused with a reason.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto check = [](const gpulens::ScaledObjectRef& object) {
    CHECK(object.metadata.size() <= gpulens::kScalerMetadataEntries);
    for (const auto& [key, value] : object.metadata) {
      CHECK(key.size() <= gpulens::kScalerTextBytes && value.size() <= gpulens::kScalerTextBytes);
      CHECK(gpulens::IsUtf8(key) && gpulens::IsUtf8(value));
    }
  };
  if (auto object = gpulens::ReadScaledObjectRef(bytes)) check(*object);
  else CHECK(!object.error().detail.empty());
  if (auto request = gpulens::ReadScalerMetricsRequest(bytes)) check(request->object);
  else CHECK(!request.error().detail.empty());
  return 0;
}
