// The replay at the edges: its end, counters, copies of boards, what is not in the recording.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kSmall = R"(gpulens_recording: 1
seconds: 10
every: 1
missing: [nvmlDeviceGetName]
counters: {nvmlDeviceGetTotalEnergyConsumption: 1, nvmlDeviceGetRemappedRows: 2, field 138: 1}
system: {nvmlSystemGetDriverVersion: "570.1"}
gpus:
- calls:
    nvmlDeviceGetUUID: GPU-7265636f-7264-4000-8000-000000000001
    nvmlDeviceGetSerial: "1650000000001"
    nvmlDeviceGetMinorNumber: 0
    nvmlDeviceGetPciInfo_v3: ["00000000:1A:00.0", "0000:1A:00.0", 0, 26, 0, 590, 377]
    nvmlDeviceGetTotalEnergyConsumption: 1000
    nvmlDeviceGetPowerUsage: 100
    nvmlDeviceGetTemperature(0): NO_PERMISSION
    nvmlDeviceGetClockInfo(0): many
    nvmlDeviceGetRemappedRows: [0, 1, 0, 0]
    nvmlDeviceGetRetiredPages_v2(0): [INSUFFICIENT_SIZE, 3]
    nvmlDeviceGetSupportedEventTypes: 8
    nvmlDeviceRegisterEvents: ok
    nvmlDeviceGetMigDeviceHandleByIndex(0): ok
    nvmlDeviceGetMigDeviceHandleByIndex(1): NOT_FOUND
    field 138: [5, ull]
    field 139: [5, wide]
  mig:
    0: {nvmlDeviceGetUUID: MIG-1, nvmlDeviceGetGpuInstanceId: 3}
events:
- {t: 2, gpu: 0, type: 8, data: 63}
timeline:
- t: 4
  gpu0:
    nvmlDeviceGetTotalEnergyConsumption: GPU_IS_LOST
    nvmlDeviceGetPowerUsage: 200
- t: 6
  gpu0:
    nvmlDeviceGetTotalEnergyConsumption: 1500
    nvmlDeviceGetRemappedRows: [0, 2, 1, 0]
)";

class ReplayTest : public testing::Test {
 protected:
  void Open(const std::string& yaml) {
    Status status = FakeWorld::Get().Use(yaml, &clock_);
    ASSERT_TRUE(status.ok()) << status.detail;
    auto library = NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
    ASSERT_TRUE(library.ok());
    fn_ = library->fn();
    ASSERT_EQ(fn_.Init(), kSuccess);
  }
  // The small recording by way of a profile with these further lines.
  void OpenProfile(const std::string& more) {
    path_ = testing::TempDir() + "replay_" + std::to_string(::getpid()) + ".yaml";
    ASSERT_TRUE(WriteFileAtomically(path_, kSmall));
    Open("recording: " + path_ + "\n" + more);
    ::unlink(path_.c_str());
  }
  Device Gpu(unsigned index) {
    Device device = nullptr;
    EXPECT_EQ(fn_.HandleByIndex(index, &device), kSuccess);
    return device;
  }
  unsigned Power() {
    unsigned out = 0;
    EXPECT_EQ(fn_.PowerUsage(Gpu(0), &out), kSuccess);
    return out;
  }
  unsigned long long Energy() {
    unsigned long long out = 0;
    EXPECT_EQ(fn_.TotalEnergy(Gpu(0), &out), kSuccess);
    return out;
  }
  std::string Text(const auto& function, Device device) {
    char out[96] = "";
    EXPECT_EQ(function(device, out, sizeof out), kSuccess);
    return out;
  }

  ManualClock clock_;
  NvmlSymbols fn_;
  std::string path_;
};

TEST_F(ReplayTest, RepeatsWithCountersThatContinue) {
  Open(kSmall);
  EXPECT_EQ(Power(), 100U);
  clock_.Advance(seconds(5));
  EXPECT_EQ(Power(), 200U);
  unsigned long long energy = 0;
  EXPECT_EQ(fn_.TotalEnergy(Gpu(0), &energy), kGpuIsLost);
  clock_.Advance(seconds(3));
  EXPECT_EQ(Energy(), 1500U);
  clock_.Advance(seconds(3));
  EXPECT_EQ(Power(), 100U) << "the second time";
  EXPECT_EQ(Energy(), 1500U) << "goes on where it was";
  clock_.Advance(seconds(7));
  EXPECT_EQ(Energy(), 2000U);
  unsigned corrected = 9, uncorrected = 9, pending = 9, failure = 9;
  EXPECT_EQ(fn_.RemappedRows(Gpu(0), &corrected, &uncorrected, &pending, &failure), kSuccess);
  EXPECT_EQ(uncorrected, 3U);
  EXPECT_EQ(pending, 1U) << "a state is no counter";
}

TEST_F(ReplayTest, HoldsAtItsEnd) {
  OpenProfile("at_end: hold\n");
  clock_.Advance(seconds(1000));
  EXPECT_EQ(Power(), 200U);
  EXPECT_EQ(Energy(), 1500U);
}

TEST_F(ReplayTest, CallsThatWereNotRecordedAreNotSupported) {
  Open(kSmall);
  unsigned out = 0;
  unsigned long long count = 0;
  EXPECT_FALSE(fn_.Name) << "the recorded library did not have it";
  EXPECT_EQ(fn_.PersistenceMode(Gpu(0), &out), kNotSupported);
  EXPECT_EQ(fn_.Temperature(Gpu(0), 0, &out), kNoPermission);
  EXPECT_EQ(fn_.Temperature(Gpu(0), 1, &out), kNotSupported) << "another sensor is another question";
  EXPECT_EQ(fn_.ClockInfo(Gpu(0), 0, &out), kUnknownError) << "no number: no value";
  EXPECT_EQ(fn_.TotalEccErrors(Gpu(0), 0, 0, &count), kNotSupported);
  EXPECT_EQ(fn_.RetiredPagesV2(Gpu(0), 0, &out, nullptr, nullptr), kInsufficientSize);
  EXPECT_EQ(out, 3U);
  char text[8];
  EXPECT_EQ(fn_.Uuid(Gpu(0), text, sizeof text), kInsufficientSize);
  EXPECT_EQ(fn_.PowerUsage(nullptr, &out), kInvalidArgument);
  Device none = nullptr;
  EXPECT_EQ(fn_.HandleByIndex(1, &none), kInvalidArgument);
  FieldValue fields[3] = {};
  fields[0].field_id = 138, fields[1].field_id = 139, fields[2].field_id = 1;
  EXPECT_EQ(fn_.FieldValues(Gpu(0), 3, fields), kSuccess);
  EXPECT_EQ(fields[0].code, kSuccess);
  EXPECT_EQ(fields[0].value.ull_value, 5U);
  EXPECT_EQ(fields[1].code, kUnknownError);
  EXPECT_EQ(fields[2].code, kNotSupported);
}

TEST_F(ReplayTest, MigDevicesAreDevices) {
  Open(kSmall);
  Device mig = nullptr;
  EXPECT_EQ(fn_.MigDeviceHandle(Gpu(0), 1, &mig), kNotFound);
  ASSERT_EQ(fn_.MigDeviceHandle(Gpu(0), 0, &mig), kSuccess);
  EXPECT_EQ(Text(fn_.Uuid, mig), "MIG-1");
  unsigned instance = 0;
  EXPECT_EQ(fn_.MigGpuInstance(mig, &instance), kSuccess);
  EXPECT_EQ(instance, 3U);
}

TEST_F(ReplayTest, CopiesAreBoardsOfTheirOwn) {
  OpenProfile("gpus: 3\n");
  unsigned count = 0;
  EXPECT_EQ(fn_.DeviceCount(&count), kSuccess);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(Text(fn_.Uuid, Gpu(0)), "GPU-7265636f-7264-4000-8000-000000000001");
  EXPECT_EQ(Text(fn_.Uuid, Gpu(2)), "GPU-72676371-7264-4000-8000-000000000001");
  EXPECT_EQ(Text(fn_.Serial, Gpu(1)), "1650000000001-1");
  PciInfo pci{};
  EXPECT_EQ(fn_.PciInfo(Gpu(2), &pci), kSuccess);
  EXPECT_EQ(pci.domain, 2U);
  EXPECT_STREQ(pci.bus_id, "00000002:1A:00.0");
  unsigned minor = 0;
  EXPECT_EQ(fn_.MinorNumber(Gpu(2), &minor), kSuccess);
  EXPECT_EQ(minor, 2U);
}

TEST_F(ReplayTest, EventsComeWhenTheyCameOnEveryCopy) {
  OpenProfile("gpus: 2\n");
  EventSet set = nullptr;
  ASSERT_EQ(fn_.EventSetCreate(&set), kSuccess);
  for (unsigned i : {0U, 1U}) ASSERT_EQ(fn_.RegisterEvents(Gpu(i), 8, set), kSuccess);
  EventData data{};
  EXPECT_EQ(fn_.EventWait(set, &data, 1), kTimeoutError);
  clock_.Advance(seconds(3));
  for (unsigned i : {0U, 1U}) {
    ASSERT_EQ(fn_.EventWait(set, &data, 1), kSuccess);
    EXPECT_EQ(data.device, Gpu(i));
    EXPECT_EQ(data.data, 63U);
  }
  EXPECT_EQ(fn_.EventWait(set, &data, 1), kTimeoutError);
  clock_.Advance(seconds(10));
  EXPECT_EQ(fn_.EventWait(set, &data, 1), kSuccess) << "once per round";
}

TEST_F(ReplayTest, TheFaultsOfAProfileComeFirst) {
  OpenProfile(
      "errors: [{gpu: 0, call: nvmlDeviceGetPowerUsage, code: 15, from: 1}]\nmissing: [nvmlDeviceGetUUID]\n");
  EXPECT_FALSE(fn_.Uuid);
  EXPECT_EQ(Power(), 100U);
  clock_.Advance(seconds(2));
  unsigned out = 0;
  EXPECT_EQ(fn_.PowerUsage(Gpu(0), &out), kGpuIsLost);
}

TEST(ReplayProfile, BadOnesAreRefused) {
  EXPECT_THAT(ParseFakeProfile("gpus: 1\nrecording: /nowhere.yaml\n").error().detail,
              testing::AllOf(testing::HasSubstr("line 2"), testing::HasSubstr("/nowhere.yaml")));
  EXPECT_THAT(ParseFakeProfile("recording: x\nat_end: stop\n").error().detail,
              testing::HasSubstr("at_end must be"));
  EXPECT_THAT(ParseFakeProfile("gpulens_recording: 2\n").error().detail, testing::HasSubstr("format"));
}

}  // namespace
}  // namespace gpulens::nvml
