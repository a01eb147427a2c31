#include "proxy/admission/budgets.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/rfc3339.h"

namespace gpulens::proxy {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

int64_t Unix(std::string_view time) { return ParseRfc3339(time).value(); }
Instant At(std::string_view time) { return {.boot_ns = 1'000'000'000, .unix_ns = Unix(time)}; }
const Instant kNoon = At("2026-11-27T12:00:00Z");

BudgetSpec HardSpec(const std::string& name, int64_t limit, std::string_view window = "month") {
  BudgetSpec spec;
  spec.name = name;
  spec.limit_pico = limit;
  spec.mode = BudgetMode::kHard;
  spec.window = *ParseBudgetWindow(window);
  return spec;
}

CostEstimate Exactly(int64_t pico) { return {.expected_pico = pico, .most_pico = pico}; }

BudgetView ViewOf(const Budgets& budgets, std::string_view name, Instant now = kNoon) {
  return *budgets.View(name, now);
}

// B1.
TEST(Budgets, AThousandAtOnceAtALimitOfAHundredAreExactlyAHundred) {
  for (int round = 0; round < 20; ++round) {
    Budgets budgets;
    const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("tenant", 1'000'000)),
                                         budgets.Define(HardSpec("key", 100 * 7)),
                                         budgets.Define(HardSpec("global", 1'000'000))};
    std::atomic<int> admitted{0}, ready{0};
    std::vector<Budgets::Admitted> answers(1000);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        ready.fetch_add(1);
        while (ready.load() < 8) std::this_thread::yield();
        for (size_t i = t; i < answers.size(); i += 8) {
          answers[i] = budgets.Admit(of, Exactly(7), kNoon);
          if (answers[i].answer == BudgetAnswer::kAdmitted) admitted.fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(admitted.load(), 100);
    EXPECT_EQ(ViewOf(budgets, "key").held_pico, 700);
    EXPECT_EQ(ViewOf(budgets, "key").refused, 900u);
    EXPECT_EQ(ViewOf(budgets, "global").held_pico, 700)
        << "those that the key refused hold nothing elsewhere";
    answers.clear();
    EXPECT_EQ(budgets.held_pico(), 0);
  }
}

TEST(Budgets, ALimitThatIsUsedUpRefusesWithTheEndOfItsWindow) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 10, "day"))};
  auto first = budgets.Admit(of, Exactly(10), kNoon);
  EXPECT_TRUE(first.reservation.Settle(10, kNoon));
  EXPECT_FALSE(first.reservation.Settle(10, kNoon)) << "charged once";
  const auto second = budgets.Admit(of, Exactly(0), kNoon);
  EXPECT_EQ(second.answer, BudgetAnswer::kLimit);
  EXPECT_EQ(second.blocked->name(), "b");
  EXPECT_EQ(second.until_unix_ns, Unix("2026-11-28T00:00:00Z"));
  EXPECT_EQ(ViewOf(budgets, "b").spent_pico, 10);
}

TEST(Budgets, SettlementReplacesTheReservation) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100))};
  auto one = budgets.Admit(of, Exactly(90), kNoon);
  EXPECT_EQ(budgets.Admit(of, Exactly(11), kNoon).answer, BudgetAnswer::kLimit);
  one.reservation.Settle(20, kNoon);
  EXPECT_EQ(budgets.Admit(of, Exactly(80), kNoon).answer, BudgetAnswer::kAdmitted)
      << "and is released at once";
  Reservation moved = budgets.Admit(of, Exactly(80), kNoon).reservation;
  Reservation again = std::move(moved);
  EXPECT_TRUE(again);
  again = {};
  EXPECT_EQ(budgets.held_pico(), 0);
  EXPECT_EQ(ViewOf(budgets, "b").spent_pico, 20);
}

TEST(Budgets, AHardBudgetNeedsABound) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100))};
  EXPECT_EQ(budgets.Admit(of, {.expected_pico = 1, .most_pico = {}}, kNoon).answer, BudgetAnswer::kNoBound);
}

TEST(Budgets, AWrongBoundIsBookedAndCounted) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100))};
  budgets.Admit(of, Exactly(100), kNoon).reservation.Settle(130, kNoon);
  const BudgetView view = ViewOf(budgets, "b");
  EXPECT_EQ(view.spent_pico, 130);
  EXPECT_EQ(view.past_bound, 1u);
  EXPECT_EQ(view.overshoots, 1u);
  EXPECT_EQ(view.overshoot_pico, 30);
}

// B2: whatever requests cost within their bounds, and in whatever order they end.
TEST(Budgets, ASoftBudgetIsPassedByItsOvershootAtMost) {
  std::mt19937_64 random(7);
  int64_t worst = 0;
  for (int round = 0; round < 300; ++round) {
    Budgets budgets;
    BudgetSpec spec = HardSpec("b", 10'000);
    spec.mode = BudgetMode::kSoft;
    spec.max_overshoot_pico = 500;
    const std::vector<Ref<Budget>> of = {budgets.Define(spec)};
    std::vector<Reservation> open;
    for (int i = 0; i < 400; ++i) {
      const auto expected = static_cast<int64_t>(random() % 50),
                 most = expected + static_cast<int64_t>(random() % 200);
      auto answer = budgets.Admit(of, {.expected_pico = expected, .most_pico = most}, kNoon);
      if (answer.answer == BudgetAnswer::kAdmitted) open.push_back(std::move(answer.reservation));
      if (open.size() > 20 || (!open.empty() && random() % 4 == 0)) {
        const size_t at = random() % open.size();
        open[at].Settle(open[at].most_pico(), kNoon);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    for (Reservation& one : open) one.Settle(one.most_pico(), kNoon);
    const BudgetView view = ViewOf(budgets, "b");
    ASSERT_LE(view.spent_pico, 10'500);
    ASSERT_EQ(view.overshoot_pico, std::max<int64_t>(view.spent_pico - 10'000, 0));
    worst = std::max(worst, view.spent_pico);
  }
  EXPECT_GT(worst, 10'000) << "the test never came near";
}

// B3: requests end at any step, by any way out.
TEST(Budgets, NothingIsHeldWhenAllRequestsAreOver) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    Budgets budgets;
    std::vector<Ref<Budget>> all;
    for (int i = 0; i < 6; ++i) {
      BudgetSpec spec = HardSpec("b" + std::to_string(i), 1'000 + static_cast<int64_t>(random() % 5'000));
      if (random() % 2) spec.mode = BudgetMode::kSoft;
      all.push_back(budgets.Define(spec));
    }
    int64_t settled = 0;
    for (int i = 0; i < 60; ++i) {
      std::vector<Ref<Budget>> of;
      for (const Ref<Budget>& budget : all) {
        if (random() % 2) of.push_back(budget);
      }
      // A request as a chain of steps; each may throw the rest away.
      const auto request = [&]() -> void {
        auto answer = budgets.Admit(of, {.expected_pico = 10, .most_pico = 40}, kNoon);
        if (answer.answer != BudgetAnswer::kAdmitted || random() % 5 == 0)
          return;  // refused, or no connection
        auto owned = std::make_unique<Reservation>(std::move(answer.reservation));
        if (random() % 5 == 0) return;  // the head timed out
        if (random() % 5 == 0)
          all[random() % all.size()] = budgets.Define(HardSpec("b0", 77));  // reloaded meanwhile
        Reservation session = std::move(*owned);
        owned.reset();
        if (random() % 5 == 0) throw 1;  // an error in the middle of the stream
        session.Settle(25, kNoon);
        settled += 25 * static_cast<int64_t>(of.size());
        if (random() % 2) session.Release();
      };
      try {
        request();
      } catch (int) {
      }
    }
    int64_t spent = 0;
    for (const BudgetView& view : budgets.View(kNoon)) {
      ASSERT_EQ(view.held_pico, 0) << view.name;
      ASSERT_EQ(view.held_most_pico, 0) << view.name;
      spent += view.spent_pico;
    }
    ASSERT_EQ(spent, settled);
  }
}

// B4.
TEST(Budgets, AWindowBeginsAgainAndOpenRequestsStayHeld) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100, "hour"))};
  budgets.Admit(of, Exactly(50), kNoon).reservation.Settle(50, kNoon);
  auto open = budgets.Admit(of, Exactly(50), kNoon);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + (kHour - Duration(1))).answer, BudgetAnswer::kLimit);
  const Instant next = kNoon + kHour;
  auto other = budgets.Admit(of, Exactly(50), next);
  EXPECT_EQ(other.answer, BudgetAnswer::kAdmitted);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), next).answer, BudgetAnswer::kLimit)
      << "the old stream's 50 count here";
  open.reservation.Settle(40, next);
  EXPECT_EQ(ViewOf(budgets, "b", next).spent_pico, 40) << "and are charged in the window in which it ended";
  EXPECT_EQ(ViewOf(budgets, "b", next).held_pico, 50);
  EXPECT_EQ(ViewOf(budgets, "b", next + kHour).spent_pico, 0);
}

// B8.
TEST(Budgets, AClockThatGoesBackOpensNoBudget) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100, "hour"))};
  budgets.Admit(of, Exactly(100), kNoon).reservation.Settle(100, kNoon);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + -kHour).answer, BudgetAnswer::kLimit);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + -10 * kHour).answer, BudgetAnswer::kLimit);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon).answer, BudgetAnswer::kLimit) << "nor does its return";
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + kHour).answer, BudgetAnswer::kAdmitted);
  Budgets rolling;
  const std::vector<Ref<Budget>> of_rolling = {rolling.Define(HardSpec("b", 100, "5h"))};
  rolling.Admit(of_rolling, Exactly(100), kNoon).reservation.Settle(100, kNoon);
  EXPECT_EQ(rolling.Admit(of_rolling, Exactly(1), kNoon + -kHour).answer, BudgetAnswer::kLimit);
}

TEST(Budgets, ARollingWindowBeginsWithItsFirstRequest) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100, "5h"))};
  budgets.Admit(of, Exactly(100), kNoon).reservation.Settle(100, kNoon);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + (5 * kHour - Duration(1))).until_unix_ns,
            (kNoon + 5 * kHour).unix_ns);
  // Looking does not begin one.
  EXPECT_EQ(ViewOf(budgets, "b", kNoon + 6 * kHour).spent_pico, 0);
  budgets.Admit(of, Exactly(100), kNoon + 9 * kHour).reservation.Settle(100, kNoon + 9 * kHour);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon + 13 * kHour).until_unix_ns, (kNoon + 14 * kHour).unix_ns);
}

TEST(Budgets, WhatWasSpentBeforeTheStartCounts) {
  Budgets budgets;
  const std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100, "day")),
                                       budgets.Define(HardSpec("old", 100, "day"))};
  budgets.Restore("b", 95, Unix("2026-11-27T00:00:00Z"));
  budgets.Restore("old", 95, Unix("2026-11-26T00:00:00Z"));
  budgets.Restore("unknown", 95, 0);
  EXPECT_EQ(budgets.Admit(std::span(of).first(1), Exactly(6), kNoon).answer, BudgetAnswer::kLimit);
  EXPECT_EQ(budgets.Admit(std::span(of).first(1), Exactly(5), kNoon).answer, BudgetAnswer::kAdmitted);
  EXPECT_EQ(budgets.Admit(std::span(of).last(1), Exactly(100), kNoon).answer, BudgetAnswer::kAdmitted);
}

TEST(Budgets, AReloadKeepsWhatIsSpentAndHeld) {
  Budgets budgets;
  std::vector<Ref<Budget>> of = {budgets.Define(HardSpec("b", 100))};
  auto open = budgets.Admit(of, Exactly(60), kNoon);
  of = {budgets.Define(HardSpec("b", 70))};
  budgets.DropUnused();
  EXPECT_EQ(budgets.Admit(of, Exactly(11), kNoon).answer, BudgetAnswer::kLimit);
  open.reservation.Settle(60, kNoon);
  of = {budgets.Define(HardSpec("b", 70, "day"))};
  EXPECT_EQ(budgets.Admit(of, Exactly(11), kNoon).answer, BudgetAnswer::kLimit)
      << "another window forgives nothing";
  of.clear();
  budgets.DropUnused();
  EXPECT_FALSE(budgets.View("b", kNoon));
}

TEST(Budgets, SumsDoNotOverflow) {
  Budgets budgets;
  BudgetSpec spec = HardSpec("b", kMostLimitPico);
  spec.mode = BudgetMode::kSoft;
  const std::vector<Ref<Budget>> of = {budgets.Define(spec)};
  std::vector<Budgets::Admitted> open;
  for (int i = 0; i < 10; ++i)
    open.push_back(budgets.Admit(of, {.expected_pico = 1, .most_pico = INT64_MAX}, kNoon));
  EXPECT_EQ(open.back().answer, BudgetAnswer::kAdmitted);
  for (auto& one : open) one.reservation.Settle(INT64_MAX, kNoon);
  EXPECT_EQ(ViewOf(budgets, "b").spent_pico, INT64_MAX);
  EXPECT_EQ(budgets.Admit(of, Exactly(1), kNoon).answer, BudgetAnswer::kLimit);
  EXPECT_EQ(budgets.held_pico(), 0);
}

TEST(BudgetWindows, TheirBoundsAreThoseOfTheCalendar) {
  const auto bounds = [](std::string_view window, std::string_view at) {
    const BudgetWindow parsed = *ParseBudgetWindow(window);
    const int64_t start = parsed.StartOf(Unix(at));
    return std::pair(start, parsed.EndOf(start));
  };
  const auto both = [](std::string_view a, std::string_view b) { return std::pair(Unix(a), Unix(b)); };
  EXPECT_EQ(bounds("hour", "2026-11-27T12:59:59Z"), both("2026-11-27T12:00:00Z", "2026-11-27T13:00:00Z"));
  EXPECT_EQ(bounds("day", "2026-11-27T00:00:00Z"), both("2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"));
  EXPECT_EQ(bounds("week", "2026-11-29T23:00:00Z"), both("2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"));
  EXPECT_EQ(bounds("month", "2028-02-29T23:59:59Z"), both("2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"));
  EXPECT_EQ(bounds("month", "2026-12-31T23:59:59Z"), both("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"));
  EXPECT_EQ(bounds("day+05:30", "2026-11-27T19:00:00Z"),
            both("2026-11-27T18:30:00Z", "2026-11-28T18:30:00Z"));
  EXPECT_EQ(bounds("month-08:00", "2026-12-01T07:59:59Z"),
            both("2026-11-01T08:00:00Z", "2026-12-01T08:00:00Z"));
}

TEST(BudgetWindows, TextsComeBackAndOthersAreRefused) {
  for (const char* text :
       {"forever", "hour", "day", "week", "month", "day+05:30", "month-08:00", "5h", "7d", "30m"})
    EXPECT_EQ(BudgetWindowText(*ParseBudgetWindow(text)), text);
  EXPECT_EQ(BudgetWindowText(*ParseBudgetWindow("60m")), "1h");
  for (const char* text : {"", "year", "forever+01:00", "day+15:00", "day+5", "day 05:30", "0h", "-5h",
                           "367d", "h", "5s", "days"})
    EXPECT_FALSE(ParseBudgetWindow(text)) << text;
}

TEST(BudgetSpecs, WrongOnesAreRefused) {
  const auto refused = [](auto change) {
    BudgetSpec spec = HardSpec("b", 1);
    change(spec);
    return !CheckBudgetSpec(spec);
  };
  EXPECT_FALSE(refused([](BudgetSpec&) {}));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.name = ""; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.name = "a b"; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.name = "{a}"; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.limit_pico = -1; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.limit_pico = kMostLimitPico + 1; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.max_overshoot_pico = 1; }));
  EXPECT_TRUE(refused([](BudgetSpec& s) { s.window = {.kind = BudgetWindow::Kind::kRolling}; }));
}

}  // namespace
}  // namespace gpulens::proxy
