#include "base/stable_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace gpulens {
namespace {

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

}  // namespace
}  // namespace gpulens
