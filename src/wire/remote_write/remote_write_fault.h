// Why a series or a histogram that was received cannot be passed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

enum class RemoteWriteFault : uint8_t {
  kNone,
  kNoName,
  kEmptyLabel,
  kTwice,
  kTooManyLabels,
  kNoText,
  kNoSymbol,
  kOddRefs,
  kNoTime,
  kFloatHistogram,
  kGaugeHistogram,
  kSchema,
  kBuckets,
  kBounds,
  kTooWide,
};
inline constexpr size_t kRemoteWriteFaults = 15;

// What a sender is told: "the name of a metric is missing". Static storage.
constexpr std::string_view TextOf(RemoteWriteFault fault) noexcept {
  constexpr std::string_view kTexts[kRemoteWriteFaults] = {
      "",
      "a series has no __name__",
      "the name of a label is empty",
      "a label occurs twice",
      "a series has more than 1024 labels",
      "a text is not valid UTF-8",
      "a label refers to a symbol that does not exist",
      "the label references are not pairs",
      "a time is before 1970 or after 2261",
      "a histogram of floating-point counts cannot be expressed in OTLP",
      "a gauge histogram cannot be expressed in OTLP",
      "a histogram's schema is unknown",
      "a histogram's buckets do not fit its spans or its count",
      "a histogram's custom bounds do not rise",
      "a histogram has more than 16384 buckets",
  };
  return kTexts[static_cast<size_t>(fault)];
}

}  // namespace gpulens
