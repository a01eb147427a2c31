#include "cli/why/why_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"

namespace gpulens {
namespace {

std::string WhyCorpus(const std::string& name) {
  const auto text = ReadFile(GPULENS_SOURCE_DIR "/src/cli/why/testdata/why_page_corpus/" + name, 1 << 20);
  EXPECT_TRUE(text) << text.error().detail;
  return text ? *text : std::string();
}

TEST(WhyPage, IsTextForPeople) {
  const auto page = ParseWhyPage(WhyCorpus("full"));
  ASSERT_TRUE(page) << page.error().detail;
  EXPECT_EQ(page->wait_seconds, 12);
  EXPECT_EQ(WhyText(*page, "the agent"), R"(1 thing holds work back, by the agent
SIMULATED: these GPUs and engines are made up.

GPU 2, ml/pod-2: Power limit
  Clocks are held down 83 % of the time by the power limit of 500 W.
  since     2 m 12 s
  costs     at most 12 % of useful time
            = share × loss
  shown by  gpu.throttle.time{gpu.index=2,gpu.throttle.cause=power_software} 83 %, mean of 60 s
            gpu.power.limit –, mean of 60 s
            inference.tokens.prompt 6,593 /s, mean of 60 s
  sure      high
  do        Raise it.
  source    NVML

Looked at, and not found
  Power brake                     GPU 0-7

Could not be looked at
  One slow GPU                    GPU 0-7: no series gpu.clock.frequency
  Queue                           no series of an engine
)");
}

TEST(WhyPage, WrongPagesAreRefused) {
  for (const char* name : {"cut_short", "another_page", "too_deep"})
    EXPECT_FALSE(ParseWhyPage(WhyCorpus(name))) << name;
  for (const char* text : {"", "<html>", "[]"}) EXPECT_FALSE(ParseWhyPage(text)) << text;
}

TEST(WhyPage, NumbersThatAreNoneAreAbsent) {
  const auto page = ParseWhyPage(WhyCorpus("numbers_out_of_range"));
  ASSERT_TRUE(page) << page.error().detail;
  EXPECT_EQ(page->to_ms, 0);
  EXPECT_EQ(page->wait_seconds, 0);
  ASSERT_EQ(page->findings.size(), 1u);
  EXPECT_TRUE(std::isnan(page->findings[0].cost));
  EXPECT_NE(WhyText(*page, "x").find("costs     unknown"), std::string::npos);
  EXPECT_TRUE(ParseWhyPage(WhyCorpus("escapes")));
}

}  // namespace
}  // namespace gpulens
