#include "plugins/collectors/nvidia/gpu_events.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/allocations.h"

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::GpuState;
using std::chrono::seconds;

class GpuWatchTest : public ::testing::Test {
 protected:
  GpuWatchTest() {
    gpu_.index = 3;
    gpu_.state = GpuState::kOk;
    gpu_.facts = {{"uuid", "GPU-1"}, {"pci_bus_id", "0000:4d:00.0"}};
    gpu_.counted = true;
    gpu_.opened = 1;
    Read(Field::kEnergy, 1'000'000);
  }
  void Read(Field field, int64_t raw) {
    gpu_.fields[static_cast<size_t>(field)] = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, raw};
    gpu_.last_read_boot_ns = clock_.Now().boot_ns;
  }
  GpuWatch::View View() const {
    return {.gpu = gpu_,
            .entity = entity_,
            .now = clock_.Now(),
            .at_start = at_start_,
            .driver_unloaded = unloaded_,
            .released = released_};
  }
  // Returns the events of one run, a second later.
  std::vector<Event> See() {
    clock_.Advance(seconds(1));
    watch_.Compare(View());
    return queue_.Take();
  }
  std::vector<Event> Take(uint64_t type, uint64_t data = 0,
                          uint32_t instance = nvml::GpuProcess::kNoInstance) {
    watch_.OnEvent(
        {.entity = 3, .gpu_instance = instance, .type = type, .data = data, .boot_ns = clock_.Now().boot_ns},
        View());
    return queue_.Take();
  }
  static std::string Text(const std::vector<Event>& events, std::string_view key) {
    return events.size() == 1 ? events[0].attributes.Text(key) : std::to_string(events.size()) + " events";
  }
  static std::string Name(const std::vector<Event>& events) {
    return events.size() == 1 ? std::string(events[0].name) : std::to_string(events.size()) + " events";
  }
  void Settle() {
    See();
    See();
  }

  ManualClock clock_;
  EventQueue queue_;
  GpuWatch watch_{&queue_};
  nvml::Gpu gpu_;
  EntityRef entity_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.uuid", "GPU-1"}}));
  bool at_start_ = true, unloaded_ = false, released_ = false;
};

TEST_F(GpuWatchTest, ReportsAFoundGpuOnce) {
  std::vector<Event> events = See();
  EXPECT_EQ(Name(events), "gpu.found");
  EXPECT_EQ(Text(events, "gpu.found.reason"), "start");
  EXPECT_EQ(events[0].entity->attributes.Text("gpu.uuid"), "GPU-1");
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, LaterGpuWasPluggedIn) {
  at_start_ = false;
  entity_ = {};
  std::vector<Event> events = See();
  EXPECT_EQ(Text(events, "gpu.found.reason"), "hotplug");
  EXPECT_EQ(Text(events, "gpu.pci.bus_id"), "0000:4d:00.0") << "where no entity tells which GPU it is";
}

TEST_F(GpuWatchTest, XidsHaveTheirCode) {
  Settle();
  std::vector<Event> events = Take(nvml::kEventXid, 79);
  EXPECT_EQ(Name(events), "gpu.xid");
  EXPECT_EQ(Text(events, "gpu.xid.code"), "79");
  EXPECT_EQ(Text(events, "event.source"), "nvml");
  EXPECT_EQ(events[0].at.boot_ns, clock_.Now().boot_ns);
  events = Take(nvml::kEventXid, 31, 2);
  EXPECT_EQ(Text(events, "gpu.mig.instance_id"), "2");
}

TEST_F(GpuWatchTest, LibraryEventsHaveTheirNames) {
  Settle();
  EXPECT_EQ(Text(Take(nvml::kEventEccUncorrected), "gpu.ecc.error_type"), "uncorrectable");
  EXPECT_EQ(Text(Take(nvml::kEventDramRetired), "gpu.row_remap.result"), "remapped");
  EXPECT_EQ(Text(Take(nvml::kEventDramRetirementFailed), "gpu.row_remap.result"), "failed");
  EXPECT_EQ(Text(Take(nvml::kEventPoisonUncontained), "gpu.poison.result"), "uncontained");
  EXPECT_EQ(Text(Take(nvml::kEventPowerSource), "gpu.power.reason"), "source_change");
  EXPECT_EQ(Name(Take(nvml::kEventGpuUnavailable)), "gpu.unavailable");
  EXPECT_TRUE(Take(nvml::kEventMigConfig).empty()) << "the list of instances tells what changed";
  size_t clocks = 0;
  for (int i = 0; i < 30; ++i) clocks += Take(nvml::kEventClock).size();
  EXPECT_EQ(clocks, 10u) << "a minute";
}

TEST_F(GpuWatchTest, ReportsMemoryErrorsAtALimitedRate) {
  Read(Field::kEccCorrected, 5);
  Read(Field::kEccUncorrected, 0);
  Settle();
  Read(Field::kEccCorrected, 8);
  std::vector<Event> events = See();
  EXPECT_EQ(Text(events, "gpu.ecc.error_type"), "correctable");
  EXPECT_NE(events[0].body.find("3 correctable"), std::string::npos) << events[0].body;
  Read(Field::kEccCorrected, 9);
  EXPECT_TRUE(See().empty()) << "at most once a minute";
  clock_.Advance(seconds(60));
  events = See();
  ASSERT_EQ(events.size(), 1u) << "but not forgotten";
  EXPECT_NE(events[0].body.find("1 correctable"), std::string::npos);
  EXPECT_EQ(Take(nvml::kEventEccUncorrected).size(), 1u);
  Read(Field::kEccUncorrected, 1);
  EXPECT_TRUE(See().empty()) << "the event of the library has told it";
}

TEST_F(GpuWatchTest, ReportsRemappedRows) {
  for (Field field : {Field::kRemappedCorrectable, Field::kRemappedUncorrectable, Field::kRemapPending,
                      Field::kRemapFailure})
    Read(field, 0);
  Settle();
  Read(Field::kRemappedUncorrectable, 1);
  std::vector<Event> events = See();
  EXPECT_EQ(Text(events, "gpu.row_remap.result"), "remapped");
  EXPECT_EQ(Text(events, "gpu.ecc.error_type"), "uncorrectable");
  Read(Field::kRemapPending, 1);
  EXPECT_EQ(Text(See(), "gpu.row_remap.result"), "pending");
  Read(Field::kRemapFailure, 1);
  EXPECT_EQ(Text(See(), "gpu.row_remap.result"), "failed");
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, ReportsLostAndRecoveredGpus) {
  Settle();
  gpu_.state = GpuState::kLost;
  EXPECT_EQ(Text(See(), "gpu.lost.reason"), "gpu_is_lost");
  EXPECT_TRUE(See().empty());
  gpu_.state = GpuState::kStarting;
  EXPECT_TRUE(See().empty()) << "a new reader process looks for it";
  gpu_.state = GpuState::kOk;
  gpu_.opened = 2;
  Read(Field::kEnergy, 10);
  std::vector<Event> events = See();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "gpu.reset");
  EXPECT_EQ(events[0].attributes.Text("gpu.reset.reason"), "recovery");
  EXPECT_EQ(events[1].attributes.Text("gpu.found.reason"), "after_reset");
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, ReportsRemovedAndUnloadedGpus) {
  Settle();
  gpu_.counted = false;
  gpu_.state = GpuState::kLost;
  EXPECT_EQ(Text(See(), "gpu.lost.reason"), "removed");
  gpu_.counted = true;
  gpu_.state = GpuState::kOk;
  gpu_.opened = 2;
  Read(Field::kEnergy, 2'000'000);
  EXPECT_EQ(Text(See(), "gpu.found.reason"), "hotplug") << "its counters went on";
  unloaded_ = true;
  gpu_.state = GpuState::kStarting;
  EXPECT_EQ(Text(See(), "gpu.lost.reason"), "driver_unloaded");
}

TEST_F(GpuWatchTest, RestartOfTheReaderProcessIsNotAReset) {
  Settle();
  gpu_.state = GpuState::kStarting;
  EXPECT_TRUE(See().empty());
  gpu_.state = GpuState::kOk;
  gpu_.opened = 2;
  Read(Field::kEnergy, 1'500'000);
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, ResetDuringAReleaseIsRequested) {
  Settle();
  released_ = true;
  gpu_.state = GpuState::kStarting;
  See();
  released_ = false;
  gpu_.state = GpuState::kOk;
  gpu_.opened = 2;
  Read(Field::kEnergy, 10);
  EXPECT_EQ(Text(See(), "gpu.reset.reason"), "requested");
}

TEST_F(GpuWatchTest, ReportsAnotherBoardOfTheSameIndex) {
  Settle();
  gpu_.facts[0].second = "GPU-2";
  gpu_.opened = 2;
  Read(Field::kEnergy, 10);
  EXPECT_EQ(Text(See(), "gpu.found.reason"), "hotplug") << "and the old one was not reset";
}

TEST_F(GpuWatchTest, HangsNameTheirCall) {
  Settle();
  gpu_.state = GpuState::kHung;
  gpu_.hangs = 1;
  gpu_.hung_call = static_cast<reader::CallNumber>(nvml::Call::kPowerUsage);
  gpu_.hung_since_boot_ns = clock_.Now().boot_ns;
  std::vector<Event> events = See();
  EXPECT_EQ(Text(events, "gpu.call"), "nvmlDeviceGetPowerUsage");
  EXPECT_EQ(Text(events, "gpu.hang.duration"), "1");
  EXPECT_EQ(Text(events, "event.source"), "reader");
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, RecoveryActionsHaveTheirNames) {
  Read(Field::kRecoveryAction, 0);
  Settle();
  EXPECT_TRUE(Take(nvml::kEventRecoveryAction).empty()) << "the action is read in a moment";
  Read(Field::kRecoveryAction, 1);
  EXPECT_EQ(Text(See(), "gpu.recovery.action"), "reset");
  EXPECT_TRUE(See().empty());
  Take(nvml::kEventRecoveryAction);
  clock_.Advance(seconds(20));
  EXPECT_EQ(Name(See()), "gpu.recovery_action") << "told even if the field says nothing new";
}

TEST_F(GpuWatchTest, ReportsHeatOncePerEpisode) {
  Read(Field::kClockEventReasons, 0);
  Settle();
  Read(Field::kClockEventReasons, 0x40 | 0x8);
  std::vector<Event> events = See();
  EXPECT_EQ(Name(events), "gpu.thermal");
  EXPECT_EQ(Text(events, "gpu.thermal.action"), "slowdown");
  EXPECT_FALSE(events[0].attributes.Has("gpu.temperature.sensor")) << "the driver does not say which";
  for (int i = 0; i < 10; ++i) {  // It cools, and heats again.
    Read(Field::kClockEventReasons, i % 2 ? 0x40 : 0);
    EXPECT_TRUE(See().empty());
  }
  Read(Field::kClockEventReasons, 0);
  for (int i = 0; i < 61; ++i) See();
  Read(Field::kClockEventReasons, 0x40);
  EXPECT_EQ(Name(See()), "gpu.thermal");
}

TEST_F(GpuWatchTest, IgnoresHeatOlderThanTheAgent) {
  Read(Field::kClockEventReasons, 0x40);
  See();
  EXPECT_TRUE(See().empty());
}

TEST_F(GpuWatchTest, ReportsThePowerBrakeOncePerEpisode) {
  Read(Field::kClockEventReasons, 0);
  Settle();
  Read(Field::kClockEventReasons, 0x80);
  EXPECT_EQ(Text(See(), "gpu.power.reason"), "brake");
  EXPECT_TRUE(See().empty());
  Read(Field::kClockEventReasons, 0);
  See();
  Read(Field::kClockEventReasons, 0x84);
  EXPECT_EQ(Text(See(), "gpu.power.reason"), "brake");
}

TEST_F(GpuWatchTest, ReportsCreatedAndDestroyedMigInstances) {
  gpu_.slices.mig_max = 7;
  Settle();
  nvml::GpuSlice& slice = gpu_.slices.list.emplace_back();
  slice.key = {.kind = nvml::SliceKind::kMig, .id = 1, .sub = 0};
  EXPECT_TRUE(See().empty()) << "who it is has not arrived";
  slice.facts = {{"profile", "3g.40gb"}};
  std::vector<Event> events = See();
  EXPECT_EQ(Text(events, "gpu.mig.change"), "created");
  EXPECT_EQ(Text(events, "gpu.mig.profile"), "3g.40gb");
  EXPECT_EQ(Text(events, "gpu.mig.instance_id"), "1");
  EXPECT_TRUE(See().empty());
  gpu_.slices.list.clear();
  EXPECT_EQ(Text(See(), "gpu.mig.change"), "destroyed");
  Read(Field::kMigMode, 1);
  EXPECT_TRUE(See().empty());
  Read(Field::kMigMode, 0);
  EXPECT_EQ(Text(See(), "gpu.mig.change"), "mode_off");
}

TEST_F(GpuWatchTest, DoesNothingWithoutAQueueAndDoesNotAllocate) {
  GpuWatch without_queue(nullptr);
  without_queue.Compare(View());
  Settle();
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  uint64_t before = AllAllocations();
  watch_.Compare(View());
  EXPECT_EQ(AllAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens::nvidia
