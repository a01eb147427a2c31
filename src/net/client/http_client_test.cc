#include "net/client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/testing/temp_folder.h"
#include "net/message/http_message.h"
#include "net/testing/certificates.h"
#include "net/testing/http_channel_fixture.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Answer200;
using ::testing::HasSubstr;
using testing::ScriptedServer;
using ::testing::StartsWith;
using testing::TlsFixture;
using Turn = ScriptedServer::Turn;

class HttpClientTest : public testing::HttpChannelTest {};

TEST_F(HttpClientTest, GetsAndKeepsTheConnection) {
  ScriptedServer server([](int, int exchange, const std::string&) {
    return Turn{.answer = Answer200("page " + std::to_string(exchange))};
  });
  Open(server.Url("/metrics?x=1"));
  for (int i = 0; i < 3; ++i) {
    HttpReply reply = Get();
    EXPECT_EQ(reply.failure, HttpFailure::kNone) << reply.detail;
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "page " + std::to_string(i));
    EXPECT_EQ(reply.content_type, "text/plain");
    buffer = std::move(reply.body);
  }
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(server.requests()[0],
            "GET /metrics?x=1 HTTP/1.1\r\nHost: " + server.endpoint().ToString() + "\r\nA: b\r\n\r\n");
}

TEST_F(HttpClientTest, SpeaksIpv6AndUnixSockets) {
  auto play = [](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; };
  ScriptedServer six(play, nullptr, "[::1]:0");
  Open(six.Url("/"));
  EXPECT_EQ(Get().body, "x");
  testing::TempFolder folder;
  std::string path = folder.path() + "/s";
  {
    ScriptedServer local(play, nullptr, "unix:" + path);
    Open("http://node/metrics", {}, path);
    EXPECT_EQ(Get().body, "x");
    EXPECT_THAT(local.requests()[0], HasSubstr("Host: node\r\n"));
  }
  Open("http://node/metrics", {}, path);
  HttpReply reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kConnect);
  EXPECT_EQ(reply.detail, "connection refused");
  Open("http://node/metrics", {}, path + "-not");
  EXPECT_EQ(Get().detail, "no such file or directory");
}

TEST_F(HttpClientTest, TakesAnswersByteByByteAndWithoutLength) {
  ScriptedServer server([](int connection, int, const std::string&) {
    if (connection == 0) return Turn{.answer = Answer200(std::string(300, 'y')), .step = 1, .close = true};
    return Turn{.answer = "HTTP/1.0 200 OK\r\n\r\nto the end", .close = true};
  });
  Open(server.Url("/"));
  EXPECT_EQ(Get().body, std::string(300, 'y'));
  EXPECT_EQ(Get().body, "to the end");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(HttpClientTest, TakesLargeBodies) {
  std::string large(3 << 20, 'z');
  ScriptedServer server([&](int, int, const std::string&) { return Turn{.answer = Answer200(large)}; });
  Open(server.Url("/"));
  EXPECT_EQ(Get().body.size(), large.size());
  Open(server.Url("/"), {.body_bytes = 1 << 20});
  EXPECT_EQ(Get().failure, HttpFailure::kTooLarge);
}

TEST_F(HttpClientTest, EndlessAnswersEnd) {
  ScriptedServer server([](int connection, int, const std::string&) {
    if (connection == 0)
      return Turn{.answer = "HTTP/1.1 200 OK\r\n\r\n" + std::string(9999, 'e'), .endless = true};
    return Turn{.answer = "HTTP/1.1 200 OK\r\nA: b\r\nC: d", .endless = true};
  });
  Open(server.Url("/"), {.head_bytes = 8192, .body_bytes = 1 << 20});
  HttpReply reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kTooLarge);
  EXPECT_TRUE(reply.body.empty());
  EXPECT_EQ(Get().failure, HttpFailure::kTooLarge);
}

TEST_F(HttpClientTest, ASecondConnectionReplacesOneThatTheServerClosed) {
  // The server closes after its answer without a Connection field, perhaps only after the next request is
  // sent.
  ScriptedServer server(
      [](int, int, const std::string&) { return Turn{.answer = Answer200("x"), .close = true}; });
  Open(server.Url("/"));
  for (int i = 0; i < 5; ++i) {
    HttpReply reply = Get();
    EXPECT_EQ(reply.failure, HttpFailure::kNone) << reply.detail;
  }
  EXPECT_EQ(server.connections(), 5);
}

TEST_F(HttpClientTest, AKeptConnectionThatDiesAtTheRequestIsReplacedOnce) {
  ScriptedServer server([](int connection, int exchange, const std::string&) {
    bool dies = connection == 0 && exchange == 1;
    if (connection >= 1 && exchange == 1) return Turn{.answer = "HTTP/1.1", .close = true};
    if (connection == 2) return Turn{.close = true};
    return dies ? Turn{.reset = true} : Turn{.answer = Answer200("x")};
  });
  Open(server.Url("/"));
  EXPECT_EQ(Get().failure, HttpFailure::kNone);
  EXPECT_EQ(Get().failure, HttpFailure::kNone) << "reset without a byte: sent again";
  HttpReply reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kProtocol) << "after a byte: not sent again";
  EXPECT_THAT(reply.detail, HasSubstr("truncated in its header"));
  reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kProtocol) << "a fresh connection is not tried twice";
  EXPECT_EQ(reply.detail, "the connection ended without a response");
  EXPECT_EQ(server.requests().size(), 5u);
}

TEST_F(HttpClientTest, AnIdleConnectionThatEndsIsLetGo) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  Open(server.Url("/"));
  EXPECT_EQ(Get().body, "x");
  server.DropConnections();
  EXPECT_EQ(Get().body, "x");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(HttpClientTest, FailuresHaveAName) {
  std::string answer;
  ScriptedServer server([&](int, int, const std::string&) { return Turn{.answer = answer, .close = true}; });
  auto get = [&](std::string with) {
    answer = std::move(with);
    Open(server.Url("/"));
    return Get();
  };
  HttpReply reply = get("HTTP/1.1 401 No\r\nContent-Length: 9999\r\n\r\n");
  EXPECT_EQ(reply.failure, HttpFailure::kAuth);
  EXPECT_EQ(reply.detail, "answers 401 Unauthorized");
  EXPECT_EQ(get("HTTP/1.1 403 No\r\n\r\n").failure, HttpFailure::kAuth);
  reply = get("HTTP/1.1 503 No\r\n\r\nsorry");
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_EQ(reply.status, 503);
  EXPECT_TRUE(reply.body.empty());
  reply = get("HTTP/1.1 302 Found\r\nLocation: /\x1b[31m\r\n\r\n");
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_THAT(reply.detail, StartsWith("answers 302, a redirect to /\\x1b"));
  reply = get("HTTP/1.1 302 Found\r\nLocation: /login?token=SECRET\r\n\r\n");
  EXPECT_THAT(reply.detail, StartsWith("answers 302, a redirect to /login?…, which"));
  reply = get("HTTP/1.1 302 Found\r\nLocation: https://me:SECRET@hooks.example/services/SECRET\r\n\r\n");
  EXPECT_THAT(reply.detail, StartsWith("answers 302, a redirect to hooks.example/…, which"));
  reply = get("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(reply.failure, HttpFailure::kProtocol);
  EXPECT_THAT(reply.detail, HasSubstr("3 of 10 bytes"));
  EXPECT_EQ(get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").failure,
            HttpFailure::kProtocol);
  EXPECT_EQ(get("220 mail.example ESMTP\r\n").failure, HttpFailure::kProtocol);
  EXPECT_EQ(get("HTTP/1.1 200 OK\r\nA: " + std::string(99999, 'x')).failure, HttpFailure::kTooLarge);
  EXPECT_EQ(get("").failure, HttpFailure::kProtocol);
}

TEST_F(HttpClientTest, RefusedConnectionIsReported) {
  Endpoint gone;
  {
    ScriptedServer server([](int, int, const std::string&) { return Turn{}; });
    gone = server.endpoint();
  }
  Open("http://" + gone.ToString() + "/metrics");
  HttpReply reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kConnect);
  EXPECT_EQ(reply.detail, "connection refused");
  Open("http://localhost:" + std::to_string(gone.port) + "/");
  EXPECT_EQ(Get().detail, "connection refused") << "every address of the name was tried";
  Open("http://nothing.invalid/");
  reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kConnect);
  EXPECT_THAT(reply.detail, StartsWith("look up nothing.invalid"));
}

TEST_F(HttpClientTest, FindsTheAddressThatAnswers) {
  // "localhost" is both ::1 and 127.0.0.1 on most machines; only the second one listens.
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  Open("http://localhost:" + std::to_string(server.endpoint().port) + "/");
  EXPECT_EQ(Get().body, "x");
}

TEST_F(HttpClientTest, TheDeadlineHolds) {
  ScriptedServer server([](int connection, int, const std::string&) {
    return connection == 0 ? Turn{} : Turn{.answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"};
  });
  Open(server.Url("/"));
  HttpReply reply = Get(milliseconds(50));
  EXPECT_EQ(reply.failure, HttpFailure::kTimeout);
  EXPECT_EQ(reply.detail, "no response within 50 ms");
  reply = Get(milliseconds(300));
  EXPECT_EQ(reply.failure, HttpFailure::kTimeout);
  EXPECT_EQ(reply.detail, "incomplete response within 300 ms");
  EXPECT_EQ(Get(milliseconds(0)).failure, HttpFailure::kTimeout);
}

TEST_F(HttpClientTest, AChannelMayEndInTheMiddle) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{}; });
  bool called = false;
  Open(server.Url("/"));
  loop.Call([&] { channel->Get({"", nullptr, seconds(10), {}}, [&](HttpReply&) { called = true; }); });
  EXPECT_TRUE(testing::Eventually([&] { return !server.requests().empty(); }));
  channel.reset();
  Open(server.Url("/"));
  loop.Call([&] {
    channel->Get({"", nullptr, seconds(10), {}}, [&](HttpReply&) { called = true; });
    channel.reset();
  });
  loop.Call([] {});
  EXPECT_FALSE(called);
}

TEST_F(HttpClientTest, DoneMayStartARequestAndDestroy) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  std::atomic<int> answers = 0;
  Open(server.Url("/"));
  loop.Call([&] {
    channel->Get({"", nullptr, seconds(10), {}}, [&](HttpReply&) {
      ++answers;
      channel->Get({"", nullptr, seconds(10), {}}, [&](HttpReply& reply) {
        if (reply.failure == HttpFailure::kNone) ++answers;
        channel.reset();
      });
    });
  });
  EXPECT_TRUE(testing::Eventually([&] { return answers == 2; }));
}

TEST_F(HttpClientTest, ChecksCertificates) {
  TlsFixture tls;
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("secret")}; },
                        tls.Server({"127.0.0.1", "localhost"}));
  Open(server.Url("/"));
  auto good = tls.Client(tls.Trusting(tls.ca));
  for (int i = 0; i < 3; ++i) {
    HttpReply reply = Get(seconds(20), good);
    EXPECT_EQ(reply.body, "secret") << reply.detail;
  }
  EXPECT_EQ(server.connections(), 1);
  HttpReply reply = Get(seconds(20), tls.Client(tls.Trusting(tls.other)));
  EXPECT_EQ(reply.failure, HttpFailure::kTls) << "other settings end the kept connection";
  EXPECT_THAT(reply.detail, HasSubstr("certificate"));
  TlsClientOptions wrong_name = tls.Trusting(tls.ca);
  wrong_name.server_name = "elsewhere.example";
  EXPECT_EQ(Get(seconds(20), tls.Client(wrong_name)).failure, HttpFailure::kTls);
  TlsClientOptions trusting;
  trusting.insecure_skip_verify = true;
  EXPECT_EQ(Get(seconds(20), tls.Client(trusting)).body, "secret");
  EXPECT_EQ(Get(seconds(20), nullptr).failure, HttpFailure::kTls);
}

TEST_F(HttpClientTest, ShowsItsOwnCertificate) {
  TlsFixture tls;
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; },
                        tls.Server({"127.0.0.1"}, true));
  Open(server.Url("/"));
  TlsClientOptions options = tls.Trusting(tls.ca);
  EXPECT_EQ(Get(seconds(20), tls.Client(options)).failure, HttpFailure::kTls);
  testing::Pem own = testing::MakeCertificate(tls.ca, "me", {"me"});
  options.certificate.text = own.certificate;
  options.key.text = own.key;
  EXPECT_EQ(Get(seconds(20), tls.Client(options)).body, "x");
}

TEST_F(HttpClientTest, TlsToAPlainServerAndPlainToTls) {
  TlsFixture tls;
  ScriptedServer plain(
      [](int, int, const std::string&) { return Turn{.answer = "HTTP/1.1 400 Bad\r\n\r\n"}; });
  Open("https://" + plain.endpoint().ToString() + "/");
  // A plain server waits for the end of a request, which a TLS greeting never has.
  EXPECT_EQ(Get(milliseconds(200), tls.Client(tls.Trusting(tls.ca))).failure, HttpFailure::kTimeout);
  ScriptedServer secret([](int, int, const std::string&) { return Turn{}; }, tls.Server({"127.0.0.1"}));
  Open("http://" + secret.endpoint().ToString() + "/");
  EXPECT_EQ(Get().failure, HttpFailure::kProtocol);
}

TEST(RequestFields, AreChecked) {
  std::string out;
  EXPECT_TRUE(AddRequestField(out, "X-Scope-OrgID", "team a").ok());
  EXPECT_EQ(out, "X-Scope-OrgID: team a\r\n");
  EXPECT_FALSE(AddRequestField(out, "a b", "c").ok());
  EXPECT_FALSE(AddRequestField(out, "", "c").ok());
  EXPECT_FALSE(AddRequestField(out, "A", "c\r\nB: d").ok());
  EXPECT_FALSE(AddRequestField(out, "content-length", "1").ok());
  EXPECT_EQ(out, "X-Scope-OrgID: team a\r\n") << "nothing bad was added";
}

TEST(RequestFields, BasicAuthIsBase64) {
  auto of = [](std::string_view user, std::string_view password) {
    std::string out;
    AddBasicAuth(out, user, password);
    return out;
  };
  EXPECT_EQ(of("Aladdin", "open sesame"), "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
  EXPECT_EQ(of("a", "b"), "Authorization: Basic YTpi\r\n");
  EXPECT_EQ(of("\xFF\xFE", "bc"), "Authorization: Basic //46YmM=\r\n");
}

TEST(HttpFailures, HaveNamesAndCodes) {
  for (size_t i = 1; i < kHttpFailures; ++i) {
    auto failure = static_cast<HttpFailure>(i);
    EXPECT_FALSE(HttpFailureName(failure).empty());
    EXPECT_NE(HttpFailureCode(failure), Code::kOk);
  }
  EXPECT_EQ(HttpFailureCode(HttpFailure::kNone), Code::kOk);
  EXPECT_EQ(DescribeStatus(418, ""), "answers 418");
  for (int status : {204, 400, 403, 404, 405, 406, 429, 500, 502, 503, 504}) {
    EXPECT_GT(DescribeStatus(status, "").size(), 15u);
  }
}

}  // namespace
}  // namespace gpulens
