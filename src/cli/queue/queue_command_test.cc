#include "cli/queue/queue_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/status/agent_watch.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'763'000'000'000'000'000;

QueueView View() {
  QueueFolder shared;
  shared.path = "/s/queue/otlp";
  shared.in_use = true;
  shared.holder = 17;
  shared.segments = 2;
  shared.file_bytes = 3 << 20;
  shared.readers = {{"otlp", true, 0, 0, 0}, {"otlp/b", false, 1204, 2'500'000, kNow - 7'200'000'000'000}};
  QueueFolder closed;
  closed.path = "/s/queue/\x1b[31m";
  closed.problems = {"open: permission denied"};
  return {"/s/queue", {shared, closed}, ""};
}

TEST(QueueTable, OneLinePerSink) {
  EXPECT_EQ(QueueTable(View(), kNow),
            "SINK    CONFIGURED  REQUESTS     SIZE  OLDEST  FOLDER           FILES  USED BY\n"
            "otlp    yes                0      0 B       –  /s/queue/otlp  3.0 MiB  process 17\n"
            "otlp/b  no             1,204  2.4 MiB     2 h  /s/queue/otlp  3.0 MiB  process 17\n"
            "▲ /s/queue/\x1b[31m: open: permission denied\n")
      << "what steers a terminal is left out as it is written to one";
}

TEST(QueueTable, ReportsNoQueues) {
  EXPECT_EQ(QueueTable({"/s/queue", {}, ""}, kNow), "no sink has a queue in /s/queue\n");
  EXPECT_THAT(QueueTable({}, kNow), HasSubstr("there is no state folder"));
  EXPECT_THAT(QueueTable({"/s/queue", {}, "open /s/queue: permission denied"}, kNow),
              HasSubstr("\n▲ open /s/queue: permission denied\n"));
}

TEST(QueueTable, AgesAreRounded) {
  QueueView view = View();
  const std::pair<int64_t, const char*> kAges[] = {
      {-5, "  0 s  "}, {119, "  119 s  "}, {120, "  2 min  "}, {7'199, "  119 min  "}, {172'800, "  2 d  "}};
  for (const auto& [seconds, text] : kAges) {
    view.folders[0].readers[1].oldest_unix_ns = kNow - seconds * 1'000'000'000;
    EXPECT_THAT(QueueTable(view, kNow), HasSubstr(text));
  }
}

TEST(QueueJson, HasAllMembers) {
  QueueView view = View();
  view.problem = "more";
  EXPECT_EQ(
      QueueJson(view),
      "{\"schema\":\"gpulens.queue/1\",\"root\":\"/s/queue\",\"problem\":\"more\",\"folders\":[\n"
      "{\"folder\":\"/s/queue/"
      "otlp\",\"in_use\":true,\"pid\":17,\"segments\":2,\"file_bytes\":3145728,\"sinks\":["
      "{\"sink\":\"otlp\",\"configured\":true,\"requests\":0,\"bytes\":0},"
      "{\"sink\":\"otlp/b\",\"configured\":false,\"requests\":1204,\"bytes\":2500000,"
      "\"oldest\":\"2025-11-13T00:13:20.000Z\"}],\"problems\":[]},\n"
      "{\"folder\":\"/s/queue/\\u001b[31m\",\"in_use\":false,\"segments\":0,\"file_bytes\":0,\"sinks\":[],"
      "\"problems\":[\"open: permission denied\"]}\n"
      "]}\n");
}

TEST(SizeText, IsShort) {
  EXPECT_EQ(SizeText(0), "0 B");
  EXPECT_EQ(SizeText(1023), "1023 B");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(uint64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(SizeText(UINT64_MAX), "16777216.0 TiB");
}

}  // namespace
}  // namespace gpulens
