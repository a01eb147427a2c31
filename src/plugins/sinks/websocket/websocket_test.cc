#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "catalog/gpu.h"
#include "catalog/self.h"
#include "net/testing/test_client.h"
#include "plugins/latest_snapshot.h"
#include "plugins/sinks/websocket/push_stream.h"
#include "wire/json/json_testing.h"

namespace gpulens {
extern const SinkSpec websocket_sink;
namespace {

using json_testing::Gpu;
using json_testing::Json;
using json_testing::JsonReader;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using testing::Eventually;
using testing::TestClient;

constexpr const char* kFields[] = {"gpu_utilization",       "cuda_latency_p50_us",   "cuda_latency_p99_us",
                                   "nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms",
                                   "last_update_ms"};

Json Read(const std::string& text) {
  std::string why;
  auto json = JsonReader::Read(text, &why);
  EXPECT_TRUE(json.has_value()) << why << "\n" << text;
  return json.value_or(Json());
}

struct Nvidia {
  Nvidia() {
    AttributeSet pid({{"process.pid", int64_t{4242}}});
    used = source.table.Declare(kGpuProcessMemoryUsed, Gpu(0), pid);
    peak = source.table.Declare(kGpuProcessMemoryPeak, Gpu(0), pid);
    peakless = source.table.Declare(kGpuProcessMemoryUsed, Gpu(1), pid);
    useless = source.table.Declare(kGpuProcessMemoryPeak, Gpu(2), pid);
  }
  Ref<Snapshot> Tick(uint64_t tick, int64_t bytes) {
    source.writer.Begin(now);
    source.writer.SetInt(used, bytes);
    source.writer.SetInt(peak, bytes * 2);
    source.writer.SetInt(peakless, 7);
    source.writer.SetInt(useless, 8);
    return MakeSnapshot(tick, now, {source.Entry()});
  }
  TestSource source{"nvidia"};
  Instant now = ManualClock().Now();
  Series used, peak, peakless, useless;
};

TEST(PushFrame, HasSevenFieldsAndKnownValues) {
  Nvidia nvidia;
  PushFrame frame;
  Json json = Read(frame.Make(nvidia.Tick(1, 100).get()));
  ASSERT_EQ(json.keys.size(), 8u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(json.keys[i], kFields[i]);
  for (size_t i = 1; i < 7; ++i) EXPECT_EQ(json[kFields[i]].type, Json::kNumber);
  EXPECT_EQ(json["cuda_latency_p50_us"].text, "0.0");
  EXPECT_EQ(json["last_update_ms"].text, "1700000000000");
  ASSERT_EQ(json["gpu_utilization"].items.size(), 2u);
  EXPECT_EQ(json["gpu_utilization"][0]["key"].text, "4242:0");
  EXPECT_EQ(json["gpu_utilization"][0]["current_bytes"].text, "100");
  EXPECT_EQ(json["gpu_utilization"][0]["peak_bytes"].text, "200");
  EXPECT_EQ(json["gpu_utilization"][1]["peak_bytes"].text, "7");
  EXPECT_TRUE(json["valid"]["gpu_utilization"].yes);
  EXPECT_TRUE(json["valid"]["last_update_ms"].yes);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_EQ(json["valid"][kFields[i]].type, Json::kBool);
    EXPECT_FALSE(json["valid"][kFields[i]].yes);
  }
}

TEST(PushFrame, IsEmptyBeforeTheFirstTick) {
  Json json = Read(PushFrame().Make(nullptr));
  EXPECT_TRUE(json["gpu_utilization"].items.empty());
  EXPECT_EQ(json["last_update_ms"].text, "0");
  for (const char* field : kFields) EXPECT_FALSE(json["valid"][field].yes);
}

TEST(PushFrame, IdleGpuIsKnownWhileItsCollectorIsUp) {
  TestSource self("gpulens");
  auto up = [&](const char* collector) {
    return self.table.Declare(kSelfCollectorUp, {}, AttributeSet({{"collector", collector}}));
  };
  Series nvidia = up("nvidia"), host = up("host");
  PushFrame frame;
  for (int is_up : {0, 1}) {
    self.writer.Begin(ManualClock().Now());
    self.writer.SetInt(nvidia, is_up);
    self.writer.SetInt(host, 1);
    Json json = Read(frame.Make(MakeSnapshot(1, {}, {self.Entry()}).get()));
    EXPECT_TRUE(json["gpu_utilization"].items.empty());
    EXPECT_EQ(json["valid"]["gpu_utilization"].yes, is_up == 1);
  }
}

// Runs ticks and pushes of ten seconds; gives the age of the tick that each frame carries.
std::vector<Duration> AgesOfFrames(Duration interval, Duration tick, Duration first_tick) {
  using std::chrono::milliseconds;
  ManualClock clock;
  PushPace pace(interval);
  const Instant start = clock.Now();
  pace.Start(start);
  Instant next_tick = start + first_tick, ticked = start;
  std::vector<Duration> ages;
  for (int ms = 0; ms < 10'000; ++ms) {
    clock.Advance(milliseconds(1));
    const Instant now = clock.Now();
    bool push = false;
    if (next_tick - now <= Duration(0)) {
      ticked = now;
      // Ticks are some milliseconds early and late.
      next_tick = next_tick + tick + milliseconds(ms % 7 - 3);
      push = pace.Ticked(now);
    }
    push = push || pace.due() - now <= Duration(0);
    if (!push) continue;
    pace.Pushed(now);
    if (ms > 2500) ages.push_back(now - ticked);
  }
  return ages;
}

TEST(PushPace, FramesHaveTheClosedTick) {
  using std::chrono::milliseconds;
  for (int first : {1, 400, 985, 999}) {
    const auto ages = AgesOfFrames(milliseconds(1000), milliseconds(1000), milliseconds(first));
    EXPECT_GE(ages.size(), 7u) << first;
    for (Duration age : ages) EXPECT_LE(age, milliseconds(1)) << first;
  }
  const auto slow = AgesOfFrames(milliseconds(1000), milliseconds(200), milliseconds(150));
  EXPECT_NEAR(static_cast<double>(slow.size()), 7, 1);
  for (Duration age : slow) EXPECT_LE(age, milliseconds(1));
}

TEST(PushPace, ShortIntervalsSendEveryTickSoon) {
  using std::chrono::milliseconds;
  const auto ages = AgesOfFrames(milliseconds(200), milliseconds(1000), milliseconds(370));
  EXPECT_GE(ages.size(), 36u);
  EXPECT_LE(ages.size(), 46u);
  EXPECT_GE(std::ranges::count_if(ages, [](Duration age) { return age <= milliseconds(100); }), 7);
}

TEST(PushPace, IntervalDecidesWithoutTicks) {
  using std::chrono::milliseconds;
  const auto ages = AgesOfFrames(milliseconds(500), std::chrono::hours(1), std::chrono::hours(1));
  EXPECT_EQ(ages.size(), 15u);
}

class PushStreamTest : public ::testing::Test {
 protected:
  PushStreamTest() {
    env_.io = &loop_;
    env_.latest = &hub_;
    env_.stats = &stats_;
    loop_.Start();
  }
  ~PushStreamTest() override {
    stream_ = nullptr;
    loop_.Stop();
  }
  std::unique_ptr<PushStream> Open(std::vector<std::string> listen, Duration interval) {
    auto stream = PushStream::Open({std::move(listen), {}, interval}, env_);
    EXPECT_TRUE(stream.ok()) << stream.error().detail;
    return stream ? *std::move(stream) : nullptr;
  }
  void Start(Duration interval) {
    stream_ = Open({"127.0.0.1:0"}, interval);
    at_ = stream_->addresses().at(0);
  }
  static TestClient Connect(const Endpoint& at, const std::string& fields = {}) {
    TestClient client(at);
    client.Send(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
        fields + "\r\n");
    return client;
  }
  // The next frame's text; a close frame's opcode byte and nothing else.
  static std::string NextFrame(TestClient& client) {
    std::string head = client.ReadBytes(2);
    if (head.size() < 2) return "(end)";
    size_t size = static_cast<unsigned char>(head[1]);
    if (size == 126) {
      std::string more = client.ReadBytes(2);
      size =
          static_cast<size_t>(static_cast<unsigned char>(more[0])) << 8 | static_cast<unsigned char>(more[1]);
    }
    std::string payload = client.ReadBytes(size);
    return (head[0] & 0x0f) == 8 ? "(close)" : payload;
  }

  Env env_;
  IoLoop loop_;
  LatestSnapshot hub_;
  AgentStats stats_;
  Nvidia nvidia_;
  std::unique_ptr<PushStream> stream_;
  Endpoint at_;
};

TEST_F(PushStreamTest, SendsAFrameAtOnceAndThenAtEachInterval) {
  Start(std::chrono::milliseconds(20));
  TestClient client = Connect(at_);
  ASSERT_EQ(client.Read().status, 101);
  EXPECT_FALSE(Read(NextFrame(client))["valid"]["last_update_ms"].yes);
  hub_.Put(nvidia_.Tick(1, 100));
  ASSERT_TRUE(Eventually(
      [&] { return Read(NextFrame(client))["gpu_utilization"][0]["current_bytes"].text == "100"; }));
  // Frames come without a new tick, too, and with the new one after it.
  EXPECT_EQ(Read(NextFrame(client))["gpu_utilization"][0]["current_bytes"].text, "100");
  hub_.Put(nvidia_.Tick(2, 200));
  ASSERT_TRUE(Eventually(
      [&] { return Read(NextFrame(client))["gpu_utilization"][0]["current_bytes"].text == "200"; }));
}

// Moved by the test while the loop reads it.
class MovedClock final : public Clock {
 public:
  Instant Now() const noexcept override { return ManualClock().Now() + Duration(moved_.load()); }
  void Advance(Duration by) noexcept { moved_ += by.count(); }

 private:
  std::atomic<int64_t> moved_{0};
};

TEST_F(PushStreamTest, SendsATickWhenItCloses) {
  MovedClock clock;
  env_.clock = &clock;
  hub_.Put(nvidia_.Tick(1, 100));
  Start(std::chrono::hours(1));
  TestClient client = Connect(at_);
  ASSERT_EQ(client.Read().status, 101);
  NextFrame(client);
  for (int64_t bytes : {200, 300}) {
    clock.Advance(std::chrono::hours(1));
    hub_.Put(nvidia_.Tick(static_cast<uint64_t>(bytes), bytes));
    stream_->Ticked();
    EXPECT_EQ(Read(NextFrame(client))["gpu_utilization"][0]["current_bytes"].text, std::to_string(bytes));
  }
  stream_ = nullptr;  // before the clock
}

TEST_F(PushStreamTest, KeepsItsPace) {
  hub_.Put(nvidia_.Tick(1, 100));
  Start(std::chrono::milliseconds(50));
  TestClient client = Connect(at_);
  ASSERT_EQ(client.Read().status, 101);
  NextFrame(client);
  NextFrame(client);
  auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) NextFrame(client);
  auto took = std::chrono::steady_clock::now() - started;
  EXPECT_GT(took, std::chrono::milliseconds(900));
  EXPECT_LT(took, std::chrono::milliseconds(3000));
}

TEST_F(PushStreamTest, CountsForTheAgent) {
  hub_.Put(nvidia_.Tick(1, 100));
  Start(std::chrono::milliseconds(10));
  const ServerStats* stats = stats_.websocket.load();
  ASSERT_NE(stats, nullptr);
  uint64_t accepted = stats->accepted;
  {
    TestClient client = Connect(at_);
    ASSERT_EQ(client.Read().status, 101);
    EXPECT_TRUE(Eventually([&] { return stats->accepted == accepted + 1 && stats->connections == 1; }));
    EXPECT_EQ(stream_->clients(), 1u);
    TestClient refused = Connect(at_, "Origin: https://evil.example\r\n");
    EXPECT_EQ(refused.Read().status, 403);
    EXPECT_TRUE(Eventually([&] { return stats->refusals(Refusal::kOrigin) >= 1; }));
  }
  stream_ = nullptr;
  // Counters outlive the stream, connections do not.
  EXPECT_EQ(stats->connections, 0u);
  EXPECT_GE(stats->accepted, accepted + 2);
}

TEST_F(PushStreamTest, SendsAGoingAwayClose) {
  Start(std::chrono::hours(1));
  TestClient client = Connect(at_);
  ASSERT_EQ(client.Read().status, 101);
  NextFrame(client);
  stream_->Close(std::chrono::milliseconds(50));
  EXPECT_EQ(NextFrame(client), "(close)");
  EXPECT_FALSE(TestClient(at_).connected());
}

// Two streams at one address share its socket: what a reload does.
TEST_F(PushStreamTest, SuccessorTakesOverTheAddress) {
  Start(std::chrono::hours(1));
  std::string address = at_.ToString();
  stream_ = nullptr;
  auto old = Open({address}, std::chrono::hours(1));
  ASSERT_NE(old, nullptr);
  auto next = Open({address}, std::chrono::hours(1));
  ASSERT_NE(next, nullptr);
  old->Close(std::chrono::milliseconds(50));
  old = nullptr;
  for (int i = 0; i < 5; ++i) {
    TestClient client = Connect(at_);
    EXPECT_EQ(client.Read().status, 101);
  }
  next = nullptr;
  EXPECT_FALSE(TestClient(at_).connected());
}

TEST_F(PushStreamTest, RefusesBadAddresses) {
  EXPECT_EQ(PushStream::Open({{"nowhere"}, {}, std::chrono::seconds(1)}, env_).error().code,
            Code::kInvalidArgument);
  Start(std::chrono::seconds(1));
  UniqueFd taken;
  auto other = PushStream::Open({{at_.ToString()}, {}, std::chrono::seconds(1)}, env_);
  EXPECT_FALSE(other.ok());  // a port that the system chose is not shared
}

TEST_F(PushStreamTest, ServesIpv6WhereAvailable) {
  stream_ = Open({"127.0.0.1:0", "[::1]:0"}, std::chrono::seconds(1));
  ASSERT_NE(stream_, nullptr);
  size_t count = stream_->addresses().size();
  EXPECT_TRUE(count == 1 || count == 2);
  for (const Endpoint& at : stream_->addresses()) EXPECT_EQ(Connect(at).Read().status, 101);
}

TEST_F(PushStreamTest, SinkServesAndFlushes) {
  Config config;
  config.Set("listen", std::vector<std::string>{"127.0.0.1:0"}, {});
  config.Set("push_interval", Duration(std::chrono::seconds(1)), {});
  config.Set("allowed_origins", std::vector<std::string>{"*"}, {});
  auto sink = websocket_sink.create(config, env_);
  ASSERT_TRUE(sink.ok()) << sink.error().detail;
  EXPECT_TRUE((*sink)->Write(*nvidia_.Tick(1, 1)).ok());
  EXPECT_TRUE((*sink)->Flush(env_.clock->Now() + std::chrono::seconds(1)).ok());
  config.Set("listen", std::vector<std::string>{"nowhere"}, {});
  EXPECT_FALSE(websocket_sink.create(config, env_).ok());
  Env none;
  EXPECT_EQ(websocket_sink.create(config, none).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(websocket_sink.on_by_default);
}

}  // namespace
}  // namespace gpulens
