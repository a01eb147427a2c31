#include "proxy/genai_metrics.h"

#include <algorithm>
#include <span>

namespace gpulens::proxy {
namespace {

// Those that the conventions advise.
constexpr double kTokenBounds[] = {1,     4,     16,     64,      256,     1024,     4096,
                                   16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};
constexpr double kSecondBounds[] = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                    1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                        0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
constexpr double kPerTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};

struct CounterRow {
  std::string_view name, description;
};
constexpr CounterRow kCounters[kGenaiTokens] = {
    {"gen_ai.client.inference.usage.input_tokens", "Input tokens, cached ones included."},
    {"gen_ai.client.inference.usage.output_tokens", "Output tokens, reasoning included."},
    {"gen_ai.client.inference.usage.cache_read.input_tokens", "Input tokens that were read from a cache."},
    {"gen_ai.client.inference.usage.cache_write.input_tokens", "Input tokens that were written to a cache."},
    {"gen_ai.client.inference.usage.reasoning.output_tokens", "Output tokens of reasoning."},
};

struct HistogramRow {
  std::string_view name, unit, description;
  std::span<const double> bounds;
  bool v1_37 = false, v2026 = false;
  bool error = false;                // has error.type
  std::string_view token_type = {};  // gen_ai.token.type
};
constexpr std::string_view kTokenUsage = "gen_ai.client.token.usage",
                           kTokenUsageHelp = "Number of input and output tokens used.";
constexpr HistogramRow kHistograms[kGenaiValues] = {
    {"gen_ai.client.inference.operation.input_tokens", "{token}", "Input tokens of a request.", kTokenBounds,
     false, true},
    {"gen_ai.client.inference.operation.output_tokens", "{token}", "Output tokens of a request.",
     kTokenBounds, false, true},
    {"gen_ai.client.inference.duration", "s", "From the dispatch of a request to the end of its answer.",
     kSecondBounds, false, true, true},
    {"gen_ai.client.inference.time_to_first_chunk", "s", "From the dispatch of a request to the first chunk.",
     kSecondBounds, false, true},
    {"gen_ai.client.inference.time_per_output_chunk", "s", "Between two chunks of a streamed answer.",
     kSecondBounds, false, true},
    {"gen_ai.server.request.duration", "s", "From a client's request to the last byte of its answer.",
     kSecondBounds, true, true, true},
    {"gen_ai.server.time_to_first_token", "s", "From a client's request to the first output.",
     kFirstTokenBounds, true, true},
    {"gen_ai.server.time_per_output_token", "s", "Time per output token after the first.", kPerTokenBounds,
     true, true},
    {kTokenUsage, "{token}", kTokenUsageHelp, kTokenBounds, true, false, false, "input"},
    {kTokenUsage, "{token}", kTokenUsageHelp, kTokenBounds, true, false, false, "output"},
    {"gen_ai.client.operation.duration", "s", "From the dispatch of a request to the end of its answer.",
     kSecondBounds, true, false, true},
};

int64_t Sum(const LlmUsage& usage, bool (*is)(LlmClass)) noexcept {
  int64_t sum = 0;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (is(static_cast<LlmClass>(i))) sum += usage.units[i];
  }
  return sum;
}

}  // namespace

int64_t InputTokens(const LlmUsage& usage) noexcept {
  return Sum(usage, [](LlmClass of) { return IsInput(of); });
}
int64_t OutputTokens(const LlmUsage& usage) noexcept {
  return Sum(usage, [](LlmClass of) { return IsOutput(of); });
}

std::string_view GenaiModalityName(GenaiModality of) noexcept {
  constexpr std::string_view kNames[kGenaiModalities] = {"text", "image", "audio", "video", "unknown"};
  return kNames[static_cast<size_t>(of)];
}

GenaiModality ModalityOf(LlmClass of, bool media) noexcept {
  switch (of) {
    case LlmClass::kInputAudio:
    case LlmClass::kInputAudioCached:
    case LlmClass::kOutputAudio: return GenaiModality::kAudio;
    case LlmClass::kInputImage:
    case LlmClass::kOutputImage: return GenaiModality::kImage;
    case LlmClass::kInputVideo: return GenaiModality::kVideo;
    case LlmClass::kOutput:
    case LlmClass::kOutputReasoning: return GenaiModality::kText;
    default: return media ? GenaiModality::kUnknown : GenaiModality::kText;
  }
}

GenaiInstruments::GenaiInstruments(const GenaiVersions& versions, size_t max_series)
    : max_series_(max_series) {
  registry_.LimitSeries(max_series);
  for (size_t i = 0; i < kGenaiTokens && versions.v2026; ++i)
    counters_[i].emplace(kCounters[i].name,
                         InstrumentOptions{.unit = "{token}", .description = kCounters[i].description},
                         registry_);
  for (size_t i = 0; i < kGenaiValues; ++i) {
    const HistogramRow& row = kHistograms[i];
    if ((row.v1_37 && versions.v1_37) || (row.v2026 && versions.v2026))
      histograms_[i].emplace(
          row.name, InstrumentOptions{.unit = row.unit, .description = row.description, .bounds = row.bounds},
          registry_);
  }
}

std::vector<Sample> GenaiInstruments::Read() const {
  std::vector<Sample> samples = registry_.Snapshot();
  // An instrument without series is read as one without attributes.
  std::erase_if(samples, [](const Sample& sample) { return sample.attributes.empty(); });
  return samples;
}

GenaiSeries::GenaiSeries(const GenaiInstruments& instruments, const GenaiAttributes& attributes)
    : instruments_(instruments), error_(attributes.error_type), port_(attributes.server_port) {
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"gen_ai.operation.name", attributes.operation},
      {"gen_ai.provider.name", attributes.provider},
      {"gen_ai.request.model", attributes.request_model},
      {"gen_ai.response.model", attributes.response_model},
      {"server.address", attributes.server_address}};
  for (const auto& [key, value] : texts) {
    if (!value.empty()) texts_.emplace_back(key, value);
  }
}

std::vector<Attribute> GenaiSeries::Base() const {
  std::vector<Attribute> base;
  for (const auto& [key, value] : texts_) base.push_back({key, std::string_view(value)});
  if (port_ != 0) base.push_back({"server.port", port_});
  return base;
}

void GenaiSeries::Add(GenaiTokens what, GenaiModality modality, int64_t tokens) {
  const std::optional<Counter>& of = instruments_.counters_[static_cast<size_t>(what)];
  if (!of) return;
  std::optional<Counter>& bound = counters_[static_cast<size_t>(what)][static_cast<size_t>(modality)];
  if (!bound) {
    std::vector<Attribute> attributes = Base();
    attributes.push_back({"gen_ai.token.modality", GenaiModalityName(modality)});
    bound = of->Bind(attributes);
  }
  bound->Add(tokens);
}

void GenaiSeries::Record(GenaiValue what, double value) {
  const size_t index = static_cast<size_t>(what);
  const std::optional<Histogram>& of = instruments_.histograms_[index];
  if (!of) return;
  std::optional<Histogram>& bound = histograms_[index];
  if (!bound) {
    std::vector<Attribute> attributes = Base();
    const HistogramRow& row = kHistograms[index];
    if (row.error && !error_.empty()) attributes.push_back({"error.type", std::string_view(error_)});
    if (!row.token_type.empty()) attributes.push_back({"gen_ai.token.type", row.token_type});
    bound = of->Bind(attributes);
  }
  bound->Record(value);
}

void GenaiSeries::AddUsage(const LlmUsage& usage, bool media) {
  std::array<std::array<int64_t, kGenaiModalities>, kGenaiTokens> sums{};
  for (size_t i = 0; i < kLlmClasses; ++i) {
    const auto one = static_cast<LlmClass>(i);
    const auto add = [&](GenaiTokens what) {
      sums[static_cast<size_t>(what)][static_cast<size_t>(ModalityOf(one, media))] += usage.units[i];
    };
    if (IsInput(one)) add(GenaiTokens::kInput);
    if (IsOutput(one)) add(GenaiTokens::kOutput);
    if (one == LlmClass::kInputCached || one == LlmClass::kInputAudioCached) add(GenaiTokens::kCacheRead);
    if (one == LlmClass::kInputWrite5m || one == LlmClass::kInputWriteLong) add(GenaiTokens::kCacheWrite);
    if (one == LlmClass::kOutputReasoning) add(GenaiTokens::kReasoning);
  }
  for (size_t what = 0; what < kGenaiTokens; ++what) {
    for (size_t modality = 0; modality < kGenaiModalities; ++modality) {
      if (sums[what][modality] > 0)
        Add(static_cast<GenaiTokens>(what), static_cast<GenaiModality>(modality), sums[what][modality]);
    }
  }
  if (usage.input_known) {
    const auto input = static_cast<double>(InputTokens(usage));
    Record(GenaiValue::kOperationInput, input);
    Record(GenaiValue::kTokenUsageInput, input);
  }
  if (usage.output_known) {
    const auto output = static_cast<double>(OutputTokens(usage));
    Record(GenaiValue::kOperationOutput, output);
    Record(GenaiValue::kTokenUsageOutput, output);
  }
}

GenaiSeries& GenaiSeriesTable::Find(const GenaiAttributes& attributes) {
  key_.clear();
  for (std::string_view text : {attributes.operation, attributes.provider, attributes.request_model,
                                attributes.response_model, attributes.server_address, attributes.error_type})
    key_.append(text).push_back('\0');
  key_.append(reinterpret_cast<const char*>(&attributes.server_port), sizeof attributes.server_port);
  if (const auto known = series_.find(key_); known != series_.end()) return known->second;
  if (series_.size() >= instruments_.max_series()) {
    // The instruments, too, have no further series: this is theirs for what exceeds.
    GenaiAttributes rest;
    rest.operation = attributes.operation;
    rest.provider = rest.request_model = rest.response_model = "other";
    key_ = attributes.operation;
    return series_.try_emplace(key_, instruments_, rest).first->second;
  }
  return series_.try_emplace(key_, instruments_, attributes).first->second;
}

}  // namespace gpulens::proxy
