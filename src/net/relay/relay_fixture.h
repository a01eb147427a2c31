// For tests of the relay: a policy made of functions, a relay with one upstream on a loop of its own, and
// readers of what a client gets.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "net/relay/relay_server.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens::testing {

// What a test sees of an ended exchange.
struct RelayRecord {
  RelayOutcome outcome;
  std::string detail;
  std::string seen;  // by OnBody
  std::vector<RelayFailure> failures;
  int ends = 0;
};

// Each function may be empty. They run on the loop's thread.
class FunctionPolicy final : public RelayPolicy {
 public:
  class Exchange;
  std::function<void(const RelayRequest&, RelayHandle)> on_begin;
  std::function<void(const RelayRequest&, RelayHandle)> on_request;  // empty: forwards to `upstream`
  std::function<void(const RelayHead&, RelayPass&, RelayHandle)> on_head;
  std::function<void(std::string_view, RelayOutput&, RelayHandle)> on_body;
  std::function<void(RelayOutput&, RelayHandle)> on_body_end;
  std::function<void(RelayOutput&)> on_resume;
  std::function<void(const RelayAttempt&, RelayHandle)> on_failed;
  std::function<void(const RelayAttempt&, RelayOutput&)> on_cut;
  std::function<RelayDrain()> on_gone;
  std::function<void(const RelayHead&, HttpResponse&)> on_refuse;
  Ref<UpstreamPool> upstream;
  bool inspect = false, same_length = false;

  std::unique_ptr<RelayExchange> Begin(const RelayRequest& request, RelayHandle handle) override;
  void Refuse(const RelayHead& head, HttpResponse& refusal) override {
    if (on_refuse) on_refuse(head, refusal);
  }
  std::vector<RelayRecord> ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  size_t begun() const noexcept { return begun_; }
  size_t alive() const noexcept { return alive_; }

 private:
  mutable std::mutex mutex_;
  std::vector<RelayRecord> ended_;
  std::atomic<size_t> begun_{0}, alive_{0};
};

class FunctionPolicy::Exchange final : public RelayExchange {
 public:
  Exchange(FunctionPolicy& policy, RelayHandle handle) : policy_(policy), handle_(std::move(handle)) {
    ++policy_.alive_;
  }
  ~Exchange() override {
    EXPECT_EQ(record_.ends, 1);
    --policy_.alive_;
  }
  void OnRequest(const RelayRequest& request) override {
    if (policy_.on_request) return policy_.on_request(request, handle_);
    RelayForward forward;
    forward.upstream = policy_.upstream;
    handle_.Forward(forward);
  }
  void OnUpstreamHead(const RelayHead& head, RelayPass& pass) override {
    pass.write_first = !policy_.inspect;
    pass.same_length = policy_.same_length;
    if (policy_.on_head) policy_.on_head(head, pass, handle_);
  }
  void OnBody(std::string_view piece, RelayOutput& output) override {
    EXPECT_EQ(record_.ends, 0);
    record_.seen += piece;
    if (policy_.on_body) policy_.on_body(piece, output, handle_);
    else output.Pass(piece);
  }
  void OnBodyEnd(RelayOutput& output) override {
    if (policy_.on_body_end) policy_.on_body_end(output, handle_);
  }
  void OnResume(RelayOutput& output) override {
    if (policy_.on_resume) policy_.on_resume(output);
  }
  void OnAttemptFailed(const RelayAttempt& attempt) override {
    record_.failures.push_back(attempt.failure);
    if (policy_.on_failed) policy_.on_failed(attempt, handle_);
  }
  void OnCut(const RelayAttempt& attempt, RelayOutput& output) override {
    if (policy_.on_cut) policy_.on_cut(attempt, output);
  }
  RelayDrain OnClientGone() override { return policy_.on_gone ? policy_.on_gone() : RelayDrain{}; }
  void OnEnd(const RelayOutcome& outcome) override {
    ++record_.ends;
    record_.outcome = outcome;
    record_.detail = outcome.detail;
    std::lock_guard lock(policy_.mutex_);
    policy_.ended_.push_back(record_);
  }

 private:
  FunctionPolicy& policy_;
  RelayHandle handle_;
  RelayRecord record_;
};

inline std::unique_ptr<RelayExchange> FunctionPolicy::Begin(const RelayRequest& request, RelayHandle handle) {
  ++begun_;
  auto made = std::make_unique<Exchange>(*this, handle);
  if (on_begin) on_begin(request, handle);
  return made;
}

// For a client or an upstream that is slow.
inline void Pause(std::chrono::milliseconds time) { ::poll(nullptr, 0, static_cast<int>(time.count())); }

struct ChunkedBody {
  std::string payload, trailers;
  bool whole = false;
  std::vector<size_t> chunks;
};

// The chunked body that follows a head which was read with `head_only`.
inline ChunkedBody ReadChunks(TestClient& client) {
  ChunkedBody body;
  const auto line = [&client] {
    std::string text;
    while (!text.ends_with("\r\n")) {
      const std::string byte = client.ReadBytes(1);
      if (byte.empty()) return std::string();
      text += byte;
    }
    return text;
  };
  for (;;) {
    std::string size = line();
    if (size.size() < 3) return body;
    const auto bytes = ParseInt<size_t>(std::string_view(size).substr(0, size.size() - 2), 16);
    if (!bytes) return body;
    if (*bytes == 0) break;
    std::string data = client.ReadBytes(*bytes);
    body.payload += data;
    if (data.size() < *bytes || client.ReadBytes(2) != "\r\n") return body;
    body.chunks.push_back(*bytes);
  }
  for (std::string field = line(); field != "\r\n"; field = line()) {
    if (field.empty()) return body;
    body.trailers += field;
  }
  body.whole = true;
  return body;
}

class RelayTest : public ::testing::Test {
 protected:
  void SetUp() override { loop.Start(); }
  void TearDown() override {
    server = nullptr;
    EXPECT_EQ(policy.alive(), 0u);
    loop.Call([this] { policy.upstream = nullptr; });
    EXPECT_EQ(policy.ended().size(), policy.begun());
  }

  Ref<UpstreamPool> Pool(const std::string& url, UpstreamOptions options = {}) {
    auto parsed = ParseHttpUrl(url);
    CHECK(parsed.ok());
    options.url = *parsed;
    Ref<UpstreamPool> made;
    loop.Call([&] { made = MakeRef<UpstreamPool>(loop, std::move(options)); });
    return made;
  }
  void Serve(const std::string& url, UpstreamOptions upstream = {}, RelayOptions options = {}) {
    policy.upstream = Pool(url, std::move(upstream));
    Serve(std::move(options));
  }
  void Serve(RelayOptions options) {
    server = std::make_unique<RelayServer>(loop, policy, std::move(options));
    auto listening = server->Listen(*ParseListenAddress("127.0.0.1:0"));
    CHECK(listening.ok());
    at = *listening;
  }
  // The ends of exchanges, when there are `count`.
  std::vector<RelayRecord> Ended(size_t count) {
    Eventually([&] { return policy.ended().size() >= count; });
    return policy.ended();
  }
  size_t Idle() {
    size_t idle = 0;
    loop.Call([&] { idle = policy.upstream->idle(); });
    return idle;
  }
  size_t Open() {
    size_t open = 0;
    loop.Call([&] { open = policy.upstream->connections(); });
    return open;
  }

  IoLoop loop;
  FunctionPolicy policy;
  std::unique_ptr<RelayServer> server;
  Endpoint at;
};

inline std::string Get(const std::string& path, const std::string& fields = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: client\r\n" + fields + "\r\n";
}
inline std::string Post(const std::string& body, const std::string& fields = {}) {
  return "POST /v1/x HTTP/1.1\r\nHost: client\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace gpulens::testing
