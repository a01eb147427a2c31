#include "energy/share_ledger.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "energy/time_testing.h"

namespace gpulens::energy {
namespace {

// So many watts all the time, of one GPU; the processor draws a tenth of it.
CutAt Steady(double watts, double half_width = 0) {
  return [=](int64_t at_ns) {
    EnergyCut cut;
    cut.joules = watts * static_cast<double>(at_ns) * 1e-9;
    cut.parts = {cut.joules, cut.joules / 10, kNotMeasured};
    cut.half_width = half_width;
    return cut;
  };
}

EnergyAccount Request(int64_t begin_ms, int64_t end_ms) {
  EnergyAccount account;
  account.begin_ns = begin_ms * kMs;
  account.end_ns = end_ms < 0 ? kOpenEnd : end_ms * kMs;
  return account;
}

TEST(ShareLedger, EightAtOnceHaveAnEighthEach) {
  const CutAt at = Steady(300);
  ShareLedger ledger(ShareLedger::By::kTime);
  ledger.Start(0, at(0));
  std::deque<EnergyAccount> requests;
  for (int i = 0; i < 8; ++i) ledger.Open(&requests.emplace_back(Request(100, 600)));
  EnergyAccount window = Request(100, 600);
  window.shares = false;
  ledger.Open(&window);
  for (int ms = 50; ms <= 700; ms += 50) ledger.Settle(ms * kMs, at);
  double sum = 0;
  for (const EnergyAccount& one : requests) {
    EXPECT_TRUE(one.settled);
    EXPECT_NEAR(one.total.mine.joules, 18.75, 1e-9);
    EXPECT_NEAR(one.total.devices.joules, 150, 1e-9);
    EXPECT_NEAR(one.total.mine.parts[1], 1.875, 1e-9);
    EXPECT_TRUE(one.total.mine.missing[2]);
    EXPECT_EQ(one.total.mine.ns, 500 * kMs);
    sum += one.total.mine.joules;
  }
  EXPECT_NEAR(sum, 150, 1e-9);
  EXPECT_NEAR(window.total.mine.joules, 150, 1e-9) << "a window takes none and is told all";
  EXPECT_NEAR(ledger.unattributed_joules(), 60, 1e-9);
  EXPECT_EQ(ledger.open(), 0u);
}

TEST(ShareLedger, SharesByTokensOrByTimeWithoutTokens) {
  const CutAt at = Steady(100);
  ShareLedger ledger(ShareLedger::By::kTokens);
  ledger.Start(0, at(0));
  EnergyAccount a = Request(0, 200), b = Request(0, 200);
  ledger.Open(&a);
  ledger.Open(&b);
  a.tokens = 30, b.tokens = 10;
  ledger.Settle(100 * kMs, at);
  EXPECT_NEAR(a.total.mine.joules, 7.5, 1e-6);
  EXPECT_NEAR(b.total.mine.joules, 2.5, 1e-6);
  ledger.Settle(150 * kMs, at);
  EXPECT_NEAR(a.total.mine.joules, 10, 1e-6);
  b.tokens = 11;
  ledger.Settle(200 * kMs, at);
  EXPECT_NEAR(a.total.mine.joules, 10, 1e-6);
  EXPECT_NEAR(b.total.mine.joules, 10, 1e-6);
}

TEST(ShareLedger, AStretchIsSplitAtTheEdges) {
  const CutAt at = Steady(1000);
  ShareLedger ledger(ShareLedger::By::kTime);
  ledger.Start(0, at(0));
  EnergyAccount a = Request(10, 40), b = Request(30, -1), none = Request(20, 20);
  for (EnergyAccount* one : {&a, &b, &none}) ledger.Open(one);
  ledger.Settle(50 * kMs, at);
  EXPECT_NEAR(a.total.mine.joules, 20 + 5, 1e-9);
  EXPECT_NEAR(b.total.mine.joules, 5 + 10, 1e-9);
  EXPECT_TRUE(a.settled);
  EXPECT_FALSE(b.settled);
  EXPECT_TRUE(none.settled);
  EXPECT_EQ(none.total.mine.joules, 0);
  EXPECT_NEAR(ledger.unattributed_joules(), 10, 1e-9);
}

TEST(ShareLedger, TokensCountByTheTimeInWhichTheyCame) {
  const CutAt at = Steady(1000);
  ShareLedger ledger(ShareLedger::By::kTokens);
  ledger.Start(0, at(0));
  EnergyAccount a = Request(0, -1), b = Request(40, -1);
  a.tokens = 10, b.tokens = 2;  // both one in 5 ms
  ledger.Open(&a);
  ledger.Open(&b);
  ledger.Settle(50 * kMs, at);
  EXPECT_NEAR(a.total.mine.joules, 45, 1e-6);
  EXPECT_NEAR(b.total.mine.joules, 5, 1e-6);
}

TEST(ShareLedger, PhasesAddUp) {
  const CutAt at = Steady(100, 0.01);
  ShareLedger ledger(ShareLedger::By::kTime);
  ledger.Start(0, at(0));
  EnergyAccount a = Request(10, 300), b = Request(100, 200);
  a.marks[0] = {.at_ns = 20 * kMs, .phase = 1};
  a.marks[1] = {.at_ns = 120 * kMs, .phase = 2};
  a.mark_count = 2;
  ledger.Open(&a);
  ledger.Open(&b);
  ledger.Settle(110 * kMs, at);
  EXPECT_EQ(a.mark_count, 1u);
  a.marks[a.mark_count++] = {.at_ns = 250 * kMs, .phase = 1};
  ledger.Settle(400 * kMs, at);
  EXPECT_NEAR(a.phases[0].mine.joules, 1, 1e-9);
  EXPECT_NEAR(a.phases[1].mine.joules, 8 + 1 + 5, 1e-9);
  EXPECT_NEAR(a.phases[2].mine.joules, 4 + 5, 1e-9);
  EXPECT_NEAR(a.total.mine.joules, 24, 1e-9);
  EXPECT_EQ(a.phases[1].mine.ns, 150 * kMs);
  // Two edges of its own, and half of each of the other's.
  EXPECT_NEAR(a.total.mine.half_width, 0.03, 1e-9);
  EXPECT_NEAR(a.total.devices.half_width, 0.02, 1e-9);
}

TEST(ShareLedger, ALateRequestSharesFromItsStart) {
  const CutAt at = Steady(100);
  ShareLedger ledger(ShareLedger::By::kTime);
  ledger.Start(0, at(0));
  EnergyAccount a = Request(0, -1), late = Request(40, -1);
  ledger.Open(&a);
  ledger.Settle(50 * kMs, at);
  ledger.Open(&late);
  ledger.Settle(100 * kMs, at);
  EXPECT_NEAR(late.total.mine.joules, 2.5, 1e-9);
  EXPECT_NEAR(late.total.devices.joules, 6, 1e-9);
  a.end_ns = 90 * kMs;
  ledger.Settle(100 * kMs, at);
  EXPECT_TRUE(a.settled);
  EXPECT_NEAR(a.total.mine.joules, 7.5, 1e-9) << "what was settled stays";
  EXPECT_NEAR(a.total.devices.joules, 9, 1e-9);
  EXPECT_EQ(a.total.devices.ns, 90 * kMs);
}

TEST(ShareLedger, AFlawTaintsThoseThatWereOpen) {
  const CutAt at = [](int64_t at_ns) {
    EnergyCut cut = Steady(100)(at_ns);
    cut.flaws_ended = at_ns >= 100 * kMs ? 1 : 0;
    cut.flaws_begun = at_ns > 50 * kMs ? 1 : 0;
    if (at_ns > 50 * kMs) cut.flaw = EnergyFlaw::kCounterReset;
    if (at_ns < 0) cut.joules = kNotMeasured;
    return cut;
  };
  ShareLedger ledger(ShareLedger::By::kTime);
  ledger.Start(0, at(0));
  EnergyAccount before = Request(10, 50), in = Request(20, 60), after = Request(100, 150),
                old = Request(-5, 40);
  for (EnergyAccount* one : {&before, &in, &after, &old}) ledger.Open(one);
  ledger.Settle(200 * kMs, at);
  EXPECT_EQ(before.total.mine.flaw, EnergyFlaw::kNone);
  EXPECT_EQ(in.total.mine.flaw, EnergyFlaw::kCounterReset);
  EXPECT_EQ(after.total.mine.flaw, EnergyFlaw::kNone);
  EXPECT_EQ(old.total.mine.flaw, EnergyFlaw::kOutside);
}

// Requests at random over a load at random.
struct Traffic {
  std::vector<double> joules;  // up to each millisecond
  std::deque<EnergyAccount> requests;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> tokens;  // of each request: when, how many

  Traffic(uint32_t seed, bool covered) : joules(1001) {
    std::mt19937 random(seed);
    double watts = 100;
    for (size_t ms = 0; ms < 1000; ++ms) {
      if (random() % 9 == 0) watts = 50 + static_cast<double>(random() % 650);
      joules[ms + 1] = joules[ms] + watts * 1e-3;
    }
    const size_t count = 1 + random() % 12;
    for (size_t i = 0; i < count; ++i) {
      int64_t begin = static_cast<int64_t>(random() % 1000),
              end = begin + static_cast<int64_t>(random() % 400);
      if (covered && i == 0) begin = 0, end = 1000;
      requests.push_back(Request(begin, std::min<int64_t>(end, 1000)));
      auto& mine = tokens.emplace_back();
      const auto often = static_cast<unsigned>(1 + random() % 40);
      for (int64_t ms = begin; ms < end && often < 30; ++ms)
        if (random() % often == 0) mine.push_back({ms, 1 + static_cast<int64_t>(random() % 20)});
    }
  }
  EnergyCut At(int64_t at_ns, double noise = 0) const {
    EnergyCut cut;
    cut.joules = joules[static_cast<size_t>(at_ns / kMs)] + noise;
    cut.parts = {cut.joules, kNotMeasured, cut.joules / 3};
    return cut;
  }
  // Stretches of `every` milliseconds; who begins or ends is seen in the one in which it does.
  void Run(ShareLedger& ledger, std::deque<EnergyAccount>& accounts, int64_t every, const CutAt& at) const {
    ledger.Start(0, at(0));
    for (EnergyAccount& one : accounts) ledger.Open(&one);
    for (int64_t from = 0; from < 1000; from += every) {
      const int64_t until = std::min<int64_t>(from + every, 1000);
      for (size_t i = 0; i < accounts.size(); ++i) {
        for (auto [ms, n] : tokens[i]) accounts[i].tokens += ms >= from && ms < until ? n : 0;
      }
      ledger.Settle(until * kMs, at);
    }
  }
};

RC_GTEST_PROP(ShareLedgerProperty, SharesAndTheRestAreWhatTheDevicesDrew,
              (uint32_t seed, bool tokens, bool covered)) {
  const Traffic traffic(seed, covered);
  const auto at = [&](int64_t at_ns) { return traffic.At(at_ns); };
  ShareLedger ledger(tokens ? ShareLedger::By::kTokens : ShareLedger::By::kTime);
  std::deque<EnergyAccount> accounts = traffic.requests;
  traffic.Run(ledger, accounts, *rc::gen::inRange(1, 120), at);
  double sum = 0, dram = 0;
  for (const EnergyAccount& one : accounts) {
    RC_ASSERT(one.settled);
    RC_ASSERT(one.total.mine.joules >= -1e-9);
    RC_ASSERT(one.total.mine.joules <= one.total.devices.joules + 1e-9);
    const double device = at(one.end_ns).joules - at(one.begin_ns).joules;
    RC_ASSERT(std::abs(one.total.devices.joules - device) < 1e-6);
    sum += one.total.mine.joules;
    dram += one.total.mine.parts[2];
  }
  if (covered) RC_ASSERT(ledger.unattributed_joules() == 0);
  RC_ASSERT(std::abs(sum + ledger.unattributed_joules() - traffic.joules.back()) < 1e-6);
  RC_ASSERT(std::abs(dram - sum / 3) < 1e-6);
}

// By time, an oracle that walks by milliseconds.
RC_GTEST_PROP(ShareLedgerProperty, ByTimeIsWhatEachMillisecondGives, (uint32_t seed)) {
  const Traffic traffic(seed, false);
  ShareLedger ledger(ShareLedger::By::kTime);
  std::deque<EnergyAccount> accounts = traffic.requests;
  traffic.Run(ledger, accounts, *rc::gen::inRange(1, 120), [&](int64_t at_ns) { return traffic.At(at_ns); });
  std::vector<double> shares(accounts.size());
  for (int64_t ms = 0; ms < 1000; ++ms) {
    auto open = [&](const EnergyAccount& one) { return one.begin_ns <= ms * kMs && one.end_ns > ms * kMs; };
    const auto n = std::count_if(accounts.begin(), accounts.end(), open);
    const double drawn =
        traffic.joules[static_cast<size_t>(ms) + 1] - traffic.joules[static_cast<size_t>(ms)];
    for (size_t i = 0; i < accounts.size(); ++i)
      if (open(accounts[i])) shares[i] += drawn / static_cast<double>(n);
  }
  for (size_t i = 0; i < accounts.size(); ++i)
    RC_ASSERT(std::abs(accounts[i].total.mine.joules - shares[i]) < 1e-6);
}

// Errors within the half-width at the edges move a share by at most its own half-width.
RC_GTEST_PROP(ShareLedgerProperty, TheHalfWidthCoversWhatEdgesCanMove, (uint32_t seed, bool tokens)) {
  const Traffic traffic(seed, false);
  const int64_t every = *rc::gen::inRange(5, 120);
  constexpr double kHalfWidth = 3;
  auto noise = [&](int64_t at_ns) {
    if (at_ns % (every * kMs) == 0 || at_ns == 1000 * kMs) return 0.0;  // stretches end where it is known
    std::mt19937 random(static_cast<uint32_t>(at_ns / kMs) + seed);
    return kHalfWidth * (static_cast<double>(random() % 2001) / 1000 - 1);
  };
  const auto by = tokens ? ShareLedger::By::kTokens : ShareLedger::By::kTime;
  ShareLedger reported(by), truth(by);
  std::deque<EnergyAccount> as_reported = traffic.requests, in_truth = traffic.requests;
  traffic.Run(reported, as_reported, every, [&](int64_t at_ns) {
    EnergyCut cut = traffic.At(at_ns, noise(at_ns));
    cut.half_width = kHalfWidth;
    return cut;
  });
  traffic.Run(truth, in_truth, every, [&](int64_t at_ns) { return traffic.At(at_ns); });
  for (size_t i = 0; i < as_reported.size(); ++i) {
    const EnergyTally &mine = as_reported[i].total.mine, &other = in_truth[i].total.mine;
    RC_ASSERT(std::abs(mine.joules - other.joules) <= mine.half_width + 1e-6);
  }
}

RC_GTEST_PROP(ShareLedgerProperty, PeekEqualsSettle, (uint32_t seed, bool tokens)) {
  const Traffic traffic(seed, false);
  const auto at = [&](int64_t at_ns) { return traffic.At(at_ns); };
  ShareLedger ledger(tokens ? ShareLedger::By::kTokens : ShareLedger::By::kTime);
  std::deque<EnergyAccount> accounts = traffic.requests;
  ledger.Start(0, at(0));
  for (EnergyAccount& one : accounts) ledger.Open(&one);
  ledger.Settle(300 * kMs, at);
  for (size_t i = 0; i < accounts.size(); ++i) accounts[i].tokens = static_cast<int64_t>(seed >> i & 15);
  std::vector<EnergyAccount> looks;
  for (const EnergyAccount& one : accounts) looks.push_back(ledger.Project(one, 700 * kMs, at));
  ledger.Settle(700 * kMs, at);
  for (size_t i = 0; i < accounts.size(); ++i) {
    RC_ASSERT(std::abs(looks[i].total.mine.joules - accounts[i].total.mine.joules) < 1e-9);
    RC_ASSERT(std::abs(looks[i].total.devices.joules - accounts[i].total.devices.joules) < 1e-9);
    RC_ASSERT(looks[i].total.mine.ns == accounts[i].total.mine.ns);
  }
}

}  // namespace
}  // namespace gpulens::energy
