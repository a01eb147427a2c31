// Requests to an API server as a pod makes them: TLS by the cluster's authority, a token that is exchanged.
#include "sources/kubelet/api/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "base/testing/temp_folder.h"
#include "net/testing/certificates.h"
#include "net/testing/scripted_server.h"

namespace gpulens::kubelet {
namespace {

using gpulens::testing::Answer200;
using gpulens::testing::MakeCa;
using gpulens::testing::MakeCertificate;
using gpulens::testing::Pem;
using gpulens::testing::ScriptedServer;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Turn = ScriptedServer::Turn;

std::shared_ptr<const TlsContext> ServerTls(const Pem& ca, const std::string& client_ca = "") {
  const Pem own = MakeCertificate(ca, "apiserver", {"127.0.0.1"});
  TlsServerOptions options;
  options.certificate.text = own.certificate;
  options.key.text = own.key;
  options.client_ca.text = client_ca;
  if (!client_ca.empty()) options.client_auth = ClientAuth::kRequireAndVerifyClientCert;
  return *TlsContext::Server(options);
}

class ApiCallTest : public ::testing::Test {
 protected:
  void SetUp() override { loop_.Start(); }
  void TearDown() override {
    loop_.Call([&] { call_.Cancel(); });
    loop_.Stop();
  }
  // Changes are detected by size or time: a changed file has another size here.
  void Account(const std::string& token, const std::string& ca) {
    folder_.Write("token", token);
    folder_.Write("ca.crt", ca);
  }
  ApiAccess Pod(const ScriptedServer& server) {
    auto api = InClusterServer("127.0.0.1", std::to_string(server.endpoint().port), folder_.path());
    EXPECT_TRUE(api.ok());
    return ApiAccess(*api);
  }
  ApiCall::Answer Query(const ApiAccess& access, ApiCall::Query query = {.target = "/version"}) {
    query.timeout = seconds(20);
    std::mutex mutex;
    std::condition_variable came;
    bool ended = false;
    loop_.Call([&] {
      call_.Start(access, query);
      call_.WakeAtEnd([&] {
        std::lock_guard lock(mutex);
        ended = true;
        came.notify_all();
      });
    });
    {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(came.wait_for(lock, seconds(60), [&] { return ended; }));
    }
    ApiCall::Answer answer;
    loop_.Call([&] {
      streamed_ = call_.TakeStream(overflowed_);
      answer = call_.Take();
    });
    return answer;
  }

  gpulens::testing::TempFolder folder_;
  IoLoop loop_;
  HttpClient client_{loop_};
  ApiCall call_{client_};
  std::string streamed_;
  bool overflowed_ = false;
};

TEST_F(ApiCallTest, SpeaksTlsByTheClustersAuthorityAndFollowsTheToken) {
  const Pem ca = MakeCa("cluster"), other = MakeCa("another cluster");
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("{}")}; },
                        ServerTls(ca));
  Account("first", ca.certificate);
  ApiAccess access = Pod(server);
  ASSERT_TRUE(access.Refresh().ok());
  EXPECT_EQ(Query(access).body, "{}");
  EXPECT_THAT(server.requests().back(), HasSubstr("Authorization: Bearer first\r\n"));
  Account("the second", ca.certificate);
  ASSERT_TRUE(access.Refresh().ok());
  EXPECT_EQ(Query(access).status, 200);
  EXPECT_THAT(server.requests().back(), HasSubstr("Authorization: Bearer the second\r\n"));

  const size_t requests = server.requests().size();
  Account("the second", other.certificate + "\n");
  ASSERT_TRUE(access.Refresh().ok());
  ApiCall::Answer answer = Query(access);
  EXPECT_EQ(answer.failure, HttpFailure::kTls) << answer.detail;
  EXPECT_EQ(server.requests().size(), requests) << "no token for a server that is not the cluster's";
  std::filesystem::remove(folder_.path() + "/token");
  EXPECT_FALSE(access.Refresh().ok());
}

TEST_F(ApiCallTest, ShowsTheCertificateOfAKubeconfig) {
  const Pem ca = MakeCa("cluster"), user = MakeCertificate(ca, "ann", {"ann@example.org"});
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Answer200("{}")}; },
                        ServerTls(ca, ca.certificate));
  folder_.Write("ca.pem", ca.certificate);
  folder_.Write("ann.pem", user.certificate);
  folder_.Write("ann.key", user.key);
  const std::string head =
      "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
      "clusters: [{name: k, cluster: {server: '" +
      server.Url("") + "', certificate-authority: ca.pem}}]\nusers: [{name: u, user: {";
  auto known =
      FindApiServer(folder_.Write("config", head + "client-certificate: ann.pem, client-key: ann.key}}]\n"));
  ASSERT_TRUE(known.ok()) << known.error().detail;
  ApiAccess access(*known);
  ASSERT_TRUE(access.Refresh().ok());
  EXPECT_EQ(Query(access).status, 200);
  auto stranger = FindApiServer(folder_.Write("stranger", head + "token: t}}]\n"));
  ASSERT_TRUE(stranger.ok()) << stranger.error().detail;
  ApiAccess without_certificate(*stranger);
  ASSERT_TRUE(without_certificate.Refresh().ok());
  EXPECT_NE(Query(without_certificate).failure, HttpFailure::kNone);
}

TEST_F(ApiCallTest, AStreamComesInPiecesAndIsBounded) {
  const Pem ca = MakeCa("cluster");
  std::string all, answer_text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 64; ++i) {
    const std::string line = std::string(0x3fff, static_cast<char>('a' + i % 26)) + "\n";
    all += line;
    answer_text += "4000\r\n" + line + "\r\n";
  }
  answer_text += "0\r\n\r\n";
  ScriptedServer server(
      [&](int, int, const std::string&) { return Turn{.answer = answer_text, .step = 7777}; }, ServerTls(ca));
  Account("t", ca.certificate);
  ApiAccess access = Pod(server);
  ASSERT_TRUE(access.Refresh().ok());
  ApiCall::Answer answer = Query(access, {.target = "/watch", .stream = true});
  EXPECT_EQ(answer.failure, HttpFailure::kNone) << answer.detail;
  EXPECT_EQ(answer.body, "") << "handed over";
  EXPECT_EQ(streamed_, all);
  EXPECT_FALSE(overflowed_);
  // The body is not read.
  answer = Query(access, {.target = "/watch", .most_bytes = all.size() / 2, .stream = true});
  EXPECT_EQ(answer.failure, HttpFailure::kNone) << answer.detail;
  EXPECT_TRUE(overflowed_);
}

}  // namespace
}  // namespace gpulens::kubelet
