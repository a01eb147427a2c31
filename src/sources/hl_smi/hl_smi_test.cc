// The source against real processes: a simulated hl-smi that can hang, print without end, and fail.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/process.h"
#include "sources/hl_smi/hl_smi.h"

namespace gpulens::hl_smi {
namespace {

GaudiCards Parse(std::string_view text) {
  auto cards = ParseCards(text);
  EXPECT_TRUE(cards.ok()) << (cards ? "" : cards.error().detail);
  return cards ? std::move(*cards) : GaudiCards{};
}

TEST(HlSmiCards, UnitsOfHeaderAndCell) {
  GaudiCards cards = Parse(
      "index, module_id, uuid, name, memory.total [MiB], power.draw [W], temperature.aip [C], "
      "utilization.aip [%]\n"
      "1, 6, u1, HL-325L, 131072 MiB, 65.5 W, 39 C, 25 %\n"
      "0, 7, u0, HL-325L, 128 GiB, 226000 mW, 36, 0\n");
  ASSERT_EQ(cards.list.size(), 2u);
  EXPECT_EQ(cards.bad_rows + cards.bad_cells, 0u);
  EXPECT_EQ(cards.list[0].index, 1);
  EXPECT_EQ(cards.list[0].module_id, 6);
  EXPECT_EQ(cards.list[0].key, "u1");
  EXPECT_EQ(cards.list[0].power_draw_watts, 65.5);
  EXPECT_EQ(cards.list[0].utilization, 0.25);
  EXPECT_EQ(cards.list[0].memory_total_bytes, 131072.0 * 1048576);
  EXPECT_EQ(cards.list[1].memory_total_bytes, 131072.0 * 1048576);
  EXPECT_EQ(cards.list[1].power_draw_watts, 226);
  EXPECT_EQ(cards.list[1].temperature_celsius, 36);
}

TEST(HlSmiCards, ColumnsInAnyOrderUnknownOnesAndWordsForUnknown) {
  GaudiCards cards = Parse(
      "hl-smi 1.22\n\nnew.column, rows.pending, uuid, rows.replaced, power.max [W], clocks.current.soc "
      "[MHz]\r\n"
      "x, 1, u0, 3, N/A, [Not Supported]\r\n");
  ASSERT_EQ(cards.list.size(), 1u);
  EXPECT_EQ(cards.list[0].rows_pending, 1);
  EXPECT_EQ(cards.list[0].rows_replaced, 3);
  EXPECT_FALSE(cards.list[0].power_max_watts);
  EXPECT_FALSE(cards.list[0].clock_soc_mhz);
  EXPECT_FALSE(cards.list[0].index);
  EXPECT_EQ(cards.bad_cells, 0u);
}

TEST(HlSmiCards, NamedBadInputs) {
  const std::string folder = GPULENS_SOURCE_DIR "/src/sources/hl_smi/testdata/bad/";
  struct Case {
    const char* name;
    bool table;
    size_t cards, rows, cells;
  };
  for (const Case& c : {Case{"empty.csv", false, 0, 0, 0}, Case{"header_alone.csv", true, 0, 0, 0},
                        Case{"no_header.csv", false, 0, 0, 0}, Case{"cut_row.csv", true, 1, 1, 0},
                        Case{"unknown_unit.csv", true, 1, 0, 1}, Case{"card_twice.csv", true, 1, 1, 0},
                        Case{"no_numbers.csv", true, 3, 0, 3}, Case{"column_twice.csv", true, 1, 0, 0},
                        Case{"nameless_card.csv", true, 0, 1, 0}, Case{"not_utf8.csv", true, 1, 0, 1}}) {
    auto text = ReadFile(folder + c.name);
    ASSERT_TRUE(text.ok()) << c.name;
    auto cards = ParseCards(*text);
    ASSERT_EQ(cards.ok(), c.table) << c.name;
    if (!cards) {
      EXPECT_EQ(cards.error().code, Code::kDataLoss) << c.name;
      continue;
    }
    EXPECT_EQ(cards->list.size(), c.cards) << c.name;
    EXPECT_EQ(cards->bad_rows, c.rows) << c.name;
    EXPECT_EQ(cards->bad_cells, c.cells) << c.name;
    for (const GaudiCard& card : cards->list) {
      if (card.power_draw_watts) {
        EXPECT_GE(*card.power_draw_watts, 0) << c.name;
      }
    }
  }
}

TEST(HlSmiCards, UnknownNumbersAreSentinels) {
  GaudiCards cards = Parse(
      "index, memory.used [MiB], power.draw [W], temperature.aip [C], utilization.aip [%]\n"
      "0, 4294967295, 65535, 65535, 4294967295\n1, 65535, 300, 40, 7\n");
  ASSERT_EQ(cards.list.size(), 2u);
  const GaudiCard& card = cards.list[0];
  for (const auto& value :
       {card.memory_used_bytes, card.power_draw_watts, card.temperature_celsius, card.utilization}) {
    ASSERT_TRUE(value);
    EXPECT_TRUE(std::isnan(*value));
  }
  EXPECT_EQ(cards.list[1].memory_used_bytes, 65535.0 * 1048576) << "64 GiB less 1 MiB";
  EXPECT_EQ(cards.bad_cells, 0u);
}

TEST(HlSmiCards, MoreCardsThanAMachineHoldsAreLeftOut) {
  std::string text = "index\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  GaudiCards cards = Parse(text);
  EXPECT_EQ(cards.list.size(), kMostCards);
  EXPECT_EQ(cards.bad_rows, 1000 - kMostCards);
}

TEST(HlSmiCards, CaptureOfGaudi3) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/../shared/fixtures/gaudi/hl-smi_query_gaudi3.csv");
  if (!text) GTEST_SKIP() << "captures not here";
  GaudiCards cards = Parse(*text);
  ASSERT_GE(cards.list.size(), 2u);
  EXPECT_EQ(cards.bad_rows + cards.bad_cells, 0u);
  EXPECT_EQ(cards.list[0].name, "HL-325L");
  EXPECT_EQ(cards.list[0].driver_version, "1.22.1-97ec1a4");
  EXPECT_EQ(cards.list[0].memory_used_bytes, 672.0 * 1048576);
  EXPECT_EQ(cards.list[0].power_draw_watts, 226);
  EXPECT_EQ(cards.list[0].power_max_watts, 850);
  EXPECT_EQ(cards.list[1].temperature_celsius, 39);
  EXPECT_EQ(cards.list[1].utilization, 0);
}

TEST(HlSmiPorts, SectionsAndLines) {
  auto ports = ParsePorts(
      "port 0:\n  pcs_local_faults: 0\n  OctetsReceivedOK: 10\n  OctetsTransmittedOK: 20\nport 7:\n  "
      "OctetsReceivedOK: 5\nport 9:\n  other: 1\n");
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].received, 10u);
  EXPECT_EQ(ports[0].transmitted, 20u);
  EXPECT_EQ(ports[1].port, 7);
  EXPECT_FALSE(ports[1].transmitted) << "not told, so not 0";
  auto lines = ParsePorts(
      "AIP 2 / Port 3: RX Bytes: 7 TX Bytes: 8\nAIP 2 / Port 3: RX Bytes: 9 TX Bytes: 9\nAIP 3 / Port 3: RX "
      "Bytes: 1\n");
  ASSERT_EQ(lines.size(), 2u) << "the first of one port counts";
  EXPECT_EQ(lines[0].card, 2);
  EXPECT_EQ(lines[0].received, 7u);
  EXPECT_EQ(lines[0].transmitted, 8u);
  EXPECT_EQ(lines[1].card, 3);
  for (std::string_view nothing :
       {"", "port x:\n OctetsReceivedOK: 1\n", "OctetsReceivedOK: 4\n", "port 1:\n OctetsReceivedOK: -4\n",
        "port 1:\n OctetsReceivedOK 4\n", "port 65:\n OctetsReceivedOK: 4\n"}) {
    EXPECT_TRUE(ParsePorts(nothing).empty()) << nothing;
  }
}

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kFake = GPULENS_SOURCE_DIR "/tests/fake_hl_smi/hl-smi";

class HlSmiSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gpulens-hl-smi-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    ::setenv("FAKE_HL_SMI_STATE", (folder_ + "/state").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("FAKE_HL_SMI_STATE");
    std::filesystem::remove_all(folder_);
  }
  void Mode(const std::string& mode) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/state.mode", mode + "\n"));
  }
  static const GaudiReading& Query(HlSmiSource& source, Duration max_age = seconds(60)) {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    source.Request(RealClock().Now() + max_age, [&] {
      std::lock_guard lock(mutex);
      done = true;
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(120), [&] { return done; }));
    return source.last();
  }
  static HlSmiSource::Options Quick(Duration call = seconds(20)) {
    return {kFake, call, milliseconds(20), true};
  }
  std::string folder_;
};

TEST_F(HlSmiSourceTest, ValuesChangeWithEveryReading) {
  HlSmiSource source(Quick(), RealClock());
  GaudiReading first = Query(source);
  ASSERT_TRUE(first.status.ok()) << first.status.detail;
  ASSERT_EQ(first.cards.size(), 2u);
  EXPECT_EQ(first.cards[1].card.rows_replaced, 4);
  EXPECT_EQ(first.cards[0].ports.ports.size(), 3u);
  EXPECT_EQ(first.cards[0].ports_before.ports.size(), 3u) << "a rate is known at once";
  EXPECT_LT(first.cards[0].ports_before.ports[1].received, first.cards[0].ports.ports[1].received);
  GaudiReading second = Query(source);
  EXPECT_LT(first.cards[0].card.memory_used_bytes, second.cards[0].card.memory_used_bytes);
  EXPECT_EQ(second.cards[0].ports_before.at, first.cards[0].ports.at);
}

TEST_F(HlSmiSourceTest, AnOlderHlSmiIsQueriedForFewerColumns) {
  Mode("old");
  HlSmiSource source(Quick(), RealClock());
  GaudiReading reading = Query(source);
  ASSERT_TRUE(reading.status.ok()) << reading.status.detail;
  EXPECT_EQ(reading.cards.size(), 2u);
  EXPECT_FALSE(reading.cards[0].card.rows_replaced) << "not told, so not 0";
  uint64_t calls = reading.calls;
  GaudiReading second = Query(source);
  EXPECT_EQ(second.calls - calls, 1u + 2u) << "what it refused is not asked again: cards and two times ports";
}

TEST_F(HlSmiSourceTest, AHangingProgramIsKilledAndNamed) {
  Mode("hang");
  HlSmiSource source(Quick(milliseconds(300)), RealClock());
  GaudiReading reading = Query(source);
  EXPECT_EQ(reading.status.code, Code::kTimeout);
  EXPECT_NE(reading.status.detail.find("killed"), std::string::npos) << reading.status.detail;
  EXPECT_EQ(reading.calls, 1u) << "nothing else is started meanwhile";
  EXPECT_EQ(reading.calls_killed, 1u);
  EXPECT_EQ(reading.stuck, 0u);
}

TEST_F(HlSmiSourceTest, EndlessOutputExitCodesAndNonsenseAreErrors) {
  HlSmiSource source(Quick(), RealClock());
  Mode("endless");
  EXPECT_EQ(Query(source).status.code, Code::kExhausted);
  Mode("garbage");
  EXPECT_EQ(Query(source).status.code, Code::kDataLoss);
  Mode("exit3");
  EXPECT_EQ(Query(source).status.code, Code::kIo);
  EXPECT_NE(source.last().status.detail.find("exited with 3: hl-smi: cannot open"), std::string::npos)
      << source.last().status.detail;
  Mode("none");
  EXPECT_TRUE(Query(source).status.ok());
  Mode("no_cards");
  EXPECT_TRUE(Query(source).status.ok());
  EXPECT_TRUE(source.last().cards.empty());
}

TEST_F(HlSmiSourceTest, EndsAtOnceWhileAProgramHangs) {
  Mode("hang");
  auto source = std::make_unique<HlSmiSource>(Quick(seconds(3600)), RealClock());
  bool called = false;
  source->Request(RealClock().Now() + seconds(3600), [&] { called = true; });
  source.reset();
  EXPECT_FALSE(called);
}

TEST(FindProgram, ReportsWhyNoneWasFound) {
  EXPECT_TRUE(FindProgram("sh").ok());
  EXPECT_TRUE(FindProgram("/bin/sh").ok());
  EXPECT_EQ(FindProgram("/nowhere/hl-smi").error().code, Code::kUnavailable);
  EXPECT_EQ(FindProgram("no-such-program-at-all").error().code, Code::kUnavailable);
  EXPECT_EQ(FindProgram(GPULENS_SOURCE_DIR "/README.md").error().code, Code::kPermissionDenied);
}

}  // namespace

}  // namespace gpulens::hl_smi
