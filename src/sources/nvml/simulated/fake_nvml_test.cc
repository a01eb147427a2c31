
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

FakeLoad LoadOf(const std::string& yaml) {
  auto profile = ParseFakeProfile("gpus: 1\nload: " + yaml + "\n");
  EXPECT_TRUE(profile.ok()) << profile.error().detail;
  return profile ? profile->gpus[0].load : FakeLoad{};
}

TEST(FakeLoad, TheIntegralIsThatOfTheLoad) {
  for (const char* yaml : {"{kind: constant, level: 0.7}", "{kind: idle}",
                           "{kind: sine, level: 0.5, amplitude: 0.4, period: 7, phase: 0.3}",
                           "{kind: steps, steps: [[2, 1], [3, 0.25]], phase: 0.5}"}) {
    FakeLoad load = LoadOf(yaml);
    double sum = 0;
    constexpr double kStep = 1e-3;
    for (int i = 0; i < 20'000; ++i) {
      double level = load.At((i + 0.5) * kStep);
      EXPECT_GE(level, 0);
      EXPECT_LE(level, 1);
      sum += level * kStep;
    }
    EXPECT_NEAR(load.Integral(20), sum, 1e-2) << yaml;
    EXPECT_NEAR(load.Mean(20, 20), sum / 20, 1e-3) << yaml;
    EXPECT_EQ(load.Mean(0, 1), load.At(0));
  }
}

TEST(FakeProfile, OfTheDemoIsGood) {
  auto profile = ParseFakeProfile(std::string(DemoProfile()));
  ASSERT_TRUE(profile.ok()) << profile.error().detail;
  EXPECT_EQ(profile->gpus.size(), 8U);
  EXPECT_EQ(profile->model->key, "H100");
}

TEST(FakeProfile, EveryFileOfOursIsGood) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GPULENS_SOURCE_DIR "/tests/fake_nvml/profiles")) {
    auto text = ReadFile(entry.path().string());
    ASSERT_TRUE(text.ok());
    auto profile = ParseFakeProfile(*text);
    EXPECT_TRUE(profile.ok()) << entry.path() << ": " << profile.error().detail;
    ++count;
  }
  EXPECT_GE(count, 10U);
}

TEST(FakeProfile, BadOnesAreRefusedWithTheLine) {
  struct Case {
    const char* yaml;
    const char* words;
  };
  for (const Case& bad : {
           Case{"gpus: 0", "gpus is not a whole number in range"},
           Case{"gpus: 17", "gpus"},
           Case{"gpus: many", "gpus"},
           Case{"gpus: [1]", "single value"},
           Case{"model: H9000", "A100, H100"},
           Case{"gpus: 1\nmodle: x", "line 2: unknown key 'modle'"},
           Case{"- 1", "expected a map"},
           Case{"a: [", "profile: "},
           Case{"load: {kind: wild}", "kind must be"},
           Case{"load: {kind: sine, level: 0.1, amplitude: 0.4}", "leave 0 to 1"},
           Case{"load: {kind: steps}", "steps are missing"},
           Case{"load: {kind: steps, steps: [[1]]}", "a step is"},
           Case{"load: {level: 2}", "level"},
           Case{"load: {level: nan}", "level"},
           Case{"load: {wrong: 2}", "unknown key 'wrong'"},
           Case{"ecc: maybe", "true or false"},
           Case{"each: [{ecc: true}]", "gpu is missing"},
           Case{"gpus: 2\neach: [{gpu: 2}]", "gpu"},
           Case{"processes: [{memory: 1GiB}]", "pid is missing"},
           Case{"processes: [{pid: 1, memory: lots}]", "is not a size"},
           Case{"processes: [{pid: 1, type: magic}]", "unknown value 'magic'"},
           Case{"processes: [{pid: 1, memory: 1MiB, swing: 2MiB}]", "swing"},
           Case{"processes: 5", "short list"},
           Case{"faults: [{counter: nothing}]", "unknown value"},
           Case{"errors: [{code: 3}]", "call is missing"},
           Case{"errors: [{call: x}]", "code is missing"},
           Case{"hangs: [{call: x, code: 3}]", "unknown key 'code'"},
           Case{"throttle: [{gpu: 1}]", "mask is missing"},
       }) {
    auto profile = ParseFakeProfile(bad.yaml);
    ASSERT_FALSE(profile.ok()) << bad.yaml;
    EXPECT_EQ(profile.error().code, gpulens::Code::kInvalidArgument);
    EXPECT_THAT(profile.error().detail, testing::HasSubstr(bad.words)) << bad.yaml;
  }
}

class FakeLibrary : public testing::Test {
 protected:
  void Open(const std::string& yaml) {
    ASSERT_TRUE(FakeWorld::Get().Use(yaml, &clock_).ok());
    auto library = NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
    ASSERT_TRUE(library.ok());
    fn_ = library->fn();
    ASSERT_EQ(fn_.Init(), kSuccess);
  }
  Device Gpu(unsigned index) {
    Device device = nullptr;
    EXPECT_EQ(fn_.HandleByIndex(index, &device), kSuccess);
    return device;
  }

  ManualClock clock_;
  NvmlSymbols fn_;
};

TEST_F(FakeLibrary, RefusesWhatTheRealOneRefuses) {
  Open("gpus: 2\n");
  Device device = nullptr;
  EXPECT_EQ(fn_.HandleByIndex(2, &device), kInvalidArgument);
  unsigned number = 0;
  EXPECT_EQ(fn_.PowerUsage(nullptr, &number), kInvalidArgument);
  EXPECT_EQ(fn_.PowerUsage(Gpu(0), nullptr), kInvalidArgument);
  MemoryV2 memory{};
  EXPECT_EQ(fn_.MemoryInfoV2(Gpu(0), &memory), kArgumentVersionMismatch);
  TemperatureV1 temperature{};
  EXPECT_EQ(fn_.TemperatureV(Gpu(0), &temperature), kArgumentVersionMismatch);
  temperature.sensor = 3;
  EXPECT_EQ(fn_.TemperatureV(Gpu(0), &temperature), kInvalidArgument);
  EXPECT_EQ(fn_.Temperature(Gpu(0), 1, &number), kInvalidArgument);
  EXPECT_EQ(fn_.ClockInfo(Gpu(0), 9, &number), kInvalidArgument);
  EXPECT_EQ(fn_.MaxClockInfo(Gpu(0), 9, &number), kInvalidArgument);
  EXPECT_EQ(fn_.NvLinkState(Gpu(0), 18, &number), kInvalidArgument);
  EXPECT_EQ(fn_.FanSpeedV2(Gpu(0), 0, &number), kInvalidArgument);
  EXPECT_EQ(fn_.PcieThroughput(Gpu(0), 7, &number), kInvalidArgument);
  char small[4];
  EXPECT_EQ(fn_.Name(Gpu(0), small, sizeof small), kInsufficientSize);
  EXPECT_EQ(fn_.Name(Gpu(0), nullptr, 0), kInvalidArgument);
  EXPECT_EQ(FakeNvmlLookup("nvmlNoSuchThing"), nullptr);
}

TEST_F(FakeLibrary, AProcessListThatDoesNotFitReturnsItsSize) {
  Open("gpus: 1\nprocesses: [{pid: 5, memory: 1GiB}, {pid: 6, memory: 1GiB}]\n");
  ProcessInfoV2 list[2];
  unsigned count = 1;
  EXPECT_EQ(fn_.ComputeProcessesV3(Gpu(0), &count, list), kInsufficientSize);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(fn_.ComputeProcessesV3(Gpu(0), &count, list), kSuccess);
  EXPECT_EQ(list[1].pid, 6U);
}

TEST_F(FakeLibrary, MemoryAddsUpWhateverProcessesWant) {
  Open("gpus: 1\nprocesses: [{pid: 5, memory: 60GiB, swing: 10GiB, period: 9}, {pid: 6, memory: 40GiB}]\n");
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(std::chrono::seconds(1));
    MemoryV2 memory{};
    memory.version = kMemoryV2;
    ASSERT_EQ(fn_.MemoryInfoV2(Gpu(0), &memory), kSuccess);
    EXPECT_EQ(memory.used + memory.free + memory.reserved, memory.total);
    ProcessInfoV2 list[2];
    unsigned count = 2;
    ASSERT_EQ(fn_.ComputeProcessesV3(Gpu(0), &count, list), kSuccess);
    EXPECT_LE(list[0].used_memory + list[1].used_memory, memory.used);
  }
}

TEST_F(FakeLibrary, CountersDoNotFallWhenTheProfileChanges) {
  auto path = testing::TempDir() + "live_" + std::to_string(::getpid()) + ".yaml";
  ASSERT_TRUE(WriteFileAtomically(path, "gpus: 1\nload: {kind: constant, level: 1}\n"));
  // The world of this process is given its profile by the other tests; a second one reads the file.
  ::setenv("GPULENS_FAKE_NVML", path.c_str(), 1);
  FakeWorld world;
  ASSERT_EQ(world.Open(), 0);
  FakeView before, after;
  ASSERT_TRUE(world.View(0, before));
  EXPECT_EQ(before.busy, 1);
  ASSERT_TRUE(WriteFileAtomically(path, "gpus: 1\nload: {kind: idle}\nerrors: [{call: x, code: 3}]\n"));
  int64_t end = RealClock().Now().boot_ns + 10'000'000'000;
  while (world.Enter("x", -1) != 3) ASSERT_LT(RealClock().Now().boot_ns, end);
  ASSERT_TRUE(world.View(0, after));
  EXPECT_EQ(after.busy, 0);
  constexpr auto kEnergy = static_cast<size_t>(FakeFlow::kEnergyMillijoules);
  EXPECT_GE(after.flows[kEnergy], before.flows[kEnergy]);
  EXPECT_LT(after.flows[kEnergy] - before.flows[kEnergy], 20'000'000U);
  // A profile that is no good is not taken.
  ASSERT_TRUE(WriteFileAtomically(path, "gpus: none\n"));
  end = RealClock().Now().boot_ns + 50'000'000;
  while (RealClock().Now().boot_ns < end) ASSERT_EQ(world.Enter("x", -1), 3);
  ::unlink(path.c_str());
  FakeWorld missing;
  EXPECT_NE(missing.Open(), 0);
  EXPECT_NE(missing.Enter("x", -1), 0);
  ::unsetenv("GPULENS_FAKE_NVML");
  FakeWorld demo;
  EXPECT_EQ(demo.Open(), 0);
  EXPECT_EQ(demo.profile()->gpus.size(), 8U);
}

TEST_F(FakeLibrary, BeforeInitNothingWorks) {
  FakeWorld closed;
  EXPECT_FALSE(closed.open());
  FakeView view;
  EXPECT_FALSE(closed.View(0, view));
  EXPECT_EQ(closed.Calls("nvmlInit_v2", -1), 0U);
}

TEST_F(FakeLibrary, ErrorsAndCallsAreCountedPerGpu) {
  Open("gpus: 2\nerrors: [{gpu: 1, call: nvmlDeviceGetPowerUsage, code: 999, nth: 2}]\n");
  FakeWorld::Get().ForgetCalls();
  unsigned number = 0;
  EXPECT_EQ(fn_.PowerUsage(Gpu(1), &number), kSuccess);
  EXPECT_EQ(fn_.PowerUsage(Gpu(1), &number), kUnknownError);
  EXPECT_EQ(fn_.PowerUsage(Gpu(1), &number), kSuccess);
  EXPECT_EQ(fn_.PowerUsage(Gpu(0), &number), kSuccess);
  EXPECT_EQ(FakeWorld::Get().Calls("nvmlDeviceGetPowerUsage", 1), 3U);
  EXPECT_EQ(FakeWorld::Get().Calls("nvmlDeviceGetPowerUsage", -1), 4U);
}

}  // namespace
}  // namespace gpulens::nvml
