#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "base/files.h"
#include "base/threads.h"
#include "net/client/http_client.h"
#include "net/testing/scripted_server.h"
#include "plugins/discovery/local/listener_scan.h"
#include "plugins/plugin.h"

namespace gpulens {
extern const DiscoverySpec local_discovery;

namespace local_listeners {
namespace {

using Args = std::vector<std::string>;

TEST(ListenerMarksTest, RecognizesProcessesOfEngines) {
  EXPECT_EQ(EngineOf("python3", {"/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server"}), "vllm");
  EXPECT_EQ(EngineOf("vllm", {"/opt/venv/bin/python", "/opt/venv/bin/vllm", "serve", "m"}), "vllm");
  EXPECT_EQ(EngineOf("python3", {"python3", "-m", "sglang.launch_server", "--port", "1"}), "sglang");
  EXPECT_EQ(EngineOf("llama-server", {"./build/bin/llama-server", "-m", "x.gguf"}), "llama.cpp");
  EXPECT_EQ(EngineOf("tritonserver", {"/opt/tritonserver/bin/tritonserver"}), "triton");
  EXPECT_EQ(EngineOf("VLLM::EngineCor", {"VLLM::EngineCore"}), "vllm");
  EXPECT_EQ(EngineOf("python", {"python", "-m", "dynamo.vllm"}), "dynamo-worker");
  EXPECT_EQ(EngineOf("python", {"python", "-m", "sglang_router.launch_router"}), "sglang-router");
  EXPECT_EQ(EngineOf("vllm-router", {"/usr/bin/python3", "/opt/venv/bin/vllm-router"}), "vllm-router");
  EXPECT_EQ(EngineOf("python", {"python", "-m", "vllm_router.app"}), "vllm-production-stack");
  EXPECT_EQ(EngineOf("lmdeploy", {"/usr/bin/python3", "lmdeploy", "serve", "api_server", "m"}), "lmdeploy");
  EXPECT_EQ(EngineOf("xinference-work", {"/usr/bin/python3", "/opt/bin/xinference-worker", "-e", "x"}),
            "xinference");
  EXPECT_EQ(EngineOf("python3", {"python3", "ollama_exporter.py"}), "ollama");
  EXPECT_EQ(EngineOf("extproc-server", {"/app/extproc-server", "--config", "x"}), "semantic-router");
  EXPECT_EQ(EngineOf("ollama", {"ollama", "serve"}), "") << "it has no page";
}

TEST(ListenerMarksTest, IgnoresOtherProcesses) {
  EXPECT_EQ(EngineOf("vllm", {"vllm", "bench", "latency"}), "");
  EXPECT_EQ(EngineOf("vim", {"vim", "--cmd", "vllm.entrypoints"}), "");
  EXPECT_EQ(EngineOf("bash", {"bash", "run.sh", "--engine", "tritonserver"}), "");
  EXPECT_EQ(EngineOf("python3", {"python3", "-m", "http.server"}), "");
  EXPECT_EQ(EngineOf("kworker", {}), "");
}

TEST(ListenerMarksTest, ReadsOnlyPortsOfRequests) {
  EXPECT_EQ(
      NamedPorts({"x", "--port", "8001", "--nccl-port=9000", "--grpc-port", "8001", "--master-port", "1"}),
      (std::vector<uint16_t>{8001}));
  EXPECT_EQ(NamedPorts({"x", "-p", "80", "--metrics-port=81", "--listen", "0.0.0.0:82", "--port", "99999"}),
            (std::vector<uint16_t>{80, 81, 82}));
  EXPECT_TRUE(NamedPorts({"x", "--port"}).empty());
}

TEST(ListenerMarksTest, IdentifiesPagesByTheirFamilies) {
  EXPECT_EQ(KindOfPage("# HELP vllm:x y\n# TYPE vllm:num_requests_running gauge\n"), "vllm");
  EXPECT_EQ(KindOfPage("# TYPE llamacpp:prompt_tokens_total counter\n"), "llama.cpp");
  EXPECT_EQ(KindOfPage("# TYPE dynamo_component_requests_total counter\n# TYPE vllm:x gauge\n"),
            "dynamo-worker");
  EXPECT_EQ(KindOfPage("# TYPE node_cpu_seconds_total counter\n"), "");
  EXPECT_EQ(KindOfPage("# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"), "dcgm");
  EXPECT_EQ(KindOfPage("<html>vllm:</html>"), "");
}

TEST(ListenerMarksTest, PathsOfTheEngineComeFirst) {
  EXPECT_EQ(PathsFor("trtllm-serve", 8000),
            (std::vector<std::string_view>{"/prometheus/metrics", "/metrics"}));
  EXPECT_EQ(PathsFor("llama.cpp", 9999), (std::vector<std::string_view>{"/metrics"}));
}

// A folder like /proc. Created at run time, as the tree cannot hold its links.
class LocalDiscoveryTest : public ::testing::Test {
 protected:
  LocalDiscoveryTest() {
    root_ = ::testing::TempDir() + "local_discovery_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
    Link("self/ns/net", "net:[1]");
  }
  ~LocalDiscoveryTest() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(MakeFoldersAbove(root_ + "/proc/" + path));
    ASSERT_TRUE(WriteFileAtomically(root_ + "/proc/" + path, text));
  }
  void Link(const std::string& path, const std::string& target) {
    ASSERT_TRUE(MakeFoldersAbove(root_ + "/proc/" + path));
    std::filesystem::create_symlink(target, root_ + "/proc/" + path);
  }
  void AddProcess(int pid, const std::string& name, const Args& args, int inode, int ns = 1) {
    std::string base = std::to_string(pid) + "/", line;
    for (const std::string& arg : args) line += arg + '\0';
    Put(base + "comm", name + "\n");
    Put(base + "cmdline", line);
    Link(base + "ns/net", "net:[" + std::to_string(ns) + "]");
    Link(base + "fd/3", "socket:[" + std::to_string(inode) + "]");
  }
  struct Row {
    uint32_t ip;  // as written in the table
    uint16_t port;
    int inode;
  };
  void Listen(const std::string& who, const std::vector<Row>& rows) {
    std::string text = "  sl  local_address rem_address st ...\n";
    char line[200];
    for (const Row& row : rows) {
      std::snprintf(line, sizeof line,
                    "   0: %08X:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000 %u 0 %d 1\n",
                    row.ip, row.port, ::getuid(), row.inode);
      text += line;
    }
    Put(who + "/net/tcp", text);
  }
  ScanResult Scan(int own_pid = 1) {
    ListenerScanner scanner(root_, own_pid);
    return scanner.Scan(scanner.Listening());
  }
  static constexpr uint32_t kLoopback = 0x0100007F, kAny = 0;
  std::string root_;
};

TEST_F(LocalDiscoveryTest, FindsAnEngineAtTheNamedPort) {
  AddProcess(20, "llama-server", {"llama-server", "--port", "8123"}, 501);
  Listen("self", {{kAny, 8123, 501}, {kLoopback, 45000, 502}});
  ScanResult scan = Scan();
  ASSERT_EQ(scan.candidates.size(), 1u);
  EXPECT_EQ(scan.candidates[0].address, "127.0.0.1:8123");
  EXPECT_EQ(scan.candidates[0].kind, "llama.cpp");
  EXPECT_EQ(scan.candidates[0].pid, 20);
  EXPECT_EQ(scan.processes, 1u);
}

TEST_F(LocalDiscoveryTest, DoesNotQueryInnerPorts) {
  AddProcess(20, "python3", {"python3", "-m", "sglang.launch_server", "--nccl-port", "30111"}, 501);
  Listen("self", {{kAny, 30111, 501}});
  EXPECT_TRUE(Scan().candidates.empty());
}

TEST_F(LocalDiscoveryTest, SkipsAKnownPortOfAnotherProgram) {
  AddProcess(20, "nginx", {"nginx"}, 501);
  AddProcess(21, "python3", {"python3", "server.py"}, 502);
  AddProcess(22, "python3", {"python3", "server.py"}, 503);
  Listen("self", {{kAny, 8080, 501}, {kLoopback, 8000, 502}, {kAny, 7777, 503}, {kAny, 8002, 504}});
  ScanResult scan = Scan();
  ASSERT_EQ(scan.candidates.size(), 1u) << "nobody holds 504: it may be anything";
  EXPECT_EQ(scan.candidates[0].address, "127.0.0.1:8000");
  EXPECT_EQ(scan.candidates[0].kind, "");
}

TEST_F(LocalDiscoveryTest, QueriesThePortOfDcgmExporterOfAnyProcess) {
  AddProcess(20, "docker-proxy", {"docker-proxy"}, 501);
  Listen("self", {{kAny, 9400, 501}});
  ScanResult scan = Scan();
  ASSERT_EQ(scan.candidates.size(), 1u);
  EXPECT_EQ(scan.candidates[0].kind, "dcgm");
  EXPECT_EQ(scan.candidates[0].pid, 20);
  Listen("self", {{kLoopback, 9400, 777}});  // of another user: its process is not seen
  scan = Scan();
  ASSERT_EQ(scan.candidates.size(), 1u);
  EXPECT_EQ(scan.candidates[0].pid, 0);
  Listen("self", {{0x0100000A, 9400, 501}});  // 10.0.0.1
  EXPECT_TRUE(Scan().candidates.empty());
}

TEST_F(LocalDiscoveryTest, DoesNotQueryOwnListeners) {
  AddProcess(20, "python3", {"python3", "x"}, 501);
  Listen("self", {{kLoopback, 8000, 501}});
  EXPECT_TRUE(Scan(20).candidates.empty());
  EXPECT_EQ(Scan(21).candidates.size(), 1u);
}

TEST_F(LocalDiscoveryTest, ReportsTheAddressOfAnEngineOfAnotherNamespace) {
  AddProcess(20, "vllm", {"python3", "vllm", "serve"}, 501, 2);
  Listen("20", {{kAny, 8000, 501}});
  Put("20/net/fib_trie", "Local:\n  |-- 10.244.0.5\n     /32 host LOCAL\n");
  Listen("self", {});
  ScanResult scan = Scan();
  EXPECT_TRUE(scan.candidates.empty());
  ASSERT_EQ(scan.elsewhere.size(), 1u);
  EXPECT_EQ(scan.elsewhere[0].engine, "vllm");
  EXPECT_EQ(scan.elsewhere[0].ports, (std::vector<uint16_t>{8000}));
  EXPECT_EQ(scan.elsewhere[0].addresses, (std::vector<std::string>{"10.244.0.5"}));
  Env env;
  env.root = root_;
  auto findings = local_discovery.probe(Config{}, env);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].remedy.find("http://10.244.0.5:8000/metrics"), std::string::npos)
      << findings[0].remedy;
}

// The whole plugin, against a page that is served.
class LocalPageTest : public LocalDiscoveryTest {
 protected:
  LocalPageTest() {
    loop_.Start();
    env_.root = root_;
    env_.clock = &clock_;
    env_.io = &loop_;
    env_.http = &client_;
    env_.workers = &workers_;
    Config config;
    config.Set("kind", std::string("prometheus"), {});
    discovery_ = std::move(*local_discovery.create(config, env_));
  }
  ~LocalPageTest() override {
    loop_.Stop();
    workers_.Stop();
  }
  std::vector<FoundTarget> Fetch() {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    loop_.Call([&] {
      discovery_->Fetch(clock_.Now() + std::chrono::seconds(30), [&](const Status&) {
        std::lock_guard lock(mutex);
        done = true;
        came.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, std::chrono::seconds(60), [&] { return done; }));
    return discovery_->Targets();
  }
  ManualClock clock_;
  IoLoop loop_;
  HttpClient client_{loop_};
  Workers workers_{1};
  Env env_;
  std::unique_ptr<Discovery> discovery_;
};

TEST_F(LocalPageTest, AcceptsAPageWithAnEnginesFamily) {
  std::atomic<bool> ready{false};
  gpulens::testing::ScriptedServer server([&](int, int, const std::string&) {
    return gpulens::testing::ScriptedServer::Turn{gpulens::testing::Answer200(
        ready ? "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 1\n"
              : "loading\n")};
  });
  const std::string port = std::to_string(server.endpoint().port);
  AddProcess(20, "llama-server", {"llama-server", "--port", port}, 501);
  Listen("self", {{kLoopback, server.endpoint().port, 501}});
  EXPECT_TRUE(Fetch().empty());
  const size_t requests = server.requests().size();
  EXPECT_EQ(requests, 1u);
  ready = true;
  EXPECT_TRUE(Fetch().empty()) << "queried again before its time";
  EXPECT_EQ(server.requests().size(), requests);
  clock_.Advance(std::chrono::seconds(16));
  auto found = Fetch();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "llama.cpp-" + port);
  EXPECT_EQ(found[0].url, server.Url("/metrics"));
  EXPECT_EQ(found[0].options.at("optional"), "true");
  EXPECT_EQ(found[0].options.at("kind"), "prometheus");
  EXPECT_EQ(found[0].options.at("pid"), "20") << "the ledger finds the engine's processes by it";
  // A known target is not queried again, and is removed with its socket.
  Fetch();
  EXPECT_EQ(server.requests().size(), requests + 1);
  Listen("self", {});
  EXPECT_TRUE(Fetch().empty());
}

}  // namespace
}  // namespace local_listeners
}  // namespace gpulens
