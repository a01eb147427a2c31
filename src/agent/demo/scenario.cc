#include "agent/demo/scenario.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::demo {
namespace {

using nvml::LoadSchedule;

constexpr std::string_view kScenarioLine = "scenario line ";
constexpr size_t kMostLevels = 256;        // steps of a day, as of the simulated library
constexpr unsigned kFirstPid = 5'000'001;  // above what Linux gives: no process of this machine is meant
constexpr double kEngineRest =
    0.06;  // share of a GPU that an engine uses between requests that wait for memory

Status Wrong(const YamlNode& node, std::string_view what) {
  return YamlError(kScenarioLine, node.mark.line, what);
}

// "24m", "15s", "1h" in whole seconds.
std::optional<int64_t> SecondsOf(const std::string& text) {
  if (text.size() < 2) return std::nullopt;
  const std::optional<int64_t> number = ParseInt<int64_t>(std::string_view(text).substr(0, text.size() - 1));
  if (!number || *number <= 0 || *number > 86'400) return std::nullopt;
  switch (text.back()) {
    case 's': return *number;
    case 'm': return *number * 60;
    case 'h': return *number * 3600;
    default: return std::nullopt;
  }
}

Status ReadSeconds(YamlFields& in, std::string_view key, int64_t& out) {
  const YamlNode* node = in.Child(key);
  if (!node) return in.status();
  const std::optional<int64_t> seconds = SecondsOf(node->text);
  if (!seconds) return Wrong(*node, std::string(key) + " must be like 24m or 15s");
  out = *seconds;
  return Ok();
}

Status ReadNumbers(YamlFields& in, std::string_view key, double high, std::vector<double>& out) {
  const YamlNode* list = in.Child(key);
  if (!list) return in.status();
  for (const YamlNode* item : list->items) {
    const std::optional<double> number = ParseDouble(item->text);
    if (!number || !(*number >= 0 && *number <= high) || out.size() == kMostLevels)
      return Wrong(*item, std::string(key) + " has a value that is not 0 to " + std::to_string(high));
    out.push_back(*number);
  }
  if (out.empty()) return Wrong(*list, std::string(key) + " is empty");
  return Ok();
}

// What differs from minute to minute: -1 to 1, the same for a name and a step in every process.
double Noise(std::string_view name, size_t step) {
  const uint64_t mixed = MixWords(StableHash(name) ^ 0x9E3779B97F4A7C15u, (step + 1) * 0xD1B54A32D192ED03u);
  return static_cast<double>(mixed >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
}

struct LoadKeys {
  std::vector<double> load{1.0}, present;  // shares of a day for the second
  double jitter = 0.06;
  int64_t every_s = 0, pause_s = 0;  // pauses: checkpoints of a training
};

Status ReadLoadKeys(YamlFields& in, LoadKeys& out) {
  if (in.Child("load")) out.load.clear();
  RETURN_IF_ERROR(ReadNumbers(in, "load", kMostLoad / 100.0, out.load));
  RETURN_IF_ERROR(ReadNumbers(in, "present", 1, out.present));
  in.Number("jitter", out.jitter, 0, 0.5);
  const YamlNode* checkpoint = in.Child("checkpoint");
  if (!checkpoint) return in.status();
  YamlFields pause(*checkpoint, kScenarioLine);
  RETURN_IF_ERROR(ReadSeconds(pause, "every", out.every_s));
  RETURN_IF_ERROR(ReadSeconds(pause, "for", out.pause_s));
  if (out.every_s == 0 || out.pause_s == 0 || out.pause_s >= out.every_s)
    return Wrong(*checkpoint, "checkpoint needs every and for, which is shorter");
  return pause.Done();
}

LoadSchedule ScheduleOf(const Scenario& scenario, const std::string& name, const LoadKeys& keys) {
  std::vector<int> levels;
  const auto steps = static_cast<size_t>(scenario.day_s / scenario.step_s);
  for (size_t step = 0; step < steps; ++step) {
    const double of_day = static_cast<double>(step) / static_cast<double>(steps);
    const double load = keys.load[static_cast<size_t>(of_day * static_cast<double>(keys.load.size()))];
    int level = static_cast<int>(std::lround(100 * load * (1 + keys.jitter * Noise(name, step))));
    level = std::clamp(level, 0, kMostLoad);
    const int64_t second = static_cast<int64_t>(step) * scenario.step_s;
    if (keys.every_s != 0 && second % keys.every_s < keys.pause_s) level = 0;
    if (!keys.present.empty() && !(of_day >= keys.present[0] && of_day < keys.present[1]))
      level = LoadSchedule::kAbsent;
    levels.push_back(level);
  }
  return {scenario.step_s, std::move(levels)};
}

Status ReadOwner(YamlFields& in, Workload& out) {
  const YamlNode* pod = in.Child("pod");
  const YamlNode* job = in.Child("job");
  if (pod && job) return Wrong(*job, "a workload has a pod or a job");
  if (pod) {
    YamlFields row(*pod, kScenarioLine);
    row.String("name", out.pod).String("namespace", out.name_space).String("container", out.container);
    row.String("deployment", out.deployment);
    if (out.pod.empty() || out.name_space.empty()) row.Fail("pod", "needs name and namespace");
    RETURN_IF_ERROR(row.Done());
    char uid[40];
    const uint64_t bits = StableHash(out.name_space + "/" + out.pod);
    std::snprintf(uid, sizeof uid, "%08x-%04x-4000-8000-%012llx", static_cast<unsigned>(bits >> 32),
                  static_cast<unsigned>(bits & 0xFFFF),
                  static_cast<unsigned long long>(MixWords(bits, 0xD1B54A32D192ED03u) >> 16));
    out.pod_uid = uid;
  }
  if (job) {
    YamlFields row(*job, kScenarioLine);
    row.String("id", out.job).String("name", out.job_name).String("account", out.account);
    row.String("partition", out.partition);
    if (out.job.empty()) row.Fail("id", "is missing");
    RETURN_IF_ERROR(row.Done());
  }
  return in.status();
}

Status ReadProcess(YamlFields& in, Workload& out) {
  const YamlNode* process = in.Child("process");
  if (!process) return in.status();
  YamlFields row(*process, kScenarioLine);
  row.String("name", out.executable).String("user", out.user).Bytes("memory", out.memory);
  return row.Done();
}

Status ReadTraffic(YamlFields& in, Workload& out) {
  const YamlNode* traffic = in.Child("traffic");
  if (!traffic) return in.status();
  YamlFields row(*traffic, kScenarioLine);
  row.Number("requests", out.requests, 0.001, 1e5).Number("prompt", out.prompt, 1, 1e6);
  row.Number("output", out.output, 1, 1e5).Number("cached", out.cached, 0, 1);
  row.Number("first_token", out.first_token, 1e-4, 100).Number("next_token", out.next_token, 1e-5, 10);
  row.Number("kv_tokens", out.kv_tokens, 1000, 1e9).Flag("speculative", out.speculative);
  return row.Done();
}

Status ReadTrouble(YamlFields& in, std::string_view key, int ranks, RankTrouble& out) {
  const YamlNode* trouble = in.Child(key);
  if (!trouble) return in.status();
  YamlFields row(*trouble, kScenarioLine);
  row.Number("rank", out.rank, 0, ranks - 1).Number("by", out.by, 0.01, 1);
  RETURN_IF_ERROR(ReadSeconds(row, "every", out.every_s));
  RETURN_IF_ERROR(ReadSeconds(row, "for", out.for_s));
  RETURN_IF_ERROR(ReadSeconds(row, "after", out.after_s));
  if (out.rank < 0 || out.every_s == 0 || out.for_s == 0 || out.for_s >= out.every_s)
    return Wrong(*trouble, std::string(key) + " needs rank, every and for, which is shorter");
  return row.Done();
}

Status ReadInside(YamlFields& in, Workload& out) {
  const YamlNode* inside = in.Child("inside");
  if (!inside) return in.status();
  YamlFields row(*inside, kScenarioLine);
  InsideWork& work = out.inside;
  const int here = static_cast<int>(out.gpus.size());
  row.Number("launches", work.launches, 0, 1e6).Number("collectives", work.collectives, 0, 1e6);
  row.Number("ranks", work.ranks, 2, 512).Number("first", work.first, 0, 511);
  if (here == 0) row.Fail("launches", "needs gpus");
  if (IsEngine(out.kind) && work.ranks > 0) row.Fail("ranks", "is for kind job");
  if (!IsEngine(out.kind) && work.collectives > 0) row.Fail("collectives", "is for engines");
  if (work.ranks > 0 && work.first + here > work.ranks) row.Fail("first", "leaves no rank for a GPU");
  RETURN_IF_ERROR(row.status());
  RETURN_IF_ERROR(ReadTrouble(row, "late", work.ranks, work.late));
  RETURN_IF_ERROR(ReadTrouble(row, "hang", work.ranks, work.hang));
  return row.Done();
}

Status ReadGpus(YamlFields& in, const Scenario& scenario, Workload& out) {
  const YamlNode* gpus = in.Child("gpus");
  for (size_t i = 0; gpus && i < gpus->items.size(); ++i) {
    const std::optional<unsigned> gpu = ParseInt<unsigned>(gpus->items[i]->text);
    if (!gpu || *gpu >= scenario.gpus) return Wrong(*gpus->items[i], "there is no such GPU");
    for (const Workload& other : scenario.workloads) {
      if (std::ranges::count(other.gpus, *gpu) != 0)
        return Wrong(*gpus->items[i], "GPU " + std::to_string(*gpu) + " is used by " + other.name);
    }
    out.gpus.push_back(*gpu);
  }
  return in.status();
}

// Names become labels, paths and words of commands.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Status ReadWorkload(const YamlNode& node, Scenario& out) {
  if (out.workloads.size() == kMostWorkloads) return Wrong(node, "too many workloads");
  YamlFields in(node, kScenarioLine);
  Workload work;
  LoadKeys keys;
  in.String("name", work.name).String("model", work.model).String("cluster", work.cluster);
  in.String("tenant", work.tenant).Number("busy", work.busy, 0, 1);
  in.Choice("kind", work.kind, {"vllm", "sglang", "dynamo", "lmcache", "aibrix", "mooncake", "epp", "job"});
  in.Choice("role", work.role, {"both", "prefill", "decode"});
  if (!IsName(work.name)) in.Fail("name", "must have 1 to 63 of a-z, 0-9, - and _");
  if (out.Find(work.name)) in.Fail("name", "is used twice");
  in.String("of", work.of);
  const Workload* engine = out.Find(work.of);
  if (!work.of.empty() && (!engine || !IsEngine(engine->kind))) in.Fail("of", "names no engine above it");
  RETURN_IF_ERROR(in.status());
  RETURN_IF_ERROR(ReadGpus(in, out, work));
  RETURN_IF_ERROR(ReadOwner(in, work));
  RETURN_IF_ERROR(ReadProcess(in, work));
  RETURN_IF_ERROR(ReadTraffic(in, work));
  RETURN_IF_ERROR(ReadInside(in, work));
  RETURN_IF_ERROR(ReadLoadKeys(in, keys));
  if (!keys.present.empty() && keys.present.size() != 2)
    return Wrong(node, "present is [from, to], shares of a day");
  const bool follows = HasPage(work.kind) && !IsEngine(work.kind);
  if (follows == work.of.empty()) return Wrong(node, "of is for gateways and caches, and they need it");
  if (engine) work.model = engine->model;
  work.pid = kFirstPid + 100 * static_cast<unsigned>(out.workloads.size());
  work.load = ScheduleOf(out, work.name, keys);
  out.workloads.push_back(std::move(work));
  return in.Done();
}

}  // namespace

std::string_view TargetKindOf(WorkloadKind kind) noexcept {
  constexpr std::array<std::string_view, 8> kKinds = {
      "vllm", "sglang", "dynamo-frontend", "lmcache", "aibrix", "mooncake", "epp", ""};
  return kKinds[static_cast<size_t>(kind)];
}

int BusyAt(const Workload& workload, int level) noexcept {
  if (level <= 0) return std::min(level, 0);
  const double share = std::min(level, 100) / 100.0;
  const double rest = IsEngine(workload.kind) ? kEngineRest : 0;
  return static_cast<int>(std::lround(1000 * (rest + std::max(0.0, workload.busy - rest) * share)));
}

const Workload* Scenario::Find(std::string_view name) const noexcept {
  auto found = std::ranges::find_if(workloads, [&](const Workload& one) { return one.name == name; });
  return found == workloads.end() ? nullptr : &*found;
}

Result<Scenario> ParseScenario(std::string_view yaml) {
  ASSIGN_OR_RETURN(YamlTree tree, ReadYaml(yaml, {.bytes = kMostScenarioBytes}, "scenario"));
  YamlFields in(tree.top(), kScenarioLine);
  Scenario out;
  if (const YamlNode* gpus = in.Child("gpus")) {
    YamlFields row(*gpus, kScenarioLine);
    row.String("model", out.gpu_model).Number("count", out.gpus, 1, nvml::kMaxFakeGpus);
    if (!nvml::FindFakeModel(out.gpu_model))
      row.Fail("model", "must be one of " + std::string(nvml::FakeModelNames()));
    RETURN_IF_ERROR(row.Done());
  }
  RETURN_IF_ERROR(ReadSeconds(in, "day", out.day_s));
  RETURN_IF_ERROR(ReadSeconds(in, "step", out.step_s));
  if (out.day_s % out.step_s != 0 || out.day_s / out.step_s > static_cast<int64_t>(kMostLevels))
    in.Fail("step", "must divide the day into at most 256 parts");
  in.String("profile", out.profile);
  RETURN_IF_ERROR(in.status());
  RETURN_IF_ERROR(in.List("workloads", [&](const YamlNode& node) { return ReadWorkload(node, out); }));
  RETURN_IF_ERROR(in.Done());
  // With the keys that DemoNode::Profile adds, so that an error is shown here and not by the reader process.
  const std::string whole = "model: " + out.gpu_model + "\ngpus: " + std::to_string(out.gpus) +
                            "\nperiod: 1\n" + out.profile +
                            "\neach:\n  - {gpu: 0}\nprocesses:\n  - {gpu: 0, pid: 1}\n";
  if (const auto profile = nvml::ParseFakeProfile(whole); !profile)
    return Status{Code::kInvalidArgument, "scenario, in `profile`: " + profile.error().detail};
  return out;
}

std::string CalmScenario() {
  std::string text(BuiltInScenario());
  for (const std::string_view trouble : {", late: {", ", hang: {"}) {
    const size_t at = text.find(trouble);
    CHECK(at != std::string::npos);
    text.erase(at, text.find('}', at) + 1 - at);
  }
  return text;
}

std::string_view BuiltInScenario() noexcept {
  return R"(# What `gpulens agent --demo` simulates. docs/demo.md describes the keys.
#   gpulens sim scenario > mine.yaml;  gpulens agent --demo --scenario mine.yaml
day: 24m      # a day of 24 minutes: each of the 24 values of a load is one minute
step: 15s     # the load differs a little from step to step
gpus: {model: H100, count: 8}
# Of the simulated NVIDIA library; times are seconds of the day.
profile: |
  nvlink_share: 0.55
  pcie_share: 0.12
  faults:
    - {gpu: 2, counter: ecc_corrected, amount: 3, from: 300}
  throttle:
    - {gpu: 4, mask: 0x20, from: 780, for: 40}
  xids:
    - {gpu: 5, code: 31, at: 610}
workloads:
  # Chat: a large model on two GPUs, busy in the day, with nothing to do in the hour from 3.
  - name: chat-a
    kind: vllm
    model: meta-llama/Llama-3.3-70B-Instruct
    cluster: byoc_1
    tenant: storefront
    gpus: [0, 1]
    busy: 0.93
    process: {name: "VLLM::Worker_TP", user: "1001", memory: 71GiB}
    pod: {name: chat-a-7d9f6c5b8-x2lqp, namespace: storefront, container: vllm, deployment: chat-a}
    traffic: {requests: 6, prompt: 1100, output: 260, cached: 0.55, first_token: 0.32, next_token: 0.021, kv_tokens: 310000}
    inside: {launches: 2600, collectives: 7600}
    load: [0.35, 0.22, 0.12, 0, 0.08, 0.18, 0.4, 0.62, 0.85, 0.97, 1.12, 1.05, 0.9, 0.95, 1.02, 0.98, 0.9, 0.86, 0.8, 0.74, 0.7, 0.62, 0.55, 0.45]
  # Code: prompts are computed on one GPU and answered on another one.
  - name: code-b-prefill
    kind: vllm
    role: prefill
    model: Qwen/Qwen2.5-Coder-32B-Instruct
    cluster: byoc_1
    tenant: developers
    gpus: [2]
    busy: 0.97
    process: {name: "VLLM::EngineCor", user: "1001", memory: 69GiB}
    pod: {name: code-b-prefill-0, namespace: developers, container: vllm, deployment: code-b-prefill}
    traffic: {requests: 3, prompt: 4200, output: 1, cached: 0.35, first_token: 0.55, next_token: 0.03, kv_tokens: 240000}
    inside: {launches: 1900}
    load: [0.2, 0.15, 0.1, 0, 0, 0.1, 0.2, 0.45, 0.8, 1, 0.95, 0.85, 0.6, 0.9, 1, 1, 0.95, 0.8, 0.6, 0.45, 0.4, 0.35, 0.3, 0.25]
  - name: code-b-decode
    kind: vllm
    role: decode
    model: Qwen/Qwen2.5-Coder-32B-Instruct
    cluster: byoc_1
    tenant: developers
    gpus: [3]
    busy: 0.72
    process: {name: "VLLM::EngineCor", user: "1001", memory: 70GiB}
    pod: {name: code-b-decode-0, namespace: developers, container: vllm, deployment: code-b-decode}
    traffic: {requests: 3, prompt: 4200, output: 320, cached: 0.35, first_token: 0.06, next_token: 0.017, kv_tokens: 240000, speculative: true}
    inside: {launches: 3400}
    load: [0.2, 0.15, 0.1, 0, 0, 0.1, 0.2, 0.45, 0.8, 1, 0.95, 0.85, 0.6, 0.9, 1, 1, 0.95, 0.8, 0.6, 0.45, 0.4, 0.35, 0.3, 0.25]
  # Search in the second cluster: many short requests.
  - name: search-c
    kind: sglang
    model: Qwen/Qwen3-30B-A3B
    cluster: byoc_2
    tenant: search
    gpus: [4]
    busy: 0.85
    process: {name: "sglang::schedul", user: "1002", memory: 66GiB}
    pod: {name: search-c-5c4d8-mnb7z, namespace: search, container: sglang, deployment: search-c}
    traffic: {requests: 14, prompt: 520, output: 90, cached: 0.62, first_token: 0.09, next_token: 0.011, kv_tokens: 520000}
    load: [0.5, 0.42, 0.35, 0.02, 0.25, 0.3, 0.45, 0.6, 0.7, 0.78, 0.82, 0.86, 0.9, 0.88, 0.85, 0.84, 0.86, 0.9, 0.95, 0.97, 0.9, 0.8, 0.7, 0.6]
  # In front of the engines and next to them.
  - {name: code-frontend, kind: dynamo, cluster: byoc_1, tenant: developers, of: code-b-decode, pod: {name: dynamo-frontend-6b7c9-qq2wd, namespace: developers, container: frontend, deployment: dynamo-frontend}}
  - {name: chat-cache, kind: lmcache, cluster: byoc_1, tenant: storefront, of: chat-a, pod: {name: lmcache-0, namespace: storefront, container: lmcache, deployment: lmcache}}
  - {name: search-gateway, kind: aibrix, cluster: byoc_2, tenant: search, of: search-c, pod: {name: aibrix-gateway-plugins-84d-7xk, namespace: aibrix-system, container: gateway, deployment: aibrix-gateway-plugins}}
  - {name: kv-store, kind: mooncake, cluster: byoc_1, tenant: developers, of: code-b-prefill, pod: {name: mooncake-store-0, namespace: developers, container: store, deployment: mooncake-store}}
  # A training that writes a checkpoint every four minutes: eight ranks on eight nodes, of which this node has
  # rank 3. Rank 6 is late every six minutes for a while, and rank 2 lets the others hang every twelve.
  - name: train-tts
    kind: job
    gpus: [5]
    tenant: research
    busy: 0.96
    process: {name: "pt_main_thread", user: "mira", memory: 74GiB}
    job: {id: "48211", name: train-tts, account: research, partition: gpu}
    jitter: 0.02
    checkpoint: {every: 4m, for: 15s}
    inside: {launches: 3100, ranks: 8, first: 3, late: {rank: 6, every: 6m, for: 90s, after: 2m}, hang: {rank: 2, every: 12m, for: 75s, after: 5m}}
  # A notebook that holds a GPU and hardly ever computes.
  - name: notebook-jo
    kind: job
    gpus: [6]
    tenant: research
    busy: 0.5
    process: {name: "python3", user: "jo", memory: 18GiB}
    pod: {name: jupyter-jo, namespace: notebooks, container: notebook}
    load: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  # A nightly evaluation: for the rest of the day nothing holds its GPU.
  - name: eval-nightly
    kind: job
    gpus: [7]
    tenant: quality
    busy: 0.8
    process: {name: "python3", user: "ci", memory: 41GiB}
    job: {id: "48260", name: eval-nightly, account: quality, partition: gpu}
    present: [0, 0.625]
  # Endpoint pickers, one in each cluster: they know how many replicas are ready. Here, so that those above keep their pids.
  - {name: chat-picker, kind: epp, cluster: byoc_1, tenant: storefront, of: chat-a, pod: {name: chat-epp-5f8d7-w9k2c, namespace: storefront, container: epp, deployment: chat-epp}}
  - {name: search-picker, kind: epp, cluster: byoc_2, tenant: search, of: search-c, pod: {name: search-epp-6c9b4-t7vdm, namespace: search, container: epp, deployment: search-epp}}
)";
}

}  // namespace gpulens::demo
