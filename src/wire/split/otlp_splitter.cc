#include "wire/split/otlp_splitter.h"

#include "base/hash.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_json.h"
#include "wire/otlp/otlp_schema.h"

namespace gpulens {

using split::SplitRouter;
using Choice = SplitRouter::Choice;

namespace {

// Special decisions.
constexpr uint32_t kLeftOut = SplitRouter::kNoPart;
constexpr uint32_t kCut = kLeftOut - 1;      // split: decisions of the messages inside follow
constexpr uint32_t kNoItems = kLeftOut - 2;  // treated as a field of the enclosing message

constexpr std::string_view kNoMessage = "the request is not valid protobuf";
constexpr std::string_view kWrongType = "a field has a wire type other than that of OTLP";
// Field numbers that otlp_schema.h does not have.
constexpr uint32_t kScopeField = 1, kScopeAttributes = 3, kSpanTraceId = 1;

// Combines the decisions of messages inside one message.
uint32_t Join(uint32_t a, uint32_t b) noexcept {
  if (a == kNoItems) return b;
  return b == kNoItems || a == b ? a : kCut;
}

}  // namespace

bool OtlpSplitter::IsRouted(Level level, uint32_t number) const noexcept {
  switch (level) {
    case kRequest: return number == otlp::kResourceList;
    case kResource: return number == otlp::kScopeList;
    case kScope: return number == otlp::kItems;
    case kMetric: return otlp::IsData(number);
    case kData: return number == otlp::kPoints;
    case kItem: break;
  }
  return false;
}

OtlpSplitter::Level OtlpSplitter::Below(Level level) const noexcept {
  if (level == kScope && signal_ != OtlpSignal::kMetrics) return kItem;
  return static_cast<Level>(level + 1);
}

bool OtlpSplitter::Fail(Code code, std::string_view why) {
  failure_ = {code, std::string(why)};
  return false;
}

bool OtlpSplitter::FailFull() {
  failure_ = router_.Full();
  return false;
}

Status OtlpSplitter::Split(OtlpSignal signal, std::string_view request, const SplitRule& rule,
                           std::vector<SplitPart>& out, uint32_t& left_out) {
  signal_ = signal;
  rule_ = &rule;
  hash_of_items_ = rule.hash == SplitHash::kSeries && signal != OtlpSignal::kLogs;
  resource_hash_ = metric_hash_ = 0;
  left_out_ = 0;
  plan_.clear();
  failure_ = router_.Begin(rule, out);
  ProtoField whole;
  whole.bytes = request;
  uint32_t decision = kNoItems;
  bool good = failure_.ok();
  if (good && request.size() > limits_.bytes)
    good = Fail(Code::kExhausted, "the request has more than " + std::to_string(limits_.bytes) + " bytes");
  good = good && Plan(kRequest, whole, decision);
  if (good && decision == kCut) {
    next_ = 1;
    progress_.assign(router_.parts(), {});
    good = Write(kRequest, request);
  } else if (good && decision < kNoItems) {
    router_.part(decision).body = request;
  }
  router_.Finish(good);
  left_out = good ? left_out_ : 0;
  return failure_;
}

// Makes all decisions before anything is written, because most requests are not split.
bool OtlpSplitter::Plan(Level level, const ProtoField& message, uint32_t& decision) {
  const size_t at = plan_.size();
  if (at == limits_.messages)
    return Fail(Code::kExhausted, "more than " + std::to_string(limits_.messages) + " messages to route");
  plan_.push_back(kNoItems);
  if (level == kItem) {
    if (!PlanItem(message, decision)) return false;
  } else {
    if (level == kData) data_ = message.number;
    if (!ReadHead(level, message.bytes)) return false;
    const Choice choice = router_.Choose(false);
    const bool known =
        choice == Choice::kLeaveOut || (choice == Choice::kKeep && !hash_of_items_ &&
                                        (level != kRequest || rule_->hash == SplitHash::kNone));
    if (known ? !PlanWhole(level, message.bytes, choice == Choice::kLeaveOut, decision)
              : !PlanBelow(level, message.bytes, decision))
      return false;
  }
  if (decision != kCut) plan_.resize(at + 1);
  plan_[at] = decision;
  return true;
}

bool OtlpSplitter::PlanWhole(Level level, std::string_view message, bool leave_out, uint32_t& decision) {
  uint32_t items = 0;
  if (!Count(level, message, items)) return false;
  decision = kNoItems;
  if (items == 0) return true;
  if (leave_out) {
    left_out_ += items;
    decision = kLeftOut;
    return true;
  }
  decision = router_.Route(resource_hash_, items);
  return decision != SplitRouter::kNoPart || FailFull();
}

bool OtlpSplitter::PlanBelow(Level level, std::string_view message, uint32_t& decision) {
  decision = kNoItems;
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.Next(field)) {
    if (!IsRouted(level, field.number)) continue;
    if (field.wire != WireType::kBytes) return Fail(Code::kDataLoss, kWrongType);
    uint32_t below = kNoItems;
    if (!Plan(Below(level), field, below)) return false;
    decision = Join(decision, below);
  }
  return !cursor.broken() || Fail(Code::kDataLoss, kNoMessage);
}

bool OtlpSplitter::PlanItem(const ProtoField& item, uint32_t& decision) {
  router_.DropFrom(kItem);
  uint64_t hash = resource_hash_;
  if (!ReadItem(item.bytes, hash)) return false;
  if (router_.Choose(true) == Choice::kLeaveOut) {
    ++left_out_;
    decision = kLeftOut;
    return true;
  }
  decision = router_.Route(hash, 1);
  return decision != SplitRouter::kNoPart || FailFull();
}

bool OtlpSplitter::Count(Level level, std::string_view message, uint32_t& items) {
  const Level below = Below(level);
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.Next(field)) {
    if (!IsRouted(level, field.number)) continue;
    if (field.wire != WireType::kBytes) return Fail(Code::kDataLoss, kWrongType);
    if (below == kItem) ++items;
    else if (!Count(below, field.bytes, items)) return false;
  }
  return !cursor.broken() || Fail(Code::kDataLoss, kNoMessage);
}

// Reads the fields that hold for all items inside. They may follow the items.
bool OtlpSplitter::ReadHead(Level level, std::string_view message) {
  router_.DropFrom(level);
  if (level == kMetric ? !hash_of_items_ : level != kResource && level != kScope) return true;
  if (level == kMetric) metric_hash_ = 0;
  uint64_t sum = 0;
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.Next(field)) {
    if (level == kMetric) {
      if (field.number == otlp::kName) metric_hash_ = StableHash(field.bytes);
      continue;
    }
    const uint32_t head = level == kResource ? otlp::kResource : kScopeField;
    if (field.number != head) continue;
    if (field.wire != WireType::kBytes) return Fail(Code::kDataLoss, kWrongType);
    const uint32_t attributes = level == kResource ? otlp::kResourceAttributes : kScopeAttributes;
    const bool hashed = level == kResource && rule_->hash != SplitHash::kNone;
    if (!ReadAttributes(field.bytes, attributes, level, hashed ? &sum : nullptr)) return false;
  }
  if (level == kResource && rule_->hash != SplitHash::kNone) resource_hash_ = MixBits(sum);
  return !cursor.broken() || Fail(Code::kDataLoss, kNoMessage);
}

bool OtlpSplitter::ReadItem(std::string_view item, uint64_t& hash) {
  const bool points = signal_ == OtlpSignal::kMetrics;
  const uint32_t attributes =
      otlp::FieldsOf(points ? otlp::PointShape(data_) : otlp::ItemShape(signal_)).attributes;
  if (!hash_of_items_ || points) {
    uint64_t sum = 0;
    if (!ReadAttributes(item, attributes, kItem, hash_of_items_ ? &sum : nullptr)) return false;
    if (hash_of_items_) hash = MixBits(MixBits(resource_hash_ + metric_hash_) + sum);
    return true;
  }
  ProtoCursor cursor(item);
  ProtoField field;
  while (cursor.Next(field))
    if (field.number == kSpanTraceId && !field.bytes.empty()) hash = StableHash(field.bytes);
  return ReadAttributes(item, attributes, kItem, nullptr);
}

bool OtlpSplitter::ReadAttributes(std::string_view message, uint32_t number, Level level, uint64_t* hash) {
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.NextShort(number, field) || cursor.Next(field)) {
    if (field.number != number) continue;
    if (field.wire != WireType::kBytes) return Fail(Code::kDataLoss, kWrongType);
    if (!TakeAttribute(field.bytes, level, hash)) return false;
  }
  return !cursor.broken() || Fail(Code::kDataLoss, kNoMessage);
}

bool OtlpSplitter::TakeAttribute(std::string_view key_value, Level level, uint64_t* hash) {
  otlp::KeyValueView pair;
  if (!otlp::ReadKeyValue(key_value, pair)) return Fail(Code::kDataLoss, kNoMessage);
  if (hash) *hash += PairHash(pair.key, pair.value);
  if (!router_.Wants(pair.key, level)) return true;
  std::string_view text;
  if (otlp::ValueText(pair.value, otlp::ValueStyle::kPage, text_, text))
    router_.Take(pair.key, text, level, text.data() == text_.data());
  return true;
}

// Writes the parts. Other fields are appended to a part just before its next routed message, or at the end of
// the message, so that they keep their places.
bool OtlpSplitter::Write(Level level, std::string_view message) {
  Cut& cut = cuts_[level];
  cut.between.clear();
  cut.parts.clear();
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.Next(field)) {
    const uint32_t decision = IsRouted(level, field.number) ? plan_[next_++] : kNoItems;
    if (decision == kLeftOut) continue;
    if (decision == kNoItems) {
      std::vector<std::string_view>& between = cut.between;
      if (!between.empty() && between.back().data() + between.back().size() == field.whole.data())
        between.back() = {between.back().data(), between.back().size() + field.whole.size()};
      else between.push_back(field.whole);
    } else if (decision == kCut) {
      const Level below = Below(level);
      cuts_[below].number = field.number;
      if (!Write(below, field.bytes)) return false;
    } else if (!Open(decision, level) || !router_.Append(decision, field.whole)) {
      return FailFull();
    }
  }
  return Close(level) || FailFull();
}

bool OtlpSplitter::Open(uint32_t part, Level level) {
  Progress& progress = progress_[part];
  if (!progress.open[level]) {
    if (level != kRequest) {
      if (!Open(part, static_cast<Level>(level - 1))) return false;
      // The tag has one byte, the length four.
      if (!router_.Spend(1 + otlp::Nesting::kLengthBytes)) return false;
      progress.length_at[level] = otlp::Nesting(router_.part(part).body).Open(cuts_[level].number);
    }
    progress.open[level] = true;
    progress.between[level] = 0;
    cuts_[level].parts.push_back(part);
  }
  return WriteBetween(part, level);
}

bool OtlpSplitter::WriteBetween(uint32_t part, Level level) {
  const std::vector<std::string_view>& between = cuts_[level].between;
  for (size_t& at = progress_[part].between[level]; at < between.size(); ++at)
    if (!router_.Append(part, between[at])) return false;
  return true;
}

bool OtlpSplitter::Close(Level level) {
  Cut& cut = cuts_[level];
  for (uint32_t part : cut.parts) {
    if (!WriteBetween(part, level)) return false;
    progress_[part].open[level] = false;
    if (level != kRequest) otlp::Nesting(router_.part(part).body).Close(progress_[part].length_at[level]);
  }
  return true;
}

}  // namespace gpulens
