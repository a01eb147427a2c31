#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace gpulens {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  void SetUp() override { EXPECT_TRUE(SetLogLevels("info").ok()); }
  void TearDown() override {
    EXPECT_TRUE(SetLogLevels("info").ok());
    SetLogOptions({});
  }
  template <class Do>
  std::string Written(Do&& act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, TextInUtc) {
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kText, .utc = true});
  EXPECT_THAT(Written([] { Log(LogLevel::kWarn, "nvidia", "gpu_lost", "GPU 3 is lost."); }),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z WARN  nvidia   GPU 3 is lost\\. "
                           "\\[gpu_lost\\]\n"));
}

TEST_F(LogTest, TextInLocalTime) {
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kText, .utc = false});
  EXPECT_THAT(
      Written([] { Log(LogLevel::kError, "a_long_part", "local", "Sentence."); }),
      MatchesRegex("[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} ERROR a_long_part Sentence\\. \\[local\\]\n"));
}

TEST_F(LogTest, JournalHasAPriorityAndNoTime) {
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kJournal});
  EXPECT_EQ(Written([] { Log(LogLevel::kError, "http", "journal_id", "Cannot bind."); }),
            "<3>http     Cannot bind. [journal_id]\n");
}

TEST_F(LogTest, JsonIsAlwaysJson) {
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kJson});
  EXPECT_THAT(Written([] { Log(LogLevel::kInfo, "scrape", "json_id", "say \"hi\"\n\xff"); }),
              MatchesRegex("\\{\"ts\":\"[^\"]*Z\",\"level\":\"info\",\"part\":\"scrape\",\"id\":\"json_id\","
                           "\"msg\":\"say \\\\\"hi\\\\\"\\\\n\\\\ufffd\"\\}\n"));
}

TEST_F(LogTest, MessagesCannotForgeLines) {
  std::string line = Written([] { Log(LogLevel::kInfo, "scrape", "forge", "a\nERROR b\x1b[31m"); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("a\\x0aERROR b\\x1b[31m"));
}

TEST_F(LogTest, TheSameLineIsHeldBack) {
  LogCounts before = CurrentLogCounts();
  std::string lines = Written([] {
    for (int i = 0; i < 5; ++i) Log(LogLevel::kWarn, "p", "repeated", "Again.");
    Log(LogLevel::kWarn, "p", "repeated", "Another subject.", "gpu1");
    Log(LogLevel::kWarn, "q", "repeated", "Another part.");
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  LogCounts after = CurrentLogCounts();
  EXPECT_EQ(after.written[3] - before.written[3], 3u);
  EXPECT_EQ(after.suppressed[3] - before.suppressed[3], 4u);
}

TEST_F(LogTest, LevelsPerPart) {
  ASSERT_TRUE(SetLogLevels("warn, nvidia=debug,http=off").ok());
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug, "nvidia"));
  EXPECT_FALSE(LogEnabled(LogLevel::kTrace, "nvidia"));
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo, "scrape"));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn, "scrape"));
  EXPECT_FALSE(LogEnabled(LogLevel::kError, "http"));
  std::string lines = Written([] {
    Log(LogLevel::kDebug, "nvidia", "per_part", "shown");
    Log(LogLevel::kDebug, "nvidia", "per_part", "shown");
    Log(LogLevel::kInfo, "scrape", "per_part", "hidden");
    Log(LogLevel::kError, "http", "per_part", "hidden");
    Log(LogLevel::kOff, "nvidia", "per_part", "hidden");
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << "debug lines are never held back";
  EXPECT_THAT(lines, testing::Not(HasSubstr("hidden")));
}

TEST_F(LogTest, OptionsDoNotForgetTheLevelsOfParts) {
  ASSERT_TRUE(SetLogLevels("info,nvidia=debug").ok());
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kJson});
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug, "nvidia"));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug, "scrape"));
}

TEST_F(LogTest, BadLevelsNameTheWordAndChangeNothing) {
  Status status = SetLogLevels("debug,nvidia=loud");
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.detail, HasSubstr("nvidia=loud"));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug, "x"));
  EXPECT_EQ(SetLogLevels("INFO").code, Code::kInvalidArgument);
  EXPECT_EQ(SetLogLevels("info,,warn").code, Code::kInvalidArgument);
  EXPECT_TRUE(SetLogLevels("").ok());
}

TEST_F(LogTest, ManyThreadsWriteWholeLines) {
  std::string lines = Written([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 10; ++i) {
          Log(LogLevel::kInfo, "p", "thread", "x", std::to_string(t) + "/" + std::to_string(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::string_view rest = lines;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    EXPECT_TRUE(line.ends_with("[thread]")) << line;
    rest.remove_prefix(line.size() + 1);
  }
}

// In a child, so that the other tests do not share its second.
TEST(LogRate, WritesAHundredLinesASecondAndCountsTheRest) {
  EXPECT_EXIT(
      {
        LogCounts before = CurrentLogCounts();
        for (int i = 0; i < 1000; ++i) Log(LogLevel::kInfo, "p", "flood", "x", std::to_string(i));
        LogCounts counts = CurrentLogCounts();
        uint64_t written = counts.written[2] - before.written[2];
        // At most two seconds are touched, and the first was begun by the tests before.
        bool bounded = written <= 200 && counts.suppressed[2] - before.suppressed[2] == 1000 - written;
        for (int i = 0; i < 200 && CurrentLogCounts().written[3] == counts.written[3]; ++i) {
          ::poll(nullptr, 0, 10);
          Log(LogLevel::kWarn, "p", "after", "The flood is over.", std::to_string(i));
        }
        ::_exit(bounded ? 0 : 1);
      },
      testing::ExitedWithCode(0), "lines dropped: more than 100 in one second");
}

TEST(LogRate, RememberedLinesAreBounded) {
  EXPECT_EXIT(
      {
        for (int i = 0; i < 5000; ++i) Log(LogLevel::kInfo, "p", "id", "x", std::to_string(i));
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpulens
