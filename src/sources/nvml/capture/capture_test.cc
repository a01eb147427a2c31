// What the reader reads through the recorder, it reads again from the recording: the same facts, codes and
// values at the same times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <tuple>

#include "base/files.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/reader/agent_for_test.h"
#include "sources/nvml/reader/gpu_reader.h"
#include "sources/nvml/reader/nvml_process.h"
#include "sources/nvml/reader/slices_reader.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Mig = SlicesReader::Mig;

constexpr int kRounds = 8;

// Everything that one GPU reported in one round.
struct Reported {
  std::vector<std::tuple<int, int, ReadStatus, int64_t>> readings;
  std::vector<std::tuple<uint32_t, uint64_t, uint32_t, uint32_t>> processes;
  std::vector<std::tuple<uint32_t, uint32_t, size_t, ReadStatus, double>> slices;
  std::vector<std::tuple<uint32_t, int, int, int>> shares;
};
struct Story {
  std::vector<std::vector<std::pair<std::string, std::string>>> facts;
  std::vector<std::vector<Reported>> rounds;  // By round, GPU.
};

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    spool_ = testing::TempDir() + "spool_" + std::to_string(::getpid());
    ASSERT_TRUE(WriteFileAtomically(spool_, ""));
  }
  void TearDown() override { ::unlink(spool_.c_str()); }

  void Use(const std::string& yaml) {
    Status status = FakeWorld::Get().Use(yaml, &clock_);
    ASSERT_TRUE(status.ok()) << status.detail;
    ASSERT_EQ(FakeWorld::Get().Open(), 0);
  }
  void Record(std::vector<unsigned> gpus = {}) {
    ASSERT_TRUE(WriteFileAtomically(spool_, ""));
    RecorderOptions options{
        .spool = spool_, .library_path = "", .lookup = FakeNvmlLookup, .clock = &clock_, .gpus = {}};
    options.gpus = std::move(gpus);
    ASSERT_TRUE(StartRecorder(std::move(options)).ok());
  }
  NvmlRecording Recorded() {
    auto text = ReadFile(spool_, kMaxSpoolBytes);
    EXPECT_TRUE(text.ok());
    CaptureSpool spool = ReadSpool(text.ok() ? *text : "");
    EXPECT_EQ(spool.bad_lines, 0U);
    EXPECT_EQ(spool.library_error, "");
    spool.recording.seconds = kRounds;
    return spool.recording;
  }

  // Rounds of a second over all GPUs, through this lookup.
  Story Report(SymbolLookup lookup, bool mig) {
    Story story;
    auto library = NvmlLibrary::FromLookup(lookup, "test");
    EXPECT_TRUE(library.ok()) << library.error().detail;
    if (!library) return story;
    EXPECT_EQ(library->fn().Init(), 0);
    clock_.Advance(milliseconds(100));
    unsigned count = 0;
    EXPECT_EQ(library->fn().DeviceCount(&count), 0);
    std::vector<std::unique_ptr<GpuReader>> readers;
    std::vector<std::unique_ptr<SlicesReader>> slices;
    AgentEnd agent(clock_);
    agent.table.Expect(16);
    GpuReaderOptions options;
    options.details = kDetailsAll;
    for (unsigned i = 0; i < count; ++i) {
      readers.push_back(std::make_unique<GpuReader>(*library, i, slot_, clock_, options));
      EXPECT_EQ(readers.back()->Attach(), 0);
      story.facts.push_back(readers.back()->identity().facts);
      slices.push_back(std::make_unique<SlicesReader>(*library, i, slot_, clock_,
                                                      SlicesReaderOptions{.details = kDetailsAll}));
      slices.back()->Attach(readers.back()->identity().device, mig && i == 0 ? Mig::kOn : Mig::kOff);
    }
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Reported>& reported = story.rounds.emplace_back();
      for (unsigned i = 0; i < count; ++i) {
        int64_t now = clock_.Now().boot_ns;
        slices[i]->Scan(now, false, agent);
        readers[i]->SplitProcesses(slices[i]->mig_devices());
        readers[i]->Read(now);
        slices[i]->Read(now, agent);
        Reported& one = reported.emplace_back();
        for (const DeviceReading& r : readers[i]->readings())
          one.readings.emplace_back(r.link, r.field, r.status, r.raw);
        for (const GpuProcess& p : readers[i]->processes())
          one.processes.emplace_back(p.pid, p.memory_used, p.gpu_instance, p.compute_instance);
        readers[i]->ReadBlocking();
        for (const DeviceReading& r : readers[i]->readings())
          one.readings.emplace_back(r.link, r.field, r.status, 0);
        if (i < agent.vendor_state.gpus().size()) AddSlices(agent.vendor_state.gpus()[i].slices, one);
      }
      clock_.Advance(seconds(1));
    }
    return story;
  }

  static void AddSlices(const GpuSlices& slices, Reported& out) {
    auto add = [&](uint32_t id, uint32_t sub, const SliceValues& values) {
      for (size_t i = 0; i < values.size(); ++i)
        out.slices.emplace_back(id, sub, i, values[i].status, values[i].value);
    };
    add(~0U, ~0U, slices.whole);
    for (const GpuSlice& slice : slices.list) add(slice.key.id, slice.key.sub, slice.values);
    for (const ProcessShare& share : slices.shares)
      out.shares.emplace_back(share.pid, share.sm, share.memory, share.encoder);
    std::sort(out.shares.begin(), out.shares.end());
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  CallSlot slot_;
  std::string spool_;
};

struct Machine {
  const char* name;
  bool mig;
  const char* yaml;
};
class EveryMachine : public CaptureTest, public testing::WithParamInterface<Machine> {};

constexpr Machine kMachines[] = {
    {"H100WithMigAndFaults", true,
     "model: H100\ngpus: 3\nload: {kind: sine, level: 0.5, amplitude: 0.4, period: 5}\n"
     "mig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1, load: 0.5}\n"
     "  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 0}\n"
     "  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 1, from: 3}\n"
     "processes:\n  - {gpu: 0, pid: 91000, memory: 8GiB, mig_instance: 1}\n"
     "  - {gpu: 1, pid: 92000, memory: 4GiB, swing: 1GiB, period: 7, sm: 55, encoder: 7}\n"
     "  - {gpu: 1, pid: 92001, memory: 1GiB, type: graphics, from: 2, to: 5}\n"
     "faults:\n  - {gpu: 2, counter: ecc_uncorrected, amount: 1, from: 3}\n"
     "  - {gpu: 2, counter: remapped_uncorrectable, amount: 1, from: 3}\n"
     "  - {gpu: 1, counter: links_down, amount: 2, from: 4}\n"
     "throttle:\n  - {gpu: 1, mask: 0x20, from: 2, for: 3}\n"},
    {"OldDriver", false,
     "model: A100\ngpus: 1\ndriver_version: 450.80.02\nmemory_v2: false\npcie_counters: false\n"
     "remapped_rows: false\nfaults:\n  - {counter: retired_double_bit, amount: 2, from: 2}\n"
     "processes:\n  - {pid: 11000, memory: 10GiB}\n"},
    {"Coherent", false, "model: GB200\ngpus: 2\nnuma_node: 2\nload: {level: 0.85}\n"},
    {"VgpuHost", false,
     "model: L4\ngpus: 2\nfans: 2\nvgpus:\n"
     "  - {gpu: 0, id: 3251634213, vm: vm-7, memory: 4GiB, sm: 35, memory_use: 10}\n"},
    {"Errors", false,
     "model: H100\ngpus: 2\nerrors:\n  - {gpu: 0, call: nvmlDeviceGetPowerUsage, code: 4}\n"
     "  - {gpu: 1, call: nvmlDeviceGetFieldValues, code: 999, from: 2, to: 4}\n"
     "  - {gpu: 1, call: nvmlDeviceGetTemperatureV, code: 21, from: 3}\n"},
};

TEST_P(EveryMachine, IsReadAgainFromItsRecording) {
  Use(GetParam().yaml);
  Record();
  Story first = Report(RecorderLookup, GetParam().mig);
  NvmlRecording recording = Recorded();
  std::string text = WriteRecording(recording, 0.25);
  auto again = ReadRecording(text);
  ASSERT_TRUE(again.ok()) << again.error().detail;
  EXPECT_EQ(WriteRecording(*again, 0.25), text) << "reading and writing it changes nothing";
  Use(text);
  Story second = Report(FakeNvmlLookup, GetParam().mig);
  ASSERT_EQ(first.facts, second.facts);
  ASSERT_EQ(first.rounds.size(), second.rounds.size());
  for (size_t round = 0; round < first.rounds.size(); ++round) {
    ASSERT_EQ(first.rounds[round].size(), second.rounds[round].size());
    for (size_t gpu = 0; gpu < first.rounds[round].size(); ++gpu) {
      const Reported &was = first.rounds[round][gpu], &is = second.rounds[round][gpu];
      ASSERT_GT(was.readings.size(), 10U);
      ASSERT_EQ(was.readings.size(), is.readings.size()) << round << " " << gpu;
      for (size_t i = 0; i < was.readings.size(); ++i)
        EXPECT_EQ(was.readings[i], is.readings[i]) << "round " << round << " GPU " << gpu;
      EXPECT_EQ(was.processes, is.processes) << round << " " << gpu;
      EXPECT_EQ(was.slices, is.slices) << round << " " << gpu;
      EXPECT_EQ(was.shares, is.shares) << round << " " << gpu;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryMachine, testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

TEST_F(CaptureTest, HidesWhoTheMachineIs) {
  Use(kMachines[0].yaml);
  Record();
  Report(RecorderLookup, true);
  NvmlRecording recording = Recorded();
  std::string before = WriteRecording(recording, 0.25);
  HideIdentity(recording);
  std::string text = WriteRecording(recording, 0.25);
  for (const char* secret : {"51313000-2330", "1652800", "[91000", "[92000", "[92001"}) {
    EXPECT_THAT(before, testing::HasSubstr(secret));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr(secret)));
  }
  EXPECT_THAT(text, testing::HasSubstr("identity: made up"));
  EXPECT_THAT(text, testing::HasSubstr("MIG-7265636f-7264-4000-8000-000000000001"));
  NvmlRecording twice = recording;
  HideIdentity(twice);
  EXPECT_EQ(WriteRecording(twice, 0.25), text) << "made-up ones stand for themselves";
}

TEST_F(CaptureTest, ChosenGpusAreRenumbered) {
  Use("model: H100\ngpus: 4\n");
  Record({1, 3});
  Story story = Report(RecorderLookup, false);
  ASSERT_EQ(story.facts.size(), 2U);
  NvmlRecording recording = Recorded();
  ASSERT_EQ(recording.gpus.size(), 2U);
  EXPECT_THAT(recording.gpus[1].calls.at("nvmlDeviceGetUUID").first.values[0], testing::EndsWith("003"));
  EXPECT_EQ(recording.system.at("nvmlDeviceGetCount_v2").first.values[0], "2");
}

TEST_F(CaptureTest, EventsAreWrittenDown) {
  Use("gpus: 2\nxids:\n  - {gpu: 1, code: 79, at: 0}\n");
  Record();
  auto library = NvmlLibrary::FromLookup(RecorderLookup, "test");
  ASSERT_TRUE(library.ok());
  NvmlCaller caller(*library, slot_, clock_);
  EventWaiter hub(kUsualEvents);
  ASSERT_TRUE(hub.Open(caller));
  for (unsigned i : {0U, 1U}) {
    Device device = nullptr;
    ASSERT_EQ(library->fn().HandleByIndex(i, &device), 0);
    hub.Register(caller, i, device);
  }
  clock_.Advance(milliseconds(1500));
  DeviceEvent event;
  ASSERT_EQ(hub.Wait(caller, 1, event), EventWaiter::Outcome::kEvent);
  NvmlRecording recording = Recorded();
  ASSERT_EQ(recording.events.size(), 1U);
  EXPECT_EQ(recording.events[0].gpu, 1U);
  EXPECT_EQ(recording.events[0].data, 79U);
  EXPECT_NEAR(recording.events[0].at, 1.5, 1e-6);
}

TEST_F(CaptureTest, ReportsWhyALibraryCannotBeOpened) {
  ASSERT_TRUE(StartRecorder({.spool = spool_,
                             .library_path = "/nowhere/libnvidia-ml.so.1",
                             .lookup = nullptr,
                             .clock = nullptr,
                             .gpus = {}})
                  .ok());
  EXPECT_EQ(RecorderLookup("nvmlInit_v2"), nullptr);
  auto text = ReadFile(spool_);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(ReadSpool(*text).library_error, testing::HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_FALSE(
      StartRecorder(
          {.spool = "/nowhere/spool", .library_path = "", .lookup = nullptr, .clock = nullptr, .gpus = {}})
          .ok());
}

TEST(Spool, KeepsValidLinesAndCountsTheRest) {
  CaptureSpool spool = ReadSpool(
      "S\t1000000\nO\t1000000\tsystem\tnvmlSystemGetDriverVersion\t0\t570.1\nM\tnvmlFoo\nM\tnvmlFoo\n"
      "O\t2000000\tgpu0\tnvmlDeviceGetName\t0\tH100 "
      "\\x09\\\\x\nO\t2000000\tgpu0\tnvmlDeviceGetSerial\t0\t\\e\n"
      "O\t3500000\tgpu0\tnvmlDeviceGetPowerUsage\t0\t7\nS\t4000000\n"
      "O\t4000000\tgpu0\tnvmlDeviceGetPowerUsage\t0\t7\nO\t5000000\tgpu0\tnvmlDeviceGetPowerUsage\t15\n"
      "E\t5500000\tgpu0\t8\t79\t4294967295\t4294967295\n"
      "O\t1\tgpu0\tnvmlDeviceGetPowerUsage\t0\t9\nO\tx\tgpu0\tq\t0\nO\t1\tgpu16\tq\t0\nO\t1\tgpu0."
      "mig8\tq\t0\n"
      "O\t6000000\tmars\tq\t0\nE\t1\tgpu0\t8\nE\t6000000\tsystem\t8\t79\t0\t0\nZ\nO\t6000000\tgpu0\tq\tnone\n"
      "O\t600");
  EXPECT_EQ(spool.bad_lines, 10U);
  const NvmlRecording& recording = spool.recording;
  EXPECT_EQ(recording.driver, "570.1");
  EXPECT_THAT(recording.missing, testing::ElementsAre("nvmlFoo"));
  ASSERT_EQ(recording.gpus.size(), 1U);
  EXPECT_EQ(recording.gpus[0].calls.at("nvmlDeviceGetName").first.values[0], "H100 \t\\\\x");
  EXPECT_THAT(recording.gpus[0].calls.at("nvmlDeviceGetSerial").first.values, testing::ElementsAre(""));
  const AnswerTrack& power = recording.gpus[0].calls.at("nvmlDeviceGetPowerUsage");
  ASSERT_EQ(power.later.size(), 1U) << "a second process says the same again";
  EXPECT_EQ(power.later[0].first, 3.0);
  EXPECT_EQ(power.later[0].second.code, kGpuIsLost);
  ASSERT_EQ(recording.events.size(), 1U);
}

}  // namespace
}  // namespace gpulens::nvml
