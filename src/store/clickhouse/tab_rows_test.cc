#include "store/clickhouse/clickhouse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "base/files.h"

namespace gpulens::clickhouse {
namespace {

// "a=1 b=~" of each row, and how it ended.
std::pair<std::vector<std::string>, Status> Read(std::string_view bytes, size_t step) {
  TabRows rows;
  std::vector<std::string> reported;
  const auto on_row = [&] {
    std::string& row = reported.emplace_back();
    for (int i = 0; i < rows.columns(); ++i)
      row +=
          std::string(rows.ColumnName(i)) + (rows.IsNull(i) ? "~ " : "=" + std::string(rows.Text(i)) + " ");
    return Ok();
  };
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    if (Status status = rows.Feed(bytes.substr(0, step), on_row); !status) return {reported, status};
  }
  return {reported, rows.End()};
}

TEST(TabRows, RowsOfAnyPieces) {
  const std::vector<std::string> expected = {"a=1 b=x\ty ", "a=-2 b~ ", "a= b=\\N\n "};
  for (size_t step = 1; step < 40; ++step) {
    const auto [rows, status] = Read("a\tb\n1\tx\\ty\n-2\t\\N\n\t\\\\N\\n\n", step);
    EXPECT_TRUE(status.ok()) << step << ": " << status.detail;
    EXPECT_EQ(rows, expected) << step;
  }
}

TEST(TabRows, Numbers) {
  TabRows rows;
  int seen = 0;
  const auto on_row = [&] {
    ++seen;
    EXPECT_EQ(rows.MaybeInt(0), -9223372036854775807LL - 1);
    EXPECT_EQ(rows.Real(1), 0.30000000000000004);
    EXPECT_TRUE(std::isnan(rows.Real(2)));
    EXPECT_EQ(rows.MaybeInt(2), std::nullopt);
    EXPECT_EQ(rows.Real(3), 1700000000.1234567);
    EXPECT_EQ(rows.Int(4), 0) << "more than the type holds";
    return Ok();
  };
  EXPECT_TRUE(rows.Feed("a\tb\tc\td\te\n-9223372036854775808\t0.30000000000000004\t\\N\t1700000000.1234567\t"
                        "18446744073709551615\n",
                        on_row)
                  .ok());
  EXPECT_EQ(seen, 1);
}

TEST(TabRows, TheRowStopsIt) {
  TabRows rows;
  int seen = 0;
  const Status status =
      rows.Feed("a\n1\n2\n3\n", [&] { return ++seen == 2 ? Status{Code::kTimeout, "mine"} : Ok(); });
  EXPECT_EQ(status.code, Code::kTimeout);
  EXPECT_EQ(seen, 2);
}

TEST(TabRows, ALineHasALimit) {
  TabRows rows;
  const auto none = [] { return Ok(); };
  const std::string piece(64 << 10, 'x');
  Status status;
  size_t given = 0;
  for (; status && given < 4 * TabRows::kMostLine; given += piece.size()) status = rows.Feed(piece, none);
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_LE(given, TabRows::kMostLine + 2 * piece.size());
}

TEST(TabRows, RefusesInvalidUrls) {
  const std::filesystem::path folder =
      std::string(GPULENS_SOURCE_DIR) + "/src/store/clickhouse/testdata/tab_rows_corpus";
  int good = 0, bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    auto bytes = ReadFile(entry.path());
    ASSERT_TRUE(bytes.ok()) << name;
    const bool taken = Read(*bytes, 7).second.ok();
    // A page of another program is read as names of columns, none of which a caller finds.
    const bool names_alone = name == "bad_html";
    EXPECT_EQ(taken, name.starts_with("good") || names_alone) << name;
    ++(name.starts_with("good") ? good : bad);
  }
  EXPECT_GE(good, 3);
  EXPECT_GE(bad, 8);
}

}  // namespace
}  // namespace gpulens::clickhouse
