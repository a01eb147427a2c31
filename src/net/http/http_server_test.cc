#include "net/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "base/testing/temp_folder.h"
#include "net/http/http_connection.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::Fetch;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TestClient;

// A server with a few pages on a loop of its own.
class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    router_.Add("/hello", "GET", [](const HttpRequest&, HttpResponder responder) {
      responder.Send(HttpResponse::Text(200, "hello"));
    });
    router_.Add("/big", "GET", [this](const HttpRequest&, HttpResponder responder) {
      HttpResponse response;
      response.body = SharedBytes(big_);
      responder.Send(std::move(response));
    });
    router_.Add("/echo", "GET, POST", [](const HttpRequest& request, HttpResponder responder) {
      HttpResponse response;
      response.AddHeader("X-Query", request.Parameter("q").value_or("none"));
      response.AddHeader("X-Method", request.method());
      response.body = std::string(request.body());
      responder.Send(std::move(response));
    });
    router_.Add("/later", "GET", [this](const HttpRequest&, HttpResponder responder) {
      std::lock_guard lock(mutex_);
      later_.push_back(std::move(responder));
    });
    router_.Add("/forgotten", "GET", [](const HttpRequest&, HttpResponder) {});
    loop_.Start();
  }
  ~HttpServerTest() override {
    server_ = nullptr;
    later_.clear();
    loop_.Stop();
  }

  void Serve(HttpServer::Options options = {}) {
    server_ = std::make_unique<HttpServer>(loop_, router_, options);
    auto at = server_->Listen(*ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(at.ok()) << at.error().detail;
    at_ = *at;
  }
  size_t Waiting() {
    std::lock_guard lock(mutex_);
    return later_.size();
  }
  int StatusOf(std::string_view bytes) {
    TestClient client(at_);
    client.Send(bytes);
    return client.Read().status;
  }

  std::shared_ptr<const std::string> big_ = std::make_shared<std::string>(500'000, 'x');
  HttpRouter router_;
  IoLoop loop_;
  std::mutex mutex_;
  std::vector<HttpResponder> later_;
  std::unique_ptr<HttpServer> server_;
  Endpoint at_;
};

TEST_F(HttpServerTest, AnswersWithTheFieldsThatHttpRequires) {
  Serve();
  Answer answer = Fetch(at_, "GET", "/hello");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "hello\n");
  EXPECT_EQ(answer.Header("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(answer.Header("content-length"), "6");
  EXPECT_EQ(answer.Header("date").size(), 29u);
  EXPECT_THAT(answer.Header("date"), HasSubstr(" GMT"));
}

TEST_F(HttpServerTest, HeadHasTheLengthOfGetAndNoBody) {
  Serve();
  TestClient client(at_);
  client.Send("HEAD /big HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  Answer head = client.Read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Header("Content-Length"), "500000");
  EXPECT_EQ(client.Read().body, "hello\n");
}

TEST_F(HttpServerTest, Answers404And405) {
  Serve();
  EXPECT_EQ(Fetch(at_, "GET", "/nothing").status, 404);
  Answer wrong = Fetch(at_, "DELETE", "/echo");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.Header("Allow"), "GET, HEAD, POST, OPTIONS");
  Answer options = Fetch(at_, "OPTIONS", "/echo");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.Header("Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(options.Header("Content-Length"), "");
  EXPECT_EQ(server_->stats().answers[4].load(), 2u);
  EXPECT_EQ(server_->stats().answers[2].load(), 1u);
}

TEST_F(HttpServerTest, RequestTextReachesTheHandler) {
  Serve();
  TestClient client(at_);
  client.Send("POST /echo?a=1&q=x%20y+z%zz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc");
  client.Send("de");
  Answer answer = client.Read();
  EXPECT_EQ(answer.body, "abcde");
  EXPECT_EQ(answer.Header("X-Query"), "x y z%zz");
  EXPECT_EQ(answer.Header("X-Method"), "POST");
}

TEST_F(HttpServerTest, ChunkedBodiesWithTrailers) {
  Serve();
  TestClient client(at_);
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char* part : {"3\r\nab", "c\r\n", "2;x=y\r\nde\r", "\n0\r\nTrailer: 1\r\n", "\r\n"})
    client.Send(part);
  EXPECT_EQ(client.Read().body, "abcde");
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Serve();
  TestClient client(at_);
  std::string requests;
  constexpr int kCount = 100;
  for (int i = 0; i < kCount; ++i) {
    requests += "POST /echo?q=" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb";
  }
  client.Send(requests);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(client.Read().Header("X-Query"), std::to_string(i));
}

TEST_F(HttpServerTest, PipelinedAnswersWaitForSlowerOnesBeforeThem) {
  HttpServer::Options options;
  options.limits.pipelined = 4;
  Serve(options);
  TestClient client(at_);
  std::string requests;
  for (int i = 0; i < 8; ++i) requests += "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
  client.Send(requests + "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return Waiting() == 4; }));
  // The last of them is answered first, from another thread.
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(Eventually([&] { return Waiting() == 4; }));
    std::thread([this] {
      std::lock_guard lock(mutex_);
      for (size_t i = later_.size(); i-- > 0;) later_[i].Send(HttpResponse::Text(200, std::to_string(i)));
      later_.clear();
    }).join();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(client.Read().body, std::to_string(i) + "\n");
  }
  EXPECT_EQ(client.Read().body, "hello\n");
}

TEST_F(HttpServerTest, AForgottenRequestIsAnswered500) {
  Serve();
  EXPECT_EQ(Fetch(at_, "GET", "/forgotten").status, 500);
}

TEST_F(HttpServerTest, AResponderKnowsWhenItsClientHasGone) {
  Serve();
  auto client = std::make_unique<TestClient>(at_);
  client->Send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return Waiting() == 1; }));
  EXPECT_TRUE(later_[0].wanted());
  linger reset{1, 0};
  ::setsockopt(client->fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  client = nullptr;
  EXPECT_TRUE(Eventually([&] { return !later_[0].wanted(); }));
  later_[0].Send(HttpResponse::Text(200, "unread"));
}

TEST_F(HttpServerTest, KeepAliveAndCloseByVersion) {
  Serve();
  {
    TestClient client(at_);
    client.Send("GET /hello HTTP/1.0\r\n\r\n");
    Answer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.Header("Connection"), "close");
    EXPECT_TRUE(client.ReadsEnd());
  }
  {
    TestClient client(at_);
    client.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(client.Read().Header("Connection"), "keep-alive");
    client.Send(
        "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\nGET /hello HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.Read().Header("Connection"), "close");
    EXPECT_TRUE(client.ReadsEnd());
  }
}

TEST_F(HttpServerTest, AnswersAClientThatHasStoppedSending) {
  Serve();
  TestClient client(at_);
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  client.FinishSending();
  EXPECT_EQ(client.Read().body.size(), 500'000u);
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpServerTest, RejectsOtherProtocols) {
  Serve();
  EXPECT_EQ(StatusOf("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /hello HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(StatusOf("GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET hello HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /hello HTTP/1.1\r\nHost : a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /hello HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(StatusOf("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            400);
  EXPECT_EQ(StatusOf("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
                     "chunked\r\n\r\n0\r\n\r\n"),
            400);
  EXPECT_EQ(StatusOf("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
  EXPECT_EQ(StatusOf("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            501);
  EXPECT_EQ(StatusOf("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET /hello HTTP/1.1\r\nHost: a\r\nExpect: the-unexpected\r\n\r\n"), 417);
  EXPECT_EQ(StatusOf("GET http://somewhere/hello HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
  EXPECT_EQ(StatusOf("\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
}

TEST_F(HttpServerTest, SendsContinueOnRequest) {
  Serve();
  TestClient client(at_);
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadBytes(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ab");
  EXPECT_EQ(client.Read().body, "ab");
  EXPECT_EQ(
      StatusOf("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"),
      413);
}

TEST_F(HttpServerTest, HeaderValuesFromOutsideCannotAddLines) {
  Serve();
  Answer answer = Fetch(at_, "GET", "/echo?q=a%0d%0aEvil:%201");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Header("Evil"), "");
  EXPECT_EQ(answer.Header("X-Query"), "a  Evil: 1");
}

TEST_F(HttpServerTest, OpensNewAddressesBeforeOldOnesClose) {
  Serve();
  TestClient old(at_);
  auto six = server_->Listen(*ParseListenAddress("[::1]:0"));
  ASSERT_TRUE(six.ok()) << six.error().detail;
  EXPECT_EQ(server_->addresses().size(), 2u);
  server_->StopListening(at_);
  EXPECT_FALSE(TestClient(at_).connected());
  EXPECT_EQ(Fetch(*six, "GET", "/hello").status, 200);
  old.Send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(old.Read().status, 200);
}

TEST_F(HttpServerTest, NamesTheOwnerOfThePort) {
  Serve();
  auto again = server_->Listen(at_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::kIo);
  EXPECT_THAT(again.error().detail,
              StartsWith("listen on " + at_.ToString() + ": address already in use by "));
  EXPECT_THAT(again.error().detail, HasSubstr("(pid " + std::to_string(::getpid()) + ")"));
}

TEST_F(HttpServerTest, ServesOnAUnixSocket) {
  Serve();
  testing::TempFolder folder;
  auto at = server_->Listen(*ParseListenAddress("unix:" + folder.path() + "/s.sock"));
  ASSERT_TRUE(at.ok()) << at.error().detail;
  EXPECT_EQ(Fetch(*at, "GET", "/hello").body, "hello\n");
}

TEST_F(HttpServerTest, ShutdownFinishesRequestsInFlight) {
  Serve();
  TestClient idle(at_), working(at_), half(at_);
  idle.Send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(idle.Read().status, 200);
  half.Send("GET /hello HT");
  working.Send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return Waiting() == 1; }));
  std::atomic<bool> done{false};
  server_->Shutdown(std::chrono::seconds(10), [&] { done = true; });
  EXPECT_TRUE(idle.ReadsEnd());
  EXPECT_FALSE(TestClient(at_).connected());
  EXPECT_FALSE(done);
  later_[0].Send(HttpResponse::Text(200, "done"));
  Answer answer = working.Read();
  EXPECT_EQ(answer.body, "done\n");
  EXPECT_EQ(answer.Header("Connection"), "close");
  EXPECT_TRUE(working.ReadsEnd());
  working.FinishSending();
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  EXPECT_EQ(server_->stats().connections.load(), 0u);
}

TEST_F(HttpServerTest, ShutdownClosesAtItsDeadline) {
  Serve();
  TestClient client(at_);
  client.Send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return Waiting() == 1; }));
  std::atomic<bool> done{false};
  server_->Shutdown(std::chrono::milliseconds(50), [&] { done = true; });
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
}

TEST_F(HttpServerTest, EndsWithRequestsStillOpen) {
  Serve();
  TestClient client(at_);
  client.Send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return Waiting() == 1; }));
  server_ = nullptr;
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_FALSE(later_[0].wanted());
}

using testing::Answer;
using testing::Eventually;
using testing::TestClient;

constexpr std::string_view kGetPage = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";

std::shared_ptr<const std::string> Page(char first) {
  auto text = std::make_shared<std::string>();
  for (size_t i = 0; text->size() < 2 * HttpBodyFiles::kLeastBytes; ++i) {
    *text += first;
    *text += std::to_string(i * 7919);
  }
  return text;
}

// How many of these files this process has.
size_t Files() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry, gone).string().find("gpulens-page") != std::string::npos;
  }
  return count;
}

class HttpBodyFilesTest : public ::testing::Test, public HttpHandler {
 protected:
  HttpBodyFilesTest() {
    loop_.Start();
    server_ = std::make_unique<HttpServer>(loop_, *this, HttpServer::Options{});
    at_ = *server_->Listen(*ParseListenAddress("127.0.0.1:0"));
  }
  ~HttpBodyFilesTest() override {
    server_ = nullptr;
    loop_.Stop();
  }

  void Show(std::shared_ptr<const std::string> page) {
    std::lock_guard lock(mutex_);
    page_ = std::move(page);
  }

  IoLoop loop_;
  std::unique_ptr<HttpServer> server_;
  Endpoint at_;

 private:
  void Handle(const HttpRequest&, HttpResponder responder) override {
    std::lock_guard lock(mutex_);
    HttpResponse response;
    response.body = SharedBytes(page_);
    responder.Send(std::move(response));
  }

  std::mutex mutex_;
  std::shared_ptr<const std::string> page_ = Page('a');
};

TEST_F(HttpBodyFilesTest, EveryAnswerHasTheSameBytes) {
  TestClient client(at_);
  const std::string first = *Page('a'), second = *Page('b');
  for (int i = 0; i < 6; ++i) {
    client.Send(kGetPage);
    ASSERT_EQ(client.Read().body, first) << i;
  }
  EXPECT_EQ(Files(), 1u);
  Show(Page('b'));
  for (int i = 0; i < 6; ++i) {
    client.Send(kGetPage);
    ASSERT_EQ(client.Read().body, second) << i;
  }
}

TEST_F(HttpBodyFilesTest, PipelinedRequestsKeepTheirOrder) {
  TestClient client(at_);
  const std::string page = *Page('a');
  std::string head = "HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n", all;
  for (int i = 0; i < 3; ++i) all += std::string(kGetPage) + head;
  client.Send(all);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(client.Read().body, page) << i;
    Answer empty = client.Read(true);
    ASSERT_EQ(empty.Header("Content-Length"), std::to_string(page.size()));
    ASSERT_EQ(empty.body, "");
  }
}

// With a file the kernel would send SIGPIPE, too, which ends a program that does not block it.
TEST_F(HttpBodyFilesTest, ClientsThatLeaveEarlyDoNoHarm) {
  for (int i = 0; i < 30; ++i) {
    TestClient client(at_);
    for (int request = 0; request < 4; ++request) client.Send(kGetPage);
  }
  TestClient client(at_);
  client.Send(kGetPage);
  EXPECT_EQ(client.Read().body, *Page('a'));
}

TEST_F(HttpBodyFilesTest, TheFileGoesWithItsBody) {
  TestClient client(at_);
  for (int i = 0; i < 4; ++i) {
    client.Send(kGetPage);
    client.Read();
  }
  EXPECT_EQ(Files(), 1u);
  Show(std::make_shared<const std::string>("short"));
  EXPECT_TRUE(Eventually([] { return Files() == 0; }));
}

TEST_F(HttpBodyFilesTest, SmallBodiesAndOwnerlessOnesHaveNone) {
  static const std::string text(2 * HttpBodyFiles::kLeastBytes, 'x');
  const SharedBytes small{std::string(1000, 'x')}, ownerless{nullptr, text}, large{std::string(text)};
  loop_.Call([&] {
    HttpBodyFiles files(loop_);
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(files.For(small), nullptr);
      EXPECT_EQ(files.For(ownerless), nullptr);
      EXPECT_EQ(files.For(large) != nullptr, i >= HttpBodyFiles::kPlainSends) << i;
    }
  });
}

}  // namespace

}  // namespace gpulens
