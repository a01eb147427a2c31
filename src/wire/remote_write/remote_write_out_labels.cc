// The part of RemoteWriteOut that makes labels: of resources, scopes and points.

#include <algorithm>

#include "wire/exposition/name_escaping.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_message.h"
#include "wire/remote_write/otlp_value_text.h"
#include "wire/remote_write/prometheus_names.h"
#include "wire/remote_write/remote_write_marks.h"
#include "wire/remote_write/remote_write_out.h"

namespace gpulens {

using remote_write_out::AppendLabelName;
using remote_write_out::IsGood;
using remote_write_out::ReadKeyValue;
using remote_write_out::ValueText;

namespace {

constexpr std::string_view kTargetInfoAlone[] = {"service.", "host.",    "os.",
                                                 "cloud.",   "process.", "telemetry."};
constexpr std::string_view kReceiver = "gpulens.receiver";

bool ByName(const remote_write_out::Label& a, const remote_write_out::Label& b) noexcept {
  return a.name < b.name;
}

// Into labels that are sorted. `replace`: in place of what has this name.
void Set(remote_write_out::Labels& labels, remote_write_out::Label label, bool replace = true) {
  if (label.value.empty()) return;
  const auto at = std::lower_bound(labels.begin(), labels.end(), label, &ByName);
  if (at == labels.end() || at->name != label.name) labels.insert(at, label);
  else if (replace) at->value = label.value;
}

}  // namespace

bool RemoteWriteOut::IsPromoted(std::string_view key) const {
  if (options_.promoted) return std::ranges::find(*options_.promoted, key) != options_.promoted->end();
  if (key == kReceiver) return options_.mark_received;
  return std::ranges::none_of(kTargetInfoAlone,
                              [key](std::string_view prefix) { return key.starts_with(prefix); });
}

bool RemoteWriteOut::ReadResource(std::string_view message) {
  bool readable = true;
  resource_fault_ =
      IsGood(otlp_in::MessageShape::kResource, message, readable) ? Fault::kNone : Fault::kMalformed;
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
    if (field.number != otlp_in::kResourceAttributes) continue;
    if (resource_.size() == remote_write_out::OtlpPoint::kMostAttributes) {
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
  std::string_view value;
  if (!ReadKeyValue(message, out.key, value)) return false;
  ProtoField text;
  ProtoCursor cursor(value);
  // A text alone is what most values are.
  if (cursor.Next(text) && text.number == otlp::kString && cursor.at_end()) out.value = text.bytes;
  else out.value = ValueText(value, Room());
  if (out.value.empty()) return false;
  if (verbatim || options_.names_as_they_are || IsLegacyLabelName(out.key)) {
    out.name = out.key;
  } else {
    std::string& name = Room();
    AppendLabelName(name, out.key);
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
  const bool named = metric.verbatim ? scope_name_ != remote_write_in::kOwnScope : options_.scope_labels;
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
