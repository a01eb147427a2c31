// The second half of RemoteWriteOut: points as series.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "core/prometheus_words.h"
#include "wire/exposition/exposition_format.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/otlp_point.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_out.h"

namespace gpulens {

using remote_write::MsOfTime;
using remote_write::Type;

namespace {

// What Prometheus takes for values that are 0 where an exponential histogram does not say.
constexpr double kDefaultZeroThreshold = 1e-128;

// As Prometheus' OTLP endpoint writes bounds: the shortest text without an exponent.
struct BoundText {
  char digits[400];
  std::string_view Of(double value) noexcept {
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    if (std::isnan(value)) return "NaN";
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
    return {digits, static_cast<size_t>(end - digits)};
  }
};

// The fields of an exemplar that are numbers.
struct ExemplarNumbers {
  double value = 0;
  uint64_t ns = 0;
};
ExemplarNumbers ReadNumbers(std::string_view message) noexcept {
  ExemplarNumbers out;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.wire != WireType::kFixed64) continue;
    uint64_t word;
    std::memcpy(&word, field.bytes.data(), sizeof word);
    if (field.number == otlp::kExemplarTime) out.ns = word;
    else if (field.number == otlp::kExemplarDouble) out.value = AsFixed<double>(field.bytes);
    else if (field.number == otlp::kExemplarInt) out.value = static_cast<double>(static_cast<int64_t>(word));
  }
  return out;
}

bool ByName(const remote_write::Label& a, const remote_write::Label& b) noexcept { return a.name < b.name; }

// Into labels that are sorted. `replace`: in place of what has this name.
void Set(remote_write::Labels& labels, remote_write::Label label, bool replace = true) {
  if (label.value.empty()) return;
  const auto at = std::lower_bound(labels.begin(), labels.end(), label, &ByName);
  if (at == labels.end() || at->name != label.name) labels.insert(at, label);
  else if (replace) at->value = label.value;
}

}  // namespace

// `data_` is the field of its sample or histogram.
RemoteWriteOutFault RemoteWriteOut::PutSeries(const Metric& metric, std::string_view suffix, Label extra,
                                              bool histogram) {
  if (batch_.full() && !Drain().ok()) return Fault::kNone;
  if (batch_.bytes() > options_.max_total) return Fault::kTooMuch;
  full_name_.assign(metric.name) += suffix;
  series_labels_ = labels_;
  Set(series_labels_, {"__name__", full_name_});
  if (!extra.name.empty()) Set(series_labels_, extra);
  if (!batch_.Add({metric.type, metric.help, metric.unit}, series_labels_, data_, 1)) return Fault::kTooLarge;
  ++(histogram ? outcome_->histograms : outcome_->samples);
  return Fault::kNone;
}

RemoteWriteOutFault RemoteWriteOut::PutValue(const Metric& metric, std::string_view suffix, Label extra,
                                             double value) {
  message_.clear();
  otlp::AppendFixed(message_, remote_write::kValue, value);
  otlp::AppendNumber(message_, remote_write::kTimestamp, static_cast<uint64_t>(ms_));
  const bool started = options_.version == RemoteWriteVersion::k2 && start_ms_ != 0;
  if (started && metric.type != Type::kGauge)
    otlp::AppendNumber(message_, remote_write::kStartTimestamp, static_cast<uint64_t>(start_ms_));
  data_.clear();
  otlp::AppendBytes(data_, remote_write::kSamples, message_);
  return PutSeries(metric, suffix, extra, false);
}

RemoteWriteOutFault RemoteWriteOut::PutHistogram(const Metric& metric, Fault fault) {
  if (fault == Fault::kNone) fault = PutSeries(metric, {}, {}, true);
  if (fault == Fault::kNone) PutExemplars(metric.verbatim);
  return fault;
}

RemoteWriteOutFault RemoteWriteOut::WriteNumber(const Metric& metric) {
  if (!point_.ended && !point_.has_value) return Fault::kNoValue;
  const Fault fault = PutValue(metric, {}, {}, point_.ended ? remote_write::StaleMarker() : point_.value);
  // The specification drops those of other points.
  if (fault == Fault::kNone && (metric.verbatim || metric.monotonic)) PutExemplars(metric.verbatim);
  return fault;
}

RemoteWriteOutFault RemoteWriteOut::WriteHistogram(const Metric& metric) {
  data_.clear();
  if (!point_.native.empty() && metric.verbatim)
    return PutHistogram(metric, native_.AppendCarried(data_, point_.native));
  const bool empty = point_.counts.empty() && point_.bounds.empty();
  const bool fits = empty || point_.counts.size() == point_.bounds.size() + 1;
  if (!point_.ended && (!fits || !remote_write::AreBounds(point_.bounds))) return Fault::kBuckets;
  if (metric.verbatim || options_.native_histograms)
    return PutHistogram(metric, native_.AppendCustom(data_, point_, {ms_, start_ms_}));
  return WriteClassic(metric);
}

RemoteWriteOutFault RemoteWriteOut::WriteClassic(const Metric& metric) {
  const double stale = remote_write::StaleMarker();
  exemplars_.clear();
  for (std::string_view exemplar : point_.exemplars)
    exemplars_.push_back({ReadNumbers(exemplar).value, exemplar});
  std::ranges::sort(exemplars_, [](const Exemplar& a, const Exemplar& b) {
    // NaN is in no bucket but the last.
    if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
    if (!std::isnan(a.value) && a.value != b.value) return a.value < b.value;
    return a.message.data() < b.message.data();
  });
  Fault fault = Fault::kNone;
  if (point_.has_sum || point_.ended) fault = PutValue(metric, "_sum", {}, point_.ended ? stale : point_.sum);
  const double all = point_.ended ? stale : static_cast<double>(point_.count);
  if (fault == Fault::kNone) fault = PutValue(metric, "_count", {}, all);
  uint64_t below = 0;
  size_t next = 0;
  BoundText text;
  for (size_t i = 0; fault == Fault::kNone && i <= point_.bounds.size() && status_.ok(); ++i) {
    const bool last = i == point_.bounds.size();
    const double bound = last ? std::numeric_limits<double>::infinity() : point_.bounds[i];
    if (!last && point_.ended && !std::isfinite(bound)) continue;
    if (!last && i < point_.counts.size()) below += point_.counts[i];
    fault = PutValue(metric, "_bucket", {"le", text.Of(bound)},
                     point_.ended || last ? all : static_cast<double>(below));
    for (; fault == Fault::kNone && next < exemplars_.size() && (last || exemplars_[next].value <= bound);
         ++next)
      PutExemplar(exemplars_[next].message, false);
  }
  return fault;
}

RemoteWriteOutFault RemoteWriteOut::WriteExponential(const Metric& metric) {
  data_.clear();
  if (!point_.native.empty() && metric.verbatim)
    return PutHistogram(metric, native_.AppendCarried(data_, point_.native));
  const double threshold =
      metric.verbatim || point_.zero_threshold != 0 ? point_.zero_threshold : kDefaultZeroThreshold;
  return PutHistogram(metric, native_.AppendExponential(data_, point_, {ms_, start_ms_}, threshold));
}

RemoteWriteOutFault RemoteWriteOut::WriteSummary(const Metric& metric) {
  const double stale = remote_write::StaleMarker();
  Fault fault = PutValue(metric, "_sum", {}, point_.ended ? stale : point_.sum);
  if (fault == Fault::kNone)
    fault = PutValue(metric, "_count", {}, point_.ended ? stale : static_cast<double>(point_.count));
  BoundText text;
  for (size_t i = 0; fault == Fault::kNone && i < point_.quantiles.size() && status_.ok(); ++i)
    fault = PutValue(metric, {}, {"quantile", text.Of(point_.quantiles[i].quantile)},
                     point_.ended ? stale : point_.quantiles[i].value);
  return fault;
}

void RemoteWriteOut::PutExemplars(bool verbatim) {
  for (std::string_view exemplar : point_.exemplars) PutExemplar(exemplar, verbatim);
}

// On the series that was put last.
void RemoteWriteOut::PutExemplar(std::string_view message, bool verbatim) {
  if (!status_.ok()) return;
  const ExemplarNumbers numbers = ReadNumbers(message);
  int64_t ms = 0;
  static_cast<void>(MsOfTime(numbers.ns, ms));
  const size_t rooms = used_rooms_;
  pairs_.clear();
  size_t characters = 0;
  std::string_view trace, span;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number == otlp::kTraceId) trace = field.bytes;
    else if (field.number == otlp::kSpanId) span = field.bytes;
    Pair pair;
    if (field.number != otlp::kExemplarAttributes || !ReadPair(field.bytes, verbatim, pair)) continue;
    if (pairs_.size() == remote_write::OtlpPoint::kMostAttributes) break;
    pairs_.push_back(pair);
    characters += remote_write::Characters(pair.name) + remote_write::Characters(pair.value);
  }
  const auto put_id = [&](std::string_view key, std::string_view id) {
    if (id.empty()) return;
    std::string& hex = Room();
    otlp::AppendHex(hex, id);
    pairs_.push_back({key, key, hex});
    characters += key.size() + hex.size();
  };
  const size_t attributes = pairs_.size();
  put_id("trace_id", trace);
  put_id("span_id", span);
  // The ids matter more than what came with them.
  if (!verbatim && characters > kMostExemplarLetters)
    pairs_.erase(pairs_.begin(), pairs_.begin() + static_cast<ptrdiff_t>(attributes));
  JoinPairs(exemplar_labels_, true);
  if (batch_.AddExemplar(exemplar_labels_, numbers.value, ms)) ++outcome_->exemplars;
  used_rooms_ = rooms;
}

// Labels of resources, scopes and points.

using remote_write::IsGood;

namespace {

constexpr std::string_view kTargetInfoAlone[] = {"service.", "host.",    "os.",
                                                 "cloud.",   "process.", "telemetry."};
constexpr std::string_view kReceiver = "gpulens.receiver";

}  // namespace

bool RemoteWriteOut::IsPromoted(std::string_view key) const {
  if (options_.promoted) return std::ranges::find(*options_.promoted, key) != options_.promoted->end();
  if (key == kReceiver) return options_.mark_received;
  return std::ranges::none_of(kTargetInfoAlone,
                              [key](std::string_view prefix) { return key.starts_with(prefix); });
}

bool RemoteWriteOut::ReadResource(std::string_view message) {
  bool readable = true;
  resource_fault_ = IsGood(OtlpMessage::kResource, message, readable) ? Fault::kNone : Fault::kMalformed;
  if (!readable) return false;
  job_.clear();
  plain_job_.clear();
  instance_.clear();
  promoted_.clear();
  resource_.clear();
  info_ms_ = 0;
  used_rooms_ = 0;
  if (resource_fault_ != Fault::kNone) return true;
  std::string_view space;
  ProtoCursor cursor(message);
  pairs_.clear();
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != otlp::kResourceAttributes) continue;
    if (resource_.size() == remote_write::OtlpPoint::kMostAttributes) {
      resource_fault_ = Fault::kTooMany;
      return true;
    }
    resource_.push_back(field.bytes);
    Pair pair;
    if (!ReadPair(field.bytes, false, pair)) continue;
    if (pair.key == "service.name") job_ = pair.value;
    else if (pair.key == "service.namespace") space = pair.value;
    else if (pair.key == "service.instance.id") instance_ = pair.value;
    else if (IsPromoted(pair.key)) pairs_.push_back(pair);
  }
  if (!job_.empty() && !space.empty()) plain_job_.append(space) += '/';
  plain_job_ += job_;
  JoinPairs(labels_, false);
  for (const Label& label : labels_) promoted_.emplace_back(label.name, label.value);
  return true;
}

std::string& RemoteWriteOut::Room() {
  if (used_rooms_ == rooms_.size()) rooms_.emplace_back();
  std::string& room = rooms_[used_rooms_++];
  room.clear();
  return room;
}

// False: it is no label.
bool RemoteWriteOut::ReadPair(std::string_view message, bool verbatim, Pair& out) {
  otlp::KeyValueView pair;
  if (!otlp::ReadKeyValue(message, pair) || pair.key.empty()) return false;
  out.key = pair.key;
  const size_t rooms = used_rooms_;
  std::string& room = Room();
  if (!otlp::ValueText(pair.value, otlp::ValueStyle::kLabel, room, out.value) || out.value.empty())
    return false;
  if (out.value.data() != room.data()) used_rooms_ = rooms;
  if (verbatim || options_.names_as_they_are || IsLegacyLabelName(out.key)) {
    out.name = out.key;
  } else {
    std::string& name = Room();
    AppendPrometheusLabel(name, out.key);
    out.name = name;
  }
  return true;
}

// Sorts; values of keys that have one name become one, in the order of the keys.
void RemoteWriteOut::JoinPairs(Labels& out, bool verbatim) {
  const auto before = [](const Pair& a, const Pair& b) {
    return a.name != b.name ? a.name < b.name : a.key < b.key;
  };
  if (!std::is_sorted(pairs_.begin(), pairs_.end(), before)) std::sort(pairs_.begin(), pairs_.end(), before);
  out.clear();
  for (const Pair& pair : pairs_) {
    if (out.empty() || out.back().name != pair.name) {
      out.push_back({pair.name, pair.value});
    } else if (!verbatim) {
      std::string& joined = Room();
      joined.append(out.back().value) += ';';
      joined += pair.value;
      out.back().value = joined;
    }
  }
}

void RemoteWriteOut::AddResourceLabels(Labels& labels, bool verbatim) const {
  Set(labels, {"job", verbatim ? job_ : plain_job_});
  Set(labels, {"instance", instance_});
  for (const auto& [name, value] : promoted_) Set(labels, {name, value}, false);
}

void RemoteWriteOut::BuildLabels(const Metric& metric) {
  used_rooms_ = 0;
  pairs_.clear();
  Pair pair;
  for (std::string_view attribute : point_.attributes)
    if (ReadPair(attribute, metric.verbatim, pair)) pairs_.push_back(pair);
  JoinPairs(labels_, metric.verbatim);
  AddResourceLabels(labels_, metric.verbatim);
  const bool named = metric.verbatim ? scope_name_ != remote_write::kOwnScope : options_.scope_labels;
  if (named) Set(labels_, {"otel_scope_name", scope_name_});
  if (metric.verbatim || options_.scope_labels) Set(labels_, {"otel_scope_version", scope_version_});
}

void RemoteWriteOut::WriteTargetInfo() {
  if (info_ms_ == 0 || !options_.target_info || (plain_job_.empty() && instance_.empty())) return;
  used_rooms_ = 0;
  pairs_.clear();
  Pair pair;
  for (std::string_view attribute : resource_) {
    if (!ReadPair(attribute, false, pair) || pair.key == "service.name" || pair.key == "service.namespace" ||
        pair.key == "service.instance.id")
      continue;
    pairs_.push_back(pair);
  }
  if (pairs_.empty()) return;
  JoinPairs(labels_, false);
  Set(labels_, {"job", plain_job_});
  Set(labels_, {"instance", instance_});
  ms_ = info_ms_;
  start_ms_ = 0;
  Metric metric;
  metric.name = metric.family = "target_info";
  metric.help = "Target metadata";
  metric.type = remote_write::Type::kInfo;
  if (const Fault fault = PutValue(metric, {}, {}, 1); fault != Fault::kNone) Drop(fault);
  else if (options_.version == RemoteWriteVersion::k1) PutMetadata(metric);
}

}  // namespace gpulens
