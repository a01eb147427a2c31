// AmdsmiReader over the simulated library, in this process and with a manual clock.
#include "sources/amdsmi/reader/amdsmi_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/testing/allocations.h"
#include "sources/amdsmi/reader/amdsmi_library.h"
#include "sources/amdsmi/simulated/fake_world.h"

namespace gpulens::amdsmi {
namespace {

using reader::DeviceState;
using reader::ReaderFault;
using reader::ReadStatus;
using std::chrono::seconds;

class AmdsmiReaderTest : public testing::Test {
 protected:
  using Periods = reader::TierClock::Periods;

  reader::VendorLibrary::Opened Open(const std::string& profile) {
    Status status = FakeWorld::Get().Use(profile, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    reader_.reset();
    library_ = std::make_unique<AmdsmiLibrary>("", &FakeAmdsmiLookup);
    return library_->Open(slot_);
  }
  // Opens, and attaches a reader to one device.
  void Start(const std::string& profile, uint32_t index = 0) {
    auto opened = Open(profile);
    ASSERT_EQ(opened.fault, ReaderFault::kNone) << opened.detail;
    Reader(index);
    EXPECT_EQ(reader_->Attach().state, DeviceState::kOk);
  }
  void Reader(uint32_t index) {
    Periods periods = {seconds(1), seconds(10), seconds(60)};
    reader_ = std::make_unique<AmdsmiReader>(*library_, index, slot_, clock_, periods);
  }
  bool Round() {
    bool good = reader_->Read(clock_.Now().boot_ns);
    read_.clear();
    for (const reader::DeviceReading& reading : reader_->readings()) read_[reading.field] = reading;
    return good;
  }
  // INT64_MIN when it was not read well in the last round.
  int64_t Value(Field field, unsigned copy = 0) const {
    auto found = read_.find(SlotOf(field, copy));
    bool good = found != read_.end() && found->second.status == ReadStatus::kOk;
    return good ? found->second.raw : INT64_MIN;
  }
  ReadStatus StatusOf(Field field) const {
    auto found = read_.find(SlotOf(field));
    return found == read_.end() ? ReadStatus::kNever : found->second.status;
  }
  std::string Fact(std::string_view key) const {
    for (const auto& [name, value] : reader_->facts()) {
      if (name == key) return value;
    }
    return {};
  }

  ManualClock clock_{Instant{1'000'000'000'000, 1'700'000'000'000'000'000}};
  reader::CallSlot slot_;
  std::unique_ptr<AmdsmiLibrary> library_;
  std::unique_ptr<AmdsmiReader> reader_;
  std::map<uint16_t, reader::DeviceReading> read_;
};

constexpr int64_t kNone = INT64_MIN;

TEST_F(AmdsmiReaderTest, AnMi300xReportsEveryField) {
  Start("model: MI300X\ngpus: 8\nload: {level: 0.5}\nprocesses:\n  - {pid: 7, memory: 10GiB}\n", 3);
  EXPECT_EQ(Fact("name"), "AMD Instinct MI300X");
  EXPECT_EQ(Fact("gpu"), "3");
  EXPECT_EQ(Fact("pci_bus_id"), "0000:4e:00.0");
  EXPECT_EQ(Fact("architecture"), "gfx942");
  EXPECT_EQ(Fact("vbios"), "022.040.003.042.000001");
  EXPECT_EQ(Fact("serial"), "6924000020");
  EXPECT_EQ(Fact("compute_units"), "304");
  EXPECT_EQ(Fact("partitions"), "1");
  ASSERT_TRUE(Round());
  EXPECT_EQ(Value(Field::kActivityGfx), 50);
  EXPECT_EQ(Value(Field::kActivityMemory), 25);
  EXPECT_EQ(Value(Field::kVramTotal), int64_t{196592} << 20);
  EXPECT_EQ(Value(Field::kVramUsed), int64_t{10} << 30);
  EXPECT_EQ(Value(Field::kPowerCurrent), 431);  // 135 + (0.97 * 750 - 135) / 2
  EXPECT_EQ(Value(Field::kPowerAverage), kNone);
  EXPECT_EQ(Value(Field::kPowerCap), 750'000'000);
  EXPECT_EQ(Value(Field::kPowerCapMin), kNone) << "0 is no cap";
  EXPECT_NEAR(static_cast<double>(Value(Field::kEnergy)), 431.25 * 1000 * 1e6, 2e9);
  EXPECT_EQ(Value(Field::kTemperatureEdge), kNone) << "absent, and not a copy of the hotspot";
  EXPECT_EQ(StatusOf(Field::kTemperatureEdge), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(Field::kTemperatureHotspot), 58'000);
  EXPECT_EQ(Value(Field::kTemperatureMemory), 53'000);
  EXPECT_EQ(Value(Field::kTemperatureStack, 3), 53);
  EXPECT_EQ(Value(Field::kClockGfx), 2050);
  EXPECT_EQ(Value(Field::kClockGfxMax), 2100);
  EXPECT_EQ(Value(Field::kPcieGeneration), 5);
  EXPECT_EQ(Value(Field::kPcieGenerationMax), 5) << "told in GT/s, the present one in MT/s";
  EXPECT_EQ(Value(Field::kXgmiWrite, 6) % 1024, 0);
  EXPECT_GT(Value(Field::kXgmiWrite, 6), 0);
  EXPECT_EQ(Value(Field::kXgmiLink, 6), 1);
  EXPECT_EQ(Value(Field::kXgmiLink, 7), kNone) << "disabled";
  EXPECT_EQ(Value(Field::kEccBlocks), 0x800F);
  EXPECT_EQ(Value(Field::kEccCorrectable, 0), 0);
  EXPECT_EQ(Value(Field::kEccCorrectable, 4), kNone) << "no RAS in athub";
  EXPECT_EQ(Value(Field::kComputePartition), 1);
  EXPECT_EQ(Value(Field::kMemoryPartition), 1);
  EXPECT_EQ(Value(Field::kPerformanceLevel), 0);
  EXPECT_EQ(StatusOf(Field::kFanRpm), ReadStatus::kNotSupported);
  EXPECT_EQ(Value(Field::kProcessCount), 1);
  ASSERT_EQ(reader_->processes().size(), 1U);
  EXPECT_EQ(reader_->processes()[0].pid, 10U);
  EXPECT_STREQ(reader_->processes()[0].name.data(), "python3");
  EXPECT_EQ(reader_->processes()[0].memory, uint64_t{10} << 30);
}

TEST_F(AmdsmiReaderTest, TiersAreReadWhenDue) {
  Start("gpus: 1\n");
  ASSERT_TRUE(Round());
  EXPECT_NE(Value(Field::kVramTotal), kNone);
  clock_.Advance(seconds(1));
  ASSERT_TRUE(Round());
  EXPECT_NE(Value(Field::kVramUsed), kNone);
  EXPECT_EQ(StatusOf(Field::kPcieWidth), ReadStatus::kNever);
  EXPECT_EQ(StatusOf(Field::kVramTotal), ReadStatus::kNever);
  clock_.Advance(seconds(9));
  ASSERT_TRUE(Round());
  EXPECT_NE(Value(Field::kPcieWidth), kNone);
  EXPECT_EQ(StatusOf(Field::kVramTotal), ReadStatus::kNever);
}

TEST_F(AmdsmiReaderTest, UnsupportedCallsAreMadeOnce) {
  Start("gpus: 1\n");
  ASSERT_TRUE(Round());
  uint64_t first_calls = FakeWorld::Get().Calls("amdsmi_get_gpu_fan_rpms");
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(seconds(1));
    ASSERT_TRUE(Round());
  }
  EXPECT_EQ(first_calls, 1U);
  EXPECT_EQ(FakeWorld::Get().Calls("amdsmi_get_gpu_fan_rpms"), 1U);
}

// The simulated library declares the structs of every version; the reader has offsets.
TEST_F(AmdsmiReaderTest, EveryKnownVersionIsReadRight) {
  for (std::string version : {"24.5.1", "24.6.3", "24.7.1", "25.3.0", "26.0.0", "26.2.1"}) {
    SCOPED_TRACE(version);
    auto opened = Open("version: " + version +
                       "\nload: {level: 0.5}\nprocesses:\n  - {pid: 7, name: train, "
                       "memory: 1GiB, host_memory: 2MiB, compute_units: 152}\n");
    EXPECT_EQ(opened.library_version, version);
    EXPECT_EQ(opened.driver_version, "6.14.14");
    Reader(0);
    ASSERT_EQ(reader_->Attach().state, DeviceState::kOk);
    ASSERT_TRUE(Round());
    EXPECT_EQ(Fact("name"), "AMD Instinct MI300X");
    EXPECT_EQ(Fact("serial"), "6924000017");
    EXPECT_EQ(Fact("vbios"), "022.040.003.042.000001");
    bool late = version >= "24.7";
    EXPECT_EQ(Fact("compute_units"), late ? "304" : "");
    EXPECT_EQ(Fact("architecture"), late ? "gfx942" : "");
    EXPECT_EQ(Value(Field::kPowerCurrent), 431);
    EXPECT_EQ(Value(Field::kResidencyCycles) != kNone, version >= "25");
    if (version == "24.7.1") {
      EXPECT_EQ(StatusOf(Field::kProcessCount), ReadStatus::kNotSupported) << "its struct is not certain";
      continue;
    }
    ASSERT_EQ(reader_->processes().size(), 1U);
    const reader::ProcessUse& use = reader_->processes()[0];
    EXPECT_STREQ(use.name.data(), "train");
    EXPECT_EQ(use.memory, uint64_t{1} << 30);
    EXPECT_EQ(use.host_memory, uint64_t{2} << 20);
    EXPECT_EQ(use.compute_units, version >= "26" ? 152U : ~0U);
  }
}

TEST_F(AmdsmiReaderTest, OfAnUnknownVersionNoStructIsRead) {
  for (std::string profile :
       {"version: 31.0.0\n", "version: 24.2.0\n", "missing: [amdsmi_get_lib_version]\n"}) {
    SCOPED_TRACE(profile);
    Start(profile);
    ASSERT_TRUE(Round());
    EXPECT_EQ(StatusOf(Field::kActivityGfx), ReadStatus::kNotSupported);
    EXPECT_EQ(StatusOf(Field::kPowerCurrent), ReadStatus::kNotSupported);
    EXPECT_NE(Value(Field::kEnergy), kNone) << "plain numbers are the same in all";
    EXPECT_NE(Value(Field::kVramUsed), kNone);
    EXPECT_EQ(Fact("pci_bus_id"), "0000:0c:00.0");
    for (const char* call : {"amdsmi_get_gpu_activity", "amdsmi_get_gpu_asic_info", "amdsmi_get_power_info",
                             "amdsmi_get_gpu_metrics_info", "amdsmi_get_gpu_process_list"}) {
      EXPECT_EQ(FakeWorld::Get().Calls(call), 0U) << call;
    }
  }
}

// Any code from any call: no crash, no value of that call, and a status with the reason.
TEST_F(AmdsmiReaderTest, AnyCodeFromAnyCallIsHandled) {
  const std::string calls[] = {
#define CALL_NAME(id, symbol, parameters) #symbol,
      GPULENS_AMDSMI_CALLS(CALL_NAME)
#undef CALL_NAME
  };
  for (const std::string& call : calls) {
    for (uint32_t code :
         {1U, 2U, 7U, 8U, 10U, 14U, 15U, 30U, 31U, 34U, 39U, 40U, 43U, 56U, 4294967294U, 4294967295U}) {
      SCOPED_TRACE(call + " " + std::to_string(code));
      auto opened = Open("gpus: 2\nerrors:\n  - {call: " + call + ", code: " + std::to_string(code) + "}\n");
      if (opened.fault != ReaderFault::kNone) {
        EXPECT_FALSE(opened.detail.empty());
        continue;
      }
      if (opened.devices == 0) continue;
      Reader(1);
      if (reader_->Attach().state != DeviceState::kOk) continue;
      EXPECT_TRUE(Round());
      EXPECT_LE(reader_->readings().size(), kSlots);
      std::set<uint16_t> once;
      for (const reader::DeviceReading& reading : reader_->readings()) {
        EXPECT_TRUE(once.insert(reading.field).second) << AmdsmiVendor().fields[reading.field].name;
        EXPECT_NE(reading.status, ReadStatus::kNever);
      }
    }
  }
}

TEST_F(AmdsmiReaderTest, MissingFunctionsAreNotSupported) {
  const std::string calls[] = {
#define CALL_NAME(id, symbol, parameters) #symbol,
      GPULENS_AMDSMI_CALLS(CALL_NAME)
#undef CALL_NAME
  };
  for (const std::string& call : calls) {
    SCOPED_TRACE(call);
    auto opened = Open("gpus: 1\nmissing: [" + call + "]\n");
    if (opened.fault != ReaderFault::kNone) {
      EXPECT_EQ(opened.fault, ReaderFault::kLibraryNotFound);
      EXPECT_NE(opened.detail.find("lacks"), std::string::npos);
      continue;
    }
    ASSERT_EQ(opened.devices, 1U);
    Reader(0);
    ASSERT_EQ(reader_->Attach().state, DeviceState::kOk);
    EXPECT_TRUE(Round());
    EXPECT_TRUE(call == "amdsmi_get_gpu_memory_usage" || Value(Field::kVramUsed) != kNone);
  }
}

TEST_F(AmdsmiReaderTest, UnitsAreRecognizedBySize) {
  Start("model: RX7900\ngpus: 1\nload: {level: 1}\nmillidegrees: true\nwatts: true\n");
  ASSERT_TRUE(Round());
  EXPECT_EQ(Value(Field::kTemperatureHotspot), 85'000);
  EXPECT_EQ(Value(Field::kCriticalEdge), 100'000);
  EXPECT_EQ(Value(Field::kPowerCap), 339'000'000);
  EXPECT_EQ(Value(Field::kPowerCapMin), 290'000'000);
  EXPECT_EQ(Value(Field::kPowerAverage), 329);
  EXPECT_EQ(Value(Field::kPowerCurrent), kNone) << "65535 W is a sign, not a number";
  EXPECT_EQ(Value(Field::kTemperatureEdge), 75'000);
  EXPECT_EQ(Value(Field::kFanSpeed), 153);
  EXPECT_EQ(Value(Field::kFanSpeedMax), 255);
  EXPECT_EQ(Value(Field::kFanRpm), 2000);
  EXPECT_EQ(Value(Field::kPcieNakSent), kNone) << "2^64-1";
  EXPECT_EQ(Value(Field::kActivityMultimedia), kNone) << "0xFFFF";
  EXPECT_EQ(StatusOf(Field::kEccBlocks), ReadStatus::kNotSupported);
}

TEST_F(AmdsmiReaderTest, TheEnergyCounterKeepsItsResolution) {
  Start("gpus: 1\nresolution: 15.259\nload: {level: 1}\n");
  ASSERT_TRUE(Round());
  int64_t before = Value(Field::kEnergy);
  clock_.Advance(seconds(10));
  ASSERT_TRUE(Round());
  EXPECT_NEAR(static_cast<double>(Value(Field::kEnergy) - before), 7275e6, 100) << "97 % of 750 W for 10 s";
  Start("gpus: 1\nresolution: 0\n");
  ASSERT_TRUE(Round());
  EXPECT_EQ(StatusOf(Field::kEnergy), ReadStatus::kNotSupported) << "a count of unknown worth";
}

TEST_F(AmdsmiReaderTest, ALostGpuIsReportedAndComesBack) {
  Start("gpus: 2\nlost:\n  - {gpu: 1, from: 5, to: 15}\n", 1);
  ASSERT_TRUE(Round());
  clock_.Advance(seconds(6));
  EXPECT_FALSE(Round());
  EXPECT_EQ(StatusOf(Field::kVramUsed), ReadStatus::kLost);
  EXPECT_EQ(reader_->Attach().state, DeviceState::kLost);
  Reader(0);
  EXPECT_EQ(reader_->Attach().state, DeviceState::kOk);
  EXPECT_TRUE(Round()) << "the other is read on";
  clock_.Advance(seconds(10));
  Reader(1);
  EXPECT_EQ(reader_->Attach().state, DeviceState::kOk);
  EXPECT_TRUE(Round());
}

TEST_F(AmdsmiReaderTest, ReportsThatPermissionIsMissing) {
  auto opened = Open("gpus: 1\nerrors:\n  - {call: \"*\", code: 10, from: 1}\n");
  ASSERT_EQ(opened.fault, ReaderFault::kNone);
  clock_.Advance(seconds(2));
  Reader(0);
  EXPECT_EQ(reader_->Attach().state, DeviceState::kNoPermission);
  opened = Open("errors:\n  - {call: amdsmi_init, code: 34}\n");
  EXPECT_EQ(opened.fault, ReaderFault::kDriverNotLoaded);
  EXPECT_NE(opened.detail.find("modprobe amdgpu"), std::string::npos);
  opened = Open("errors:\n  - {call: amdsmi_init, code: 10}\n");
  EXPECT_EQ(opened.fault, ReaderFault::kNoPermission);
  EXPECT_NE(opened.detail.find("render"), std::string::npos);
}

TEST_F(AmdsmiReaderTest, PartitionsAreDevicesOfTheirBoard) {
  auto opened = Open("gpus: 2\ncompute_partition: CPX\nmemory_partition: NPS4\n");
  ASSERT_EQ(opened.devices, 16U);
  Reader(11);
  ASSERT_EQ(reader_->Attach().state, DeviceState::kOk);
  EXPECT_EQ(Fact("gpu"), "1");
  EXPECT_EQ(Fact("partition"), "3");
  EXPECT_EQ(Fact("partitions"), "8");
  EXPECT_EQ(Fact("compute_units"), "38");
  EXPECT_EQ(Fact("pci_bus_id"), "0000:22:00.3");
  ASSERT_TRUE(Round());
  EXPECT_EQ(Value(Field::kVramTotal), int64_t{196592 / 8} << 20);
  EXPECT_EQ(Value(Field::kComputePartition), 5);
  EXPECT_EQ(Value(Field::kMemoryPartition), 4);
  EXPECT_EQ(StatusOf(Field::kPowerCurrent), ReadStatus::kNotSupported) << "power is the board's";
}

TEST_F(AmdsmiReaderTest, ErrorsAndPagesAreCounted) {
  Start(
      "gpus: 1\necc:\n  - {block: umc, type: uncorrectable, amount: 2}\n  - {block: gfx, amount: 7}\n"
      "pages:\n  - {amount: 3}\n  - {amount: 2, pending: true}\n");
  ASSERT_TRUE(Round());
  EXPECT_EQ(Value(Field::kEccUncorrectable, 0), 2);
  EXPECT_EQ(Value(Field::kEccCorrectable, 2), 7);
  EXPECT_EQ(Value(Field::kEccTotalCorrectable), 7);
  EXPECT_EQ(Value(Field::kRetiredPages), 3);
  EXPECT_EQ(Value(Field::kRetiredPagesPending), 2);
}

TEST_F(AmdsmiReaderTest, ManyProcessesGetRoom) {
  std::string profile = "gpus: 1\nprocesses:\n";
  for (int i = 0; i < 100; ++i) profile += "  - {pid: " + std::to_string(1000 + i) + ", memory: 1MiB}\n";
  Start(profile);
  ASSERT_TRUE(Round());
  EXPECT_EQ(reader_->processes().size(), 100U);
  EXPECT_EQ(Value(Field::kProcessCount), 100);
}

// A library of one GPU that allocates nothing, unlike the simulated one.
void* PlainLookup(const char* name) {
  using Function = void*;
  static const std::pair<std::string_view, Function> kTable[] = {
      {"amdsmi_init", reinterpret_cast<Function>(+[](uint64_t) { return 0; })},
      {"amdsmi_get_lib_version", reinterpret_cast<Function>(+[](void* out) {
         static_cast<uint32_t*>(out)[0] = 26;
         return 0;
       })},
      {"amdsmi_get_socket_handles", reinterpret_cast<Function>(+[](uint32_t* count, Handle* out) {
         if (out) *out = reinterpret_cast<Handle>(count);
         *count = 1;
         return 0;
       })},
      {"amdsmi_get_processor_handles",
       reinterpret_cast<Function>(+[](Handle socket, uint32_t* count, Handle* out) {
         *out = socket;
         *count = 1;
         return 0;
       })},
      {"amdsmi_get_gpu_activity", reinterpret_cast<Function>(+[](Handle, void* out) {
         static_cast<uint32_t*>(out)[0] = 40;
         return 0;
       })},
      {"amdsmi_get_gpu_memory_usage", reinterpret_cast<Function>(+[](Handle, uint32_t, uint64_t* out) {
         *out = 1 << 30;
         return 0;
       })},
      {"amdsmi_get_gpu_process_list", reinterpret_cast<Function>(+[](Handle, uint32_t* count, void* out) {
         uint32_t pid = 9;
         std::memcpy(static_cast<char*>(out) + 256, &pid, sizeof pid);
         *count = 1;
         return 0;
       })},
  };
  for (const auto& [symbol, function] : kTable) {
    if (symbol == name) return function;
  }
  return nullptr;
}

TEST(AmdsmiReaderSteady, ARoundDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  ManualClock clock;
  reader::CallSlot slot;
  AmdsmiLibrary library("", &PlainLookup);
  ASSERT_EQ(library.Open(slot).devices, 1U);
  AmdsmiReader reader(library, 0, slot, clock, {seconds(1), seconds(10), seconds(60)});
  ASSERT_EQ(reader.Attach().state, DeviceState::kOk);
  ASSERT_TRUE(reader.Read(clock.Now().boot_ns));
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 120; ++i) {
    clock.Advance(seconds(1));
    ASSERT_TRUE(reader.Read(clock.Now().boot_ns));
    ASSERT_EQ(reader.processes().size(), 1U);
  }
  EXPECT_EQ(ThreadAllocations() - before, 0U);
}

TEST(AmdsmiAbi, VersionsAreTakenApart) {
  EXPECT_EQ(VersionFrom({24, 6, 1, 0}).Text(), "24.6.1");
  EXPECT_EQ(VersionFrom({25, 25, 3, 0}).Text(), "25.3.0");
  EXPECT_EQ(VersionFrom({0, 25, 5, 1}).Text(), "25.5.1");
  EXPECT_EQ(VersionFrom({26, 2, 1, 0}).Text(), "26.2.1");
  EXPECT_EQ(VersionFrom({0, 0, 0, 0}).Text(), "");
  EXPECT_EQ(VersionFrom({0xFFFFFFFF, 1, 2, 3}).Text(), "");
  EXPECT_EQ(LayoutOf(VersionFrom({24, 4, 0, 0})), nullptr);
  EXPECT_EQ(LayoutOf(VersionFrom({27, 0, 0, 0})), nullptr);
  EXPECT_NE(LayoutOf(VersionFrom({26, 0, 0, 0})), nullptr);
}

TEST(AmdsmiAbi, ArchitecturesAreNamedOrAbsent) {
  EXPECT_EQ(ArchitectureOf(90402), "gfx942");
  EXPECT_EQ(ArchitectureOf(0x942), "gfx942");
  EXPECT_EQ(ArchitectureOf(942), "gfx942");
  EXPECT_EQ(ArchitectureOf(90010), "gfx90a");
  EXPECT_EQ(ArchitectureOf(0x90A), "gfx90a");
  EXPECT_EQ(ArchitectureOf(110000), "gfx1100");
  EXPECT_EQ(ArchitectureOf(0), "");
  EXPECT_EQ(ArchitectureOf(~uint64_t{0}), "");
  EXPECT_EQ(ArchitectureOf(123456), "");
}

TEST(AmdsmiLibraryFile, IsOpenedFromTheDisk) {
  reader::CallSlot slot;
  AmdsmiLibrary library(GPULENS_FAKE_AMDSMI_LIBRARY, nullptr);
  auto opened = library.Open(slot);
  EXPECT_EQ(opened.fault, ReaderFault::kNone) << opened.detail;
  EXPECT_EQ(opened.devices, 8U);
  EXPECT_EQ(opened.path, GPULENS_FAKE_AMDSMI_LIBRARY);
  AmdsmiLibrary none("/nonexistent/libamd_smi.so", nullptr);
  opened = none.Open(slot);
  EXPECT_EQ(opened.fault, ReaderFault::kLibraryNotFound);
  AmdsmiLibrary other("libm.so.6", nullptr);
  opened = other.Open(slot);
  EXPECT_EQ(opened.fault, ReaderFault::kLibraryNotFound);
  EXPECT_NE(opened.detail.find("not an AMD SMI library"), std::string::npos);
}

TEST(AmdsmiNames, EveryFieldAndCallHasOne) {
  EXPECT_EQ(AmdsmiVendor().fields.size(), kSlots);
  for (const reader::FieldInfo& field : AmdsmiVendor().fields) EXPECT_FALSE(field.name.empty());
  EXPECT_EQ(CallName(static_cast<reader::CallNumber>(Call::kPowerInfo)), "amdsmi_get_power_info");
  EXPECT_EQ(CallName(60'000), "unknown");
  EXPECT_EQ(ReturnText(31), "not found");
  EXPECT_EQ(ReturnText(12345), "unlisted error");
}

}  // namespace
}  // namespace gpulens::amdsmi
