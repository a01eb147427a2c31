#include "sources/nvml/recording/call_text.h"

#include <charconv>

namespace gpulens::nvml {
namespace {

template <class T>
bool Take(std::optional<T> number, T& out) noexcept {
  if (number) out = *number;
  return number.has_value();
}

}  // namespace

std::string FieldQuestion(const FieldValue& value) {
  std::string out = "field " + std::to_string(value.field_id);
  if (value.scope_id == kAllLinks) return out + "(all)";
  return value.scope_id == 0 ? out : QuestionOf(out, value.scope_id);
}

unsigned GreatestMetric(std::span<const GpmMetric> metrics) noexcept {
  unsigned greatest = 0;
  for (const GpmMetric& metric : metrics) greatest = std::max(greatest, metric.id);
  return greatest;
}

void ValuesOut::AddBytes(std::span<const unsigned char> bytes) {
  std::string& hex = values_.emplace_back();
  for (unsigned char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    (hex += kDigits[byte >> 4]) += kDigits[byte & 15];
  }
}

void ValuesIn::ReadBytes(std::span<unsigned char> out) {
  std::string_view hex = at_ < values_.size() ? std::string_view(values_[at_++]) : std::string_view();
  if (hex.size() != 2 * out.size()) code_ = kUnknownError;
  for (size_t i = 0; i < out.size() && code_ == kSuccess; ++i) {
    if (!Take(ParseInt<unsigned char>(hex.substr(2 * i, 2), 16), out[i])) code_ = kUnknownError;
  }
}

void ValuesIn::CopyText(size_t size) {
  char* out = std::exchange(text_, nullptr);
  if (at_ == values_.size()) {
    code_ = kUnknownError;
    return;
  }
  const std::string& text = values_[at_++];
  if (text.size() >= size) code_ = kInsufficientSize;
  else std::memcpy(out, text.c_str(), text.size() + 1);
}

unsigned TypeOf(std::string_view name) noexcept {
  return static_cast<unsigned>(std::ranges::find(kValueTypes, name) - std::begin(kValueTypes));
}

bool ValueOf(unsigned type, std::string_view text, Value& out) noexcept {
  out.ull_value = 0;
  switch (type) {
    case kDouble: return Take(ParseDouble(text), out.double_value);
    case kUint: return Take(ParseInt<unsigned>(text), out.uint_value);
    case kUlong: return Take(ParseInt<unsigned long>(text), out.ulong_value);
    case kUllong: return Take(ParseInt<unsigned long long>(text), out.ull_value);
    case kSllong: return Take(ParseInt<long long>(text), out.sll_value);
    case kSint: return Take(ParseInt<int>(text), out.int_value);
    case kUshort: return Take(ParseInt<unsigned short>(text), out.ushort_value);
    default: return false;
  }
}

std::string TextOf(double value) {
  char text[40];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return {text, end};
}

std::string TextOf(unsigned type, const Value& value) {
  switch (type) {
    case kDouble: return TextOf(value.double_value);
    case kUint: return std::to_string(value.uint_value);
    case kUlong: return std::to_string(value.ulong_value);
    case kSllong: return std::to_string(value.sll_value);
    case kSint: return std::to_string(value.int_value);
    case kUshort: return std::to_string(value.ushort_value);
    default: return std::to_string(value.ull_value);
  }
}

}  // namespace gpulens::nvml
