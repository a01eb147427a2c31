#include "cli/node/node_json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"

namespace gpulens {
namespace {

std::string Corpus(const std::string& name) {
  const auto text = ReadFile(GPULENS_SOURCE_DIR "/src/cli/node/testdata/node_json_corpus/" + name, 1 << 20);
  EXPECT_TRUE(text) << text.error().detail;
  return text ? *text : std::string();
}

TEST(NodeJson, ReadsNow) {
  const auto now = ParseNodeNow(Corpus("now_full"));
  ASSERT_TRUE(now) << now.error().detail;
  EXPECT_EQ(now->node.Text("host.name"), "n1");
  EXPECT_EQ(now->version, "0.1.0");
  EXPECT_TRUE(now->simulated);
  EXPECT_EQ(now->at_ms, 1764190000000);
  EXPECT_EQ(now->tick, 42u);
  EXPECT_EQ(now->layout, 3u);
  EXPECT_EQ(now->history_begin_ms, 1764189000000);
  ASSERT_TRUE(now->series);
  ASSERT_EQ(now->series->size(), 2u);
  const KeptSeries& energy = now->series->back();
  EXPECT_EQ(energy.name, "gpu.energy.consumption");
  EXPECT_EQ(energy.kind, Kind::kCounter);
  EXPECT_EQ(energy.attributes.Text("gpu.index"), "0");
  EXPECT_EQ(energy.period, std::chrono::seconds(1));
  ASSERT_EQ(now->values.size(), 2u) << "sorted by id";
  EXPECT_EQ(now->values[0].value, 612.3);
  EXPECT_EQ(now->values[0].stale_ms, 0);
  EXPECT_EQ(now->values[1].stale_ms, 4000);
  EXPECT_EQ(now->read, (std::vector<std::pair<std::string, int64_t>>{{"nvidia", 1764189999980}}));
}

TEST(NodeJson, NoSeriesMeansTheLayoutIsKnown) {
  const auto now = ParseNodeNow(R"({"schema":"gpulens.now/1","layout":3,"v":[0,1]})");
  ASSERT_TRUE(now) << now.error().detail;
  EXPECT_FALSE(now->series);
}

TEST(NodeJson, ReadsSamplesWithGapsStaleAndResets) {
  const auto history = ParseNodeHistory(Corpus("history_samples"));
  ASSERT_TRUE(history) << history.error().detail;
  EXPECT_EQ(history->begin_ms, 0) << "null: there is no sample";
  ASSERT_EQ(history->series.size(), 1u);
  const std::vector<gpulens::SeriesSample>& samples = history->series[0].samples;
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].mark, gpulens::SeriesSample::kOk);
  EXPECT_TRUE(samples[0].reset);
  EXPECT_EQ(samples[1].mark, gpulens::SeriesSample::kGap);
  EXPECT_TRUE(std::isnan(samples[1].value));
  EXPECT_EQ(samples[2].mark, gpulens::SeriesSample::kStale);
  EXPECT_TRUE(history->stepped.empty());
}

TEST(NodeJson, ReadsSteps) {
  const auto history = ParseNodeHistory(Corpus("history_steps"));
  ASSERT_TRUE(history) << history.error().detail;
  ASSERT_EQ(history->stepped.size(), 1u);
  const SteppedSeries& steps = history->stepped[0];
  EXPECT_EQ(steps.step_ms, 5000);
  EXPECT_TRUE(steps.min.empty());
  ASSERT_EQ(steps.rate.size(), 3u);
  EXPECT_EQ(steps.rate[0], 0.2);
  EXPECT_TRUE(std::isnan(steps.rate[1]));
  EXPECT_EQ(steps.stale, (std::vector<uint8_t>{0, 0, 1}));
}

TEST(NodeJson, ReadsEvents) {
  const auto events = ParseNodeEvents(Corpus("events_escape"));
  ASSERT_TRUE(events) << events.error().detail;
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ(events->front().attributes.Text("xid"), "79");
  EXPECT_EQ(events->front().severity, "fatal");
}

TEST(NodeJson, RefusesWhatIsWrong) {
  for (const char* name :
       {"now_odd_pairs", "now_id_out_of_range", "too_deep", "cut_short", "history_samples"})
    EXPECT_FALSE(ParseNodeNow(Corpus(name))) << name;
  for (const char* name : {"history_lengths_differ", "history_times_go_back", "history_steps_differ",
                           "history_time_out_of_range", "now_full"})
    EXPECT_FALSE(ParseNodeHistory(Corpus(name))) << name;
  EXPECT_FALSE(ParseNodeEvents(Corpus("now_full")));
  EXPECT_FALSE(ParseNodeEvents("<html>"));
  EXPECT_FALSE(ParseNodeEvents(""));
}

TEST(NodeJson, NumbersThatAreNoneAreAbsent) {
  const auto now =
      ParseNodeNow(R"({"schema":"gpulens.now/1","at":9007199254740992,"interval_s":1e300,"v":[3,null,4,1]})");
  ASSERT_TRUE(now) << now.error().detail;
  EXPECT_EQ(now->at_ms, 0) << "in nanoseconds it would overflow";
  EXPECT_EQ(now->interval_s, 0);
  ASSERT_EQ(now->values.size(), 1u) << "null is no value";
  EXPECT_EQ(now->values[0].id, 4u);
}

TEST(NodeJson, WritesTargets) {
  EXPECT_EQ(NodeTarget("/api/history", {{"select", "gpu.power.draw{gpu.index=\"0\"}"}, {"window", "5m"}}),
            "/api/history?select=gpu.power.draw%7Bgpu.index%3D%220%22%7D&window=5m");
}

}  // namespace
}  // namespace gpulens
