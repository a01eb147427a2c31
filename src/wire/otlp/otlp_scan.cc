#include "wire/otlp/otlp_scan.h"

#include <string>

#include "wire/otlp/otlp_identity.h"
#include "wire/otlp/otlp_message.h"

namespace gpulens {
namespace {

using otlp_in::CheckField;
using otlp_in::Finding;
using otlp_in::MessageShape;
using otlp_in::Validity;

constexpr std::string_view kCutOff = "the request is not a protobuf message";
constexpr std::string_view kWrongType = "a field has a wire type other than that of OTLP";
constexpr size_t kMostBytes = size_t{1} << 27;

class Scanner {
 public:
  Scanner(OtlpScan& out, const NameFilter* unwanted) : out_(out), unwanted_(unwanted) {}

  Status Run() {
    ProtoCursor cursor(out_.request);
    ProtoField field;
    while (cursor.Next(field)) {
      if (field.number != otlp_in::kResourceList) continue;
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
  // What was found below a message that may itself turn out to be left out.
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

  bool ScanResource(const ProtoField& list) {
    const Mark begin = Here();
    own_ = false;
    Finding worst;
    ProtoCursor cursor(list.bytes);
    ProtoField field;
    while (cursor.Next(field)) {
      const Finding found = CheckField(MessageShape::kResourceList, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (field.number == otlp_in::kScopeList && !ScanScope(field)) return false;
    }
    if (cursor.broken()) return Broken(kCutOff);
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
    Finding worst;
    ProtoCursor cursor(list.bytes);
    ProtoField field;
    while (cursor.Next(field)) {
      const Finding found = CheckField(MessageShape::kScopeList, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (field.number != otlp_in::kItems) continue;
      const bool read = out_.signal == OtlpSignal::kMetrics
                            ? ScanMetric(field)
                            : ScanItem(otlp_in::ItemShape(out_.signal), field);
      if (!read) return false;
    }
    if (cursor.broken()) return Broken(kCutOff);
    if (!worst.good()) Reject(list, begin, worst.why);
    return true;
  }

  bool ScanMetric(const ProtoField& metric) {
    const Mark begin = Here();
    Finding worst;
    std::string_view name;
    ProtoCursor cursor(metric.bytes);
    ProtoField field;
    while (cursor.Next(field)) {
      const Finding found = CheckField(MessageShape::kMetric, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (field.number == otlp_in::kMetricName) name = field.bytes;
      if (otlp_in::IsData(field.number) && !ScanData(field)) return false;
    }
    if (cursor.broken()) return Broken(kCutOff);
    if (!worst.good()) Reject(metric, begin, worst.why);
    else if (name.empty() && out_.items != begin.items) Reject(metric, begin, "a metric has no name");
    else if (unwanted_ && unwanted_->Matches(name)) Leave(metric, begin, out_.filtered);
    return true;
  }

  bool ScanData(const ProtoField& data) {
    const MessageShape point = otlp_in::PointShape(data.number);
    const bool has_temporality = data.number != otlp_in::kGaugeData && data.number != otlp_in::kSummaryData;
    const bool may_be_monotonic = data.number == otlp_in::kSumData;
    ProtoCursor cursor(data.bytes);
    ProtoField field;
    while (cursor.Next(field)) {
      if (field.number == otlp_in::kDataPoints) {
        if (field.wire != WireType::kBytes) return Broken(kWrongType);
        if (!ScanItem(point, field)) return false;
      } else if ((field.number == 2 && has_temporality) || (field.number == 3 && may_be_monotonic)) {
        if (field.wire != WireType::kVarint) return Broken(kWrongType);
      }
    }
    return !cursor.broken() || Broken(kCutOff);
  }

  bool ScanItem(MessageShape shape, const ProtoField& item) {
    const Mark begin = Here();
    const uint32_t attributes = otlp_in::AttributesField(shape);
    const bool histogram = shape == MessageShape::kHistogramPoint;
    size_t buckets = 0, bounds = 0;
    Finding worst;
    ProtoCursor cursor(item.bytes);
    ProtoField field;
    while (cursor.NextShort(attributes, field) || cursor.Next(field)) {
      if (field.number == attributes && field.wire == WireType::kBytes) {
        if (const std::string_view key = otlp_in::UsualPair(field.bytes); !key.empty()) {
          own_ |= IsIdentityKey(key);
          continue;
        }
        own_ |= IsIdentityKey(KeyOf(field.bytes));
      } else if (otlp_in::IsNumberOfPoint(shape, field)) {
        continue;
      }
      const Finding found = CheckField(shape, field);
      if (found.validity == Validity::kBroken) return Broken(found.why);
      if (worst.good()) worst = found;
      if (histogram && field.number == otlp_in::kHistogramBuckets) buckets += field.bytes.size() / 8;
      if (histogram && field.number == otlp_in::kHistogramBounds) bounds += field.bytes.size() / 8;
    }
    if (cursor.broken()) return Broken(kCutOff);
    ++out_.items;
    if (worst.good() && buckets != bounds + 1 && buckets + bounds != 0)
      worst = {Validity::kBad, "a histogram's buckets do not fit its bounds"};
    if (!worst.good()) {
      Reject(item, begin, worst.why);
    }
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
  return Scanner(out, unwanted).Run();
}

}  // namespace gpulens
