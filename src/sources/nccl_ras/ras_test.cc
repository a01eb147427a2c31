#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "net/blocking/listening_socket.h"
#include "sources/nccl_ras/ras_answer.h"
#include "sources/nccl_ras/ras_client.h"

namespace gpulens::nccl_ras {
namespace {

using job_page::Function;
using std::chrono::milliseconds;

constexpr char kReport[] =
    R"({"nccl_version":"2.30.4","communicators_count":1,"communicators":[{"hash":"0xabc",
 "secondary_hash":"0x1:0x2","size":4,"ranks_count":3,"missing_ranks_count":1,"ranks":[
 {"rank":0,"host":"node1","pid":100,"cuda_dev":0,"nvml_dev":0,"status":{"init_state":0,"async_error":0,
  "finalize_called":false,"destroy_flag":false,"abort_flag":false},"collective_counts":{"Broadcast":0,"AllReduce":12}},
 {"rank":1,"host":"node1","pid":101,"cuda_dev":1,"nvml_dev":1,"status":{"init_state":7,"async_error":"ncclInternalError"}},
 {"rank":9,"host":"node1"}],
 "missing_ranks":[{"rank":3,"host":"node2","pid":7,"status":{"unresponsive":true,"considered_dead":true}}]}],
 "ras":{"collection_time_sec":0.1,"timeouts_count":2}})";
constexpr char kEvent[] =
    R"({"timestamp":"2026-06-11","group":"lifecycle","event":"PEER_DEAD","peer":{"host":"node2","pid":7},"details":"x"})";

TEST(RasAnswer, ReadsAReport) {
  const auto report = ParseRasReport(kReport);
  ASSERT_TRUE(report.ok()) << report.status().detail;
  EXPECT_EQ(report->nccl_version, "2.30.4");
  EXPECT_EQ(report->timeouts, 2u);
  EXPECT_EQ(report->left_out, 1u);
  ASSERT_EQ(report->communicators.size(), 1u);
  const RasCommunicator& one = report->communicators[0];
  EXPECT_EQ(one.hash, 0xABCu);
  EXPECT_EQ(one.size, 4);
  ASSERT_EQ(one.ranks.size(), 2u);
  EXPECT_TRUE(one.ranks[0].ready);
  EXPECT_FALSE(one.ranks[0].error);
  EXPECT_EQ(one.ranks[0].counts[static_cast<size_t>(Function::kAllReduce)], 12u);
  EXPECT_FALSE(one.ranks[1].ready);
  EXPECT_TRUE(one.ranks[1].error);
  EXPECT_FALSE(one.ranks[1].has_counts);
  ASSERT_EQ(one.missing.size(), 1u);
  EXPECT_TRUE(one.missing[0].dead);
}

TEST(RasAnswer, RefusesWhatIsNone) {
  for (const char* bad : {"", "[]", "{}", "NCCL version 2.27", "{\"communicators\":["})
    EXPECT_EQ(ParseRasReport(bad).status().code, Code::kDataLoss) << bad;
  EXPECT_EQ(ParseRasReport(std::string(kLongestReport + 1, ' ')).status().code, Code::kExhausted);
  EXPECT_FALSE(ParseRasEvent("{\"group\":\"x\"}").ok());
}

TEST(RasAnswer, TakesObjectsOfAStream) {
  std::string text = "junk {\"a\":\"}\\\"\"}\n{\"b\":\n {}}{\"c\":";
  EXPECT_EQ(TakeJsonObject(text), "{\"a\":\"}\\\"\"}");
  EXPECT_EQ(TakeJsonObject(text), "{\"b\":\n {}}");
  EXPECT_EQ(TakeJsonObject(text), "");
  text += "1}";
  EXPECT_EQ(TakeJsonObject(text), "{\"c\":1}");
  text = "no object";
  EXPECT_EQ(TakeJsonObject(text), "");
  EXPECT_EQ(text, "");
}

// A RAS on the loopback address; `serve` handles one connection.
class FakeRas {
 public:
  using Serve = std::function<void(FakeRas& ras, int connection)>;
  explicit FakeRas(Serve serve) : serve_(std::move(serve)) {
    auto at = ParseListenAddress("127.0.0.1:0");
    auto socket = OpenListeningSocket(*at);
    EXPECT_TRUE(socket.ok());
    socket_ = *std::move(socket);
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    at_ = Endpoint::FromSockaddr(address, size);
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd polled{socket_.get(), POLLIN, 0};
        if (::poll(&polled, 1, 20) <= 0) continue;
        const int connection = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) continue;
        ++connections;
        connections_.emplace_back([this, connection] {
          UniqueFd own(connection);
          serve_(*this, connection);
        });
      }
    });
  }
  ~FakeRas() {
    stop_ = true;
    thread_.join();
    for (std::thread& one : connections_) one.join();
  }
  const Endpoint& at() const { return at_; }
  bool stopped() const { return stop_; }

  // The next line, or "" when the client has gone or the test ends.
  std::string Line(int connection) {
    std::string line;
    while (!stop_) {
      pollfd polled{connection, POLLIN, 0};
      if (::poll(&polled, 1, 20) <= 0) continue;
      char c = 0;
      if (::recv(connection, &c, 1, 0) <= 0) return {};
      if (c == '\n') return line;
      line += c;
    }
    return {};
  }
  static void Write(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t put = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      text.remove_prefix(static_cast<size_t>(put));
    }
  }
  // The greeting; returns the command.
  std::string Greet(int connection) {
    if (Line(connection) != "CLIENT PROTOCOL 2") return {};
    Write(connection, "SERVER PROTOCOL 2\n");
    Line(connection);
    Write(connection, "OK\n");
    if (Line(connection) != "SET FORMAT json") return {};
    Write(connection, "OK\n");
    return Line(connection);
  }
  std::atomic<int> connections{0};

 private:
  const Serve serve_;
  UniqueFd socket_;
  Endpoint at_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::vector<std::thread> connections_;
};

template <class Condition>
bool Wait(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

class RasClientTest : public ::testing::Test {
 protected:
  RasClientTest() { loop_.Start(); }
  RasClient::Options OptionsOf(const FakeRas& ras) {
    return {.at = ras.at(),
            .query_every = milliseconds(200),
            .answer_within = milliseconds(500),
            .greeting_within = milliseconds(300),
            .again_after = milliseconds(50)};
  }
  // The status of the first exchange that ended.
  Status StatusOf(FakeRas& ras) {
    RasClient client(loop_, OptionsOf(ras));
    Status status;
    EXPECT_TRUE(Wait([&] {
      status = client.Take().status;
      return status.detail != "RAS was not queried yet";
    }));
    return status;
  }
  IoLoop loop_;
};

TEST_F(RasClientTest, QueriesTheStateAndWatchesEvents) {
  FakeRas ras([](FakeRas& self, int connection) {
    const std::string command = self.Greet(connection);
    if (command == "VERBOSE STATUS") return FakeRas::Write(connection, kReport);
    if (command != "MONITOR") return;
    FakeRas::Write(connection, "OK\n");
    for (const char c : std::string(kEvent) + "\n") FakeRas::Write(connection, std::string_view(&c, 1));
    FakeRas::Write(connection, std::string(kEvent) + std::string(kEvent).substr(0, 20));
    self.Line(connection);
  });
  RasClient client(loop_, OptionsOf(ras));
  int reports = 0;
  std::vector<std::string> events;
  ASSERT_TRUE(Wait([&] {
    RasClient::Taken taken = client.Take();
    if (!taken.report.empty()) {
      ++reports;
      EXPECT_TRUE(ParseRasReport(taken.report).ok());
    }
    events.insert(events.end(), taken.events.begin(), taken.events.end());
    return reports >= 2 && events.size() >= 2;
  }));
  EXPECT_EQ(events.size(), 2u);
  const auto event = ParseRasEvent(events[1]);
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->name, "PEER_DEAD");
  EXPECT_EQ(event->pid, 7);
  EXPECT_TRUE(client.Take().status.ok());
  EXPECT_TRUE(client.Take().watches);
}

TEST_F(RasClientTest, ReportsWhatDoesNotWork) {
  {
    FakeRas old([](FakeRas& self, int connection) {
      self.Line(connection);
      FakeRas::Write(connection, "SERVER PROTOCOL 2\n");
      self.Line(connection);
      FakeRas::Write(connection, "OK\n");
      self.Line(connection);
      FakeRas::Write(connection, "ERROR: unknown command\n");
    });
    EXPECT_EQ(StatusOf(old).detail, "this RAS has no JSON: it needs NCCL 2.28.7");
  }
  {
    FakeRas silent([](FakeRas& self, int connection) {
      while (!self.Line(connection).empty()) {
      }
    });
    EXPECT_EQ(StatusOf(silent).code, Code::kTimeout);
  }
  {
    FakeRas other(
        [](FakeRas&, int connection) { FakeRas::Write(connection, "HTTP/1.1 400 Bad Request\r\n\r\n"); });
    EXPECT_EQ(StatusOf(other).code, Code::kDataLoss);
  }
  {
    FakeRas endless([](FakeRas& self, int connection) {
      const std::string piece(1 << 20, 'x');
      while (!self.stopped() && ::send(connection, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
      }
    });
    EXPECT_EQ(StatusOf(endless).code, Code::kDataLoss);
  }
  {
    FakeRas large([](FakeRas& self, int connection) {
      if (self.Greet(connection) != "VERBOSE STATUS") return;
      const std::string piece(1 << 20, ' ');
      for (int i = 0; i < 12; ++i) FakeRas::Write(connection, piece);
    });
    EXPECT_EQ(StatusOf(large).detail, "the answer of RAS is too long");
  }
  {
    FakeRas slow([](FakeRas& self, int connection) {
      if (self.Greet(connection) != "VERBOSE STATUS") return;
      FakeRas::Write(connection, "{");
      self.Line(connection);
    });
    EXPECT_EQ(StatusOf(slow).detail, "RAS does not finish its answer");
  }
}

TEST_F(RasClientTest, NothingListensAndThenSomethingDoes) {
  Endpoint at;
  {
    FakeRas gone([](FakeRas&, int) {});
    at = gone.at();
    at.port = gone.at().port;
  }
  RasClient client(loop_, {.at = at, .query_every = milliseconds(100), .again_after = milliseconds(50)});
  EXPECT_TRUE(Wait([&] { return client.Take().status.code == Code::kUnavailable; }));
}

}  // namespace
}  // namespace gpulens::nccl_ras
