// The second half of RemoteWriteIn: what was planned, as OTLP.

#include <algorithm>

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_marks.h"

namespace gpulens {

using otlp::AppendBytes;
using otlp::AppendFixed;
using otlp::AppendNumber;
using remote_write_in::Label;
using remote_write_in::NumbersOf;
using remote_write_in::Sample;

namespace {

constexpr size_t kTraceIdSize = 16, kSpanIdSize = 8;
constexpr uint32_t kNegative = 9;

// What stands in resource, scope or metric, or has a meaning of its own.
bool IsAttribute(const Label& label) noexcept {
  const std::string_view name = label.name;
  // A scope of the name that stands for none would be lost as one.
  if (name == "otel_scope_name") return label.value == remote_write_in::kOwnScope;
  return name != "__name__" && name != "job" && name != "instance" && name != "otel_scope_version";
}

void AppendLength(std::string& out, uint32_t field, size_t size) {
  AppendVarint(out, field << 3 | 2);
  AppendVarint(out, size);
}

// A KeyValue with a text, which is known to be UTF-8.
void AppendPair(std::string& out, uint32_t field, std::string_view key, std::string_view value) {
  const size_t inner = 1 + VarintSize(value.size()) + value.size();
  AppendLength(out, field, 2 + VarintSize(key.size()) + key.size() + VarintSize(inner) + inner);
  AppendBytes(out, otlp::kKey, key);
  AppendLength(out, otlp::kValue, inner);
  AppendBytes(out, otlp::kString, value);
}

uint64_t Ns(int64_t ms) noexcept { return static_cast<uint64_t>(ms) * 1'000'000; }

// False for what is no id of `size` bytes, or of zeros alone, which is none either.
bool ReadId(std::string_view hex, size_t size, char* out) noexcept {
  if (hex.size() != 2 * size) return false;
  int any = 0;
  for (size_t i = 0; i < size; ++i) {
    const int high = HexDigit(hex[2 * i]), low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<char>(high << 4 | low);
    any |= high | low;
  }
  return any != 0;
}

struct PointNumbers {
  uint32_t attributes, exemplars, flags;
};
PointNumbers NumbersOf(bool exponential, bool bounded) noexcept {
  if (exponential)
    return {otlp::kExponentialAttributes, otlp::kExponentialExemplars, otlp::kExponentialFlags};
  if (bounded) return {otlp::kHistogramAttributes, otlp::kHistogramExemplars, otlp::kHistogramFlags};
  return {otlp::kNumberAttributes, otlp::kNumberExemplars, otlp::kNumberFlags};
}

}  // namespace

Status RemoteWriteIn::Write(std::string& out) {
  next_loose_ = 0;
  const Item* before = nullptr;
  for (uint32_t place = 0; place < order_.size(); ++place) {
    const Item& item = items_[order_[place]];
    Enter(out, item, before);
    WriteItem(out, item, place);
    Leave(out, item, place + 1 < order_.size() ? &items_[order_[place + 1]] : nullptr);
    before = &item;
    // What was planned is a guess of a few bytes.
    if (out.size() > 2 * limits_.bytes)
      return {Code::kExhausted,
              "as OTLP the request has more than " + std::to_string(limits_.bytes) + " bytes"};
  }
  return Ok();
}

// Opens what this item does not share with the one before.
void RemoteWriteIn::Enter(std::string& out, const Item& item, const Item* before) {
  otlp::Nesting nesting(out);
  const bool same_resource = before && before->job == item.job && before->instance == item.instance;
  const bool same_scope =
      same_resource && before->scope == item.scope && before->scope_version == item.scope_version;
  const bool same_metric = same_scope && before->name == item.name && before->form == item.form;
  if (!same_resource) {
    place_.resource = nesting.Open(otlp::kResourceList);
    const size_t resource = nesting.Open(otlp::kResource);
    if (!item.job.empty()) AppendPair(out, otlp::kResourceAttributes, "service.name", item.job);
    if (!item.instance.empty())
      AppendPair(out, otlp::kResourceAttributes, "service.instance.id", item.instance);
    nesting.Close(resource);
  }
  if (!same_scope) {
    place_.scope = nesting.Open(otlp::kScopeList);
    const size_t scope = nesting.Open(otlp::kScope);
    AppendBytes(out, otlp::kScopeName, item.scope.empty() ? remote_write_in::kOwnScope : item.scope);
    if (!item.scope_version.empty()) AppendBytes(out, otlp::kScopeVersion, item.scope_version);
    nesting.Close(scope);
  }
  if (same_metric) return;
  place_.metric = nesting.Open(otlp::kItems);
  AppendBytes(out, otlp::kName, item.name);
  if (!item.help.empty()) AppendBytes(out, otlp::kDescription, item.help);
  OtlpUnitOf(item.unit, unit_);
  if (!unit_.empty()) AppendBytes(out, otlp::kUnit, unit_);
  constexpr uint32_t kData[] = {otlp::kGauge, otlp::kSum, otlp::kSum, otlp::kExponentialHistogram,
                                otlp::kHistogram};
  place_.data = nesting.Open(kData[static_cast<size_t>(item.form)]);
}

// Closes what the next item does not share with this one.
void RemoteWriteIn::Leave(std::string& out, const Item& item, const Item* next) {
  otlp::Nesting nesting(out);
  const bool same_resource = next && next->job == item.job && next->instance == item.instance;
  const bool same_scope =
      same_resource && next->scope == item.scope && next->scope_version == item.scope_version;
  if (same_scope && next->name == item.name && next->form == item.form) return;
  if (item.form != Form::kGauge) AppendNumber(out, otlp::kTemporality, otlp::kCumulative);
  if (item.form == Form::kCounter) AppendNumber(out, otlp::kMonotonic, 1);
  nesting.Close(place_.data);
  AppendPair(out, otlp::kMetricMetadata, remote_write_in::kTypeKey, PrometheusTypeName(item.type));
  AppendPair(out, otlp::kMetricMetadata, remote_write_in::kFamilyKey, item.family);
  if (!item.unit.empty()) AppendPair(out, otlp::kMetricMetadata, remote_write_in::kUnitKey, item.unit);
  nesting.Close(place_.metric);
  if (same_scope) return;
  nesting.Close(place_.scope);
  if (!same_resource) nesting.Close(place_.resource);
}

void RemoteWriteIn::EncodeAttributes(const Item& item) {
  RemoteWriteFault unused = RemoteWriteFault::kNone;
  attributes_.clear();
  // It was read before, so it can be read.
  static_cast<void>(reader_.Read(item.series, labels_, unused));
  const uint32_t field = NumbersOf(item.form == Form::kExponential, item.form == Form::kExplicit).attributes;
  for (const Label& label : labels_)
    if (IsAttribute(label)) AppendPair(attributes_, field, label.name, label.value);
}

void RemoteWriteIn::AppendExemplar(std::string_view message, uint32_t field) {
  Sample value;
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  if (!ReadExemplar(message, value) || !reader_.Read(message, other_labels_, fault)) return;
  if (fault != RemoteWriteFault::kNone) return;
  exemplar_.clear();
  if (remote_write_in::IsTime(value.ms)) AppendFixed(exemplar_, otlp::kExemplarTime, Ns(value.ms));
  AppendFixed(exemplar_, otlp::kExemplarDouble, value.value);
  for (const Label& label : other_labels_) {
    char id[kTraceIdSize];
    if (label.name == "trace_id" && ReadId(label.value, kTraceIdSize, id))
      AppendBytes(exemplar_, otlp::kTraceId, {id, kTraceIdSize});
    else if (label.name == "span_id" && ReadId(label.value, kSpanIdSize, id))
      AppendBytes(exemplar_, otlp::kSpanId, {id, kSpanIdSize});
    else AppendPair(exemplar_, otlp::kExemplarAttributes, label.name, label.value);
  }
  AppendBytes(exemplars_, field, exemplar_);
  ++exemplar_count_;
}

void RemoteWriteIn::GatherExemplars(std::string_view series, uint32_t field) {
  const uint32_t wanted = remote_write_in::NumbersOf(version_).exemplars;
  ProtoCursor cursor(series);
  ProtoField part;
  while (cursor.Next(part))
    if (part.number == wanted) AppendExemplar(part.bytes, field);
}

void RemoteWriteIn::WriteItem(std::string& out, const Item& item, uint32_t place) {
  EncodeAttributes(item);
  const bool exponential = item.form == Form::kExponential, bounded = item.form == Form::kExplicit;
  const uint32_t field = NumbersOf(exponential, bounded).exemplars;
  exemplars_.clear();
  exemplar_count_ = 0;
  if (item.exemplars) GatherExemplars(item.series, field);
  for (; next_loose_ < loose_.size() && loose_[next_loose_].to == place; ++next_loose_)
    GatherExemplars(loose_[next_loose_].series, field);

  const bool number = !exponential && !bounded;
  const uint32_t wanted =
      number ? uint32_t{remote_write::kSamples} : remote_write_in::NumbersOf(version_).histograms;
  ProtoCursor cursor(item.series);
  ProtoField part;
  uint32_t left = item.points;
  while (left != 0 && cursor.Next(part)) {
    if (part.number != wanted) continue;
    bool ended = false, no_value = false;
    if (number) {
      Sample sample;
      if (!ReadSample(part.bytes, sample) || !remote_write_in::IsTime(sample.ms)) continue;
      if (sample.start_ms == 0) sample.start_ms = item.created_ms;
      ended = no_value = remote_write::IsStaleMarker(sample.value);
      WriteNumber(item, sample);
    } else {
      RemoteWriteFault fault = RemoteWriteFault::kNone;
      if (!histogram_.Read(part.bytes, fault) || fault != RemoteWriteFault::kNone ||
          !remote_write_in::IsTime(histogram_.ms()) || histogram_.custom() != bounded)
        continue;
      ended = histogram_.ended();
      no_value = !WriteHistogram(item, part.bytes);
    }
    if (no_value) AppendNumber(point_, NumbersOf(exponential, bounded).flags, otlp::kNoRecordedValue);
    // A series that ended has no value that an exemplar could be of.
    FinishPoint(out, --left == 0 && !ended);
    ++(number ? outcome_->samples : outcome_->histograms);
  }
}

void RemoteWriteIn::Times(int64_t start_ms, int64_t ms) {
  point_.clear();
  if (remote_write_in::IsStart(start_ms, ms)) AppendFixed(point_, otlp::kStartTime, Ns(start_ms));
  AppendFixed(point_, otlp::kTime, Ns(ms));
}

void RemoteWriteIn::WriteNumber(const Item& item, const Sample& sample) {
  // A series of unknown type may be a counter.
  Times(item.type == remote_write::Type::kGauge ? 0 : sample.start_ms, sample.ms);
  if (!remote_write::IsStaleMarker(sample.value)) AppendFixed(point_, otlp::kAsDouble, sample.value);
}

void RemoteWriteIn::WriteExponential() {
  const NativeHistogram& from = histogram_;
  AppendFixed(point_, otlp::kExponentialCount, from.count());
  AppendFixed(point_, otlp::kExponentialSum, from.sum());
  AppendNumber(point_, otlp::kScale, otlp::ZigZag(from.schema()));
  AppendFixed(point_, otlp::kZeroCount, from.zero_count());
  const auto buckets = [this](uint32_t field, const NativeHistogram::Buckets& side) {
    if (side.counts.empty()) return;
    part_.clear();
    size_t size = 0;
    for (uint64_t count : side.counts) size += VarintSize(count);
    AppendNumber(part_, otlp::kOffset, otlp::ZigZag(side.offset));
    AppendLength(part_, otlp::kCounts, size);
    for (uint64_t count : side.counts) AppendVarint(part_, count);
    AppendBytes(point_, field, part_);
  };
  buckets(otlp::kPositive, from.positive());
  buckets(kNegative, from.negative());
  if (from.zero_threshold() != 0) AppendFixed(point_, otlp::kZeroThreshold, from.zero_threshold());
}

// False: the point has no value, or none that OTLP can represent.
bool RemoteWriteIn::WriteHistogram(const Item& item, std::string_view message) {
  Times(histogram_.start_ms() != 0 ? histogram_.start_ms() : item.created_ms, histogram_.ms());
  if (histogram_.ended()) return false;
  if (limits_.carry_histograms && (histogram_.lossy() || histogram_.hinted()))
    AppendBytes(point_, remote_write_in::kNativeField, message);
  if (histogram_.lossy()) return false;
  if (histogram_.custom()) WriteExplicit();
  else WriteExponential();
  return true;
}

void RemoteWriteIn::WriteExplicit() {
  const NativeHistogram& from = histogram_;
  AppendFixed(point_, otlp::kHistogramCount, from.count());
  AppendFixed(point_, otlp::kHistogramSum, from.sum());
  AppendLength(point_, otlp::kBucketCounts, 8 * from.counts().size());
  point_.append(reinterpret_cast<const char*>(from.counts().data()), 8 * from.counts().size());
  if (from.bounds().empty()) return;
  AppendLength(point_, otlp::kExplicitBounds, 8 * from.bounds().size());
  point_.append(reinterpret_cast<const char*>(from.bounds().data()), 8 * from.bounds().size());
}

void RemoteWriteIn::FinishPoint(std::string& out, bool with_exemplars) {
  point_ += attributes_;
  if (with_exemplars && exemplar_count_ != 0) {
    point_ += exemplars_;
    outcome_->exemplars += exemplar_count_;
  }
  AppendBytes(out, otlp::kPoints, point_);
}

}  // namespace gpulens
