#include <array>

#include "sources/amdsmi/amdsmi_calls.h"
#include "sources/amdsmi/amdsmi_fields.h"

namespace gpulens::amdsmi {
namespace {

constexpr reader::FieldInfo kGroups[] = {
#define GPULENS_AMDSMI_FIELD_INFO(id, name, unit, tier, copies) {name, unit, reader::FieldTier::tier},
    GPULENS_AMDSMI_FIELDS(GPULENS_AMDSMI_FIELD_INFO)
#undef GPULENS_AMDSMI_FIELD_INFO
};

constexpr std::array<reader::FieldInfo, kSlots> kFields = [] {
  std::array<reader::FieldInfo, kSlots> out{};
  size_t slot = 0;
  for (size_t group = 0; group < std::size(kGroups); ++group) {
    for (unsigned copy = 0; copy < kCopies[group]; ++copy) out[slot++] = kGroups[group];
  }
  return out;
}();

constexpr std::array<std::string_view, static_cast<size_t>(Call::kCount)> kCallNames = {
    {"none", "dlopen",
#define GPULENS_AMDSMI_CALL_NAME(id, symbol, parameters) #symbol,
     GPULENS_AMDSMI_CALLS(GPULENS_AMDSMI_CALL_NAME)
#undef GPULENS_AMDSMI_CALL_NAME
    }};

// Opening the library walks all of sysfs; the first look at a GPU may wake it.
bool IsSlowCall(reader::CallNumber call) noexcept {
  switch (static_cast<Call>(call)) {
    case Call::kLoadLibrary:
    case Call::kInit:
    case Call::kSocketHandles:
    case Call::kProcessorHandles:
    case Call::kAsicInfo: return true;
    default: return false;
  }
}

struct ReturnWords {
  int code;
  std::string_view text;
};
constexpr ReturnWords kReturns[] = {
    {-1, "function not in this library"},
    {0, "success"},
    {1, "invalid argument"},
    {2, "not supported"},
    {3, "not implemented"},
    {4, "a library could not be loaded"},
    {5, "a symbol could not be loaded"},
    {6, "the DRM library failed"},
    {7, "call failed"},
    {8, "timeout"},
    {9, "try again"},
    {10, "no permission"},
    {11, "interrupted"},
    {12, "input/output error"},
    {13, "bad address"},
    {14, "a file could not be read"},
    {15, "out of resources"},
    {16, "internal exception"},
    {17, "out of bounds"},
    {18, "initialization failed"},
    {19, "too many references"},
    {20, "a folder is missing"},
    {30, "busy"},
    {31, "not found"},
    {32, "not initialized"},
    {33, "no free slot"},
    {34, "driver not loaded"},
    {39, "more data than space"},
    {40, "no data"},
    {41, "not enough space"},
    {42, "unexpected amount of data"},
    {43, "unexpected data"},
    {52, "file not found"},
    {53, "null argument"},
    {54, "driver restart failed"},
    {55, "setting not available"},
    {56, "corrupted EEPROM"},
};

}  // namespace

std::string_view CallName(reader::CallNumber call) noexcept {
  return call < kCallNames.size() ? kCallNames[call] : "unknown";
}

const reader::VendorTables& AmdsmiVendor() noexcept {
  static constexpr reader::VendorTables kVendor{.name = "amdsmi",
                                                .no_devices = "the AMD SMI library sees no GPU",
                                                .device = "GPU",
                                                .fields = kFields,
                                                .call_name = &CallName,
                                                .slow_call = &IsSlowCall};
  return kVendor;
}

std::string_view ReturnText(int code) noexcept {
  for (const ReturnWords& words : kReturns) {
    if (words.code == code) return words.text;
  }
  return "unlisted error";
}

}  // namespace gpulens::amdsmi
