#include "wire/split/split_router.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

namespace gpulens::split {
namespace {

constexpr size_t kMostBytes = (size_t{1} << 28) - 1;  // the largest length of otlp::Nesting
constexpr uint32_t kMostParts = 1 << 16;

constexpr bool IsLabelCharacter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

bool IsUnderscored(std::string_view label, std::string_view name) noexcept {
  if (label.size() != name.size()) return false;
  for (size_t i = 0; i < label.size(); ++i)
    if (label[i] != name[i] && (label[i] != '_' || IsLabelCharacter(name[i]) || (name[i] & 0x80) != 0))
      return false;
  return true;
}

bool MatchesOne(const std::vector<std::string>& patterns, std::string_view text) noexcept {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& pattern) { return MatchesStars(pattern, text, '?'); });
}

}  // namespace

SplitRouter::SplitRouter(SplitLimits limits) : limits_(limits) {
  CHECK(limits.bytes <= kMostBytes && limits.parts > 0 && limits.parts <= kMostParts);
  table_.resize(std::bit_ceil(size_t{limits.parts} * 2));
}

bool SplitRouter::Begin(const SplitRule& rule, std::string_view request, std::vector<SplitPart>& out) {
  rule_ = &rule;
  out_ = &out;
  slots_.clear();
  if (!rule.by.empty()) slots_.emplace_back().name = rule.by;
  for (const SplitRule::Match& match : rule.where) {
    Slot& slot = slots_.emplace_back();
    slot.name = match.attribute;
    slot.match = &match;
  }
  if (count_ != 0) std::fill(table_.begin(), table_.end(), 0);
  count_ = last_ = left_out_ = 0;
  spent_ = 0;
  failure_ = Ok();
  if (rule.shards == 0) return Fail(Code::kInvalidArgument, "a rule must have at least 1 shard");
  if (!rule.usable.empty() && rule.usable.size() != rule.endpoints.size())
    return Fail(Code::kInvalidArgument, "`usable` and `endpoints` of a rule have different sizes");
  if (!rule.endpoints.empty() && PickEndpoint(0, rule.endpoints, rule.usable) == rule.endpoints.size())
    return Fail(Code::kUnavailable, "no endpoint is usable");
  if (request.size() <= limits_.bytes) return true;
  return Fail(Code::kExhausted, "the request has more than " + std::to_string(limits_.bytes) + " bytes");
}

bool SplitRouter::Fail(Code code, std::string_view why) {
  failure_ = {code, std::string(why)};
  return false;
}

bool SplitRouter::HasRoom(size_t count, std::string_view what) {
  if (count < limits_.messages) return true;
  return Fail(Code::kExhausted, "more than " + std::to_string(limits_.messages) + " " + std::string(what));
}

Status SplitRouter::Finish(uint32_t& left_out) {
  const size_t used = failure_ ? count_ : 0;
  left_out = failure_ ? left_out_ : 0;
  for (size_t i = used; i < out_->size() && spare_.size() < limits_.parts; ++i)
    spare_.push_back(std::move((*out_)[i]));
  out_->resize(used);
  return failure_;
}

void SplitRouter::DropFrom(uint8_t level) noexcept {
  for (Slot& slot : slots_)
    if (slot.level >= level) slot.given = slot.fails = false;
}

bool SplitRouter::Wants(std::string_view name, uint8_t level) const noexcept {
  for (const Slot& slot : slots_)
    if (slot.name == name && (!slot.given || slot.level >= level)) return true;
  return false;
}

void SplitRouter::Give(Slot& slot, std::string_view text, uint8_t level) {
  if (slot.given && slot.level < level) return;
  slot.given = true;
  slot.level = level;
  slot.text = text;
  slot.fails = slot.match && MatchesOne(slot.match->values, text) == slot.match->exclude;
}

void SplitRouter::Take(std::string_view name, std::string_view text, uint8_t level, bool copy) {
  for (Slot& slot : slots_) {
    if (slot.name != name || (slot.given && slot.level < level)) continue;
    if (copy) slot.copy = text;
    Give(slot, copy ? std::string_view(slot.copy) : text, level);
  }
}

void SplitRouter::TakeLabel(std::string_view name, std::string_view text) {
  for (Slot& slot : slots_)
    if (IsUnderscored(name, slot.name)) Give(slot, text, name == slot.name ? 0 : 1);
}

SplitRouter::Choice SplitRouter::Choose(bool last) const noexcept {
  bool known = true;
  for (const Slot& slot : slots_) {
    const bool missing = last && slot.match && !slot.match->exclude;
    if (slot.given ? slot.fails : missing) return Choice::kLeaveOut;
    known = known && (slot.given || last);
  }
  return known ? Choice::kKeep : Choice::kUnknown;
}

bool SplitRouter::IsPart(uint32_t index, const SplitPart& key, std::string_view value) const noexcept {
  const SplitPart& part = (*out_)[index];
  return part.has_value == key.has_value && part.endpoint == key.endpoint && part.shard == key.shard &&
         part.value == value;
}

bool SplitRouter::Route(uint64_t hash, uint32_t items, uint32_t& part) {
  SplitPart key;
  std::string_view value;
  if (!rule_->by.empty() && slots_[0].given) {
    key.has_value = true;
    value = slots_[0].text;
  }
  if (rule_->hash != SplitHash::kNone) {
    key.hash = hash;
    key.shard = static_cast<uint32_t>(hash % rule_->shards);
    if (!rule_->endpoints.empty())
      key.endpoint = static_cast<uint32_t>(PickEndpoint(hash, rule_->endpoints, rule_->usable));
  }
  if (last_ >= count_ || !IsPart(last_, key, value)) {
    const uint32_t found = Add(key, value);
    if (found == kNoPart) return false;
    last_ = found;
  }
  (*out_)[last_].items += items;
  part = last_;
  return true;
}

// The hash is keyed because senders choose the values.
uint32_t SplitRouter::Add(const SplitPart& key, std::string_view value) {
  const uint64_t seed = MixBits(uint64_t{key.endpoint} << 32 | key.shard) + (key.has_value ? 1 : 0);
  size_t at = HashBytes(value, seed, ProcessHashKey()) & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1))
    if (IsPart(table_[at] - 1, key, value)) return table_[at] - 1;
  if (count_ == limits_.parts) {
    Fail(Code::kExhausted, "the request has more than " + std::to_string(limits_.parts) + " parts");
    return kNoPart;
  }
  if (!Spend(value.size())) return kNoPart;
  if (count_ == out_->size()) {
    if (spare_.empty()) {
      out_->emplace_back();
    } else {
      out_->push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
  }
  SplitPart& part = (*out_)[count_];
  part.has_value = key.has_value;
  part.value = value;
  part.endpoint = key.endpoint;
  part.shard = key.shard;
  part.hash = key.hash;
  part.items = 0;
  part.body.clear();
  table_[at] = ++count_;
  return count_ - 1;
}

bool SplitRouter::Spend(size_t bytes) {
  if (bytes > limits_.bytes - spent_)
    return Fail(Code::kExhausted, "the parts of the request have more than " + std::to_string(limits_.bytes) +
                                      " bytes together");
  spent_ += bytes;
  return true;
}

bool SplitRouter::Append(uint32_t part, std::string_view bytes) {
  if (!Spend(bytes.size())) return false;
  (*out_)[part].body += bytes;
  return true;
}

}  // namespace gpulens::split
