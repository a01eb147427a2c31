#include <gpulens/export.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <semaphore>

#include <gpulens/instruments.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "base/testing/temp_folder.h"
#include "net/grpc/grpc_server.h"
#include "net/testing/certificates.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"
#include "sdk/export/exporter_seat.h"
#include "wire/otlp/otlp_testing.h"

namespace gpulens {
namespace {

using otlp_testing::MetricsText;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Answer200;
using ::testing::ContainsRegex;
using testing::Eventually;
using testing::Fetch;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;
using testing::TempFolder;

constexpr seconds kTimeout(20);

// A server that answers as a test sets.
class Receiver {
 public:
  explicit Receiver(const std::string& listen = "127.0.0.1:0",
                    std::shared_ptr<const TlsContext> tls = nullptr)
      : server_([this](ScriptedServer::Peer& peer, int) { Serve(peer); }, std::move(tls), listen) {}

  void Answer(std::string answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  size_t count() const {
    std::lock_guard lock(mutex_);
    return texts_.size();
  }
  std::string text(size_t i) const {
    std::lock_guard lock(mutex_);
    return i < texts_.size() ? texts_[i] : "";
  }
  std::string head() const {
    std::lock_guard lock(mutex_);
    return head_;
  }
  std::string Url(const std::string& path = "") const { return server_.Url(path); }

 private:
  void Serve(ScriptedServer::Peer& peer) {
    const std::string head = peer.Head();
    const std::string body = peer.Body(head);
    std::unique_lock lock(mutex_);
    head_ = head;
    texts_.push_back(MetricsText::Of(body));
    const std::string answer = answer_;
    lock.unlock();
    peer.Write(answer);
  }

  mutable std::mutex mutex_;  // guards what follows
  std::string answer_ = Answer200("", "Content-Type: application/x-protobuf\r\n");
  std::string head_;
  std::vector<std::string> texts_;
  ScriptedServer server_;
};

std::string InstanceIn(const std::string& text) {
  const size_t at = text.find("service.instance.id=\"");
  return at == text.npos ? "" : text.substr(at + 21, 36);
}

TEST(ExportToAgent, ExportsOnFlushAndAtTheEnd) {
  TempFolder folder;
  Receiver agent("unix:" + folder.path() + "/otlp.sock");
  Registry registry;
  const Counter counter("jobs", {}, registry);
  counter.Add(2);
  {
    Exporter exporter =
        ExportToAgent({.socket = folder.path() + "/otlp.sock", .interval = hours(1)}, registry);
    EXPECT_EQ(exporter.address(), "unix:" + folder.path() + "/otlp.sock");
    EXPECT_TRUE(exporter.Flush(kTimeout).ok());
    EXPECT_TRUE(exporter.status().ok());
    ASSERT_GE(agent.count(), 1u);
    EXPECT_THAT(agent.text(0), HasSubstr("jobs sum cumulative monotonic\n"));
    EXPECT_THAT(agent.text(0), HasSubstr(" i2\n"));
    EXPECT_THAT(agent.text(0), HasSubstr("process.pid=" + std::to_string(::getpid())));
    EXPECT_THAT(agent.head(), HasSubstr("POST /v1/metrics HTTP/1.1\r\n"));
    counter.Add(3);
  }
  EXPECT_THAT(agent.text(agent.count() - 1), HasSubstr(" i5\n")) << "the end sends once more";
}

TEST(ExportToAgent, LosesNothingWhileTheAgentIsAbsent) {
  TempFolder folder;
  const std::string path = folder.path() + "/otlp.sock";
  Registry registry;
  const Counter counter("jobs", {}, registry);
  Exporter exporter = ExportToAgent({.socket = path, .interval = hours(1)}, registry);
  counter.Add(4);
  const Status absent = exporter.Flush(kTimeout);
  EXPECT_EQ(absent.code, Code::kUnavailable);
  EXPECT_THAT(exporter.status().detail, ContainsRegex("no agent at " + path + ", [0-9]+ tr(y|ies)"));
  counter.Add(3);
  Receiver agent("unix:" + path);
  EXPECT_TRUE(exporter.Flush(kTimeout).ok());
  EXPECT_TRUE(exporter.status().ok());
  EXPECT_THAT(agent.text(agent.count() - 1), HasSubstr(" i7\n"));
}

TEST(ExportToAgent, ExportsPeriodically) {
  TempFolder folder;
  Receiver agent("unix:" + folder.path() + "/otlp.sock");
  Registry registry;
  Counter("jobs", {}, registry).Add(1);
  const Exporter exporter =
      ExportToAgent({.socket = folder.path() + "/otlp.sock", .interval = milliseconds(10)}, registry);
  EXPECT_TRUE(Eventually([&] { return agent.count() >= 3; }));
}

TEST(ExportToAgent, SilentAgentDoesNotDelayTheEnd) {
  TempFolder folder;
  const std::string path = folder.path() + "/otlp.sock";
  ScriptedServer silent([](ScriptedServer::Peer& peer, int) { peer.Sit(); }, nullptr, "unix:" + path);
  Registry registry;
  Counter("jobs", {}, registry).Add(1);
  Exporter exporter = ExportToAgent({.socket = path, .interval = hours(1)}, registry);
  EXPECT_EQ(exporter.Flush(milliseconds(1)).code, Code::kTimeout);
  {
    const Exporter ended = std::move(exporter);
  }
  EXPECT_EQ(exporter.status().code, Code::kUnavailable) << "it was moved from";
}

TEST(ExportToAgent, SplitsManySeriesIntoRequests) {
  TempFolder folder;
  Receiver agent("unix:" + folder.path() + "/otlp.sock");
  Registry registry;
  const Counter counter("jobs", {}, registry);
  for (int64_t i = 0; i < 1'500; ++i) counter.Bind({{"i", i}}).Add(1);
  Exporter exporter = ExportToAgent({.socket = folder.path() + "/otlp.sock", .interval = hours(1)}, registry);
  EXPECT_TRUE(exporter.Flush(kTimeout).ok());
  ASSERT_GE(agent.count(), 2u);
  EXPECT_THAT(agent.text(0), HasSubstr("i=\"0\""));
  EXPECT_THAT(agent.text(1), HasSubstr("i=\"1499\""));
}

TEST(ExportToAgent, ForkHasAnotherInstanceId) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer knows no threads after a fork of several";
  TempFolder folder;
  const std::string path = folder.path() + "/otlp.sock";
  Receiver agent("unix:" + path);
  Registry registry;
  const Counter counter("jobs", {}, registry);
  const Gauge gauge("depth", {}, registry);
  Exporter exporter = ExportToAgent({.socket = path, .interval = hours(1)}, registry);
  counter.Add(5);
  ASSERT_TRUE(exporter.Flush(kTimeout).ok());
  const size_t before = agent.count();
  const std::string parents = InstanceIn(agent.text(before - 1));
  const pid_t child = ::fork();
  if (child == 0) {
    gauge.Set(1.5);  // the first use
    ::_exit(exporter.Flush(kTimeout).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_GT(agent.count(), before);
  const std::string reported = agent.text(agent.count() - 1);
  EXPECT_NE(InstanceIn(reported), parents);
  EXPECT_THAT(reported, HasSubstr("process.pid=" + std::to_string(child)));
  EXPECT_THAT(reported, HasSubstr(" 1.5\n"));
  EXPECT_THAT(reported, Not(HasSubstr(" i5\n")));
  ASSERT_TRUE(exporter.Flush(kTimeout).ok());
  EXPECT_EQ(InstanceIn(agent.text(agent.count() - 1)), parents);
  EXPECT_THAT(agent.text(agent.count() - 1), HasSubstr(" i5\n"));
}

TEST(ExportToAgent, ForkThatRecordsExports) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer knows no threads after a fork of several";
  TempFolder folder;
  const std::string path = folder.path() + "/otlp.sock";
  Receiver agent("unix:" + path);
  Registry registry;
  const Counter counter("jobs", {}, registry);
  counter.Add(1);
  Exporter exporter = ExportToAgent({.socket = path, .interval = milliseconds(10)}, registry);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    counter.Add(41);
    char byte;
    (void)!::read(ends[0], &byte, 1);  // stays until the parent has seen it
    ::_exit(0);
  }
  const std::string pid = "process.pid=" + std::to_string(child);
  EXPECT_TRUE(Eventually([&] {
    const std::string last = agent.text(agent.count() - 1);
    return last.find(pid) != last.npos && last.find(" i41\n") != last.npos;
  }));
  (void)!::write(ends[1], "x", 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ExportOtlp, ExportsOverHttp) {
  Receiver receiver;
  Registry registry;
  Counter("jobs", {}, registry).Add(1);
  auto exporter = ExportOtlp(
      {.endpoint = receiver.Url(), .headers = {{"x-tenant", "a"}}, .interval = hours(1)}, registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().detail;
  EXPECT_TRUE((*exporter).Flush(kTimeout).ok());
  EXPECT_THAT(receiver.head(), HasSubstr("POST /v1/metrics HTTP/1.1\r\n"));
  EXPECT_THAT(receiver.head(), HasSubstr("\r\nx-tenant: a\r\n"));
  EXPECT_EQ((*exporter).address(), receiver.Url("/v1/metrics"));
  receiver.Answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ((*exporter).Flush(kTimeout).code, Code::kInvalidArgument);
  // partial_success { rejected_data_points: 2, error_message: "no" }
  receiver.Answer(Answer200("\x0a\x06\x08\x02\x12\x02no", ""));
  const Status partial = (*exporter).Flush(kTimeout);
  EXPECT_EQ(partial.code, Code::kDataLoss);
  EXPECT_THAT(partial.detail, HasSubstr("2 points were refused: no"));
  receiver.Answer("HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ((*exporter).Flush(kTimeout).code, Code::kExhausted);
}

TEST(ExportOtlp, ExportsOverTls) {
  const testing::Pem ca = testing::MakeCa("ours"), own = testing::MakeCertificate(ca, "x", {"127.0.0.1"});
  TempFolder folder;
  TlsServerOptions options;
  options.certificate.text = own.certificate;
  options.key.text = own.key;
  Receiver receiver("127.0.0.1:0", *TlsContext::Server(options));
  Registry registry;
  Counter("jobs", {}, registry).Add(9);
  OtlpOptions otlp{
      .endpoint = receiver.Url(), .ca_file = folder.Write("ca.pem", ca.certificate), .interval = hours(1)};
  auto exporter = ExportOtlp(otlp, registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().detail;
  const Status sent = (*exporter).Flush(kTimeout);
  EXPECT_TRUE(sent.ok()) << sent.detail;
  EXPECT_THAT(receiver.text(0), HasSubstr(" i9\n"));
  otlp.ca_file = folder.Write("other.pem", testing::MakeCa("another").certificate);
  auto wrong = ExportOtlp(otlp, registry);
  ASSERT_TRUE(wrong.ok());
  EXPECT_FALSE((*wrong).Flush(kTimeout).ok());
  otlp.ca_file = folder.path() + "/none.pem";
  EXPECT_FALSE(ExportOtlp(otlp, registry).ok());
}

TEST(ExportOtlp, ExportsWithAClientCertificate) {
  const testing::Pem ca = testing::MakeCa("ours"), own = testing::MakeCertificate(ca, "x", {"127.0.0.1"});
  const testing::Pem mine = testing::MakeCertificate(ca, "trainer", {"trainer.example.org"});
  TempFolder folder;
  TlsServerOptions options;
  options.certificate.text = own.certificate;
  options.key.text = own.key;
  options.client_ca.text = ca.certificate;
  options.client_auth = ClientAuth::kRequireAndVerifyClientCert;
  Receiver receiver("127.0.0.1:0", *TlsContext::Server(options));
  Registry registry;
  Counter("jobs", {}, registry).Add(9);
  OtlpOptions otlp{.endpoint = receiver.Url(),
                   .ca_file = folder.Write("ca.pem", ca.certificate),
                   .service_name = "trainer",
                   .interval = hours(1)};
  auto nameless = ExportOtlp(otlp, registry);
  ASSERT_TRUE(nameless.ok()) << nameless.status().detail;
  EXPECT_FALSE((*nameless).Flush(kTimeout).ok());
  EXPECT_EQ(receiver.count(), 0u);
  otlp.client_certificate_file = folder.Write("mine.pem", mine.certificate);
  EXPECT_EQ(ExportOtlp(otlp, registry).status().code, Code::kInvalidArgument)
      << "a certificate without its key";
  otlp.client_key_file = folder.Write("mine.key", mine.key);
  auto named = ExportOtlp(otlp, registry);
  ASSERT_TRUE(named.ok()) << named.status().detail;
  const Status sent = (*named).Flush(kTimeout);
  EXPECT_TRUE(sent.ok()) << sent.detail;
  EXPECT_THAT(receiver.text(0), HasSubstr("service.name=\"trainer\""));
}

TEST(ExportOtlp, ExportsOverGrpc) {
  struct Taker : GrpcHandler {
    void Handle(GrpcRequest request, GrpcResponder responder) override {
      std::lock_guard lock(mutex);
      path = request.path;
      text = MetricsText::Of(request.message);
      responder.Send(refuse ? GrpcAnswer::Failure(GrpcCode::kUnavailable, "later", seconds(3))
                            : GrpcAnswer::Ok(""));
    }
    std::mutex mutex;
    std::string path, text;
    bool refuse = false;
  } taker;
  IoLoop loop;
  loop.Start();
  auto server = std::make_unique<GrpcServer>(
      loop,
      std::vector<GrpcRoute>{{"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", &taker}},
      GrpcServer::Options{});
  auto at = server->Listen(*ParseListenAddress("127.0.0.1:0"));
  ASSERT_TRUE(at.ok());
  Registry registry;
  Counter("jobs", {}, registry).Add(6);
  auto exporter = ExportOtlp(
      {.endpoint = "http://" + (*at).ToString(), .protocol = "grpc", .interval = hours(1)}, registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().detail;
  const Status sent = (*exporter).Flush(kTimeout);
  EXPECT_TRUE(sent.ok()) << sent.detail;
  {
    std::lock_guard lock(taker.mutex);
    EXPECT_EQ(taker.path, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");
    EXPECT_THAT(taker.text, HasSubstr(" i6\n"));
    taker.refuse = true;
  }
  const Status later = (*exporter).Flush(kTimeout);
  EXPECT_EQ(later.code, Code::kExhausted);
  EXPECT_THAT(later.detail, HasSubstr("later"));
  server.reset();
  loop.Stop();
}

TEST(Expose, ServesTheRequestedFormat) {
  Registry registry;
  Counter("jobs", {}, registry).Add(3);
  auto exporter = Expose({.listen = "127.0.0.1:0"}, registry);
  ASSERT_TRUE(exporter.ok()) << exporter.status().detail;
  const std::string address = (*exporter).address();
  EXPECT_THAT(address, ContainsRegex("^http://127.0.0.1:[0-9]+/metrics$"));
  const Endpoint at = *ParseListenAddress(address.substr(7, address.size() - 7 - 8));
  const testing::Answer page = Fetch(at, "GET", "/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.Header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
  EXPECT_THAT(page.body, HasSubstr("\njobs_total 3\n"));
  EXPECT_THAT(page.body, HasSubstr("target_info{"));
  EXPECT_THAT(Fetch(at, "GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n").body,
              ::testing::EndsWith("# EOF\n"));
  EXPECT_EQ(Fetch(at, "GET", "/").status, 404);
  EXPECT_TRUE((*exporter).Flush().ok());
  auto second = Expose({.listen = at.ToString()}, registry);
  ASSERT_FALSE(second.ok()) << "the port is taken";
  EXPECT_THAT(second.status().detail, HasSubstr("already in use"));
  exporter = Status{Code::kUnavailable, "ended"};
  EXPECT_EQ(Fetch(at, "GET", "/metrics").status, 0) << "nobody serves it any more";
  EXPECT_THAT(ToPrometheus(registry), "# TYPE jobs_total counter\njobs_total 3\n");
}

TEST(Expose, ServesOtherMachinesOnlyIfInsecure) {
  Registry registry;
  const auto open = Expose({.listen = ":0"}, registry);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, Code::kInvalidArgument);
  EXPECT_THAT(open.error().detail, HasSubstr("neither TLS nor passwords"));
  EXPECT_TRUE(Expose({.listen = ":0", .insecure = true}, registry).ok());
  EXPECT_FALSE(Expose({.listen = "nowhere"}, registry).ok());
}

TEST(Expose, PageRemainsTheParents) {
  Registry registry;
  const Counter counter("jobs", {}, registry);
  auto exporter = Expose({.listen = "127.0.0.1:0"}, registry);
  ASSERT_TRUE(exporter.ok());
  const std::string address = (*exporter).address();
  const pid_t child = ::fork();
  if (child == 0) {
    counter.Add(1);
    const Status here = (*exporter).status();
    ::_exit(here.code == Code::kUnavailable && (*exporter).address().empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Fetch(*ParseListenAddress(address.substr(7, address.size() - 15)), "GET", "/metrics").status,
            200);
}

TEST(Exporters, CanBeDisabled) {
  ::setenv("OTEL_SDK_DISABLED", "TRUE", 1);
  Registry registry;
  Exporter agent = ExportToAgent({}, registry);
  EXPECT_THAT(agent.status().detail, HasSubstr("OTEL_SDK_DISABLED"));
  EXPECT_FALSE(agent.Flush().ok());
  auto page = Expose({.listen = "127.0.0.1:0"}, registry);
  EXPECT_TRUE(page.ok());
  EXPECT_TRUE(ExportOtlp({.endpoint = "nonsense"}, registry).ok());
  ::unsetenv("OTEL_SDK_DISABLED");
}

// A job whose thread takes 50 ms to destroy its thread-local objects after Run has returned.
class SlowEnd : public sdk::ExportJob {
 public:
  explicit SlowEnd(std::atomic<bool>& gone) : gone_(gone) {}
  void Run() override {
    thread_local Kept kept;
    kept.gone = &gone_;
    finished_.acquire();
  }
  void Finish(Duration) override { finished_.release(); }
  void Cut() override {}
  Status status() const override { return Ok(); }
  Status Flush(Duration) override { return Ok(); }
  std::string address() const override { return {}; }
  void LeaveBehind() noexcept override {}

 private:
  struct Kept {
    std::atomic<bool>* gone = nullptr;
    ~Kept() {
      std::binary_semaphore never{0};
      (void)never.try_acquire_for(milliseconds(50));
      if (gone) *gone = true;
    }
  };
  std::atomic<bool>& gone_;
  std::binary_semaphore finished_{0};
};

TEST(ExporterSeat, JoinsItsThread) {
  std::atomic<bool> gone{false};
  {
    const auto seat = sdk::ExporterSeat::Take([&] { return std::make_shared<SlowEnd>(gone); });
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace gpulens
