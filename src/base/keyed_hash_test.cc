#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpulens {
namespace {

constexpr HashKey kKey{0x1234567890ABCDEF, 0xFEDCBA0987654321, 0x0F1E2D3C4B5A6979};

TEST(KeyedHash, EveryByteOfEveryLengthCounts) {
  std::set<uint64_t> seen;
  size_t made = 0;
  for (size_t size = 0; size <= 40; ++size) {
    std::string text(size, 'a');
    ++made;
    seen.insert(HashBytes(text, 0, kKey));
    for (size_t i = 0; i < size; ++i) {
      text[i] = 'b';
      ++made;
      seen.insert(HashBytes(text, 0, kKey));
      text[i] = 'a';
    }
  }
  EXPECT_EQ(seen.size(), made);
}

TEST(KeyedHash, AnotherKeyOrSeedIsAnotherHash) {
  HashKey other = kKey;
  other.b ^= 2;
  EXPECT_EQ(HashBytes("gpu", 0, kKey), HashBytes("gpu", 0, kKey));
  EXPECT_NE(HashBytes("gpu", 0, kKey), HashBytes("gpu", 0, other));
  EXPECT_NE(HashBytes("gpu", 0, kKey), HashBytes("gpu", 1, kKey));
}

TEST(KeyedHash, TheKeyOfAProcessIsOne) {
  EXPECT_EQ(&ProcessHashKey(), &ProcessHashKey());
  EXPECT_NE(ProcessHashKey().a, ProcessHashKey().b);
}

}  // namespace
}  // namespace gpulens
