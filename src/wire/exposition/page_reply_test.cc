#include "wire/exposition/page_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/files.h"
#include "wire/exposition/page_reply_testing.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using exposition_testing::TryReplies;
using exposition_testing::TwoPages;
using ::testing::HasSubstr;

constexpr auto kOpenMetricsReply = ExpositionFormat::kOpenMetrics100;
constexpr std::string_view kHistogramPage =
    "# HELP h Seconds.\n# TYPE h histogram\nh_bucket{m=\"a\",le=\"0.5\"} 1\nh_bucket{m=\"a\",le=\"+Inf\"} 4\n"
    "h_sum{m=\"a\"} 2.5\nh_count{m=\"a\"} 4\n";

std::string FolderOf(const char* name) {
  return std::string(GPULENS_SOURCE_DIR) + "/src/wire/exposition/testdata/" + name;
}

TEST(PageReply, IsThePageThatTheProcessRead) {
  TwoPages pages;
  const std::string body = std::string(kHistogramPage) +
                           "# TYPE c counter\nc_total{z=\"1\",a=\"\\\"q\\\\\"} 7 1000\nc_total{z=\"2\"} "
                           "NaN\n# TYPE s summary\ns{quantile=\"0.9\"} 1\ns_sum 3\n"
                           "# TYPE i info\ni_info{v=\"x\"} 1\nplain -0\nplain 3\nno number\n";
  EXPECT_EQ(pages.Read(body).fault, PageFault::kNone);
  EXPECT_EQ(pages.Differ(), "");
  ASSERT_EQ(pages.decoded.bad_examples().size(), 1U);
  EXPECT_EQ(pages.decoded.bad_examples()[0].excerpt, "no number");
  EXPECT_EQ(pages.decoded.report().duplicates, 1U);
  for (const ExpositionFamily& family : pages.decoded.families()) {
    if (family.name == "c" || family.name == "i") {
      EXPECT_EQ(family.suffixed, true) << family.name;
    }
  }
}

TEST(PageReply, OfTheSameSeriesIsNumbersAlone) {
  TwoPages pages;
  pages.Read(kHistogramPage);
  const size_t first = pages.reply.size();
  const uint64_t generation = pages.decoded.generation();
  std::string later(kHistogramPage);
  later.replace(later.find("2.5"), 3, "9.5");
  pages.Read(later);
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_LT(pages.reply.size(), first - 50);
  EXPECT_EQ(pages.decoded.generation(), generation);
  EXPECT_TRUE(pages.decoded.appeared().empty());
}

TEST(PageReply, SeriesComeGoAndChangeTheirCells) {
  TwoPages pages;
  pages.Read("# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 2\n" + std::string(kHistogramPage));
  EXPECT_EQ(pages.decoded.appeared().size(), 3U);
  pages.Read("# TYPE a gauge\na{x=\"2\"} 3\na{x=\"3\"} 4\n" + std::string(kHistogramPage) +
             "h_bucket{m=\"a\",le=\"1\"} 2\n");
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_EQ(pages.decoded.appeared().size(), 1U);
  EXPECT_EQ(pages.decoded.vanished().size(), 1U);
  EXPECT_EQ(pages.decoded.reshaped().size(), 1U);
  pages.Read("# TYPE a counter\na{x=\"2\"} 3\na{x=\"3\"} 4\n" + std::string(kHistogramPage));
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_EQ(pages.decoded.appeared().size(), 2U) << "of another type they are others";
  EXPECT_EQ(pages.decoded.vanished().size(), 2U);
  pages.Read("");
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_EQ(pages.decoded.vanished().size(), 3U);
}

TEST(PageReply, OfANewProcessNamesTheSameSeries) {
  TwoPages pages;
  const std::string body =
      "# TYPE a gauge\na{x=\"1\",y=\"2\"} 1\na{x=\"2\"} 2\n" + std::string(kHistogramPage);
  pages.Read(body);
  pages.Read("# TYPE b gauge\nb 1\n" + body);
  const uint64_t generation = pages.decoded.generation();
  pages.Restart();
  pages.Read("# TYPE b gauge\nb 1\n" + body);
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_EQ(pages.decoded.generation(), generation) << "nobody notices the other process";
  pages.Restart();
  pages.Read("# TYPE a gauge\na{y=\"2\",x=\"1\"} 5\n");
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_TRUE(pages.decoded.appeared().empty()) << "the order of labels is no identity";
  EXPECT_EQ(pages.decoded.vanished().size(), 3U);
}

TEST(PageReply, OfAPageThatIsCutKeepsWhatItLacks) {
  TwoPages pages;
  const std::string body = "# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 2\n";
  pages.Read(body + "# EOF\n", kOpenMetricsReply);
  EXPECT_EQ(pages.Read("# TYPE a gauge\na{x=\"1\"} 3\n", kOpenMetricsReply).fault, PageFault::kCut);
  EXPECT_EQ(pages.Differ(), "");
  std::vector<uint32_t> ids;
  pages.decoded.Series(ids);
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(pages.Read("<html>\n", kOpenMetricsReply).fault, PageFault::kCut);
  EXPECT_EQ(pages.Differ(), "");
  pages.Read(body + "# EOF\n", kOpenMetricsReply);
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_TRUE(pages.decoded.appeared().empty());
}

TEST(PageReply, NamesTheLimitThatThePageExceeds) {
  ExpositionLimits limits;
  limits.samples = 3;
  limits.families = 2;
  limits.page_bytes = 200;
  TwoPages pages(limits);
  pages.Read("a 1\n");
  EXPECT_EQ(pages.Read("a 1\na 2\na 3\na 4\n").fault, PageFault::kSamples);
  EXPECT_EQ(pages.Read("a 1\nb 2\nc 3\n").fault, PageFault::kFamilies);
  const PageReading large = pages.Read(std::string(300, '\n'));
  EXPECT_EQ(large.fault, PageFault::kTooLarge);
  EXPECT_THAT(large.status().detail, HasSubstr("the limit is 200"));
  pages.Read("a 1\n");
  EXPECT_EQ(pages.Differ(), "");
  EXPECT_TRUE(pages.decoded.appeared().empty());
}

TEST(ReadPage, UnpacksWithinTheLimit) {
  std::string packed, unpacked;
  GzipCompressor().Compress("a 1\n" + std::string(100'000, '\n'), packed);
  ScrapedPage page;
  EXPECT_EQ(ReadPage({packed, ExpositionFormat::kText004, true}, 200'000, unpacked, page).fault,
            PageFault::kNone);
  EXPECT_EQ(page.report().samples, 1U);
  EXPECT_EQ(ReadPage({packed, ExpositionFormat::kText004, true}, 50'000, unpacked, page).fault,
            PageFault::kTooLarge);
  EXPECT_EQ(ReadPage({"\x1f\x8b!", ExpositionFormat::kText004, true}, 50'000, unpacked, page).fault,
            PageFault::kNotGzip);
}

// Replaces the last `from` of a reply to `body` by bytes of the same length, and returns the answer.
std::string Refusal(std::string_view body, std::string_view from, std::string_view to) {
  TwoPages pages;
  pages.Read(body);
  std::string reply = pages.reply;
  const size_t at = reply.rfind(from);
  if (at == std::string::npos) return "it is not in the reply";
  reply.replace(at, from.size(), to);
  DecodedPage page;
  const auto taken = page.Update(reply);
  std::vector<uint32_t> ids;
  page.Series(ids);
  EXPECT_TRUE(taken.ok() || ids.empty()) << "a refused reply changes nothing";
  return taken.ok() ? "" : taken.error().detail;
}

TEST(PageReply, IsRefusedWhenItLies) {
  const std::string_view two =
      "# TYPE aa gauge\naa{xx=\"11\",yy=\"33\"} 1\naa{xx=\"22\",yy=\"33\"} 2\n# TYPE bb gauge\nbb 3\n";
  EXPECT_EQ(Refusal(two, "33", "44"), "");
  EXPECT_THAT(Refusal(two, "22", "11"), HasSubstr("a series is there twice"));
  EXPECT_THAT(Refusal(two, "yy", "xx"), HasSubstr("a label has no name of its own"));
  EXPECT_THAT(Refusal(two, "22", "\xC3("), HasSubstr("not UTF-8"));
  EXPECT_THAT(Refusal(two, "bb", "aa"), HasSubstr("a family has no name of its own"));
  EXPECT_THAT(Refusal("# TYPE h histogram\nh_bucket{lf=\"1\",le=\"2\"} 1\n", "lf", "le"),
              HasSubstr("a bound is there twice"));
  EXPECT_THAT(Refusal("# TYPE h histogram\nh_bucket{le=\"2.25\"} 1\n", "2.25", "2.26"),
              HasSubstr("a bound is not its text"));
  EXPECT_THAT(Refusal("# TYPE h histogram\nh_bucket{le=\"2.25\"} 1\n", "2.25", "0x25"),
              HasSubstr("a bound is not its text"));
  const std::string inf = "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 1\n";
  EXPECT_THAT(Refusal(inf,
                      std::string("\0\0\0\0\0\0\0\x40\1\0\0\0"
                                  "2",
                                  13),
                      std::string("\0\0\0\0\0\0\xF0\x3F\1\0\0\0"
                                  "1",
                                  13)),
              HasSubstr("not in order"));
}

TEST(PageReply, IsRefusedWhenItIsCutOrLonger) {
  TwoPages pages;
  pages.Read(std::string(kHistogramPage) + "c 4 5\n");
  for (size_t size = 0; size < pages.reply.size(); ++size) {
    DecodedPage page;
    EXPECT_FALSE(page.Update(std::string_view(pages.reply).substr(0, size)).ok()) << size;
  }
  DecodedPage page;
  EXPECT_FALSE(page.Update(pages.reply + "x").ok());
  EXPECT_TRUE(page.Update(pages.reply).ok());
}

// What the fuzzer does, with bytes of a seed, so that each build tries some.
TEST(PageReply, BrokenBytesBreakNothing) {
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string input(1 + random() % 60, '\0');
    for (char& byte : input) byte = static_cast<char>(random());
    input[0] = static_cast<char>(input[0] | 1);
    TryReplies(input);
  }
}

TEST(PageReply, SeedsOfTheFuzzers) {
  int files = 0;
  for (const char* folder : {"page_reply_corpus", "exposition_invalid", "exposition_page_corpus"}) {
    if (!std::filesystem::exists(FolderOf(folder))) continue;
    for (const auto& entry : std::filesystem::directory_iterator(FolderOf(folder))) {
      const auto bytes = ReadFile(entry.path().string(), 1 << 20);
      ASSERT_TRUE(bytes.ok());
      ++files;
      TryReplies(*bytes);
      for (char mode : {'\0', '\2', '\4'}) TryReplies(mode + *bytes);
    }
  }
  EXPECT_GT(files, 30);
}

}  // namespace
}  // namespace gpulens
