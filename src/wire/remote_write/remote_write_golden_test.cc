// Requests byte for byte, put together by hand from the protocols' definitions.
#include <gtest/gtest.h>

#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {
namespace {

using json_testing::MakeSnapshot;
using json_testing::TestSource;
using wire_testing::NameVerbatim;

constexpr MetricDesc kUp{.name = "up_total", .unit = "s", .help = "It is.", .kind = Kind::kCounter};
constexpr MetricDesc kSize{.name = "size", .kind = Kind::kHistogram};
constexpr int64_t kZeroNs = 1'700'000'000'000'000'000;

std::vector<std::string> Requests(RemoteWrite::Options options, TestSource& source) {
  RemoteWrite writer{SeriesNamer(&NameVerbatim), std::move(options)};
  std::vector<std::string> requests;
  auto snapshot = MakeSnapshot(1, {5'000'000'000, kZeroNs}, {source.Entry()});
  EXPECT_TRUE(writer
                  .Encode(*snapshot,
                          [&](std::string_view request, uint32_t) {
                            requests.emplace_back(request);
                            return Status{};
                          })
                  .ok());
  return requests;
}

std::string Bytes(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (std::string_view part : parts) out += part;
  return out;
}

using namespace std::string_view_literals;
// 1.7e12 and 1000 less, as varints; 1.5 as a double.
constexpr std::string_view kZero = "\x80\xd0\x95\xff\xbc\x31"sv, kBefore = "\x98\xc8\x95\xff\xbc\x31"sv,
                           kOneAndAHalf = "\0\0\0\0\0\0\xf8\x3f"sv;

class RemoteWriteGolden : public ::testing::Test {
 protected:
  RemoteWriteGolden() { source_.writer.Begin({5'000'000'000, kZeroNs}); }
  void Up() {
    Series up = source_.table.Declare(kUp, {}, {{"gpu", "0"}}, {.start_unix_ns = kZeroNs - 1'000'000'000});
    source_.writer.Set(up, 1.5);
  }
  TestSource source_{"x"};
};

TEST_F(RemoteWriteGolden, Version1) {
  Up();
  const std::vector<std::string> requests = Requests({}, source_);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0], Bytes({"\x0a\x32",                                      // TimeSeries
                                "\x0a\x14\x0a\x08__name__\x12\x08up_total",      // Label
                                "\x0a\x08\x0a\x03gpu\x12\x01\x30",               // Label
                                "\x12\x10\x09", kOneAndAHalf, "\x10", kZero}));  // Sample
  EXPECT_EQ(requests[1],
            Bytes({"\x1a\x17\x08\x01\x12\x08up_total\x22\x06It is.\x2a\x01s"}));  // MetricMetadata
}

TEST_F(RemoteWriteGolden, Version2) {
  Up();
  const std::vector<std::string> requests = Requests({.version = RemoteWriteVersion::k2}, source_);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(
      requests[0],
      Bytes({"\x22\x00"sv, "\x22\x08__name__\x22\x08up_total\x22\x03gpu\x22\x01\x30\x22\x06It is.\x22\x01s",
             "\x2a\x27", "\x0a\x04\x01\x02\x03\x04",                        // label references
             "\x12\x17\x09", kOneAndAHalf, "\x10", kZero, "\x18", kBefore,  // Sample with its start
             "\x2a\x06\x08\x01\x18\x05\x20\x06"}));                         // Metadata
}

TEST_F(RemoteWriteGolden, AHistogramWithCustomBounds) {
  auto shape = MakeRef<Shape>();
  shape->bounds = {1.5};
  Series size = source_.table.Declare(kSize, {}, {}, {.shape = shape});
  std::span<Cell> cells = source_.writer.Cells(size);
  cells[0].d = 3;    // up to 1.5
  cells[1].d = 1.5;  // sum
  cells[2].d = 5;    // all
  const std::vector<std::string> requests =
      Requests({.version = RemoteWriteVersion::k2, .native_histograms = true}, source_);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0], Bytes({"\x22\x00"sv, "\x22\x08__name__\x22\x04size", "\x2a\x31", "\x0a\x02\x01\x02",
                                "\x1a\x27\x08\x05\x19", kOneAndAHalf, "\x20\x69",  // count, sum, schema -53
                                "\x5a\x02\x10\x02", "\x62\x02\x06\x01",       // span of 2; 3, then 1 less
                                "\x78", kZero, "\x82\x01\x08", kOneAndAHalf,  // time, bounds
                                "\x2a\x02\x08\x03"}));
}

TEST(SnappyBlock, ComesBack) {
  std::string packed, plain;
  for (const std::string& text : {std::string(), std::string("a"), std::string(100'000, 'x')}) {
    SnappyPack(text, packed);
    ASSERT_TRUE(SnappyUnpack(packed, 100'000, plain));
    EXPECT_EQ(plain, text);
  }
  EXPECT_LT(packed.size(), 10'000u);
  EXPECT_FALSE(SnappyUnpack(packed, 99'999, plain));
  EXPECT_EQ(plain, "");
  for (std::string_view bad :
       {""sv, "\xff\xff\xff\xff\xff"sv, "\x05\x10\x61"sv, "\x01\x00"sv, "\xff\xff\xff\xff\x0f"sv})
    EXPECT_FALSE(SnappyUnpack(bad, SIZE_MAX, plain)) << bad.size();
  // A literal of one byte, in the specification's words: length, tag, byte.
  EXPECT_TRUE(SnappyUnpack("\x01\x00\x61"sv, 1, plain));
  EXPECT_EQ(plain, "a");
}

}  // namespace
}  // namespace gpulens
