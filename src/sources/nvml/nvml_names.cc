#include <array>
#include <cmath>

#include "base/check.h"
#include "sources/nvml/nvml_calls.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens::nvml {
namespace {

constexpr std::array<FieldInfo, kFieldCount> kFields = {{
#define GPULENS_NVML_FIELD_INFO(id, name, unit, tier, ...) {name, unit, FieldTier::tier},
    GPULENS_NVML_FIELDS(GPULENS_NVML_FIELD_INFO)
#undef GPULENS_NVML_FIELD_INFO
}};

constexpr std::array<std::string_view, kLinkFieldCount> kLinkFields = {{
#define GPULENS_NVML_LINK_FIELD_NAME(id, name) name,
    GPULENS_NVML_LINK_FIELDS(GPULENS_NVML_LINK_FIELD_NAME)
#undef GPULENS_NVML_LINK_FIELD_NAME
}};

constexpr std::array<std::string_view, static_cast<size_t>(Call::kCount)> kCallNames = {
    {"none", "dlopen",
#define GPULENS_NVML_CALL_NAME(id, symbol, parameters) #symbol,
     GPULENS_NVML_CALLS(GPULENS_NVML_CALL_NAME)
#undef GPULENS_NVML_CALL_NAME
    }};

struct ReturnWords {
  int code;
  std::string_view text;
};
constexpr ReturnWords kReturns[] = {
    {0, "success"},
    {1, "library not initialized"},
    {2, "invalid argument"},
    {3, "not supported"},
    {4, "no permission"},
    {6, "not found"},
    {7, "buffer too small"},
    {8, "external power cables not attached"},
    {9, "driver not loaded"},
    {10, "timeout"},
    {11, "interrupt problem"},
    {12, "library not found"},
    {13, "function not found"},
    {14, "corrupted infoROM"},
    {15, "GPU is lost"},
    {16, "GPU requires reset"},
    {17, "blocked by the operating system"},
    {18, "driver and library have different versions"},
    {19, "in use"},
    {20, "out of memory"},
    {21, "no data"},
    {23, "out of resources"},
    {25, "struct version not known to the driver"},
    {26, "deprecated"},
    {27, "not ready"},
    {28, "GPU not found"},
    {29, "invalid state"},
    {999, "unknown error"},
};

}  // namespace

std::string_view CallName(Call call) noexcept {
  size_t at = static_cast<size_t>(call);
  return at < kCallNames.size() ? kCallNames[at] : "unknown";
}

const FieldInfo& InfoOf(Field field) noexcept {
  CHECK(static_cast<size_t>(field) < kFieldCount);
  return kFields[static_cast<size_t>(field)];
}

std::string_view LinkFieldName(LinkField field) noexcept {
  CHECK(static_cast<size_t>(field) < kLinkFieldCount);
  return kLinkFields[static_cast<size_t>(field)];
}

double BitErrorRate(uint64_t packed) noexcept {
  auto mantissa = static_cast<double>(packed >> 8 & 0xF);
  return mantissa * std::pow(10.0, -static_cast<double>(packed & 0xFF));
}

const reader::VendorTables& NvmlVendor() noexcept {
  static constexpr reader::VendorTables kVendor{
      .name = "nvml",
      .no_devices = "the NVIDIA driver sees no GPU",
      .device = "GPU",
      .fields = kFields,
      .call_name = [](reader::CallNumber call) noexcept { return CallName(call); },
      .slow_call = [](reader::CallNumber call) noexcept { return IsSlowCall(static_cast<Call>(call)); },
      .links = kLinkEnd - 1,
      .link_fields = kLinkFieldCount,
      .longest_wait = kEventWait};
  return kVendor;
}

std::string_view ReturnText(int code) noexcept {
  for (const ReturnWords& words : kReturns) {
    if (words.code == code) return words.text;
  }
  return "unlisted error";
}

}  // namespace gpulens::nvml
