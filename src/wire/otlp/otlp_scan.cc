#include "wire/otlp/otlp_scan.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

using otlp::CheckField;
using otlp::SchemaFinding;
using otlp::Validity;

constexpr std::string_view kCutOff = "the request is not a protobuf message";
constexpr std::string_view kWrongType = "a field has a wire type other than that of OTLP";
constexpr size_t kMostBytes = size_t{1} << 27;

class OtlpScanner {
 public:
  OtlpScanner(OtlpScan& out, const NameFilter* unwanted) : out_(out), unwanted_(unwanted) {}

  Status Run() {
    ProtoCursor cursor(out_.request);
    for (ProtoField field; cursor.Next(field);) {
      if (field.number != otlp::kResourceList) continue;
      if (field.wire != WireType::kBytes) return {Code::kInvalidArgument, std::string(kWrongType)};
      if (out_.resources.size() == kMostOtlpResources)
        return {Code::kExhausted, "more than " + std::to_string(kMostOtlpResources) + " resources"};
      if (!ScanResource(field)) return {Code::kInvalidArgument, std::string(broken_)};
      if (out_.removed.size() > kMostOtlpRemovals)
        return {Code::kExhausted,
                "more than " + std::to_string(kMostOtlpRemovals) +
                    " of its parts cannot be passed on; the first: " + std::string(out_.why)};
    }
    if (cursor.broken()) return {Code::kInvalidArgument, std::string(kCutOff)};
    return Ok();
  }

 private:
  // State at the start of a message, restored when the message is left out.
  struct Mark {
    uint64_t items;
    size_t removed;
  };
  Mark Here() const noexcept { return {out_.items, out_.removed.size()}; }

  bool Broken(std::string_view why) {
    broken_ = why;
    return false;
  }
  void Leave(const ProtoField& message, const Mark& since, uint64_t& counter) {
    counter += out_.items - since.items;
    out_.items = since.items;
    out_.removed.resize(since.removed);
    if (out_.removed.size() <= kMostOtlpRemovals)
      out_.removed.push_back(static_cast<uint32_t>(message.whole.data() - out_.request.data()));
  }
  void Reject(const ProtoField& message, const Mark& since, std::string_view why) {
    if (out_.why.empty()) out_.why = why;
    Leave(message, since, out_.rejected);
  }

  // Checks each field of a message, then calls `enter(field)`; `worst` is the first finding. False: the
  // request cannot be read.
  template <class Enter>
  bool Walk(OtlpMessage shape, const ProtoField& message, SchemaFinding& worst, Enter&& enter) {
    ProtoCursor cursor(message.bytes);
    for (ProtoField field; cursor.Next(field);) {
      const SchemaFinding found = CheckField(shape, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (!enter(field)) return false;
    }
    return !cursor.broken() || Broken(kCutOff);
  }

  bool ScanResource(const ProtoField& list) {
    const Mark begin = Here();
    own_ = false;
    SchemaFinding worst;
    if (!Walk(OtlpMessage::kResourceMetrics, list, worst, [this](const ProtoField& field) {
          return field.number != otlp::kScopeList || ScanScope(field);
        }))
      return false;
    OtlpScan::Resource& scanned = out_.resources.emplace_back();
    if (!worst.good()) {
      Reject(list, begin, worst.why);
      out_.removed.pop_back();
      scanned.removed = true;
      return true;
    }
    scanned.items = static_cast<uint32_t>(out_.items - begin.items);
    scanned.whole = out_.removed.size() == begin.removed;
    scanned.own = own_;
    scanned.removed = scanned.items == 0 && !scanned.whole;
    if (scanned.removed) out_.removed.resize(begin.removed);
    return true;
  }

  bool ScanScope(const ProtoField& list) {
    const Mark begin = Here();
    SchemaFinding worst;
    if (!Walk(OtlpMessage::kScopeMetrics, list, worst, [this](const ProtoField& field) {
          if (field.number != otlp::kItems) return true;
          if (out_.signal == OtlpSignal::kMetrics) return ScanMetric(field);
          return ScanItem(otlp::ItemShape(out_.signal), field);
        }))
      return false;
    if (!worst.good()) Reject(list, begin, worst.why);
    return true;
  }

  bool ScanMetric(const ProtoField& metric) {
    const Mark begin = Here();
    SchemaFinding worst;
    std::string_view name;
    if (!Walk(OtlpMessage::kMetric, metric, worst, [&](const ProtoField& field) {
          if (field.number == otlp::kName) name = field.bytes;
          return !otlp::IsData(field.number) || ScanData(field);
        }))
      return false;
    if (!worst.good()) Reject(metric, begin, worst.why);
    else if (name.empty() && out_.items != begin.items) Reject(metric, begin, "a metric has no name");
    else if (unwanted_ && unwanted_->Matches(name)) Leave(metric, begin, out_.filtered);
    return true;
  }

  bool ScanData(const ProtoField& data) {
    const OtlpMessage point = otlp::PointShape(data.number);
    const bool has_temporality = data.number != otlp::kGauge && data.number != otlp::kSummary;
    const bool may_be_monotonic = data.number == otlp::kSum;
    ProtoCursor cursor(data.bytes);
    for (ProtoField field; cursor.Next(field);) {
      if (field.number == otlp::kPoints) {
        if (field.wire != WireType::kBytes) return Broken(kWrongType);
        if (!ScanItem(point, field)) return false;
      } else if ((field.number == 2 && has_temporality) || (field.number == 3 && may_be_monotonic)) {
        if (field.wire != WireType::kVarint) return Broken(kWrongType);
      }
    }
    return !cursor.broken() || Broken(kCutOff);
  }

  bool ScanItem(OtlpMessage shape, const ProtoField& item) {
    const Mark begin = Here();
    const uint32_t attributes = otlp::FieldsOf(shape).attributes;
    const bool histogram = shape == OtlpMessage::kHistogramPoint;
    size_t buckets = 0, bounds = 0;
    SchemaFinding worst;
    ProtoCursor cursor(item.bytes);
    ProtoField field;
    while (cursor.NextShort(attributes, field) || cursor.Next(field)) {
      if (field.number == attributes && field.wire == WireType::kBytes) {
        if (const std::string_view key = otlp::UsualPair(field.bytes); !key.empty()) {
          own_ |= IsIdentityKey(key);
          continue;
        }
        own_ |= IsIdentityKey(KeyOf(field.bytes));
      } else if (otlp::IsNumberOfPoint(shape, field)) {
        continue;
      }
      const SchemaFinding found = CheckField(shape, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (histogram && field.number == otlp::kBucketCounts) buckets += field.bytes.size() / 8;
      if (histogram && field.number == otlp::kExplicitBounds) bounds += field.bytes.size() / 8;
    }
    if (cursor.broken()) return Broken(kCutOff);
    ++out_.items;
    if (worst.good() && buckets != bounds + 1 && buckets + bounds != 0)
      worst = {Validity::kBad, "a histogram's buckets do not fit its bounds"};
    if (!worst.good()) Reject(item, begin, worst.why);
    return true;
  }

  OtlpScan& out_;
  const NameFilter* const unwanted_;
  std::string_view broken_;
  bool own_ = false;
};

}  // namespace

Status ScanOtlp(OtlpSignal signal, std::string_view request, const NameFilter* unwanted, OtlpScan& out) {
  out.signal = signal;
  out.request = request;
  out.resources.clear();
  out.removed.clear();
  out.items = out.rejected = out.filtered = 0;
  out.why = {};
  if (request.size() > kMostBytes) return {Code::kExhausted, "the request is too large"};
  if (unwanted && unwanted->empty()) unwanted = nullptr;
  return OtlpScanner(out, unwanted).Run();
}

namespace {

constexpr int64_t kMostGpus = 4096;

struct IdentityValue {
  std::string_view text;
  int64_t number = -1;
};

IdentityValue ReadValue(std::string_view any_value) noexcept {
  ProtoCursor cursor(any_value);
  ProtoField field;
  IdentityValue value;
  while (cursor.Next(field)) {
    if (field.number == otlp::kString && field.wire == WireType::kBytes) value = {field.bytes, -1};
    else if (field.number == otlp::kInt && field.wire == WireType::kVarint)
      value = {{}, static_cast<int64_t>(field.value)};
  }
  return value;
}

int64_t GpuIndex(const IdentityValue& value) noexcept {
  int64_t index = value.number;
  if (!value.text.empty()) index = ParseInt<int64_t>(value.text).value_or(-1);
  return index >= 0 && index < kMostGpus ? index : -1;
}

// Labels of Prometheus have no dots: one with underscores in their places is the same attribute.
bool Is(std::string_view key, std::string_view name) noexcept {
  if (key.size() != name.size()) return false;
  for (size_t i = 0; i < key.size(); ++i)
    if (key[i] != name[i] && !(name[i] == '.' && key[i] == '_')) return false;
  return true;
}

// dcgm-exporter's label, which others may mean otherwise.
void TakeUuid(std::string_view text, OtlpIdentity& out) noexcept {
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) out.gpu_uuid = text;
}

}  // namespace

bool IsIdentityKey(std::string_view key) noexcept {
  switch (key.size()) {
    case 4: return key == "UUID";
    case 6: return key == "gpu_id";
    case 8: return Is(key, "gpu.uuid");
    case 9: return Is(key, "gpu.index");
    case 11: return Is(key, "k8s.pod.uid");
    case 12: return Is(key, "container.id");
    default: return false;
  }
}

std::string_view KeyOf(std::string_view key_value) noexcept {
  otlp::KeyValueView pair;
  otlp::ReadKeyValue(key_value, pair);
  return pair.key;
}

void TakeIdentity(std::string_view key_value, OtlpIdentity& out) noexcept {
  otlp::KeyValueView pair;
  if (!otlp::ReadKeyValue(key_value, pair)) return;
  const std::string_view key = pair.key;
  const bool known = IsIdentityKey(key) || key == "host.name" || key == "host.id" || key == "k8s.node.name";
  if (!known) return;
  const IdentityValue value = ReadValue(pair.value);
  if (Is(key, "k8s.pod.uid")) out.pod_uid = value.text;
  else if (Is(key, "container.id")) out.container_id = value.text;
  else if (key == "host.name") out.host_name = value.text;
  else if (key == "host.id") out.host_id = value.text;
  else if (key == "k8s.node.name") out.k8s_node_name = value.text;
  else if (Is(key, "gpu.uuid")) out.gpu_uuid = value.text;
  else if (key == "UUID") TakeUuid(value.text, out);
  else out.gpu_index = GpuIndex(value);
}

NameFilter::NameFilter(std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns)
    (pattern.find('*') == std::string::npos ? exact_ : starred_).push_back(pattern);
  std::sort(exact_.begin(), exact_.end());
}

bool NameFilter::Matches(std::string_view name) const noexcept {
  if (std::binary_search(exact_.begin(), exact_.end(), name)) return true;
  return std::any_of(starred_.begin(), starred_.end(),
                     [name](const std::string& pattern) { return MatchesStars(pattern, name); });
}

}  // namespace gpulens
