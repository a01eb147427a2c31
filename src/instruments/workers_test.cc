// Processes that share their counts. Each test's processes are children, since a process shares once.
#include "instruments/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include <gpulens/instruments.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/sanitizers.h"
#include "base/testing/temp_folder.h"
#include "instruments/exact_sum.h"
#include "instruments/instrument_registry.h"
#include "instruments/window.h"

namespace gpulens::instruments {
namespace {

using gpulens::testing::TempFolder;
using ::testing::HasSubstr;

// A child process that runs `body` and returns its text. It waits for Release before it ends.
class Child {
 public:
  using Body = std::function<std::string(const std::function<void(const std::string&)>& report)>;

  explicit Child(const Body& body) {
    int out[2], in[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(in, O_CLOEXEC) != 0) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(in[1]);
      const auto report = [&](const std::string& text) {
        const std::string whole = text + '\0';
        if (::write(out[1], whole.data(), whole.size()) < 0) ::_exit(2);
        char go = 0;
        if (::read(in[0], &go, 1) < 0) ::_exit(3);
      };
      const std::string last = body(report);
      if (::write(out[1], last.data(), last.size() + 1) < 0) ::_exit(2);
      ::_exit(0);
    }
    ::close(out[1]);
    ::close(in[0]);
    from_.reset(out[0]);
    to_.reset(in[1]);
  }
  ~Child() {
    to_.reset();
    if (pid_ > 0) Wait();
  }
  // The next text that it reports, or ends with.
  std::string Next() {
    std::string text;
    for (char c = 0; ::read(from_.get(), &c, 1) == 1 && c != '\0';) text += c;
    return text;
  }
  void Go() { ASSERT_EQ(::write(to_.get(), "x", 1), 1); }
  void Kill() {
    ::kill(pid_, SIGKILL);
    Wait();
  }
  void Wait() {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd from_, to_;
};

std::string Shown(const std::vector<Sample>& samples) {
  std::string out;
  for (const Sample& one : samples) {
    out += one.name;
    for (const auto& [key, value] : one.attributes) {
      if (key != "process.pid") out += ' ' + key + '=' + value;
      else out += " pid";
    }
    if (one.kind == InstrumentKind::kHistogram) {
      out += " n" + std::to_string(one.count) + " zeros" + std::to_string(one.zeros);
      for (size_t i = 0; i < one.counts.size(); ++i) {
        if (one.counts[i] != 0)
          out += ' ' +
                 std::to_string(one.exponential ? one.offset + static_cast<int>(i) : static_cast<int>(i)) +
                 ':' + std::to_string(one.counts[i]);
      }
      if (one.exponential) out += " scale" + std::to_string(one.scale);
    }
    const double value = one.kind == InstrumentKind::kHistogram ? one.sum : one.value;
    char text[64];
    ::snprintf(text, sizeof text, " %.17g\n", value);
    out += text;
  }
  return out;
}

double NumberAt(std::string_view text, size_t at) {
  text.remove_prefix(at);
  return ParseDouble(text.substr(0, text.find('\n'))).value_or(kNotMeasured);
}

std::string ReadAll() {
  const auto all = WorkersFolder::Instance().Read();
  return all ? Shown(*all) : all.error().detail;
}

class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer knows no threads after a fork of several";
    ::chmod(folder_.path().c_str(), 0700);
  }
  // A worker's text after it has counted, and left the rest to others.
  std::string Run(const std::function<void()>& count) {
    Child child([&](const auto&) {
      if (const Status opened = Open(); !opened) return opened.detail;
      count();
      return ReadAll();
    });
    std::string text = child.Next();
    child.Wait();
    return text;
  }
  std::string Now() {
    return Run([] {});
  }
  Status Open() { return WorkersFolder::Instance().Open(folder_.path(), {}); }
  size_t Files() const {
    size_t files = 0;
    (void)ForEachName(folder_.path(), [&](std::string_view name) {
      files += name.ends_with(".worker");
      return true;
    });
    return files;
  }

  TempFolder folder_;
};

TEST_F(WorkersTest, EachReadsTheSumOfAll) {
  const auto worker = [&](int64_t i) {
    return [this, i](const auto& report) {
      const Counter jobs("jobs");
      const DoubleCounter joules("joules");
      const Histogram latency("latency"), sizes("sizes", {.bounds = std::array{1.0, 10.0}});
      if (!Open()) return std::string("not open");
      jobs.Add(i);
      jobs.Bind({{"route", "/chat"}}).Add(10 * i);
      joules.Add(0.1 * static_cast<double>(i));
      latency.Record(static_cast<double>(i));
      latency.Record(0);
      sizes.Record(static_cast<double>(4 * i));
      report("counted");
      report(ReadAll());
      return std::string();
    };
  };
  Child one(worker(1)), two(worker(2)), three(worker(3));
  for (Child* child : {&one, &two, &three}) EXPECT_EQ(child->Next(), "counted");
  std::string first;
  for (Child* child : {&one, &two, &three}) {
    child->Go();
    const std::string text = child->Next();
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  }
  EXPECT_THAT(first, HasSubstr("jobs 6\njobs route=/chat 60\n"));
  EXPECT_THAT(first, HasSubstr("latency n6 zeros3 "));
  EXPECT_THAT(first, HasSubstr("sizes n3 zeros0 1:2 2:1 24\n"));
  EXPECT_THAT(first, HasSubstr("joules 0.60000000000000009\n"))
      << "the double nearest to the sum of the three";
  for (Child* child : {&one, &two, &three}) child->Go();
  for (Child* child : {&one, &two, &three}) child->Wait();
  EXPECT_EQ(Now(), first) << "when they have ended";
}

TEST_F(WorkersTest, KillLosesNothing) {
  Child child([&](const auto& report) {
    const Counter jobs("jobs");
    jobs.Add(7);  // before it shares
    std::thread early([&] { jobs.Add(11); });
    early.join();
    if (!Open()) return std::string("not open");
    for (int t = 0; t < 3; ++t) {
      std::thread ended([&] {
        const Histogram latency("latency");
        for (int i = 0; i < 1000; ++i) {
          jobs.Add();
          latency.Record(i);  // moves the window
        }
      });
      ended.join();
    }
    report("counted");
    return std::string();
  });
  EXPECT_EQ(child.Next(), "counted");
  child.Kill();
  EXPECT_THAT(Now(), HasSubstr("jobs 3018\n"));
  EXPECT_THAT(Now(), HasSubstr("latency n3000 zeros3 "));
}

TEST_F(WorkersTest, ThreadsThatCountedBeforeGoOn) {
  Child child([&](const auto& report) {
    const Counter jobs("jobs");
    const Histogram latency("latency");
    std::atomic<int> stage{0};
    std::thread thread([&] {
      jobs.Add(5);
      latency.Record(3);
      stage = 1;
      while (stage != 2) std::this_thread::yield();
      jobs.Add(6);
      stage = 3;
      while (stage != 4) std::this_thread::yield();
    });
    while (stage != 1) std::this_thread::yield();
    if (!Open()) ::_exit(1);
    report(ReadAll());
    stage = 2;
    while (stage != 3) std::this_thread::yield();
    report(ReadAll());
    stage = 4;
    thread.join();
    return ReadAll();
  });
  EXPECT_THAT(child.Next(), HasSubstr("jobs 5\n")) << "its thread has not recorded since";
  child.Go();
  const std::string second = child.Next();
  EXPECT_THAT(second, HasSubstr("jobs 11\n"));
  EXPECT_THAT(second, HasSubstr("latency n1 "));
  child.Go();
  EXPECT_EQ(child.Next(), second);
}

TEST_F(WorkersTest, ForksCountForThemselves) {
  Child parent([&](const auto& report) {
    const Counter jobs("jobs");
    const Gauge depth("depth");
    if (!Open()) ::_exit(1);
    jobs.Add(5);
    depth.Set(1);
    Child child([&](const auto& child_report) {
      jobs.Add(3);
      depth.Set(2);
      child_report(ReadAll());
      return std::string();
    });
    const std::string seen = child.Next();
    jobs.Add(1);
    depth.Set(4);
    report(seen);
    report(ReadAll());
    child.Kill();
    return ReadAll() + Shown(Registry::Process().Snapshot());
  });
  EXPECT_EQ(parent.Next(), "depth pid 1\ndepth pid 2\njobs 8\n");
  parent.Go();
  EXPECT_EQ(parent.Next(), "depth pid 4\ndepth pid 2\njobs 9\n");
  parent.Go();
  EXPECT_EQ(parent.Next(), "depth pid 4\njobs 9\njobs 6\ndepth 4\n") << "and its own counts as before";
}

TEST_F(WorkersTest, RecycledWorkersAreAddedUp) {
  double before = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = Run([&] {
      Counter("jobs").Add(1);
      DoubleCounter("joules").Add(0.1 * (i % 7) + 1e-9);
      Histogram("latency").Record(0.001 * (i + 1));
      UpDownCounter("in_flight").Add(1);
      UpDownCounter("stored", {.workers = WorkerMerge::kAll}).Add(1);
      Gauge("depth").Set(i);
    });
    EXPECT_THAT(text, HasSubstr("jobs " + std::to_string(i + 1) + "\n"));
    EXPECT_THAT(text, HasSubstr("in_flight 1\n")) << "of the one that runs";
    EXPECT_THAT(text, HasSubstr("stored " + std::to_string(i + 1) + "\n"));
    EXPECT_THAT(text, HasSubstr("latency n" + std::to_string(i + 1) + " "));
    const size_t at = text.find("joules ");
    ASSERT_NE(at, text.npos);
    const double joules = NumberAt(text, at + 7);
    EXPECT_GT(joules, before);
    before = joules;
    EXPECT_LE(Files(), 10u);
  }
}

TEST_F(WorkersTest, FileThatIsAddedUpCountsOnce) {
  for (int i = 0; i < 8; ++i) Run([] { Counter("jobs").Add(1); });
  ASSERT_EQ(Files(), 8u);
  // As if the ninth were killed between writing the sum and removing the files.
  const std::string copy = folder_.path() + "/copies";
  ASSERT_EQ(::mkdir(copy.c_str(), 0700), 0);
  std::vector<std::string> names;
  (void)ForEachName(folder_.path(), [&](std::string_view name) {
    if (name.ends_with(".worker")) names.emplace_back(name);
    return true;
  });
  for (const std::string& name : names)
    ASSERT_EQ(::link((folder_.path() + '/' + name).c_str(), (copy + '/' + name).c_str()), 0);
  EXPECT_EQ(Run([] { Counter("jobs").Add(1); }), "jobs 9\n");
  EXPECT_EQ(Files(), 1u);
  for (const std::string& name : names)
    ASSERT_EQ(::rename((copy + '/' + name).c_str(), (folder_.path() + '/' + name).c_str()), 0);
  EXPECT_EQ(Run([] { Counter("jobs").Add(1); }), "jobs 10\n");
  EXPECT_EQ(Files(), 2u) << "they were removed";
}

TEST_F(WorkersTest, GaugesMergeAsTheyAreMade) {
  const auto worker = [&](double value) {
    return [this, value](const auto& report) {
      if (!Open()) ::_exit(1);
      Gauge("each").Set(value);
      Gauge("latest", {.workers = WorkerMerge::kLatest}).Set(value);
      Gauge("max", {.workers = WorkerMerge::kMax}).Set(value);
      Gauge("min", {.workers = WorkerMerge::kMin}).Set(value);
      Gauge("sum", {.workers = WorkerMerge::kSum}).Set(value);
      Gauge("unset", {.workers = WorkerMerge::kSum}).Set(kNotMeasured);
      report("set");
      return std::string();
    };
  };
  Child one(worker(2));
  one.Next();
  Child two(worker(5));
  two.Next();
  Child three(worker(3));
  three.Next();
  const std::string text = Now();
  EXPECT_THAT(text, HasSubstr("latest 3\nmax 5\nmin 2\nsum 10\n"));
  EXPECT_THAT(text, HasSubstr("each pid 5\n"));
  two.Kill();
  EXPECT_THAT(Now(), HasSubstr("latest 3\nmax 3\nmin 2\nsum 5\n")) << "of those that run";
}

TEST_F(WorkersTest, RefusesMergesThatMakeNoSense) {
  Registry registry;
  EXPECT_EQ(Counter("a", {.workers = WorkerMerge::kMax}, registry).status().code, Code::kInvalidArgument);
  EXPECT_EQ(Gauge("b", {.workers = WorkerMerge::kAll}, registry).status().code, Code::kInvalidArgument);
  EXPECT_TRUE(Gauge("c", {.workers = WorkerMerge::kMax}, registry).status().ok());
  EXPECT_TRUE(Gauge("c", {}, registry).status().ok());
  EXPECT_EQ(Gauge("c", {.workers = WorkerMerge::kMin}, registry).status().code, Code::kInvalidArgument);
}

TEST_F(WorkersTest, SeriesAreLimitedForAllWorkers) {
  uint64_t before = 0;
  for (int64_t i = 0; i < 10; ++i) {
    const std::string text = Run([&] {
      const Counter jobs("jobs");
      for (int64_t s = 0; s < 300; ++s) jobs.Bind({{"s", 300 * i + s}}).Add(1);
    });
    const auto series = static_cast<size_t>(std::ranges::count(text, '\n'));
    EXPECT_LE(series, kSeriesLimit + 1);
    const size_t at = text.find("overflow=true ");
    const uint64_t rest = at == text.npos ? 0 : static_cast<uint64_t>(NumberAt(text, at + 14));
    EXPECT_GE(rest, before);
    before = rest;
  }
  EXPECT_EQ(before, 3000u - (kSeriesLimit - 1)) << "one of the names is the series without attributes";
}

TEST_F(WorkersTest, FullFileSystemKeepsCountsInMemory) {
  Child child([&](const auto&) {
    const Counter jobs("jobs");
    const rlimit least{16 << 10, 16 << 10};
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &least) != 0) ::_exit(1);
    const Status opened = Open();
    jobs.Add(3);
    std::thread([&] { jobs.Add(4); }).join();
    return std::to_string(opened.ok()) + Shown(Registry::Process().Snapshot());
  });
  EXPECT_THAT(child.Next(), HasSubstr("jobs 7\n"));
}

TEST_F(WorkersTest, FoldersOfOthersAreRefused) {
  const auto status = [&](const std::string& path) {
    Child child([&](const auto&) { return WorkersFolder::Instance().Open(path, {}).detail; });
    return child.Next();
  };
  ::chmod(folder_.path().c_str(), 0770);
  EXPECT_THAT(status(folder_.path()), HasSubstr("must not be able to write"));
  EXPECT_THAT(status(folder_.path() + "/absent/deep"), HasSubstr("absent"));
  EXPECT_THAT(status("/dev/null"), HasSubstr("/dev/null"));
}

TEST_F(WorkersTest, FamiliesHaveFoldersOfTheirOwn) {
  const std::string name = "test-" + std::to_string(::getpid());
  const auto count = [](const std::string& family) {
    Child child([&](const auto&) {
      if (const Status opened = WorkersFolder::Instance().Open({}, family); !opened) return opened.detail;
      Counter("jobs").Add(1);
      return ReadAll() + WorkersFolder::Instance().path();
    });
    std::string text = child.Next();
    child.Wait();
    return text;
  };
  const std::string first = count(name);
  EXPECT_THAT(first, HasSubstr("jobs 1\n"));
  EXPECT_THAT(count(name), HasSubstr("jobs 2\n"));
  EXPECT_THAT(count(name + "b"), HasSubstr("jobs 1\n"));
  const std::string path = first.substr(first.find('\n') + 1);
  EXPECT_EQ(FileMark(MarkOf(path)).there(), true);
  for (const std::string& folder : {path, path + "b"}) {
    (void)ForEachName(folder, [&](std::string_view file) {
      ::unlink((folder + '/' + std::string(file)).c_str());
      return true;
    });
    ::rmdir(folder.c_str());
  }
  EXPECT_EQ(WorkersFolder::FamilyOfForks().size(), 32u);
}

TEST_F(WorkersTest, BrokenFilesDoNoHarm) {
  Run([] {
    Counter("jobs").Bind({{"a", "b"}}).Add(1);
    Histogram("latency").Record(1);
    Gauge("depth").Set(1);
  });
  std::string name;
  (void)ForEachName(folder_.path(), [&](std::string_view file) {
    if (file.ends_with(".worker")) name = file;
    return true;
  });
  const std::string path = folder_.path() + '/' + name;
  const std::string bytes = *ReadFile(path);
  std::mt19937 random(5);
  for (int i = 0; i < 150; ++i) {
    std::string broken = bytes;
    // The heads are where numbers matter.
    for (int flips = 0; flips < 4; ++flips) {
      const size_t page = 4096 * (random() % (broken.size() / 4096));
      broken[page + 8 + random() % 200] = static_cast<char>(random());
    }
    if (i % 10 == 0) broken.resize(random() % broken.size());
    ASSERT_TRUE(WriteFileAtomically(path, broken, {.mode = 0600, .sync = false}));
    Child child([&](const auto&) {
      if (!Open()) return std::string("not open");
      ReadAll();
      return std::string("read");
    });
    ASSERT_EQ(child.Next(), "read");
    child.Wait();
    (void)ForEachName(folder_.path(), [&](std::string_view file) {
      if (file != name) ::unlink((folder_.path() + '/' + std::string(file)).c_str());
      return true;
    });
  }
}

TEST(ForeignWindow, ReadsWhatWasBeingMoved) {
  std::array<CounterCell, kExponentialCells> cells{};
  std::array<CounterCell, WindowMove::kCells> move{};
  for (double value : {1.0, 1.1, 1.2}) RecordInWindow(cells.data(), 0, move.data(), value);
  ExponentialCounts before;
  ReadForeignWindow(cells.data(), 0, move.data(), before);
  // A process that is killed while it moves the window: a copy of the move's cells, and a head that is odd.
  const WindowHead head = WindowHead::Of(cells[kHeadCell].load());
  RecordInWindow(cells.data(), 0, move.data(), 1000.0);
  WindowHead moving = WindowHead::Of(cells[kHeadCell].load());
  EXPECT_NE(moving.cell(), head.cell());
  --moving.moves;
  cells[kHeadCell].store(moving.cell());
  for (uint32_t i = 0; i < kWindow / 2; ++i) cells[kFirstCount + i].store(77);
  ExponentialCounts after;
  ReadForeignWindow(cells.data(), 0, move.data(), after);
  EXPECT_EQ(after.buckets.scale(), before.buckets.scale());
  EXPECT_EQ(after.buckets.offset(), before.buckets.offset());
  EXPECT_TRUE(std::ranges::equal(after.buckets.counts(), before.buckets.counts()));
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random(3);
  std::vector<double> numbers;
  for (int i = 0; i < 300; ++i)
    numbers.push_back(
        std::ldexp(static_cast<double>(random() % 1'000'003), static_cast<int>(random() % 120) - 60));
  ExactSum first;
  for (double n : numbers) first.Add(n);
  for (int round = 0; round < 50; ++round) {
    std::ranges::shuffle(numbers, random);
    ExactSum sum, parts;
    for (double n : numbers) sum.Add(n);
    ASSERT_EQ(sum.value(), first.value());
    const std::vector<double> kept = sum.parts();
    EXPECT_LT(kept.size(), 10u);
    for (double part : kept) parts.Add(part);
    ASSERT_EQ(parts.value(), first.value());
  }
  ExactSum small;
  for (double n : {1e100, 1.0, -1e100}) small.Add(n);
  EXPECT_EQ(small.value(), 1.0);
  small.Add(HUGE_VAL);
  EXPECT_EQ(small.value(), HUGE_VAL);
}

}  // namespace
}  // namespace gpulens::instruments
