// A fixture for tests of the HTTP client: a channel on a loop of its own.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/check.h"
#include "net/client/http_client.h"

namespace gpulens::testing {

class HttpChannelTest : public ::testing::Test {
 protected:
  void SetUp() override { loop.Start(); }
  void TearDown() override {
    loop.Call([this] { channel.reset(); });
  }

  void Open(const std::string& url, HttpResponseParser::Limits limits = {}, std::string unix_socket = {}) {
    auto parsed = ParseHttpUrl(url);
    CHECK(parsed.ok());
    channel = client.Open({*parsed, std::move(unix_socket), limits});
  }
  // Waits for one request, which `start` begins on the loop.
  HttpReply Wait(const std::function<void(HttpChannel::Done)>& start) {
    std::mutex mutex;
    std::condition_variable came;
    int calls = 0;
    HttpReply got;
    loop.Call([&] {
      start([&](HttpReply& reply) {
        std::lock_guard lock(mutex);
        got = std::move(reply);
        ++calls;
        came.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    came.wait_for(lock, std::chrono::seconds(30), [&] { return calls > 0; });
    lock.unlock();
    loop.Call([] {});  // a second call of `done` would have happened by now
    EXPECT_EQ(calls, 1);
    return got;
  }
  HttpReply Get(Duration timeout = std::chrono::seconds(20), std::shared_ptr<const TlsContext> tls = nullptr,
                std::string_view headers = "A: b\r\n") {
    return Wait([&](HttpChannel::Done done) {
      channel->Get({headers, tls, timeout, std::move(buffer)}, std::move(done));
    });
  }
  HttpReply Post(std::shared_ptr<const std::string> body, Duration timeout = std::chrono::seconds(20),
                 std::shared_ptr<const TlsContext> tls = nullptr) {
    return Wait([&](HttpChannel::Done done) {
      channel->Post({"Content-Type: a/b\r\n", std::move(body), tls, timeout, std::move(buffer)},
                    std::move(done));
    });
  }

  IoLoop loop;
  HttpClient client{loop};
  std::unique_ptr<HttpChannel> channel;
  std::string buffer;
};

}  // namespace gpulens::testing
