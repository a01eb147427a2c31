#include "energy/share_ledger.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace gpulens::energy {
namespace {

constexpr size_t kJoules = 0, kIntegral = 1, kFirstPart = 2;

// Tokens per nanosecond as whole numbers, so that what joins and leaves again leaves nothing behind.
constexpr int kRateBits = 40;
constexpr int64_t kMostTokens = int64_t{1} << 22;
constexpr uint64_t kMostRate = uint64_t{1} << 44;

uint64_t RateOf(int64_t tokens, int64_t ns) noexcept {
  if (tokens <= 0 || ns <= 0) return 0;
  const uint64_t scaled = static_cast<uint64_t>(std::min(tokens, kMostTokens)) << kRateBits;
  return std::clamp<uint64_t>(scaled / static_cast<uint64_t>(ns), 1, kMostRate);
}

}  // namespace

void ShareLedger::Sharers::Join(uint64_t one) noexcept {
  ++count;
  with_tokens += one > 0 ? 1 : 0;
  rate += one;
}

void ShareLedger::Sharers::Leave(uint64_t one) noexcept {
  --count;
  with_tokens -= one > 0 ? 1 : 0;
  rate -= one;
}

double ShareLedger::Sharers::Weight(uint64_t one) const noexcept {
  if (with_tokens > 0) return static_cast<double>(one) / static_cast<double>(rate);
  return count > 0 ? 1.0 / static_cast<double>(count) : 0;
}

// One walk over a stretch, from what is settled to `until_ns`.
struct ShareLedger::Sweep {
  const By by;
  const CutAt& at;
  State& state;
  std::vector<Item>& items;
  std::vector<Edge>& edges;
  Sharers sharers{};

  // `writes`: the account itself, a copy of it, or null.
  void Add(EnergyAccount* account, EnergyAccount* writes, int64_t until_ns);
  void Run(int64_t until_ns);

 private:
  void Advance(int64_t at_ns);
  void Turn(size_t first, size_t last);
  void Shift(const Sharers& before, double half_width);
  void Snap(EnergyAccount& account, const EnergyCut& cut, int64_t at_ns) const;
  void Collect(EnergyAccount& account, uint64_t rate, const EnergyCut& cut, int64_t at_ns) const;
  static void OwnEdge(EnergyAccount::Both& both, double weight, double half_width);
};

void ShareLedger::Sweep::Add(EnergyAccount* account, EnergyAccount* writes, int64_t until_ns) {
  const EnergyAccount& from = writes ? *writes : *account;
  if (!from.begun_ && from.begin_ns >= until_ns && from.begin_ns > state.at_ns) return;
  const int64_t low = std::max(from.begun_ ? state.at_ns : from.begin_ns, state.at_ns);
  const int64_t high = std::max(low, std::min(from.end_ns, until_ns));
  Item item{account, writes, 0};
  if (by == By::kTokens && from.shares) item.rate = RateOf(from.tokens - from.tokens_seen_, high - low);
  if (writes) writes->tokens_seen_ = from.tokens;
  const auto number = static_cast<uint32_t>(items.size());
  if (from.begun_) {
    if (from.shares) sharers.Join(item.rate);
    if (writes) Snap(*writes, state.cut, state.at_ns);
  } else {
    edges.push_back({low, from.begin_ns, EdgeKind::kBegin, number, 0});
  }
  size_t taken = 0;
  for (; taken < from.mark_count && from.marks[taken].at_ns <= until_ns; ++taken) {
    const EnergyAccount::Mark& mark = from.marks[taken];
    edges.push_back({std::clamp(mark.at_ns, low, high), mark.at_ns, EdgeKind::kMark, number, mark.phase});
  }
  if (from.end_ns <= until_ns) edges.push_back({high, from.end_ns, EdgeKind::kEnd, number, 0});
  if (writes) {
    std::move(writes->marks.begin() + static_cast<ptrdiff_t>(taken),
              writes->marks.begin() + static_cast<ptrdiff_t>(writes->mark_count), writes->marks.begin());
    writes->mark_count -= taken;
  }
  items.push_back(item);
}

// Divides the energy since the last edge among the open accounts.
void ShareLedger::Sweep::Advance(int64_t at_ns) {
  if (at_ns <= state.at_ns) return;
  const EnergyCut cut = at(at_ns);
  Sums drawn{};
  drawn[kJoules] = cut.joules - state.cut.joules;
  drawn[kIntegral] = cut.integral_half_width - state.cut.integral_half_width;
  for (size_t part = 0; part < kParts; ++part) {
    const double joules = cut.parts[part] - state.cut.parts[part];
    if (std::isfinite(joules)) drawn[kFirstPart + part] = joules;
    else ++state.gaps[part];
  }
  if (!std::isfinite(drawn[kJoules])) drawn[kJoules] = 0;  // its flaw reports it
  if (sharers.count == 0) {
    state.unattributed += drawn[kJoules];
  } else {
    const bool tokens = sharers.with_tokens > 0;
    const double among = tokens ? static_cast<double>(sharers.rate) : static_cast<double>(sharers.count);
    Sums& sums = tokens ? state.by_tokens : state.equal;
    for (size_t kind = 0; kind < drawn.size(); ++kind) sums[kind] += drawn[kind] / among;
  }
  state.cut = cut;
  state.at_ns = at_ns;
}

// The energy at an edge is known to within the half-width. What it is too much on one side it is too little
// on the other, so those that stay are off by the difference of their weights.
void ShareLedger::Sweep::Shift(const Sharers& before, double half_width) {
  if (before.count == 0 || sharers.count == 0) return;
  const bool was = before.with_tokens > 0, is = sharers.with_tokens > 0;
  const double equal_was = was ? 0 : 1.0 / static_cast<double>(before.count);
  const double equal_is = is ? 0 : 1.0 / static_cast<double>(sharers.count);
  const double rate_was = was ? 1.0 / static_cast<double>(before.rate) : 0;
  const double rate_is = is ? 1.0 / static_cast<double>(sharers.rate) : 0;
  state.equal_error += std::abs(equal_is - equal_was) * half_width;
  state.token_error += std::abs(rate_is - rate_was) * half_width;
}

void ShareLedger::Sweep::Snap(EnergyAccount& account, const EnergyCut& cut, int64_t at_ns) const {
  EnergyAccount::Snapshot& since = account.since_;
  since.at_ns = at_ns;
  since.equal = state.equal;
  since.by_tokens = state.by_tokens;
  since.equal_error = state.equal_error;
  since.token_error = state.token_error;
  since.gaps = state.gaps;
  since.flaws = cut.flaws_ended;
  since.drawn = {cut.joules, cut.integral_half_width, cut.parts[0], cut.parts[1], cut.parts[2]};
}

void ShareLedger::Sweep::Collect(EnergyAccount& account, uint64_t rate, const EnergyCut& cut,
                                 int64_t at_ns) const {
  const EnergyAccount::Snapshot& since = account.since_;
  const Sums now = {cut.joules, cut.integral_half_width, cut.parts[0], cut.parts[1], cut.parts[2]};
  for (EnergyAccount::Both* both : {&account.total, &account.phases[account.phase_]}) {
    Sums mine{}, devices{};
    for (size_t kind = 0; kind < mine.size(); ++kind) {
      devices[kind] = now[kind] - since.drawn[kind];
      mine[kind] = state.equal[kind] - since.equal[kind] +
                   static_cast<double>(rate) * (state.by_tokens[kind] - since.by_tokens[kind]);
    }
    if (!account.shares) mine = devices;
    double error = state.equal_error - since.equal_error +
                   static_cast<double>(rate) * (state.token_error - since.token_error);
    if (!account.shares) error = 0;
    if (std::isfinite(devices[kJoules])) both->devices.joules += devices[kJoules];
    if (std::isfinite(mine[kJoules])) both->mine.joules += mine[kJoules];
    both->devices.half_width += devices[kIntegral];
    both->mine.half_width += mine[kIntegral] + error;
    for (size_t part = 0; part < kParts; ++part) {
      const bool gap = state.gaps[part] != since.gaps[part] || !std::isfinite(devices[kFirstPart + part]);
      for (EnergyTally* tally : {&both->mine, &both->devices}) tally->missing[part] |= gap;
      if (gap) continue;
      both->mine.parts[part] += mine[kFirstPart + part];
      both->devices.parts[part] += devices[kFirstPart + part];
    }
    const bool known = std::isfinite(devices[kJoules]);
    const bool flawed = !known || cut.flaws_begun != since.flaws;
    for (EnergyTally* tally : {&both->mine, &both->devices}) {
      tally->ns += at_ns - since.at_ns;
      if (flawed && tally->flaw == EnergyFlaw::kNone) tally->flaw = known ? cut.flaw : EnergyFlaw::kOutside;
    }
  }
}

void ShareLedger::Sweep::OwnEdge(EnergyAccount::Both& both, double weight, double half_width) {
  both.mine.half_width += weight * half_width;
  both.devices.half_width += half_width;
}

// Edges of one instant: who ends has what was so far, who begins has what comes.
void ShareLedger::Sweep::Turn(size_t first, size_t last) {
  const Sharers before = sharers;
  const double half_width = state.cut.half_width;
  auto cut_of = [&](const Edge& edge) { return edge.true_ns == state.at_ns ? state.cut : at(edge.true_ns); };
  for (size_t i = first; i < last; ++i) {
    const Edge& edge = edges[i];
    const Item& item = items[edge.item];
    if (edge.kind == EdgeKind::kBegin || !item.writes || !item.writes->begun_) continue;
    EnergyAccount& account = *item.writes;
    const double weight = account.shares ? before.Weight(item.rate) : 1;
    Collect(account, item.rate, cut_of(edge), edge.true_ns);
    OwnEdge(account.phases[account.phase_], weight, half_width);
    if (edge.kind == EdgeKind::kEnd) OwnEdge(account.total, weight, half_width);
  }
  for (size_t i = first; i < last; ++i) {
    const Item& item = items[edges[i].item];
    if (!item.account->shares) continue;
    if (edges[i].kind == EdgeKind::kBegin) sharers.Join(item.rate);
    if (edges[i].kind == EdgeKind::kEnd) sharers.Leave(item.rate);
  }
  Shift(before, half_width);
  for (size_t i = first; i < last; ++i) {
    const Edge& edge = edges[i];
    const Item& item = items[edge.item];
    if (!item.writes) continue;
    EnergyAccount& account = *item.writes;
    if (edge.kind == EdgeKind::kEnd) {
      account.settled = true;
      continue;
    }
    const double weight = account.shares ? sharers.Weight(item.rate) : 1;
    if (edge.kind == EdgeKind::kBegin) {
      account.begun_ = true;
      OwnEdge(account.total, weight, half_width);
    } else {
      account.phase_ = edge.phase;
    }
    Snap(account, cut_of(edge), edge.true_ns);
    OwnEdge(account.phases[account.phase_], weight, half_width);
  }
}

void ShareLedger::Sweep::Run(int64_t until_ns) {
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.at_ns, a.item, a.kind, a.true_ns) < std::tie(b.at_ns, b.item, b.kind, b.true_ns);
  });
  for (size_t i = 0; i < edges.size();) {
    size_t last = i;
    while (last < edges.size() && edges[last].at_ns == edges[i].at_ns) ++last;
    Advance(edges[i].at_ns);
    Turn(i, last);
    i = last;
  }
  Advance(until_ns);
  for (const Item& item : items) {
    if (item.writes && item.writes->begun_ && !item.writes->settled)
      Collect(*item.writes, item.rate, state.cut, state.at_ns);
  }
}

// Sums count from the begin of a stretch: of small numbers no place is lost.
void ShareLedger::State::ForgetSums() noexcept {
  equal = by_tokens = {};
  equal_error = token_error = 0;
  gaps = {};
}

void ShareLedger::Start(int64_t at_ns, const EnergyCut& cut) {
  state_.at_ns = at_ns;
  state_.cut = cut;
  started_ = true;
}

void ShareLedger::Settle(int64_t until_ns, const CutAt& at) {
  until_ns = std::max(until_ns, state_.at_ns);
  items_.clear();
  edges_.clear();
  state_.ForgetSums();
  Sweep sweep{by_, at, state_, items_, edges_};
  for (EnergyAccount* account : open_) sweep.Add(account, account, until_ns);
  sweep.Run(until_ns);
  std::erase_if(open_, [](const EnergyAccount* account) { return account->settled; });
}

EnergyAccount ShareLedger::Project(const EnergyAccount& account, int64_t until_ns, const CutAt& at) const {
  EnergyAccount copy = account;
  if (account.settled) return copy;
  State state = state_;
  until_ns = std::max(until_ns, state.at_ns);
  items_.clear();
  edges_.clear();
  state.ForgetSums();
  Sweep sweep{by_, at, state, items_, edges_};
  for (EnergyAccount* other : open_) sweep.Add(other, other == &account ? &copy : nullptr, until_ns);
  sweep.Run(until_ns);
  return copy;
}

}  // namespace gpulens::energy
