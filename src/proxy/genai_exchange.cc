#include "proxy/genai_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/parse.h"
#include "proxy/genai_names.h"
#include "wire/otlp/otlp_spans.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kTraceparent = "traceparent", kTracestate = "tracestate";
// W3C Trace Context lets programs cut what is longer.
constexpr size_t kMostTracestate = 512;
constexpr size_t kMostName = 256;  // of a model, in a span

double Seconds(int64_t ns) noexcept { return static_cast<double>(ns) / 1e9; }
double Seconds(Duration time) noexcept { return Seconds(time.count()); }

// When the first output came, in nanoseconds since the first dispatch.
std::optional<int64_t> FirstOutput(const GenaiExchange::End& end, Instant first_dispatch) noexcept {
  if (!end.record.ttft_ns) return std::nullopt;
  return (end.last_dispatch - first_dispatch).count() + *end.record.ttft_ns;
}

}  // namespace

GenaiRecorder::GenaiRecorder(GenaiTelemetry& telemetry)
    : telemetry_(telemetry), series_(telemetry.instruments()), random_([] {
        std::random_device source;
        std::seed_seq seed{source(), source(), source(), source(), source(), source(), source(), source()};
        return std::mt19937_64(seed);
      }()) {}

void GenaiRecorder::FillRandom(std::span<uint8_t> id) {
  do {
    for (size_t at = 0; at < id.size(); at += 8) {
      const uint64_t word = random_();
      std::memcpy(id.data() + at, &word, std::min<size_t>(8, id.size() - at));
    }
  } while (std::ranges::all_of(id, [](uint8_t byte) { return byte == 0; }));
}

GenaiExchange::GenaiExchange(GenaiRecorder& recorder, const RelayHead& head) : recorder_(recorder) {
  const GenaiOptions& options = recorder.telemetry_.options();
  if (!options.spans) return;
  size_t parents = 0;
  for (size_t i = 0; i < head.field_count(); ++i) {
    const RelayHead::Field field = head.field(i);
    if (EqualsIgnoringCase(field.name, kTraceparent)) {
      parent_ = ParseTraceparent(field.value);
      ++parents;
    } else if (EqualsIgnoringCase(field.name, kTracestate) && !field.value.empty()) {
      if (!tracestate_.empty()) tracestate_ += ',';
      tracestate_ += field.value;
    }
  }
  if (parents > 1) parent_.reset();
  if (parent_) {
    sampled_ = parent_->sampled();
  } else {
    restarted_ = true;
    tracestate_.clear();
    sampled_ = options.sample > 0 && (options.sample >= 1 || std::uniform_real_distribution<>(
                                                                 0, 1)(recorder.random_) < options.sample);
  }
  if (tracestate_.size() > kMostTracestate) tracestate_.clear();
  if (!sampled_) return;
  if (parent_) {
    own_.trace_id = parent_->trace_id;
    own_.flags = parent_->flags;
  } else {
    recorder.FillRandom(own_.trace_id);
    own_.flags = TraceContext::kSampled | TraceContext::kRandom;
  }
  recorder.FillRandom(own_.span_id);
}

void GenaiExchange::Dispatch(Instant now, std::vector<std::string_view>& drop, std::string& fields) {
  if (first_dispatch_.unix_ns == 0) first_dispatch_ = now;
  if (!sampled_) return;
  drop.push_back(kTraceparent);
  if (restarted_) drop.push_back(kTracestate);
  fields.append(kTraceparent) += ": ";
  AppendTraceparent(fields, own_);
  fields += "\r\n";
}

GenaiSeries& GenaiExchange::SeriesOf(const GenaiRequest& of, std::string_view error_type) {
  GenaiAttributes attributes;
  attributes.operation = LlmOperationName(of.route.operation);
  attributes.provider = GenaiProviderName(of.provider);
  attributes.request_model = BoundedModel(of.config, of.prices, of.provider, of.model);
  if (of.answer)
    attributes.response_model = BoundedModel(of.config, of.prices, of.provider, of.answer->model);
  attributes.server_address = of.provider.upstream.url.host;
  attributes.server_port = of.provider.upstream.url.port;
  attributes.error_type = error_type;
  return recorder_.series_.Find(attributes);
}

void GenaiExchange::AddChunks(const GenaiRequest& of, Duration gap, int64_t count) {
  if (!of.request.stream || !recorder_.telemetry_.options().metrics) return;
  if (!chunks_) chunks_ = &SeriesOf(of, {});
  // Those that came with one read came at one time.
  chunks_->Record(GenaiValue::kOutputChunk, Seconds(gap));
  for (int64_t i = 1; i < count; ++i) chunks_->Record(GenaiValue::kOutputChunk, 0);
}

void GenaiExchange::Finish(const GenaiRequest& of, const End& end) {
  if (recorder_.telemetry_.options().metrics) Measure(of, end);
  if (sampled_) WriteSpan(of, end);
}

void GenaiExchange::Measure(const GenaiRequest& of, const End& end) {
  GenaiSeries& series = SeriesOf(of, end.error_type);
  const double duration = Seconds(end.now - first_dispatch_);
  series.Record(GenaiValue::kDuration, duration);
  series.Record(GenaiValue::kOperationDuration, duration);
  const LlmUsage* usage = of.answer && of.answer->usage ? &*of.answer->usage : nullptr;
  if (usage) series.AddUsage(*usage, of.request.media > 0 || of.request.open_input);
  const std::optional<int64_t> first = of.request.stream ? FirstOutput(end, first_dispatch_) : std::nullopt;
  if (first) series.Record(GenaiValue::kFirstChunk, Seconds(*first));
  // An engine of one's own reports these itself.
  if (of.provider.terms.profile == pricing::Profile::kByoc) return;
  series.Record(GenaiValue::kServerDuration, Seconds(end.now - end.began));
  if (!first || !end.error_type.empty()) return;
  series.Record(GenaiValue::kServerFirstToken, Seconds((first_dispatch_ - end.began).count() + *first));
  if (usage && usage->output_known && OutputTokens(*usage) > 1 && end.record.itl_count > 0)
    series.Record(GenaiValue::kServerPerToken,
                  Seconds(end.record.itl_sum_ns) / static_cast<double>(OutputTokens(*usage) - 1));
}

void GenaiExchange::WriteSpan(const GenaiRequest& of, const End& end) {
  const std::string_view model = of.model.substr(0, kMostName),
                         operation = LlmOperationName(of.route.operation);
  std::string& name = recorder_.name_;
  name = operation;
  if (!model.empty()) (name += ' ') += model;
  OtlpSpanHead head;
  head.trace_id = own_.trace_id;
  head.span_id = own_.span_id;
  if (parent_) head.parent_id = parent_->span_id;
  head.remote_parent = parent_.has_value();
  head.trace_flags = own_.flags;
  head.tracestate = tracestate_;
  head.name = name;
  head.kind = OtlpSpanHead::kClient;
  head.start_unix_ns = first_dispatch_.unix_ns;
  head.end_unix_ns = first_dispatch_.unix_ns + (end.now - first_dispatch_).count();
  recorder_.span_.clear();
  OtlpSpanWriter span(recorder_.span_, head);
  const auto text = [&span](std::string_view key, std::string_view value) {
    if (!value.empty()) span.Attribute(key, value);
  };
  const GenaiVersions& versions = recorder_.telemetry_.options().versions;
  text("gen_ai.operation.name", operation);
  text("gen_ai.provider.name", GenaiProviderName(of.provider));
  text("gen_ai.request.model", model);
  text("server.address", of.provider.upstream.url.host);
  span.Attribute("server.port", int64_t{of.provider.upstream.url.port});
  text("error.type", end.error_type);
  if (end.status != 0) span.Attribute("http.response.status_code", int64_t{end.status});
  span.Attribute("gen_ai.request.stream", of.request.stream);
  if (of.request.max_output) span.Attribute("gen_ai.request.max_tokens", *of.request.max_output);
  if (of.request.choices > 1) span.Attribute("gen_ai.request.choice.count", of.request.choices);
  if (of.route.api == LlmApi::kOpenAi) {
    text("openai.request.service_tier", of.request.service_tier);
    if (of.route.operation == LlmOperation::kChat) text("openai.api.type", "chat_completions");
    if (of.route.operation == LlmOperation::kResponses) text("openai.api.type", "responses");
  }
  if (of.request.stream) {
    if (const auto first = FirstOutput(end, first_dispatch_))
      span.Attribute("gen_ai.response.time_to_first_chunk", Seconds(*first));
  }
  if (of.answer) {
    text("gen_ai.response.id", of.answer->id);
    text("gen_ai.response.model", of.answer->model);
    if (of.route.api == LlmApi::kOpenAi) text("openai.response.service_tier", of.answer->tier);
    if (!of.answer->finish_reasons.empty())
      span.Attribute("gen_ai.response.finish_reasons", of.answer->finish_reasons);
  }
  if (of.answer && of.answer->usage) {
    const LlmUsage& usage = *of.answer->usage;
    const auto tokens = [&](std::string_view key, int64_t count) {
      if (count > 0) span.Attribute(key, count);
    };
    if (usage.input_known) span.Attribute("gen_ai.usage.input_tokens", InputTokens(usage));
    if (usage.output_known) span.Attribute("gen_ai.usage.output_tokens", OutputTokens(usage));
    tokens("gen_ai.usage.cache_read.input_tokens",
           usage[LlmClass::kInputCached] + usage[LlmClass::kInputAudioCached]);
    const int64_t written = usage[LlmClass::kInputWrite5m] + usage[LlmClass::kInputWriteLong];
    if (versions.v2026) tokens("gen_ai.usage.cache_write.input_tokens", written);
    if (versions.v1_37) tokens("gen_ai.usage.cache_creation.input_tokens", written);
    tokens("gen_ai.usage.reasoning.output_tokens", usage[LlmClass::kOutputReasoning]);
    tokens("gen_ai.usage.audio.input_tokens",
           usage[LlmClass::kInputAudio] + usage[LlmClass::kInputAudioCached]);
    tokens("gen_ai.usage.image.input_tokens", usage[LlmClass::kInputImage]);
    tokens("gen_ai.usage.video.input_tokens", usage[LlmClass::kInputVideo]);
  }
  span.Attribute("gpulens.proxy.provider", std::string_view(of.provider.name));
  span.Attribute("gpulens.proxy.request.id", std::string_view(RequestIdText(end.record.id)));
  const std::vector<ChargeAttempt>& attempts = end.record.attempts;
  if (attempts.size() > 1) {
    for (const ChargeAttempt& attempt : attempts) {
      span.OpenEvent("gpulens.proxy.attempt", attempt.begin_unix_ns);
      text("gpulens.proxy.provider", attempt.provider);
      text("gpulens.proxy.attempt.result", attempt.result);
      span.Attribute("gpulens.proxy.attempt.duration", Seconds(attempt.duration_ns));
      span.CloseEvent();
    }
  }
  span.Close(!end.error_type.empty(), end.detail);
  recorder_.telemetry_.AddSpan(recorder_.span_);
}

}  // namespace gpulens::proxy
