#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/threads.h"
#include "catalog/gpu.h"
#include "export/names_testing.h"
#include "net/http/http_server.h"
#include "net/testing/test_client.h"
#include "plugins/latest_snapshot.h"
#include "plugins/page_registry.h"
#include "plugins/plugin.h"
#include "wire/json/json_testing.h"
#include "wire/packing.h"

namespace gpulens {
extern const SinkSpec json_sink;
namespace {

using json_testing::Gpu;
using json_testing::Json;
using json_testing::JsonReader;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using testing::Answer;
using testing::Fetch;

class BoardHandler final : public HttpHandler {
 public:
  explicit BoardHandler(PageRegistry& board) : board_(board) {}
  void Handle(const HttpRequest& request, HttpResponder responder) override {
    if (auto page = board_.Find(request.path())) return page->Handle(request, std::move(responder));
    responder.Send(HttpResponse::Text(404, "nothing here"));
  }

 private:
  PageRegistry& board_;
};

class JsonSinkTest : public ::testing::Test {
 protected:
  JsonSinkTest() {
    env_.io = &loop_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.pages = &board_;
    loop_.Start();
    server_ = std::make_unique<HttpServer>(loop_, handler_, HttpServer::Options());
    at_ = *server_->Listen(*ParseListenAddress("127.0.0.1:0"));
    Config config;
    testing::SetNames(config, {"native", "zernel"});
    sink_ = *json_sink.create(config, env_);
  }
  ~JsonSinkTest() override {
    sink_ = nullptr;
    workers_.Stop();
    server_ = nullptr;
    loop_.Stop();
  }
  void Tick(uint64_t tick, int64_t used) {
    nvidia_.writer.Begin(now_);
    nvidia_.writer.SetInt(used_, used);
    nvidia_.writer.SetInt(peak_, used + 1);
    nvidia_.writer.SetInt(lone_, 5);
    nvidia_.writer.Set(power_, 612.3);
    hub_.Put(MakeSnapshot(tick, now_, {nvidia_.Entry()}));
  }
  static Json Read(const std::string& text) {
    std::string why;
    auto json = JsonReader::Read(text, &why);
    EXPECT_TRUE(json.has_value()) << why;
    return json.value_or(Json());
  }

  Env env_;
  IoLoop loop_;
  Workers workers_;
  LatestSnapshot hub_;
  PageRegistry board_;
  BoardHandler handler_{board_};
  std::unique_ptr<HttpServer> server_;
  Endpoint at_;
  std::unique_ptr<Sink> sink_;
  TestSource nvidia_{"nvidia"};
  Instant now_ = ManualClock().Now();
  AttributeSet pid_{{"process.pid", int64_t{4242}}};
  Series used_ = nvidia_.table.Declare(kGpuProcessMemoryUsed, Gpu(3), pid_);
  Series peak_ = nvidia_.table.Declare(kGpuProcessMemoryPeak, Gpu(3), pid_);
  Series lone_ = nvidia_.table.Declare(kGpuProcessMemoryUsed, Gpu(4), pid_);
  Series power_ = nvidia_.table.Declare(kGpuPowerDraw, Gpu(3));
};

TEST_F(JsonSinkTest, Returns503BeforeTheFirstTick) { EXPECT_EQ(Fetch(at_, "GET", "/json").status, 503); }

TEST_F(JsonSinkTest, ShowsFamiliesAndTheKeysOfTheSeed) {
  Tick(1, 1000);
  Answer answer = Fetch(at_, "GET", "/json");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
  EXPECT_EQ(answer.Header("Content-Encoding"), "");
  Json json = Read(answer.body);
  EXPECT_EQ(json["schema"].text, "gpulens.json/1");
  EXPECT_EQ(json["gpu_memory"]["4242:3"]["current_bytes"].text, "1000");
  EXPECT_EQ(json["gpu_memory"]["4242:3"]["peak_bytes"].text, "1001");
  EXPECT_EQ(json["gpu_memory"]["4242:4"]["current_bytes"].text, "5");
  EXPECT_FALSE(json["gpu_memory"]["4242:4"]["peak_bytes"].here());
  for (const char* key : {"cuda_latency", "nccl_duration", "dataloader_wait", "dist_sync"}) {
    EXPECT_EQ(json[key].type, Json::kObject) << key;
    EXPECT_TRUE(json[key].keys.empty()) << key;
  }
  EXPECT_EQ(json["last_update_ms"].text, std::to_string(now_.unix_ns / 1'000'000));
  EXPECT_EQ(json["metrics"]["gpu.power.draw"]["series"][0]["value"].text, "612.3");
  EXPECT_EQ(json["metrics"]["gpu.power.draw"]["names"][0].text, "gpu_power_draw_watts");
  // Lists every family of /metrics by its name there, also those of other projects.
  const Json& names = json["metrics"]["gpu.process.memory.used"]["names"];
  EXPECT_EQ(names[0].text, "gpu_process_memory_used_bytes");
  EXPECT_EQ(names[1].text, "zernel_gpu_memory_used_bytes");
  EXPECT_TRUE(json["metrics"]["zernel_cuda_launch_latency_seconds"]["series"].here());
  EXPECT_FALSE(json["metrics"]["zernel_gpu_memory_used_bytes"].here());
}

TEST_F(JsonSinkTest, CompressesOnRequest) {
  Tick(1, 1000);
  for (const char* accept : {"gzip", "br, x-gzip;q=0.5", "*", "GZIP;q=1"}) {
    Answer answer = Fetch(at_, "GET", "/json", std::string("Accept-Encoding: ") + accept + "\r\n");
    EXPECT_EQ(answer.Header("Content-Encoding"), "gzip") << accept;
    EXPECT_EQ(answer.Header("Vary"), "Accept-Encoding");
    std::string text;
    ASSERT_TRUE(Gunzip(answer.body, 1 << 20, text).ok());
    EXPECT_EQ(Read(text)["tick"].text, "1");
  }
  for (const char* accept : {"identity", "gzip;q=0", "br", "*;q=0"}) {
    Answer answer = Fetch(at_, "GET", "/json", std::string("Accept-Encoding: ") + accept + "\r\n");
    EXPECT_EQ(answer.Header("Content-Encoding"), "") << accept;
    EXPECT_EQ(Read(answer.body)["tick"].text, "1");
  }
}

TEST_F(JsonSinkTest, FollowsTheTicks) {
  for (uint64_t tick = 1; tick <= 3; ++tick) {
    Tick(tick, static_cast<int64_t>(tick) * 10);
    EXPECT_TRUE(sink_->Write(*hub_.latest()).ok());
    std::string first = Fetch(at_, "GET", "/json").body;
    EXPECT_EQ(Read(first)["gpu_memory"]["4242:3"]["current_bytes"].text, std::to_string(tick * 10));
    EXPECT_EQ(Fetch(at_, "GET", "/json").body, first);
  }
}

TEST_F(JsonSinkTest, AnswersWithoutWorkers) {
  Tick(1, 1000);
  workers_.Stop();
  EXPECT_EQ(Fetch(at_, "GET", "/json").status, 503);
}

TEST_F(JsonSinkTest, RemovesItsPage) {
  Tick(1, 1000);
  sink_ = nullptr;
  EXPECT_EQ(Fetch(at_, "GET", "/json").status, 404);
}

TEST_F(JsonSinkTest, ListsTheNamesOfOtherProjects) {
  sink_ = nullptr;
  Config config;
  testing::SetNames(config, {"dcgm"});
  sink_ = *json_sink.create(config, env_);
  Tick(1, 1000);
  Json json = Read(Fetch(at_, "GET", "/json").body);
  EXPECT_EQ(json["metrics"]["gpu.power.draw"]["names"][0].text, "DCGM_FI_DEV_POWER_USAGE");
  EXPECT_FALSE(json["metrics"]["zernel_cuda_launch_latency_seconds"].here());
  EXPECT_EQ(json["gpu_memory"]["4242:3"]["current_bytes"].text, "1000") << "always part of the API";
}

TEST(JsonSink, NeedsAServer) {
  Env env;
  EXPECT_EQ(json_sink.create(Config(), env).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(json_sink.on_by_default);
}

}  // namespace
}  // namespace gpulens
