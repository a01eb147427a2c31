#include "agent/api/fleet.h"

#include <gtest/gtest.h>

#include <string>

#include "agent/fleet/fleet_request_testing.h"
#include "base/json.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using fleet_testing::Gpu;
using fleet_testing::Host;
using fleet_testing::Request;

class FleetPageTest : public ::testing::Test {
 protected:
  FleetPageTest() {
    options_.nodes = 100;
    table_.Configure(options_);
    AddFleetPage(api_, table_);
  }

  int64_t Now() const { return clock_.Now().unix_ns / 1'000'000; }
  void Send(Request& request) { table_.Observe(OtlpSignal::kMetrics, request.Take()); }
  // Two GPUs; the second in this state.
  void SendNode(std::string_view name, std::string_view rack = "r1", std::string_view state = "ok",
                std::string_view model = "H100") {
    Request request(AttributeSet({{"host.name", name}, {"rack", rack}}));
    for (int64_t i = 0; i < 2; ++i) {
      const std::string_view word = i == 0 ? "ok" : state;
      request.Add("gpu.info", Gpu(i, {{"gpu.model", model}}), 1, Now())
          .Add("gpu.state", Gpu(i, {{"gpu.state", word}, {"k8s.pod.name", "job-a"}}), 1, Now());
      if (word == "ok")
        request.Add("gpu.power.draw", Gpu(i), 300, Now()).Add("gpu.utilization", Gpu(i), 0.5, Now());
    }
    Send(request);
  }
  JsonDocument Get(const std::string& target) {
    auto page = api_.Get(target);
    EXPECT_TRUE(page) << target;
    auto document = JsonDocument::Parse(page ? *page : "{}");
    EXPECT_TRUE(document) << *page;
    return document ? *document : JsonDocument();
  }
  // The names of the nodes in their order.
  static std::string Names(const JsonDocument& page) {
    std::string names;
    for (size_t i = 0; i < page.Size("/nodes"); ++i)
      names += page.Text("/nodes/" + std::to_string(i) + "/name").value_or("?") + " ";
    return names;
  }
  std::string FirstProblem(const std::string& node) {
    const JsonDocument page = Get("/api/fleet?filter=" + node);
    return page.Text("/nodes/0/problems/0/severity").value_or("") + ": " +
           page.Text("/nodes/0/problems/0/text").value_or("");
  }

  ManualClock clock_;
  FleetTable table_{clock_};
  FleetTable::Options options_;
  Api api_;
};

TEST_F(FleetPageTest, WorstFirstWithWhatIsWrong) {
  SendNode("n1");
  SendNode("n2", "r2", "lost");
  SendNode("n3", "r2", "unread");
  const JsonDocument page = Get("/api/fleet");
  EXPECT_EQ(page.Text("/schema"), "gpulens.fleet/1");
  EXPECT_EQ(Names(page), "n2 n3 n1 ");
  EXPECT_EQ(page.Text("/nodes/0/state"), "fault");
  EXPECT_EQ(page.Text("/nodes/0/problems/0/text"), "lost");
  EXPECT_EQ(page.Integer("/nodes/0/problems/0/gpu"), 1);
  EXPECT_EQ(page.Number("/nodes/0/power"), 300) << "the sum of what is known";
  EXPECT_EQ(page.Number("/nodes/2/power"), 600);
  EXPECT_EQ(page.Number("/nodes/2/busy"), 0.5);
  EXPECT_FALSE(page.Number("/nodes/2/temperature")) << "no zero for what is not known";
  EXPECT_EQ(page.Whole("/fleet/nodes"), 3u);
  EXPECT_EQ(page.Whole("/fleet/faults"), 1u);
  EXPECT_EQ(page.Whole("/fleet/gpus"), 6u);
  EXPECT_EQ(page.Whole("/fleet/answering"), 4u);
  EXPECT_EQ(page.Size("/nodes/0/busy_course"), kFleetSteps);
  EXPECT_EQ(page.Number("/nodes/2/busy_course/29"), 50);
  EXPECT_TRUE(page.IsNull("/nodes/2/busy_course/0"));
}

TEST_F(FleetPageTest, GroupsByModelRackAndJob) {
  SendNode("n1");
  SendNode("n2", "r2", "lost");
  SendNode("n3", "r2", "ok", "B200");
  const JsonDocument racks = Get("/api/fleet?by=rack");
  EXPECT_EQ(racks.Size("/groups"), 2u);
  EXPECT_EQ(racks.Text("/groups/0/name"), "r2");
  EXPECT_EQ(racks.Whole("/groups/0/nodes"), 2u);
  EXPECT_EQ(racks.Whole("/groups/0/faults"), 1u);
  EXPECT_EQ(racks.Number("/groups/0/power"), 900);
  const JsonDocument models = Get("/api/fleet?by=model");
  EXPECT_EQ(models.Text("/groups/0/name"), "H100");
  EXPECT_EQ(models.Whole("/groups/0/gpus"), 4u);
  const JsonDocument jobs = Get("/api/fleet?by=job");
  EXPECT_EQ(jobs.Text("/groups/0/name"), "job-a");
  EXPECT_EQ(jobs.Whole("/groups/0/nodes"), 3u);
}

TEST_F(FleetPageTest, LateAwayAndBack) {
  SendNode("n1");
  clock_.Advance(15s);
  SendNode("n1");
  clock_.Advance(50s);
  EXPECT_EQ(FirstProblem("n1"), "warning: late: no data for 50 s");
  clock_.Advance(100s);
  EXPECT_EQ(FirstProblem("n1"), "fault: away: no data for 2 m 30 s");
  const JsonDocument away = Get("/api/fleet");
  EXPECT_EQ(away.Text("/nodes/0/presence"), "away");
  EXPECT_FALSE(away.Number("/nodes/0/power")) << "an old value is not one of now";
  EXPECT_EQ(away.Whole("/nodes/0/gpus"), 2u);
  EXPECT_EQ(away.Whole("/nodes/0/answering"), 0u);
  SendNode("n1");
  EXPECT_EQ(Get("/api/fleet").Text("/nodes/0/presence"), "here");
  clock_.Advance(61min);
  EXPECT_EQ(Get("/api/fleet").Whole("/fleet/nodes"), 0u);
}

TEST_F(FleetPageTest, EachKindOfTrouble) {
  Request heat(Host("hot"));
  Send(heat.Add("gpu.throttle.mask", AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", "GPU-1"}}), 0x44,
                Now()));
  EXPECT_EQ(FirstProblem("hot"), "warning: too hot: its clocks are held down");
  Request cap(Host("cap"));
  Send(cap.Add("gpu.throttle.mask", Gpu(0), 0x4, Now()));
  EXPECT_EQ(FirstProblem("cap"), ": ") << "a power limit is a choice";
  Request health(Host("ill"));
  Send(health.Add("gpu.health.state", Gpu(0, {{"gpu.health.state", "degraded"}}), 1, Now())
           .Add("gpu.health.condition", Gpu(0, {{"gpu.health.reason", "row_remap_pending"}}), 1, Now()));
  EXPECT_EQ(FirstProblem("ill"), "warning: health: degraded, row remap pending");
  for (double count : {1.0, 2.0}) {
    Request xid(Host("xid"));
    Send(xid.Add("gpu.xid.errors", Gpu(0), count, Now()).Add("gpu.xid.last_error_code", Gpu(0), 48, Now()));
  }
  EXPECT_EQ(FirstProblem("xid"), "warning: Xid 48, 0 s ago");
  Request old(Host("old"));
  Send(old.Add("gpu.power.draw", Gpu(0), 1, Now() - 600'000));
  EXPECT_EQ(FirstProblem("old"),
            "warning: what it sends is 10 m 00 s old: it has a backlog, or its clock is behind");
  Request ahead(Host("ahead"));
  Send(ahead.Add("gpu.power.draw", Gpu(0), 1, Now() + 3'600'000));
  EXPECT_EQ(FirstProblem("ahead"), "warning: its clock is ahead by 1 h 00 m");
  for (int i = 0; i < 6; ++i) {
    const std::string uuid = "GPU-" + std::to_string(i % 2);
    Request two(Host("two"));
    Send(two.Add("gpu.power.draw",
                 AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", std::string_view(uuid)}}), 1, Now()));
  }
  EXPECT_EQ(FirstProblem("two"),
            "warning: several machines send as this one: give each a service.instance.id");
}

TEST_F(FleetPageTest, AGpuThatIsNoLongerReportedIsAFault) {
  SendNode("n1");
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(15s);
    Request one(AttributeSet({{"host.name", "n1"}}));
    Send(one.Add("gpu.power.draw", Gpu(0), 200, Now())
             .Add("gpu.state", Gpu(0, {{"gpu.state", "ok"}}), 1, Now()));
  }
  EXPECT_EQ(FirstProblem("n1"), "fault: no reading for 1 m 15 s");
}

TEST_F(FleetPageTest, ANodeWithItsGpus) {
  SendNode("n1");
  const std::string id = Get("/api/fleet").Text("/nodes/0/id").value_or("");
  const JsonDocument page = Get("/api/fleet?node=" + id);
  EXPECT_EQ(page.Text("/node/name"), "n1");
  EXPECT_EQ(page.Size("/node/gpu_list"), 2u);
  EXPECT_EQ(page.Number("/node/gpu_list/1/power"), 300);
  EXPECT_EQ(page.Text("/node/gpu_list/0/job"), "job-a");
}

TEST_F(FleetPageTest, LimitAndFilter) {
  for (int i = 0; i < 20; ++i) SendNode("n" + std::to_string(i), i < 5 ? "Rack-7" : "r1");
  EXPECT_EQ(Get("/api/fleet?limit=3").Size("/nodes"), 3u);
  EXPECT_EQ(Get("/api/fleet?limit=3").Whole("/total"), 20u);
  EXPECT_EQ(Get("/api/fleet?filter=rack-7").Whole("/total"), 5u);
  EXPECT_EQ(Get("/api/fleet?filter=JOB-A&by=rack").Size("/groups"), 2u);
  EXPECT_EQ(Get("/api/fleet?filter=nothing").Size("/nodes"), 0u);
}

TEST_F(FleetPageTest, Refusals) {
  EXPECT_EQ(api_.Get("/api/fleet?by=colour").error().code, Code::kInvalidArgument);
  EXPECT_EQ(api_.Get("/api/fleet?limit=0").error().code, Code::kInvalidArgument);
  EXPECT_EQ(api_.Get("/api/fleet?node=99").error().code, Code::kUnavailable);
  options_.nodes = 0;
  table_.Configure(options_);
  EXPECT_EQ(api_.Get("/api/fleet").error().code, Code::kUnavailable);
}

TEST_F(FleetPageTest, HostileNamesAreTextAndMakeNoLinkElsewhere) {
  options_.node_url = "https://{name}:9091/?i={instance}";
  table_.Configure(options_);
  const std::string name = "<script>alert(1)</script>\x1b[31m\"/@evil.example#";
  SendNode(name);
  const JsonDocument page = Get("/api/fleet");
  const std::string shown = page.Text("/nodes/0/name").value_or("");
  EXPECT_EQ(shown, name);
  const std::string url = page.Text("/nodes/0/url").value_or("");
  EXPECT_TRUE(url.starts_with("https://%3Cscript%3E")) << url;
  EXPECT_TRUE(url.find('@') == url.npos && url.find('#') == url.npos && url.find("/@") == url.npos) << url;
  options_.node_url = "javascript:{name}";
  table_.Configure(options_);
  EXPECT_FALSE(Get("/api/fleet").Text("/nodes/0/url"));
}

}  // namespace
}  // namespace gpulens
