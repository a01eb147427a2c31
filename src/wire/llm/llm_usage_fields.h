// The usage objects of LLM APIs: members as they were sent, and what they mean in classes that do not
// overlap.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "wire/llm/llm_usage.h"

namespace gpulens {

// A part of an answer that is priced alone, by its own model.
struct LlmIteration {
  std::string model;  // empty: that of the answer
  LlmUsage usage;
};

// A value: the newest usage object, or Anthropic's of several events, in which a later member replaces an
// earlier one. Not thread-safe.
class LlmUsageFields {
 public:
  enum Field : uint8_t {
    kInPrompt,   // what includes the cached part, unless a total contradicts
    kInInput,    // the same; but where parts have Anthropic's names, they are besides it
    kInTool,     // besides it
    kCached,     // inside
    kCachedHit,  // the same under another name
    kReadBesides,
    kWritten,  // inside
    kWrittenBesides,
    kWritten5m,  // parts of kWrittenBesides
    kWritten1h,
    kInAudio,
    kInImage,
    kInVideo,
    kCachedAudio,  // parts of the cached part
    kCachedImage,
    kCachedVideo,
    kOut,
    kReasoning,  // inside
    kThoughts,   // besides
    kOutAudio,
    kOutImage,
    kTotal,
    kWebSearches,
    kWebFetches,
    kPages,
    kSeconds,
    kQueries,
    kFields,
  };
  // A count above this is not believed: bad, as a negative number, a fraction or a text is.
  static constexpr int64_t kMaxUnits = 1'000'000'000'000;
  static constexpr size_t kMaxIterations = 256;

  // Reads the members of the object that `json` is at; not an object: nothing. Fields that it has replace
  // those read before. Fails with `json`.
  void Read(JsonScanner& json);
  // One member of an object whose members are not all of usage (Ollama): true when it was one and is read.
  bool ReadMember(std::string_view key, JsonScanner& json);
  void Clear() noexcept;

  // Whether a count was sent, also a bad one.
  bool any() const noexcept { return present_ != 0 || bad_ != 0; }
  // In classes. Where a total was sent, it decides whether a part is inside its whole or besides it; else the
  // name does, and `reasoning_besides` of servers that count reasoning besides the output under the name of
  // OpenAI (xAI). Of an answer of several iterations: their sum.
  LlmUsage Usage(bool reasoning_besides = false) const;
  // Parts of the answer; empty unless the provider sent them. Their usage adds up to Usage() but for
  // searches.
  const std::vector<LlmIteration>& iterations() const noexcept { return iterations_; }
  // The tier that served the request, as the provider names it, or empty.
  const std::string& tier() const noexcept { return tier_; }

 private:
  void ReadObject(JsonScanner& json, char* path, size_t size, int depth);
  void ReadList(JsonScanner& json, char* path, size_t size);
  void ReadIterations(JsonScanner& json);
  void ReadNumber(JsonScanner& json, std::string_view path);
  void ReadTier(JsonScanner& json, std::string_view key);
  void Set(Field field, int64_t value, bool bad) noexcept;
  bool Has(Field field) const noexcept { return present_ >> field & 1; }
  int64_t Of(Field field) const noexcept { return Has(field) ? values_[field] : 0; }

  std::array<int64_t, kFields> values_{};
  uint32_t present_ = 0, bad_ = 0;
  std::string tier_;
  std::vector<LlmIteration> iterations_;
};

}  // namespace gpulens
