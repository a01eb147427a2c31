#include <gmock/gmock.h>
#include <gpulens/instruments.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>

#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "names/naming.h"
#include "net/blocking/blocking_post.h"
#include "plugins/collectors/programs/programs.h"
#include "wire/exposition/text_page.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Request(const Registry& registry, const std::string& instance = "i1") {
  std::string out;
  EncodeSamples(registry.Snapshot(),
                {AttributeSet({{"service.name", "chat"},
                               {"service.instance.id", std::string_view(instance)},
                               {"process.pid", int64_t{999}},
                               {"host.name", "elsewhere"}}),
                 "gpulens.sdk", "1", 5},
                out);
  return out;
}

class ProgramsTest : public ::testing::Test {
 protected:
  Status Take(const std::string& request, int32_t pid = 42, int64_t uid = 1000) {
    report_ = {};
    return registry_.Take({pid, uid}, request, clock_.Now(), report_);
  }
  std::string Page(Duration later = seconds(5)) {
    clock_.Advance(later);
    writer_.Begin(clock_.Now());
    registry_.Write(writer_);
    auto snapshot = MakeRef<Snapshot>();
    SnapshotEntry& entry = snapshot->frames.emplace_back();
    entry.frame = writer_.Finish();
    entry.source = entry.frame->source;
    snapshot->closed_at = clock_.Now();
    std::string text;
    TextPage(ExpositionFormat::kText004, NameNative).Render(*snapshot, text);
    return text;
  }

  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(150), "programs"};
  ProgramRegistry registry_{{.programs = 3,
                             .programs_of_user = 3,
                             .instances = 2,
                             .series = 10,
                             .series_of_user = 15,
                             .all_series = 15}};
  OtlpPointsReport report_;
};

TEST_F(ProgramsTest, ExportsMetricsOfAProgram) {
  Registry registry;
  Counter("http.requests", {.unit = "{request}", .description = "Requests."}, registry)
      .Bind({{"route", "/a"}})
      .Add(3);
  Gauge("depth", {}, registry).Set(0.5);
  const double bounds[] = {1, 2};
  const Histogram listed("e", {.unit = "s", .bounds = bounds}, registry), free("x", {}, registry);
  for (double value : {0.5, 1.5, 9.0}) listed.Record(value), free.Record(value);
  ASSERT_TRUE(Take(Request(registry)).ok());
  EXPECT_EQ(report_.points, 4u);
  const std::string page = Page();
  const std::string own = "process_pid=\"42\",service_instance_id=\"i1\",service_name=\"chat\"";
  EXPECT_THAT(page,
              HasSubstr("# HELP http_requests_total Requests.\n# TYPE http_requests_total counter\n"
                        "http_requests_total{process_pid=\"42\",route=\"/a\",service_instance_id=\"i1\","
                        "service_name=\"chat\"} 3"))
      << "the kernel's pid, not the one that was said";
  EXPECT_THAT(page, HasSubstr("depth{" + own + "} 0.5"));
  EXPECT_THAT(page, HasSubstr("e_seconds_bucket{" + own + ",le=\"2\"} 2"));
  EXPECT_THAT(page, HasSubstr("e_seconds_bucket{" + own + ",le=\"+Inf\"} 3"));
  EXPECT_THAT(page, HasSubstr("e_seconds_sum{" + own + "} 11"));
  EXPECT_THAT(page, HasSubstr("x_bucket{" + own + ",le=\"2\"} 2"));
  EXPECT_THAT(page, HasSubstr("x_count{" + own + "} 3"));
  EXPECT_THAT(page, Not(HasSubstr("elsewhere")));
}

TEST_F(ProgramsTest, FollowsAndDropsSeries) {
  Registry registry;
  const Counter counter("c", {}, registry);
  const Histogram grows("x", {}, registry);
  counter.Add(1);
  grows.Record(1);
  ASSERT_TRUE(Take(Request(registry)).ok());
  EXPECT_THAT(Page(), HasSubstr("le=\"1\"} 1"));
  counter.Add(4);
  grows.Record(100);
  ASSERT_TRUE(Take(Request(registry)).ok());
  const std::string grown = Page();
  EXPECT_THAT(grown, HasSubstr("service_name=\"chat\"} 5"));
  EXPECT_THAT(grown, HasSubstr("le=\"128\"} 2"));
  EXPECT_THAT(Page(seconds(140)), HasSubstr("c_total{"));
  EXPECT_THAT(Page(seconds(10)), Not(HasSubstr("c_total{"))) << "150 s after it was heard";
  EXPECT_EQ(registry_.counts().programs, 1u);
  Page(minutes(5));
  EXPECT_EQ(registry_.counts().programs, 0u);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(writer_.counts().invalid, 0u);
}

TEST_F(ProgramsTest, SeparatesProcessesOfOneName) {
  Registry registry;
  Counter("c", {}, registry).Add(1);
  ASSERT_TRUE(Take(Request(registry, "a"), 1).ok());
  ASSERT_TRUE(Take(Request(registry, "b"), 2).ok());
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("process_pid=\"1\""));
  EXPECT_THAT(page, HasSubstr("process_pid=\"2\""));
  ASSERT_TRUE(Take(Request(registry, "c"), 0).ok());
  EXPECT_THAT(Page(), HasSubstr("c_total{service_instance_id=\"c\"")) << "nobody knows its pid";
}

TEST_F(ProgramsTest, IsBounded) {
  Registry registry;
  const Counter counter("c", {}, registry);
  for (int64_t i = 0; i < 12; ++i) counter.Bind({{"i", i}}).Add(1);
  ASSERT_TRUE(Take(Request(registry), 1).ok());
  EXPECT_EQ(report_.points, 10u);
  EXPECT_EQ(report_.rejected, 2u);
  EXPECT_EQ(report_.why, "too many series");
  ASSERT_TRUE(Take(Request(registry, "i2"), 1).ok());
  EXPECT_EQ(report_.points, 5u) << "of all programs";
  EXPECT_EQ(Take(Request(registry, "i3"), 1).code, Code::kExhausted) << "of one process";
  Registry small;
  Counter("s", {}, small).Add(1);
  ASSERT_TRUE(Take(Request(small), 2).ok());
  EXPECT_EQ(report_.rejected, 1u);
  EXPECT_EQ(Take(Request(small), 3).code, Code::kExhausted) << "of programs";
  EXPECT_EQ(Take("\x0a\xff", 1).code, Code::kDataLoss);
  EXPECT_EQ(registry_.counts().accepted, 15u);
}

TEST_F(ProgramsTest, LimitsHoldForEachUser) {
  ProgramRegistry programs(
      {.programs = 4, .programs_of_user = 2, .series = 10, .series_of_user = 6, .all_series = 15});
  Registry registry;
  const Counter counter("c", {}, registry);
  for (int64_t i = 0; i < 4; ++i) counter.Bind({{"i", i}}).Add(1);
  const auto take = [&](int32_t pid, int64_t uid) {
    OtlpPointsReport report;
    const Status status = programs.Take({pid, uid}, Request(registry), clock_.Now(), report);
    return status.code == Code::kExhausted ? "no program"
                                           : std::to_string(report.points) + std::string(report.why);
  };
  EXPECT_EQ(take(1, 65534), "4");
  EXPECT_EQ(take(2, 65534), "2too many series of one user");
  EXPECT_EQ(take(3, 65534), "no program");
  EXPECT_EQ(take(3, 0), "4") << "root has its own";
  EXPECT_EQ(take(1, 0), "2too many series of one user") << "a pid that came again is another's";
  clock_.Advance(minutes(6));
  writer_.Begin(clock_.Now());
  programs.Write(writer_);
  static_cast<void>(writer_.Finish());
  EXPECT_EQ(programs.counts().programs, 0u);
  EXPECT_EQ(take(3, 65534), "4") << "what was forgotten is free again";
}

TEST_F(ProgramsTest, MarksReservedNames) {
  Registry registry;
  Gauge("gpu.power.draw", {.unit = "W"}, registry).Set(99999);
  Gauge("gpulens.collector.up", {}, registry).Set(0);
  Gauge("up", {}, registry).Set(0);
  Gauge("mine", {}, registry).Set(1);
  ASSERT_TRUE(Take(Request(registry)).ok());
  const std::string page = "\n" + Page();
  for (const char* family : {"gpu_power_draw_watts", "gpulens_collector_up", "up"}) {
    EXPECT_THAT(page, Not(HasSubstr("\n" + std::string(family) + "{")));
    EXPECT_THAT(page, HasSubstr("\nexported_" + std::string(family) + "{"));
  }
  EXPECT_THAT(page, HasSubstr("\nmine{"));
}

// training.… are rows that programs bring: unmarked, and validated where name, unit and kind are the row's.
TEST_F(ProgramsTest, ValidatesRowsOfTheCatalogue) {
  Registry registry;
  const Gauge mfu("training.mfu", {.unit = "1"}, registry), loss("training.loss", {.unit = "1"}, registry);
  const Gauge other("training.hfu", {.unit = "%"}, registry);
  mfu.Set(0.41);
  loss.Set(-2.5);
  other.Set(41);
  ASSERT_TRUE(Take(Request(registry)).ok());
  std::string page = Page();
  EXPECT_THAT(page, Not(HasSubstr("exported_")));
  EXPECT_THAT(page, HasSubstr("service_name=\"chat\"} 0.41\n"));
  EXPECT_THAT(page, HasSubstr("} -2.5\n"));
  EXPECT_THAT(page, HasSubstr("} 41\n")) << "in percent it is another metric";
  mfu.Set(41);  // of a sparse peak, or of one GPU for eight
  ASSERT_TRUE(Take(Request(registry)).ok());
  page = Page();
  EXPECT_THAT(page, HasSubstr("service_name=\"chat\"} 0.41 "))
      << "the last one that was possible, with its time";
  EXPECT_EQ(writer_.counts().rejected[static_cast<size_t>(Validation::kOutOfRange)], 1u);
}

TEST_F(ProgramsTest, SteadyWriteDoesNotAllocate) {
  Registry registry;
  Counter("c", {}, registry).Add(1);
  Histogram("x", {}, registry).Record(1);
  ASSERT_TRUE(Take(Request(registry)).ok());
  for (int i = 0; i < 3; ++i) Page();
  clock_.Advance(seconds(5));
  const uint64_t before = ThreadAllocations();
  writer_.Begin(clock_.Now());
  registry_.Write(writer_);
  const Ref<const Frame> frame = writer_.Finish();
  EXPECT_EQ(ThreadAllocations(), before);
}

TEST(ProgramSocket, AcceptsOtlp) {
  testing::TempFolder folder;
  IoLoop loop;
  loop.Start();
  Env env;
  env.io = &loop;
  const auto programs = std::make_shared<ProgramRegistry>(ProgramRegistry::Limits());
  const std::string path = folder.path() + "/deep/otlp.sock";
  {
    auto socket = ProgramSocket::Open(path, programs, env);
    ASSERT_TRUE(socket.ok()) << socket.status().detail;
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666u);
    EXPECT_EQ(ProgramSocket::Open(path, programs, env).status().code, Code::kIo) << "it is taken";
    Registry registry;
    Counter("c", {}, registry).Add(7);
    BlockingPost post;
    HttpUrl url;
    url.host = "localhost";
    url.target = "/v1/metrics";
    const auto send = [&](std::string_view headers, const std::string& body) {
      auto reply = post.Send({url, path, headers, body}, seconds(20));
      return reply ? (*reply).status : 0;
    };
    EXPECT_EQ(send("Content-Type: application/x-protobuf\r\n", Request(registry)), 200);
    EXPECT_EQ(send("Content-Type: application/json\r\n", "{}"), 415);
    EXPECT_EQ(send("Content-Type: application/x-protobuf\r\n", "\x0a\xff"), 400);
    EXPECT_EQ(send("Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n", "nonsense"), 400);
    url.target = "/v1/traces";
    EXPECT_EQ(send("Content-Type: application/x-protobuf\r\n", ""), 404);
    SeriesTable table;
    FrameWriter writer(table, seconds(150), "programs");
    writer.Begin(RealClock().Now());
    programs->Write(writer);
    const Ref<const Frame> frame = writer.Finish();
    EXPECT_EQ((*frame->layout)[0].attributes.Text("process.pid"), std::to_string(::getpid()));
  }
  loop.Stop();
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the file goes with it";
}

}  // namespace
}  // namespace gpulens
