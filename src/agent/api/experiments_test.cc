#include "agent/api/experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/testing/temp_folder.h"
#include "store/experiments/run_writer.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct ExperimentsPage : ::testing::Test {
  ExperimentsPage() { AddExperimentsPage(api, path, std::chrono::seconds(60)); }

  // A run with `points` of loss; its id.
  std::string Recorded(const std::string& name, int64_t points, const std::string& param = "adam") {
    auto writer = experiments::RunWriter::Open(path);
    const experiments::ProcessObserver here = experiments::HereAndNow();
    experiments::RunStart start;
    start.run.name = name;
    start.run.started_ns = here.now_ns - 10'000'000'000 + ++recorded;
    start.run.command = "secret --token x", start.run.folder = "/home/ada", start.run.script = "train.py";
    start.process = experiments::ThisProcess(here);
    start.process.role = "main", start.process.heartbeat_ns = here.now_ns;
    EXPECT_TRUE((*writer)->Begin(start, here));
    experiments::RunBatch batch;
    batch.keys = {"zz", "loss"};
    batch.params = {{"opt", param}, {"lr", 0.5}};
    batch.points.push_back({0, 1, here.now_ns, 7});
    for (int64_t step = 1; step <= points; ++step)
      batch.points.push_back({1, step, here.now_ns + step, 1.0 / static_cast<double>(step)});
    EXPECT_TRUE((*writer)->Write(batch, experiments::PointSource::kProgram));
    experiments::RunEnd end;
    end.unix_ns = here.now_ns;
    end.energy.joules = 41.8, end.energy.uncertainty_joules = 0.6;
    end.energy.method = "counter", end.energy.validity = "valid";
    end.energy.vendor = "nvidia", end.energy.devices = 3;
    EXPECT_TRUE((*writer)->Leave(end));
    return (*writer)->run_id();
  }
  std::string Get(const std::string& target) {
    auto json = api.Get(target);
    EXPECT_TRUE(json) << json.status().detail;
    return json ? *json : "";
  }
  JsonDocument Document(const std::string& target) {
    const std::string json = Get(target);
    auto document = JsonDocument::Parse(json);
    EXPECT_TRUE(document) << json;
    return *document;
  }

  gpulens::testing::TempFolder folder;
  std::string path = folder.path() + "/experiments.db";
  int64_t recorded = 0;
  Api api;
};

TEST_F(ExperimentsPage, ARunWithItsEnergyAndItsLastMetrics) {
  const std::string old = Recorded("old", 3), id = Recorded("ft-8b", 1204);
  const JsonDocument page = Document("/api/experiments");
  EXPECT_EQ(page.Text("/schema"), "gpulens.experiments/1");
  EXPECT_EQ(page.Text("/file"), path);
  ASSERT_EQ(page.Size("/runs"), 2u);
  EXPECT_EQ(page.Text("/runs/0/id"), id);
  EXPECT_EQ(page.Text("/runs/1/id"), old);
  EXPECT_EQ(page.Text("/runs/0/status"), "done");
  EXPECT_EQ(page.Number("/runs/0/step"), 1204);
  EXPECT_EQ(page.Number("/runs/0/gpus"), 3);
  EXPECT_EQ(page.Number("/runs/0/energy/energy_joules"), 41.8);
  EXPECT_EQ(page.Number("/runs/0/energy/uncertainty_joules"), 0.6);
  EXPECT_EQ(page.Number("/runs/0/metrics/loss/last"), 1 / 1204.0);
  EXPECT_EQ(page.Truth("/more"), false);
}

TEST_F(ExperimentsPage, NoCommandFolderOrScript) {
  const std::string id = Recorded("a", 3);
  for (const std::string& target : {std::string("/api/experiments"), "/api/experiments?id=" + id})
    EXPECT_THAT(Get(target),
                Not(::testing::AnyOf(HasSubstr("secret"), HasSubstr("/home/ada"), HasSubstr("train.py"))));
}

TEST_F(ExperimentsPage, ALongCurveHasAThousandPoints) {
  const std::string id = Recorded("a", 20'000);
  const JsonDocument page = Document("/api/experiments?id=" + id);
  EXPECT_EQ(page.Text("/curves/0/key"), "loss");
  const size_t points = page.Size("/curves/0/step");
  EXPECT_LE(points, 1000u);
  EXPECT_GT(points, 900u);
  EXPECT_EQ(page.Size("/curves/0/at"), points);
  EXPECT_EQ(page.Number("/curves/0/value/" + std::to_string(points - 1)), 1 / 20'000.0);
  EXPECT_EQ(page.Text("/run/params/opt"), "adam");
  EXPECT_EQ(page.Number("/run/params/lr"), 0.5);
  const JsonDocument one = Document("/api/experiments?id=" + id + "&metric=zz");
  EXPECT_EQ(one.Size("/curves"), 1u);
  EXPECT_EQ(one.Text("/curves/0/key"), "zz");
}

TEST_F(ExperimentsPage, IsBounded) {
  const std::string hostile = "<img src=x onerror=alert(1)>\"'\xff\xe2\x80\xae" + std::string(10'000, 'x');
  for (int i = 0; i < 3; ++i) Recorded(hostile, 2, hostile);
  const JsonDocument page = Document("/api/experiments?limit=2");
  EXPECT_EQ(page.Size("/runs"), 2u);
  EXPECT_EQ(page.Truth("/more"), true);
  EXPECT_LT(page.Text("/runs/0/name")->size(), 2100u);
  EXPECT_LT(Get("/api/experiments?id=" + *page.Text("/runs/0/id")).size(), 8'000u);
}

TEST_F(ExperimentsPage, AnswersWithoutRuns) {
  JsonDocument page = Document("/api/experiments");
  EXPECT_EQ(page.Size("/runs"), 0u);
  EXPECT_THAT(*page.Text("/absent"), HasSubstr(path));
  gpulens::testing::TempFolder other;
  other.Write("no.db", "this is no database, but long enough to be read as one: " + std::string(4096, 'x'));
  Api broken;
  AddExperimentsPage(broken, other.path() + "/no.db");
  EXPECT_THAT(*broken.Get("/api/experiments"), HasSubstr("\"absent\":"));
}

TEST_F(ExperimentsPage, RefusesWhatItDoesNotKnow) {
  const std::string id = Recorded("a", 3);
  for (const std::string& target :
       {std::string("/api/experiments?id=nothing"), "/api/experiments?id=" + id + "&metric=acc",
        std::string("/api/experiments?limit=0"), std::string("/api/experiments?limit=1e9")}) {
    auto refused = api.Get(target);
    ASSERT_FALSE(refused) << target;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << target;
  }
}

}  // namespace
}  // namespace gpulens
