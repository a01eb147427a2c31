#include "cli/recorder/recorder_command.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpulens {
namespace {

using torch_recorder::Mismatch;
using torch_recorder::RecorderDump;
using torch_recorder::RecorderFinding;

TEST(FlightRecorderCommand, NamesTheRank) {
  RecorderFinding finding;
  finding.mismatch = Mismatch::kNotCalled;
  finding.group = "0", finding.group_description = "default_pg", finding.name = "nccl:all_reduce";
  finding.sequence = 1204;
  finding.culprits = {3};
  finding.waiting = {0, 1, 2};
  finding.absent = {4, 5};
  const std::vector<RecorderDump> dumps(4);
  EXPECT_EQ(RecorderText(finding, dumps),
            "rank 3 did not call nccl:all_reduce number 1204 of the process group 0 (default_pg)\n"
            "  ranks 0-2 in it, not complete\n"
            "  no dump of ranks 4, 5: nothing is known of them\n"
            "  4 dumps, 0 collectives\n");
  const std::string json = RecorderJson(finding, dumps);
  EXPECT_NE(json.find("\"mismatch\":\"not_called\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"culprits\":[3]"), std::string::npos) << json;
}

TEST(FlightRecorderCommand, TextOfADumpDoesNotReachTheTerminalRaw) {
  RecorderFinding finding;
  finding.mismatch = Mismatch::kDifferent;
  finding.name = "\x1b[2J";
  finding.culprits = {1};
  EXPECT_EQ(RecorderText(finding, {}).find('\x1b'), std::string::npos);
}

TEST(FlightRecorderCommand, ManyRanks) {
  EXPECT_EQ(RanksText({}), "");
  const std::vector<int> some{0, 1, 2, 3, 7, 9, 10};
  EXPECT_EQ(RanksText(some), "0-3, 7, 9, 10");
  std::vector<int> many;
  for (int i = 0; i < 100; i += 2) many.push_back(i);
  EXPECT_TRUE(RanksText(many).ends_with("38, …"));
}

}  // namespace
}  // namespace gpulens
