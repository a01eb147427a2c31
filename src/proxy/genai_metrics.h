// The gen_ai.* metrics of OpenTelemetry's conventions, of requests that went to a provider: those of
// version 1.37, and those of the repository that they have moved to in 2026. A number that is not known has
// no series: the conventions want 0 there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gpulens/instruments.h>
#include <gpulens/registry.h>

#include "wire/llm/llm_usage.h"

namespace gpulens::proxy {

// Which versions of the conventions are exported.
struct GenaiVersions {
  bool v1_37 = true, v2026 = true;
};

enum class GenaiModality : uint8_t { kText, kImage, kAudio, kVideo, kUnknown };
inline constexpr size_t kGenaiModalities = 5;
// "text": gen_ai.token.modality.
std::string_view GenaiModalityName(GenaiModality of) noexcept;
// Of a class of tokens. `media`: the request has images, sounds or documents, of which the provider may not
// count the tokens apart: text is "unknown" then.
GenaiModality ModalityOf(LlmClass of, bool media) noexcept;

// Sums of tokens, each a counter by modality. The last three are parts of the first two.
enum class GenaiTokens : uint8_t { kInput, kOutput, kCacheRead, kCacheWrite, kReasoning };
inline constexpr size_t kGenaiTokens = 5;
// One value for each request, but kOutputChunk, which has one for each chunk after the first.
enum class GenaiValue : uint8_t {
  kOperationInput,
  kOperationOutput,
  kDuration,
  kFirstChunk,
  kOutputChunk,
  kServerDuration,
  kServerFirstToken,
  kServerPerToken,
  // Of 1.37.
  kTokenUsageInput,
  kTokenUsageOutput,
  kOperationDuration,
};
inline constexpr size_t kGenaiValues = 11;

// What series are called. Views.
struct GenaiAttributes {
  std::string_view operation, provider, request_model, response_model, server_address, error_type;
  uint16_t server_port = 0;
};

// The instruments. Thread-safe.
class GenaiInstruments {
 public:
  // An instrument has at most so many series; what exceeds them is one series with otel.metric.overflow.
  GenaiInstruments(const GenaiVersions& versions, size_t max_series);

  // All series that have a value, ready for export.
  std::vector<Sample> Read() const;
  size_t max_series() const noexcept { return max_series_; }

 private:
  friend class GenaiSeries;
  const size_t max_series_;
  Registry registry_;
  std::array<std::optional<Counter>, kGenaiTokens> counters_;
  std::array<std::optional<Histogram>, kGenaiValues> histograms_;
};

// The series of one set of attributes, each made with its first value. Of one thread.
class GenaiSeries {
 public:
  GenaiSeries(const GenaiInstruments& instruments, const GenaiAttributes& attributes);

  // Nothing where the versions have no such instrument.
  void Add(GenaiTokens what, GenaiModality modality, int64_t tokens);
  void Record(GenaiValue what, double value);
  // The tokens that a provider has reported.
  void AddUsage(const LlmUsage& usage, bool media);

 private:
  std::vector<Attribute> Base() const;

  const GenaiInstruments& instruments_;
  std::vector<std::pair<std::string_view, std::string>> texts_;
  std::string error_;
  int64_t port_ = 0;
  std::array<std::array<std::optional<Counter>, kGenaiModalities>, kGenaiTokens> counters_;
  std::array<std::optional<Histogram>, kGenaiValues> histograms_;
};

// Finds series by their attributes. Of one thread.
class GenaiSeriesTable {
 public:
  explicit GenaiSeriesTable(const GenaiInstruments& instruments) : instruments_(instruments) {}
  // Lives as long as the table.
  GenaiSeries& Find(const GenaiAttributes& attributes);

 private:
  const GenaiInstruments& instruments_;
  std::unordered_map<std::string, GenaiSeries> series_;
  std::string key_;
};

int64_t InputTokens(const LlmUsage& usage) noexcept;   // cached and written ones are among them
int64_t OutputTokens(const LlmUsage& usage) noexcept;  // reasoning is among them

}  // namespace gpulens::proxy
