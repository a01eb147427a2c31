// Large answers that go out again and again come from a file in memory; no client may see a difference.
#include "net/http/http_body_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>

#include "net/http/http_server.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

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

// With a file the kernel would send SIGPIPE, too, which ends the program where nobody sees to it.
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
