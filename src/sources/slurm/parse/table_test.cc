// Tables: of our own making by name in testdata/bad, and captures of real Slurm where they are here.
#include "sources/slurm/parse/table.h"

#include <gtest/gtest.h>

#include "sources/slurm/parse/slurm_texts_testing.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

TEST(SlurmTable, HeaderAndRows) {
  auto table = ParseTable("A|B |A\n1|2 |x\n\n3|4|y\r\n", "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->At(0, "B"), "2");
  EXPECT_EQ(table->At(1, "A"), "y") << "of columns with one name the last counts";
  EXPECT_EQ(table->At(0, "C"), "");
}

TEST(SlurmTable, RowsThatEndWithADelimiter) {
  constexpr std::string_view kColumns[] = {"ID", "NAME"};
  auto rows = ParseRows("1|#two gpus|#\n2|#a|b|#\n", "|#", kColumns);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->rows.size(), 2u);
  EXPECT_EQ(rows->At(1, "NAME"), "a|b");
  auto headed = ParseTable("A|B|\n1|2|\n", "|");
  ASSERT_TRUE(headed.ok());
  EXPECT_EQ(headed->columns.size(), 2u);
  EXPECT_EQ(headed->rows.size(), 1u);
}

TEST(SlurmTable, ARowOverSeveralLinesIsOneRow) {
  auto table = ParseTable(Bad("name_with_newlines.txt"), "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->At(0, "JobName"), "first line\nsecond line\n\nfourth");
  EXPECT_EQ(table->At(1, "JobID"), "8");
  EXPECT_EQ(table->bad_lines, 0u);
}

TEST(SlurmTable, ABrokenLineCostsNoOtherRow) {
  auto table = ParseTable(Bad("cut_row_between.txt"), "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->At(0, "JobID"), "7");
  EXPECT_EQ(table->At(1, "JobID"), "9");
  EXPECT_EQ(table->bad_lines, 1u);
}

TEST(SlurmTable, TooManyDelimitersAreNoRow) {
  auto table = ParseTable(Bad("delimiter_in_name.txt"), "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 1u);
  EXPECT_EQ(table->At(0, "JobID"), "8");
  EXPECT_EQ(table->bad_lines, 1u);
}

TEST(SlurmTable, LimitsHold) {
  EXPECT_EQ(ParseTable("", "|").error().code, Code::kDataLoss);
  EXPECT_EQ(ParseTable(std::string(300, '|') + "\n1\n", "|").error().code, Code::kDataLoss) << "300 columns";
  EXPECT_EQ(ParseTable("A|B\n1|2\n1|2\n1|2\n", "|", 2).error().code, Code::kExhausted);
  auto endless = ParseTable("A|B\n" + std::string(3u << 20, 'x') + "\n1|2\n", "|");
  ASSERT_TRUE(endless.ok());
  EXPECT_EQ(endless->rows.size(), 1u);
  EXPECT_EQ(endless->bad_lines, 1u);
  std::string lines = "A|B\n";
  for (int i = 0; i < 5000; ++i) lines += "no delimiter\n";
  auto many = ParseTable(lines + "1|2\n", "|");
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->rows.size(), 1u);
  EXPECT_EQ(many->bad_lines, 5000u);
}

TEST(SlurmTable, PiecesOfAnySizeAreTheSame) {
  const std::string text = Bad("name_with_newlines.txt");
  for (size_t step : {1u, 3u, 7u}) {
    size_t rows = 0;
    TableReader reader("|", [&](auto) { return ++rows < 100; });
    for (size_t at = 0; at < text.size(); at += step) reader.Add(std::string_view(text).substr(at, step));
    EXPECT_TRUE(reader.Finish().ok());
    EXPECT_EQ(rows, 2u) << step;
  }
}

TEST(SlurmTable, TheTakerMayStop) {
  size_t rows = 0;
  TableReader reader("|", [&](auto) { return ++rows < 1; });
  EXPECT_FALSE(reader.Add("A|B\n1|2\n3|4\n"));
  EXPECT_EQ(rows, 1u);
}

TEST(SlurmTableCapture, Sacct) {
  NEED_CAPTURE(text, "gcm_sacct-output.txt");
  auto table = ParseTable(text, "|");
  ASSERT_TRUE(table.ok());
  EXPECT_GT(table->rows.size(), 50u);
  EXPECT_EQ(table->bad_lines, 0u);
  EXPECT_EQ(table->At(0, "JobIDRaw"), "8084960.0");
  EXPECT_EQ(table->At(0, "NNodes"), "1");
}

TEST(SlurmTableCapture, SacctWithTraps) {
  for (const char* name : {"gcm_sacct-fake-line-break.txt", "gcm_sacct-one-multiline.txt"}) {
    NEED_CAPTURE(text, name);
    auto table = ParseTable(text, "|#");
    ASSERT_TRUE(table.ok());
    ASSERT_EQ(table->rows.size(), 4u) << name;
    EXPECT_EQ(table->At(2, "JobIDRaw"), "201844");
    EXPECT_EQ(table->At(3, "JobIDRaw"), "201729.batch");
    EXPECT_EQ(table->bad_lines, 0u);
  }
  NEED_CAPTURE(invalid, "gcm_sacct-output-with-invalid-lines.txt");
  auto none = ParseTable(invalid, "|");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->rows.empty());
  EXPECT_EQ(none->bad_lines, 1u);
  NEED_CAPTURE(bytes, "gcm_sacct-output-invalid-utf8.txt");
  auto table = ParseTable(bytes, "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 11u);
  EXPECT_EQ(CleanText(table->At(10, "JobName")), "\xEF\xBF\xBDorted");
}

TEST(SlurmTableCapture, SqueueSinfoSacctmgr) {
  NEED_CAPTURE(sinfo, "gcm_sinfo-output.txt");
  auto nodes = ParseTable(sinfo, "|");
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->rows.size(), 4u);
  EXPECT_EQ(nodes->At(0, "STATE"), "drained*");
  EXPECT_EQ(nodes->At(3, "GRES"), "gpu:gen:2(S:0-1)");
  NEED_CAPTURE(qos, "gcm_sacctmgr-qos.txt");
  auto table = ParseTable(qos, "|");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 5u);
  EXPECT_EQ(TresOf(table->At(1, "GrpTRES"), "gres/gpu"), 8192);
}

}  // namespace
}  // namespace gpulens::slurm
