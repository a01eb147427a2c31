// Engines with the servers of others: Redis and PostgreSQL, where they are here.
#include "proxy/admission/engines.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>

#include <random>
#include <thread>

#include "base/files.h"
#include "net/blocking/listening_socket.h"
#include "net/testing/certificates.h"
#include "proxy/admission/leases_testing.h"

namespace gpulens::proxy {
namespace {

using gpulens::testing::TempFolder;
using testing::Await;
using testing::FindPeer;
using testing::PeerProgram;
using testing::Replica;

constexpr int64_t kMicroPico = kPicoPerMicro;

int FreePort() {
  auto socket = OpenListeningSocket(*ParseListenAddress("127.0.0.1:0"));
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return Endpoint::FromSockaddr(address, size).port;
}

// A Redis server without a disk, at a Unix socket and, with the given arguments, at a port.
class RedisServer {
 public:
  static std::optional<PeerProgram> Program() {
    return FindPeer("GPULENS_PEERS", "build/peers", "redis-server");
  }

  explicit RedisServer(std::vector<std::string> more = {}) : more_(std::move(more)) { Start(); }
  void Start() {
    const PeerProgram program = *Program();
    ChildProcess::Options options;
    options.program = program.path;
    options.environment = program.environment;
    options.arguments = {"--unixsocket", folder_.path() + "/redis.sock",
                         "--save",       "",
                         "--appendonly", "no",
                         "--logfile",    folder_.path() + "/log",
                         "--dir",        folder_.path(),
                         "--port",       "0"};
    options.arguments.insert(options.arguments.end(), more_.begin(), more_.end());
    auto child = ChildProcess::Start(options);
    ASSERT_TRUE(child) << child.status().detail;
    child_ = std::move(*child);
    ASSERT_TRUE(Await([&] { return Answers(); }));
  }
  void Kill() {
    child_.Signal(SIGKILL);
    ASSERT_TRUE(Await([&] { return child_.TryWait().has_value(); }));
    ::unlink((folder_.path() + "/redis.sock").c_str());
  }
  void Signal(int signal) { child_.Signal(signal); }
  std::string url() const { return "redis+unix:" + folder_.path() + "/redis.sock"; }
  const TempFolder& folder() const { return folder_; }

 private:
  // The file of a socket is there a moment before connections are taken.
  bool Answers() const {
    sockaddr_storage address{};
    const socklen_t size = ParseListenAddress("unix:" + folder_.path() + "/redis.sock")->ToSockaddr(address);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
  }

  TempFolder folder_;
  std::vector<std::string> more_;
  ChildProcess child_;
};

// A PostgreSQL server in a folder of its own, never as root.
class PostgresServer {
 public:
  static std::optional<PeerProgram> Program(const char* name) {
    return FindPeer("GPULENS_POSTGRES", "build/postgres", name);
  }

  PostgresServer() {
    const passwd* user = ::geteuid() == 0 ? ::getpwnam("nobody") : nullptr;
    if (user && ::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) return;
    const auto as_user = [&](const PeerProgram& program, std::vector<std::string> arguments) {
      std::string path = program.path;
      if (user) {
        arguments.insert(arguments.begin(),
                         {"--reuid=" + std::to_string(user->pw_uid),
                          "--regid=" + std::to_string(user->pw_gid), "--clear-groups", path});
        path = "/usr/bin/setpriv";
      }
      return std::pair(path, arguments);
    };
    RunOptions init;
    std::tie(init.program, init.arguments) = as_user(
        *Program("initdb"),
        {"-D", folder_.path() + "/data", "-U", "gpulens", "-N", "-E", "UTF8", "--locale=C", "-A", "trust"});
    init.environment = Program("initdb")->environment;
    init.timeout = std::chrono::seconds(100);
    const RunResult made = RunBounded(init, RealClock());
    EXPECT_TRUE(made.status) << made.status.detail;
    ChildProcess::Options options;
    std::tie(options.program, options.arguments) =
        as_user(*Program("postgres"), {"-D", folder_.path() + "/data", "-k", folder_.path(), "-c",
                                       "listen_addresses=", "-F", "-c", "log_min_messages=panic"});
    options.environment = Program("postgres")->environment;
    auto child = ChildProcess::Start(options);
    EXPECT_TRUE(child) << child.status().detail;
    child_ = std::move(*child);
    EXPECT_TRUE(Await([&] { return (*OpenBudgetEngine(url()))->NewFence().ok(); }));
  }
  ~PostgresServer() {
    child_.Signal(SIGINT);  // ends at once, with its children
    EXPECT_TRUE(Await([&] { return child_.TryWait().has_value(); }));
  }
  std::string url() const { return "postgresql://gpulens@/postgres?host=" + folder_.path(); }

 private:
  TempFolder folder_;
  ChildProcess child_;
};

BudgetSpec SpecOf(const std::string& name, int64_t limit_micros) {
  BudgetSpec spec;
  spec.name = name;
  spec.limit_pico = limit_micros * kMicroPico;
  spec.mode = BudgetMode::kHard;
  spec.window = *ParseBudgetWindow("day");
  spec.shared = true;
  return spec;
}

LeaseOptions Quick(const std::string& replica) {
  LeaseOptions options;
  options.replica = replica;
  options.report_every = options.retry = std::chrono::milliseconds(50);
  options.idle = std::chrono::milliseconds(200);
  return options;
}

LeaseReply WithoutTime(LeaseReply reply) {
  reply.now_ms = 0;
  return reply;
}

// Whatever is called, the server answers as ApplyLeaseCall does. Holders are gone at once or never, so that
// it does not matter when the server receives a call.
void ExpectTheFunction(BudgetEngine& engine, uint64_t seed, int calls) {
  std::mt19937_64 random(seed);
  EngineBudget budget;
  EngineHolders holders;
  const int64_t day = 86'400'000;
  std::map<std::pair<std::string, int64_t>, int64_t> sequences, spent;
  for (int i = 0; i < calls; ++i) {
    LeaseCall call;
    call.budget = "budget-of-seed-" + std::to_string(seed);
    call.limit = random() % 10 ? 9'000'000'000'000 : 1'000'000;  // the largest there is
    call.window_ms = day * static_cast<int64_t>(20'000 + i / 40);
    if (random() % 20 == 0) call.window_ms = day * 30'000;  // of a clock ahead
    call.replica = random() % 2 ? "a" : "b:c d";
    call.fence = static_cast<int64_t>(random() % 2) + 1'790'000'000'000;
    const std::pair who(call.replica, call.fence);
    call.sequence = random() % 8 ? ++sequences[who] : sequences[who];
    call.spent = spent[who] += static_cast<int64_t>(random() % 3'000'000'000'000);
    if (random() % 8 == 0) call.spent /= 2;
    call.give_back = random() % 4 ? 0 : static_cast<int64_t>(random() % 1'000'000'000'000);
    call.least = static_cast<int64_t>(random() % 1'000'000'000'000);
    call.want = call.least + static_cast<int64_t>(random() % 2'000'000'000'000);
    call.ttl_ms = random() % 2 ? 0 : day;
    call.close = random() % 30 == 0;
    const auto reply = engine.Exchange(call);
    ASSERT_TRUE(reply) << reply.status().detail;
    ASSERT_EQ(WithoutTime(*reply), WithoutTime(ApplyLeaseCall(call, reply->now_ms, budget, holders))) << i;
  }
}

void ExpectAnEngine(const std::string& url) {
  auto engine = OpenBudgetEngine(url);
  ASSERT_TRUE(engine) << engine.status().detail;
  const auto first = (*engine)->NewFence(), second = (*engine)->NewFence();
  ASSERT_TRUE(first) << first.status().detail;
  ASSERT_TRUE(second) << second.status().detail;
  EXPECT_GT(*first, 1'700'000'000'000);
  EXPECT_GT(*second, *first);
  for (uint64_t seed = 1; seed <= 4; ++seed) ExpectTheFunction(**engine, seed, 300);
}

// B5: two replicas with threads of their own, one engine.
void ExpectTheLimit(const std::string& url) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (const char* name : {"a", "b"}) {
    replicas.push_back(std::make_unique<Replica>(*OpenBudgetEngine(url), SpecOf("b5", 2'000), Quick(name)));
    ASSERT_TRUE(replicas.back()->keeper.Start());
  }
  std::atomic<int64_t> spent{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 1'500; ++i) {
        const auto most = static_cast<int64_t>(random() % (2 * kMicroPico)) + 1;
        auto one = replicas[t % 2]->AdmitWaiting({.expected_pico = most, .most_pico = most});
        const int64_t cost = most - static_cast<int64_t>(random() % 2);
        if (one.answer == BudgetAnswer::kAdmitted && one.reservation.Settle(cost, RealClock().Now()))
          spent += cost;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t calls = replicas[0]->keeper.counts().calls + replicas[1]->keeper.counts().calls;
  for (const auto& replica : replicas) replica->keeper.Stop();
  EXPECT_LE(spent.load(), 2'000 * kMicroPico);
  EXPECT_GT(spent.load(), 1'900 * kMicroPico) << "little is left behind in leases";
  auto engine = *OpenBudgetEngine(url);
  LeaseCall look;
  look.budget = "b5", look.limit = 2'000, look.replica = "c", look.fence = 1;
  const LeaseReply reply = *engine->Exchange(look);
  EXPECT_EQ(reply.leased, 0);
  EXPECT_GE(reply.spent * kMicroPico, spent.load());
  EXPECT_LE(reply.spent * kMicroPico, spent.load() + 2 * kMicroPico);
  std::printf("6000 requests, %lld of 2000 microdollars spent, %llu calls to the engine\n",
              static_cast<long long>(spent.load() / kMicroPico), static_cast<unsigned long long>(calls));
}

#define REQUIRE_REDIS()        \
  if (!RedisServer::Program()) \
  GTEST_SKIP() << "no redis-server in build/peers; tools/prepare_peers.sh gets it"
#define REQUIRE_POSTGRES()                                                        \
  if (!PostgresServer::Program("postgres") || !PostgresServer::Program("initdb")) \
  GTEST_SKIP() << "no postgres in build/postgres; tools/prepare_peers.sh gets it"

TEST(RedisEngines, AnswerAsTheFunctionDoes) {
  REQUIRE_REDIS();
  const RedisServer server;
  ExpectAnEngine(server.url());
}

TEST(RedisEngines, TwoReplicasStayWithinTheLimit) {
  REQUIRE_REDIS();
  const RedisServer server;
  ExpectTheLimit(server.url());
}

TEST(RedisEngines, LogInAndChooseADatabase) {
  REQUIRE_REDIS();
  const int port = FreePort();
  const RedisServer server(
      {"--port", std::to_string(port), "--bind", "127.0.0.1", "--requirepass", "s3cret@Word"});
  const std::string at = "127.0.0.1:" + std::to_string(port);
  auto right = *OpenBudgetEngine("redis://:s3cret%40Word@" + at + "/2");
  EXPECT_TRUE(right->NewFence()) << right->NewFence().status().detail;
  auto named = *OpenBudgetEngine("redis://default:s3cret%40Word@" + at);
  EXPECT_TRUE(named->NewFence());
  auto wrong = *OpenBudgetEngine("redis://:other-secret@" + at);
  const auto refused = wrong->NewFence();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_EQ(refused.error().detail.find("other-secret"), std::string::npos);
  EXPECT_FALSE((*OpenBudgetEngine("redis://" + at))->NewFence());
}

TEST(RedisEngines, SpeakTls) {
  REQUIRE_REDIS();
  const int port = FreePort();
  const TempFolder folder;
  const gpulens::testing::Pem ca = gpulens::testing::MakeCa("test ca");
  const gpulens::testing::Pem own = gpulens::testing::MakeCertificate(ca, "redis", {"127.0.0.1"});
  const std::string ca_file = folder.Write("ca.pem", ca.certificate);
  const RedisServer server({"--tls-port", std::to_string(port), "--bind", "127.0.0.1", "--tls-cert-file",
                            folder.Write("cert.pem", own.certificate), "--tls-key-file",
                            folder.Write("key.pem", own.key), "--tls-ca-cert-file", ca_file,
                            "--tls-auth-clients", "no"});
  auto trusting = *OpenBudgetEngine("rediss://127.0.0.1:" + std::to_string(port) + "?ca=" + ca_file);
  EXPECT_TRUE(trusting->NewFence()) << trusting->NewFence().status().detail;
  const std::string other = folder.Write("other.pem", gpulens::testing::MakeCa("other ca").certificate);
  auto doubting = *OpenBudgetEngine("rediss://127.0.0.1:" + std::to_string(port) + "?ca=" + other);
  EXPECT_FALSE(doubting->NewFence());
}

// B6 with a real server: killed, away, there again without its data; and one that does not answer.
TEST(RedisEngines, AServerThatIsKilledRefusesUntilItIsBack) {
  REQUIRE_REDIS();
  RedisServer server;
  LeaseOptions options = Quick("a");
  Replica a(*OpenRedisEngine(server.url(), "t", std::chrono::milliseconds(300)), SpecOf("b6", 1'000),
            options);
  ASSERT_TRUE(a.keeper.Start());
  const CostEstimate one{.expected_pico = kMicroPico, .most_pico = kMicroPico};
  int64_t spent = 0;
  const auto spend = [&] {
    auto admitted = a.AdmitWaiting(one);
    if (admitted.reservation.Settle(kMicroPico, RealClock().Now())) spent += kMicroPico;
    return admitted.answer;
  };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(spend(), BudgetAnswer::kAdmitted);
  server.Kill();
  ASSERT_TRUE(Await([&] { return spend() == BudgetAnswer::kEngineDown; }));
  EXPECT_EQ(a.budgets.held_pico(), 0);
  server.Start();
  ASSERT_TRUE(Await([&] { return spend() == BudgetAnswer::kAdmitted; }));
  server.Signal(SIGSTOP);
  ASSERT_TRUE(Await([&] { return spend() == BudgetAnswer::kEngineDown; }));
  server.Signal(SIGCONT);
  ASSERT_TRUE(Await([&] { return spend() == BudgetAnswer::kAdmitted; }));
  while (spend() == BudgetAnswer::kAdmitted) {
  }
  a.keeper.Stop();
  EXPECT_EQ(spent, 1'000 * kMicroPico);
  EXPECT_EQ(a.budgets.held_pico(), 0);
}

TEST(RedisEngines, UrlsAreChecked) {
  for (const char* url : {"", "http://x", "redis://", "redis://:p@", "redis://h:0", "redis://h:99999",
                          "redis://h/x", "redis://h?x=1", "redis+unix:relative", "redis://[::1"}) {
    const auto engine = OpenBudgetEngine(url);
    ASSERT_FALSE(engine) << url;
    EXPECT_EQ(engine.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(OpenBudgetEngine("redis://h", "{t}"));
  EXPECT_TRUE(OpenBudgetEngine("redis://[::1]:7000/3"));
}

TEST(RedisReplies, AreParsedWithinLimits) {
  const std::string folder = GPULENS_SOURCE_DIR "/src/proxy/admission/testdata/redis_reply_corpus/";
  const auto state_of = [&](const std::string& name) {
    const std::string text = *ReadFile(folder + name);
    std::string_view rest = text;
    RespReply reply;
    return ParseResp(rest, reply);
  };
  for (const char* name : {"ok", "error", "integer", "text", "null", "null_array", "lease", "nested"})
    EXPECT_EQ(state_of(name), RespState::kDone) << name;
  for (const char* name : {"cut_number", "cut_text"}) EXPECT_EQ(state_of(name), RespState::kMore) << name;
  for (const char* name : {"too_deep", "too_many", "too_long", "wrong_length", "http", "overflow"})
    EXPECT_EQ(state_of(name), RespState::kBad) << name;
  const std::string endless(kMostRespBytes + 100, '+');
  std::string_view rest = endless;
  RespReply reply;
  EXPECT_EQ(ParseResp(rest, reply), RespState::kBad);
}

TEST(PostgresEngines, AnswerAsTheFunctionDoesAndKeepTheLimit) {
  REQUIRE_POSTGRES();
  const PostgresServer server;
  ExpectAnEngine(server.url());
  ExpectTheLimit(server.url());
}

}  // namespace
}  // namespace gpulens::proxy
