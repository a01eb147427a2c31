// Generated scrapes with known answers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "catalog/inference.h"
#include "plugins/analyzers/inference/engine_testing.h"
#include "plugins/analyzers/inference/native_table.h"

namespace gpulens::windows {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<double> kFineBounds = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};
constexpr std::array<const char*, 3> kRankNames = {"0", "1", "2"};
#define LABELS(rank)                                               \
  {                                                                \
    {"model.name", "m"}, { "inference.dp_rank", kRankNames[rank] } \
  }

// Up to 10 s, so that no observation lies above the last bound.
rc::Gen<std::vector<double>> Latencies() {
  return rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::inRange(1, 10'001), [](int ms) { return ms / 1000.0; })));
}

double WidthOfBucket(double value) {
  auto at = std::lower_bound(kFineBounds.begin(), kFineBounds.end(), value);
  return at == kFineBounds.begin() ? *at : *at - *(at - 1);
}

// The smallest of the sorted values that at least the share q of them does not exceed.
double TrueQuantile(const std::vector<double>& sorted, double q) {
  auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

RC_GTEST_PROP(WindowProperty, QuantilesAreWithinABucketOfTheTruth, ()) {
  auto old = *Latencies();
  auto fresh = *Latencies();
  EnginePage page("vllm");
  AnalyzerRun run;
  auto observe = [&](const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      page.Observe(kInferenceTimeToFirstToken, LABELS(i % 3), kFineBounds, values[i], 1);
    }
  };
  for (size_t rank = 0; rank < 3; ++rank) {
    page.Observe(kInferenceTimeToFirstToken, LABELS(rank), kFineBounds, 0.5, 1);
  }
  observe(old);
  run.Scrape(page);
  size_t first = *rc::gen::inRange<size_t>(0, fresh.size() + 1);
  observe({fresh.begin(), fresh.begin() + static_cast<ptrdiff_t>(first)});
  run.Wait(milliseconds(*rc::gen::inRange(1, 30'000)));
  run.Scrape(page);
  observe({fresh.begin() + static_cast<ptrdiff_t>(first), fresh.end()});
  run.Wait(milliseconds(*rc::gen::inRange(1, 30'000)));
  run.Scrape(page);
  std::sort(fresh.begin(), fresh.end());
  for (const WindowQuantile& quantile : kWindowQuantiles) {
    double truth = TrueQuantile(fresh, quantile.q);
    double value = run.Value(kVllmTtft, {{"quantile", quantile.name}});
    RC_ASSERT(std::abs(value - truth) <= WidthOfBucket(truth) + 1e-9);
  }
}

RC_GTEST_PROP(WindowProperty, RatesAreExact, ()) {
  EnginePage page("vllm");
  AnalyzerRun run;
  for (size_t rank = 0; rank < 3; ++rank) {
    page.Set(kInferencePromptTokens, LABELS(rank), *rc::gen::inRange(0, 1'000'000'000));
  }
  run.Scrape(page);
  struct Step {
    int64_t wait_ms;
    double tokens;
  };
  std::vector<Step> steps;
  size_t count = *rc::gen::inRange<size_t>(1, 12);
  for (size_t i = 0; i < count; ++i) {
    // A tick of the clock of 3 s is a row of the window of 60 s: whole ones are never shared.
    Step step{3000 * *rc::gen::inRange<int64_t>(1, 30), 0};
    for (size_t rank = 0; rank < 3; ++rank) {
      double tokens = *rc::gen::inRange(0, 1'000'000);
      page.Add(kInferencePromptTokens, LABELS(rank), tokens);
      step.tokens += tokens;
    }
    run.Wait(milliseconds(step.wait_ms));
    run.Scrape(page);
    steps.push_back(step);
    double tokens = 0;
    int64_t elapsed_ms = 0;
    for (size_t k = steps.size(); k-- > 0;) {
      if (k + 1 < steps.size() && elapsed_ms + steps[k].wait_ms > 60'000) break;
      tokens += steps[k].tokens;
      elapsed_ms += steps[k].wait_ms;
    }
    double expected = tokens / (static_cast<double>(elapsed_ms) / 1000);
    RC_ASSERT(std::abs(run.Value(kVllmPromptThroughput) - expected) <= 1e-9 * expected);
  }
}

// Whatever happens to the label sets, a rate is never negative and never more than was truly counted since
// the last reading (and, after a restart, its present number).
RC_GTEST_PROP(WindowProperty, ResetsAndLabelSetsThatComeAndGoNeverMakeAPeak, ()) {
  EnginePage page("vllm");
  AnalyzerRun run;
  struct Rank {
    double tokens = 0;
    bool here = true;
  };
  std::array<Rank, 3> ranks;
  for (size_t i = 0; i < 3; ++i) {
    ranks[i].tokens = *rc::gen::inRange(0, 1'000'000'000);
    page.Set(kInferencePromptTokens, LABELS(i), ranks[i].tokens);
  }
  run.Scrape(page);
  double most = 0;  // counted since the first reading
  for (int step = 0; step < 10; ++step) {
    for (size_t i = 0; i < 3; ++i) {
      Rank& rank = ranks[i];
      int what = *rc::gen::inRange(0, 10);
      if (what == 0) rank.tokens = 0;  // restarted
      if (what == 1) rank.here = !rank.here;
      double grown = *rc::gen::inRange(0, 1000);
      rank.tokens += grown;
      most += grown;
      if (rank.here) page.Set(kInferencePromptTokens, LABELS(i), rank.tokens);
      else page.Remove(kInferencePromptTokens, LABELS(i));
    }
    run.Wait(seconds(5));
    run.Scrape(page);
    if (!run.Has(kVllmPromptThroughput)) continue;
    double rate = run.Value(kVllmPromptThroughput);
    RC_ASSERT(rate >= 0);
    RC_ASSERT(rate * 5 <= most + 1e-6);
  }
}

RC_GTEST_PROP(WindowProperty, AnyPageIsSurvived, ()) {
  EnginePage page("vllm");
  AnalyzerRun run;
  for (int step = 0; step < 8; ++step) {
    size_t rank = *rc::gen::inRange<size_t>(0, 3);
    double any =
        *rc::gen::element(0.0, -1.0, 1e300, std::nan(""), std::numeric_limits<double>::infinity(), 5.0);
    page.Set(kInferencePromptTokens, LABELS(rank), any);
    page.Observe(kInferenceTimeToFirstToken, LABELS(rank), kFineBounds, *rc::gen::element(0.1, 99.0), any);
    if (*rc::gen::inRange(0, 3) == 0) page.Remove(kInferencePromptTokens, LABELS(rank));
    run.Wait(seconds(*rc::gen::inRange(0, 40)));
    run.Scrape(page);
    RC_ASSERT(run.status().ok());
    for (uint32_t slot = 0; slot < run.frame().layout->slots(); ++slot) {
      const SeriesInfo& info = (*run.frame().layout)[slot];
      if (!info.desc || run.frame().quality[slot] == Quality::kAbsent) continue;
      double value = info.desc->number == Number::kInt
                         ? static_cast<double>(run.frame().cells[info.first_cell].i)
                         : run.frame().cells[info.first_cell].d;
      RC_ASSERT(std::isfinite(value));
      RC_ASSERT(value >= 0);
    }
  }
}

}  // namespace
}  // namespace gpulens::windows
