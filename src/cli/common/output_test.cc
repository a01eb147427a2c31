#include "cli/common/output.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(TextTable, FitsColumnsToCells) {
  TextTable table({"NAME", "N", ""});
  table.AlignRight(1);
  table.Add({"é", "1,204", "x"});
  table.Add({"longer", "7", ""});
  EXPECT_EQ(table.Text(), "NAME        N\né       1,204  x\nlonger      7\n");
}

TEST(TextTable, DropsColumnsThatDoNotFit) {
  TextTable table({"NAME", "CALLS", "COST"});
  table.Add({"a\x1b[2J", "10", "1"});
  EXPECT_EQ(table.Text(18), "NAME      CALLS\na\\x1b[2J  10\n");
  EXPECT_EQ(table.Text(21), table.Text());
  EXPECT_EQ(table.LeftOut(18), 1u);
  EXPECT_EQ(table.LeftOut(0), 0u);
  EXPECT_EQ(table.Text(3), "NAME\na\\x1b[2J\n");
}

TEST(TextTable, ShortensAtCharacters) {
  EXPECT_EQ(Shortened("meta-llama", 10), "meta-llama");
  EXPECT_EQ(Shortened("meta-llama/x", 10), "meta-llam…");
  EXPECT_EQ(Shortened("éééé", 3), "éé…");
}

TEST(CsvField, QuotesWhereNeeded) {
  const auto field = [](std::string_view text) {
    std::string out;
    AppendCsvField(out, text);
    return out;
  };
  EXPECT_EQ(field("plain"), "plain");
  EXPECT_EQ(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
  EXPECT_EQ(field("=1+1"), "\"'=1+1\"");
}

TEST(TerminalLines, EscapesControlCharacters) {
  EXPECT_EQ(TerminalLines(""), "");
  EXPECT_EQ(TerminalLines("a\nb\n"), "a\nb\n");
  EXPECT_EQ(TerminalLines("a\x1b[2J\n\u009bx\r\u202eb"), "a\\x1b[2J\n\\xc2\\x9bx\\x0d\\xe2\\x80\\xaeb");
}

TEST(WrappedLines, BreakBetweenWordsUnderTheLastColumn) {
  EXPECT_EQ(WrappedLines("short\n", 10), "short\n");
  EXPECT_EQ(WrappedLines("one two three four\n\nfive", 10), "one two\n  three\n  four\n\nfive");
  EXPECT_EQ(WrappedLines("  do  a b c d e f g h\n", 12), "  do  a b c\n      d e f\n      g h\n");
  EXPECT_EQ(WrappedLines("é  ééé ééé ééé", 10), "é  ééé ééé\n   ééé") << "characters are counted, not bytes";
}

TEST(WrappedLines, KeepsLongWords) {
  EXPECT_EQ(WrappedLines("see http://a/very/long/place now", 12), "see\n  http://a/very/long/place\n  now");
  EXPECT_EQ(WrappedLines("http://a/very/long/place", 12), "http://a/very/long/place");
  EXPECT_EQ(WrappedLines("key   http://a/very/long/place", 12), "key\n      http://a/very/long/place");
}

}  // namespace
}  // namespace gpulens
