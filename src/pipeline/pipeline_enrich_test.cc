// What enrichers know, on the series of collectors and analyzers, on events and in the resource.

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "net/io_loop.h"
#include "pipeline/pipeline.h"
#include "plugins/event_queue.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MetricDesc kEnergy{.name = "test.energy", .unit = "J", .help = "Joules.", .kind = Kind::kCounter};
constexpr MetricDesc kScore{.name = "test.score", .unit = "1", .help = "Score."};

EntityRef Gpu() {
  static const EntityRef gpu = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  return gpu;
}

std::atomic<int> pod{0};  // pod that owns the GPU; 0: none

class Pods final : public Enricher {
 public:
  void Fetch(Instant, std::function<void(Status)> done) override { done(Ok()); }
  uint64_t generation() const noexcept override { return static_cast<uint64_t>(pod.load()); }
  AttributeSet Describe(const Entity& entity) const override {
    if (entity.type != "gpu" || pod == 0) return {};
    return AttributeSet({{"k8s.pod.name", std::string_view("pod-" + std::to_string(pod))}});
  }
  AttributeSet Resource() const override {
    return AttributeSet({{"cloud.region", "r1"}, {"service.name", "not this"}});
  }
};
const EnricherSpec kPods{.name = "pods",
                         .help = "Pods.",
                         .period = milliseconds(5),
                         .create = [](const Config&, Env&) -> Result<std::unique_ptr<Enricher>> {
                           return std::unique_ptr<Enricher>(std::make_unique<Pods>());
                         }};

class Joules final : public Collector {
 public:
  Status Collect(FrameWriter& out) override {
    if (!energy_) energy_ = out.table().Declare(kEnergy, Gpu());
    out.Set(energy_, 1000.0 + ++runs_);
    return Ok();
  }

 private:
  Series energy_;
  int runs_ = 0;
};
const CollectorSpec kJoules{.name = "joules",
                            .help = "Joules.",
                            .period = milliseconds(10),
                            .ttl = seconds(20),
                            .create = [](const Config&, Env&) -> Result<std::unique_ptr<Collector>> {
                              return std::unique_ptr<Collector>(std::make_unique<Joules>());
                            }};

class Scores final : public Analyzer {
 public:
  Status Analyze(const Snapshot&, FrameWriter& out) override {
    if (!score_) score_ = out.table().Declare(kScore, Gpu());
    out.Set(score_, 1);
    return Ok();
  }

 private:
  Series score_;
};
const AnalyzerSpec kScores{.name = "scores",
                           .help = "Scores.",
                           .create = [](const Config&, Env&) -> Result<std::unique_ptr<Analyzer>> {
                             return std::unique_ptr<Analyzer>(std::make_unique<Scores>());
                           }};

std::mutex seen_mutex;
std::vector<Event> seen;

class EventSink final : public Sink {
 public:
  Status Write(const Snapshot&) override { return Ok(); }
  Status Write(const Events& events) override {
    std::lock_guard lock(seen_mutex);
    seen.insert(seen.end(), events.list.begin(), events.list.end());
    return Ok();
  }
};
const SinkSpec kEvents{
    .name = "events", .help = "Events.", .create = [](const Config&, Env&) -> Result<std::unique_ptr<Sink>> {
      return std::unique_ptr<Sink>(std::make_unique<EventSink>());
    }};

class PipelineEnrichTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pod = 1;
    seen.clear();
    env_.io = &io_;
    env_.events = &queue_;
    io_.Start();
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
    PipelinePlan plan;
    plan.interval = milliseconds(10);
    plan.resource = AttributeSet({{"service.name", "gpulens"}});
    plan.instances.push_back(
        {"joules", &kJoules, {}, milliseconds(10), milliseconds(10), seconds(20), {}, nullptr});
    plan.analyzers.push_back({&kScores, {}});
    plan.enrichers.push_back({&kPods, {}, milliseconds(5)});
    plan.sinks.push_back({std::string(kEvents.name), &kEvents, {}, {}});
    ASSERT_TRUE(pipeline_->Apply(std::move(plan)));
    pipeline_->Start();
  }
  void TearDown() override {
    pipeline_->Stop(RealClock().Now() + seconds(5));
    io_.Stop();
  }
  // The series of `desc` in the latest snapshot; a free one when there is none.
  SeriesInfo Find(const MetricDesc& desc) const {
    const Ref<const Snapshot> snapshot = hub_.latest();
    for (size_t f = 0; snapshot && f < snapshot->frames.size(); ++f) {
      const Layout& layout = *snapshot->frames[f].frame->layout;
      for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
        if (layout[slot].desc && layout[slot].desc->name == desc.name) return layout[slot];
      }
    }
    return {};
  }
  bool BecomesOf(const std::string& name) const {
    auto all = [&] {
      return Find(kEnergy).desc && Find(kEnergy).attributes.Text("k8s.pod.name") == name &&
             Find(kScore).desc && Find(kScore).attributes.Text("k8s.pod.name") == name;
    };
    for (int i = 0; i < 20'000 && !all(); ++i) ::poll(nullptr, 0, 1);
    return all();
  }

  SeriesBudget budget_{1000};
  Workers workers_{2};
  LatestSnapshot hub_;
  IoLoop io_;
  EventQueue queue_;
  Env env_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineEnrichTest, SeriesFollowTheOwnerOfTheirGpu) {
  ASSERT_TRUE(BecomesOf("pod-1"));
  const int64_t first_start = Find(kEnergy).start_unix_ns;
  pod = 2;
  ASSERT_TRUE(BecomesOf("pod-2"));
  const SeriesInfo second = Find(kEnergy);
  EXPECT_GT(second.start_unix_ns, first_start) << "the second pod did not use the first one's joules";
  EXPECT_FALSE(second.start_known);
  EXPECT_EQ(second.attributes.Text("gpu.index"), "3");
  pod = 0;
  ASSERT_TRUE(BecomesOf("")) << "its attributes leave with the pod";
}

TEST_F(PipelineEnrichTest, TheResourceHasTheAttributesOfTheMachine) {
  ASSERT_TRUE(BecomesOf("pod-1"));
  EXPECT_EQ(hub_.latest()->resource, AttributeSet({{"cloud.region", "r1"}, {"service.name", "gpulens"}}));
}

TEST_F(PipelineEnrichTest, EventsOfAGpuNameItsPod) {
  ASSERT_TRUE(BecomesOf("pod-1"));
  queue_.Publish(
      Event{RealClock().Now(), "test.event", Gpu(), AttributeSet({{"code", int64_t{79}}}), "fell", {}});
  auto came = [&] {
    std::lock_guard lock(seen_mutex);
    return !seen.empty();
  };
  for (int i = 0; i < 20'000 && !came(); ++i) ::poll(nullptr, 0, 1);
  ASSERT_TRUE(came());
  EXPECT_EQ(seen[0].attributes, AttributeSet({{"code", int64_t{79}}, {"k8s.pod.name", "pod-1"}}));
}

}  // namespace
}  // namespace gpulens
