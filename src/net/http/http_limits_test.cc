// What the server does with clients that are slow, half-open, too many or too big; and with TLS and
// passwords.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/testing/temp_folder.h"
#include "net/http/http_server.h"
#include "net/testing/certificates.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::TestClient;

constexpr const char* kHashOfSecret = "$2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK";
constexpr const char* kGetHello = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

class HttpLimitsTest : public ::testing::Test {
 protected:
  HttpLimitsTest() {
    router_.Add("/hello", "GET", [](const HttpRequest& request, HttpResponder responder) {
      responder.Send(HttpResponse::Text(200, request.tls() ? "hello over TLS" : "hello"));
    });
    router_.Add("/post", "POST", [](const HttpRequest&, HttpResponder responder) {
      responder.Send(HttpResponse::Text(200, "posted"));
    });
    router_.Add("/big", "GET", [](const HttpRequest&, HttpResponder responder) {
      static const auto kBig = std::make_shared<const std::string>(64 << 20, 'x');
      HttpResponse response;
      response.body = SharedBytes(kBig);
      responder.Send(std::move(response));
    });
    loop_.Start();
  }
  ~HttpLimitsTest() override {
    server_ = nullptr;
    kept_.clear();
    authenticator_ = nullptr;
    for (auto& worker : workers_) worker.join();
    loop_.Stop();
  }
  void Serve(HttpLimits limits = {}) {
    server_ = std::make_unique<HttpServer>(loop_, router_, HttpServer::Options{limits, authenticator_.get()});
    auto at = server_->Listen(*ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(at.ok()) << at.error().detail;
    at_ = *at;
  }
  void UseConfig(const std::string& text) {
    config_ = folder_.Write("web.yml", text);
    auto opened = Authenticator::Open(loop_, config_, [this](const Endpoint&, const PasswordQueue::Job& job) {
      std::lock_guard lock(mutex_);
      workers_.emplace_back([job] { job(true); });
      return true;
    });
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    authenticator_ = *std::move(opened);
  }
  // A route with refusals of its own.
  void AddWords() {
    router_.Add(
        "/words", "POST",
        [](const HttpRequest&, HttpResponder responder) { responder.Send(HttpResponse::Text(200, "taken")); },
        [](const HttpRequest& request, HttpResponse& refusal) {
          refusal.content_type = "application/json";
          refusal.body =
              "{\"" + std::string(request.Header("Accept")) + "\":" + std::to_string(refusal.status) + "}";
        });
  }
  void WriteCertificate(const std::string& name) {
    testing::Pem pem = testing::MakeCertificate(ca_, name, {"127.0.0.1", "localhost"});
    folder_.Write("key.pem", pem.key);
    folder_.Write("cert.pem", pem.certificate);
  }
  TestClient::Tls Trusting() const { return {.ca = ca_.certificate, .certificate = {}, .max_version = 0}; }
  uint64_t Refused(Refusal why) const { return server_->stats().refusals(why); }
  int StatusOf(std::string_view bytes) {
    TestClient client(at_);
    client.Send(bytes);
    Answer answer = client.Read();
    EXPECT_EQ(answer.Header("Connection"), "close");
    return answer.status;
  }

  testing::TempFolder folder_;
  testing::Pem ca_ = testing::MakeCa("test CA");
  std::string config_;
  HttpRouter router_;
  IoLoop loop_;
  std::mutex mutex_;
  std::vector<std::thread> workers_;
  std::vector<HttpResponder> kept_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<HttpServer> server_;
  Endpoint at_;
};

TEST_F(HttpLimitsTest, SizesHaveLimits) {
  Serve();
  EXPECT_EQ(StatusOf("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n"), 414);
  EXPECT_EQ(StatusOf("GET /" + std::string(30000, 'x')), 414);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(17000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(30000, 'x')), 431);
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 200; ++i) many += "A: b\r\n";
  EXPECT_EQ(StatusOf(many + "\r\n"), 431);
  EXPECT_EQ(StatusOf("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("POST /post HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n"), 413);
  std::string extension =
      "POST /post HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a=" + std::string(40000, 'x');
  EXPECT_EQ(StatusOf(extension), 431);
  EXPECT_EQ(Refused(Refusal::kHeaderSize), 6u);
  EXPECT_EQ(Refused(Refusal::kBodySize), 2u);
  TestClient exact(at_);
  exact.Send("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + std::string(65536, 'x'));
  EXPECT_EQ(exact.Read().status, 200);
}

TEST_F(HttpLimitsTest, BodiesThatAreArrivingHaveALimitTogether) {
  HttpLimits limits;
  limits.body_bytes = 100'000;
  limits.arriving_bytes = 150'000;
  Serve(limits);
  const std::string head = "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  {
    // One of them is too much, whichever is read last.
    TestClient first(at_), second(at_);
    first.Send(head + std::string(99'999, 'x'));
    second.Send(head + std::string(99'999, 'x'));
    ASSERT_TRUE(Eventually([&] { return Refused(Refusal::kLimit) == 1; }));
    first.Send("x");
    second.Send("x");
    const Answer answers[] = {first.Read(), second.Read()};
    const Answer& refused = answers[0].status == 429 ? answers[0] : answers[1];
    EXPECT_EQ(answers[0].status + answers[1].status, 200 + 429);
    EXPECT_EQ(refused.Header("Retry-After"), "1");
    // What is whole does not count any more, nor what is gone.
    first.Send(head + std::string(99'999, 'x'));
    second.Send(head + std::string(99'999, 'x'));
  }
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
  TestClient third(at_);
  third.Send(head + std::string(100'000, 'x'));
  EXPECT_EQ(third.Read().status, 200);
}

TEST_F(HttpLimitsTest, ARoutePutsRefusalsInItsWords) {
  AddWords();
  UseConfig("basic_auth_users:\n  scraper: " + std::string(kHashOfSecret) + "\n");
  HttpLimits limits;
  limits.arriving_bytes = 30'000;
  Serve(limits);
  const auto answer = [this](const std::string& method, const std::string& rest) {
    TestClient client(at_);
    client.Send(method + " /words HTTP/1.1\r\nHost: x\r\nAccept: me\r\n" + rest);
    return client.Read();
  };
  EXPECT_EQ(answer("POST", "Content-Length: 65537\r\n\r\n").body, "{\"me\":413}");
  EXPECT_EQ(answer("POST", "Content-Length: 40000\r\n\r\n" + std::string(40'000, 'x')).body, "{\"me\":429}");
  const Answer denied = answer("POST", "Content-Length: 0\r\n\r\n");
  EXPECT_EQ(denied.body, "{\"me\":401}");
  EXPECT_EQ(denied.Header("Content-Type"), "application/json");
  EXPECT_FALSE(denied.Header("WWW-Authenticate").empty());
  EXPECT_EQ(answer("GET", "Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n\r\n").body, "{\"me\":405}");
  TestClient other(at_);
  other.Send("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n");
  EXPECT_EQ(other.Read().body, "The request body is too large.\n");
  // What is no request belongs to no path, though one came before on this connection.
  TestClient kept(at_);
  kept.Send("POST /words HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(kept.Read().status, 401);
  kept.Send("nonsense\r\n\r\n");
  EXPECT_EQ(kept.Read().Header("Content-Type"), "text/plain; charset=utf-8");
}

TEST_F(HttpLimitsTest, ARoutePutsTimeoutsInItsWords) {
  AddWords();
  HttpLimits limits;
  limits.request_timeout = std::chrono::milliseconds(200);
  Serve(limits);
  TestClient body(at_), half(at_);
  body.Send("POST /words HTTP/1.1\r\nHost: x\r\nAccept: me\r\nContent-Length: 5\r\n\r\nab");
  half.Send("POST /wor");
  EXPECT_EQ(body.Read().body, "{\"me\":408}");
  EXPECT_EQ(half.Read().body, "The request did not arrive in time.\n");
}

TEST_F(HttpLimitsTest, TheAnswerArrivesAlthoughTheClientIsStillSending) {
  Serve();
  TestClient client(at_);
  client.Send("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n");
  client.Send(std::string(400000, 'x'));
  EXPECT_EQ(client.Read().status, 413);
}

TEST_F(HttpLimitsTest, SlowRequestsAreTimedOut) {
  HttpLimits limits;
  limits.request_timeout = std::chrono::milliseconds(50);
  Serve(limits);
  TestClient silent(at_), half(at_), body(at_);
  half.Send("GET /hello HTTP/1.1\r\nHo");
  body.Send("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(half.Read().status, 408);
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_EQ(Refused(Refusal::kTimeout), 3u);
}

TEST_F(HttpLimitsTest, ATrickleDoesNotExtendTheTimeout) {
  HttpLimits limits;
  limits.request_timeout = std::chrono::milliseconds(100);
  Serve(limits);
  TestClient client(at_);
  client.Send(kGetHello);
  EXPECT_EQ(client.Read().status, 200);
  int sent = 0;
  while (sent < 1000 && client.Send("G") && Refused(Refusal::kTimeout) == 0) {
    ++sent;
    testing::ShortPause();
  }
  EXPECT_LT(sent, 200);
  EXPECT_EQ(client.Read().status, 408);
}

TEST_F(HttpLimitsTest, IdleConnectionsEnd) {
  HttpLimits limits;
  limits.idle_timeout = std::chrono::milliseconds(50);
  Serve(limits);
  TestClient client(at_);
  client.Send(kGetHello);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_EQ(Refused(Refusal::kTimeout), 0u);
}

TEST_F(HttpLimitsTest, ClientsThatDoNotReadAreDropped) {
  HttpLimits limits;
  limits.write_timeout = std::chrono::milliseconds(100);
  Serve(limits);
  TestClient client(at_);
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return Refused(Refusal::kSlow) == 1; }));
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
}

TEST_F(HttpLimitsTest, ClientsThatReadSteadilyAreServed) {
  HttpLimits limits;
  limits.write_timeout = std::chrono::seconds(2);
  Serve(limits);
  TestClient client(at_);
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_GT(client.ReadAll().size(), size_t{64} << 20);
}

TEST_F(HttpLimitsTest, TwoThousandHalfOpenConnectionsDoNotKeepOthersOut) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 3000) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < 3000) GTEST_SKIP() << "fewer than 3000 file descriptors are allowed here";
  Serve();
  TestClient steady(at_);
  steady.Send(kGetHello);
  ASSERT_EQ(steady.Read().status, 200);
  std::vector<TestClient> slow;
  for (int i = 0; i < 2000; ++i) {
    slow.emplace_back(at_);
    ASSERT_TRUE(slow.back().connected()) << i;
    if (i % 2 == 0) slow.back().Send("GET /hello HTTP/1.1\r\nX-Slow: ");
    if (i % 100 == 0) {
      ASSERT_EQ(Fetch(at_, "GET", "/hello").status, 200) << i;
      steady.Send(kGetHello);
      ASSERT_EQ(steady.Read().status, 200) << i;
    }
  }
  EXPECT_TRUE(Eventually([&] { return Refused(Refusal::kLimit) >= 1480; }));
  EXPECT_LE(server_->stats().connections.load(), 512u);
  // The longest half-open go first; a client that has sent a request before stays.
  EXPECT_TRUE(slow.front().ReadsEnd());
  steady.Send(kGetHello);
  EXPECT_EQ(steady.Read().status, 200);
}

TEST_F(HttpLimitsTest, WhenAllAreBusyTheNewestIsTurnedAway) {
  HttpLimits limits;
  limits.connections = 2;
  router_.Add("/never", "GET", [this](const HttpRequest&, HttpResponder responder) {
    std::lock_guard lock(mutex_);
    kept_.push_back(std::move(responder));
  });
  Serve(limits);
  TestClient one(at_), two(at_);
  for (TestClient* client : {&one, &two}) client->Send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return server_->stats().connections == 2; }));
  ASSERT_TRUE(Eventually([&] {
    TestClient three(at_);
    return three.ReadsEnd();
  }));
}

TEST_F(HttpLimitsTest, RunningOutOfDescriptorsIsSurvived) {
  // The sanitizers open a pipe when they first see a type in a virtual call: let them see these now.
  Log(LogLevel::kInfo, "net", "test", "descriptors run out now");
  Serve();
  std::vector<TestClient> idle;
  for (int i = 0; i < 5; ++i) {
    idle.emplace_back(at_);
    idle.back().Send(kGetHello);
    ASSERT_EQ(idle.back().Read().status, 200);
  }
  // The client's socket is made before the limit falls, so that only the server has none left.
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ::setrlimit(RLIMIT_NOFILE, &none);
  sockaddr_storage address{};
  socklen_t size = at_.ToSockaddr(address);
  ::connect(socket, reinterpret_cast<sockaddr*>(&address), size);
  bool refused = Eventually([&] { return Refused(Refusal::kLimit) > 5; });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(refused);
  ::close(socket);
  EXPECT_EQ(Fetch(at_, "GET", "/hello").status, 200);
}

TEST_F(HttpLimitsTest, TlsServesAndExplainsItselfToPlainHttp) {
  WriteCertificate("first");
  UseConfig(
      "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
      "http_server_config: {headers: {X-Frame-Options: deny}}\n");
  Serve();
  TestClient client(at_, Trusting());
  ASSERT_TRUE(client.connected()) << client.error();
  client.Send(std::string(kGetHello) + kGetHello);
  for (int i = 0; i < 2; ++i) {
    Answer answer = client.Read();
    EXPECT_EQ(answer.body, "hello over TLS\n");
    EXPECT_EQ(answer.Header("X-Frame-Options"), "deny");
  }
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().body.size(), size_t{64} << 20);
  Answer plain = Fetch(at_, "GET", "/hello");
  EXPECT_EQ(plain.status, 400);
  EXPECT_EQ(plain.body, "This port serves HTTPS. Use https://.\n");
  TestClient stranger(
      at_, TestClient::Tls{.ca = testing::MakeCa("other").certificate, .certificate = {}, .max_version = 0});
  EXPECT_FALSE(stranger.connected());
  EXPECT_TRUE(Eventually([&] { return Refused(Refusal::kTls) >= 2; }));
}

TEST_F(HttpLimitsTest, CertificatesAreReadAgainAndBadOnesAreNot) {
  WriteCertificate("first");
  UseConfig("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n");
  Serve();
  EXPECT_EQ(TestClient(at_, Trusting()).PeerName(), "first");
  WriteCertificate("second");
  EXPECT_TRUE(Eventually([&] { return TestClient(at_, Trusting()).PeerName() == "second"; }));
  folder_.Write("cert.pem", "rubbish");
  EXPECT_TRUE(Eventually([&] {
    TestClient client(at_, Trusting());
    EXPECT_EQ(client.PeerName(), "second");
    return authenticator_->failed_reloads() == 1;
  }));
}

TEST_F(HttpLimitsTest, ClientCertificatesByMode) {
  WriteCertificate("server");
  testing::Pem good = testing::MakeCertificate(ca_, "client", {"scraper@example.org"});
  testing::Pem other =
      testing::MakeCertificate(testing::MakeCa("other"), "stranger", {"scraper@example.org"});
  testing::Pem unlisted = testing::MakeCertificate(ca_, "client", {"someone@example.org"});
  folder_.Write("ca.pem", ca_.certificate);
  struct Case {
    const char* mode;
    bool none, good, other, unlisted;
  };
  const Case cases[] = {{"NoClientCert", true, true, true, true},
                        {"RequestClientCert", true, true, true, true},
                        {"RequireAnyClientCert", false, true, true, true},
                        {"VerifyClientCertIfGiven", true, true, false, false},
                        {"RequireAndVerifyClientCert", false, true, false, false}};
  for (const Case& each : cases) {
    bool verifies = std::string_view(each.mode).starts_with("Verify") ||
                    std::string_view(each.mode).ends_with("VerifyClientCert");
    UseConfig(
        "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  client_auth_type: " +
        std::string(each.mode) +
        (verifies ? "\n  client_ca_file: ca.pem\n  client_allowed_sans: [scraper@example.org]\n" : "\n"));
    Serve();
    auto served = [&](const testing::Pem& with) {
      TestClient client(at_, TestClient::Tls{.ca = ca_.certificate, .certificate = with, .max_version = 0});
      client.Send(kGetHello);
      return client.Read().status == 200;
    };
    EXPECT_EQ(served({}), each.none) << each.mode;
    EXPECT_EQ(served(good), each.good) << each.mode;
    EXPECT_EQ(served(other), each.other) << each.mode;
    EXPECT_EQ(served(unlisted), each.unlisted) << each.mode;
    server_ = nullptr;
  }
}

TEST_F(HttpLimitsTest, OldTlsVersionsAreRefused) {
  WriteCertificate("server");
  UseConfig("tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}\n");
  Serve();
  TestClient::Tls old = Trusting();
  old.max_version = TLS1_2_VERSION;
  EXPECT_FALSE(TestClient(at_, old).connected());
  EXPECT_TRUE(TestClient(at_, Trusting()).connected());
}

TEST_F(HttpLimitsTest, HalfOpenTlsIsTimedOut) {
  WriteCertificate("server");
  UseConfig("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n");
  HttpLimits limits;
  limits.request_timeout = std::chrono::milliseconds(50);
  Serve(limits);
  TestClient silent(at_);
  silent.Send("\x16\x03");
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_EQ(Refused(Refusal::kTimeout), 1u);
}

TEST_F(HttpLimitsTest, PasswordsAreCheckedOnceOnAWorker) {
  UseConfig("basic_auth_users:\n  scraper: " + std::string(kHashOfSecret) + "\n");
  Serve();
  Answer denied = Fetch(at_, "GET", "/hello");
  EXPECT_EQ(denied.status, 401);
  EXPECT_EQ(denied.Header("WWW-Authenticate"), "Basic realm=\"gpulens\", charset=\"UTF-8\"");
  const char* right = "Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n";
  EXPECT_EQ(Fetch(at_, "GET", "/hello", right).status, 200);
  size_t checks = workers_.size();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Fetch(at_, "GET", "/hello", right).status, 200);
  EXPECT_EQ(workers_.size(), checks) << "remembered";
  EXPECT_EQ(Fetch(at_, "GET", "/hello", "Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n").status, 401);
  EXPECT_EQ(Fetch(at_, "GET", "/hello", "Authorization: Basic bm9ib2R5OnNlY3JldA==\r\n").status, 401);
  EXPECT_EQ(workers_.size(), checks + 2) << "an unknown name takes a check too";
  EXPECT_EQ(Refused(Refusal::kAuth), 3u);
}

TEST_F(HttpLimitsTest, NewRulesReachConnectionsThatStay) {
  UseConfig("http_server_config: {http2: false}\n");
  Serve();
  TestClient client(at_);
  client.Send(kGetHello);
  EXPECT_EQ(client.Read().status, 200);
  folder_.Write("web.yml", "bearer_token: secret\n");
  EXPECT_TRUE(Eventually([&] {
    client.Send(kGetHello);
    return client.Read().status == 401;
  }));
  WriteCertificate("server");
  folder_.Write("web.yml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n");
  EXPECT_TRUE(Eventually([&] {
    client.Send(kGetHello);
    return client.Read().Header("Connection") == "close";
  }));
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(TestClient(at_, Trusting()).connected());
}

TEST_F(HttpLimitsTest, PipelinedRequestsWaitForTheirAccess) {
  UseConfig("basic_auth_users:\n  scraper: " + std::string(kHashOfSecret) + "\n");
  Serve();
  TestClient client(at_);
  std::string with = "GET /hello HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n\r\n";
  client.Send(with + kGetHello + with);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpLimitsTest, AClientMayLeaveWhileItsPasswordIsChecked) {
  constexpr size_t kRoom = 32;
  std::vector<PasswordQueue::Job> jobs;
  config_ = folder_.Write("web.yml", "basic_auth_users:\n  scraper: " + std::string(kHashOfSecret) + "\n");
  auto opened = Authenticator::Open(loop_, config_, [&](const Endpoint& from, PasswordQueue::Job job) {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(from.IsLoopback());
    if (jobs.size() == kRoom) return false;
    jobs.push_back(std::move(job));
    return true;
  });
  authenticator_ = *std::move(opened);
  Serve();
  {
    std::vector<TestClient> clients;
    for (size_t i = 0; i < kRoom; ++i) {
      clients.emplace_back(at_);
      clients.back().Send(
          "GET /hello HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2NyYXBlcjp3cm9uZw==\r\n\r\n");
    }
    ASSERT_TRUE(Eventually([&] {
      std::lock_guard lock(mutex_);
      return jobs.size() == kRoom;
    }));
    Answer busy = Fetch(at_, "GET", "/hello", "Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n");
    EXPECT_EQ(busy.status, 503);
    EXPECT_EQ(busy.Header("Retry-After"), "1");
  }
  server_ = nullptr;
  for (auto& job : jobs) job(true);
  loop_.Call([] {});
}

}  // namespace
}  // namespace gpulens
