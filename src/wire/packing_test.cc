#include <gtest/gtest.h>

#include "wire/packing.h"

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
namespace {

std::string ByZstd(std::string_view text) {
  std::string out;
  ZstdCompressor().Compress(text, out);
  return out;
}

TEST(Zstd, ComesBackAsItWas) {
  std::string text(3'000'000, 'x'), out, packed;
  for (size_t i = 0; i < text.size(); i += 7) text[i] = static_cast<char>('a' + i / 7 * 31 % 26);
  ZstdCompressor compressor;
  for (size_t size : {size_t{0}, size_t{1}, size_t{1000}, text.size(), size_t{5}}) {
    compressor.Compress(std::string_view(text).substr(0, size), packed);
    EXPECT_LE(packed.size(), size / 2 + 30);
    ASSERT_TRUE(Unzstd(packed, 4 << 20, out)) << size;
    EXPECT_EQ(out, text.substr(0, size));
  }
}

TEST(Zstd, SeveralFramesAreOneText) {
  std::string out;
  const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  ASSERT_TRUE(Unzstd(ByZstd("one ") + skippable + ByZstd("two"), 100, out));
  EXPECT_EQ(out, "one two");
}

TEST(Zstd, ABombStopsAtTheLimit) {
  std::string out;
  EXPECT_EQ(Unzstd(ByZstd(std::string(50 << 20, '\0')), 1 << 20, out).code, Code::kExhausted);
  EXPECT_TRUE(out.empty());
  EXPECT_LE(out.capacity(), (2u << 20) + 64);
  // Exactly at the limit is not over it.
  EXPECT_TRUE(Unzstd(ByZstd(std::string(1 << 20, 'a')), 1 << 20, out));
  EXPECT_EQ(out.size(), 1u << 20);
  EXPECT_EQ(Unzstd(ByZstd("a"), 0, out).code, Code::kExhausted);
  EXPECT_TRUE(Unzstd(ByZstd(""), 0, out));
}

TEST(Zstd, ALargeWindowIsRefused) {
  // Magic number, a frame without a size, and a window of 2^(10 + 16) bytes.
  std::string out;
  EXPECT_EQ(Unzstd(std::string_view("\x28\xB5\x2F\xFD\x00\x80\x01\x00\x00", 9), 1 << 30, out).code,
            Code::kExhausted);
}

TEST(Zstd, DamageIsDataLoss) {
  std::string good = ByZstd("some text that is long enough to be damaged"), out;
  for (size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_EQ(Unzstd(std::string_view(good).substr(0, cut), 1 << 20, out).code, Code::kDataLoss) << cut;
  good[good.size() / 2] = static_cast<char>(good[good.size() / 2] ^ 0x55);
  EXPECT_EQ(Unzstd(good, 1 << 20, out).code, Code::kDataLoss) << "its checksum";
  EXPECT_EQ(Unzstd("not zstd at all, just text", 1 << 20, out).code, Code::kDataLoss);
}

}  // namespace

}  // namespace gpulens
