// What a feed does when a layout changed: which label sets there are, which of them count, and their bounds.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "base/parse.h"
#include "plugins/analyzers/inference/feed.h"

namespace gpulens::windows {
namespace {

// So many label sets that went are remembered, in case that they come back.
constexpr size_t kGoneKept = 64;
constexpr std::array<std::string_view, 3> kRanks = {"pp_rank", "tp_rank", "moe_ep_rank"};

bool Passes(const Filter& filter, const AttributeSet& attributes, bool& witness) {
  witness = false;
  if (filter.key.empty()) return true;
  if (!attributes.Has(filter.key)) return false;
  std::string value = attributes.Text(filter.key);
  bool listed = std::find(filter.values.begin(), filter.values.end(), value) != filter.values.end();
  witness = filter.except && listed;
  return filter.except || listed;
}

using Rank = std::array<int64_t, kRanks.size()>;
// What a label set is known by without its ranks. False when it has none.
bool SplitRanks(const AttributeSet& attributes, std::string& rest, Rank& rank) {
  bool any = false;
  rest.clear();
  rank = {};
  for (auto [key, value] : attributes) {
    auto at = std::find(kRanks.begin(), kRanks.end(), key);
    if (at == kRanks.end()) {
      rest.append(key).push_back('\0');
      AppendValue(rest, value);
      rest.push_back('\0');
      continue;
    }
    any = true;
    rank[static_cast<size_t>(at - kRanks.begin())] = ParseInt<int64_t>(attributes.Text(key)).value_or(0);
  }
  return any;
}

}  // namespace

Feed::Feed(const Pick& pick, Use use, int64_t since_ns)
    : pick_(pick),
      use_(use),
      combine_(EngineMetricOf(*pick.role) ? EngineMetricOf(*pick.role)->combine : Combine::kSum),
      last_ns_(since_ns),
      rows_(use == Use::kMoments || use == Use::kBuckets ? 2 : 1, kRowsMax),
      observed_(rows_.width()) {}

void Feed::BeginPlan() noexcept {
  for (Input& input : inputs_) input.slot = kNone;
  live_ = 0;
  planned_ = inputs_.size();
  cursor_ = 0;
}

// Label sets mostly come in the order in which they came last time.
Feed::Input& Feed::FindOrMake(const AttributeSet& attributes) {
  auto is_it = [&](size_t i) { return !inputs_[i].live() && inputs_[i].attributes == attributes; };
  if (cursor_ < planned_ && is_it(cursor_)) return inputs_[cursor_++];
  if (by_hash_.empty()) {
    for (uint32_t i = 0; i < planned_; ++i) by_hash_.emplace_back(inputs_[i].attributes.hash(), i);
    std::sort(by_hash_.begin(), by_hash_.end());
  }
  auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(attributes.hash(), uint32_t{0}));
  for (; at != by_hash_.end() && at->first == attributes.hash(); ++at) {
    if (!is_it(at->second)) continue;
    cursor_ = at->second + 1;
    return inputs_[at->second];
  }
  Input& made = inputs_.emplace_back();
  made.attributes = attributes;
  return made;
}

bool Feed::Takes(const Pick& pick, const SeriesInfo& info) {
  bool witness = false;
  return info.desc == pick.role && Passes(pick.filter, info.attributes, witness);
}

void Feed::Add(const SeriesInfo& info, uint32_t slot) {
  bool witness = false;
  if (!Passes(pick_.filter, info.attributes, witness)) return;
  Input& input = FindOrMake(info.attributes);
  input.slot = slot;
  input.shape = info.shape;
  input.start_unix_ns = info.start_unix_ns;
  input.start_known = info.start_known;
  input.witness = witness;
  input.counts = !witness;
  ++live_;
}

void Feed::EndPlan() {
  by_hash_ = {};
  MarkCopies();
  ForgetTheGone();
  lasts_.resize(inputs_.size() * rows_.width());
  if (use_ == Use::kBuckets) FollowBounds();
}

void Feed::MarkCopies() {
  struct Lowest {
    Rank rank;
    Input* input;
  };
  std::map<std::string, Lowest> lowest;
  std::string rest;
  Rank rank;
  for (Input& input : inputs_) {
    if (!input.live() || input.witness || !SplitRanks(input.attributes, rest, rank)) continue;
    auto [at, first] = lowest.try_emplace(rest, Lowest{rank, &input});
    if (first) continue;
    bool lower = rank < at->second.rank;
    (lower ? at->second.input : &input)->counts = false;
    --live_;
    if (lower) at->second = {rank, &input};
  }
}

// Of the label sets that went, those that were read stay, the newest kGoneKept of them. What was there in the
// last reading stays in any case: the next one has to see that it went.
void Feed::ForgetTheGone() {
  auto has_gone = [](const Input& input) { return !input.live() && input.read && !input.present; };
  size_t gone = static_cast<size_t>(std::count_if(inputs_.begin(), inputs_.end(), has_gone));
  size_t forget = gone > kGoneKept ? gone - kGoneKept : 0;
  forgot_ = forgot_ || forget > 0;
  size_t width = rows_.width(), kept = 0;
  lasts_.resize(inputs_.size() * width);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].live() && !inputs_[i].read) continue;
    if (forget > 0 && has_gone(inputs_[i])) {
      --forget;
      continue;
    }
    if (kept != i) {
      inputs_[kept] = std::move(inputs_[i]);
      std::copy_n(lasts_.begin() + static_cast<ptrdiff_t>(i * width), width,
                  lasts_.begin() + static_cast<ptrdiff_t>(kept * width));
    }
    ++kept;
  }
  inputs_.resize(kept);
}

// The finite bounds that all label sets have.
void Feed::FollowBounds() {
  std::vector<double> common;
  const Shape* before = nullptr;
  for (const Input& input : inputs_) {
    if (!input.live() || !input.counts || !input.shape || input.shape.get() == before) continue;
    std::vector<double> own;
    for (double bound : input.shape->bounds) {
      if (std::isfinite(bound) && (own.empty() || bound > own.back())) own.push_back(bound);
    }
    if (before)
      std::erase_if(common, [&](double b) { return !std::binary_search(own.begin(), own.end(), b); });
    else common = std::move(own);
    before = input.shape.get();
  }
  if (!before || common == bounds_) return;
  bool was_there = !bounds_.empty() ||
                   std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.read; });
  bounds_ = std::move(common);
  rows_.Reset(bounds_.size() + 2);
  observed_.assign(rows_.width(), 0);
  lasts_.assign(inputs_.size() * rows_.width(), 0);
  for (Input& input : inputs_) input.read = input.present = false;
  if (was_there) last_ns_ = 0;
}

size_t Feed::memory_bytes() const noexcept {
  size_t doubles = lasts_.capacity() + bounds_.capacity() + observed_.capacity();
  return sizeof *this + doubles * sizeof(double) + inputs_.capacity() * sizeof(Input) + rows_.memory_bytes();
}

}  // namespace gpulens::windows
