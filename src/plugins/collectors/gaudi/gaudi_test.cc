// One card's series from readings, and the collector against the simulated hl-smi.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "names/naming.h"
#include "pipeline/instance.h"
#include "plugins/collectors/gaudi/gaudi.h"
#include "wire/exposition/text_page.h"

namespace gpulens {
extern const CollectorSpec gaudi_collector;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string PageOf(const Ref<const Frame>& frame) {
  Snapshot snapshot;
  snapshot.frames.push_back({frame, frame->source, Precedence::kNative, false});
  TextPage encoder(ExpositionFormat::kText004, NameNative);
  std::string text;
  encoder.Render(snapshot, text);
  return text;
}

hl_smi::CardReading Card(double watts, uint64_t received, Instant at) {
  hl_smi::CardReading reading;
  reading.card.key = reading.card.uuid = "01P4-1";
  reading.card.index = 3;
  reading.card.name = "HL-325L";
  reading.card.bus_id = "0000:04:00.0";
  reading.card.power_draw_watts = watts;
  reading.card.power_max_watts = 850;
  reading.card.memory_used_bytes = 512;
  reading.card.memory_total_bytes = 2048;
  reading.card.rows_replaced = 3;
  reading.card.rows_pending = 1;
  reading.ports = {{{{}, 7, received, {}}}, at};
  return reading;
}

class GaudiSeriesTest : public ::testing::Test {
 protected:
  std::string Update(hl_smi::CardReading reading) {
    writer.Begin(clock.Now());
    reading.ports_before = before;
    series.Update(reading, clock.Now(), writer);
    before = reading.ports;
    return PageOf(writer.Finish());
  }
  ManualClock clock;
  SeriesTable table;
  FrameWriter writer{table, seconds(60), "gaudi"};
  GaudiSeries series;
  hl_smi::PortsReading before;
};

TEST_F(GaudiSeriesTest, NativeNamesUnitsAndRates) {
  std::string page = Update(Card(226.5, 1000, clock.Now()));
  const std::string ids = "gpu_index=\"3\",gpu_model=\"HL-325L\"";
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{" + ids + ",gpu_uuid=\"01P4-1\"} 226.5\n"));
  EXPECT_THAT(page, HasSubstr("gpu_memory_used_percent{" + ids + ",gpu_uuid=\"01P4-1\"} 25\n"));
  EXPECT_THAT(page, HasSubstr("gpu_row_remap_state=\"replaced\",gpu_uuid=\"01P4-1\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("gpu_row_remap_state=\"pending\",gpu_uuid=\"01P4-1\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("gpu_vendor=\"intel\""));
  EXPECT_THAT(page, Not(HasSubstr("gpu_interconnect_throughput"))) << "one reading makes no rate";
  EXPECT_THAT(page, Not(HasSubstr("gpu_energy"))) << "hl-smi tells none";
  clock.Advance(seconds(10));
  page = Update(Card(230, 6000, clock.Now()));
  EXPECT_THAT(page, HasSubstr("gpu_interconnect_throughput_bytes_per_second{gpu_index=\"3\",gpu_interconnect_"
                              "direction=\"receive\","
                              "gpu_interconnect_link_index=\"7\",gpu_interconnect_type=\"roce\",gpu_model="
                              "\"HL-325L\",gpu_uuid=\"01P4-1\"} 500\n"));
  EXPECT_THAT(page, Not(HasSubstr("transmit"))) << "the port does not tell it";
  // The driver was reloaded: no rate for this span, and never a negative one.
  clock.Advance(seconds(10));
  page = Update(Card(230, 100, clock.Now()));
  EXPECT_THAT(page, Not(HasSubstr("} -")));
}

TEST_F(GaudiSeriesTest, SentinelsAreRejectedAndNotUsed) {
  hl_smi::CardReading reading = Card(hl_smi::kSentinel, 1, clock.Now());
  reading.card.memory_total_bytes = hl_smi::kSentinel;
  std::string page = Update(reading);
  EXPECT_THAT(page, Not(HasSubstr("gpu_power_draw")));
  EXPECT_THAT(page, Not(HasSubstr("gpu_power_utilization")));
  EXPECT_THAT(page, Not(HasSubstr("gpu_memory_total")));
  EXPECT_THAT(page, Not(HasSubstr("gpu_memory_used_percent")));
  EXPECT_THAT(page, HasSubstr("gpu_memory_used_bytes"));
  EXPECT_EQ(writer.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 2u);
}

TEST_F(GaudiSeriesTest, ReplacedCardChangesTheIdentity) {
  Update(Card(226, 1, clock.Now()));
  hl_smi::CardReading moved = Card(200, 2, clock.Now() + seconds(1));
  moved.card.index = 5;
  clock.Advance(seconds(15));
  std::string page = Update(moved);
  EXPECT_THAT(page, HasSubstr("gpu_index=\"5\""));
  EXPECT_THAT(page, Not(HasSubstr("gpu_index=\"3\"")));
}

TEST_F(GaudiSeriesTest, SteadyRunDoesNotAllocate) {
  hl_smi::CardReading readings[2] = {Card(226, 1000, clock.Now()), Card(230, 2000, clock.Now())};
  auto run = [&](int i) {
    clock.Advance(seconds(15));
    hl_smi::CardReading& reading = readings[i % 2];
    reading.ports_before.at = clock.Now() + -seconds(15);
    reading.ports.at = clock.Now();
    writer.Begin(clock.Now());
    series.Update(reading, clock.Now(), writer);
    writer.Finish();
  };
  for (int i = 0; i < 10; ++i) run(i);
  uint64_t before_runs = ThreadAllocations();
  for (int i = 0; i < 100; ++i) run(i);
  // A counter that fell makes a new identity, and with it a new layout: not a steady run.
  readings[0].ports.ports.front().received = readings[1].ports.ports.front().received;
  for (int i = 0; i < 10; ++i) run(i);
  before_runs = ThreadAllocations();
  for (int i = 0; i < 100; ++i) run(i);
  EXPECT_EQ(ThreadAllocations() - before_runs, 0u);
}

// Through the collector, with real processes.
class GaudiCollectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gpulens-gaudi-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    ::setenv("FAKE_HL_SMI_STATE", (folder_ + "/state").c_str(), 1);
  }
  void TearDown() override {
    instance_.reset();
    ::unsetenv("FAKE_HL_SMI_STATE");
    std::filesystem::remove_all(folder_);
  }
  void Mode(const std::string& mode) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/state.mode", mode + "\n"));
  }
  static Config ConfigOf(const std::string& path, Duration call = seconds(20)) {
    Config config;
    config.Set("hl_smi_path", path, {});
    config.Set("call_timeout", call, {});
    config.Set("ports", false, {});
    return config;
  }
  void Open(Duration call = seconds(20)) {
    Instance::Setup setup{.name = "gaudi",
                          .spec = &gaudi_collector,
                          .config = ConfigOf(GPULENS_SOURCE_DIR "/tests/fake_hl_smi/hl-smi", call),
                          .period = seconds(60),
                          .deadline = seconds(60),
                          .ttl = seconds(600),
                          .table = {}};
    instance_ = std::make_unique<Instance>(std::move(setup), env_);
    ASSERT_TRUE(instance_->Ready());
  }
  std::string Run() {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    instance_->Fetch(RealClock().Now() + seconds(60), [&](Status status) {
      EXPECT_TRUE(status.ok());
      std::lock_guard lock(mutex);
      done = true;
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(120), [&] { return done; }));
    lock.unlock();
    instance_->Collect(Ok());
    return PageOf(instance_->latest());
  }
  Env env_;
  std::string folder_;
  std::unique_ptr<Instance> instance_;
};

TEST_F(GaudiCollectorTest, ReadsAgainAndForgetsRemovedCards) {
  Open();
  std::string first = Run(), second = Run();
  EXPECT_THAT(first, HasSubstr("gpu_devices{gpu_vendor=\"intel\"} 2\n"));
  EXPECT_NE(first, second);
  Mode("one_card");
  std::string third = Run();
  EXPECT_THAT(third, HasSubstr("FAKE01"));
  EXPECT_THAT(third, Not(HasSubstr("FAKE00"))) << "gone in the same run";
  EXPECT_THAT(third, HasSubstr("gpu_devices{gpu_vendor=\"intel\"} 1\n"));
}

TEST_F(GaudiCollectorTest, HangIsAnErrorAndItsValuesAge) {
  Open(seconds(2));
  Run();
  Mode("hang");
  std::string page = Run();
  EXPECT_FALSE(instance_->stats().up);
  EXPECT_EQ(instance_->stats().last.code, Code::kTimeout);
  EXPECT_THAT(page, HasSubstr("gpulens_reader_up{reader=\"hl_smi\"} 0\n"));
  EXPECT_GT(instance_->stats().samples.stale, 0u) << "the last values, with their age";
  Mode("none");
  Run();
  EXPECT_TRUE(instance_->stats().up);
}

TEST(GaudiCollector, IsUnavailableWithoutHlSmi) {
  Env env;
  Config config;
  config.Set("hl_smi_path", std::string("/nowhere/hl-smi"), {});
  config.Set("call_timeout", Duration(seconds(5)), {});
  config.Set("ports", true, {});
  auto made = gaudi_collector.create(config, env);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  auto findings = gaudi_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Finding::kNotHere);
  EXPECT_THAT(findings[0].why, HasSubstr("/nowhere/hl-smi"));
}

}  // namespace
}  // namespace gpulens
