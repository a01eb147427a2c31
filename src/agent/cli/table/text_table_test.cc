#include "agent/cli/table/text_table.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({"NAME", "N", ""});
  table.AlignRight(1);
  table.Add({"é", "1,204", "x"});
  table.Add({"longer", "7", ""});
  EXPECT_EQ(table.Text(), "NAME        N\né       1,204  x\nlonger      7\n");
}

TEST(TextTable, WhatDoesNotFitIsLeftOutFromTheRight) {
  TextTable table({"NAME", "CALLS", "COST"});
  table.Add({"a\x1b[2J", "10", "1"});
  EXPECT_EQ(table.Text(18), "NAME      CALLS\na\\x1b[2J  10\n");
  EXPECT_EQ(table.Text(21), table.Text());
  EXPECT_EQ(table.LeftOut(18), 1u);
  EXPECT_EQ(table.LeftOut(0), 0u);
  EXPECT_EQ(table.Text(3), "NAME\na\\x1b[2J\n");
}

TEST(TextTable, LongCellsAreCutAtACharacter) {
  EXPECT_EQ(Shortened("meta-llama", 10), "meta-llama");
  EXPECT_EQ(Shortened("meta-llama/x", 10), "meta-llam…");
  EXPECT_EQ(Shortened("éééé", 3), "éé…");
}

TEST(CsvField, IsQuotedWhereItMustBe) {
  const auto field = [](std::string_view text) {
    std::string out;
    AppendCsvField(out, text);
    return out;
  };
  EXPECT_EQ(field("plain"), "plain");
  EXPECT_EQ(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
  EXPECT_EQ(field("=1+1"), "\"'=1+1\"");
}

TEST(TerminalLines, LinesStayAndNothingSteers) {
  EXPECT_EQ(TerminalLines(""), "");
  EXPECT_EQ(TerminalLines("a\nb\n"), "a\nb\n");
  EXPECT_EQ(TerminalLines("a\x1b[2J\n\u009bx\r\u202eb"), "a\\x1b[2J\n\\xc2\\x9bx\\x0d\\xe2\\x80\\xaeb");
}

}  // namespace
}  // namespace gpulens
