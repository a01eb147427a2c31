#include "wire/remote_write/remote_write_out.h"

#include <algorithm>

#include "base/hash.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_schema.h"

namespace gpulens {

using remote_write::AppendMetricName;
using remote_write::AppendUnitName;
using remote_write::IsGood;
using remote_write::MsOfTime;
using remote_write::NameKind;
using remote_write::Type;

namespace {

const Status& NotOtlp() {
  static const Status kStatus{Code::kDataLoss, "the request is not OTLP metrics"};
  return kStatus;
}

Type TypeOfName(std::string_view name) noexcept {
  for (uint64_t number = 0; number <= static_cast<uint64_t>(Type::kStateSet); ++number)
    if (PrometheusTypeName(TypeOfNumber(number)) == name) return TypeOfNumber(number);
  return Type::kUnknown;
}

// The family that a series of a classic histogram or a summary belongs to.
std::string_view FamilyOf(std::string_view name, Type type) noexcept {
  if (type != Type::kHistogram && type != Type::kSummary) return name;
  for (std::string_view suffix : {"_bucket", "_count", "_sum"}) {
    if (suffix == "_bucket" && type == Type::kSummary) continue;
    if (name.size() > suffix.size() && name.ends_with(suffix))
      return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

}  // namespace

std::string RemoteWriteOutOutcome::Text() const {
  if (dropped == 0) return {};
  const std::string text =
      std::to_string(dropped) + " of " + std::to_string(points + dropped) + " points were not sent";
  return text + CountsText<RemoteWriteOutFault>(faults);
}

RemoteWriteOut::RemoteWriteOut(Options options)
    : options_(std::move(options)),
      batch_(options_.version,
             {.samples = std::max<size_t>(1, options_.max_samples), .bytes = options_.max_bytes}) {}

void RemoteWriteOut::Drop(Fault fault, uint64_t points) {
  outcome_->dropped += points;
  outcome_->faults[static_cast<size_t>(fault)] += points;
}

Status RemoteWriteOut::Drain() {
  if (status_.ok()) status_ = batch_.Drain();
  return status_;
}

Status RemoteWriteOut::Convert(std::string_view request, Instant now, const Take& take,
                               RemoteWriteOutOutcome& outcome) {
  outcome = {};
  outcome_ = &outcome;
  now_ = now;
  status_ = Ok();
  batch_.Begin(options_.version, take);
  native_.SetVersion(options_.version);
  ProtoCursor cursor(request);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != otlp::kResourceList) continue;
    if (field.wire != WireType::kBytes) return NotOtlp();
    if (Status read = ReadResourceMetrics(field.bytes); !read.ok()) return read;
  }
  if (cursor.broken()) return NotOtlp();
  // Metadata that was not taken has to be sent again.
  if (!Drain().ok()) sent_.clear();
  return status_;
}

Status RemoteWriteOut::ReadResourceMetrics(std::string_view message) {
  // The resource may follow what it describes.
  std::string_view resource;
  ProtoField field;
  ProtoCursor first(message);
  while (first.Next(field)) {
    if (field.number > otlp::kScopeList) continue;
    if (field.wire != WireType::kBytes) return NotOtlp();
    if (field.number == otlp::kResource) resource = field.bytes;
  }
  if (first.broken()) return NotOtlp();
  if (!ReadResource(resource)) return NotOtlp();
  ProtoCursor second(message);
  while (second.Next(field)) {
    if (field.number != otlp::kScopeList) continue;
    if (Status read = ReadScopeMetrics(field.bytes); !read.ok()) return read;
  }
  WriteTargetInfo();
  return status_;
}

Status RemoteWriteOut::ReadScopeMetrics(std::string_view message) {
  scope_name_ = scope_version_ = {};
  ProtoField field;
  Fault fault = Fault::kNone;
  ProtoCursor first(message);
  while (first.Next(field)) {
    if (field.number > otlp::kItems) continue;
    if (field.wire != WireType::kBytes) return NotOtlp();
    if (field.number != otlp::kScope) continue;
    bool readable = true;
    if (!IsGood(OtlpMessage::kScope, field.bytes, readable)) fault = Fault::kMalformed;
    if (!readable) return NotOtlp();
    ProtoCursor scope(field.bytes);
    for (ProtoField part; scope.Next(part);) {
      if (part.number == otlp::kScopeName) scope_name_ = part.bytes;
      else if (part.number == otlp::kScopeVersion) scope_version_ = part.bytes;
    }
  }
  if (first.broken()) return NotOtlp();
  const Fault above =
      std::exchange(resource_fault_, resource_fault_ != Fault::kNone ? resource_fault_ : fault);
  ProtoCursor second(message);
  Status status;
  while (status.ok() && second.Next(field))
    if (field.number == otlp::kItems) status = ReadMetric(field.bytes);
  resource_fault_ = above;
  return status;
}

void RemoteWriteOut::ReadMetricMetadata(std::string_view pair, Metric& metric) {
  otlp::KeyValueView view;
  if (!otlp::ReadKeyValue(pair, view)) return;
  const std::string_view key = view.key;
  // These are texts; another value is not ours.
  if (key == remote_write::kTypeKey) {
    std::string room;
    std::string_view type;
    if (!otlp::ValueText(view.value, otlp::ValueStyle::kLabel, room, type)) type = {};
    metric.type = TypeOfName(type);
  }
  ProtoField text;
  ProtoCursor cursor(view.value);
  if (!cursor.Next(text) || text.number != otlp::kString || text.wire != WireType::kBytes) return;
  if (key == remote_write::kFamilyKey) {
    metric.verbatim = true;
    metric.family = text.bytes;
  } else if (key == remote_write::kUnitKey) {
    metric.unit = text.bytes;
  }
}

Status RemoteWriteOut::ReadMetric(std::string_view message) {
  bool readable = true;
  Metric metric;
  if (!IsGood(OtlpMessage::kMetric, message, readable)) metric.fault = Fault::kMalformed;
  if (!readable) return NotOtlp();
  std::string_view unit;
  bool typed = false;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    switch (field.number) {
      case otlp::kName: metric.name = field.bytes; break;
      case otlp::kDescription: metric.help = field.bytes; break;
      case otlp::kUnit: unit = field.bytes; break;
      case otlp::kMetricMetadata:
        ReadMetricMetadata(field.bytes, metric);
        typed = true;
        break;
      default:
        if (!otlp::IsData(field.number)) break;
        metric.data_field = field.number;
        metric.data = field.bytes;
    }
  }
  ProtoCursor data(metric.data);
  for (ProtoField field; data.Next(field);) {
    if (field.number == otlp::kPoints && field.wire != WireType::kBytes) return NotOtlp();
    if (field.wire != WireType::kVarint) continue;
    if (field.number == otlp::kTemporality) metric.temporality = field.value;
    else if (field.number == otlp::kMonotonic) metric.monotonic = field.value != 0;
  }
  if (data.broken()) return NotOtlp();
  if (!metric.verbatim) {
    const Type declared = typed ? metric.type : Type::kGauge;
    metric.unit = unit;
    const bool sum = metric.data_field == otlp::kSum;
    metric.type = metric.data_field == otlp::kSummary                               ? Type::kSummary
                  : sum && metric.monotonic                                         ? Type::kCounter
                  : sum && (declared == Type::kInfo || declared == Type::kStateSet) ? declared
                  : sum                                                             ? Type::kGauge
                  : metric.data_field != otlp::kGauge                               ? Type::kHistogram
                  : typed && declared == Type::kUnknown                             ? Type::kUnknown
                                                                                    : Type::kGauge;
  }
  if (resource_fault_ != Fault::kNone) metric.fault = resource_fault_;
  else if (metric.fault == Fault::kNone) metric.fault = Validate(metric);
  if (metric.fault == Fault::kNone) Translate(metric);
  if (metric.fault == Fault::kNone && metric.name.empty()) metric.fault = Fault::kNoName;
  return ReadPoints(metric);
}

RemoteWriteOutFault RemoteWriteOut::Validate(const Metric& metric) const noexcept {
  switch (metric.data_field) {
    case 0: return Fault::kNoData;
    case otlp::kGauge:
    case otlp::kSummary: return Fault::kNone;
    default: break;
  }
  if (metric.temporality == otlp::kDelta) return Fault::kDelta;
  return metric.temporality == otlp::kCumulative ? Fault::kNone : Fault::kTemporality;
}

void RemoteWriteOut::Translate(Metric& metric) {
  if (metric.verbatim) {
    if (metric.family.empty() &&
        (metric.type != Type::kUnknown || !metric.help.empty() || !metric.unit.empty()))
      metric.family = FamilyOf(metric.name, metric.type);
    return;
  }
  unit_.clear();
  AppendUnitName(unit_, metric.unit);
  if (!options_.names_as_they_are) {
    name_.clear();
    const NameKind kind = metric.type == Type::kCounter       ? NameKind::kCounter
                          : metric.data_field == otlp::kGauge ? NameKind::kGauge
                                                              : NameKind::kOther;
    AppendMetricName(name_, metric.name, metric.unit, kind);
    metric.name = name_;
  }
  metric.unit = unit_;
  metric.family = metric.name;
}

Status RemoteWriteOut::ReadPoints(const Metric& metric) {
  bool any = false;
  ProtoCursor cursor(metric.data);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != otlp::kPoints) continue;
    bool readable = true;
    const bool good = IsGood(otlp::PointShape(metric.data_field), field.bytes, readable);
    if (!readable) return NotOtlp();
    Fault fault = metric.fault != Fault::kNone ? metric.fault : good ? Fault::kNone : Fault::kMalformed;
    if (fault == Fault::kNone) {
      point_.Read(metric.data_field, field.bytes);
      fault = ReadPoint(metric);
    }
    if (!status_.ok()) return status_;
    if (fault != Fault::kNone) {
      Drop(fault);
      continue;
    }
    ++outcome_->points;
    any = true;
  }
  if (any && options_.version == RemoteWriteVersion::k1) PutMetadata(metric);
  return status_;
}

RemoteWriteOutFault RemoteWriteOut::ReadPoint(const Metric& metric) {
  if (point_.too_many) return Fault::kTooMany;
  if (!MsOfTime(point_.ns, ms_)) return Fault::kNoTime;
  if (!MsOfTime(point_.start_ns, start_ms_) || start_ms_ > ms_) start_ms_ = 0;
  BuildLabels(metric);
  if (!metric.verbatim) info_ms_ = std::max(info_ms_, ms_);
  switch (metric.data_field) {
    case otlp::kHistogram: return WriteHistogram(metric);
    case otlp::kExponentialHistogram: return WriteExponential(metric);
    case otlp::kSummary: return WriteSummary(metric);
    default: return WriteNumber(metric);
  }
}

// Sends the metadata of a family, once a minute in 1.0.
void RemoteWriteOut::PutMetadata(const Metric& metric) {
  if (metric.family.empty()) return;
  constexpr size_t kMostFamilies = 20'000;
  const HashKey& key = ProcessHashKey();
  uint64_t hash = static_cast<uint64_t>(metric.type) + 1;
  for (std::string_view text : {metric.help, metric.unit}) hash = HashBytes(text, hash, key);
  if (sent_.size() >= kMostFamilies) sent_.clear();
  Sent& sent = sent_[std::string(metric.family)];
  if (sent.hash == hash && now_.boot_ns - sent.boot_ns < options_.metadata_interval.count()) return;
  sent = {hash, now_.boot_ns};
  message_.clear();
  if (metric.type != Type::kUnknown)
    otlp::AppendNumber(message_, remote_write::kType1, static_cast<uint64_t>(metric.type));
  otlp::AppendBytes(message_, remote_write::kFamilyName, metric.family);
  if (!metric.help.empty()) otlp::AppendBytes(message_, remote_write::kHelp, metric.help);
  if (!metric.unit.empty()) otlp::AppendBytes(message_, remote_write::kUnit, metric.unit);
  static_cast<void>(batch_.AddMetadata(message_));
}

}  // namespace gpulens
