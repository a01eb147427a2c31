#include "cli/top/top_screen.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/top/terminal_entries.h"
#include "cli/top/top_json.h"
#include "cli/top/top_terminal.h"
#include "cli/top/top_testing.h"

namespace gpulens {
namespace {

TopSize SizeOf(size_t columns, size_t rows, bool ascii = false) {
  TopSize size;
  size.columns = columns;
  size.rows = rows;
  size.ascii = ascii;
  size.now_ms = NodeOfTests().at_ms + 1000;
  return size;
}

// Compares with a file of testdata/, or writes it: GPULENS_WRITE_GOLDEN=1.
void ExpectGolden(const std::string& name, const std::vector<TopLine>& lines) {
  const std::string path = GPULENS_SOURCE_DIR "/src/cli/top/testdata/" + name + ".txt";
  const std::string text = TopPlainText(lines);
  if (std::getenv("GPULENS_WRITE_GOLDEN")) {
    ASSERT_TRUE(WriteFileAtomically(path, text));
  }
  const auto expected = ReadFile(path, 1 << 20);
  ASSERT_TRUE(expected) << expected.error().detail;
  EXPECT_EQ(text, *expected) << name << ": GPULENS_WRITE_GOLDEN=1 writes it again";
}

std::string TextOf(const TopNode& node, const TopTyped& typed, const TopSize& size) {
  return TopPlainText(TopScreen(node, typed, size));
}

TEST(TopScreen, LooksLikeTheFiles) {
  const TopNode node = NodeOfTests();
  ExpectGolden("60x20", TopScreen(node, {}, SizeOf(60, 20)));
  ExpectGolden("80x24", TopScreen(node, {}, SizeOf(80, 24)));
  ExpectGolden("80x24_ascii", TopScreen(node, {}, SizeOf(80, 24, true)));
  ExpectGolden("200x60", TopScreen(node, {}, SizeOf(200, 60)));
  ExpectGolden("once", TopScreen(node, {}, SizeOf(80, 0)));
  TopTyped typed;
  typed.section = TopSection::kGpu;
  typed.selected = 5;
  ExpectGolden("lost_gpu_80x24", TopScreen(node, typed, SizeOf(80, 24)));
  TopNode with_charts = node;
  with_charts.charts = {{"busy", "%", 100, 100, {0.1, kNotMeasured, 0.5, 1}},
                        {"power", "W", 1, 700, {70, 350, 700}}};
  typed.selected = 0;
  ExpectGolden("detail_120x30", TopScreen(with_charts, typed, SizeOf(120, 30)));
  typed = {};
  typed.help = true;
  ExpectGolden("help_80x24", TopScreen(node, typed, SizeOf(80, 24)));
}

TEST(TopScreen, EmptyAndAwayNodes) {
  TopNode empty;
  empty.name = "laptop";
  empty.address = "this process";
  empty.direct = true;
  empty.why_direct = "no agent answers on this machine";
  empty.at_ms = NodeOfTests().at_ms;
  empty.events_known = true;
  ExpectGolden("no_gpu_80x24", TopScreen(empty, {}, SizeOf(80, 24)));
  TopNode away = NodeOfTests();
  away.away_since_ms = away.at_ms - 11'000;
  away.away_why = "connection refused; is the agent running, and is this its port?";
  ExpectGolden("away_80x24", TopScreen(away, {}, SizeOf(80, 24)));
  const TopNode node = NodeOfTests();
  const TopNode* nodes[] = {&node, &away, &empty};
  ExpectGolden("nodes_80x24", TopNodesScreen(nodes, {}, SizeOf(80, 24)));
}

TEST(TopScreen, SimulatedIsReportedAtEverySize) {
  TopNode node = NodeOfTests();
  node.simulated = true;
  node.name = "a-host-with-a-very-long-name-that-takes-the-whole-line.example.org";
  for (size_t columns : {40u, 60u, 80u, 200u}) {
    for (bool away : {false, true}) {
      node.away_since_ms = away ? 1 : 0;
      EXPECT_NE(TextOf(node, {}, SizeOf(columns, 20)).find("SIMULATED"), std::string::npos) << columns;
    }
  }
}

// Every line fits, whatever the size, the section, and the names are.
TEST(TopScreen, NothingWraps) {
  TopNode node = NodeOfTests();
  const std::string hostile[] = {std::string(300, 'x'),
                                 "\x1b[2J\x1b]0;title\x07",
                                 "a\nb\rc\td",
                                 "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
                                 "e\u0301e\u0301e\u0301",
                                 "\xff\xfe bad",
                                 "\u202egnp.exe",
                                 "🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀"};
  size_t next = 0;
  auto name = [&] { return hostile[next++ % std::size(hostile)]; };
  for (int round = 0; round < 8; ++round, ++next) {
    node.name = name();
    for (TopGpu& gpu : node.gpus) {
      gpu.model = name();
      gpu.runs = name();
      gpu.trouble = name();
      for (TopProcess& process : gpu.processes) process.name = process.user = process.where = name();
    }
    for (TopEngine& engine : node.engines) engine.name = engine.model = engine.engine = name();
    for (TopJob& job : node.jobs) job.who = name();
    for (TopEvent& event : node.events) event.text = event.who = name();
    node.away_why = node.why_direct = name();
    for (const auto& [columns, rows] :
         {std::pair<size_t, size_t>{20, 5}, {40, 10}, {60, 20}, {80, 24}, {133, 40}, {200, 60}}) {
      for (int section = 0; section <= 6; ++section) {
        for (bool ascii : {false, true}) {
          TopTyped typed;
          typed.section = static_cast<TopSection>(section);
          typed.selected = 3;
          typed.filter = round == 7 ? "x" : "";
          const std::vector<TopLine> lines = TopScreen(node, typed, SizeOf(columns, rows, ascii));
          EXPECT_LE(lines.size(), rows);
          for (const TopLine& line : lines) {
            std::string text;
            for (const TopRun& run : line) text += run.text;
            EXPECT_LE(TerminalWidth(text), columns) << text;
            for (char c : text) {
              EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << "a control character";
              EXPECT_TRUE(!ascii || static_cast<unsigned char>(c) < 0x80) << text;
            }
          }
        }
      }
    }
  }
}

TEST(TopScreen, UnknownIsADashAndStaleHasItsAge) {
  TopNode node = NodeOfTests();
  const std::string text = TextOf(node, {}, SizeOf(100, 24));
  EXPECT_NE(text.find("~12 s"), std::string::npos) << text;
  const size_t dead = text.find("✖   5");
  ASSERT_NE(dead, std::string::npos) << text;
  const std::string row = text.substr(dead, text.find('\n', dead) - dead);
  EXPECT_EQ(row.find(" 0 "), std::string::npos) << "an unknown value is not 0: " << row;
  EXPECT_NE(row.find("–"), std::string::npos);
}

TEST(TopScreen, FineIsANodeOfWhichAllIsKnown) {
  TopNode node = NodeOfTests();
  for (TopGpu& gpu : node.gpus) gpu.level = TopLevel::kGood;
  node.engines.pop_back();
  TopNode unknown = node;
  unknown.gpus[5].level = TopLevel::kUnknown;
  EXPECT_NE(TextOf(node, {}, SizeOf(100, 24)).find("● fine"), std::string::npos);
  const std::string text = TextOf(unknown, {}, SizeOf(100, 24));
  EXPECT_EQ(text.find("fine"), std::string::npos) << text;
  EXPECT_NE(text.find("– 1 GPU not known"), std::string::npos) << text;
  const TopNode* nodes[] = {&node, &unknown};
  const std::string list = TopPlainText(TopNodesScreen(nodes, {}, SizeOf(100, 24)));
  EXPECT_EQ(list.find("fine"), list.rfind("fine")) << list;
  EXPECT_NE(list.find("1 GPU not known"), std::string::npos) << list;
}

TEST(TopScreen, ARoutersTokensCountOnce) {
  TopNode node = NodeOfTests();
  TopEngine router = node.engines[0];
  router.layer = "router";
  node.engines.push_back(router);
  const TopNode* nodes[] = {&node};
  const std::string text = TopPlainText(TopNodesScreen(nodes, {}, SizeOf(120, 24)));
  EXPECT_NE(text.find("6,120"), std::string::npos) << text;
}

TEST(TopScreen, FilterAndSort) {
  const TopNode node = NodeOfTests();
  TopTyped typed;
  typed.filter = "FT-8B";
  EXPECT_EQ(TopRows(node, typed), (std::vector<size_t>{4, 5, 6})) << "case does not matter";
  typed.filter.clear();
  typed.sort = TopSort::kPower;
  EXPECT_EQ(TopRows(node, typed), (std::vector<size_t>{0, 1, 2, 3, 4, 6, 7, 5})) << "unknown comes last";
  typed.filter = "nothing has this";
  EXPECT_NE(TextOf(node, typed, SizeOf(80, 24)).find("Esc removes"), std::string::npos);
}

TEST(TopScreen, TheSelectedRowIsAmongThoseShown) {
  TopNode node = NodeOfTests();
  while (node.gpus.size() < 64) {
    TopGpu gpu = node.gpus[0];
    gpu.index = std::to_string(node.gpus.size());
    node.gpus.push_back(gpu);
  }
  TopTyped typed;
  typed.section = TopSection::kGpus;
  for (size_t selected : {0u, 13u, 40u, 63u}) {
    typed.selected = selected;
    EXPECT_NE(TextOf(node, typed, SizeOf(80, 24)).find("▸"), std::string::npos) << selected;
  }
}

TEST(TopScreen, WidthsOfCharacters) {
  EXPECT_EQ(TerminalWidth("abc"), 3u);
  EXPECT_EQ(TerminalWidth("漢字"), 4u);
  EXPECT_EQ(TerminalWidth("e\u0301"), 1u);
  EXPECT_EQ(TerminalText("漢字漢字", 5, false), "漢字…");
  EXPECT_EQ(TerminalText("漢字", 9, true), "????");
  EXPECT_EQ(TerminalText("\x1b[31mred", 40, false), "\\x1b[31mred");
  EXPECT_EQ(TerminalText("abcdef", 4, true), "abc~");
}

TEST(TopJson, LeavesUnknownNumbersOut) {
  const TopNode node = NodeOfTests();
  const TopNode* nodes[] = {&node};
  const auto document = JsonDocument::Parse(TopJson(nodes));
  ASSERT_TRUE(document) << document.error().detail;
  EXPECT_EQ(document->Text("/schema"), "gpulens.top/1");
  EXPECT_EQ(document->Size("/nodes/0/gpus"), 8u);
  EXPECT_FALSE(document->Number("/nodes/0/gpus/5/busy")) << "it is lost";
  EXPECT_EQ(document->Text("/nodes/0/gpus/5/state"), "lost");
  EXPECT_EQ(document->Number("/nodes/0/gpus/3/busy_age_s"), 12);
}

TEST(TopTerminal, HasDescriptionsOfCommonTerminals) {
  for (const char* name :
       {"xterm", "xterm-256color", "screen", "tmux", "tmux-256color", "linux", "dumb", "vt100"}) {
    const TerminalEntry* entry = BuiltInTerminal(name);
    ASSERT_TRUE(entry) << name;
    EXPECT_EQ(entry->name, name);
    std::string bytes;
    const std::string_view text = entry->description;
    ASSERT_TRUE(text.starts_with("b64:")) << name;
    ASSERT_TRUE(FromBase64(text.substr(4), bytes)) << name;
    EXPECT_NE(bytes.find(name), std::string::npos) << "the name is in it";
  }
  ASSERT_TRUE(BuiltInTerminal("xterm-kitty"));
  EXPECT_EQ(BuiltInTerminal("xterm-kitty")->name, "xterm");
  EXPECT_EQ(BuiltInTerminal("alacritty")->name, "xterm");
  EXPECT_FALSE(BuiltInTerminal("teletype-33"));
}

}  // namespace
}  // namespace gpulens
