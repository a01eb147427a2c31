// Writer and reader together: what one writes the other finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/testing/file_size_limit.h"
#include "base/testing/temp_folder.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_rows.h"
#include "store/experiments/run_writer.h"

namespace gpulens::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'763'690'821 * kSecond;  // 2025-11-21T02:07:01Z

struct StoreTest : ::testing::Test {
  ProcessObserver At(int64_t seconds) {
    ProcessObserver observer;
    observer.host = "node7", observer.place = "boot pid:[1]";
    observer.now_ns = kNow + seconds * kSecond;
    observer.start_of = [this](int64_t pid) {
      auto found = alive.find(pid);
      return found == alive.end() ? std::nullopt : std::optional(found->second);
    };
    return observer;
  }
  std::unique_ptr<RunWriter> Open() {
    auto writer = RunWriter::Open(path);
    EXPECT_TRUE(writer.ok()) << writer.status().detail;
    return writer ? *std::move(writer) : nullptr;
  }
  RunStart Named(const std::string& name, int64_t pid = 100, int64_t seconds = 0) {
    RunStart start;
    start.run.name = name;
    start.run.started_ns = kNow + seconds * kSecond;
    start.process.role = "main";
    start.process.host = "node7", start.process.place = "boot pid:[1]";
    start.process.pid = pid, start.process.start_ticks = 7;
    start.process.started_ns = start.process.heartbeat_ns = start.run.started_ns;
    start.process.heartbeat_every_ns = 10 * kSecond;
    alive[pid] = 7;
    return start;
  }
  std::unique_ptr<RunWriter> Begun(const RunStart& start, int64_t seconds = 0) {
    auto writer = Open();
    Status begun = writer->Begin(start, At(seconds));
    EXPECT_TRUE(begun) << begun.detail;
    return writer;
  }
  static RunBatch Points(const std::string& key, std::vector<std::pair<int64_t, double>> values) {
    RunBatch batch;
    batch.keys = {key};
    batch.heartbeat_ns = kNow;
    for (auto [step, value] : values) batch.points.push_back({0, step, kNow + step, value});
    return batch;
  }
  RunReader Read(int64_t seconds = 0) {
    auto reader = RunReader::Open(path, At(seconds));
    EXPECT_TRUE(reader.ok()) << reader.status().detail;
    return *std::move(reader);
  }
  static RunEnd Ended(const std::string& outcome, int64_t seconds) {
    return {
        .outcome = outcome, .reason = {}, .exit_code = {}, .energy = {}, .unix_ns = kNow + seconds * kSecond};
  }

  gpulens::testing::TempFolder folder;
  std::string path = folder.path() + "/below/experiments.db";
  std::map<int64_t, int64_t> alive;
};

TEST_F(StoreTest, ARunFromStartToEnd) {
  RunStart start = Named("my-run");
  start.run.script = "train.py", start.run.command = "python train.py", start.run.git_commit = "abc";
  auto writer = Begun(start);
  EXPECT_THAT(writer->run_id(), ::testing::MatchesRegex("exp-20251121-020701-[0-9a-f]{8}"));
  EXPECT_FALSE(writer->joined());
  RunBatch batch =
      Points("loss", {{0, 2.5}, {1, NAN}, {2, std::numeric_limits<double>::infinity()}, {3, 0.1}});
  batch.params = {{"lr", 0.001}, {"batch", int64_t{32}}, {"amp", true}, {"opt", std::string("adam")}};
  batch.tags = {{"team", "nlp"}};
  batch.artifacts = {{.name = "model.pt", .path = "/x/model.pt", .bytes = 7, .sha256 = "aa"}};
  ASSERT_TRUE(writer->Write(batch, PointSource::kProgram));
  EXPECT_EQ(Read().ById(writer->run_id())->status, "running");
  RunEnd end = Ended(kDone, 100);
  end.exit_code = 0;
  end.energy = {
      .joules = 41.8, .uncertainty_joules = 0.6, .method = "counter", .validity = "valid", .reason = {}};
  ASSERT_TRUE(writer->Leave(end));

  RunReader reader = Read(500);
  auto run = reader.ById(writer->run_id());
  ASSERT_TRUE(run);
  EXPECT_EQ(run->status, "done");
  EXPECT_EQ(run->duration_seconds(0), 100);
  EXPECT_EQ(run->exit_code, 0);
  EXPECT_EQ(run->energy.joules, 41.8);
  EXPECT_EQ(run->energy.method, "counter");
  EXPECT_EQ(run->command, "python train.py");
  auto points = reader.Points(run->id, "loss");
  ASSERT_EQ(points->size(), 4u);
  EXPECT_TRUE(std::isnan((*points)[1].value));
  EXPECT_EQ((*points)[2].value, std::numeric_limits<double>::infinity());
  auto metrics = reader.Metrics(run->id);
  ASSERT_EQ(metrics->size(), 1u);
  EXPECT_EQ(metrics->front().count, 4);
  EXPECT_EQ(metrics->front().nan_count, 1);
  EXPECT_EQ(metrics->front().last, 0.1);
  EXPECT_EQ(metrics->front().min, 0.1);
  EXPECT_EQ(metrics->front().last_step, 3);
  std::vector<std::string> params;
  auto all = reader.Params(run->id);
  for (const ParamRow& param : *all) params.push_back(param.key + "=" + ValueText(param.value));
  EXPECT_THAT(params, ElementsAre("amp=true", "batch=32", "lr=0.001", "opt=adam"));
  EXPECT_EQ(reader.Tags(run->id)->front().value, "nlp");
  EXPECT_EQ(reader.Artifacts(run->id)->front().bytes, 7);
}

TEST_F(StoreTest, AnUnmeasuredEnergyStaysUnknown) {
  auto writer = Begun(Named("a"));
  RunEnd end = Ended(kDone, 1);
  end.energy.validity = "no_device", end.energy.reason = "no GPU here";
  ASSERT_TRUE(writer->Leave(end));
  auto run = Read().ById(writer->run_id());
  EXPECT_TRUE(std::isnan(run->energy.joules));
  EXPECT_EQ(run->energy.validity, "no_device");
}

TEST_F(StoreTest, EnergyGrowsWithTheHeartbeats) {
  auto writer = Begun(Named("a"));
  RunBatch batch;
  batch.heartbeat_ns = kNow;
  batch.energy = {.joules = 10,
                  .method = "counter",
                  .validity = "running",
                  .reason = {},
                  .vendor = "nvidia",
                  .devices = 2,
                  .mean_power_watts = 5,
                  .peak_utilization_ratio = 0.5};
  ASSERT_TRUE(writer->Write(batch, PointSource::kProgram));
  batch.energy.joules = 20;
  ASSERT_TRUE(writer->Write(batch, PointSource::kProgram));
  batch.energy = {};
  ASSERT_TRUE(writer->Write(batch, PointSource::kProgram));
  auto run = Read().ById(writer->run_id());
  EXPECT_EQ(run->energy.joules, 20);
  EXPECT_EQ(run->energy.validity, "running");
  EXPECT_EQ(run->energy.gpus(), 2);
  EXPECT_EQ(run->energy.mean_power_watts, 5);
  EXPECT_EQ(run->energy.peak_utilization_ratio, 0.5);
  EXPECT_TRUE(std::isnan(run->energy.mean_memory_used_bytes));
  RunEnd end = Ended(kDone, 1);
  end.energy.validity = "source_failed";
  ASSERT_TRUE(writer->Leave(end));
  EXPECT_EQ(Read().ById(writer->run_id())->energy.joules, 20) << "what was known stays";
  ASSERT_TRUE(writer->Delete(writer->run_id()));
  auto left = sqlite::Database::Open({.path = path, .read_only = true});
  EXPECT_EQ(left->Number("SELECT count(*) FROM device_use").value_or(-1), 0);
}

// As the first version wrote it.
TEST_F(StoreTest, AFileOfTheFirstVersionIsReadAndThenGrows) {
  auto writer = Begun(Named("a"));
  const std::string id = writer->run_id();
  writer.reset();
  {
    auto file = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Run("DROP TABLE device_use; DROP TABLE energy_part; PRAGMA user_version=1"));
  }
  auto run = Read().ById(id);
  ASSERT_TRUE(run) << run.status().detail;
  EXPECT_EQ(run->energy.gpus(), std::nullopt);
  ASSERT_TRUE(Open());
  auto file = sqlite::Database::Open({.path = path, .read_only = true});
  EXPECT_EQ(file->Number("SELECT count(*) FROM device_use").value_or(-1), 0);
}

TEST_F(StoreTest, OrdersPointsByStep) {
  auto writer = Begun(Named("a"));
  ASSERT_TRUE(writer->Write(Points("loss", {{5, 5}, {1, 1}}), PointSource::kProgram));
  ASSERT_TRUE(writer->Write(Points("loss", {{3, 3}, {-2, -2}}), PointSource::kProgram));
  ASSERT_TRUE(writer->Write(Points("loss", {{kNextStep, 6}, {kNextStep, 7}}), PointSource::kProgram));
  RunReader reader = Read();
  std::vector<double> values;
  auto points = reader.Points(writer->run_id(), "loss");
  for (const PointRow& point : *points) values.push_back(point.value);
  EXPECT_THAT(values, ElementsAre(-2, 1, 3, 5, 6, 7));
  EXPECT_EQ(reader.Metrics(writer->run_id())->front().last, 7);
  EXPECT_EQ(reader.Metrics(writer->run_id())->front().last_step, 7);
}

TEST_F(StoreTest, AKilledProcessMakesACrashedRun) {
  auto writer = Begun(Named("a"));
  ASSERT_TRUE(writer->Write(Points("loss", {{0, 1}}), PointSource::kProgram));
  std::string id = writer->run_id();
  EXPECT_EQ(Read(100'000).ById(id)->status, "running") << "its process lives, however old its heartbeat";
  alive.erase(100);
  EXPECT_EQ(Read(1).ById(id)->status, "crashed");
  EXPECT_EQ(Read(1).ById(id)->duration_seconds(0), 0) << "until the last sign of life";
  alive[100] = 8;
  EXPECT_EQ(Read(1).ById(id)->status, "crashed") << "another process has its pid now";
  EXPECT_EQ(Read(1).List({.status = "crashed", .name = {}})->size(), 1u);
  EXPECT_EQ(Read(1).List({.status = "running", .name = {}})->size(), 0u);
}

TEST_F(StoreTest, OnAnotherHostOnlyTheHeartbeatCounts) {
  auto writer = Begun(Named("a"));
  std::string id = writer->run_id();
  ProcessObserver other = At(59);
  other.place = "boot pid:[2]";
  EXPECT_EQ(RunReader::Open(path, other)->ById(id)->status, "running");
  other.now_ns += 2 * kSecond;
  EXPECT_EQ(RunReader::Open(path, other)->ById(id)->status, "crashed");
  other.now_ns = kNow - 1000 * kSecond;
  EXPECT_EQ(RunReader::Open(path, other)->ById(id)->status, "running") << "its clock is ahead of ours";
}

TEST_F(StoreTest, TheLastToLeaveEndsARunAndOneFailureIsEnough) {
  auto first = Begun(Named("ranks", 100));
  RunStart second_start = Named("ranks", 101);
  second_start.run.id = first->run_id();
  auto second = Begun(second_start);
  EXPECT_TRUE(second->joined());
  ASSERT_TRUE(second->Leave(Ended(kFailed, 5)));
  EXPECT_EQ(Read().ById(first->run_id())->status, "running");
  ASSERT_TRUE(first->Leave(Ended(kDone, 9)));
  EXPECT_EQ(Read().ById(first->run_id())->status, "failed");
  EXPECT_EQ(Read().List({.status = {}, .name = {}})->size(), 1u);
}

TEST_F(StoreTest, ADeadRankIsNotForgottenWhenTheOthersLeaveWell) {
  auto first = Begun(Named("ranks", 100));
  RunStart second_start = Named("ranks", 101);
  second_start.run.id = first->run_id();
  auto second = Begun(second_start);
  alive.erase(101);
  ASSERT_TRUE(first->Leave(Ended(kDone, 9)));
  EXPECT_EQ(Read().ById(first->run_id())->status, "crashed");
}

TEST_F(StoreTest, AForkIsNotWaitedForAndARunnerDecides) {
  auto main = Begun(Named("a", 100));
  RunStart fork_start = Named("a", 101);
  fork_start.run.id = main->run_id(), fork_start.process.role = "fork";
  auto fork = Begun(fork_start);
  RunEnd end = Ended(kFailed, 9);
  end.decides = true, end.exit_code = 3, end.reason = "exit code 3";
  ASSERT_TRUE(main->Leave(end));
  auto run = Read().ById(main->run_id());
  EXPECT_EQ(run->status, "failed");
  EXPECT_EQ(run->exit_code, 3);
  EXPECT_EQ(run->reason, "exit code 3");
  ASSERT_TRUE(fork->Leave(Ended(kDone, 10)));
  EXPECT_EQ(Read().ById(main->run_id())->status, "failed");
}

TEST_F(StoreTest, ResumingTakesUpWhatDidNotEndWell) {
  RunStart again = Named("a", 200, 50);
  again.resume = "auto";
  auto none = Begun(again);
  EXPECT_FALSE(none->joined()) << "there is nothing to resume";
  ASSERT_TRUE(none->Leave(Ended(kDone, 51)));
  again.run.started_ns += kSecond;
  auto done = Begun(again);
  EXPECT_FALSE(done->joined()) << "the last one ended well";
  ASSERT_TRUE(done->Write(Points("loss", {{0, 1}, {1, 2}}), PointSource::kProgram));

  again.run.started_ns += kSecond;
  EXPECT_FALSE(Begun(again)->joined()) << "it runs: this one is another";
  // What was just begun is now the last; both die.
  alive.clear();
  RunStart after = Named("a", 300, 90);
  after.resume = "auto";
  auto resumed = Begun(after, 90);
  EXPECT_TRUE(resumed->joined());
  ASSERT_TRUE(resumed->Write(Points("loss", {{kNextStep, 3}}), PointSource::kProgram));
  ASSERT_TRUE(resumed->Leave(Ended(kDone, 100)));
  auto run = Read(100).ById(resumed->run_id());
  EXPECT_EQ(run->status, "done") << "the dead process of before is no obstacle";
  EXPECT_EQ(run->resumed, 1);

  RunStart by_id = Named("x", 400);
  by_id.run.id = done->run_id(), by_id.must_exist = true;
  auto named = Begun(by_id);
  EXPECT_EQ(named->run_name(), "a") << "it keeps its name";
  ASSERT_TRUE(named->Write(Points("loss", {{kNextStep, 3}}), PointSource::kProgram));
  EXPECT_EQ(Read().Points(named->run_id(), "loss")->back().step, 2) << "it goes on where it was";

  by_id.run.id = "exp-nowhere";
  EXPECT_EQ(Open()->Begin(by_id, At(0)).code, Code::kInvalidArgument);
}

TEST_F(StoreTest, AFailedRunThatIsResumedAndEndsWellIsDone) {
  auto first = Begun(Named("a"));
  ASSERT_TRUE(first->Leave(Ended(kFailed, 1)));
  RunStart again = Named("a", 101);
  again.resume = "auto";
  auto second = Begun(again);
  ASSERT_EQ(second->run_id(), first->run_id());
  ASSERT_TRUE(second->Leave(Ended(kDone, 2)));
  EXPECT_EQ(Read().ById(first->run_id())->status, "done");
  EXPECT_EQ(Read().ById(first->run_id())->reason, "");
}

TEST_F(StoreTest, LoggedKeysAreIgnoredInTheOutput) {
  auto runner = Begun(Named("a", 100));
  ASSERT_TRUE(runner->Write(Points("loss", {{0, 9}, {1, 8}}), PointSource::kOutput));
  RunStart start = Named("a", 101);
  start.run.id = runner->run_id();
  auto program = Begun(start);
  ASSERT_TRUE(program->Write(Points("loss", {{0, 9.5}}), PointSource::kProgram));
  ASSERT_TRUE(runner->Write(Points("loss", {{2, 7}}), PointSource::kOutput));
  ASSERT_TRUE(runner->Write(Points("it_per_second", {{2, 7}}), PointSource::kOutput));
  RunReader reader = Read();
  auto points = reader.Points(runner->run_id(), "loss");
  ASSERT_EQ(points->size(), 1u);
  EXPECT_EQ(points->front().value, 9.5);
  EXPECT_EQ(reader.Metrics(runner->run_id())->size(), 2u);
}

TEST_F(StoreTest, RunsAreFoundByIdPartOfItAndName) {
  auto first = Begun(Named("same", 100, 0)), second = Begun(Named("same", 101, 10));
  RunReader reader = Read();
  EXPECT_EQ(reader.Find(first->run_id())->id, first->run_id());
  EXPECT_EQ(reader.Find(first->run_id().substr(20))->id, first->run_id());
  EXPECT_EQ(reader.Find("same")->id, second->run_id()) << "the newest of a name";
  Status several = reader.Find("exp-2025").status();
  EXPECT_EQ(several.code, Code::kInvalidArgument);
  EXPECT_THAT(several.detail, HasSubstr(first->run_id()));
  EXPECT_FALSE(reader.Find("%"));
  EXPECT_FALSE(reader.Find("____"));
  EXPECT_FALSE(reader.Find(""));
}

TEST_F(StoreTest, ListsRunsByWhatTheyHave) {
  for (const double loss : {0.5, 0.25, kNotMeasured}) {
    auto writer = Begun(Named("ft", 100, static_cast<int64_t>(loss == 0.25)));
    RunBatch batch = Points("loss", {{0, loss}});
    batch.params = {{"lr", loss}, {"layers", int64_t{2}}};
    batch.tags = {{"team", loss == 0.25 ? "nlp" : "vision"}};
    ASSERT_TRUE(writer->Write(batch, PointSource::kProgram));
  }
  RunReader reader = Read();
  const auto count = [&](const RunReader::Filter& filter) { return reader.List(filter)->size(); };
  EXPECT_EQ(count({.params = {{"lr", 0.5}}}), 1u);
  EXPECT_EQ(count({.params = {{"layers", int64_t{2}}, {"lr", 0.25}}}), 1u);
  EXPECT_EQ(count({.params = {{"layers", std::string("2")}}}), 0u) << "a text";
  EXPECT_EQ(count({.tags = {{"team", "vision"}}}), 2u);
  EXPECT_EQ(count({.metrics = {{.key = "loss"}}}), 2u) << "NaN is in no range";
  EXPECT_EQ(count({.metrics = {{.key = "loss", .most = 0.25}}}), 1u);
  EXPECT_EQ(count({.metrics = {{.key = "loss", .least = 0.3, .most = 0.4}}}), 0u);
  EXPECT_EQ(count({.metrics = {{.key = "los'"}}}), 0u);
  const auto by_loss = reader.List({.order = "metrics.loss", .ascending = true});
  ASSERT_EQ(by_loss->size(), 3u);
  EXPECT_EQ(by_loss->front().started_ns, kNow + kSecond);
  EXPECT_EQ(reader.List({.limit = 1, .tags = {{"team", "nlp"}}, .order = "duration"})->size(), 1u);
  EXPECT_EQ(reader.List({.order = "loss"}).status().code, Code::kInvalidArgument);
}

TEST_F(StoreTest, DeletingTakesTheRunsWithinAlong) {
  auto parent = Begun(Named("parent", 100));
  RunStart start = Named("fold", 100, 1);
  start.run.parent_id = parent->run_id();
  auto child = Begun(start);
  ASSERT_TRUE(child->Write(Points("loss", {{0, 1}}), PointSource::kProgram));
  auto other = Begun(Named("other", 100, 2));
  ASSERT_TRUE(other->Write(Points("loss", {{0, 1}}), PointSource::kProgram));
  EXPECT_EQ(Read().Children(parent->run_id())->size(), 1u);
  EXPECT_EQ(Read().List({.status = {}, .name = {}, .nested = false})->size(), 2u);
  auto deleted = Open()->Delete(parent->run_id());
  ASSERT_TRUE(deleted) << deleted.error().detail;
  EXPECT_EQ(deleted->size(), 2u);
  EXPECT_EQ(Read().List({.status = {}, .name = {}})->size(), 1u);
  EXPECT_EQ(*Read().database().Number("SELECT count(*) FROM point"), 1);
  EXPECT_EQ(child->Write(Points("loss", {{1, 1}}), PointSource::kProgram).code, Code::kUnavailable);
  EXPECT_EQ(Open()->Delete("nothing").status().code, Code::kInvalidArgument);
}

TEST_F(StoreTest, ManyWritersOnOneFile) {
  auto first = Begun(Named("ranks", 1));
  constexpr int kRanks = 4, kBatches = 25;
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  std::string id = first->run_id();
  std::vector<RunStart> starts;
  for (int rank = 0; rank < kRanks; ++rank) starts.push_back(Named("ranks", 100 + rank));
  const ProcessObserver observer = At(0);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      starts[static_cast<size_t>(rank)].run.id = id;
      auto writer = RunWriter::Open(path);
      if (!writer || !(*writer)->Begin(starts[static_cast<size_t>(rank)], observer)) {
        ++failures;
        return;
      }
      for (int i = 0; i < kBatches; ++i) {
        if (!(*writer)->Write(Points("loss", {{i, rank}, {i, rank}}), PointSource::kProgram)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Read().Points(id, "loss")->size(), size_t{kRanks * kBatches * 2});
  EXPECT_EQ(Read().Metrics(id)->front().count, kRanks * kBatches * 2);
}

TEST_F(StoreTest, AFullDiskIsReportedAndWrittenRowsStay) {
  auto writer = Begun(Named("a"));
  ASSERT_TRUE(writer->Write(Points("loss", {{0, 1}}), PointSource::kProgram));
  std::vector<std::pair<int64_t, double>> many;
  for (int64_t i = 1; i < 50'000; ++i) many.emplace_back(i, 1.0);
  {
    FileSizeLimit full(200 << 10);
    Status status = writer->Write(Points("loss", many), PointSource::kProgram);
    EXPECT_FALSE(status);
  }
  EXPECT_EQ(Read().Points(writer->run_id(), "loss")->size(), 1u);
  ASSERT_TRUE(writer->Write(Points("loss", many), PointSource::kProgram)) << "there is room again";
  EXPECT_EQ(Read().Points(writer->run_id(), "loss")->size(), 50'000u);
}

TEST_F(StoreTest, FilesOfOthersAreRefused) {
  EXPECT_EQ(RunReader::Open(path).status().code, Code::kUnavailable);
  std::string empty = folder.Write("empty.db", "");
  EXPECT_EQ(RunReader::Open(empty).status().code, Code::kDataLoss);
  std::string text = folder.Write("text.db", std::string(5000, 'x'));
  EXPECT_EQ(RunReader::Open(text).status().code, Code::kDataLoss);
  EXPECT_EQ(RunWriter::Open(text).status().code, Code::kDataLoss);
  std::string foreign = folder.path() + "/foreign.db";
  ASSERT_TRUE(sqlite::Database::Open({.path = foreign})->Run("CREATE TABLE theirs(a)"));
  EXPECT_EQ(RunWriter::Open(foreign).status().code, Code::kInvalidArgument);
  EXPECT_EQ(RunReader::Open(foreign).status().code, Code::kDataLoss);
}

TEST_F(StoreTest, ACurveKeepsTheEndsAndEveryPeak) {
  auto writer = Begun(Named("a"));
  const auto write = [&](const std::string& key, int64_t count, auto value) {
    std::vector<std::pair<int64_t, double>> values;
    for (int64_t step = 0; step < count; ++step) values.emplace_back(step, value(step));
    ASSERT_TRUE(writer->Write(Points(key, values), PointSource::kProgram));
  };
  write("loss", 100'003, [](int64_t step) {
    if (step == 61'234) return -5.0;
    if (step == 61'300) return 99.0;
    if (step >= 20'000 && step < 40'000) return kNotMeasured;
    return 1 / (1.0 + static_cast<double>(step));
  });
  write("few", 10, [](int64_t step) { return static_cast<double>(step); });
  RunReader reader = Read();
  const std::string id = writer->run_id();
  auto curve = reader.Curve(id, "loss", 1000);
  ASSERT_TRUE(curve);
  EXPECT_LE(curve->size(), 1000u);
  EXPECT_GT(curve->size(), 700u);
  EXPECT_EQ(curve->front().step, 0);
  EXPECT_EQ(curve->back().step, 100'002);
  EXPECT_TRUE(std::ranges::is_sorted(*curve, {}, &PointRow::step));
  const auto has = [&](auto what) { return std::ranges::any_of(*curve, what); };
  EXPECT_TRUE(has([](const PointRow& point) { return point.value == -5 && point.step == 61'234; }));
  EXPECT_TRUE(has([](const PointRow& point) { return point.value == 99 && point.step == 61'300; }));
  EXPECT_TRUE(has([](const PointRow& point) { return std::isnan(point.value); }));
  EXPECT_EQ(reader.Curve(id, "few", 1000)->size(), 10u);
  EXPECT_EQ(reader.Curve(id, "few", 4)->size(), 4u);
  EXPECT_TRUE(reader.Curve(id, "none", 1000)->empty());
}

TEST_F(StoreTest, AnAgentUsesNoViewOfAFile) {
  {
    auto writer = Begun(Named("a"));
  }
  EXPECT_TRUE(RunReader::OpenForAgent(path, At(0), std::chrono::seconds(10)));
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(
        database->Run("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 "
                      "FROM n) SELECT i FROM n"));
  }
  EXPECT_TRUE(RunReader::OpenForAgent(path, At(0), std::chrono::seconds(10)))
      << "one that nobody reads harms nobody";
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database->Run("PRAGMA foreign_keys=OFF; ALTER TABLE run RENAME TO old_run"));
    ASSERT_TRUE(database->Run("CREATE VIEW run AS SELECT * FROM old_run, endless"));
  }
  auto refused = RunReader::OpenForAgent(path, At(0), std::chrono::seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << refused.error().detail;
}

TEST(RunFiles, IdsKeysAndPlaces) {
  EXPECT_TRUE(IsRunId("exp-20251121-020701-9f3a11c2"));
  EXPECT_TRUE(IsRunId("job_7.1"));
  for (const char* bad : {"", "..", ".x", "a/b", "a b", "ü"}) EXPECT_FALSE(IsRunId(bad)) << bad;
  EXPECT_FALSE(IsRunId(std::string(65, 'a')));
  EXPECT_TRUE(IsKey("train/loss ü"));
  for (const char* bad : {"", "a\nb", "\xff", "\x7f"}) EXPECT_FALSE(IsKey(bad)) << bad;
  EXPECT_FALSE(IsKey(std::string(251, 'a')));
  EXPECT_EQ(LogPath("/a/b.db", "x"), "/a/runs/x/output.log");
  EXPECT_EQ(LogPath("/a/b.db", "x", true), "/a/x/output.log");
  EXPECT_EQ(LogPath("b.db", "x"), "./runs/x/output.log");
  EXPECT_EQ(*FindDatabase("/x/y.db"), "/x/y.db");
}

TEST(RunLife, ThisProcessIsAliveAndItsStartIsUnique) {
  ProcessObserver here = HereAndNow();
  ProcessRow me = ThisProcess(here);
  EXPECT_GT(me.start_ticks, 0);
  EXPECT_FALSE(me.place.empty());
  EXPECT_TRUE(IsAlive(me, here));
  ++me.start_ticks;
  EXPECT_FALSE(IsAlive(me, here));
  me.place.clear();
  EXPECT_TRUE(IsAlive(me, here)) << "of a process elsewhere the heartbeat tells, and it is new";
}

}  // namespace
}  // namespace gpulens::experiments
