// The readers of slices against the simulated library, in this process: what they send is decoded as the
// agent does.
#include "sources/nvml/reader/slices_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>

#include "base/testing/allocations.h"
#include "sources/nvml/reader/agent_for_test.h"
#include "sources/nvml/reader/nvml_process.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Mig = SlicesReader::Mig;

class PartsTest : public testing::Test {
 protected:
  void Use(const std::string& yaml, Mig mig = Mig::kOff, unsigned index = 0) {
    reader_.reset();  // Before the library that it reads.
    Profile(yaml);
    ASSERT_EQ(FakeWorld::Get().Open(), 0);
    FakeWorld::Get().ForgetCalls();
    auto library = NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
    ASSERT_TRUE(library.ok());
    library_ = std::make_unique<NvmlLibrary>(*std::move(library));
    SlicesReaderOptions options;
    options.details = details_;
    reader_ = std::make_unique<SlicesReader>(*library_, index, slot_, clock_, options);
    Device device = nullptr;
    ASSERT_EQ(library_->fn().HandleByIndex(index, &device), 0);
    reader_->Attach(device, mig);
    agent_ = std::make_unique<AgentEnd>(clock_);
    agent_->table.Expect(16);
    index_ = index;
  }
  void Profile(const std::string& yaml) {
    Status status = FakeWorld::Get().Use(yaml, &clock_);
    ASSERT_TRUE(status.ok()) << status.detail;
  }
  void Round(bool rescan = false) {
    reader_->Scan(clock_.Now().boot_ns, rescan, *agent_);
    reader_->Read(clock_.Now().boot_ns, *agent_);
  }
  // A round one second later.
  void Next(bool rescan = false) {
    clock_.Advance(seconds(1));
    Round(rescan);
  }
  const GpuSlices& Slices() const { return agent_->vendor_state.gpus()[index_].slices; }
  const GpuSlice* MigPart(uint32_t instance, uint32_t compute = 0) const {
    for (const GpuSlice& slice : Slices().list) {
      if (slice.key.kind == SliceKind::kMig && slice.key.id == instance && slice.key.sub == compute)
        return &slice;
    }
    return nullptr;
  }
  static uint64_t Calls(const char* call) { return FakeWorld::Get().Calls(call, -1); }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  CallSlot slot_;
  std::unique_ptr<NvmlLibrary> library_;
  std::unique_ptr<SlicesReader> reader_;
  unsigned index_ = 0;
  uint32_t details_ = 0;
  std::unique_ptr<AgentEnd> agent_;
};

TEST_F(PartsTest, EnginesCachesAndCyclesAreReadWhenRequested) {
  const char* yaml = "gpus: 1\nload: {kind: constant, level: 0.5}\n";
  Use(yaml);
  Round();
  Next();
  EXPECT_NE(Slices()[SliceField::kGpmSm].boot_ns, 0);
  EXPECT_EQ(Slices()[SliceField::kGpmCycles].boot_ns, 0);
  details_ = kDetailMore;
  Use(yaml);
  Round();
  Next();
  double before = Slices()[SliceField::kGpmCycles].value, active = Slices()[SliceField::kGpmCyclesSm].value;
  EXPECT_NEAR(Slices()[SliceField::kGpmDecoder6].value, 1.5, 1e-6);
  EXPECT_EQ(Slices()[SliceField::kGpmDecoder7].boot_ns, 0) << "seven decoders";
  EXPECT_EQ(Slices()[SliceField::kGpmEncoder0].boot_ns, 0) << "no encoder on this board";
  EXPECT_NEAR(Slices()[SliceField::kGpmHitDram].value, 61, 1e-6);
  Next();
  // Two counters give the mean of a share over any time.
  double share =
      (Slices()[SliceField::kGpmCyclesSm].value - active) / (Slices()[SliceField::kGpmCycles].value - before);
  EXPECT_NEAR(share * 100, Slices()[SliceField::kGpmSm].value, 1e-6);
}

constexpr const char* kSplit =
    "gpus: 1\nload: {kind: constant, level: 0.6}\nmig:\n"
    "  - {gpu: 0, profile: 3g.40gb, instance: 1, load: 0.5}\n"
    "  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 0}\n"
    "  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 1}\n"
    "processes:\n  - {pid: 7, memory: 8GiB, mig_instance: 1}\n";

TEST_F(PartsTest, GpmAgreesWithTheLoad) {
  Use("gpus: 1\nload: {kind: constant, level: 0.5}\npcie_share: 0.2\n");
  Round();
  EXPECT_EQ(Slices()[SliceField::kGpmSm].boot_ns, 0) << "one sample is no mean";
  Next();
  EXPECT_NEAR(Slices()[SliceField::kGpmGraphics].value, 50, 1e-6);
  EXPECT_NEAR(Slices()[SliceField::kGpmSm].value, 44, 1e-6);
  EXPECT_NEAR(Slices()[SliceField::kGpmTensor].value, 26, 1e-6);
  EXPECT_GT(Slices()[SliceField::kGpmPcieRx].value, Slices()[SliceField::kGpmPcieTx].value);
  EXPECT_TRUE(reader_->reports_pcie());
  EXPECT_EQ(Slices()[SliceField::kGpmC2cTx].boot_ns, 0) << "no C2C on this board";
  // A missing function is called once.
  uint64_t calls = Calls("nvmlGpmMetricsGet");
  Next();
  EXPECT_EQ(Calls("nvmlGpmMetricsGet"), calls + 1);
}

TEST_F(PartsTest, GpmIsAMeanOverTheRealInterval) {
  Use("gpus: 1\nload: {kind: steps, steps: [[10, 1.0], [10, 0.0]]}\n");
  Round();
  clock_.Advance(seconds(20));
  Round();
  EXPECT_NEAR(Slices()[SliceField::kGpmGraphics].value, 50, 1e-6)
      << "a late round still tells the whole span";
  clock_.Advance(milliseconds(50));
  int64_t before = Slices()[SliceField::kGpmGraphics].boot_ns;
  Round();
  EXPECT_EQ(Slices()[SliceField::kGpmGraphics].boot_ns, before) << "50 ms are too short to tell anything";
}

TEST_F(PartsTest, BeforeHopperThereIsNoGpm) {
  Use("model: A100\ngpus: 1\n");
  Round();
  Next();
  Next();
  EXPECT_EQ(Slices()[SliceField::kGpmSm].boot_ns, 0);
  EXPECT_EQ(Calls("nvmlGpmQueryDeviceSupport"), 1U);
  EXPECT_EQ(Calls("nvmlGpmSampleGet"), 0U);
}

TEST_F(PartsTest, AGapGivesNoMean) {
  Use("gpus: 1\nload: {kind: constant, level: 0.5}\nerrors:\n  - {call: nvmlGpmSampleGet, nth: 2, code: "
      "999}\n");
  Round();
  Next();
  EXPECT_EQ(Slices()[SliceField::kGpmSm].boot_ns, 0);
  Next();
  EXPECT_EQ(Slices()[SliceField::kGpmSm].boot_ns, 0);
  Next();
  EXPECT_NE(Slices()[SliceField::kGpmSm].boot_ns, 0);
}

TEST_F(PartsTest, MigInstancesHaveTheirOwnIdentityMemoryAndGpm) {
  Use(kSplit, Mig::kOn);
  Round();
  Next();
  EXPECT_EQ(Slices().mig_max, 7U);
  ASSERT_EQ(Slices().list.size(), 3U);
  const GpuSlice* one = MigPart(1);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->Fact("profile"), "3g.40gb");
  EXPECT_THAT(std::string(one->Fact("uuid")), testing::StartsWith("MIG-"));
  EXPECT_EQ(one->Fact("slices"), "3");
  EXPECT_EQ((*one)[SliceField::kMemoryTotal].value, 40.0 * (uint64_t{1} << 30));
  EXPECT_EQ((*one)[SliceField::kMemoryUsed].value, 8.0 * (uint64_t{1} << 30));
  EXPECT_NEAR((*one)[SliceField::kGpmGraphics].value, 50, 1e-6);
  EXPECT_NEAR((*MigPart(2))[SliceField::kGpmGraphics].value, 0, 1e-6) << "nothing runs in it";
  EXPECT_EQ((*MigPart(2, 1))[SliceField::kMemoryUsed].boot_ns, 0) << "told of the first compute instance";
  EXPECT_EQ((*MigPart(2, 1))[SliceField::kGpmSm].boot_ns, 0);
  // Nothing of the whole GPU: that would count twice.
  for (const SliceValue& value : Slices().whole) EXPECT_EQ(value.boot_ns, 0);
  EXPECT_EQ(Slices().shares_boot_ns, 0);
  EXPECT_EQ(reader_->mig_devices().size(), 3U);
}

TEST_F(PartsTest, InstancesComeAndGoWithoutARestart) {
  Use(kSplit, Mig::kOn);
  Round();
  Next();
  Profile(
      "gpus: 1\nmig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1}\n  - {gpu: 0, profile: 4g.40gb, instance: "
      "5}\n");
  Next();
  EXPECT_TRUE(MigPart(2)) << "the list is looked at every ten seconds";
  Next(true);
  EXPECT_FALSE(MigPart(2)) << "or when the library says that it changed";
  ASSERT_TRUE(MigPart(5));
  EXPECT_EQ(MigPart(5)->Fact("profile"), "4g.40gb");
  Profile("gpus: 1\nmig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1, to: 1}\n");
  for (int i = 0; i < 11; ++i) Next();
  EXPECT_TRUE(Slices().list.empty());
  EXPECT_EQ(Slices().mig_max, 7U);
}

TEST_F(PartsTest, AnErrorIsNotTheEndOfAllInstances) {
  Use(kSplit, Mig::kOn);
  Round();
  ASSERT_EQ(Slices().list.size(), 3U);
  Profile(std::string(kSplit) + "errors:\n  - {call: nvmlDeviceGetMigDeviceHandleByIndex, code: 999}\n");
  Next(true);
  EXPECT_EQ(Slices().list.size(), 3U);
}

TEST_F(PartsTest, ProfileNamesAreMadeFromTheAttributesWhereTheNameLacksThem) {
  constexpr uint64_t kH100 = uint64_t{81559} << 20;
  DeviceAttributes attributes{};
  attributes.gpu_slices = attributes.compute_slices = 3;
  attributes.memory_mib = 40448;
  EXPECT_EQ(MigProfileName(attributes, kH100), "3g.40gb");
  attributes.compute_slices = 1;
  EXPECT_EQ(MigProfileName(attributes, kH100), "1c.3g.40gb");
  attributes = {};
  attributes.gpu_slices = attributes.compute_slices = 1;
  attributes.memory_mib = 9856;
  EXPECT_EQ(MigProfileName(attributes, kH100), "1g.10gb");
  EXPECT_EQ(MigProfileName(attributes, 0), "");
  EXPECT_EQ(MigProfileName(DeviceAttributes{}, kH100), "");
}

TEST_F(PartsTest, SharesAreOfTheProcessesThatRan) {
  for (const char* missing : {"", "missing: [nvmlDeviceGetProcessesUtilizationInfo]\n"}) {
    Use(std::string("gpus: 1\n") + missing +
        "processes:\n  - {pid: 1, memory: 1MiB, sm: 40, memory_use: 20, encoder: 5}\n"
        "  - {pid: 2, memory: 1MiB, sm: 0, memory_use: 0}\n  - {pid: 3, memory: 1MiB, sm: 900, memory_use: "
        "1}\n");
    Round();
    ASSERT_NE(Slices().shares_boot_ns, 0) << missing;
    std::map<uint32_t, ProcessShare> shares;
    for (const ProcessShare& share : Slices().shares) shares[share.pid] = share;
    EXPECT_EQ(shares[1].sm, 40);
    EXPECT_EQ(shares[1].encoder, 5);
    EXPECT_FALSE(shares.contains(2)) << "idle";
    EXPECT_EQ(shares[3].sm, 254) << "nonsense stays nonsense";
  }
  Use("gpus: 1\nmissing: [nvmlDeviceGetProcessesUtilizationInfo, nvmlDeviceGetProcessUtilization]\n");
  Round();
  EXPECT_EQ(Slices().shares_boot_ns, 0);
}

TEST_F(PartsTest, VgpusOfAHost) {
  Use("model: L4\ngpus: 2\nvgpus:\n"
      "  - {gpu: 0, id: 3251634213, vm: vm-7, memory: 4GiB, sm: 35, memory_use: 10}\n"
      "  - {gpu: 0, id: 77, vm: vm-8, licensed: false}\n");
  Round();
  ASSERT_TRUE(Slices().vgpu_host);
  ASSERT_EQ(Slices().list.size(), 2U);
  const GpuSlice& slice = Slices().list[1];
  EXPECT_EQ(slice.key.id, 3251634213U);
  EXPECT_EQ(slice.Fact("vm"), "vm-7");
  EXPECT_EQ(slice.Fact("type"), "NVIDIA L40S-8Q");
  EXPECT_EQ(slice[SliceField::kVgpuMemoryUsed].value, 4.0 * (uint64_t{1} << 30));
  EXPECT_EQ(slice[SliceField::kVgpuSm].value, 35);
  EXPECT_EQ(slice[SliceField::kVgpuLicensed].value, 1);
  EXPECT_EQ(Slices().list[0][SliceField::kVgpuLicensed].value, 0);
  Use("model: L4\ngpus: 1\n");
  Round();
  for (int i = 0; i < 25; ++i) Next();
  EXPECT_FALSE(Slices().vgpu_host);
  EXPECT_EQ(Calls("nvmlDeviceGetActiveVgpus"), 1U) << "no vGPU host: asked once";
}

TEST_F(PartsTest, AnOldLibraryHasNoneOfIt) {
  Use("model: H100\ngpus: 1\nmissing: [nvmlGpmQueryDeviceSupport, nvmlDeviceGetActiveVgpus, "
      "nvmlDeviceGetMaxMigDeviceCount, nvmlDeviceGetProcessesUtilizationInfo, "
      "nvmlDeviceGetProcessUtilization]\n",
      Mig::kOn);
  Round();
  Next();
  EXPECT_EQ(agent_->messages, 0U);
}

TEST_F(PartsTest, ASteadyRoundSendsButDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  // The simulated library allocates for every answer: what is counted is what this side adds to it.
  Use(kSplit, Mig::kOn);
  for (int i = 0; i < 12; ++i) Next();
  auto count = [&](auto&& work) {
    uint64_t before = AllAllocations();
    work();
    return AllAllocations() - before;
  };
  Device device = nullptr;
  library_->fn().HandleByIndex(0, &device);
  uint64_t once = 0;
  Device mig = reader_->mig_devices()[0].device;
  MemoryV2 memory{};
  memory.version = kMemoryV2;
  once = count([&] { library_->fn().MemoryInfoV2(mig, &memory); });
  uint64_t before_messages = agent_->messages;
  uint64_t calls_before = reader_->caller().calls();
  uint64_t allocated = 0;
  struct : reader::MessageOutbox {
    bool Send(std::span<const std::byte>) noexcept override { return true; }
  } quiet;
  clock_.Advance(seconds(1));
  allocated = count([&] {
    reader_->Scan(clock_.Now().boot_ns, false, quiet);
    reader_->Read(clock_.Now().boot_ns, quiet);
  });
  uint64_t calls = reader_->caller().calls() - calls_before;
  EXPECT_EQ(agent_->messages, before_messages);
  EXPECT_GT(calls, 0U);
  EXPECT_LE(allocated, calls * once) << "no more than the simulated library's own";
}

TEST_F(PartsTest, EventsComeOnceAndWithTheirGpu) {
  Use("gpus: 2\nxids:\n  - {gpu: 1, code: 79, at: 0}\nevents:\n  - {gpu: 0, type: mig_config, at: 0, "
      "instance: 3}\n"
      "  - {gpu: 0, type: clock, at: 0}\n");
  NvmlCaller caller(*library_, slot_, clock_);
  EventWaiter hub(kUsualEvents);
  ASSERT_TRUE(hub.Open(caller));
  EXPECT_FALSE(hub.has_devices());
  for (unsigned i : {0U, 1U}) {
    Device device = nullptr;
    ASSERT_EQ(library_->fn().HandleByIndex(i, &device), 0);
    hub.Register(caller, i, device);
    hub.Register(caller, i, device);
  }
  EXPECT_EQ(Calls("nvmlDeviceRegisterEvents"), 2U) << "a handle is registered once";
  DeviceEvent event;
  ASSERT_EQ(hub.Wait(caller, 1, event), EventWaiter::Outcome::kEvent);
  EXPECT_EQ(event.entity, 1U);
  EXPECT_EQ(event.type, uint64_t{kEventXid});
  EXPECT_EQ(event.data, 79U);
  ASSERT_EQ(hub.Wait(caller, 1, event), EventWaiter::Outcome::kEvent);
  EXPECT_EQ(event.type, uint64_t{kEventMigConfig});
  EXPECT_EQ(event.gpu_instance, 3U);
  EXPECT_TRUE(hub.TakeRescan(0));
  EXPECT_FALSE(hub.TakeRescan(0));
  EXPECT_EQ(hub.Wait(caller, 1, event), EventWaiter::Outcome::kNothing) << "the clock was not asked for";
}

TEST_F(PartsTest, ALibraryWithoutEventsIsLearntOnce) {
  for (const char* yaml : {"missing: [nvmlEventSetCreate]\n", "missing: [nvmlDeviceRegisterEvents]\n",
                           "missing: [nvmlEventSetWait_v2, nvmlEventSetWait]\n",
                           "errors:\n  - {call: nvmlEventSetCreate, code: 3}\n"}) {
    Use(std::string("gpus: 1\n") + yaml);
    NvmlCaller caller(*library_, slot_, clock_);
    EXPECT_FALSE(EventWaiter(kUsualEvents).Open(caller)) << yaml;
  }
  Use("gpus: 1\nmissing: [nvmlEventSetWait_v2]\nxids:\n  - {gpu: 0, code: 13, at: 0}\n");
  NvmlCaller caller(*library_, slot_, clock_);
  EventWaiter hub(kUsualEvents);
  ASSERT_TRUE(hub.Open(caller));
  Device device = nullptr;
  ASSERT_EQ(library_->fn().HandleByIndex(0, &device), 0);
  hub.Register(caller, 0, device);
  DeviceEvent event;
  ASSERT_EQ(hub.Wait(caller, 1, event), EventWaiter::Outcome::kEvent) << "by the older function";
  EXPECT_EQ(event.gpu_instance, GpuProcess::kNoInstance);
}

}  // namespace
}  // namespace gpulens::nvml
