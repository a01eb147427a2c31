#include "ledger/request_split.h"

#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace gpulens::ledger {
namespace {

int64_t SumOf(const RequestParts& parts) {
  return std::accumulate(parts.uj.begin(), parts.uj.end(), parts.held_uj);
}

TEST(DivideRequests, ActiveBySecondsOfWorkAndBaseByOpenTime) {
  const std::vector<RequestWork> requests = {{1000, 0, 1}, {0, 100, 3}};
  const RequestParts parts = DivideRequests({900, 400}, requests, 0.001, 0.02);
  EXPECT_EQ(parts.uj, (std::vector<int64_t>{300 + 100, 600 + 300}));
  EXPECT_EQ(parts.held_uj, 0);
}

TEST(DivideRequests, WithoutSecondsPerTokenTokensAreEqual) {
  const std::vector<RequestWork> requests = {{100, 0, 1}, {0, 300, 1}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [prefill, decode] : {std::pair<double, double>{0, 0.02}, {nan, 1}, {1, -1}})
    EXPECT_EQ(DivideRequests({400, 0}, requests, prefill, decode).uj, (std::vector<int64_t>{100, 300}));
}

TEST(DivideRequests, WithoutAnOpenRequestAllIsHeld) {
  const RequestParts none = DivideRequests({5, 7}, {}, 1, 1);
  EXPECT_EQ(none.held_uj, 12);
  const std::vector<RequestWork> closed = {{0, 0, 0}, {-5, -5, -5}};
  EXPECT_EQ(DivideRequests({5, 7}, closed, 1, 1).held_uj, 12);
  // Open, and no token yet: by time.
  const std::vector<RequestWork> open = {{0, 0, 1}, {0, 0, 1}};
  EXPECT_EQ(DivideRequests({6, 4}, open, 1, 1).uj, (std::vector<int64_t>{5, 5}));
}

TEST(DivideRequests, PartsAddUpAndNoneIsNegative) {
  std::mt19937_64 random(3);
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < 5000; ++round) {
    std::vector<RequestWork> requests(random() % 40);
    const int bits = static_cast<int>(random() % 63) + 1;
    const auto number = [&] { return static_cast<int64_t>(random() >> (64 - bits)); };
    for (RequestWork& request : requests) request = {number(), number(), number()};
    const EngineEnergy energy{number(), number()};
    const RequestParts parts =
        DivideRequests(energy, requests, 1e-9 * static_cast<double>(random() % 1000), 1e300);
    ASSERT_EQ(SumOf(parts), energy.active_uj + std::min(energy.held_uj, most - energy.active_uj)) << round;
    for (int64_t part : parts.uj) ASSERT_GE(part, 0);
  }
}

TEST(IntegerWeights, KeepRatiosAndDropWhatIsNoNumber) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {2e-300, 1e-300, 0, -1, inf, std::numeric_limits<double>::quiet_NaN()};
  std::vector<int64_t> weights(values.size());
  IntegerWeights(values, weights);
  EXPECT_EQ(weights, (std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 39, 0, 0, 0, 0}));
  const std::vector<double> far = {1e300, 1e-300};
  weights.resize(2);
  IntegerWeights(far, weights);
  EXPECT_EQ(weights[1], 1) << "small is not nothing";
}

}  // namespace
}  // namespace gpulens::ledger
