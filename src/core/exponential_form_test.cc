#include "core/exponential_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "core/histogram.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> Spread(const ExponentialForm& form, std::vector<uint64_t> counts,
                             uint64_t* zero = nullptr) {
  std::vector<uint64_t> out(form.buckets);
  const uint64_t zeros = SpreadCounts(form, counts, out);
  if (zero) *zero = zeros;
  return out;
}

TEST(ExponentialForm, BoundsStayWhereTheyAre) {
  const std::vector<double> bounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  const auto form = MakeExponentialForm(bounds);
  ASSERT_TRUE(form);
  EXPECT_LE(form->buckets, 160u);
  EXPECT_GE(form->scale, 3);
  EXPECT_EQ(form->zero_threshold, 0.005);
  std::vector<uint64_t> counts(bounds.size() + 1);
  std::iota(counts.begin(), counts.end(), 100);
  uint64_t zero = 0;
  const std::vector<uint64_t> out = Spread(*form, counts, &zero);
  EXPECT_EQ(zero, 100u);
  // What is at most a bound, read from the exponential buckets, is what the explicit ones say.
  uint64_t upto = zero, wanted = counts[0];
  size_t next = 0;
  for (size_t i = 1; i < bounds.size(); ++i) {
    for (; next < out.size(); ++next) {
      const double upper = ExponentialLowerEdge(form->offset + static_cast<int32_t>(next) + 1, form->scale);
      if (upper > bounds[i] * std::exp2(std::exp2(-form->scale))) break;
      upto += out[next];
      if (upper >= bounds[i]) {
        ++next;
        break;
      }
    }
    wanted += counts[i];
    EXPECT_EQ(upto, wanted) << bounds[i];
  }
  EXPECT_EQ(out.back(), counts.back()) << "above the last bound";
}

TEST(ExponentialForm, PowersOfTwoAreExact) {
  const auto form = MakeExponentialForm(std::vector<double>{0, 1, 2, 4});
  ASSERT_TRUE(form);
  uint64_t zero = 0;
  const auto out = Spread(*form, {1, 2, 640, 0, 3}, &zero);
  EXPECT_EQ(zero, 3u) << "0 and what is up to 1";
  EXPECT_EQ(ExponentialLowerEdge(form->offset, form->scale), 1);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), uint64_t{0}), 643u);
  EXPECT_EQ(out[form->ends[2] - 1], 640 / form->ends[2]);
  EXPECT_EQ(out[form->ends[2]], 0u);
}

// A falling bucket would be a restart to Prometheus.
TEST(ExponentialForm, NoBucketEverFalls) {
  const auto form = MakeExponentialForm(std::vector<double>{0.1, 0.7, 0.8, 13});
  ASSERT_TRUE(form);
  std::mt19937 random(1);
  std::vector<uint64_t> counts(5), before(form->buckets);
  for (int i = 0; i < 3000; ++i) {
    counts[random() % counts.size()] += random() % 3;
    uint64_t zero = 0;
    const auto out = Spread(*form, counts, &zero);
    for (size_t k = 0; k < out.size(); ++k) ASSERT_GE(out[k], before[k]) << i;
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), zero),
              std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    before = out;
  }
}

TEST(ExponentialForm, BoundsThatAreTooCloseShareABucket) {
  const auto form = MakeExponentialForm(std::vector<double>{1e-300, 1, 1.0001, 1e300});
  ASSERT_TRUE(form);
  EXPECT_LT(form->scale, 0);
  const auto out = Spread(*form, {0, 0, 5, 0, 0});
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), uint64_t{0}), 5u);
  const double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  const auto widest = MakeExponentialForm(std::vector<double>{least, most});
  ASSERT_TRUE(widest);
  EXPECT_LE(widest->buckets, 160u);
}

TEST(ExponentialForm, OneBoundIsEnough) {
  const auto form = MakeExponentialForm(std::vector<double>{8});
  ASSERT_TRUE(form);
  uint64_t zero = 0;
  EXPECT_THAT(Spread(*form, {3, 4}, &zero), ElementsAre(4));
  EXPECT_EQ(zero, 3u);
}

TEST(ExponentialForm, NegativeBoundsCannotBeTold) {
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{}));
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{-1, 1}));
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{0}));
}

}  // namespace
}  // namespace gpulens
