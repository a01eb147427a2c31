#include "net/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing/temp_folder.h"
#include "net/testing/certificates.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
// One end of a stream that collects what it reads and sends what it is given.
class End : public StreamHandler {
 public:
  void Take(Stream stream) {
    stream_ = std::move(stream);
    stream_.SetHandler(this);
    stream_.WaitReadable();
    stream_.WaitWritable();
    stream_.WaitWritable();
  }
  void OnReadable() override {
    std::vector<char> buffer(16384);
    while (stream_) {
      IoResult read = stream_.ReadSome(buffer);
      if (read.outcome == IoOutcome::kWouldBlock) return stream_.WaitReadable();
      if (read.outcome == IoOutcome::kClosed) closed = true;
      if (read.outcome == IoOutcome::kFailed) failure = stream_.error();
      if (read.outcome != IoOutcome::kOk) return;
      received.append(buffer.data(), read.bytes);
    }
  }
  void OnWritable() override {
    while (!to_send.empty()) {
      // Cut in three, so that pieces are gathered.
      std::string_view all = to_send;
      std::string_view pieces[3] = {all.substr(0, all.size() / 100), all.substr(all.size() / 100, 1), {}};
      pieces[2] = all.substr(pieces[0].size() + pieces[1].size());
      IoResult wrote = stream_.WriteSome(pieces);
      if (wrote.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
      if (wrote.outcome != IoOutcome::kOk) {
        failure = stream_.error();
        return;
      }
      to_send.erase(0, wrote.bytes);
    }
    if (then_shutdown) stream_.Shutdown();
  }

  Stream stream_;
  std::string to_send, received, failure;
  bool closed = false, then_shutdown = false;
};

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() { loop_.Start(); }
  ~StreamTest() override {
    loop_.Call([this] { one_.stream_.Close(), two_.stream_.Close(); });
    loop_.Stop();
  }
  template <class Condition>
  bool Soon(Condition condition) {
    return Eventually([&] {
      bool good = false;
      loop_.Call([&] { good = condition(); });
      return good;
    });
  }
  void Pair(std::shared_ptr<const TlsContext> server = nullptr,
            std::shared_ptr<const TlsContext> client = nullptr, std::string name = "localhost") {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    loop_.Call([&] {
      one_.Take(*Stream::Adopt(loop_, UniqueFd(fds[0]), server));
      two_.Take(*Stream::Adopt(loop_, UniqueFd(fds[1]), client, name));
    });
  }
  void Exchange() {
    std::string big(3 << 20, 'a');
    for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2654435761u >> 13);
    loop_.Call([&] {
      one_.to_send = big;
      two_.to_send = big + "two";
      one_.then_shutdown = two_.then_shutdown = true;
      one_.OnWritable();
      two_.OnWritable();
    });
    EXPECT_TRUE(Soon([&] { return one_.closed && two_.closed; })) << one_.failure << two_.failure;
    EXPECT_TRUE(two_.received == big);
    EXPECT_TRUE(one_.received == big + "two");
  }
  std::shared_ptr<const TlsContext> Server(const testing::Pem& pem) {
    TlsServerOptions options;
    options.certificate.text = pem.certificate;
    options.key.text = pem.key;
    return *TlsContext::Server(options);
  }
  std::shared_ptr<const TlsContext> Client(const std::string& ca) {
    TlsClientOptions options;
    options.ca.text = ca;
    return *TlsContext::Client(options);
  }

  testing::Pem ca_ = testing::MakeCa("ca");
  testing::Pem pem_ = testing::MakeCertificate(ca_, "server", {"localhost", "127.0.0.1"});
  IoLoop loop_;
  End one_, two_;
};

TEST_F(StreamTest, PlainBothWays) {
  Pair();
  loop_.Call([&] {
    EXPECT_TRUE(one_.stream_.handshake_done());
    EXPECT_FALSE(one_.stream_.is_tls());
    EXPECT_EQ(one_.stream_.peer().pid, ::getpid());
    EXPECT_EQ(one_.stream_.peer().uid, ::getuid());
  });
  Exchange();
}

TEST_F(StreamTest, TlsBothWays) {
  Pair(Server(pem_), Client(ca_.certificate));
  Exchange();
}

TEST_F(StreamTest, TheServersNameIsChecked) {
  Pair(Server(pem_), Client(ca_.certificate), "elsewhere.example");
  EXPECT_TRUE(Soon([&] { return !two_.failure.empty(); }));
  EXPECT_THAT(two_.failure, HasSubstr("certificate verify failed"));
  EXPECT_THAT(two_.failure, HasSubstr("ostname mismatch"));
}

TEST_F(StreamTest, TheServersAddressIsChecked) {
  Pair(Server(pem_), Client(ca_.certificate), "127.0.0.1");
  Exchange();
}

TEST_F(StreamTest, AnUnknownCertificateIsRefusedByDefault) {
  Pair(Server(pem_), Client(testing::MakeCa("other").certificate));
  EXPECT_TRUE(Soon([&] { return !two_.failure.empty(); }));
  EXPECT_THAT(two_.failure, HasSubstr("certificate verify failed"));
  loop_.Call([&] { one_.stream_.Close(), two_.stream_.Close(); });
  one_.failure = two_.failure = "";
  TlsClientOptions options;
  options.insecure_skip_verify = true;
  Pair(Server(pem_), *TlsContext::Client(options), "");
  Exchange();
}

TEST_F(StreamTest, ATruncatedTlsAnswerIsAFailureForTheReader) {
  Pair(Server(pem_), Client(ca_.certificate));
  loop_.Call([&] {
    one_.to_send = "half";
    one_.OnWritable();
  });
  ASSERT_TRUE(Soon([&] { return two_.received == "half"; }));
  loop_.Call([&] { ::shutdown(one_.stream_.fd(), SHUT_RDWR); });
  EXPECT_TRUE(Soon([&] { return !two_.failure.empty(); }));
  EXPECT_FALSE(two_.closed);
}

TEST_F(StreamTest, RequiresANameToVerify) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd other(fds[1]);
  loop_.Call([&] {
    auto stream = Stream::Adopt(loop_, UniqueFd(fds[0]), Client(ca_.certificate), "");
    ASSERT_FALSE(stream.ok());
    EXPECT_EQ(stream.error().code, Code::kInvalidArgument);
  });
}

TEST_F(StreamTest, ConnectsAndIsRefused) {
  UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listening.get(), 5), 0);
  socklen_t got = sizeof(address);
  ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &got);
  Endpoint at = Endpoint::FromSockaddr(address, got);
  loop_.Call([&] { one_.Take(*Stream::Connect(loop_, at)); });
  UniqueFd accepted(::accept(listening.get(), nullptr, nullptr));
  ASSERT_TRUE(accepted);
  ASSERT_EQ(::send(accepted.get(), "hi", 2, 0), 2);
  EXPECT_TRUE(Soon([&] { return one_.received == "hi"; }));
  loop_.Call([&] { EXPECT_TRUE(one_.stream_.handshake_done()); });
  listening.reset();
  loop_.Call([&] {
    auto refused = Stream::Connect(loop_, at);
    if (refused) two_.Take(*std::move(refused));
  });
  EXPECT_TRUE(Soon([&] { return !two_.failure.empty(); }));
  EXPECT_THAT(two_.failure, HasSubstr("connect: "));
  EXPECT_FALSE(Stream::Connect(loop_, Endpoint()).ok());
  EXPECT_FALSE(Stream::Connect(loop_, *ParseListenAddress("unix:/no/such/socket")).ok());
}

TEST_F(StreamTest, AClosedStreamDoesNothing) {
  Stream none;
  EXPECT_FALSE(none);
  char buffer[4];
  EXPECT_EQ(none.ReadSome(buffer).outcome, IoOutcome::kFailed);
  EXPECT_EQ(none.WriteSome({}).outcome, IoOutcome::kFailed);
  none.WaitReadable();
  none.WaitWritable();
  none.Shutdown();
  none.Close();
  EXPECT_EQ(none.fd(), -1);
  EXPECT_EQ(none.error(), "closed");
  EXPECT_EQ(none.local(), Endpoint());
  EXPECT_EQ(none.peer().pid, 0);
  EXPECT_EQ(none.peer().uid, -1);
  EXPECT_FALSE(Stream::Adopt(loop_, UniqueFd()).ok());
}

TEST(TlsContext, ErrorsNameTheCause) {
  testing::Pem ca = testing::MakeCa("ca"), pem = testing::MakeCertificate(ca, "x", {"x"});
  testing::TempFolder folder;
  TlsServerOptions good;
  good.certificate.text = pem.certificate;
  good.key.text = pem.key;
  EXPECT_TRUE(TlsContext::Server(good).ok());
  auto why = [](const TlsServerOptions& options) {
    auto made = TlsContext::Server(options);
    return made ? "made" : made.error().detail;
  };
  TlsServerOptions bad = good;
  bad.certificate = {.file = folder.path() + "/none.pem", .text = {}};
  EXPECT_THAT(why(bad), HasSubstr("/none.pem"));
  bad.certificate = {.file = folder.Write("rubbish.pem", "rubbish"), .text = {}};
  EXPECT_THAT(why(bad), HasSubstr("rubbish.pem: no certificate"));
  bad = good;
  bad.key.text = ca.key;
  EXPECT_THAT(why(bad), HasSubstr("does not belong to the certificate"));
  bad.key.text = "rubbish";
  EXPECT_THAT(why(bad), HasSubstr("no private key"));
  bad = good;
  bad.cipher_suites = {"TLS_FAST"};
  EXPECT_THAT(why(bad), HasSubstr("unknown suite TLS_FAST"));
  bad = good;
  bad.curves = {"P1"};
  EXPECT_THAT(why(bad), HasSubstr("unknown curve P1"));
  bad = good;
  bad.min_version = TlsVersion::kTls13;
  bad.max_version = TlsVersion::kTls12;
  EXPECT_THAT(why(bad), HasSubstr("min_version is above"));
  bad = good;
  bad.client_auth = ClientAuth::kRequireAndVerifyClientCert;
  EXPECT_THAT(why(bad), HasSubstr("client_ca_file is not set"));
  bad.client_ca.text = "rubbish";
  EXPECT_THAT(why(bad), HasSubstr("no CA certificate"));
  bad = good;
  bad.client_ca.text = ca.certificate;
  EXPECT_THAT(why(bad), HasSubstr("client_auth_type is NoClientCert"));
  good.cipher_suites = {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"};
  good.curves = {"X25519", "CurveP256"};
  EXPECT_EQ(why(good), "made");
}

TEST(TlsContext, ClientFindsTheCaFilesOfTheMachine) {
  testing::TempFolder folder;
  std::string path = folder.Write("ca.pem", testing::MakeCa("mine").certificate);
  ::setenv("SSL_CERT_FILE", path.c_str(), 1);
  EXPECT_TRUE(TlsContext::Client({}).ok());
  folder.Write("ca.pem", "rubbish");
  auto bad = TlsContext::Client({});
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().detail, HasSubstr("ca.pem: no CA certificate"));
  ::unsetenv("SSL_CERT_FILE");
  TlsClientOptions pair;
  pair.insecure_skip_verify = true;
  pair.certificate.file = folder.path() + "/none.pem";
  EXPECT_FALSE(TlsContext::Client(pair).ok());
  EXPECT_EQ(TakeTlsErrors(), "no detail");
}

}  // namespace
}  // namespace gpulens
