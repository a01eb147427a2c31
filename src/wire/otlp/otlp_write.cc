#include "wire/otlp/otlp_write.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parse.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {
namespace {

using namespace otlp;

bool SameInstrument(const Sample& a, const Sample& b) noexcept {
  return a.kind == b.kind && a.integer == b.integer && a.exponential == b.exponential && a.name == b.name &&
         a.unit == b.unit;
}

MetricField DataOf(const Sample& sample) noexcept {
  switch (sample.kind) {
    case InstrumentKind::kGauge: return kGauge;
    case InstrumentKind::kHistogram: return sample.exponential ? kExponentialHistogram : kHistogram;
    case InstrumentKind::kCounter:
    case InstrumentKind::kUpDownCounter: break;
  }
  return kSum;
}

class SamplesWriter {
 public:
  SamplesWriter(const SamplesAbout& about, std::string& out) : about_(about), out_(out), nesting_(out) {}

  void Write(std::span<const Sample> samples) {
    const size_t list = nesting_.Open(kResourceList);
    const size_t resource = nesting_.Open(kResource);
    AppendAttributes(out_, kResourceAttributes, about_.resource);
    nesting_.Close(resource);
    const size_t scopes = nesting_.Open(kScopeList);
    const size_t scope = nesting_.Open(kScope);
    AppendText(out_, kScopeName, about_.scope_name);
    if (!about_.scope_version.empty()) AppendText(out_, kScopeVersion, about_.scope_version);
    nesting_.Close(scope);
    for (size_t i = 0; i < samples.size();) {
      size_t end = i + 1;
      while (end < samples.size() && SameInstrument(samples[i], samples[end])) ++end;
      WriteMetric(samples.subspan(i, end - i));
      i = end;
    }
    nesting_.Close(scopes);
    nesting_.Close(list);
  }

 private:
  void WriteMetric(std::span<const Sample> points) {
    const Sample& first = points.front();
    const size_t metric = nesting_.Open(kItems);
    AppendText(out_, kName, first.name);
    if (!first.description.empty()) AppendText(out_, kDescription, first.description);
    if (!first.unit.empty()) AppendText(out_, kUnit, first.unit);
    const MetricField field = DataOf(first);
    const size_t data = nesting_.Open(field);
    for (const Sample& sample : points) {
      const size_t point = nesting_.Open(kPoints);
      if (field != kGauge) AppendFixed(out_, kStartTime, static_cast<uint64_t>(sample.start_unix_ns));
      AppendFixed(out_, kTime, static_cast<uint64_t>(about_.unix_ns));
      if (field == kHistogram) WriteBuckets(sample);
      else if (field == kExponentialHistogram) WriteExponential(sample);
      else WriteNumber(sample);
      nesting_.Close(point);
    }
    if (field != kGauge) AppendNumber(out_, kTemporality, kCumulative);
    if (first.kind == InstrumentKind::kCounter) AppendNumber(out_, kMonotonic, 1);
    nesting_.Close(data);
    nesting_.Close(metric);
  }

  void WriteAttributes(uint32_t field, const Sample& sample) {
    for (const auto& [key, value] : sample.attributes) {
      const bool integer = std::ranges::find(about_.integers, key) != about_.integers.end();
      const std::optional<int64_t> whole = integer ? ParseInt<int64_t>(value) : std::nullopt;
      if (whole) AppendAttribute(out_, field, key, *whole);
      else AppendAttribute(out_, field, key, std::string_view(value));
    }
  }

  void WriteNumber(const Sample& sample) {
    WriteAttributes(kNumberAttributes, sample);
    if (sample.integer) AppendFixed(out_, kAsInt, static_cast<uint64_t>(std::llround(sample.value)));
    else AppendFixed(out_, kAsDouble, sample.value);
  }

  void WriteBuckets(const Sample& sample) {
    WriteAttributes(kHistogramAttributes, sample);
    AppendFixed(out_, kHistogramCount, sample.count);
    AppendFixed(out_, kHistogramSum, sample.sum);
    packed_.resize(sample.counts.size() * 8);
    for (size_t i = 0; i < sample.counts.size(); ++i) PutFixed(packed_.data() + 8 * i, sample.counts[i]);
    AppendBytes(out_, kBucketCounts, packed_);
    packed_.resize(sample.bounds.size() * 8);
    for (size_t i = 0; i < sample.bounds.size(); ++i) PutFixed(packed_.data() + 8 * i, sample.bounds[i]);
    AppendBytes(out_, kExplicitBounds, packed_);
  }

  void WriteExponential(const Sample& sample) {
    WriteAttributes(kExponentialAttributes, sample);
    AppendFixed(out_, kExponentialCount, sample.count);
    AppendFixed(out_, kExponentialSum, sample.sum);
    AppendNumber(out_, kScale, ZigZag(sample.scale));
    AppendFixed(out_, kZeroCount, sample.zeros);
    if (sample.counts.empty()) return;
    const size_t positive = nesting_.Open(kPositive);
    AppendNumber(out_, kOffset, ZigZag(sample.offset));
    const size_t counts = nesting_.Open(kCounts);
    for (uint64_t count : sample.counts) {
      for (; count >= 0x80; count >>= 7) out_ += static_cast<char>(count | 0x80);
      out_ += static_cast<char>(count);
    }
    nesting_.Close(counts);
    nesting_.Close(positive);
  }

  const SamplesAbout& about_;
  std::string& out_;
  Nesting nesting_;
  std::string packed_;
};

}  // namespace

void EncodeSamples(std::span<const Sample> samples, const SamplesAbout& about, std::string& out) {
  SamplesWriter(about, out).Write(samples);
}

namespace {

using namespace otlp;

struct OtlpSeverity {
  uint64_t number;
  std::string_view text;
};

OtlpSeverity SeverityOf(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kInfo: return {9, "INFO"};
    case EventSeverity::kWarning: return {13, "WARN"};
    case EventSeverity::kError: return {17, "ERROR"};
    case EventSeverity::kFatal: return {21, "FATAL"};
    case EventSeverity::kUnset: break;
  }
  return {0, ""};
}

AttributeSet AttributesOf(const Event& event) {
  AttributeSet all = event.attributes;
  for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get())
    all = all.OverlaidOn(entity->attributes);
  return all;
}

void AppendRecord(const Event& event, std::string& out) {
  AppendFixed(out, kLogTime, static_cast<uint64_t>(event.at.unix_ns));
  AppendFixed(out, kObservedTime, static_cast<uint64_t>(event.at.unix_ns));
  const OtlpSeverity severity = SeverityOf(event.severity);
  if (severity.number != 0) {
    AppendNumber(out, kSeverityNumber, severity.number);
    AppendText(out, kSeverityText, severity.text);
  }
  if (!event.body.empty()) {
    std::string body;
    AppendText(body, kString, event.body);
    AppendBytes(out, kBody, body);
  }
  AppendAttribute(out, kLogAttributes, "event.name", event.name);
  AppendAttributes(out, kLogAttributes, AttributesOf(event));
  AppendText(out, kEventName, event.name);
}

}  // namespace

void EncodeOtlpLogs(const Events& events, std::string_view version, std::string& out) {
  out.clear();
  Nesting nesting(out);
  std::string part, scope;
  const size_t resource = nesting.Open(kResourceList);
  AppendAttributes(part, kResourceAttributes, events.resource);
  AppendBytes(out, kResource, part);
  const size_t list = nesting.Open(kScopeList);
  AppendText(scope, kScopeName, "gpulens.events");
  AppendText(scope, kScopeVersion, version);
  AppendBytes(out, kScope, scope);
  for (const Event& event : events.list) {
    const size_t record = nesting.Open(kItems);
    AppendRecord(event, out);
    nesting.Close(record);
  }
  AppendText(out, kSchemaUrlField, kSchemaUrl);
  nesting.Close(list);
  AppendText(out, kSchemaUrlField, kSchemaUrl);
  nesting.Close(resource);
}

}  // namespace gpulens
