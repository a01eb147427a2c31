#include "cli/trace/trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A line for each item: "3000 value n1/GPU 0/gpu.power.draw 612.5".
class LineTimeline final : public TimelineWriter {
 public:
  std::vector<std::string> lines, names;

 private:
  std::string Path(uint32_t number) const { return PathOf(number, "/"); }
  static std::string Ms(int64_t ns) { return std::to_string(ns / 1'000'000); }
  void WriteTrack(uint32_t number) override {
    for (const std::string& name : names) EXPECT_NE(name, Path(number)) << "two tracks of one name";
    names.push_back(Path(number));
  }
  void WriteCount(uint32_t number, int64_t ns, double value) override {
    std::string text;
    AppendJsonNumber(text, value);
    lines.push_back(Ms(ns) + " value " + Path(number) + " " + text + " " + track(number).unit);
  }
  void WriteBegin(uint32_t number, int64_t ns, std::string_view name, const AttributeSet&) override {
    lines.push_back(Ms(ns) + " begin " + Path(number) + " " + std::string(name));
  }
  void WriteEnd(uint32_t number, int64_t ns) override { lines.push_back(Ms(ns) + " end " + Path(number)); }
  void WriteMark(uint32_t number, int64_t ns, std::string_view name,
                 const AttributeSet& attributes) override {
    std::string text;
    AppendJsonAttributes(text, attributes);
    lines.push_back(Ms(ns) + " mark " + Path(number) + " " + std::string(name) + " " + text);
  }
  void WriteLast() override {}
};

SeriesSample Ok(int64_t ms, double value, bool reset = false) {
  return {ms, value, SeriesSample::kOk, reset};
}
SeriesSample Gap(int64_t ms) { return {ms, kNotMeasured, SeriesSample::kGap, false}; }
SeriesSample Stale(int64_t ms, double value) { return {ms, value, SeriesSample::kStale, false}; }

SeriesWindow Window(std::string name, Kind kind, std::string unit, AttributeSet attributes,
                    std::vector<SeriesSample> samples) {
  SeriesWindow window;
  window.series.name = std::move(name);
  window.series.kind = kind;
  window.series.unit = std::move(unit);
  window.series.attributes = std::move(attributes);
  window.series.source = "test";
  window.series.period = std::chrono::seconds(1);
  window.samples = std::move(samples);
  return window;
}

AttributeSet Gpu(int64_t index) {
  return AttributeSet(
      {{"gpu.index", index}, {"gpu.model", "H100"}, {"gpu.uuid", "GPU-" + std::to_string(index)}});
}

struct TraceBuilderTest : ::testing::Test {
  LineTimeline timeline;
  TraceBuilder builder{timeline, "n1", 1000, true};

  std::vector<std::string> Draw(std::vector<SeriesWindow> windows, int64_t to = 10'000) {
    builder.AddSeries(windows, to);
    builder.Finish(to);
    return timeline.lines;
  }
};

TEST_F(TraceBuilderTest, AGaugeIsDrawnAsItWasSampledWithoutWhatLiesBefore) {
  EXPECT_THAT(
      Draw({Window("gpu.power.draw", Kind::kGauge, "W", Gpu(0), {Ok(500, 1), Ok(1500, 2), Ok(2500, 3)})}),
      ElementsAre("1500 value n1/GPU 0 · H100/gpu.power.draw 2 W",
                  "2500 value n1/GPU 0 · H100/gpu.power.draw 3 W"));
}

TEST_F(TraceBuilderTest, WindowsThatOverlapAddNoSampleTwice) {
  const auto window = [](std::vector<SeriesSample> samples) {
    return Window("gpu.power.draw", Kind::kGauge, "W", Gpu(0), std::move(samples));
  };
  const std::vector<SeriesWindow> first = {window({Ok(1500, 2), Ok(2500, 3)})};
  builder.AddSeries(first, 2000);
  EXPECT_THAT(Draw({window({Ok(1500, 2), Ok(2500, 3), Ok(3500, 4)})}).size(), 3u);
}

TEST_F(TraceBuilderTest, GapsAndStaleTimesAreSlicesNextToTheLine) {
  EXPECT_THAT(Draw({Window("gpu.temperature", Kind::kGauge, "Cel", Gpu(0),
                           {Ok(1500, 60), Stale(2500, 60), Stale(3500, 60), Gap(4500), Ok(6500, 61)})}),
              ElementsAre("1500 value n1/GPU 0 · H100/gpu.temperature 60 Cel",
                          "2500 begin n1/GPU 0 · H100/gpu.temperature: gaps stale",
                          "4500 end n1/GPU 0 · H100/gpu.temperature: gaps",
                          "4500 begin n1/GPU 0 · H100/gpu.temperature: gaps no value",
                          "6500 end n1/GPU 0 · H100/gpu.temperature: gaps",
                          "6500 value n1/GPU 0 · H100/gpu.temperature 61 Cel"));
  EXPECT_EQ(builder.gaps(), 2u);
}

TEST_F(TraceBuilderTest, ACounterIsDrawnAsItsRateFromTheEarlierSampleOn) {
  EXPECT_THAT(Draw({Window("gpu.energy.consumption", Kind::kCounter, "J", Gpu(0),
                           {Ok(500, 100), Ok(1500, 200), Ok(3500, 800), Ok(4500, 5, true), Ok(5500, 6)})}),
              ElementsAre("1000 value n1/GPU 0 · H100/gpu.energy.consumption rate 100 W",
                          "1500 value n1/GPU 0 · H100/gpu.energy.consumption rate 300 W",
                          "3500 begin n1/GPU 0 · H100/gpu.energy.consumption: gaps counter began again",
                          "4500 end n1/GPU 0 · H100/gpu.energy.consumption: gaps",
                          "4500 value n1/GPU 0 · H100/gpu.energy.consumption rate 1 W"));
}

TEST_F(TraceBuilderTest, NoRateReachesOverAGap) {
  EXPECT_THAT(Draw({Window("gpu.energy.consumption", Kind::kCounter, "J", Gpu(0),
                           {Ok(1500, 0), Ok(2500, 10), Gap(3500), Ok(8000, 900), Ok(9000, 910)})}),
              ElementsAre("1500 value n1/GPU 0 · H100/gpu.energy.consumption rate 10 W",
                          "3500 begin n1/GPU 0 · H100/gpu.energy.consumption: gaps no value",
                          "8000 end n1/GPU 0 · H100/gpu.energy.consumption: gaps",
                          "8000 value n1/GPU 0 · H100/gpu.energy.consumption rate 10 W"));
}

TEST_F(TraceBuilderTest, AProcessIsASliceWhileItHasMemory) {
  const AttributeSet process =
      AttributeSet({{"process.pid", int64_t{7}}, {"process.executable.name", "train"}}).OverlaidOn(Gpu(1));
  const auto lines = Draw({Window("gpu.process.memory.used", Kind::kUpDownCounter, "By", process,
                                  {Ok(500, 1), Ok(1500, 2), Gap(2500)})});
  EXPECT_THAT(lines, ElementsAre("1000 begin n1/Processes/train 7 · GPU 1 train",
                                 "1500 value n1/Processes/train 7 · GPU 1/gpu.process.memory.used 2 By",
                                 "2500 end n1/Processes/train 7 · GPU 1"));
}

TEST_F(TraceBuilderTest, StatesAndFlagsAreSlices) {
  const auto state = [](const char* word, std::vector<SeriesSample> samples) {
    return Window("gpu.health.state", Kind::kStateSet, "",
                  AttributeSet({{"gpu.health.state", word}}).OverlaidOn(Gpu(0)), std::move(samples));
  };
  const auto flag = [](const char* name, const char* key, const char* value,
                       std::vector<SeriesSample> samples) {
    return Window(name, Kind::kGauge, "{bool}", AttributeSet({{key, value}}), std::move(samples));
  };
  const auto lines = Draw({state("ok", {Ok(1500, 1), Ok(2500, 1), Ok(3500, 0)}),
                           state("failing", {Ok(1500, 0), Ok(2500, 0), Ok(3500, 1)}),
                           flag("gpulens.scrape.up", "target", "chat-a", {Ok(1500, 1), Ok(4500, 0)}),
                           flag("gpulens.collector.up", "collector", "amd", {Ok(1500, 0)})});
  EXPECT_THAT(lines, ElementsAre("1500 begin n1/GPU 0 · H100/gpu.health.state ok",
                                 "1500 begin n1/Engines and other targets/chat-a/gpulens.scrape.up up",
                                 "3500 end n1/GPU 0 · H100/gpu.health.state",
                                 "3500 begin n1/GPU 0 · H100/gpu.health.state failing",
                                 "4500 end n1/Engines and other targets/chat-a/gpulens.scrape.up",
                                 "4500 begin n1/Engines and other targets/chat-a/gpulens.scrape.up down",
                                 "10000 end n1/GPU 0 · H100/gpu.health.state",
                                 "10000 end n1/Engines and other targets/chat-a/gpulens.scrape.up"));
}

TEST_F(TraceBuilderTest, WhatGpulensMeasuresOfItselfIsLeftOutUnlessWanted) {
  const auto window = [](const char* key) {
    return Window("gpulens.scrape.duration", Kind::kGauge, "s", AttributeSet({{key, "x"}}), {Ok(1500, 1)});
  };
  LineTimeline lines;
  TraceBuilder some(lines, "n1", 1000);
  const std::vector<SeriesWindow> windows = {window("target"), window("collector")};
  some.AddSeries(windows, 10'000);
  some.Finish(10'000);
  EXPECT_EQ(lines.lines.size(), 1u);
  EXPECT_EQ(Draw(windows).size(), 2u);
}

TEST_F(TraceBuilderTest, StatesThatOverlapGetTracksOfTheirOwn) {
  const auto state = [](const char* word, std::vector<SeriesSample> samples) {
    return Window("gpu.health.state", Kind::kStateSet, "",
                  AttributeSet({{"gpu.health.state", word}}).OverlaidOn(Gpu(0)), std::move(samples));
  };
  const auto lines = Draw({state("a", {Ok(1500, 1), Ok(3500, 0)}), state("b", {Ok(2500, 1), Ok(4500, 0)})});
  EXPECT_THAT(lines, ElementsAre("1500 begin n1/GPU 0 · H100/gpu.health.state a",
                                 "2500 begin n1/GPU 0 · H100/gpu.health.state (2) b",
                                 "3500 end n1/GPU 0 · H100/gpu.health.state",
                                 "4500 end n1/GPU 0 · H100/gpu.health.state (2)"));
}

TEST_F(TraceBuilderTest, SeriesOfOneNameAreDistinguished) {
  const auto sensor = [](const char* name, const char* extra) {
    return Window("gpu.temperature", Kind::kGauge, "Cel",
                  AttributeSet({{"gpu.temperature.sensor", name}, {"x", extra}}).OverlaidOn(Gpu(0)),
                  {Ok(1500, 60)});
  };
  Draw({sensor("edge", "1"), sensor("memory", "1"), sensor("memory", "2")});
  EXPECT_THAT(timeline.names, AllOf(Contains("n1/GPU 0 · H100/gpu.temperature edge"),
                                    Contains("n1/GPU 0 · H100/gpu.temperature memory"),
                                    Contains(HasSubstr(R"(gpu.temperature memory {"gpu.index":0)"))));
}

TEST_F(TraceBuilderTest, EventsLieAtTheirGpuOnce) {
  const std::vector<NodeEvent> events = {
      {4000, "gpu.xid", "fatal", "NVRM: Xid",
       AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.xid.code", int64_t{79}}})},
      {3000, "gpulens.config", "info", "reloaded", {}},
      {10, "gpu.reset", "info", "before", {}}};
  builder.AddEvents(events);
  builder.AddEvents(events);
  EXPECT_THAT(
      Draw({}),
      ElementsAre(
          R"(3000 mark n1/Events gpulens.config {"body":"reloaded","severity":"info"})",
          R"(4000 mark n1/GPU 0/events gpu.xid {"body":"NVRM: Xid","gpu.index":0,"gpu.xid.code":79,"severity":"fatal"})"));
}

TEST_F(TraceBuilderTest, PhasesOfAProcessAreSlicesInPlainWords) {
  const auto phase = [](const char* word, std::vector<SeriesSample> samples) {
    return Window(
        "process.phase", Kind::kStateSet, "",
        AttributeSet(
            {{"process.phase", word}, {"process.pid", int64_t{7}}, {"process.executable.name", "train"}}),
        std::move(samples));
  };
  const auto lines = Draw({phase("data_loading", {Ok(1500, 1), Ok(2500, 0), Ok(3500, 0)}),
                           phase("gpu_compute", {Ok(1500, 0), Ok(2500, 1), Ok(3500, 1)})});
  EXPECT_THAT(lines, ElementsAre("1500 begin n1/Processes/train 7/phase data loading",
                                 "2500 end n1/Processes/train 7/phase",
                                 "2500 begin n1/Processes/train 7/phase gpu compute",
                                 "10000 end n1/Processes/train 7/phase"));
}

TEST_F(TraceBuilderTest, FaultsOfACommunicatorAreSlicesWithTheirEvidence) {
  const auto fault = [](int64_t ms, const char* name, const char* change, const char* rank,
                        const char* body) {
    return NodeEvent{ms, name, "error", body,
                     AttributeSet({{"nccl.change", change},
                                   {"nccl.communicator", "0xa"},
                                   {"nccl.communicator.name", "dp"},
                                   {"nccl.rank", rank}})};
  };
  // The newest first, as the agent sends them; the late rank was so before the trace begins.
  const std::vector<NodeEvent> events = {fault(7000, "nccl.hang", "cleared", "2", "It is over"),
                                         fault(6000, "nccl.hang", "changed", "2", "It is stopped"),
                                         fault(5000, "nccl.straggler", "raised", "5", "5 comes late"),
                                         fault(4000, "nccl.straggler", "cleared", "6", "It was late"),
                                         fault(3000, "nccl.hang", "raised", "2", "2 has not called it")};
  builder.AddEvents(events);
  builder.AddEvents(events);
  const AttributeSet rank = AttributeSet(
      {{"nccl.communicator", "0xa"}, {"nccl.communicator.name", "dp"}, {"nccl.rank", int64_t{6}}});
  const auto lines =
      Draw({Window("nccl.rank.lateness", Kind::kGauge, "s", rank, {Ok(1500, 0.25)}),
            Window("nccl.rank.straggler", Kind::kGauge, "{bool}", rank, {Ok(1500, 1), Ok(4500, 0)})});
  const std::string track = "n1/Collectives/dp · 0xa/faults", other = "n1/Collectives/dp · 0xa/faults (2)";
  std::vector<std::string> drawn;
  for (const std::string& line : lines) {
    if (line.find("/Events ") == line.npos) drawn.push_back(line);
  }
  EXPECT_THAT(
      drawn,
      ElementsAre(
          "1000 begin " + track + " rank 6 late",
          "1500 value n1/Collectives/dp · 0xa/rank 6/nccl.rank.lateness 0.25 s",
          "1500 begin n1/Collectives/dp · 0xa/rank 6/late late", "3000 begin " + other + " hang: rank 2",
          "4000 end " + track, "4500 end n1/Collectives/dp · 0xa/rank 6/late",
          "5000 begin " + track + " rank 5 late",
          "6000 mark " + track +
              R"( hang: rank 2 {"evidence":"It is stopped","nccl.change":"changed","nccl.communicator":"0xa",)"
              R"("nccl.communicator.name":"dp","nccl.rank":"2"})",
          "7000 end " + other, "10000 end " + track));
}

TEST_F(TraceBuilderTest, TrainingHasStepsAndCheckpoints) {
  const AttributeSet rank = AttributeSet({{"rank", "3"}});
  const auto lines = Draw(
      {Window("training.steps", Kind::kCounter, "{step}", rank, {Ok(1500, 10), Ok(2500, 11), Ok(3500, 14)}),
       Window("training.checkpoint.save_duration", Kind::kGauge, "s", rank,
              {Ok(1500, 0.25), Ok(3500, 0.5)})});
  EXPECT_THAT(lines, ElementsAre(R"(2500 mark n1/Training/rank 3/steps step 11 {"training.steps":11})",
                                 "3000 begin n1/Training/rank 3/checkpoints checkpoint saved",
                                 "3500 end n1/Training/rank 3/checkpoints",
                                 R"(3500 mark n1/Training/rank 3/steps steps 12–14 {"training.steps":14})"));
}

TEST_F(TraceBuilderTest, ARunHasItsStepsWithinItAndItsMetricsBelow) {
  TraceBuilder::Run run;
  run.run.id = "exp-1", run.run.name = "ft", run.run.started_ns = 500'000'000;
  run.run.ended_ns = 6'000'000'000;
  run.points = {{"loss", {{1, 2'000'000'000, 0.5}, {2, 4'000'000'000, 0.25}, {3, 6'000'000'000, 0.125}}}};
  run.artifacts = {
      {.name = "model.pt", .path = "p", .bytes = 5, .sha256 = {}, .copied = false, .unix_ns = 5'000'000'000}};
  builder.AddRun(run, 10'000);
  builder.Finish(10'000);
  const std::string track = "n1/Experiments/ft exp-1";
  EXPECT_THAT(timeline.lines,
              ElementsAre("1000 begin " + track + " ft", "1000 begin " + track + " step 1",
                          "2000 end " + track, "2000 value " + track + "/loss 0.5 ",
                          "2000 begin " + track + " step 2", "4000 end " + track,
                          "4000 value " + track + "/loss 0.25 ", "4000 begin " + track + " step 3",
                          "5000 mark " + track + R"(/artifacts model.pt {"bytes":5,"path":"p"})",
                          "6000 end " + track, "6000 end " + track, "6000 value " + track + "/loss 0.125 "));
}

TEST_F(TraceBuilderTest, CallsThatOverlapLieNextToEachOtherWithTheirFirstTokenWithin) {
  const auto call = [&](int64_t ms, double latency, double ttft) {
    InferenceRecord record;
    record.model = "m";
    record.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
    record.latency_seconds = latency;
    record.ttft_seconds = ttft;
    builder.AddRequest(record, 10'000);
  };
  call(2000, 2, 0.5);
  call(3000, 2, kNotMeasured);
  call(4000, 1, kNotMeasured);
  call(100, 0.1, kNotMeasured);  // ended before
  builder.Finish(10'000);
  EXPECT_THAT(timeline.lines,
              ElementsAre("2000 begin n1/Requests/m request", "2000 begin n1/Requests/m first token",
                          "2500 end n1/Requests/m", "2500 begin n1/Requests/m further tokens",
                          "3000 begin n1/Requests/m (2) request", "4000 end n1/Requests/m",
                          "4000 end n1/Requests/m", "4000 begin n1/Requests/m request",
                          "5000 end n1/Requests/m (2)", "5000 end n1/Requests/m"));
}

TEST(CsvTimeline, QuotesFormulasAndTextsFromOutside) {
  CsvTimelineWriter writer(TimelineFacts{{"node", "=cmd()"}});
  const uint32_t node =
      writer.AddTrack({.kind = TimelineTrack::Kind::kGroup, .parent = 0, .name = "n1", .unit = {}});
  const uint32_t slices =
      writer.AddTrack({.kind = TimelineTrack::Kind::kSlices, .parent = node, .name = "@a,\"b\"", .unit = {}});
  writer.Begin(slices, 1'764'190'000'000'000'000, "=1+1", AttributeSet({{"k", "v\n"}}));
  writer.Mark(slices, 1'764'190'000'500'000'000, "+x");
  writer.Finish(1'764'190'001'000'000'000);
  const std::string text = writer.bytes();
  EXPECT_THAT(text, Not(HasSubstr(",=")));
  EXPECT_THAT(text, Not(HasSubstr(",+")));
  EXPECT_THAT(text, HasSubstr("2025-11-26T20:46:40"));
  EXPECT_THAT(text, HasSubstr("2025-11-26T20:46:41"));
}

}  // namespace
}  // namespace gpulens
