// What one request to an LLM API used, in classes that do not overlap, so that a price for each class charges
// each token once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

// Disjoint: a token counts in one class. Their total is the total of the provider, whatever its fields
// include.
enum class LlmClass : uint8_t {
  kInput,           // text in that no other class has
  kInputCached,     // read from the provider's prompt cache
  kInputWrite5m,    // written to it for the provider's short time
  kInputWriteLong,  // written to it for an hour or more
  kInputAudio,
  kInputAudioCached,
  kInputImage,
  kInputVideo,
  kInputTool,  // prompts that tools of the provider added
  kOutput,     // text out that no other class has
  kOutputReasoning,
  kOutputAudio,
  kOutputImage,
  kWebSearches,
  kWebFetches,
  kPages,
  kMilliseconds,  // of audio
  kCharacters,
  kImages,
  kQueries,  // of a rerank: the provider's billed units
  kRequests,
};
inline constexpr size_t kLlmClasses = 21;

// "input", "input_cached", … as in labels and records.
std::string_view LlmClassName(LlmClass of) noexcept;
// True for classes of tokens that go in; these decide whether a request is a long one.
constexpr bool IsInput(LlmClass of) noexcept { return of <= LlmClass::kInputTool; }
constexpr bool IsOutput(LlmClass of) noexcept {
  return of >= LlmClass::kOutput && of <= LlmClass::kOutputImage;
}

// A plain value. Units are never negative.
struct LlmUsage {
  std::array<int64_t, kLlmClasses> units{};
  // Whether the provider sent a count of this direction at all: what it did not send is unknown and not 0.
  bool input_known = false;
  bool output_known = false;
  // The provider's fields contradicted each other (a part larger than its whole, a total that fits no
  // reading, a negative or a fraction) and were limited to what fits.
  bool inconsistent = false;

  int64_t& operator[](LlmClass of) noexcept { return units[static_cast<size_t>(of)]; }
  int64_t operator[](LlmClass of) const noexcept { return units[static_cast<size_t>(of)]; }
  bool operator==(const LlmUsage&) const = default;
};

}  // namespace gpulens
