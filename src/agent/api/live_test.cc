#include "agent/api/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>

#include "base/json.h"
#include "base/text.h"
#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "core/series_table.h"
#include "net/testing/test_client.h"
#include "net/websocket/websocket_testing.h"

namespace gpulens {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadFrame;
using ::testing::StartsWith;
using testing::TestClient;

// What a client knows: the messages of docs/api.md, applied in their order.
struct ClientModel {
  std::map<int64_t, std::string> series;  // their JSON
  std::map<int64_t, double> values, stale;
  std::map<std::string, double> read;
  double tick = 0, at = 0, layout = 0;
  std::string node;

  bool operator==(const ClientModel&) const = default;

  void Take(const std::string& message) {
    JsonScanner json(message);
    std::string type;
    std::vector<double> v, ages, fresh, gone, removed;
    std::map<int64_t, std::string> listed;
    bool lists = false;
    json.Object([&](std::string_view key) {
      if (key == "type") type = json.Text();
      else if (key == "tick") tick = json.Double().value();
      else if (key == "at") at = json.Double().value();
      else if (key == "layout") layout = json.Double().value();
      else if (key == "node") node = Raw(json, message);
      else if (key == "v") v = Numbers(json);
      else if (key == "stale") ages = Numbers(json);
      else if (key == "fresh") fresh = Numbers(json);
      else if (key == "gone") gone = Numbers(json);
      else if (key == "remove") removed = Numbers(json);
      else if (key == "series" || key == "add") lists = true, listed = Series(json, message);
      else if (key == "read") TakeRead(json);
    });
    ASSERT_TRUE(json.Finish().ok()) << message;
    if (type == "full") {
      ASSERT_TRUE(lists);
      series.clear(), values.clear(), stale.clear();
    }
    for (auto& [id, text] : listed) {
      ASSERT_FALSE(series.contains(id)) << "an id is never used again";
      series[id] = text;
    }
    for (double id : removed) {
      ASSERT_TRUE(series.erase(static_cast<int64_t>(id)));
      values.erase(static_cast<int64_t>(id)), stale.erase(static_cast<int64_t>(id));
    }
    for (size_t i = 0; i + 1 < v.size(); i += 2) values[Known(v[i])] = v[i + 1];
    for (size_t i = 0; i + 1 < ages.size(); i += 2) stale[Known(ages[i])] = ages[i + 1];
    for (double id : fresh) ASSERT_TRUE(stale.erase(Known(id))) << "it was not stale";
    for (double id : gone) ASSERT_TRUE(values.erase(Known(id))) << "it had no value";
  }

 private:
  int64_t Known(double id) const {
    EXPECT_TRUE(series.contains(static_cast<int64_t>(id))) << id;
    return static_cast<int64_t>(id);
  }
  static std::string Raw(JsonScanner& json, const std::string& text) {
    static_cast<void>(json.Peek());
    const size_t begin = json.at();
    EXPECT_TRUE(json.Skip());
    return text.substr(begin, json.at() - begin);
  }
  static std::vector<double> Numbers(JsonScanner& json) {
    std::vector<double> numbers;
    json.Array([&] { numbers.push_back(json.Double().value()); });
    return numbers;
  }
  static std::map<int64_t, std::string> Series(JsonScanner& json, const std::string& text) {
    std::map<int64_t, std::string> found;
    json.Array([&] {
      const std::string raw = Raw(json, text);
      JsonScanner one(raw);
      one.Object([&](std::string_view key) {
        if (key == "id") found[static_cast<int64_t>(one.Unsigned().value())] = raw;
      });
    });
    return found;
  }
  void TakeRead(JsonScanner& json) {
    json.Object([&](std::string_view source) {
      const std::string name(source);
      if (json.Peek() == JsonScanner::kNull) {
        EXPECT_TRUE(json.Skip());
        EXPECT_TRUE(read.erase(name)) << name;
      } else {
        read[name] = json.Double().value();
      }
    });
  }
};

// A node whose series, values and sources change at random.
class RandomNode {
 public:
  explicit RandomNode(uint32_t seed) : random_(seed) {
    now_.node = AttributeSet({{"host.name", std::string_view("a\"<b>\n")}});
    Relist();
  }

  const History::Current& now() const { return now_; }

  void Tick() {
    ++now_.tick;
    now_.unix_ms += 1000;
    if (Chance(5)) Relist();
    const double values[] = {0, 1.5, -2, 1e300, 0.1 + 0.2};
    for (size_t i = 0; i < now_.values.size(); ++i) {
      if (Chance(3)) now_.values[i] = Chance(4) ? kNotMeasured : values[random_() % std::size(values)];
      if (Chance(4)) now_.stale_ms[i] = Chance(2) ? 0 : 1 + Below(5000);
    }
    for (auto& [name, ms] : now_.read) {
      if (Chance(2)) ms = now_.unix_ms;
    }
  }

 private:
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  bool Chance(uint32_t one_in) { return Below(one_in) == 0; }

  // Series and sources go and come; those that stay keep what they have.
  void Relist() {
    auto series = std::make_shared<std::vector<KeptSeries>>();
    std::vector<double> values;
    std::vector<uint32_t> stale, sources;
    for (size_t i = 0; i < now_.values.size(); ++i) {
      if (Chance(4)) continue;
      series->push_back((*now_.series)[i]);
      values.push_back(now_.values[i]);
      stale.push_back(now_.stale_ms[i]);
      sources.push_back(0);
    }
    for (uint32_t i = Below(6); i > 0; --i) {
      KeptSeries fresh;
      fresh.id = next_id_++;
      fresh.name = "gpu.power.draw";
      fresh.attributes =
          AttributeSet({{"gpu.index", static_cast<int64_t>(fresh.id)}, {"k", std::string_view("\xff\"")}});
      fresh.source = "nvidia";
      series->push_back(fresh);
      values.push_back(Chance(3) ? kNotMeasured : fresh.id);
      stale.push_back(Chance(3) ? 7 : 0);
      sources.push_back(0);
    }
    now_.series = series;
    now_.values = values, now_.stale_ms = stale, now_.sources = sources;
    ++now_.layout;
    now_.read.clear();
    for (const char* name : {"nvidia", "host", "targets/\"odd\"", "self"}) {
      if (!Chance(3)) now_.read.emplace_back(name, now_.unix_ms);
    }
    if (Chance(2)) std::reverse(now_.read.begin(), now_.read.end());
  }

  std::mt19937 random_;
  History::Current now_;
  uint32_t next_id_ = 0;
};

// The messages of some ticks, applied to the full message, are the later full message.
TEST(LiveDelta, AppliedToTheFullMessageIsTheNextOne) {
  History history{{}};
  const NodeReadings readings{&history, [] { return Ref<const Snapshot>(); }, &RealClock(), false,
                              [] { return Duration(std::chrono::seconds(1)); }};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomNode node(seed);
    node.Tick();
    ClientModel client;
    client.Take(NowJson(readings, node.now(), true));
    for (int i = 0; i < 20; ++i) {
      const History::Current before = node.now();
      node.Tick();
      for (const std::string& message : LiveDelta(before, node.now())) client.Take(message);
      ClientModel whole;
      whole.Take(NowJson(readings, node.now(), true));
      ASSERT_EQ(client, whole);
      if (::testing::Test::HasFailure()) return;
      // A client that comes between a tick and its messages gets these once more.
      for (const std::string& message : LiveDelta(node.now(), node.now())) FAIL() << message;
    }
  }
}

TEST(LiveDelta, HasOnlyWhatChanged) {
  History::Current before;
  auto series = std::make_shared<std::vector<KeptSeries>>(3);
  for (uint32_t i = 0; i < 3; ++i) (*series)[i].id = i;
  before.series = series;
  before.tick = 1, before.unix_ms = 5, before.layout = 2;
  before.values = {1, 2, 3};
  before.stale_ms = {0, 9, 0};
  before.read = {{"a", 5}, {"b", 5}, {"", 5}};
  History::Current after = before;
  EXPECT_TRUE(LiveDelta(before, after).empty());
  after.tick = 2, after.unix_ms = 6;
  EXPECT_EQ(LiveDelta(before, after), std::vector<std::string>{R"({"type":"tick","tick":2,"at":6})"});
  after.values = {1, kNotMeasured, 4};
  after.stale_ms = {8, 0, 0};
  after.read = {{"b", 6}, {"", 6}};  // an empty name is no source
  EXPECT_EQ(
      LiveDelta(before, after),
      std::vector<std::string>{
          R"({"type":"tick","tick":2,"at":6,"read":{"b":6,"a":null},"v":[2,4],"stale":[0,8],"fresh":[1],"gone":[1]})"});
}

// A GPU whose power the test sets, an HTTP server, and clients.
class LiveServerTest : public ::testing::Test, public HttpHandler {
 protected:
  LiveServerTest() {
    loop_.Start();
    power_ = table_.Declare(kGpuPowerDraw,
                            MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}})));
    live_ = std::make_unique<LiveServer>(loop_, readings_, 50);
    http_ = std::make_unique<HttpServer>(loop_, *this, HttpServer::Options{});
    at_ = *http_->Listen(*ParseListenAddress("127.0.0.1:0"));
  }
  ~LiveServerTest() override {
    http_ = nullptr;
    live_ = nullptr;
    loop_.Stop();
  }
  void Tick(double power, const char* host = "n1") {
    writer_.Begin({ticks_ * 1'000'000'000, 1'700'000'000'000'000'000 + ticks_ * 1'000'000'000});
    writer_.Set(power_, power);
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->closed_at = {ticks_ * 1'000'000'000, 1'700'000'000'000'000'000 + ticks_ * 1'000'000'000};
    snapshot->tick = static_cast<uint64_t>(++ticks_);
    snapshot->resource = AttributeSet({{"host.name", std::string_view(host)}});
    snapshot->frames.push_back({writer_.Finish(), "nvidia"});
    {
      std::lock_guard lock(mutex_);
      latest_ = snapshot;
    }
    history_.Observe(*snapshot);
    live_->Tick();
  }
  TestClient Connect() {
    const size_t before = live_->clients();
    TestClient client(at_);
    client.Send(std::string(testing::kHandshake) + "\r\n");
    EXPECT_EQ(client.Read().status, 101);
    EXPECT_TRUE(Eventually([&] { return live_->clients() > before; }));
    return client;
  }

  IoLoop loop_;
  History history_{{}};
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10), "nvidia"};
  Series power_;
  int64_t ticks_ = 0;
  std::mutex mutex_;
  Ref<const Snapshot> latest_;
  std::atomic<int> interval_{1};
  const NodeReadings readings_{&history_,
                               [this] {
                                 std::lock_guard lock(mutex_);
                                 return latest_;
                               },
                               &RealClock(), true,
                               [this] { return Duration(std::chrono::seconds(interval_)); }};
  std::unique_ptr<LiveServer> live_;
  std::unique_ptr<HttpServer> http_;
  Endpoint at_;

 private:
  void Handle(const HttpRequest&, HttpResponder responder) override {
    responder.Send(HttpResponse::Text(404, "no"));
  }
  HttpUpgrader* UpgraderOf(const HttpRequest&) override { return &live_->upgrader(); }
};

TEST_F(LiveServerTest, FullThenWhatChanged) {
  Tick(500);
  TestClient client = Connect();
  const std::string full = ReadFrame(client).payload;
  EXPECT_THAT(full, StartsWith("{\"schema\":\"gpulens.now/1\",\"type\":\"full\","));
  EXPECT_THAT(full, HasSubstr("\"v\":[0,500]"));
  Tick(500);
  EXPECT_THAT(ReadFrame(client).payload, Not(HasSubstr("\"v\"")));
  Tick(612.5);
  const std::string tick = ReadFrame(client).payload;
  EXPECT_THAT(tick, StartsWith("{\"type\":\"tick\",\"tick\":3,"));
  EXPECT_THAT(tick, HasSubstr("\"v\":[0,612.5]"));
  live_->Event("{\"name\":\"gpu.xid\"}");
  EXPECT_EQ(ReadFrame(client).payload, "{\"type\":\"event\",\"event\":{\"name\":\"gpu.xid\"}}");
}

TEST_F(LiveServerTest, NothingIsMadeWithoutClients) {
  Tick(500);
  Tick(501);
  EXPECT_FALSE(history_.stats().begun) << "the history begins with a reader";
  live_->Event("{}");
  {
    TestClient client = Connect();
  }
  EXPECT_TRUE(history_.stats().begun);
  ASSERT_TRUE(Eventually([&] { return live_->clients() == 0; }));
  Tick(502);
  TestClient later = Connect();
  EXPECT_THAT(ReadFrame(later).payload, HasSubstr("\"v\":[0,502]")) << "not what the earlier client had";
  Tick(503);
  EXPECT_THAT(ReadFrame(later).payload, HasSubstr("\"v\":[0,503]"));
}

TEST_F(LiveServerTest, BeforeTheFirstTickAClientWaits) {
  TestClient client = Connect();
  Tick(500);
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"type\":\"full\""));
  Tick(501);
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"type\":\"tick\""));
}

TEST_F(LiveServerTest, AnotherIntervalOrMachineIsSentWhole) {
  Tick(500);
  TestClient client = Connect();
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"interval_s\":1,"));
  interval_ = 5;
  Tick(501);
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"interval_s\":5,"));
  Tick(502, "other");
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"host.name\":\"other\""));
  Tick(503, "other");
  EXPECT_THAT(ReadFrame(client).payload, HasSubstr("\"type\":\"tick\""));
}

TEST_F(LiveServerTest, ManyClientsGetTheSame) {
  Tick(500);
  std::vector<TestClient> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(Connect());
  TestClient refused(at_);
  refused.Send(std::string(testing::kHandshake) + "\r\n");
  EXPECT_EQ(refused.Read().status, 503) << "one more than the limit";
  Tick(501);
  std::string full = ReadFrame(clients[0]).payload, tick = ReadFrame(clients[0]).payload;
  for (size_t i = 1; i < clients.size(); ++i) {
    EXPECT_EQ(ReadFrame(clients[i]).payload, full);
    EXPECT_EQ(ReadFrame(clients[i]).payload, tick);
  }
}

// Clients come and go while ticks are made by another thread: each sees ticks that follow each other without
// a gap.
TEST_F(LiveServerTest, NoTickIsMissedWhileConnecting) {
  Tick(0);
  std::atomic<bool> end{false};
  std::thread ticking([&] {
    for (int i = 1; !end; ++i) {
      Tick(i);
      testing::ShortPause();
    }
  });
  for (int round = 0; round < 30; ++round) {
    TestClient client(at_);
    client.Send(std::string(testing::kHandshake) + "\r\n");
    ASSERT_EQ(client.Read().status, 101);
    ClientModel model;
    model.Take(ReadFrame(client).payload);
    double last = model.tick;
    for (int i = 0; i < 5; ++i) {
      model.Take(ReadFrame(client).payload);
      ASSERT_LE(model.tick, last + 1);
      last = std::max(last, model.tick);
      ASSERT_EQ(model.values.at(0), model.tick - 1) << "the value of that tick";
    }
  }
  end = true;
  ticking.join();
}

}  // namespace
}  // namespace gpulens
