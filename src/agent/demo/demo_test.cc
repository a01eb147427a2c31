#include <gmock/gmock.h>

#include <unistd.h>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/demo/demo_jobs.h"
#include "agent/demo/demo_node.h"
#include "agent/demo/engine_pages.h"
#include "base/clock.h"
#include "base/files.h"
#include "collectives/diagnosis.h"
#include "scrape/engine/engine_families.h"
#include "sources/nvml/simulated/fake_profile.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::demo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;

Scenario BuiltIn() {
  auto scenario = ParseScenario(BuiltInScenario());
  EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().detail);
  return scenario ? *scenario : Scenario();
}

// Values of a page by their names with labels; of the families that are counters or histograms.
std::map<std::string, double> Counters(const std::string& page) {
  std::map<std::string, double> out;
  std::string type;
  size_t at = 0;
  while (at < page.size()) {
    const size_t end = page.find('\n', at);
    const std::string line = page.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# TYPE ")) type = line.substr(line.rfind(' ') + 1);
    if (line.empty() || line[0] == '#' || type == "gauge") continue;
    const size_t blank = line.rfind(' ');
    out[line.substr(0, blank)] = ParseDouble(line.substr(blank + 1)).value_or(0);
  }
  return out;
}

size_t IndexOf(const DemoNode& node, std::string_view name) {
  return static_cast<size_t>(node.scenario().Find(name) - node.scenario().workloads.data());
}

std::map<std::string, double> CountersOf(const DemoNode& node, std::string_view name, int64_t boot_ns) {
  return Counters(EnginePage(node, IndexOf(node, name), boot_ns));
}

double Tokens(const DemoNode& node, std::string_view engine, int64_t boot_ns) {
  double sum = 0;
  for (const auto& [name, value] : CountersOf(node, engine, boot_ns)) {
    if (name.starts_with("vllm:generation_tokens_total") ||
        name.starts_with("sglang:generation_tokens_total"))
      sum += value;
  }
  return sum;
}

double BusySeconds(const DemoNode& node, unsigned gpu, int64_t boot_ns) {
  auto profile = nvml::ParseFakeProfile(node.Profile(boot_ns));
  EXPECT_TRUE(profile) << (profile ? "" : profile.error().detail);
  return profile ? profile->gpus[gpu].load.Integral(static_cast<double>(boot_ns) * 1e-9) : 0;
}

TEST(Demo, InTheCalmScenarioNoRankIsLateOrHangs) {
  const auto calm = ParseScenario(CalmScenario());
  ASSERT_TRUE(calm);
  const Scenario whole = BuiltIn();
  ASSERT_EQ(calm->workloads.size(), whole.workloads.size());
  for (size_t i = 0; i < calm->workloads.size(); ++i) {
    EXPECT_EQ(calm->workloads[i].inside.ranks, whole.workloads[i].inside.ranks);
    for (int64_t at = 0; at < 24 * 60 * kSecond; at += 10 * kSecond) {
      EXPECT_FALSE(calm->workloads[i].inside.late.At(at) || calm->workloads[i].inside.hang.At(at));
    }
  }
}

TEST(Demo, EveryPageIsReadByOurTablesWithoutAnUnknownFamily) {
  const DemoNode node(BuiltIn(), {});
  size_t pages = 0;
  for (size_t i = 0; i < node.scenario().workloads.size(); ++i) {
    const Workload& work = node.scenario().workloads[i];
    if (!HasPage(work.kind)) continue;
    ++pages;
    ScrapedPage page;
    ASSERT_TRUE(page.Update(EnginePage(node, i, 30 * kHour), ExpositionFormat::kText004)) << work.name;
    engine_page::PageFamilies families(engine_page::FindEngine(TargetKindOf(work.kind)));
    families.Update(page);
    EXPECT_EQ(families.unknown(), 0u) << work.name;
    EXPECT_GE(page.families().size(), 8u) << work.name;
  }
  EXPECT_EQ(pages, 10u);
}

TEST(Demo, CountersNeverFallWhateverIsChanged) {
  DemoNode node(BuiltIn(), {});
  std::map<std::string, std::map<std::string, double>> before;
  for (int64_t now = 5 * kHour; now < 6 * kHour; now += 13 * kSecond + 777'777) {
    const int64_t minute = now / (60 * kSecond);
    if (minute % 7 == 0) static_cast<void>(node.Set("engine=all load=1.3 for=90s", now));
    if (minute % 11 == 0) static_cast<void>(node.Stop("engine=chat-a for=20s after=5s", now));
    if (minute % 13 == 0) static_cast<void>(node.Heal("", now));
    for (const Workload& work : node.scenario().workloads) {
      if (!HasPage(work.kind)) continue;
      auto counters = CountersOf(node, work.name, now);
      for (const auto& [name, value] : before[work.name])
        ASSERT_GE(counters[name], value) << work.name << " " << name;
      before[work.name] = std::move(counters);
    }
  }
}

TEST(Demo, BucketsOfAHistogramRise) {
  const DemoNode node(BuiltIn(), {});
  const std::string page = EnginePage(node, IndexOf(node, "chat-a"), 30 * kHour);
  double before = 0;
  size_t lines = 0;
  for (size_t at = page.find("\nvllm:time_to_first_token_seconds_bucket"); at != page.npos;
       at = page.find("\nvllm:time_to_first_token_seconds_bucket", at + 1)) {
    const size_t blank = page.find(' ', at), end = page.find('\n', at + 1);
    const double value = ParseDouble(page.substr(blank + 1, end - blank - 1)).value_or(0);
    EXPECT_GE(value, before);
    before = value;
    ++lines;
  }
  EXPECT_GT(lines, 20u);
  EXPECT_GT(before, 1000);
}

TEST(Demo, TokensAndWorkOfGpusFollowTheLoad) {
  DemoNode node(BuiltIn(), {});
  const int64_t start = 10 * kHour;
  auto grown = [&](std::string_view words) {
    EXPECT_TRUE(node.Set(words, start));
    const int64_t from = start + 10 * kSecond, to = from + 100 * kSecond;
    return std::pair{Tokens(node, "chat-a", to) - Tokens(node, "chat-a", from),
                     BusySeconds(node, 0, to) - BusySeconds(node, 0, from)};
  };
  const auto [half_tokens, half_busy] = grown("engine=chat-a load=0.5");
  const auto [full_tokens, full_busy] = grown("engine=chat-a load=1");
  const auto [no_tokens, no_busy] = grown("engine=chat-a load=0");
  const auto [most_tokens, most_busy] = grown("engine=chat-a load=1.5");
  EXPECT_NEAR(full_tokens, 6 * 260 * 100, 2);
  EXPECT_NEAR(half_tokens, full_tokens / 2, 2);
  EXPECT_NEAR(most_tokens, full_tokens, 2) << "an engine does no more than it can";
  EXPECT_EQ(no_tokens, 0);
  EXPECT_NEAR(full_busy, 93, 0.2);
  EXPECT_NEAR(half_busy, 49.5, 0.2);
  EXPECT_NEAR(most_busy, full_busy, 1e-6);
  EXPECT_NEAR(no_busy, 0, 1e-6);
}

TEST(Demo, RequestsWaitWhenTheLoadIsMoreThanTheEngineCanDo) {
  DemoNode node(BuiltIn(), {});
  const int64_t start = 10 * kHour;
  ASSERT_TRUE(node.Set("engine=search-c load=1.4", start));
  auto waiting = [&](int64_t seconds) {
    const std::string page = EnginePage(node, IndexOf(node, "search-c"), start + seconds * kSecond);
    const size_t at = page.find("\nsglang:num_queue_reqs{"), blank = page.find(' ', at);
    return ParseDouble(page.substr(blank + 1, page.find('\n', blank) - blank - 1)).value_or(0);
  };
  EXPECT_GT(waiting(20), waiting(5) + 50);
  EXPECT_EQ(waiting(600), 512) << "then they are turned away";
}

TEST(Demo, AnEngineOfTwoGpusHasAProcessAndAPodOnEach) {
  const DemoNode node(BuiltIn(), {});
  const Workload& chat = *node.scenario().Find("chat-a");
  EXPECT_EQ(node.ProcessOf(chat.pid).name, "VLLM::Worker_TP");
  EXPECT_EQ(node.ProcessOf(chat.pid + 1).user, "1001");
  EXPECT_EQ(node.ProcessOf(chat.pid + 2).name, "") << "nothing is made up";
  const auto gpu = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{1}}, {"simulated", true}}));
  const Entity process("process", AttributeSet({{"process.pid", int64_t{chat.pid + 1}}}), gpu);
  EXPECT_EQ(node.OwnerOf(process).Text("k8s.pod.name"), chat.pod);
  EXPECT_EQ(node.OwnerOf(*gpu).Text("tenant"), "storefront");
  const Entity real("gpu", AttributeSet({{"gpu.index", int64_t{1}}}));
  EXPECT_TRUE(node.OwnerOf(real).empty()) << "a real GPU is no one's here";
}

TEST(Demo, AWorkloadThatIsAwayHoldsNothing) {
  const DemoNode node(BuiltIn(), {});
  const size_t eval = IndexOf(node, "eval-nightly");
  const int64_t day = node.scenario().day_s * kSecond, midnight = 100 * day;
  EXPECT_TRUE(node.Runs(eval, midnight + day / 2));
  EXPECT_FALSE(node.Runs(eval, midnight + day * 3 / 4));
  EXPECT_THAT(node.Profile(midnight + day / 2), HasSubstr("gpu: 7, pid: "));
  EXPECT_THAT(node.Profile(midnight + day * 3 / 4), Not(HasSubstr("gpu: 7, pid: ")));
  EXPECT_NE(node.RunningHash(midnight + day / 2), node.RunningHash(midnight + day * 3 / 4));
}

class DemoState : public ::testing::Test {
 protected:
  DemoState() {
    std::string folder = ::testing::TempDir() + "demo-XXXXXX";
    folder_ = ::mkdtemp(folder.data()) ? folder : "";
    options_ = {.state_file = folder_ + "/demo/changes", .boot_id = "b"};
  }
  ~DemoState() override {
    ::unlink(options_.state_file.c_str());
    ::rmdir((folder_ + "/demo").c_str());
    ::rmdir(folder_.c_str());
  }
  std::string folder_;
  DemoNode::Options options_;
};

TEST_F(DemoState, ARestartedAgentGoesOnWithTheSameCountersAndChanges) {
  const int64_t start = 10 * kHour;
  DemoNode killed(BuiltIn(), options_);
  for (int i = 0; i < 100; ++i) {
    // Each is over, and later forgotten, before the next.
    ASSERT_TRUE(killed.Set("engine=chat-a load=0." + std::to_string(1 + i % 9) + " for=10s",
                           start + i * 100 * kSecond));
  }
  const int64_t now = start + 100 * 100 * kSecond;
  ASSERT_TRUE(killed.Set("engine=search-c load=1.5", now));
  const int64_t later = now + 77 * kSecond + 123'456'789;
  const DemoNode again(BuiltIn(), options_);
  for (std::string_view engine : {"chat-a", "search-c", "chat-cache", "search-gateway"})
    EXPECT_EQ(CountersOf(again, engine, later), CountersOf(killed, engine, later)) << engine;
  EXPECT_EQ(again.Profile(later), killed.Profile(later));
  EXPECT_EQ(again.Describe(later), killed.Describe(later));
  EXPECT_THAT(again.Describe(later), HasSubstr("search-c load=1.50, until it is healed"));

  options_.boot_id = "another";
  const DemoNode rebooted(BuiltIn(), options_);
  EXPECT_EQ(rebooted.Describe(later), "no change of the scenario");
}

TEST_F(DemoState, WorkOfForgottenChangesIsKept) {
  const int64_t start = 10 * kHour;
  DemoNode node(BuiltIn(), options_);
  ASSERT_TRUE(node.Set("engine=chat-a load=1 for=300s", start));
  const int64_t later = start + 1000 * kSecond;
  const double tokens = Tokens(node, "chat-a", later), busy = BusySeconds(node, 1, later);
  ASSERT_TRUE(node.Set("engine=search-c load=1 for=1s", later)) << "forgets the first one";
  EXPECT_THAT(node.Profile(later), HasSubstr("changes: [], carried: "));
  EXPECT_EQ(Tokens(node, "chat-a", later), tokens);
  EXPECT_EQ(BusySeconds(node, 1, later), busy);
}

TEST(Demo, ChangesBeginAndEndAsOrdered) {
  DemoNode node(BuiltIn(), {});
  const int64_t now = 10 * kHour;
  const size_t chat = IndexOf(node, "chat-a");
  ASSERT_TRUE(node.Stop("engine=chat-a after=10s for=20s", now));
  EXPECT_TRUE(node.Runs(chat, now + 9 * kSecond));
  EXPECT_FALSE(node.Runs(chat, now + 12 * kSecond));
  EXPECT_FALSE(node.Runs(chat, now + 30 * kSecond));
  EXPECT_TRUE(node.Runs(chat, now + 32 * kSecond));
  auto healed = node.Heal("engine=chat-a", now + 15 * kSecond);
  ASSERT_TRUE(healed);
  EXPECT_EQ(*healed, "1 change of the scenario ended");
  EXPECT_TRUE(node.Runs(chat, now + 17 * kSecond));
  EXPECT_FALSE(node.Runs(chat, now + 12 * kSecond)) << "what has been stays";
}

TEST(Demo, WrongOrdersGetWhatIsAllowed) {
  DemoNode node(BuiltIn(), {});
  struct Case {
    const char* words;
    const char* message;
  };
  for (const Case& one :
       {Case{"", "engine=NAME is missing"}, Case{"engine=x load=1", "no engine \"x\""},
        Case{"engine=chat-a", "load must be"}, Case{"engine=chat-a load=2", "load must be"},
        Case{"engine=chat-cache load=1", "has the load of chat-a"},
        Case{"engine=chat-a load=1 for=ever", "a time=ever"}, Case{"gpu=1 load=1", "no key \"gpu\""}}) {
    auto done = node.Set(one.words, kHour);
    ASSERT_FALSE(done) << one.words;
    EXPECT_THAT(done.error().detail, HasSubstr(one.message)) << one.words;
  }
  for (int i = 0; i < 4; ++i) static_cast<void>(node.Set("engine=all load=1", kHour + i * kSecond));
  EXPECT_FALSE(node.Stop("engine=chat-a load=1", kHour));
  for (int i = 0; i < 200 && node.Set("engine=chat-a load=1 for=1s", kHour + i * 3 * kSecond); ++i) {
  }
  EXPECT_THAT(node.Set("engine=chat-a load=1", kHour + kSecond).error().detail,
              HasSubstr("at a time are the most"));
}

// A clock that the thread of the pages reads, too.
class SharedClock final : public Clock {
 public:
  void Set(int64_t boot_ns) { boot_ns_ = boot_ns; }
  Instant Now() const noexcept override { return {boot_ns_.load(), boot_ns_.load()}; }

 private:
  std::atomic<int64_t> boot_ns_{kSecond};
};

// What the agent knows of the demo's jobs, from its pages and batches, in the time of the test.
class DemoJobsTest : public ::testing::Test {
 protected:
  DemoJobsTest() {
    pages_.Configure({.socket = "", .folders = {}});
    feed_ = pages_.Subscribe("test");
    batches_.AddConsumer();
  }

  void Run(int64_t from_ns, int64_t seconds) {
    for (int64_t at = from_ns; at < from_ns + seconds * kSecond; at += kSecond / 10) {
      clock_.Set(at);
      jobs_.Advance(clock_.Now());
      feed_->Visit([&](const JobPageView& view) {
        EXPECT_TRUE(view.owner.simulated);
        EXPECT_EQ(view.page.rejected, 0u) << "of pid " << view.owner.pid;
        if (view.page.writer == job_page::Writer::kCudaInjection) {
          EXPECT_FALSE(view.page.devices.empty()) << "a page is shown with what was counted before";
        }
        Seen& seen = seen_[{view.owner.pid, view.page.writer}];
        seen.page = view.page;
        seen.ended = view.ended;
        seen.records += view.records.size();
        if (view.page.phases) ++seen.phases[view.page.phases->current];
      });
      for (const collectives::Batch& batch : batches_.Take()) diagnosis_.Add(batch, clock_.Now());
      diagnosis_.Advance(clock_.Now());
      for (const collectives::FaultChange& change : diagnosis_.TakeChanges()) changes_.push_back(change);
    }
  }

  struct Seen {
    job_page::PageCopy page;
    std::map<job_page::Phase, int> phases;  // tenths of a second
    size_t records = 0;
    bool ended = false;
  };
  const Seen& Of(std::string_view name, job_page::Writer writer, unsigned gpu = 0) {
    return seen_[{static_cast<int32_t>(node_.scenario().Find(name)->pid + gpu), writer}];
  }

  SharedClock clock_;
  DemoNode node_{BuiltIn(), {}};
  JobPages pages_{clock_};
  collectives::BatchQueue batches_;
  DemoJobs jobs_{node_, pages_, &batches_};
  std::unique_ptr<JobPages::Feed> feed_;
  collectives::Diagnosis diagnosis_{{}};
  std::vector<collectives::FaultChange> changes_;
  std::map<std::pair<int32_t, job_page::Writer>, Seen> seen_;
};

constexpr int64_t kQuiet = 720 * kSecond * 100;  // the hang begins 5 minutes, a late rank 2 minutes later

TEST_F(DemoJobsTest, ATrainingMarksItsPhasesAndTimesItsCollectives) {
  Run(kQuiet + 20 * kSecond, 60);
  const Seen& rank = Of("train-tts", job_page::Writer::kProgram);
  ASSERT_EQ(rank.page.communicators.size(), 1u);
  EXPECT_EQ(rank.page.communicators[0].identity->ranks, 8);
  EXPECT_EQ(rank.page.communicators[0].identity->rank, 3);
  EXPECT_EQ(rank.page.communicators[0].identity->device_id, "0000:6f:00.0") << "that of the simulated GPU 5";
  EXPECT_NEAR(static_cast<double>(rank.records), 60 / 0.73 * 8, 40);
  auto share = [&](job_page::Phase phase) {
    return rank.phases.count(phase) ? rank.phases.at(phase) / 600.0 : 0;
  };
  EXPECT_NEAR(share(job_page::Phase::kGpuCompute), 520 / 730.0, 0.06);
  EXPECT_NEAR(share(job_page::Phase::kNcclCollective), 104 / 730.0, 0.05);
  EXPECT_NEAR(share(job_page::Phase::kOptimizerStep), 60 / 730.0, 0.04);
  EXPECT_NEAR(share(job_page::Phase::kDataLoading), 45 / 730.0, 0.04);
  EXPECT_NEAR(static_cast<double>(rank.page.data_loading->batches), 60 / 0.73, 4);
  EXPECT_TRUE(changes_.empty()) << changes_.front().fault.evidence;
}

TEST_F(DemoJobsTest, ATrainingPausesForACheckpointAndEndsWithItsWorkload) {
  Run(kQuiet - 5 * kSecond, 15);
  EXPECT_EQ(Of("train-tts", job_page::Writer::kProgram).page.phases->current, job_page::Phase::kCheckpoint);
  ASSERT_TRUE(node_.Stop("engine=train-tts", kQuiet + 10 * kSecond));
  Run(kQuiet + 15 * kSecond, 2);
  EXPECT_TRUE(Of("train-tts", job_page::Writer::kProgram).ended);
  EXPECT_TRUE(Of("train-tts", job_page::Writer::kCudaInjection).ended);
  EXPECT_FALSE(Of("chat-a", job_page::Writer::kCudaInjection).ended);
}

TEST_F(DemoJobsTest, TheLateRankIsNamedAndClears) {
  Run(kQuiet + 110 * kSecond, 130);
  ASSERT_EQ(changes_.size(), 2u);
  EXPECT_EQ(changes_[0].fault.kind, collectives::FaultKind::kSlowRank);
  ASSERT_EQ(changes_[0].fault.culprits.size(), 1u);
  EXPECT_EQ(changes_[0].fault.culprits[0].rank, 6);
  EXPECT_EQ(changes_[0].fault.culprits[0].process.host, "demo-node-7");
  EXPECT_EQ(changes_[1].kind, collectives::FaultChange::Kind::kCleared);
}

TEST_F(DemoJobsTest, TheHangIsNamedAndClears) {
  Run(kQuiet + 290 * kSecond, 100);
  ASSERT_EQ(changes_.size(), 2u);
  EXPECT_EQ(changes_[0].fault.kind, collectives::FaultKind::kHang);
  EXPECT_EQ(changes_[0].fault.hang, collectives::HangKind::kNotArrived);
  ASSERT_EQ(changes_[0].fault.culprits.size(), 1u);
  EXPECT_EQ(changes_[0].fault.culprits[0].rank, 2);
  EXPECT_EQ(changes_[1].kind, collectives::FaultChange::Kind::kCleared);
  EXPECT_GT(Of("train-tts", job_page::Writer::kProgram).phases.at(job_page::Phase::kNcclCollective), 700);
}

TEST_F(DemoJobsTest, LaunchesAndCollectivesOfEnginesFollowTheLoad) {
  ASSERT_TRUE(node_.Set("engine=chat-a load=0.5", kQuiet));
  Run(kQuiet + 10 * kSecond, 2);
  auto launches = [&] {
    return Of("chat-a", job_page::Writer::kCudaInjection, 1).page.devices.at(0).launches;
  };
  auto done = [&] {
    return Of("chat-a", job_page::Writer::kNcclPlugin).page.communicators.at(0).functions[1].done;
  };
  const auto launches_before = launches();
  const uint64_t done_before = done();
  Run(kQuiet + 12 * kSecond, 10);
  EXPECT_NEAR(static_cast<double>(launches()[0] - launches_before[0]), 2600 * 0.98 * 0.5 * 10, 800);
  EXPECT_NEAR(static_cast<double>(launches()[2] - launches_before[2]), 2600 * 0.02 * 0.5 * 10, 20);
  EXPECT_NEAR(static_cast<double>(done() - done_before), 7600 * 0.5 * 10, 500);
  const auto& device = Of("chat-a", job_page::Writer::kCudaInjection).page.devices.at(0);
  EXPECT_NEAR(static_cast<double>(device.enqueue[0].count), static_cast<double>(device.launches[0]),
              static_cast<double>(device.launches[0]) * 1e-4 + 200);
  EXPECT_FALSE(seen_.contains(
      {static_cast<int32_t>(node_.scenario().Find("notebook-jo")->pid), job_page::Writer::kCudaInjection}))
      << "not every process is measured from inside";
}

TEST(Scenario, ErrorsNameTheLine) {
  struct Case {
    const char* yaml;
    const char* message;
  };
  for (const Case& one :
       {Case{"day: 7x", "scenario line 1: day must be like"}, Case{"step: 7s", "must divide the day"},
        Case{"gpus: {model: X1}", "model must be one of"},
        Case{"workloads:\n  - {name: A b}", "scenario line 2: name must have"},
        Case{"workloads:\n  - {name: a, gpus: [9]}", "there is no such GPU"},
        Case{"workloads:\n  - {name: a, gpus: [1]}\n  - {name: b, gpus: [1]}", "GPU 1 is used by a"},
        Case{"workloads:\n  - {name: a, kind: dynamo}", "of is for gateways"},
        Case{"workloads:\n  - {name: a, kind: dynamo, of: b}", "names no engine above"},
        Case{"workloads:\n  - {name: a, load: [2]}", "load has a value"},
        Case{"workloads:\n  - {name: a, checkpoint: {every: 10s, for: 20s}}", "checkpoint needs"},
        Case{"workloads:\n  - {name: a, pod: {name: x}}", "pod needs name and namespace"},
        Case{"workloads:\n  - {name: a, inside: {launches: 5}}", "needs gpus"},
        Case{"workloads:\n  - {name: a, gpus: [0, 1], inside: {ranks: 2, first: 1}}", "leaves no rank"},
        Case{"workloads:\n  - {name: a, gpus: [0], inside: {ranks: 2, late: {rank: 1, every: 1m}}}",
             "late needs rank, every and for"},
        Case{"profile: 'throttle: [{gpu: 1}]'", "mask is missing"},
        Case{"profile: 'each: []'", "in `profile`"}, Case{"profile: \"processes: [\"", "in `profile`"},
        Case{"colour: red", "colour"}}) {
    auto scenario = ParseScenario(one.yaml);
    ASSERT_FALSE(scenario) << one.yaml;
    EXPECT_THAT(scenario.error().detail, HasSubstr(one.message)) << one.yaml;
  }
}

}  // namespace
}  // namespace gpulens::demo
