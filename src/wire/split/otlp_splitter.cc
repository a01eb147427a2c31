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

bool OtlpSplitter::IsMessage(const ProtoField& field) {
  return field.wire == WireType::kBytes ||
         router_.Fail(Code::kDataLoss, "a field has a wire type other than that of OTLP");
}

Status OtlpSplitter::Split(OtlpSignal signal, std::string_view request, const SplitRule& rule,
                           std::vector<SplitPart>& out, uint32_t& left_out) {
  signal_ = signal;
  rule_ = &rule;
  hash_of_items_ = signal == OtlpSignal::kTraces
                       ? rule.hash == SplitHash::kSeries || rule.hash == SplitHash::kTrace
                       : rule.hash == SplitHash::kSeries && signal == OtlpSignal::kMetrics;
  resource_hash_ = metric_hash_ = 0;
  plan_.clear();
  ProtoField whole;
  whole.bytes = request;
  uint32_t decision = kNoItems;
  if (router_.Begin(rule, request, out) && Plan(kRequest, whole, decision)) {
    if (decision == kCut) {
      next_ = 1;
      progress_.assign(router_.parts(), {});
      Write(kRequest, request);
    } else if (decision < kNoItems) {
      router_.part(decision).body = request;
    }
  }
  return router_.Finish(left_out);
}

// Makes all decisions before anything is written, because most requests are not split.
bool OtlpSplitter::Plan(Level level, const ProtoField& message, uint32_t& decision) {
  const size_t at = plan_.size();
  if (!router_.HasRoom(at, "messages to route")) return false;
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
  if (!leave_out) return router_.Route(resource_hash_, items, decision);
  router_.LeaveOut(items);
  decision = kLeftOut;
  return true;
}

bool OtlpSplitter::PlanBelow(Level level, std::string_view message, uint32_t& decision) {
  decision = kNoItems;
  return router_.ForEachField(message, [&](const ProtoField& field) {
    if (!IsRouted(level, field.number)) return true;
    uint32_t below = kNoItems;
    if (!IsMessage(field) || !Plan(Below(level), field, below)) return false;
    decision = Join(decision, below);
    return true;
  });
}

bool OtlpSplitter::PlanItem(const ProtoField& item, uint32_t& decision) {
  router_.DropFrom(kItem);
  uint64_t hash = resource_hash_;
  if (!ReadItem(item.bytes, hash)) return false;
  if (router_.Choose(true) != Choice::kLeaveOut) return router_.Route(hash, 1, decision);
  router_.LeaveOut(1);
  decision = kLeftOut;
  return true;
}

bool OtlpSplitter::Count(Level level, std::string_view message, uint32_t& items) {
  const Level below = Below(level);
  return router_.ForEachField(message, [&](const ProtoField& field) {
    if (!IsRouted(level, field.number)) return true;
    if (!IsMessage(field)) return false;
    if (below != kItem) return Count(below, field.bytes, items);
    ++items;
    return true;
  });
}

// Reads the fields that hold for all items inside. They may follow the items.
bool OtlpSplitter::ReadHead(Level level, std::string_view message) {
  router_.DropFrom(level);
  if (level == kMetric ? !hash_of_items_ : level != kResource && level != kScope) return true;
  if (level == kMetric) metric_hash_ = 0;
  const bool of_resource = level == kResource, hashed = of_resource && rule_->hash != SplitHash::kNone;
  const uint32_t head = of_resource ? uint32_t{otlp::kResource} : kScopeField;
  const uint32_t attributes = of_resource ? uint32_t{otlp::kResourceAttributes} : kScopeAttributes;
  uint64_t sum = 0;
  const bool read = router_.ForEachField(message, [&](const ProtoField& field) {
    if (level == kMetric) {
      if (field.number == otlp::kName) metric_hash_ = StableHash(field.bytes);
      return true;
    }
    if (field.number != head) return true;
    return IsMessage(field) && ReadAttributes(field.bytes, attributes, level, hashed ? &sum : nullptr);
  });
  if (hashed) resource_hash_ = MixBits(sum);
  return read;
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
  for (ProtoField field; cursor.Next(field);)
    if (field.number == kSpanTraceId && !field.bytes.empty()) hash = StableHash(field.bytes);
  return ReadAttributes(item, attributes, kItem, nullptr);
}

bool OtlpSplitter::ReadAttributes(std::string_view message, uint32_t number, Level level, uint64_t* hash) {
  ProtoCursor cursor(message);
  ProtoField field;
  while (cursor.NextShort(number, field) || cursor.Next(field)) {
    if (field.number != number) continue;
    if (!IsMessage(field) || !TakeAttribute(field.bytes, level, hash)) return false;
  }
  return !cursor.broken() || router_.FailMalformed();
}

bool OtlpSplitter::TakeAttribute(std::string_view key_value, Level level, uint64_t* hash) {
  otlp::KeyValueView pair;
  if (!otlp::ReadKeyValue(key_value, pair)) return router_.FailMalformed();
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
  for (ProtoField field; cursor.Next(field);) {
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
      return false;
    }
  }
  return Close(level);
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
