#include "sources/slurm/parse/words.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace gpulens::slurm {
namespace {

TEST(SlurmWords, Spans) {
  EXPECT_EQ(ParseSpan("1-02:03:04"), 86400 + 2 * 3600 + 3 * 60 + 4);
  EXPECT_EQ(ParseSpan("02:03:04"), 7384);
  EXPECT_EQ(ParseSpan("03:04"), 184);
  EXPECT_EQ(ParseSpan("2-03"), 2 * 86400 + 3 * 3600);
  EXPECT_DOUBLE_EQ(ParseSpan("00:23.779").value_or(0), 23.779);
  for (const char* wrong :
       {"", "UNLIMITED", "12", "1:2:3:4", "-1:00", "a:b", "1--2", "1:", "99999999-00:00:00", "1:nan", "N/A"})
    EXPECT_FALSE(ParseSpan(wrong)) << wrong;
}

TEST(SlurmWords, SizesAndCounts) {
  EXPECT_EQ(ParseSize("64G"), 64.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(ParseSize("64Gn"), 64.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(ParseSize("4.50K"), 4608);
  EXPECT_EQ(ParseSize("500000", 1024.0 * 1024), 500000.0 * 1024 * 1024);
  EXPECT_EQ(ParseCount("1.5K"), 1500);
  for (const char* wrong : {"", "G", "-1", "1e400", "nan", "inf", "0x10", "1GG", "12 G"}) {
    EXPECT_FALSE(ParseSize(wrong)) << wrong;
    EXPECT_FALSE(ParseCount(wrong)) << wrong;
  }
}

TEST(SlurmWords, TresAreNamedNumbers) {
  constexpr std::string_view kText = "billing=28672,cpu=12288,gres/gpu=1024,mem=60T,node=128,broken,x=,=3";
  EXPECT_EQ(ParseTres(kText).size(), 5u);
  EXPECT_EQ(TresOf(kText, "gres/gpu"), 1024);
  EXPECT_EQ(TresOf(kText, "mem"), 60.0 * 1024 * 1024 * 1024 * 1024);
  EXPECT_EQ(TresOf("cpu=1,mem=256", "mem"), 256.0 * 1024 * 1024) << "without a letter it is MiB";
  EXPECT_FALSE(TresOf("", "cpu"));
}

TEST(SlurmWords, TimesAreReadAsUtc) {
  EXPECT_EQ(ParseTime("2026-11-22T10:40:06"), 1795344006);
  EXPECT_EQ(TimeText(1795344006), "2026-11-22T10:40:06");
  for (const char* wrong :
       {"", "Unknown", "N/A", "2026-13-22T10:40:06", "2026-11-22 10:40:06", "11/22-10:40:06"})
    EXPECT_FALSE(ParseTime(wrong)) << wrong;
}

TEST(SlurmWords, Indices) {
  EXPECT_EQ(ParseIndices("0,4-5"), (std::vector<int>{0, 4, 5}));
  EXPECT_EQ(ParseIndices("3,1,3"), (std::vector<int>{1, 3}));
  for (const char* wrong : {"N/A", "5-4", "0-99999", "1,x", "-1"}) EXPECT_FALSE(ParseIndices(wrong)) << wrong;
}

TEST(SlurmWords, HostLists) {
  constexpr std::string_view kList = "node[1433,1787,1889-1890],gpu7,rack[1-2]n[01-12],x[8-12]";
  for (const char* host : {"node1433", "node1890", "gpu7", "rack2n12", "rack1n01", "x8", "x12", "x9"})
    EXPECT_TRUE(HostListHas(kList, host)) << host;
  for (const char* host : {"node1891", "node143", "node", "gpu70", "rack3n01", "rack1n1", "rack1n13", "x08",
                           "x13", "", "node1433x"})
    EXPECT_FALSE(HostListHas(kList, host)) << host;
  EXPECT_TRUE(HostListHas("n[0-18446744073709551615]", "n7")) << "never unfolded";
  EXPECT_FALSE(HostListHas("n[1", "n1"));
  EXPECT_FALSE(HostListHas("a[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]", "a11111111"));
  EXPECT_FALSE(HostListHas("(null)", "node1"));
}

TEST(SlurmWords, NamesOfColumns) {
  EXPECT_EQ(SnakeCase("ReqTRES"), "req_tres");
  EXPECT_EQ(SnakeCase("CPUTimeRAW"), "cpu_time_raw");
  EXPECT_EQ(SnakeCase("JobIDRaw"), "job_id_raw");
  EXPECT_EQ(SnakeCase("CPUS(A/I/O/T) "), "cpus_a_i_o_t");
  EXPECT_EQ(SnakeCase("S:C:T"), "s_c_t");
  EXPECT_EQ(SnakeCase("PREEMPT_MODE"), "preempt_mode");
  EXPECT_EQ(SnakeCase("TRESUsageInAve"), "tres_usage_in_ave");
  EXPECT_EQ(SnakeCase("TotalCPUs"), "total_cpus");
  EXPECT_EQ(SnakeCase("MaxCPUsPerNode"), "max_cpus_per_node");
  EXPECT_EQ(SnakeCase("///"), "");
}

TEST(SlurmWords, TextsOfUsersAreMadeSafe) {
  EXPECT_EQ(CleanText("a\xffz\x1b[31m"), "a\xEF\xBF\xBDz [31m");
  EXPECT_TRUE(IsUtf8(CleanText("\xc3\x28\xf0\x9f")));
  EXPECT_TRUE(IsAbsent(" (null) "));
  EXPECT_FALSE(IsAbsent("UNLIMITED")) << "that is an answer";
}

TEST(SlurmGres, OfNodesAndJobs) {
  auto two = ParseGres("gpu:tesla:2(S:0-1),gpu:kepler:2(S:0-1)");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].type, "kepler");
  EXPECT_EQ(GresCount("gpu:tesla:1(IDX:0),gpu:kepler:0(IDX:N/A)", "gpu"), 1);
  auto used = ParseGres("gpu:a100:3(IDX:0,4-5)");
  ASSERT_EQ(used.size(), 1u);
  EXPECT_EQ(used[0].indices, (std::vector<int>{0, 4, 5}));
  EXPECT_EQ(used[0].count, 3);
  auto counted = ParseGres("gpu:fake(CNT:2)");
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_EQ(counted[0].count, 2);
  EXPECT_EQ(counted[0].type, "fake");
  EXPECT_FALSE(counted[0].indices);
  EXPECT_EQ(ParseGres("gres:gpu:2").at(0).name, "gpu");
  EXPECT_EQ(ParseGres("gres/gpu:8").at(0).count, 8);
  EXPECT_EQ(ParseGres("gpu").at(0).count, 1);
  EXPECT_TRUE(ParseGres("(null)").empty());
  EXPECT_TRUE(ParseGres("").empty());
  EXPECT_FALSE(GresCount("(null)", "gpu"));
  EXPECT_FALSE(ParseGres("gpu:a100:8(IDX:0-3)").at(0).indices) << "a count and a list that differ";
}

TEST(ParseWhen, AsPeopleType) {
  constexpr int64_t kNow = 1795344006;  // 2026-11-22T10:40:06Z
  EXPECT_EQ(*ParseWhen("now", kNow), kNow);
  EXPECT_EQ(*ParseWhen("3 hours ago", kNow), kNow - 3 * 3600);
  EXPECT_EQ(*ParseWhen("1 day ago", kNow), kNow - 86400);
  EXPECT_EQ(*ParseWhen("2026-11-22T10:40:06", 0), kNow);
  EXPECT_EQ(*ParseWhen("2026-11-22 10:40:06Z", 0), kNow);
  EXPECT_EQ(*ParseWhen("2026-11-22T10:40", 0), kNow - 6);
  EXPECT_EQ(*ParseWhen("2026-11-22", 0) % 86400, 0);
  for (const char* wrong :
       {"", "yesterday", "-3 hours ago", "3 years ago", "hours ago", "2026-13-01", "9999999 weeks ago"})
    EXPECT_EQ(ParseWhen(wrong, kNow).error().code, Code::kInvalidArgument) << wrong;
}

}  // namespace

}  // namespace gpulens::slurm
