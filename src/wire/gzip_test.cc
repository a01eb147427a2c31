#include "wire/packing.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

std::string ByGzip(std::string_view text) {
  std::string out;
  GzipCompressor().Compress(text, out);
  return out;
}

TEST(GzipTest, ComesBackAsItWas) {
  std::string text(100'000, 'x'), out;
  for (size_t i = 0; i < text.size(); i += 7) text[i] = static_cast<char>('a' + i % 26);
  ASSERT_TRUE(Gunzip(ByGzip(text), 1 << 20, out));
  EXPECT_EQ(out, text);
  ASSERT_TRUE(Gunzip(ByGzip(""), 1 << 20, out));
  EXPECT_EQ(out, "");
}

TEST(GzipTest, SeveralMembersAreOneText) {
  std::string out;
  ASSERT_TRUE(Gunzip(ByGzip("one ") + ByGzip("two"), 100, out));
  EXPECT_EQ(out, "one two");
}

// Twenty bytes that make nothing, a hundred thousand times: each must be cheap.
TEST(GzipTest, ManyEmptyMembersAreCheap) {
  std::string many, out;
  const std::string empty = ByGzip("");
  for (int i = 0; i < 100'000; ++i) many += empty;
  ASSERT_TRUE(Gunzip(many + ByGzip("end"), 64 << 20, out));
  EXPECT_EQ(out, "end");
}

TEST(GzipTest, ABombStopsAtTheLimit) {
  std::string out;
  Status status = Gunzip(ByGzip(std::string(50 << 20, '\0')), 1 << 20, out);
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_TRUE(out.empty());
  // Exactly at the limit is not over it.
  EXPECT_TRUE(Gunzip(ByGzip(std::string(1 << 20, 'a')), 1 << 20, out));
}

TEST(GzipTest, DamageIsDataLoss) {
  std::string good = ByGzip("some text that is long enough to be damaged"), out;
  for (size_t cut : {size_t{0}, size_t{5}, good.size() / 2, good.size() - 1}) {
    EXPECT_EQ(Gunzip(std::string_view(good).substr(0, cut), 1 << 20, out).code, Code::kDataLoss) << cut;
  }
  good[good.size() / 2] = static_cast<char>(good[good.size() / 2] ^ 0x55);
  EXPECT_EQ(Gunzip(good, 1 << 20, out).code, Code::kDataLoss);
  EXPECT_EQ(Gunzip("not gzip at all, just text", 1 << 20, out).code, Code::kDataLoss);
}

}  // namespace
}  // namespace gpulens
