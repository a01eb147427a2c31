#include "base/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

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

std::vector<uint64_t> Endpoints(int count) {
  std::vector<uint64_t> out;
  for (int i = 0; i < count; ++i)
    out.push_back(StableHash(std::string("https://") + static_cast<char>('a' + i) + ".example:4318"));
  return out;
}

uint64_t HashOfNode(int i) { return StableHash("node-" + std::to_string(i)); }

std::vector<int> Loads(std::span<const uint64_t> endpoints, int resources) {
  std::vector<int> out(endpoints.size());
  for (int i = 0; i < resources; ++i) ++out[PickEndpoint(HashOfNode(i), endpoints)];
  return out;
}

// The expected values were computed by an independent Python program. They must never change, otherwise
// agents of different versions send the same series to different endpoints.
TEST(SplitHash, IsTheSameInEveryVersion) {
  EXPECT_EQ(MixBits(1), 0xb456bcfc34c2cb2c);
  EXPECT_EQ(StableHash(""), 0xefd01f60ba992926);
  EXPECT_EQ(StableHash("https://a.example:4318"), 0x8e1c880cadcbf9ae);
  EXPECT_EQ(PairHash("job", "gpulens"), 0x0ef9d7a5b483e9e5);
  EXPECT_EQ(PairHash("instance", "node-1:9091"), 0x5259313e21638154);
  EXPECT_EQ(MixBits(PairHash("job", "gpulens") + PairHash("instance", "node-1:9091")), 0x6c7627cb59c61cc9);
  std::vector<size_t> picked;
  for (int i = 0; i < 10; ++i) picked.push_back(PickEndpoint(HashOfNode(i), Endpoints(5)));
  EXPECT_EQ(picked, (std::vector<size_t>{3, 4, 1, 4, 2, 1, 4, 2, 0, 2}));
}

TEST(SplitHash, DistinguishesNamesFromValues) {
  EXPECT_NE(PairHash("ab", "c"), PairHash("a", "bc"));
  EXPECT_NE(PairHash("a", "b"), PairHash("b", "a"));
  EXPECT_NE(PairHash("a", ""), PairHash("", "a"));
}

// The share of each of 5 endpoints is 200 of 1,000 with a standard deviation of 13: four of these are 52.
TEST(SplitHash, EndpointsGetEvenShares) {
  for (int load : Loads(Endpoints(5), 1000)) {
    EXPECT_GE(load, 148);
    EXPECT_LE(load, 252);
  }
  for (int load : Loads(Endpoints(5), 100'000)) {
    EXPECT_GE(load, 19'500);
    EXPECT_LE(load, 20'500);
  }
}

// Shares are also even when endpoints are numbered instead of hashed.
TEST(SplitHash, NumberedEndpointsGetEvenShares) {
  const std::array<uint64_t, 4> numbers = {0, 1, 2, 3};
  for (int load : Loads(numbers, 10'000)) {
    EXPECT_GE(load, 2300);
    EXPECT_LE(load, 2700);
  }
}

TEST(SplitHash, RemovingAnEndpointMovesOnlyItsShare) {
  const std::vector<uint64_t> endpoints = Endpoints(5);
  for (size_t gone = 0; gone < endpoints.size(); ++gone) {
    std::array<uint8_t, 5> usable = {1, 1, 1, 1, 1};
    usable[gone] = 0;
    std::vector<uint64_t> rest = endpoints;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(gone));
    std::vector<int> moved_to(5);
    for (int i = 0; i < 1000; ++i) {
      const size_t before = PickEndpoint(HashOfNode(i), endpoints);
      const size_t after = PickEndpoint(HashOfNode(i), endpoints, usable);
      EXPECT_NE(after, gone);
      if (before == gone) ++moved_to[after];
      EXPECT_TRUE(before == gone || after == before);
      // Removing an endpoint from the list has the same effect as making it unusable.
      EXPECT_EQ(rest[PickEndpoint(HashOfNode(i), rest)], endpoints[after]);
    }
    // About 50 move to each of the others.
    for (size_t i = 0; i < 5; ++i) EXPECT_GE(moved_to[i], i == gone ? 0 : 22);
  }
}

TEST(SplitHash, TheOrderOfEndpointsDoesNotMatter) {
  const std::vector<uint64_t> endpoints = Endpoints(5);
  const std::vector<uint64_t> reversed(endpoints.rbegin(), endpoints.rend());
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(PickEndpoint(HashOfNode(i), reversed), 4 - PickEndpoint(HashOfNode(i), endpoints));
}

TEST(SplitHash, WithoutAUsableEndpointNoneIsPicked) {
  const std::array<uint64_t, 2> endpoints = {1, 2};
  EXPECT_EQ(PickEndpoint(7, {}), 0u);
  EXPECT_EQ(PickEndpoint(7, endpoints, std::array<uint8_t, 2>{0, 0}), 2u);
  EXPECT_EQ(PickEndpoint(7, endpoints, std::array<uint8_t, 2>{0, 1}), 1u);
}

std::string Of(std::string_view text, size_t piece = 1 << 20) {
  Sha256 hash;
  for (size_t i = 0; i < text.size(); i += piece) hash.Add(text.substr(i, piece));
  return hash.Finish();
}

// The examples of the standard.
TEST(Sha256, MatchesTheStandard) {
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
