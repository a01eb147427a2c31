// The batch of series, and the second half of RemoteWriteOut: points as series.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "core/prometheus_words.h"
#include "wire/exposition/exposition_format.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/native_histogram.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_out.h"

namespace gpulens::remote_write {

using namespace remote_write;

namespace {

// Most bytes of a field without its text: a tag and a length, or a reference and a symbol's head.
constexpr size_t kPerText = 12, kPerSeries = 64;
// Limits of the collected data, so that a request of OTLP never needs more memory than this.
constexpr size_t kMostData = size_t{4} << 20, kMostTexts = size_t{8} << 20, kMostRefs = size_t{1} << 20;
constexpr uint64_t kMostCost = uint64_t{16} << 20;

size_t CostOf(const Labels& labels) noexcept {
  size_t cost = 0;
  for (const Label& label : labels) cost += label.name.size() + label.value.size() + 2 * kPerText;
  return cost;
}

}  // namespace

void SeriesBatch::Begin(RemoteWriteVersion version, const Take& take) {
  version_ = version;
  take_ = &take;
  bytes_ = 0;
  Clear();
}

void SeriesBatch::Clear() {
  layout_.text.clear();
  layout_.symbols.clear();
  layout_.refs.clear();
  layout_.lines.clear();
  layout_.families.clear();
  parts_.clear();
  exemplars_.clear();
  data_.clear();
  metadata_.clear();
  metadata_ends_.clear();
  in_request_ = 0;
  cost_ = 0;
  open_ = false;
  // Slots of rounds long past could count as filled.
  if (++round_ == 0) slots_.clear(), round_ = 1;
}

bool SeriesBatch::full() const noexcept {
  return data_.size() > kMostData || layout_.text.size() > kMostTexts || layout_.refs.size() > kMostRefs ||
         metadata_.size() > kMostData || cost_ > kMostCost;
}

uint32_t SeriesBatch::Intern(std::string_view text) {
  if (slots_.size() < 2 * (layout_.symbols.size() + 1)) Grow();
  const uint64_t hash = HashBytes(text, 0, ProcessHashKey());
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.round != round_) {
      slot = {hash, round_, static_cast<uint32_t>(layout_.symbols.size())};
      layout_.symbols.push_back(
          {static_cast<uint32_t>(layout_.text.size()), static_cast<uint32_t>(text.size())});
      layout_.text += text;
      return slot.symbol;
    }
    if (slot.hash == hash && layout_.Symbol(slot.symbol) == text) return slot.symbol;
  }
}

void SeriesBatch::Grow() {
  std::vector<Slot> before(std::max<size_t>(1024, 2 * slots_.size()));
  before.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.round != round_) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].round == round_) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

size_t SeriesBatch::AppendRefs(const Labels& labels) {
  const size_t first = layout_.refs.size();
  for (const Label& label : labels) {
    layout_.refs.push_back(Intern(label.name));
    layout_.refs.push_back(Intern(label.value));
  }
  return first;
}

uint32_t SeriesBatch::FamilyOf(const About& about) {
  const uint32_t help = Intern(about.help), unit = Intern(about.unit);
  if (!layout_.families.empty()) {
    const RemoteWriteFamily& last = layout_.families.back();
    if (last.type == about.type && last.help == help && last.unit == unit)
      return static_cast<uint32_t>(layout_.families.size() - 1);
  }
  layout_.families.push_back({.help = help, .unit = unit, .type = about.type});
  return static_cast<uint32_t>(layout_.families.size() - 1);
}

bool SeriesBatch::Add(const About& about, const Labels& labels, std::string_view data, uint32_t samples) {
  size_t cost = CostOf(labels) + data.size() + kPerSeries;
  if (version_ == RemoteWriteVersion::k2) cost += about.help.size() + about.unit.size();
  if (cost > limits_.bytes) return false;
  cost_ += cost;
  // Requests of 1.0 have no place for it.
  const uint32_t family = version_ == RemoteWriteVersion::k2 ? FamilyOf(about) : FamilyOf({});
  const auto first = static_cast<uint32_t>(AppendRefs(labels));
  const auto refs = static_cast<uint32_t>(layout_.refs.size() - first);
  if (!layout_.lines.empty()) {
    // The same series as before: one more sample of it.
    const RemoteWriteLine& last = layout_.lines.back();
    Part& part = parts_.back();
    const auto begin = layout_.refs.begin();
    if (last.family == family && last.refs == refs && part.samples + samples <= limits_.samples &&
        part.cost + data.size() <= limits_.bytes &&
        std::equal(begin + last.first_ref, begin + last.first_ref + refs, begin + first)) {
      layout_.refs.resize(first);
      data_ += data;
      part.data_end = data_.size();
      part.cost += data.size();
      part.samples += samples;
      return true;
    }
  }
  layout_.lines.push_back({.family = family, .first_ref = first, .refs = refs});
  data_ += data;
  parts_.push_back({data_.size(), cost, samples, static_cast<uint32_t>(exemplars_.size())});
  return true;
}

bool SeriesBatch::AddExemplar(const Labels& labels, double value, int64_t ms) {
  const size_t cost = CostOf(labels) + kPerSeries;
  Part& part = parts_.back();
  if (part.cost + cost > limits_.bytes) return false;
  const size_t first = AppendRefs(labels);
  exemplars_.push_back(
      {value, ms, static_cast<uint32_t>(first), static_cast<uint32_t>(layout_.refs.size() - first)});
  part.cost += cost;
  cost_ += cost;
  part.exemplars_end = static_cast<uint32_t>(exemplars_.size());
  return true;
}

bool SeriesBatch::AddMetadata(std::string_view message) {
  if (message.size() + kPerText > limits_.bytes) return false;
  protozero::pbf_writer(metadata_).add_message(kMetadata1, message.data(), message.size());
  metadata_ends_.push_back(metadata_.size());
  return true;
}

void SeriesBatch::WriteExemplar(const Exemplar& exemplar) {
  message_.clear();
  protozero::pbf_writer writer(message_);
  const auto* refs = layout_.refs.data() + exemplar.first_ref;
  if (version_ == RemoteWriteVersion::k1) {
    for (uint32_t i = 0; i < exemplar.refs; i += 2)
      AppendLabel(message_, kExemplarLabels, layout_.Symbol(refs[i]), layout_.Symbol(refs[i + 1]));
  } else if (exemplar.refs != 0) {
    protozero::packed_field_uint32 packed(writer, kExemplarLabels);
    for (uint32_t i = 0; i < exemplar.refs; ++i) packed.add_element(request_.NumberOf(layout_, refs[i]));
  }
  writer.add_double(kExemplarValue, exemplar.value);
  writer.add_int64(kExemplarTimestamp, exemplar.ms);
  const uint32_t field = remote_write::NumbersOf(version_).exemplars;
  protozero::pbf_writer(series_).add_message(field, message_);
}

Status SeriesBatch::Hand() {
  if (!open_) return Ok();
  open_ = false;
  const std::string_view request = request_.Finish();
  bytes_ += request.size();
  return (*take_)(request, std::exchange(in_request_, 0));
}

Status SeriesBatch::Drain() {
  symbols_.Clear();
  symbols_.Add(layout_);
  const auto make_room = [this](size_t cost, uint32_t samples) {
    const bool fits = request_.bytes() + cost <= limits_.bytes && in_request_ + samples <= limits_.samples;
    if (open_ && !fits)
      if (Status handed = Hand(); !handed.ok()) return handed;
    if (!open_) request_.Begin(version_);
    open_ = true;
    return Ok();
  };
  Status status;
  size_t begin = 0;
  uint32_t exemplar = 0;
  for (size_t i = 0; i < parts_.size() && status.ok(); ++i) {
    const Part& part = parts_[i];
    status = make_room(part.cost, part.samples);
    if (!status.ok()) break;
    std::string_view data = std::string_view(data_).substr(begin, part.data_end - begin);
    if (exemplar != part.exemplars_end) {
      series_ = data;
      for (; exemplar < part.exemplars_end; ++exemplar) WriteExemplar(exemplars_[exemplar]);
      data = series_;
    }
    request_.AppendSeries(layout_, layout_.lines[i], data);
    in_request_ += part.samples;
    begin = part.data_end;
  }
  begin = 0;
  for (size_t i = 0; i < metadata_ends_.size() && status.ok(); begin = metadata_ends_[i++]) {
    const std::string_view field = std::string_view(metadata_).substr(begin, metadata_ends_[i] - begin);
    status = make_room(field.size(), 0);
    if (status.ok()) request_.AppendFields(field, 0);
  }
  if (status.ok()) status = Hand();
  Clear();
  return status;
}

}  // namespace gpulens::remote_write

namespace gpulens {

using remote_write::MsOfTime;
using remote_write::Type;

namespace {

// Threshold that Prometheus uses where an exponential histogram has none.
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
    AppendHex(hex, id);
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
  plain_instance_.clear();
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
    if (pair.key == "host.name") plain_instance_ = pair.value;
  }
  // An agent has no instance but its host. Without it, the series of a fleet's nodes would be the same.
  if (!instance_.empty()) plain_instance_ = instance_;
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
  Set(labels, {"instance", verbatim ? instance_ : plain_instance_});
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
  if (info_ms_ == 0 || !options_.target_info || (plain_job_.empty() && plain_instance_.empty())) return;
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
  Set(labels_, {"instance", plain_instance_});
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
