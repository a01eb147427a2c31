#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/testing/temp_folder.h"
#include "base/threads.h"
#include "net/grpc/grpc_server.h"
#include "net/testing/scripted_server.h"
#include "plugins/gpu_pod_table.h"

namespace gpulens {

extern const EnricherSpec kubernetes_enricher;

namespace kubernetes {
namespace {

using gpulens::testing::Answer200;
using gpulens::testing::ScriptedServer;
using gpulens::testing::TempFolder;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
// A pod of namespace "ml" whose container "main" holds one device.
std::string PodMessage(const std::string& name, const std::string& device) {
  std::string devices = Field(1, "nvidia.com/gpu") + Field(2, device);
  return Field(1, Field(1, name) + Field(2, "ml") + Field(3, Field(1, "main") + Field(2, devices)));
}

// A kubelet that answers at once, or never.
class Kubelet final : public GrpcHandler {
 public:
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    std::lock_guard lock(mutex_);
    path = request.path;
    if (hangs) kept_.push_back(std::move(responder));
    else responder.Send(GrpcAnswer::Ok(answer));
  }
  void Set(std::string text, bool never = false) {
    std::lock_guard lock(mutex_);
    answer = std::move(text);
    hangs = never;
  }

  std::string path, answer;
  bool hangs = false;

 private:
  std::mutex mutex_;
  std::vector<GrpcResponder> kept_;
};

class KubernetesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop.Start();
    env.clock = &clock;
    env.io = &loop;
    env.http = &http;
    env.workers = &workers;
    env.gpu_pods = &board;
    env.root = folder.path();
    std::filesystem::create_directories(folder.path() + "/proc/2");
    std::ofstream(folder.path() + "/proc/2/stat") << "2 (kthreadd) S";
    server.emplace(loop, std::vector<GrpcRoute>{{std::string(kubelet::kPodResourcesList), &kubelet_}},
                   GrpcServer::Options{});
    Endpoint at;
    at.family = Endpoint::Family::kUnix;
    at.path = Socket();
    ASSERT_TRUE(server->Listen(at).ok());
  }
  void TearDown() override {
    enricher.reset();
    server.reset();
    loop.Stop();  // before the workers that it gives work
  }
  std::string Socket() const { return folder.path() + "/kubelet.sock"; }
  void Open(const std::string& api_url = "") {
    KubernetesOptions options;
    options.root = folder.path();
    options.node = "n1";
    options.socket = Socket();
    options.checkpoint = "/checkpoint";
    options.kubelet_timeout = milliseconds(300);
    options.labels = {"app"};
    if (!api_url.empty()) {
      kubelet::ApiServer api;
      api.url = *ParseHttpUrl(api_url);
      options.api = std::make_unique<kubelet::ApiAccess>(api);
    }
    enricher = std::make_unique<KubernetesEnricher>(std::move(options), env);
  }
  Status Look() {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Status> got;
    clock.Advance(seconds(5));
    loop.Call([&] {
      enricher->Fetch(clock.Now() + seconds(3), [&](Status status) {
        std::lock_guard lock(mutex);
        got = std::move(status);
        came.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(30), [&] { return got.has_value(); }));
    return got.value_or(Status{Code::kTimeout, "never"});
  }
  std::string Who(const std::string& uuid) {
    return enricher
        ->Describe(*MakeRef<Entity>("gpu", AttributeSet({{"gpu.uuid", std::string_view(uuid)},
                                                         {"gpu.index", uuid.back() - int64_t{'0'}}})))
        .Text("k8s.pod.name");
  }

  TempFolder folder;
  ManualClock clock;
  IoLoop loop;
  HttpClient http{loop};
  Workers workers{1};
  GpuPodTable board;
  Env env;
  Kubelet kubelet_;
  std::optional<GrpcServer> server;
  std::unique_ptr<KubernetesEnricher> enricher;
};

TEST_F(KubernetesTest, QueriesTheKubelet) {
  kubelet_.Set(PodMessage("a", "GPU-1"));
  Open();
  EXPECT_EQ(Who("GPU-1"), "");
  Status status = Look();
  ASSERT_TRUE(status.ok()) << status.detail;
  EXPECT_EQ(Who("GPU-1"), "a");
  EXPECT_EQ(Who("GPU-2"), "");
  EXPECT_EQ(enricher->Resource().Text("k8s.node.name"), "n1");
  uint64_t before = enricher->generation();
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher->generation(), before) << "nothing has changed";
  EXPECT_EQ(enricher->missing(), 0u);
  kubelet_.Set(PodMessage("a", "GPU-1") + PodMessage("z", "GPU-7"));
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher->missing(), 1u) << "no collector shows GPU-7";
  EXPECT_EQ(Who("GPU-7"), "z");
  EXPECT_EQ(enricher->missing(), 0u);
  kubelet_.Set(PodMessage("b", "GPU-1"));
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(Who("GPU-1"), "b");
  EXPECT_NE(enricher->generation(), before);
  kubelet_.Set("");
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(Who("GPU-1"), "") << "gone at once";
}

TEST_F(KubernetesTest, PublishesHoldersOfGpus) {
  EXPECT_EQ(board.Get(), nullptr);
  Open();
  ASSERT_NE(board.Get(), nullptr);
  kubelet_.Set(PodMessage("a", "GPU-1::0") + PodMessage("b", "GPU-1::1"));
  Who("GPU-1");
  ASSERT_TRUE(Look().ok());
  auto list = board.Get();
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].Text("gpu.uuid"), "GPU-1");
  EXPECT_EQ((*list)[0].Text("gpu.allocation"), "shared");
  EXPECT_EQ((*list)[0].Text("k8s.node.name"), "n1");
  EXPECT_EQ((*list)[0].Text("k8s.pod.name") + (*list)[1].Text("k8s.pod.name"), "ab");
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(board.Get(), list) << "nothing has changed";
  kubelet_.Set("");
  ASSERT_TRUE(Look().ok());
  EXPECT_TRUE(board.Get()->empty());
  enricher.reset();
  EXPECT_EQ(board.Get(), nullptr);
}

// The layouts that runtimes and drivers of cgroups make, as /proc/<pid>/cgroup shows them.
TEST_F(KubernetesTest, CgroupsNameProcessesWithoutAKubelet) {
  server.reset();
  Open();
  EXPECT_FALSE(Look().ok());
  const std::string uid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f0", id(64, 'a'), node_id(64, 'c');
  const std::string under = "0e1d2c3b_4a59_6877_8695_a4b3c2d1e0f0";
  const std::string slice =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/";
  const std::vector<std::string> layouts = {
      "0::" + slice + "cri-containerd-" + id + ".scope\n",
      "0::" + slice + "crio-" + id + ".scope\n",
      "0::" + slice + "docker-" + id + ".scope\n",
      "0::/kubepods/burstable/pod" + uid + "/" + id + "\n",
      "0::/../../kubepods/besteffort/pod" + uid + "/" + id + "\n",
      "12:memory:/kubepods/besteffort/pod" + uid + "/" + id + "\n1:name=systemd:/init.scope\n",
      "9:cpu,cpuacct:" + slice + "docker-" + id + ".scope\n0::/x\n",
      "0::/docker/" + node_id + "/kubelet/kubepods/burstable/pod" + uid + "/" + id + "\n",
      "0::/system.slice/docker-" + node_id +
          ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under +
          ".slice/cri-containerd-" + id + ".scope\n",
  };
  auto gpu = MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}}));
  int64_t pid = 100;
  for (const std::string& layout : layouts) {
    ++pid;
    std::filesystem::create_directories(folder.path() + "/proc/" + std::to_string(pid));
    std::ofstream(folder.path() + "/proc/" + std::to_string(pid) + "/cgroup") << layout;
    AttributeSet attributes =
        enricher->Describe(Entity("process", AttributeSet({{"process.pid", pid}}), gpu));
    EXPECT_EQ(attributes.Text("container.id"), id) << layout;
    EXPECT_EQ(attributes.Text("k8s.pod.uid"), uid) << layout;
  }
}

// A process in a cgroup that this test makes; needs root, and cgroups that can be written.
TEST(KubernetesCgroup, OfARealProcess) {
  const std::string uid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f0", id(64, 'a');
  for (const std::string top : {"/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu"}) {
    const std::string pods = top + "/kubepods_gpulens_test_" + std::to_string(::getpid()),
                      pod = pods + "/pod" + uid;
    std::error_code error;
    if (!std::filesystem::exists(top + "/cgroup.procs") ||
        !std::filesystem::create_directories(pod + "/" + id, error))
      continue;
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    std::ofstream procs(pod + "/" + id + "/cgroup.procs");
    procs << child << std::flush;
    const bool joined = procs.good();
    kubelet::CgroupOwner owner = kubelet::OwnerOfProcess("/", static_cast<uint32_t>(child));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const std::string& at : {pod + "/" + id, pod, pods}) ::rmdir(at.c_str());
    if (!joined) continue;
    EXPECT_EQ(owner.pod_uid, uid) << top;
    EXPECT_EQ(owner.container_id, id) << top;
    return;
  }
  GTEST_SKIP() << "no cgroup can be made here: root and a writable /sys/fs/cgroup are needed";
}

TEST_F(KubernetesTest, LateKubeletNamesOnlyConfirmedPods) {
  kubelet_.Set(PodMessage("a", "GPU-1") + PodMessage("b", "GPU-2"));
  const std::string uid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f0";
  std::filesystem::create_directories(folder.path() + "/var/log/pods/ml_a_" + uid);
  std::ofstream(folder.path() + "/checkpoint")
      << R"({"Data":{"PodDeviceEntries":[{"PodUID":")" << uid
      << R"(","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-1"]}}]}})";
  Open();
  ASSERT_TRUE(Look().ok());
  EXPECT_EQ(Who("GPU-1") + Who("GPU-2"), "ab");
  kubelet_.Set("", true);
  EXPECT_EQ(Look().code, Code::kTimeout);
  EXPECT_EQ(Who("GPU-1"), "a") << "the checkpoint says so";
  EXPECT_EQ(Who("GPU-2"), "");
  EXPECT_EQ(enricher->missing(), 1u);
  clock.Advance(KubernetesEnricher::kRemembered);
  EXPECT_EQ(Look().code, Code::kTimeout);
  EXPECT_EQ(Who("GPU-1"), "") << "after a minute nothing is known";
  kubelet_.Set(PodMessage("c", "GPU-1"));
  EXPECT_TRUE(Look().ok());
  EXPECT_EQ(Who("GPU-1"), "c");
}

TEST_F(KubernetesTest, ReportsBadAnswers) {
  kubelet_.Set("\x0a\x7f");
  Open();
  EXPECT_EQ(Look().code, Code::kDataLoss);
  server.reset();
  EXPECT_EQ(Look().code, Code::kUnavailable) << "no such socket";
}

TEST_F(KubernetesTest, WaitsForTheFirstListOfPods) {
  ScriptedServer api([](int, int, const std::string& request) {
    if (request.find("watch=1") != std::string::npos)
      return ScriptedServer::Turn{.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"};
    if (request.find("/nodes/n1 ") != std::string::npos)
      return ScriptedServer::Turn{
          .answer = Answer200(R"({"metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"z"}}})")};
    return ScriptedServer::Turn{
        .answer = Answer200(
            R"({"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","namespace":"ml","uid":"u1","labels":{"app":"x"}},
           "status":{"phase":"Running"}}]})")};
  });
  kubelet_.Set(PodMessage("a", "GPU-1"));
  Open(api.Url(""));
  ASSERT_TRUE(Look().ok());
  auto gpu = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.uuid", std::string_view("GPU-1")}, {"gpu.index", int64_t{0}}}));
  EXPECT_EQ(enricher->Describe(*gpu).Text("k8s.pod.uid"), "u1");
  EXPECT_EQ(enricher->Describe(*gpu).Text("k8s.pod.label.app"), "x");
  for (int i = 0; i < 2000 && enricher->Resource().Text("cloud.availability_zone").empty(); ++i)
    ASSERT_TRUE(Look().ok());
  EXPECT_EQ(enricher->Resource().Text("cloud.availability_zone"), "z");
  EXPECT_EQ(enricher->missing(), 0u);
}

class KubernetesSpec : public ::testing::Test {
 protected:
  KubernetesSpec() {
    env.io = &loop;
    env.http = &http;
    for (const char* key : {"node_name", "kubeconfig"}) config.Set(key, std::string(), {});
    config.Set("root", folder.path(), {});
    config.Set("pod_resources_socket", folder.path() + "/none", {});
    config.Set("checkpoint", std::string("/checkpoint"), {});
    config.Set("kubelet_timeout", Duration(seconds(1)), {});
    config.Set("api_server", std::string("off"), {});
    config.Set("pod_labels", std::vector<std::string>{}, {});
  }
  TempFolder folder;
  IoLoop loop;
  HttpClient http{loop};
  Env env;
  Config config;
};

TEST_F(KubernetesSpec, IsAvailableWherePodsRunWithoutTheKubelet) {
  for (const char* place :
       {"/sys/fs/cgroup/kubepods.slice", "/sys/fs/cgroup/memory/kubepods", "/var/lib/kubelet/pods"}) {
    std::filesystem::create_directories(folder.path() + place);
    EXPECT_TRUE(kubernetes_enricher.create(config, env).ok()) << place;
    std::filesystem::remove_all(folder.path() + place);
  }
}

TEST_F(KubernetesSpec, ReportsDevicesThatAreNotLocalGpus) {
  auto warnings = [&](const std::string& resource, const std::string& id) {
    std::ofstream(folder.path() + "/checkpoint")
        << R"({"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":")" << resource
        << R"(","DeviceIDs":{"0":[")" << id << R"("]}}]}})";
    std::string out;
    for (const Finding& finding : kubernetes_enricher.probe(config, env)) {
      if (finding.kind == Finding::kWarning) out += finding.why;
    }
    return out;
  };
  std::filesystem::create_directories(folder.path() + "/var/lib/kubelet/pods");
  EXPECT_EQ(warnings("nvidia.com/gpu", "GPU-1"), "");
  EXPECT_THAT(warnings("example.com/gpu", "3"), ::testing::HasSubstr("1 devices held by pods match no GPU"));
  EXPECT_THAT(warnings("example.com/gpu", "3"), ::testing::HasSubstr("example.com/gpu 3"));
  EXPECT_EQ(warnings("example.com/nic", "3"), "");
  const std::string gpus = folder.path() + "/proc/driver/nvidia/gpus/0000:3b:00.0";
  std::filesystem::create_directories(gpus);
  std::ofstream(gpus + "/information") << "Model: \t NVIDIA X\nGPU UUID: \t GPU-1\nBus Type: \t PCIe\n";
  EXPECT_EQ(warnings("nvidia.com/gpu", "GPU-1::3"), "");
  EXPECT_THAT(warnings("nvidia.com/gpu", "GPU-2"), ::testing::HasSubstr("nvidia.com/gpu GPU-2"));
  std::ofstream(gpus + "/information") << "GPU UUID: \t GPU-????????\n";
  EXPECT_EQ(warnings("nvidia.com/gpu", "GPU-2"), "") << "which GPUs are here is not known yet";
}

TEST_F(KubernetesSpec, IsUnavailableWithoutASocket) {
  EXPECT_EQ(kubernetes_enricher.create(config, env).status().code, Code::kUnavailable);
  auto findings = kubernetes_enricher.probe(config, env);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, Finding::kNotHere);
}

}  // namespace
}  // namespace kubernetes
}  // namespace gpulens
