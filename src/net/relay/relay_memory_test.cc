// What an idle stream costs, and an event of one that runs. The bench measures 10,000 streams.
#include <gtest/gtest.h>

#include <semaphore>
#include <string>

#include "base/testing/allocations.h"
#include "net/relay/relay_fixture.h"
#include "net/relay/relay_idle_streams.h"

namespace gpulens {
namespace {

TEST(RelayMemory, AnIdleStreamTakesLittle) {
  testing::FunctionPolicy policy;
  const testing::IdleStreams measured = testing::MeasureIdleStreams(policy, policy.upstream, 1000);
  EXPECT_EQ(measured.streams, 1000u);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory is not ours";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer's memory is not ours";
#endif
#endif
  EXPECT_LT(measured.bytes_each, 20 * 1024);
  RecordProperty("bytes_each", static_cast<int>(measured.bytes_each));
}

using RelayEvents = testing::RelayTest;

TEST_F(RelayEvents, AnEventAllocatesNothing) {
  constexpr int kFirst = 100, kEvents = 1000;
  const std::string event = "9\r\ndata: a\n\n\r\n";
  std::counting_semaphore<> go(0);
  testing::ScriptedServer upstream([&](testing::ScriptedServer::Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < kFirst + kEvents; ++i) {
      go.acquire();
      peer.Write(event);
    }
    peer.Write("0\r\n\r\n");
  });
  policy.inspect = true;
  policy.on_body = [](std::string_view piece, RelayOutput& output, RelayHandle) { output.Pass(piece); };
  Serve(upstream.Url(""));
  testing::TestClient client(at);
  client.Send(testing::Get("/"));
  EXPECT_EQ(client.Read(true).status, 200);
  // One by one, so that each is a read and a write of its own.
  const auto pass = [&](int count) {
    for (int i = 0; i < count; ++i) {
      go.release();
      ASSERT_EQ(client.ReadBytes(event.size()), event);
    }
  };
  const auto allocations = [this] {
    uint64_t count = 0;
    loop.Call([&] { count = ThreadAllocations(); });
    return count;
  };
  pass(kFirst);
  const uint64_t before = allocations();
  pass(kEvents);
  // The policy of this test grows a text now and then, and a Call has its task.
  EXPECT_LT(allocations() - before, kEvents / 50);
  EXPECT_EQ(client.ReadBytes(5), "0\r\n\r\n");
}

}  // namespace
}  // namespace gpulens
