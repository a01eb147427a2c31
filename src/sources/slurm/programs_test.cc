#include "sources/slurm/programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sources/slurm/parse/table.h"

namespace gpulens::slurm {
namespace {

TEST(SlurmDelimiter, IsAnotherOneEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    std::string one = MakeDelimiter();
    EXPECT_EQ(one.size(), 14u);
    EXPECT_TRUE(one.starts_with("|#"));
    EXPECT_TRUE(std::all_of(one.begin() + 2, one.end(), [](unsigned char c) { return std::isalnum(c); }))
        << one;
    seen.insert(std::move(one));
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// Whatever users write into their texts, each row comes out as it was, and so do its neighbours.
TEST(SlurmDelimiter, NoTextBreaksATable) {
  constexpr std::string_view kColumns[] = {"ID", "NAME", "COMMENT", "STATE"};
  std::mt19937 random(7);
  const std::string pieces[] = {
      "|#", "|", "#", "\n", "\r\n", "\x01", "\xff\xfe", "a", "JobId=1", "\n2|#x|#y|#z|#\n", "  "};
  for (int round = 0; round < 300; ++round) {
    const std::string delimiter = MakeDelimiter();
    std::vector<std::vector<std::string>> rows;
    std::string text;
    for (int row = 0; row < 5; ++row) {
      std::vector<std::string> values = {std::to_string(row), "n", "c", "RUNNING"};
      for (const size_t user : {size_t{1}, size_t{2}}) {
        for (size_t i = random() % 8; i > 0; --i) values[user] += pieces[random() % std::size(pieces)];
        values[user] += ".";  // blanks at the ends are trimmed
      }
      for (const std::string& value : values) text += value + delimiter;
      text += '\n';
      rows.push_back(std::move(values));
    }
    auto table = ParseRows(text, delimiter, kColumns);
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->bad_lines, 0u);
    ASSERT_EQ(table->rows.size(), rows.size()) << text;
    for (size_t row = 0; row < rows.size(); ++row) {
      EXPECT_EQ(table->rows[row][0], rows[row][0]);
      EXPECT_EQ(table->rows[row][3], "RUNNING");
    }
  }
}

TEST(SlurmDelimiter, ANameOfManyLinesIsOneRow) {
  const std::string delimiter = MakeDelimiter(), name = "a" + std::string(65'000, '\n') + "b";
  auto row = [&](const std::string& id, const std::string& text) {
    return id + delimiter + text + delimiter + "RUNNING" + delimiter + "\n";
  };
  constexpr std::string_view kColumns[] = {"ID", "NAME", "STATE"};
  auto table = ParseRows(row("1", "x") + row("2", name) + row("3", "y"), delimiter, kColumns);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_EQ(table->rows[1][1], name);
  EXPECT_EQ(table->bad_lines, 0u);
}

}  // namespace
}  // namespace gpulens::slurm
