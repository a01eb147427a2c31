#include "base/sha256.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

std::string Of(std::string_view text, size_t piece = 1 << 20) {
  Sha256 hash;
  for (size_t i = 0; i < text.size(); i += piece) hash.Add(text.substr(i, piece));
  return hash.Finish();
}

// The examples of the standard.
TEST(Sha256, AsTheStandardSays) {
  EXPECT_EQ(Of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  for (size_t size : {0u, 1u, 55u, 56u, 57u, 63u, 64u, 65u, 119u, 120u, 127u, 128u, 129u, 1000u}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 26);
    for (size_t piece : {1u, 7u, 63u, 64u, 65u})
      EXPECT_EQ(Of(text, piece), Of(text)) << size << " by " << piece;
  }
}

}  // namespace
}  // namespace gpulens
