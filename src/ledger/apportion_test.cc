#include "ledger/apportion.h"

#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace gpulens::ledger {
namespace {

std::vector<int64_t> Parts(int64_t whole, const std::vector<int64_t>& weights) {
  std::vector<int64_t> parts(weights.size());
  Apportion(whole, weights, parts);
  return parts;
}

TEST(Apportion, LargestRemaindersGetTheRest) {
  EXPECT_EQ(Parts(100, {1, 1, 1}), (std::vector<int64_t>{34, 33, 33}));
  EXPECT_EQ(Parts(10, {6, 3, 1}), (std::vector<int64_t>{6, 3, 1}));
  EXPECT_EQ(Parts(7, {5, 4, 1}), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(Parts(-7, {5, 4, 1}), (std::vector<int64_t>{-3, -3, -1}));
  EXPECT_EQ(Parts(5, {0, 0}), (std::vector<int64_t>{3, 2})) << "nothing to go by: equal";
  EXPECT_EQ(Parts(5, {0, 1}), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(Parts(0, {3, 4}), (std::vector<int64_t>{0, 0}));
}

TEST(Apportion, PartsAddUpForAnyNumbers) {
  std::mt19937_64 random(20);
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < 20'000; ++round) {
    std::vector<int64_t> weights(1 + random() % 90);
    const int bits = static_cast<int>(1 + random() % 63);
    for (int64_t& weight : weights) weight = static_cast<int64_t>(random() >> (64 - bits));
    if (round % 7 == 0) weights[0] = most;
    auto whole = static_cast<int64_t>(random() >> (random() % 60 + 1));
    if (round % 3 == 0) whole = -whole;
    if (round % 11 == 0) whole = round % 2 == 0 ? most : std::numeric_limits<int64_t>::min();
    std::vector<int64_t> parts = Parts(whole, weights);
    __int128 sum = 0, total = 0;
    for (int64_t part : parts) sum += part;
    for (int64_t weight : weights) total += weight;
    ASSERT_EQ(static_cast<int64_t>(sum), whole) << round;
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_TRUE(whole >= 0 ? parts[i] >= 0 : parts[i] <= 0);
      // Within one unit of the exact share.
      if (total == 0) continue;
      const __int128 off =
          static_cast<__int128>(parts[i]) * total - static_cast<__int128>(whole) * weights[i];
      ASSERT_LT(off < 0 ? -off : off, total) << round << " " << i;
    }
  }
}

TEST(MulDiv, RoundsDownInWideNumbers) {
  EXPECT_EQ(MulDiv(6'880'000'000'000, 10'000, 3'600'000), 19'111'111'111);
  EXPECT_EQ(MulDiv(std::numeric_limits<int64_t>::max(), 1000, 1000), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(MulDiv(-1, 1, 2), -1);
}

}  // namespace
}  // namespace gpulens::ledger
