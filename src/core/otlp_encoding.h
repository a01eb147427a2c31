// How an OTLP request is written: of which signal, packed how, as protobuf or JSON. One byte says it, in
// request logs too, so the numbers never change.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/received_otlp.h"

namespace gpulens {

inline constexpr std::array<std::string_view, 3> kOtlpPackings = {"none", "gzip", "zstd"};

struct OtlpEncoding {
  size_t signal = 0;   // of OtlpSignal
  size_t packing = 0;  // of kOtlpPackings
  bool json = false;
};
inline constexpr size_t kOtlpEncodings = 2 * kOtlpSignals * kOtlpPackings.size();

// Traces came last, and stand behind the others.
constexpr size_t NumberOf(const OtlpEncoding& encoding) noexcept {
  const size_t way = encoding.packing + kOtlpPackings.size() * encoding.json;
  return encoding.signal < 2 ? encoding.signal + 2 * way : 4 * kOtlpPackings.size() + way;
}
constexpr OtlpEncoding OtlpEncodingOf(size_t number) noexcept {
  const size_t packings = kOtlpPackings.size(), first_traces = 4 * packings;
  const size_t way = number < first_traces ? number / 2 : number - first_traces;
  return {number < first_traces ? number % 2 : 2, way % packings, way >= packings};
}

}  // namespace gpulens
