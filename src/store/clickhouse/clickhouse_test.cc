#include "store/clickhouse/clickhouse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/temp_folder.h"
#include "net/blocking/blocking_post.h"
#include "net/client/http_client.h"
#include "net/testing/certificates.h"
#include "net/testing/scripted_server.h"
#include "net/tls.h"

namespace gpulens::clickhouse {
namespace {

using testing::Answer200;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;
using Turn = ScriptedServer::Turn;

class Clickhouse : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CLICKHOUSE_USER"), ::unsetenv("CLICKHOUSE_PASSWORD"); }

  // A server that always answers so.
  std::unique_ptr<Server> Always(std::string answer, bool close = false) {
    scripted_ =
        std::make_unique<ScriptedServer>([answer = std::move(answer), close](int, int, const std::string&) {
          return Turn{.answer = answer, .close = close};
        });
    auto server = Server::Open("clickhouse://u:s%40cret@" + scripted_->endpoint().ToString() + "/d");
    EXPECT_TRUE(server.ok());
    return *std::move(server);
  }
  static std::string Refusal(const std::string& status, const std::string& body) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  std::unique_ptr<ScriptedServer> scripted_;
};

TEST_F(Clickhouse, Urls) {
  auto all = ParseUrl("clickhouse://me:p%2Fw@host.example:9000/my%20db?table=calls");
  ASSERT_TRUE(all.ok()) << all.status().detail;
  EXPECT_FALSE(all->url.tls);
  EXPECT_EQ(all->url.host, "host.example");
  EXPECT_EQ(all->url.port, 9000);
  EXPECT_EQ(all->url.user + " " + all->url.password, "me p/w");
  EXPECT_EQ(all->database + " " + all->table, "my db calls");
  auto least = ParseUrl("clickhouse://h");
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(least->url.port, 8123);
  EXPECT_EQ(least->database + "," + least->table + "," + least->url.user, ",telemetry,");
  auto secure = ParseUrl("clickhouses://u@[::1]/d");
  ASSERT_TRUE(secure.ok()) << secure.status().detail;
  EXPECT_TRUE(secure->url.tls);
  EXPECT_EQ(secure->url.port, 8443);
  EXPECT_EQ(ParseUrl("clickhouse://[::1]:8124")->url.port, 8124);
}

TEST_F(Clickhouse, TheEnvironmentGivesWhatTheUrlHasNot) {
  ::setenv("CLICKHOUSE_USER", "env", 1);
  ::setenv("CLICKHOUSE_PASSWORD", "word", 1);
  EXPECT_EQ(ParseUrl("clickhouse://h/d")->url.user, "env");
  EXPECT_EQ(ParseUrl("clickhouse://me@h/d")->url.user, "me");
  EXPECT_EQ(ParseUrl("clickhouse://me@h/d")->url.password, "word");
  EXPECT_EQ(ParseUrl("clickhouse://me:own@h/d")->url.password, "own");
  ::setenv("CLICKHOUSE_PASSWORD", "a\r\nX-Evil: 1", 1);
  EXPECT_FALSE(ParseUrl("clickhouse://me@h/d").ok());
}

TEST_F(Clickhouse, RejectsAMalformedUrlWithoutItsPassword) {
  for (const char* url :
       {"clickhouse://", "clickhouse://u:hush@h:port/d", "clickhouse://u:hush@h/d/e",
        "clickhouse://u:hush@h/d?x=hush", "clickhouse://u:hush@h:0/d", "clickhouse://u:hu sh@h/d",
        "clickhouse://u:hush@h/d?table=", "clickhouse://u:hush@h/a%00b", "clickhouse://u:hush@h/a%ff",
        "clickhouse://u:hush%0D%0A@h/d", "clickhouse://u:hush@[::1/d", "clickhouse://u:hush/x@@/d"}) {
    const auto address = ParseUrl(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.status().code, Code::kInvalidArgument) << url;
    EXPECT_THAT(address.status().detail, Not(HasSubstr("hush"))) << url;
    EXPECT_THAT(address.status().detail, HasSubstr("URL of ClickHouse")) << url;
  }
}

TEST_F(Clickhouse, Quotes) {
  EXPECT_EQ(Quoted(R"(it's \ fine)"), R"('it\'s \\ fine')");
  EXPECT_EQ(Quoted(std::string_view("a\0b", 3)), R"('a\0b')");
  EXPECT_EQ(NameQuoted("a`b'"), R"(`a\`b'`)");
}

TEST_F(Clickhouse, AnInsertHasATokenAndSecretsOnlyInFields) {
  const auto server = Always(Answer200(""));
  EXPECT_TRUE(server->Insert("INSERT INTO t FORMAT X", std::string_view("\0\n1", 3), "to ken").ok());
  const std::string request = scripted_->requests().at(0);
  const std::string line = request.substr(0, request.find("\r\n"));
  EXPECT_EQ(line,
            "POST /?database=d&wait_end_of_query=1&async_insert=0&insert_deduplicate=1&"
            "insert_deduplication_token=to%20ken&query=INSERT%20INTO%20t%20FORMAT%20X HTTP/1.1");
  EXPECT_THAT(request, HasSubstr("\r\nX-ClickHouse-User: u\r\nX-ClickHouse-Key: s@cret\r\n"));
  EXPECT_TRUE(request.ends_with(std::string_view("\r\n\r\n\0\n1", 7)));
}

TEST_F(Clickhouse, ShortensTheErrorOfTheServer) {
  Status status = Always(Refusal("404 Not Found",
                                 "Code: 60. DB::Exception: Table d.t does not exist.\n (UNKNOWN_TABLE)\n"))
                      ->Run("x");
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_THAT(status.detail, HasSubstr("Table d.t does not exist.  (UNKNOWN_TABLE)"));
  EXPECT_THAT(status.detail, HasSubstr("clickhouse://u@127.0.0.1"));
  status =
      Always(Refusal("500 Internal Server Error", "Code: 469. DB::Exception: Constraint `c` is violated"))
          ->Run("x");
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  status = Always(Refusal("403 Forbidden", "Code: 516. DB::Exception: u: Authentication failed with s@cret"))
               ->Run("x");
  EXPECT_EQ(status.code, Code::kPermissionDenied);
  EXPECT_THAT(status.detail, HasSubstr("Authentication failed"));
  EXPECT_THAT(status.detail, Not(HasSubstr("s@cret")));
  status = Always(Refusal("502 Bad Gateway", "<html>" + std::string(50'000, '\x1b')))->Run("x");
  EXPECT_EQ(status.code, Code::kIo);
  EXPECT_THAT(status.detail, HasSubstr("HTTP 502: <html>"));
  EXPECT_LT(status.detail.size(), 2000u);
  EXPECT_THAT(status.detail, Not(HasSubstr("\x1b")));
  EXPECT_EQ(Always(Refusal("401 Unauthorized", ""))->Run("x").code, Code::kPermissionDenied);
}

TEST_F(Clickhouse, AMalformedAnswerIsNoSuccess) {
  EXPECT_EQ(Always("SSH-2.0-x\r\n\r\n", true)->Run("x").code, Code::kDataLoss);
  EXPECT_EQ(Always("", true)->Run("x").code, Code::kDataLoss);
  EXPECT_EQ(Always("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", true)->Query("x").status().code,
            Code::kDataLoss);
  EXPECT_EQ(Always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", true)
                ->Query("x")
                .status()
                .code,
            Code::kDataLoss);
  EXPECT_EQ(Always(Answer200(std::string(2 << 20, 'x')))->Query("x").status().code, Code::kExhausted);
  EXPECT_EQ(*Always(Answer200("fine\n"))->Query("x"), "fine\n");
  scripted_.reset();
  auto gone = Server::Open("clickhouse://127.0.0.1:1/d");
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ((*gone)->Run("x").code, Code::kUnavailable);
}

TEST_F(Clickhouse, AReaderThatHasEnoughEndsIt) {
  const auto server = Always(Answer200(std::string(8 << 20, 'x')));
  size_t taken = 0;
  const Status status = server->Read("x", [&](std::string_view piece) {
    taken += piece.size();
    return taken < 100'000 ? Ok() : Status{Code::kExhausted, "mine"};
  });
  EXPECT_EQ(status.detail, "mine");
  EXPECT_LT(taken, size_t{1} << 20);
}

TEST_F(Clickhouse, OverTls) {
  testing::TempFolder folder;
  const testing::Pem ca = testing::MakeCa("ca"),
                     leaf = testing::MakeCertificate(ca, "localhost", {"127.0.0.1"});
  folder.Write("ca.pem", ca.certificate);
  ::setenv("SSL_CERT_FILE", (folder.path() + "/ca.pem").c_str(), 1);
  TlsServerOptions options;
  options.certificate.text = leaf.certificate, options.key.text = leaf.key;
  const auto tls = TlsContext::Server(options);
  ASSERT_TRUE(tls.ok()) << tls.status().detail;
  const std::string large(3 << 20, 'x');
  ScriptedServer scripted(
      [&](int, int, const std::string& request) {
        if (request.ends_with("large")) return Turn{Answer200(large)};
        return request.ends_with("refused") ? Turn{Refusal("404 Not Found", "Code: 60. DB::Exception: none")}
                                            : Turn{Answer200("fine")};
      },
      *tls);
  SetSecurePost(&PostOverTls);
  auto server = Server::Open("clickhouses://u:hush@" + scripted.endpoint().ToString() + "/d");
  ASSERT_TRUE(server.ok()) << server.status().detail;
  EXPECT_EQ((*server)->Query("some").value_or(""), "fine");
  EXPECT_TRUE((*server)->Insert("INSERT", "rows", "t").ok());
  EXPECT_THAT((*server)->Run("refused").detail, HasSubstr("Code: 60"));
  size_t taken = 0;
  const auto take = [&](std::string_view piece) { return taken += piece.size(), Ok(); };
  EXPECT_TRUE((*server)->Read("large", take).ok());
  EXPECT_EQ(taken, large.size());
  EXPECT_EQ(
      (*server)->Read("large", [](std::string_view) { return Status{Code::kExhausted, "mine"}; }).detail,
      "mine");
  EXPECT_THAT(scripted.requests().at(0), HasSubstr("X-ClickHouse-Key: hush"));
  // A server without a trusted certificate receives nothing.
  ::unsetenv("SSL_CERT_FILE");
  const size_t before = scripted.requests().size();
  EXPECT_FALSE((*server)->Run("some").ok());
  EXPECT_EQ(scripted.requests().size(), before);
  SetSecurePost(nullptr);
}

TEST_F(Clickhouse, TlsIsWhereItIsLinked) {
  const auto server = Server::Open("clickhouses://u:hush@h/d");
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code, Code::kUnavailable);
  EXPECT_THAT(server.status().detail, HasSubstr("without TLS"));
  EXPECT_THAT(server.status().detail, Not(HasSubstr("hush")));
}

}  // namespace
}  // namespace gpulens::clickhouse
