// Random faults of clients, upstreams and policies at once, by a seed. Whatever happens: every exchange ends
// exactly once, a client gets a prefix of its own answer's payload and nothing else, what looks whole is
// whole, and nothing is left over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "net/relay/relay_fixture.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using testing::ChunkedBody;
using testing::Eventually;
using testing::ReadChunks;
using testing::RelayRecord;
using testing::ScriptedServer;
using testing::TestClient;
using Peer = ScriptedServer::Peer;
using Random = std::minstd_rand;

size_t Pick(Random& random, size_t below) { return random() % below; }

// The answer's payload of a request: known from its number.
std::string PayloadOf(size_t number) {
  Random random(static_cast<Random::result_type>(number * 7919 + 1));
  const size_t sizes[] = {0, 1, 50, 2000, 70'000, 300'000};
  std::string payload(sizes[Pick(random, std::size(sizes))], '\0');
  for (char& c : payload) c = static_cast<char>('a' + random() % 26);
  return payload;
}

size_t NumberIn(std::string_view head) {
  const size_t at = head.find("/n/");
  if (at == std::string_view::npos) return 0;
  std::string_view rest = head.substr(at + 3);
  return ParseInt<size_t>(TakeUntil(rest, ' ')).value_or(0);
}

// Answers with the request's payload in some framing, or fails somewhere on the way.
void FaultyUpstream(Peer& peer, Random& random) {
  for (int i = 0; i < 8; ++i) {
    const std::string head = peer.Head();
    if (head.empty()) return;
    if (Pick(random, 12) == 0) return;  // without reading the body
    peer.Body(head);
    const std::string payload = PayloadOf(NumberIn(head));
    const size_t framing = Pick(random, 3);
    std::string answer = "HTTP/1.1 " + std::string(Pick(random, 8) == 0 ? "503 Busy" : "200 OK") + "\r\n";
    if (Pick(random, 6) == 0) answer = "HTTP/1.1 100 Continue\r\n\r\n" + answer;
    if (framing == 0) {
      answer += "Content-Length: " + std::to_string(payload.size()) + "\r\n\r\n" + payload;
    } else if (framing == 1) {
      answer += "Transfer-Encoding: chunked\r\n\r\n";
      for (size_t at = 0; at < payload.size();) {
        const size_t size = std::min(payload.size() - at, 1 + Pick(random, 9000));
        char hex[24];
        std::snprintf(hex, sizeof hex, "%zx\r\n", size);
        answer += hex + payload.substr(at, size) + "\r\n";
        at += size;
      }
      answer += "0\r\n\r\n";
    } else {
      answer += "\r\n" + payload;
    }
    size_t until = answer.size();
    const size_t fault = Pick(random, 6);
    // A body that ends with the connection looks like one that is cut.
    if (fault < 2 && framing < 2) until = Pick(random, answer.size());
    if (fault == 2 && Pick(random, 2) == 0) answer = "garbage\r\n" + answer;
    for (size_t at = 0; at < until;) {
      const size_t size = std::min(until - at, Pick(random, 4) == 0 ? 1 + Pick(random, 200) : size_t{50'000});
      if (!peer.Write(std::string_view(answer).substr(at, size))) return;
      at += size;
      if (Pick(random, 8) == 0) testing::Pause(1ms);
    }
    if (until < answer.size()) {
      if (fault == 0) peer.CloseWithReset();
      if (fault == 1) peer.Linger();  // silent until the relay gives up
      return;
    }
    if (framing == 2) return;
  }
}

struct Seen {
  bool whole = false;
  std::string payload;
};

Seen ReadAnswer(TestClient& client, bool http10, bool& is_relayed) {
  const testing::Answer head = client.Read(true);
  is_relayed = head.Header("X-Frame-Options").empty();  // the relay's own answers have it
  if (head.status == 0) return {};
  if (!head.Header("Transfer-Encoding").empty()) {
    ChunkedBody body = ReadChunks(client);
    return {body.whole, std::move(body.payload)};
  }
  if (const auto length = ParseInt<size_t>(head.Header("Content-Length"))) {
    Seen seen{false, client.ReadBytes(*length)};
    seen.whole = seen.payload.size() == *length;
    return seen;
  }
  // Its end and its cut look different only in how the connection ends, which is tested elsewhere.
  EXPECT_TRUE(http10);
  return {false, client.ReadAll()};
}

class RelayFaultTest : public testing::RelayTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(RelayFaultTest, EveryExchangeEndsOnce) {
  const unsigned seed = GetParam();
  ScriptedServer upstream([seed](Peer& peer, int number) {
    Random random(seed * 1000 + static_cast<unsigned>(number) + 1);
    FaultyUpstream(peer, random);
  });
  Random of_policy(seed + 77);
  std::vector<IoLoop::TimerId> timers;
  policy.on_request = [&](const RelayRequest&, RelayHandle handle) {
    const auto forward = [this, handle] {
      RelayForward to;
      to.upstream = policy.upstream;
      handle.Forward(to);
    };
    const size_t what = Pick(of_policy, 12);
    if (what == 0) handle.Answer(HttpResponse::Text(403, "no"));
    else if (what == 1) loop.After(1ms, forward);
    else if (what == 2) loop.Post(forward);
    else forward();
  };
  policy.on_head = [&](const RelayHead& head, RelayPass& pass, RelayHandle handle) {
    const size_t what = Pick(of_policy, 10);
    pass.write_first = what < 4;
    pass.same_length = what % 2 == 0;
    if (head.status() != 503) return;
    if (what < 3) return handle.Answer(HttpResponse::Text(503, "instead"));
    RelayForward to;
    to.upstream = policy.upstream;
    if (what < 6) handle.Forward(to);
  };
  policy.on_body = [&](std::string_view piece, RelayOutput& output, RelayHandle handle) {
    output.Pass(piece);
    const size_t what = Pick(of_policy, 60);
    if (what == 0) handle.Abort();
    if (what > 3) return;
    output.Hold();
    if (what == 1) handle.Resume();
    else loop.After(2ms, [handle] { handle.Resume(); });
  };
  policy.on_body_end = [&](RelayOutput& output, RelayHandle handle) {
    if (Pick(of_policy, 4) != 0) return;
    output.Hold();
    loop.Post([handle] { handle.Resume(); });
  };
  policy.on_failed = [&](const RelayAttempt& attempt, RelayHandle handle) {
    if (attempt.dispatched || Pick(of_policy, 2) == 0) return;
    RelayForward to;
    to.upstream = policy.upstream;
    handle.Forward(to);
  };
  policy.on_gone = [&] {
    return Pick(of_policy, 2) == 0 ? RelayDrain{} : RelayDrain{.bytes = 100'000, .time = 20ms};
  };
  RelayOptions options;
  options.limits.client_body = 60ms;
  options.limits.client_write = 60ms;
  options.limits.linger = 30ms;
  Serve(upstream.Url(""),
        {.max_connections = 6,
         .max_idle = 2,
         .head = 40ms,
         .between = 40ms,
         .circuit = {.failures = 12, .open_for = 5ms}},
        std::move(options));

  std::atomic<int> whole{0}, cut{0}, own{0};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(seed * 100 + thread + 1);
      for (size_t i = 0; i < 60; ++i) {
        TestClient client(at);
        const size_t requests = 1 + Pick(random, 3);
        for (size_t k = 0; k < requests; ++k) {
          const size_t number = 1 + Pick(random, 1'000'000);
          const bool http10 = Pick(random, 6) == 0;
          const std::string path = "/n/" + std::to_string(number);
          std::string text = "GET " + path + (http10 ? " HTTP/1.0\r\n\r\n" : " HTTP/1.1\r\nHost: a\r\n\r\n");
          if (Pick(random, 2) == 0) {
            const std::string body(Pick(random, 2) == 0 ? 10 : 200'000, 'b');
            text = "POST " + path + (http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\nHost: a\r\n") +
                   "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
          }
          const size_t fault = Pick(random, 10);
          if (fault == 0) {
            client.Send(text.substr(0, Pick(random, text.size())));
            break;  // leaves
          }
          client.Send(text);
          if (fault == 1) break;
          if (fault == 2) {
            client.ReadBytes(1 + Pick(random, 30));
            const linger now{1, 0};
            if (Pick(random, 2) == 0) ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
            break;
          }
          if (fault == 3) testing::Pause(std::chrono::milliseconds(Pick(random, 100)));
          bool is_relayed = false;
          const Seen seen = ReadAnswer(client, http10, is_relayed);
          if (is_relayed) {
            const std::string payload = PayloadOf(number);
            EXPECT_TRUE(payload.starts_with(seen.payload))
                << "seed " << seed << " request " << number << ": " << seen.payload.substr(0, 100);
            EXPECT_TRUE(!seen.whole || payload == seen.payload) << "seed " << seed << " request " << number;
          }
          ++(is_relayed ? seen.whole ? whole : cut : own);
          if (!seen.whole) break;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return server->stats().connections == 0; }));
  EXPECT_TRUE(Eventually([&] { return policy.ended().size() == policy.begun(); }));
  EXPECT_EQ(server->stats().streams, 0u);
  EXPECT_EQ(server->stats().arriving, 0u);
  EXPECT_TRUE(Eventually([&] { return Open() == Idle(); }));  // upstreams close idle ones meanwhile
  EXPECT_LE(Idle(), 2u);
  // The faults did not drown the rest.
  EXPECT_GT(whole, 20);
  EXPECT_GT(cut, 5);
  EXPECT_GT(own, 5);
  size_t ends[kRelayEnds] = {};
  for (const RelayRecord& record : policy.ended()) {
    EXPECT_EQ(record.ends, 1);
    ++ends[static_cast<size_t>(record.outcome.end)];
    EXPECT_TRUE(record.outcome.end != RelayEnd::kComplete || record.outcome.answer_whole);
  }
  for (RelayEnd end : {RelayEnd::kComplete, RelayEnd::kUpstreamFailed, RelayEnd::kClientGone})
    EXPECT_GT(ends[static_cast<size_t>(end)], 0u) << RelayEndName(end);
  upstream.DropConnections();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RelayFaultTest, ::testing::Values(1u, 2u, 3u, 4u));

}  // namespace
}  // namespace gpulens
