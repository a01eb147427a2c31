#include <gmock/gmock.h>
#include <gpulens/experiment.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/sanitizers.h"
#include "base/testing/allocations.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temp_folder.h"
#include "sdk/experiment/artifact_files.h"
#include "sdk/experiment/run_context.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_rows.h"
#include "store/experiments/run_writer.h"

namespace gpulens {
namespace {

using experiments::RunReader;
using experiments::RunRow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

struct ExperimentTest : ::testing::Test {
  ExperimentTest() {
    ::unsetenv(experiments::kRunIdVariable);
    ::unsetenv(experiments::kRunNameVariable);
  }
  ExperimentOptions Options() const {
    ExperimentOptions options;
    options.db = path;
    options.flush_interval = 5ms;
    return options;
  }
  Experiment Started(const std::string& name, ExperimentOptions options) const {
    auto started = Experiment::Start(name, std::move(options));
    EXPECT_TRUE(started.ok()) << started.status().detail;
    return *std::move(started);
  }
  Experiment Started(const std::string& name = "my-run") const { return Started(name, Options()); }
  RunReader Read() const {
    auto reader = RunReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status().detail;
    return *std::move(reader);
  }
  std::string StatusOf(const std::string& id) const { return Read().ById(id)->status; }

  gpulens::testing::TempFolder folder;
  std::string path = folder.path() + "/experiments.db";
};

TEST_F(ExperimentTest, StoresAThousandStepsInOrder) {
  std::string id;
  {
    Experiment run = Started();
    id = run.id();
    run.LogParam("lr", 0.001);
    run.LogParam("name", "adam");
    run.LogParam("layers", int64_t{12});
    run.LogParam("amp", true);
    run.SetTag("team", "nlp");
    for (int64_t step = 0; step < 1000; ++step)
      run.LogMetric("loss", 1.0 / static_cast<double>(step + 1), step);
    EXPECT_EQ(StatusOf(id), "running");
  }
  RunReader reader = Read();
  EXPECT_EQ(reader.ById(id)->status, "done");
  EXPECT_EQ(reader.ById(id)->dropped, 0);
  auto points = reader.Points(id, "loss");
  ASSERT_EQ(points->size(), 1000u);
  for (size_t i = 0; i < points->size(); ++i) {
    ASSERT_EQ((*points)[i].step, static_cast<int64_t>(i));
    ASSERT_EQ((*points)[i].value, 1.0 / static_cast<double>(i + 1));
    ASSERT_GT((*points)[i].unix_ns, 0);
  }
  auto params = reader.Params(id);
  ASSERT_EQ(params->size(), 4u);
  EXPECT_EQ((*params)[0].value, experiments::RunParamValue(true));
  EXPECT_EQ((*params)[1].value, experiments::RunParamValue(int64_t{12}));
  EXPECT_EQ(reader.Tags(id)->front().value, "nlp");
  EXPECT_THAT(reader.ById(id)->command, HasSubstr("sdk_experiment_test"));
}

TEST_F(ExperimentTest, StoresNaNAndInfinity) {
  Experiment run = Started();
  for (double value : std::vector<double>{1, NAN, INFINITY, -INFINITY}) run.LogMetric("loss", value);
  ASSERT_TRUE(run.Flush(20s));
  auto points = Read().Points(run.id(), "loss");
  ASSERT_EQ(points->size(), 4u);
  EXPECT_TRUE(std::isnan((*points)[1].value));
  EXPECT_EQ((*points)[2].value, INFINITY);
  EXPECT_EQ((*points)[3].value, -INFINITY);
  EXPECT_EQ((*points)[3].step, 3) << "without a step they are counted";
}

TEST_F(ExperimentTest, ExceptionMakesItFailed) {
  std::string id;
  try {
    Experiment run = Started();
    id = run.id();
    throw std::runtime_error("out of memory");
  } catch (const std::runtime_error&) {
    // A run that begins and ends while one is handled is well.
    Experiment other = Started("other");
    std::string other_id = other.id();
    ASSERT_TRUE(other.End());
    EXPECT_EQ(StatusOf(other_id), "done");
  }
  EXPECT_EQ(StatusOf(id), "failed");
  EXPECT_EQ(Read().ById(id)->reason, "exception");
}

TEST_F(ExperimentTest, EndsOnceWithAReason) {
  Experiment run = Started();
  EXPECT_EQ(run.End(ExperimentStatus::kRunning).code, Code::kInvalidArgument);
  ASSERT_TRUE(run.End(ExperimentStatus::kFailed, "ValueError: no data"));
  EXPECT_EQ(run.End().code, Code::kInvalidArgument);
  EXPECT_EQ(run.status(), ExperimentStatus::kFailed);
  EXPECT_EQ(Read().ById(run.id())->reason, "ValueError: no data");
  run.LogMetric("loss", 1, 0);
  run.LogParam("late", int64_t{1});
  EXPECT_EQ(run.health().dropped, 2u);
  EXPECT_FALSE(run.LogArtifact(path));
}

TEST_F(ExperimentTest, CountsInvalidRecords) {
  Experiment run = Started();
  run.LogMetric("", 1, 0);
  run.LogMetric(std::string(251, 'k'), 1, 0);
  run.LogMetric("a\nb", 1, 0);
  run.LogParam("long", std::string(65 << 10, 'x'));
  run.LogParam("\xff", int64_t{1});
  run.SetTag("", "x");
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(run.Flush(20s));
  run.LogMetric("", 1, 0);
  ASSERT_TRUE(run.End());
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("run " + run.id() + ": values are dropped and counted"), std::string::npos) << logged;
  EXPECT_EQ(logged.find("are dropped"), logged.rfind("are dropped")) << "once: " << logged;
  EXPECT_EQ(run.health().dropped, 7u);
  EXPECT_EQ(Read().ById(run.id())->dropped, 7) << "the file knows, too";
}

TEST_F(ExperimentTest, FullQueueDropsAndCounts) {
  ExperimentOptions options = Options();
  options.queue_points = 64;
  options.flush_interval = 1h;
  Experiment run = Started("a", options);
  auto locked = sqlite::Database::Open({.path = path});
  ASSERT_TRUE(locked);
  {
    auto held = sqlite::Transaction::Begin(*locked);  // nothing can be written meanwhile
    ASSERT_TRUE(held);
    for (int64_t i = 0; i < 10'000; ++i) run.LogMetric("loss", 1, i);
    EXPECT_GT(run.health().dropped, 0u);
  }
  ASSERT_TRUE(run.Flush(20s));
  const ExperimentHealth health = run.health();
  EXPECT_EQ(health.written + health.dropped, 10'000u) << "each is in the file or counted";
  EXPECT_EQ(Read().Points(run.id(), "loss")->size(), health.written);
  ASSERT_TRUE(run.End());
  EXPECT_EQ(Read().ById(run.id())->dropped, static_cast<int64_t>(health.dropped));
}

TEST_F(ExperimentTest, LoggingDoesNotAllocateOnceAKeyIsKnown) {
  Experiment run = Started();
  run.LogMetric("loss", 1, 0);
  const uint64_t before = gpulens::ThreadAllocations();
  for (int64_t i = 1; i < 1000; ++i) run.LogMetric("loss", 1, i);
  EXPECT_EQ(gpulens::ThreadAllocations(), before);
}

TEST_F(ExperimentTest, ManyThreadsLoseNothing) {
  ExperimentOptions options = Options();
  options.queue_points = 100'000;
  Experiment run = Started("threads", options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&run, t] {
      for (int64_t i = 0; i < 5000; ++i) run.LogMetric("key" + std::to_string((t + i) % 7), 1, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(run.End());
  EXPECT_EQ(run.health().dropped, 0u);
  int64_t all = 0;
  auto metrics = Read().Metrics(run.id());
  for (const auto& metric : *metrics) all += metric.count.value_or(0);
  EXPECT_EQ(all, 20'000);
}

TEST_F(ExperimentTest, KilledRunIsCrashedWithItsFlushedRecords) {
  if (gpulens::kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts none after a fork";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto run = Experiment::Start("victim", Options());
    for (int64_t i = 0; run && i < 100; ++i) run->LogMetric("loss", 1, i);
    bool good = run && run->Flush(20s).ok();
    static_cast<void>(!::write(ready[1], good ? "y" : "n", 1));
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(Read().Find("victim")->status, "running");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  RunReader reader = Read();
  auto run = reader.Find("victim");
  EXPECT_EQ(run->status, "crashed");
  EXPECT_EQ(reader.Points(run->id, "loss")->size(), 100u);
  ExperimentOptions again = Options();
  again.resume = "auto";
  Experiment resumed = Started("victim", again);
  EXPECT_EQ(resumed.id(), run->id);
  resumed.LogMetric("loss", 2);
  ASSERT_TRUE(resumed.End());
  EXPECT_EQ(StatusOf(run->id), "done");
  EXPECT_EQ(Read().Points(run->id, "loss")->back().step, 100);
  ::close(ready[0]), ::close(ready[1]);
}

TEST_F(ExperimentTest, ForkWritesToTheRunAndDoesNotEndIt) {
  if (gpulens::kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts none after a fork";
  Experiment run = Started();
  run.LogMetric("loss", 1, 0);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    run.LogMetric("loss", 2, 1);
    bool good = run.Flush(20s).ok() && run.health().written == 1;
    {
      Experiment gone = std::move(run);
    }  // as when the child returns from main
    ::_exit(good ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(StatusOf(run.id()), "running");
  run.LogMetric("loss", 3, 2);
  ASSERT_TRUE(run.End());
  RunReader reader = Read();
  EXPECT_EQ(reader.ById(run.id())->status, "done");
  EXPECT_EQ(reader.Points(run.id(), "loss")->size(), 3u);
  EXPECT_EQ(reader.Processes(run.id())->size(), 2u);
}

TEST_F(ExperimentTest, ForkThatLogsNothingWritesNothing) {
  Experiment run = Started();
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    {
      Experiment gone = std::move(run);
    }
    ::_exit(0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  run.LogMetric("loss", 1, 0);
  ASSERT_TRUE(run.End());
  EXPECT_EQ(Read().Processes(run.id())->size(), 1u);
  EXPECT_EQ(StatusOf(run.id()), "done");
}

TEST_F(ExperimentTest, NestsRuns) {
  Experiment run = Started();
  auto fold = run.Nested("fold-1");
  ASSERT_TRUE(fold);
  fold->LogMetric("loss", 0.31, 10);
  ASSERT_TRUE(fold->End());
  ASSERT_TRUE(run.End());
  auto children = Read().Children(run.id());
  ASSERT_EQ(children->size(), 1u);
  EXPECT_EQ(children->front().name, "fold-1");
}

TEST_F(ExperimentTest, ProgramsUnderARunnerJoinItsRun) {
  if (gpulens::kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts none after a fork";
  Variable id(experiments::kRunIdVariable, "job-7");
  pid_t child = ::fork();  // only one experiment of a process is the first
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto first = Experiment::Start("mine", Options());
    auto second = Experiment::Start("part", Options());
    ExperimentOptions alone_options = Options();
    alone_options.join = false;
    auto alone = Experiment::Start("alone", alone_options);
    bool good = first && second && alone && first->id() == "job-7" && second->id() != "job-7" &&
                alone->id() != "job-7";
    good = good && first->End().ok() && second->End().ok() && alone->End().ok();
    ::_exit(good ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  RunReader reader = Read();
  EXPECT_EQ(reader.ById("job-7")->name, "mine");
  EXPECT_EQ(reader.Children("job-7")->front().name, "part");
  EXPECT_EQ(reader.Find("alone")->parent_id, "");
  Variable bad(experiments::kRunIdVariable, "../../etc");
  EXPECT_EQ(Experiment::Start("x", Options()).status().code, Code::kInvalidArgument);
}

TEST_F(ExperimentTest, StartReportsErrors) {
  EXPECT_EQ(Experiment::Start("", Options()).status().code, Code::kInvalidArgument);
  EXPECT_EQ(Experiment::Start("a\nb", Options()).status().code, Code::kInvalidArgument);
  ExperimentOptions options = Options();
  options.resume = "exp-nowhere";
  EXPECT_THAT(Experiment::Start("a", options).status().detail, HasSubstr("exp-nowhere"));
  options = Options();
  options.parent_id = "a/b";
  EXPECT_EQ(Experiment::Start("a", options).status().code, Code::kInvalidArgument);
  options = Options();
  options.queue_points = 0;
  EXPECT_EQ(Experiment::Start("a", options).status().code, Code::kInvalidArgument);
  options = Options();
  options.flush_interval = 0s;
  EXPECT_EQ(Experiment::Start("a", options).status().code, Code::kInvalidArgument);
  options = Options();
  options.db = folder.Write("file", "") + "/below.db";
  EXPECT_FALSE(Experiment::Start("a", options));
  options.db = "/proc/1/experiments.db";
  EXPECT_FALSE(Experiment::Start("a", options));
}

TEST_F(ExperimentTest, ReportsAReadOnlyFolder) {
  std::string locked = folder.path() + "/locked";
  fs::create_directory(locked);
  ::chmod(locked.c_str(), 0555), ::chmod(folder.path().c_str(), 0755);
  ExperimentOptions options = Options();
  options.db = locked + "/experiments.db";
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Root may write everywhere, so another user tries.
    bool unprivileged = ::geteuid() != 0 || ::setuid(65534) == 0;
    ::_exit(unprivileged ? static_cast<int>(Experiment::Start("a", options).status().code) : 99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Code::kPermissionDenied));
  struct stat info{};
  ASSERT_EQ(::stat(locked.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0555u);
  ::chmod(locked.c_str(), 0755);
}

TEST_F(ExperimentTest, ReportsAFullDisk) {
  Experiment run = Started();
  run.LogMetric("loss", 1, 0);
  ASSERT_TRUE(run.Flush(20s));
  {
    gpulens::FileSizeLimit full(64 << 10);
    for (int64_t i = 1; i < 10'000; ++i) run.LogMetric("loss", 1, i);
    EXPECT_FALSE(run.Flush(20s));
    EXPECT_FALSE(run.health().last_error.ok());
  }
  ASSERT_TRUE(run.Flush(20s)) << "there is room again";
  EXPECT_EQ(Read().Points(run.id(), "loss")->size(), 10'000u);
  EXPECT_TRUE(run.health().last_error.ok());
}

TEST_F(ExperimentTest, DoesNotRestoreADeletedRun) {
  Experiment run = Started();
  auto writer = experiments::RunWriter::Open(path);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Delete(run.id()));
  run.LogMetric("loss", 1, 0);
  EXPECT_EQ(run.Flush(20s).code, Code::kUnavailable);
  EXPECT_EQ(run.health().dropped, 1u);
  EXPECT_FALSE(run.End());
  EXPECT_EQ(Read().List({.status = {}, .name = {}})->size(), 0u);
}

TEST_F(ExperimentTest, MeasuresEnergyAtTheEnd) {
  ExperimentOptions options = Options();
  int queried = 0;
  options.energy = [&](bool ended) {
    queried += ended;
    return ExperimentEnergy{.energy_joules = 41.8,
                            .uncertainty_joules = 0.6,
                            .method = "counter",
                            .validity = "valid",
                            .reason = {}};
  };
  Experiment run = Started("a", options);
  ASSERT_TRUE(run.End());
  EXPECT_EQ(queried, 1);
  EXPECT_EQ(run.energy().energy_joules, 41.8);
  EXPECT_EQ(Read().ById(run.id())->energy.uncertainty_joules, 0.6);
  options.energy = [](bool) -> ExperimentEnergy { throw std::runtime_error("the sensor is gone"); };
  Experiment broken = Started("b", options);
  ASSERT_TRUE(broken.End());
  EXPECT_TRUE(std::isnan(broken.energy().energy_joules));
  EXPECT_EQ(Read().ById(broken.id())->energy.reason, "the sensor is gone");
}

TEST_F(ExperimentTest, MovedRunsEndOnce) {
  Experiment first = Started("a");
  std::string id = first.id();
  Experiment second = std::move(first);
  EXPECT_EQ(StatusOf(id), "running");
  second = Started("b");
  EXPECT_EQ(StatusOf(id), "done");
}

TEST_F(ExperimentTest, ArtifactsAreCopiedWithTheirHash) {
  Experiment run = Started();
  std::string file = folder.Write("model.pt", "abc");
  ASSERT_TRUE(run.LogArtifact(file));
  ASSERT_TRUE(run.LogArtifact(file, "best/model.pt"));
  fs::create_directories(folder.path() + "/plots/deep");
  folder.Write("plots/a.svg", "<svg/>");
  folder.Write("plots/deep/b.svg", "");
  fs::create_symlink("/etc/passwd", folder.path() + "/plots/link");
  ASSERT_TRUE(run.LogArtifact(folder.path() + "/plots"));
  for (const char* name : {"../x", "/x", "a/../b", "a//b", ".", "a\nb"})
    EXPECT_EQ(run.LogArtifact(file, name).code, Code::kInvalidArgument) << name;
  EXPECT_EQ(run.LogArtifact("/nowhere").code, Code::kUnavailable);
  EXPECT_EQ(run.LogArtifact("/dev/null").code, Code::kInvalidArgument);
  std::vector<std::string> names;
  auto artifacts = Read().Artifacts(run.id());
  for (const auto& artifact : *artifacts) {
    names.push_back(artifact.name);
    EXPECT_TRUE(artifact.copied);
    EXPECT_EQ(fs::file_size(artifact.path), static_cast<uintmax_t>(artifact.bytes));
    EXPECT_TRUE(artifact.path.starts_with(folder.path() + "/runs/" + run.id() + "/artifacts/"))
        << artifact.path;
  }
  EXPECT_THAT(names, ElementsAre("best/model.pt", "model.pt", "plots/a.svg", "plots/deep/b.svg"));
  EXPECT_EQ(artifacts->front().sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ExperimentTest, RecordsALargeFileWithoutACopy) {
  const experiments::ArtifactLimits limits{.most_copied = 10, .most_hashed = 20, .most_files = 2};
  auto keep = [&](const std::string& file) {
    return experiments::KeepArtifact(file, "", folder.path() + "/artifacts", 0, limits);
  };
  auto copied = keep(folder.Write("a", std::string(10, 'x')));
  ASSERT_TRUE(copied) << copied.error().detail;
  EXPECT_TRUE(copied->front().copied);
  auto hashed = keep(folder.Write("b", std::string(11, 'x')));
  EXPECT_FALSE(hashed->front().copied);
  EXPECT_EQ(hashed->front().path, fs::canonical(folder.path() + "/b"));
  EXPECT_EQ(hashed->front().bytes, 11);
  EXPECT_EQ(hashed->front().sha256.size(), 64u);
  EXPECT_EQ(keep(folder.Write("c", std::string(21, 'x')))->front().sha256, "") << "too large to be read";
  fs::create_directory(folder.path() + "/many");
  for (const char* name : {"many/1", "many/2"}) folder.Write(name, "");
  EXPECT_EQ(keep(folder.path() + "/many")->size(), 2u);
  folder.Write("many/3", "");
  EXPECT_EQ(keep(folder.path() + "/many").status().code, Code::kExhausted);
}

}  // namespace
}  // namespace gpulens
