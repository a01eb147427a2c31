// Faults that are put in while the library is open, as its callers meet them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeFaults : public testing::Test {
 protected:
  FakeFaults() {
    EXPECT_TRUE(FakeWorld::Get().Use("gpus: 4\nload: {kind: constant, level: 0.5}\n", &clock_).ok());
    clock_.Advance(seconds(1000));
    EXPECT_EQ(FakeWorld::Get().Open(), 0);
    library_ = *NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
  }
  ~FakeFaults() override { FakeWorld::Get().UseFaults({}); }

  void Fail(std::initializer_list<const char*> orders) {
    std::vector<LiveFault> faults;
    for (const char* order : orders) {
      auto fault = ParseFaultOrder(order, clock_.Now().boot_ns);
      ASSERT_TRUE(fault.ok()) << order << ": " << fault.error().detail;
      faults.push_back(*fault);
      faults.back().id = static_cast<uint32_t>(faults.size());
    }
    FakeWorld::Get().UseFaults(faults);
  }
  Device At(unsigned index, int expected = 0) {
    Device device = nullptr;
    EXPECT_EQ(fn().HandleByIndex(index, &device), expected);
    return device;
  }
  unsigned Power(Device device, int expected = 0) {
    unsigned power = 0;
    EXPECT_EQ(fn().PowerUsage(device, &power), expected);
    return power;
  }
  unsigned long long Energy(Device device) {
    unsigned long long energy = 0;
    EXPECT_EQ(fn().TotalEnergy(device, &energy), 0);
    return energy;
  }
  std::string Uuid(Device device) {
    char text[96] = "";
    EXPECT_EQ(fn().Uuid(device, text, sizeof text), 0);
    return text;
  }
  const NvmlSymbols& fn() const { return library_.fn(); }

  ManualClock clock_;
  NvmlLibrary library_;
};

TEST_F(FakeFaults, BeginAndEndByTheClock) {
  Device gpu = At(3), other = At(2);
  Fail({"gpu=3 mode=lost after=2 for=3"});
  EXPECT_GT(Power(gpu), 0u);
  clock_.Advance(seconds(2));
  Power(gpu, kGpuIsLost);
  EXPECT_GT(Power(other), 0u);
  At(3, kGpuIsLost);
  clock_.Advance(seconds(3));
  EXPECT_GT(Power(gpu), 0u);
}

TEST_F(FakeFaults, ValuesAreTheLie) {
  Device gpu = At(0);
  unsigned before = Power(gpu);
  Fail({"gpu=0 mode=wrong_value reading=power value=all_ones",
        "gpu=0 mode=wrong_value reading=utilization value=4294967295",
        "gpu=0 mode=wrong_value reading=temperature value=int_min"});
  EXPECT_EQ(Power(gpu), 0xFFFFFFFFu);
  Utilization use{};
  EXPECT_EQ(fn().UtilizationRates(gpu, &use), 0);
  EXPECT_EQ(use.gpu, 4294967295u);
  unsigned temperature = 0;
  EXPECT_EQ(fn().Temperature(gpu, 0, &temperature), 0);
  EXPECT_EQ(temperature, 0x80000000u);
  EXPECT_EQ(Power(At(1)), before) << "only that GPU";
}

TEST_F(FakeFaults, CountersFallFreezeAndReset) {
  Device gpu = At(0);
  unsigned long long first = Energy(gpu);
  Fail({"gpu=0 mode=energy_backward amount=1000 for=1"});
  EXPECT_EQ(Energy(gpu), first - 1'000'000);
  clock_.Advance(seconds(1));
  EXPECT_GT(Energy(gpu), first);
  Fail({"gpu=0 mode=stuck reading=energy"});
  unsigned long long stuck = Energy(gpu);
  clock_.Advance(seconds(100));
  EXPECT_EQ(Energy(gpu), stuck);
  Fail({"gpu=0 mode=reset for=2s"});
  Power(gpu, kGpuIsLost);
  clock_.Advance(seconds(3));
  EXPECT_LT(Energy(gpu), 1'000'000u) << "a second of a board, in mJ";
}

TEST_F(FakeFaults, AGpuThatVanishedIsFoundBackByTheNextOpening) {
  std::string third = Uuid(At(2)), last = Uuid(At(3));
  Fail({"gpu=2 mode=vanish"});
  unsigned count = 0;
  EXPECT_EQ(fn().DeviceCount(&count), 0);
  EXPECT_EQ(count, 3u);
  At(2, kGpuIsLost);
  ASSERT_EQ(FakeWorld::Get().Open(), 0);
  EXPECT_EQ(Uuid(At(2)), last);
  At(3, kInvalidArgument);
  Fail({"gpu=2 mode=renumber index=0"});
  EXPECT_EQ(Uuid(At(2)), last) << "until it is opened anew";
  ASSERT_EQ(FakeWorld::Get().Open(), 0);
  EXPECT_EQ(Uuid(At(0)), third);
  EXPECT_EQ(Uuid(At(3)), last);
}

TEST_F(FakeFaults, EventsComeOncePerSetAndNotToLaterOnes) {
  EventSet set = nullptr, later = nullptr;
  ASSERT_EQ(fn().EventSetCreate(&set), 0);
  ASSERT_EQ(fn().RegisterEvents(At(1), 0x8 | 0x2, set), 0);
  Fail({"gpu=1 mode=xid code=79 after=1", "gpu=1 mode=ecc_uncorrectable after=1", "gpu=2 mode=xid code=31"});
  EventData data{};
  EXPECT_EQ(fn().EventWait(set, &data, 0), kTimeoutError) << "not yet";
  clock_.Advance(seconds(1));
  ASSERT_EQ(fn().EventWait(set, &data, 0), 0);
  EXPECT_EQ(data.data, 79u);
  ASSERT_EQ(fn().EventWait(set, &data, 0), 0);
  EXPECT_EQ(data.type, 0x2u);
  EXPECT_EQ(fn().EventWait(set, &data, 0), kTimeoutError);
  clock_.Advance(milliseconds(1));
  ASSERT_EQ(fn().EventSetCreate(&later), 0);
  ASSERT_EQ(fn().RegisterEvents(At(1), 0x8, later), 0);
  EXPECT_EQ(fn().EventWait(later, &data, 0), kTimeoutError) << "that was before its time";
}

TEST_F(FakeFaults, ACrashIsOneOfTheProcess) {
  Device gpu = At(0);
  clock_.Advance(seconds(1));
  Fail({"gpu=0 mode=crash call=nvmlDeviceGetPowerUsage"});
  EXPECT_GT(Energy(gpu), 0u);
  auto crash = [&] {
    ::signal(SIGSEGV, SIG_DFL);
    Power(gpu);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "");
  clock_.Advance(seconds(1));
  ASSERT_EQ(FakeWorld::Get().Open(), 0);
  EXPECT_GT(Power(gpu), 0u) << "who opened it since is spared";
}

TEST_F(FakeFaults, ACrashLoopAppliesToEveryCaller) {
  Device gpu = At(0);
  Fail({"gpu=0 mode=crash_loop call=nvmlDeviceGetPowerUsage how=exit"});
  EXPECT_GT(Energy(gpu), 0u);
  clock_.Advance(seconds(1));
  ASSERT_EQ(FakeWorld::Get().Open(), 0);
  EXPECT_EXIT(Power(gpu), testing::ExitedWithCode(3), "");
}

TEST(FaultWatch, FollowsItsFile) {
  std::string path = testing::TempDir() + "faults_" + std::to_string(::getpid());
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  ::setenv(kFaultFileVariable, path.c_str(), 1);
  FaultWatch watch;
  ::unsetenv(kFaultFileVariable);
  watch.Look(1'000'000'000);
  EXPECT_TRUE(watch.script()->empty());
  ASSERT_TRUE(WriteFileAtomically(path, "gpulens-faults 1\nid=1 gpu=3 mode=lost from=0 to=5\n").ok());
  watch.Look(1'010'000'000);
  EXPECT_TRUE(watch.script()->empty()) << "looked a moment ago";
  watch.Look(1'030'000'000);
  EXPECT_EQ(watch.script()->size(), 1u);
  ASSERT_TRUE(WriteFileAtomically(path, "nonsense").ok());
  watch.Look(2'000'000'000);
  EXPECT_EQ(watch.script()->size(), 1u) << "the faults before it go on";
  ::unlink(path.c_str());
  watch.Look(3'000'000'000);
  EXPECT_EQ(watch.script()->size(), 1u);
}

}  // namespace
}  // namespace gpulens::nvml
