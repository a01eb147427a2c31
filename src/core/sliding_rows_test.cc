#include "core/sliding_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using testing::ElementsAre;

std::vector<double> SumOf(const SlidingRows& rows) {
  std::vector<double> out(rows.width(), 99);
  rows.Sum(out);
  return out;
}
void Push(SlidingRows& rows, int64_t from_ns, double a, double b) {
  auto row = rows.Push(from_ns);
  row[0] = a;
  row[1] = b;
}

TEST(SlidingRows, AddsUpWhatItKeeps) {
  SlidingRows rows(2, 8);
  EXPECT_TRUE(rows.empty());
  EXPECT_THAT(SumOf(rows), ElementsAre(0, 0));
  Push(rows, 10, 1, 2);
  Push(rows, 20, 3, 4);
  Push(rows, 30, 5, 6);
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.from_ns(0), 10);
  EXPECT_THAT(rows[1], ElementsAre(3, 4));
  EXPECT_THAT(rows.Last(), ElementsAre(5, 6));
  EXPECT_THAT(SumOf(rows), ElementsAre(9, 12));
}

TEST(SlidingRows, TheOldestLeaveAndTheNewestStays) {
  SlidingRows rows(2, 8);
  for (int i = 1; i <= 5; ++i) Push(rows, i * 10, i, i);
  rows.Expire(30);
  EXPECT_THAT(SumOf(rows), ElementsAre(12, 12));
  EXPECT_EQ(rows.from_ns(0), 30);
  rows.Expire(1000);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_THAT(SumOf(rows), ElementsAre(5, 5));
}

TEST(SlidingRows, GrowsInOrderThenDropsTheOldest) {
  SlidingRows rows(2, 5);
  Push(rows, 10, 1, 1);
  Push(rows, 20, 2, 2);
  rows.Expire(20);  // So that the oldest is not at the start of the buffer when it grows.
  for (int i = 3; i <= 12; ++i) Push(rows, i * 10, i, i);
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows.from_ns(0), 80);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(rows[i][0], 8.0 + static_cast<double>(i));
}

TEST(SlidingRows, APushedRowIsEmpty) {
  SlidingRows rows(2, 1);
  Push(rows, 10, 1, 1);
  rows.Push(20);
  EXPECT_THAT(SumOf(rows), ElementsAre(0, 0));
  EXPECT_EQ(SlidingRows(2, 0).Push(1).size(), 2u) << "there is always room for one";
}

TEST(SlidingRows, AnotherWidthBeginsAnew) {
  SlidingRows rows(2, 4);
  for (int i = 0; i < 6; ++i) Push(rows, i, 1, 1);
  rows.Reset(3);
  EXPECT_TRUE(rows.empty());
  rows.Push(50)[2] = 7;
  rows.Push(60)[0] = 1;
  EXPECT_THAT(SumOf(rows), ElementsAre(1, 0, 7));
}

TEST(SlidingRows, AFullWindowDoesNotAllocate) {
  SlidingRows rows(26, 21);
  for (int i = 0; i < 30; ++i) rows.Push(i);
  EXPECT_EQ(rows.memory_bytes(), 21 * (26 * sizeof(double) + sizeof(int64_t)));
  uint64_t before = ThreadAllocations();
  for (int i = 30; i < 100; ++i) {
    rows.Push(i)[0] = 1;
    rows.Expire(i - 10);
  }
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens
