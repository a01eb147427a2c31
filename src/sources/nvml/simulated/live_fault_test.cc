#include "sources/nvml/simulated/fault_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/nvml/simulated/fault_list.h"

namespace gpulens::nvml {
namespace {

using testing::HasSubstr;

constexpr int64_t kNow = 1'000'000'000'000, kSecond = 1'000'000'000;

LiveFault Fault(std::string_view words, int64_t now = kNow) {
  auto fault = ParseFaultOrder(words, now);
  EXPECT_TRUE(fault.ok()) << words << ": " << fault.error().detail;
  return fault ? *fault : LiveFault{};
}

TEST(FaultOrder, IsUnderstood) {
  LiveFault xid = Fault("gpu=3 mode=xid code=79 after=2s");
  EXPECT_EQ(xid.gpu, 3);
  EXPECT_EQ(xid.mode, FaultMode::kXid);
  EXPECT_EQ(xid.code, 79);
  EXPECT_EQ(xid.from_ns, kNow + 2 * kSecond);
  EXPECT_EQ(xid.to_ns, kFaultForEver);
  LiveFault slow = Fault("  mode=slow   delay=250ms gpu=all for=1.5 call=nvmlDeviceGetPowerUsage ");
  EXPECT_EQ(slow.gpu, -1);
  EXPECT_EQ(slow.delay_ns, kSecond / 4);
  EXPECT_EQ(slow.to_ns, kNow + 3 * kSecond / 2);
  EXPECT_EQ(Fault("gpu=0 mode=wrong_value reading=power value=0xFFFFFFFF").value, 0xFFFFFFFFu);
  EXPECT_EQ(Fault("gpu=0 mode=wrong_value reading=energy value=-1").value, ~uint64_t{0});
  EXPECT_EQ(static_cast<unsigned>(Fault("gpu=0 mode=wrong_value reading=clock value=int_min").value),
            0x80000000u);
  EXPECT_EQ(Fault("gpu=1 mode=reset").to_ns, kNow + 2 * kSecond);
  EXPECT_EQ(Fault("gpu=1 mode=reset for=5").to_ns, kNow + 5 * kSecond);
  EXPECT_EQ(Fault("mode=hang call=nvmlEventSetWait_v2").gpu, -1) << "a call that takes no GPU";
}

TEST(FaultOrder, BadOnesAreRefusedWithWhatIsAllowed) {
  struct {
    const char *words, *error;
  } const kBad[] = {
      {"", "mode is missing: one of lost, fallen_off_bus"},
      {"gpu=3", "mode is missing"},
      {"gpu=3 mode=explode", "mode=explode: expected one of lost"},
      {"mode=lost", "gpu is missing: gpu=3, or gpu=all"},
      {"gpu=16 mode=lost", "gpu=16: expected 0 to 15, or all"},
      {"gpu=-1 mode=lost", "expected 0 to 15"},
      {"gpu=3 gpu=4 mode=lost", "each key once"},
      {"gpu=3 mode=lost mode=hang", "each key once"},
      {"gpu=3 mode=lost code=3", "no such key with mode=lost"},
      {"gpu=3 mode=lost id=3", "no such key with mode=lost"},
      {"gpu=3 mode=xid", "mode=xid needs code="},
      {"gpu=3 mode=xid code=0", "code=0: expected 1 to 4095"},
      {"gpu=3 mode=xid code=79 for=3s", "happens once"},
      {"gpu=3 mode=error code=1000", "code=1000: expected 1 to 999"},
      {"gpu=3 mode=error code=999 call=system", "the name of a function"},
      {"gpu=3 mode=error code=999 call=nvml;rm", "the name of a function"},
      {"gpu=3 mode=lost after=-1", "expected seconds or 500ms"},
      {"gpu=3 mode=lost after=1e3", "expected seconds or 500ms"},
      {"gpu=3 mode=lost after=25h", "up to 24h"},
      {"gpu=3 mode=lost for=0", "more than 0 s"},
      {"gpu=3 mode=slow delay=61s", "up to 60 s"},
      {"gpu=3 mode=wrong_value reading=mood value=1", "one of power, energy"},
      {"gpu=3 mode=wrong_value reading=power value=many", "all_ones or int_min"},
      {"gpu=3 mode=counter counter=beans", "one of ecc_corrected"},
      {"gpu=all mode=vanish", "one GPU with this mode"},
      {"gpu=3\x1b[31m mode=lost", "gpu=3?[31m"},
  };
  for (auto [words, error] : kBad) {
    auto fault = ParseFaultOrder(words, kNow);
    ASSERT_FALSE(fault.ok()) << words;
    EXPECT_THAT(fault.error().detail, HasSubstr(error)) << words;
  }
  EXPECT_FALSE(ParseFaultOrder(std::string(kMaxFaultLine + 1, 'x'), kNow).ok());
}

TEST(FaultScript, IsReadBackAsItWasWritten) {
  std::vector<LiveFault> faults;
  for (const char* words :
       {"gpu=3 mode=lost", "gpu=all mode=hang call=nvmlDeviceGetPowerUsage", "gpu=1 mode=slow delay=3ms",
        "gpu=1 mode=flaky code=999 percent=20 seed=7", "gpu=2 mode=renumber index=5",
        "gpu=2 mode=counter "
        "counter=pcie_replay amount=9",
        "gpu=0 mode=wrong_value reading=energy value=all_ones",
        "gpu=0 mode=energy_backward amount=1000 for=3", "gpu=4 mode=throttle value=0x40"}) {
    faults.push_back(Fault(words));
    faults.back().id = static_cast<uint32_t>(faults.size());
  }
  auto again = ParseFaultScript(FormatFaultScript(faults));
  ASSERT_TRUE(again.ok()) << again.error().detail;
  EXPECT_EQ(*again, faults);
}

TEST(FaultScript, BadOnesAreRefused) {
  for (const char* bad :
       {"", "gpulens-faults 2\n", "gpulens-faults 1\nid=1 gpu=1\n", "gpulens-faults 1\ngpu=1 mode=lost\n",
        "gpulens-faults 1\nid=1 gpu=1 mode=lost after=3\n",
        "\x7f"
        "ELF"})
    EXPECT_FALSE(ParseFaultScript(bad).ok()) << bad;
  std::string many = "gpulens-faults 1\n";
  for (size_t i = 0; i <= kMaxLiveFaults; ++i) many += "id=1 gpu=1 mode=lost\n";
  EXPECT_EQ(ParseFaultScript(many).error().code, Code::kExhausted);
  EXPECT_EQ(ParseFaultScript(std::string(kMaxFaultScript + 1, '\n')).error().code, Code::kExhausted);
}

TEST(FaultList, FailsHealsAndForgets) {
  FaultList list;
  EXPECT_EQ(list.Describe(kNow), "no faults");
  EXPECT_EQ(*list.Fail("gpu=3 mode=lost for=5s", kNow, 8), "#1 GPU 3 lost, since 0 s, for 5 s more");
  EXPECT_THAT(list.Fail("gpu=8 mode=lost", kNow, 8).error().detail, HasSubstr("GPUs 0 to 7"));
  EXPECT_TRUE(list.Fail("gpu=8 mode=lost", kNow, 0).ok()) << "nobody knows how many there are";
  EXPECT_EQ(*list.Fail("gpu=4 mode=hang after=60", kNow, 8), "#3 GPU 4 hang call=*, begins in 60 s");
  EXPECT_EQ(*list.Heal("gpu=4", kNow + 1), "1 fault was healed");
  EXPECT_FALSE(list.Heal("gpu=4", kNow + 2).ok()) << "there is none any more";
  EXPECT_FALSE(list.Heal("gpu=x", kNow + 2).ok());
  EXPECT_FALSE(list.Heal("everything", kNow + 2).ok());
  EXPECT_EQ(*list.Heal("id=1", kNow + 3), "1 fault was healed");
  EXPECT_EQ(*list.Heal("", kNow + 4), "1 fault was healed");
  EXPECT_EQ(*list.Heal("", kNow + 5), "0 faults were healed");
  EXPECT_EQ(list.Describe(kNow + 6), "no faults");
  // What is over is forgotten a while later; counts are not.
  ASSERT_TRUE(list.Fail("gpu=0 mode=ecc_uncorrectable amount=2", kNow + 20 * kSecond, 8).ok());
  EXPECT_EQ(list.faults().size(), 1u);
  ASSERT_TRUE(list.Heal("", kNow + 21 * kSecond).ok());
  EXPECT_THAT(list.Describe(kNow + 100 * kSecond), HasSubstr("its counts stay"));
  EXPECT_EQ(CountOf(list.faults(), FakeFault::Counter::kEccUncorrected, 0, kNow + 100 * kSecond), 2u);
}

TEST(FaultList, HasALimit) {
  FaultList list;
  for (size_t i = 0; i < kMaxLiveFaults; ++i) ASSERT_TRUE(list.Fail("gpu=0 mode=lost", kNow, 8).ok());
  EXPECT_EQ(list.Fail("gpu=0 mode=lost", kNow, 8).error().code, Code::kExhausted);
  EXPECT_LE(FormatFaultScript(list.faults()).size(), kMaxFaultScript);
  ASSERT_TRUE(list.Heal("", kNow + 1).ok());
  EXPECT_TRUE(list.Fail("gpu=0 mode=lost", kNow + 11 * kSecond, 8).ok());
}

TEST(FaultGate, DecidesTheOutcomeOfACall) {
  auto gate = [](const char* words, const char* call, int gpu, int64_t opened = 0, uint64_t number = 1) {
    return GateOf({Fault(words)}, {call, gpu, kNow, opened, number});
  };
  EXPECT_EQ(gate("gpu=3 mode=lost", "nvmlDeviceGetName", 3).code, 15);
  EXPECT_EQ(gate("gpu=3 mode=lost", "nvmlDeviceGetName", 2).kind, FaultGate::kPass);
  EXPECT_EQ(gate("gpu=all mode=lost", "nvmlEventSetWait_v2", -1).kind, FaultGate::kPass) << "takes no GPU";
  EXPECT_EQ(gate("gpu=3 mode=insufficient_power", "nvmlDeviceGetName", 3).code, 8);
  EXPECT_EQ(gate("gpu=3 mode=reset_required", "nvmlDeviceGetName", 3).code, 16);
  EXPECT_EQ(gate("mode=error call=nvmlInit_v2 code=9", "nvmlInit_v2", -1).code, 9);
  EXPECT_EQ(gate("gpu=3 mode=hang", "nvmlDeviceGetName", 3).kind, FaultGate::kWait);
  EXPECT_EQ(gate("gpu=3 mode=slow delay=20ms", "nvmlDeviceGetName", 3).delay_ns, 20'000'000);
  EXPECT_EQ(gate("gpu=3 mode=crash", "nvmlDeviceGetName", 3).kind, FaultGate::kDie);
  EXPECT_EQ(gate("gpu=3 mode=crash", "nvmlDeviceGetName", 3, kNow).kind, FaultGate::kPass) << "once";
  FaultGate again = gate("gpu=3 mode=crash_loop how=abort", "nvmlDeviceGetName", 3, kNow);
  EXPECT_EQ(again.kind, FaultGate::kDie);
  EXPECT_EQ(again.how, FaultEnd::kAbort);
  EXPECT_EQ(gate("gpu=3 mode=lost after=1", "nvmlDeviceGetName", 3).kind, FaultGate::kPass) << "not yet";
  int failed = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    failed += gate("gpu=3 mode=flaky code=999 percent=20 seed=5", "nvmlDeviceGetName", 3, 0, i).code == 999;
  EXPECT_NEAR(failed, 200, 60);
  EXPECT_EQ(gate("gpu=3 mode=flaky code=999 seed=5", "nvmlDeviceGetName", 3, 0, 8).kind,
            gate("gpu=3 mode=flaky code=999 seed=5", "nvmlDeviceGetName", 3, 0, 8).kind);
}

TEST(FaultCounts, StartAtZeroAfterAReset) {
  std::vector<LiveFault> faults = {Fault("gpu=0 mode=ecc_correctable amount=3"),
                                   Fault("gpu=0 mode=reset for=1", kNow + kSecond),
                                   Fault("gpu=0 mode=counter counter=links_down amount=2 for=1")};
  using C = FakeFault::Counter;
  EXPECT_EQ(CountOf(faults, C::kEccCorrected, 0, kNow), 3u);
  EXPECT_EQ(CountOf(faults, C::kEccCorrected, 1, kNow), 0u);
  EXPECT_EQ(CountOf(faults, C::kLinksDown, 0, kNow), 2u);
  EXPECT_EQ(CountOf(faults, C::kLinksDown, 0, kNow + 3 * kSecond), 0u) << "a state, which ends";
  EXPECT_EQ(LastReset(faults, 0, kNow + kSecond), 0);
  EXPECT_EQ(CountOf(faults, C::kEccCorrected, 0, kNow + 3 * kSecond), 0u);
}

TEST(FaultHelp, NamesEveryMode) {
  std::string help = FaultHelp();
  for (size_t i = 0; i < static_cast<size_t>(FaultMode::kCount); ++i)
    EXPECT_THAT(help, HasSubstr("  " + std::string(FaultModeName(static_cast<FaultMode>(i)))));
}

}  // namespace
}  // namespace gpulens::nvml
