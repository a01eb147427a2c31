#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {

uint64_t UnsignedOf(unsigned value_type, const Value& value) noexcept {
  switch (value_type) {
    case kDouble:
      return value.double_value > 0 && value.double_value < 9e18 ? static_cast<uint64_t>(value.double_value)
                                                                 : 0;
    case kUint: return value.uint_value;
    case kUlong: return value.ulong_value;
    case kSllong: return static_cast<uint64_t>(value.sll_value);
    case kSint: return static_cast<uint64_t>(static_cast<int64_t>(value.int_value));
    case kUshort: return value.ushort_value;
    default: return value.ull_value;
  }
}

}  // namespace gpulens::nvml
