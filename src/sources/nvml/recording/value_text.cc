#include "sources/nvml/recording/value_text.h"

#include "base/parse.h"

namespace gpulens::nvml {
namespace {

template <class T>
bool Take(std::string_view text, T& out) noexcept {
  auto number = ParseInt<T>(text);
  if (number) out = *number;
  return number.has_value();
}

}  // namespace

bool ValueOf(unsigned type, std::string_view text, Value& out) noexcept {
  out.ull_value = 0;
  switch (type) {
    case kDouble: {
      auto number = ParseDouble(text);
      if (number) out.double_value = *number;
      return number.has_value();
    }
    case kUint: return Take(text, out.uint_value);
    case kUlong: return Take(text, out.ulong_value);
    case kUllong: return Take(text, out.ull_value);
    case kSllong: return Take(text, out.sll_value);
    case kSint: return Take(text, out.int_value);
    case kUshort: return Take(text, out.ushort_value);
    default: return false;
  }
}

std::string FieldQuestion(const FieldValue& value) {
  std::string out = "field " + std::to_string(value.field_id);
  if (value.scope_id == kAllLinks) out += "(all)";
  else if (value.scope_id != 0) out += "(" + std::to_string(value.scope_id) + ")";
  return out;
}

}  // namespace gpulens::nvml
