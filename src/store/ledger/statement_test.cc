#include "store/ledger/statement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/files.h"
#include "base/hash.h"
#include "base/testing/temp_folder.h"
#include "store/ledger/ledger_testing.h"

namespace gpulens::ledger {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Checked {
  Status status;
  uint64_t entries = 0;
  StatementPart usage, corrections;
  std::string head;
};

Checked Check(std::string text) {
  Checked out;
  // fmemopen cannot open nothing.
  std::FILE* file = text.empty() ? std::fopen("/dev/null", "r") : ::fmemopen(text.data(), text.size(), "r");
  StatementReader reader(file);
  out.status = reader.Begin();
  while (out.status) {
    const auto entry = reader.Next();
    if (!entry) out.status = entry.error();
    if (!entry || !*entry) break;
    ++out.entries;
  }
  std::fclose(file);
  out.usage = reader.usage(), out.corrections = reader.corrections(), out.head = reader.head();
  return out;
}

struct StatementTest : ::testing::Test {
  std::string Statement(int64_t since, int64_t until, const std::string& previous = {}) {
    std::string text;
    const StatementHeader header{file->id(), file->host(), since, until, previous};
    EXPECT_TRUE(WriteStatement(*file, header, [&text](std::string_view line) {
      text += line;
      return Ok();
    }));
    return text;
  }
  void Write(const std::vector<Entry>& entries) { ASSERT_TRUE(file->Write(entries, {}, {})); }

  testing::TempFolder folder;
  const std::unique_ptr<LedgerFile> file = *LedgerFile::Open({.path = folder.path() + "/ledger.db"});
};

TEST_F(StatementTest, ReadsBackAndAddsUpToTheLedger) {
  Write(TestEntries({.gpus = 2, .accounts = 7, .hours = 50}));
  const std::string text = Statement(kTestHour, kTestHour + 50 * 3600);
  const Checked checked = Check(text);
  ASSERT_TRUE(checked.status) << checked.status.detail;
  EXPECT_EQ(checked.entries, 700u);
  EXPECT_EQ(checked.usage.sums, file->Sum({})->front().sums);
  EXPECT_EQ(checked.corrections.count, 0u);
  EXPECT_EQ(Statement(kTestHour, kTestHour + 50 * 3600), text) << "the same ledger gives the same bytes";
}

// As docs/ledger.md has it: anybody can do this with sha256sum.
TEST_F(StatementTest, AHashIsThatOfTheHashBeforeANewlineAndTheLineWithoutIt) {
  Write(TestEntries({.gpus = 1, .accounts = 2, .hours = 1}));
  std::string before{kStatementFormat}, rest = Statement(kTestHour, kTestHour + 3600);
  for (int line = 0; !rest.empty(); ++line) {
    std::string text = rest.substr(0, rest.find('\n'));
    rest.erase(0, text.size() + 1);
    const size_t at = text.find("\"hash\":\"");
    ASSERT_NE(at, std::string::npos);
    const std::string hash = text.substr(at + 8, 64);
    text.erase(at, 8 + 64 + 2);
    Sha256 own;
    own.Add(before + "\n" + text);
    EXPECT_EQ(own.Finish(), hash) << line;
    before = hash;
  }
}

TEST_F(StatementTest, OddTextsAreCanonical) {
  Entry entry = TestEntries({.gpus = 1, .accounts = 1, .hours = 1}).front();
  entry.account.owner.pod = "a\"b\\c\n\x01\xC3\xBC\xE2\x82\xAC\x7F/";
  entry.account.owner.job = "\xFF";
  Write({entry});
  const std::string text = Statement(kTestHour, kTestHour + 3600);
  EXPECT_THAT(text, HasSubstr("\"pod\":\"a\\\"b\\\\c\\n\\u0001\xC3\xBC\xE2\x82\xAC\x7F/\""));
  EXPECT_THAT(text, HasSubstr("\"job\":\"\xEF\xBF\xBD\""));
  EXPECT_TRUE(Check(text).status);
}

TEST_F(StatementTest, ACorrectionOfAClosedPeriodIsInTheNextStatement) {
  Write(TestEntries({.gpus = 1, .accounts = 4, .hours = 48}));
  const std::string first = Statement(kTestHour, kTestHour + 86'400);
  Entry less, more;
  less.window_unix_ms = more.window_unix_ms = (kTestHour + 86'400) * 1000;
  less.for_window_unix_ms = more.for_window_unix_ms = (kTestHour + 86'390) * 1000;
  less.account = TestAccount(0, 2), more.account = TestAccount(0, 3);
  less.amounts.cost_usage_pico = -9, more.amounts.cost_usage_pico = 9;
  Write({less, more});
  EXPECT_EQ(Statement(kTestHour, kTestHour + 86'400), first) << "a closed period does not change";
  const std::string head = Check(first).head;
  const std::string second = Statement(kTestHour + 86'400, kTestHour + 172'800, head);
  const Checked checked = Check(second);
  ASSERT_TRUE(checked.status) << checked.status.detail;
  EXPECT_EQ(checked.corrections.count, 2u);
  EXPECT_TRUE(checked.corrections.sums.cost_usage_pico == 0);
  EXPECT_THAT(second, HasSubstr("\"class\":\"correction\",\"for_hour\":\"2026-11-26T23:00:00Z\""));
  EXPECT_THAT(second, HasSubstr("\"previous\":\"" + head + "\""));
  Totals sum = Check(first).usage.sums;
  sum += checked.usage.sums, sum += checked.corrections.sums;
  EXPECT_EQ(sum, file->Sum({})->front().sums) << "two periods add up to the ledger";
}

TEST_F(StatementTest, EachOfAThousandChangedBytesIsFound) {
  Write(TestEntries({.gpus = 1, .accounts = 6, .hours = 30}));
  const std::string good = Statement(kTestHour, kTestHour + 30 * 3600);
  ASSERT_TRUE(Check(good).status);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    const size_t at = random() % bad.size();
    const char old = bad[at];
    switch (i % 3) {
      case 0: bad[at] = static_cast<char>(random()); break;
      case 1: bad.erase(at, 1); break;
      default: bad.insert(at, 1, static_cast<char>('0' + random() % 10));
    }
    if (bad == good) bad[at] = static_cast<char>(old ^ 1);
    const Checked checked = Check(bad);
    ASSERT_FALSE(checked.status) << i << " at " << at;
    EXPECT_EQ(checked.status.code, Code::kDataLoss);
    EXPECT_THAT(checked.status.detail, StartsWith("line "));
    // The line that was changed, or, where its end went, the one it became.
    const auto line = 1 + std::count(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::string named = "line " + std::to_string(line) + ":",
                      next = "line " + std::to_string(line + 1) + ":";
    EXPECT_TRUE(checked.status.detail.starts_with(named) || checked.status.detail.starts_with(next))
        << checked.status.detail << " instead of " << line;
  }
}

TEST_F(StatementTest, MissingAddedAndSwappedLinesAreFound) {
  Write(TestEntries({.gpus = 1, .accounts = 3, .hours = 30}));
  const std::string good = Statement(kTestHour, kTestHour + 30 * 3600);
  std::vector<std::string> lines;
  for (std::string rest = good; !rest.empty(); rest.erase(0, lines.back().size()))
    lines.push_back(rest.substr(0, rest.find('\n') + 1));
  const auto joined = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += part;
    return text;
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    auto missing = lines, twice = lines, swapped = lines;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    EXPECT_FALSE(Check(joined(missing)).status) << i;
    EXPECT_FALSE(Check(joined(twice)).status) << i;
    if (i + 1 == lines.size()) continue;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_FALSE(Check(joined(swapped)).status) << i;
    const std::vector<std::string> cut(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(Check(joined(cut)).status) << i;
  }
}

// The chain of a changed statement can be made again; then the sums and the ledger still find it.
TEST_F(StatementTest, AChainThatWasMadeAgainDoesNotHideWrongSums) {
  Write(TestEntries({.gpus = 1, .accounts = 2, .hours = 2}));
  std::string text = Statement(kTestHour, kTestHour + 7200), rehashed, before{kStatementFormat};
  const size_t amount = text.find("\"energy_uj\":\"") + 13;
  text[amount] = text[amount] == '9' ? '8' : '9';
  for (std::string rest = text; !rest.empty();) {
    std::string line = rest.substr(0, rest.find('\n'));
    rest.erase(0, line.size() + 1);
    const size_t at = line.find("\"hash\":\"");
    const std::string bare = line.substr(0, at) + line.substr(at + 74);
    Sha256 own;
    own.Add(before + "\n" + bare);
    before = own.Finish();
    rehashed += line.replace(at + 8, 64, before) + "\n";
  }
  const Status status = Check(rehashed).status;
  ASSERT_FALSE(status);
  EXPECT_THAT(status.detail, HasSubstr("line 6: ")) << "the day's root";
}

TEST(MerkleTree, HasTheRootsOfRfc6962) {
  // The tree hashes of the test data of Certificate Transparency's reference implementation.
  const std::vector<std::string> leaves = {
      "",
      {"\0", 1},
      "\x10",
      "\x20\x21",
      "\x30\x31",
      "\x40\x41\x42\x43",
      "\x50\x51\x52\x53\x54\x55\x56\x57",
      "\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f"};
  const std::vector<std::string> roots = {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                          "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                                          "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
                                          "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
                                          "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                                          "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
                                          "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
                                          "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
                                          "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  MerkleTree tree;
  for (size_t i = 0; i <= leaves.size(); ++i) {
    EXPECT_EQ(tree.Root(), roots[i]) << i;
    if (i < leaves.size()) tree.Add(leaves[i]);
  }
}

// The names state what is wrong: bad_… are refused, good_… are not.
TEST(Statement, NamedInputs) {
  const std::string folder = std::string(GPULENS_SOURCE_DIR) + "/src/store/ledger/testdata/statement_corpus";
  size_t bad = 0, good = 0;
  for (const auto& input : std::filesystem::directory_iterator(folder)) {
    const std::string name = input.path().filename();
    const bool is_good = name.starts_with("good_");
    EXPECT_EQ(Check(*ReadFile(input.path().string())).status.ok(), is_good) << name;
    ++(is_good ? good : bad);
  }
  EXPECT_GE(bad, 10u);
  EXPECT_GE(good, 2u);
}

}  // namespace
}  // namespace gpulens::ledger
