// A node for tests of `gpulens top`.
#pragma once

#include "cli/top/top_view.h"

namespace gpulens {

// Eight GPUs of which number 5 is lost, two engines of which one is down, a job over GPUs 4 to 6.
inline TopNode NodeOfTests() {
  TopNode node;
  node.name = "gpu-node-07";
  node.address = "the agent at /run/gpulens/gpulens.sock";
  node.version = "0.1.0";
  node.driver = "570.86.10";
  node.at_ms = 1'763'694'849'000;  // 03:14:09 in UTC
  node.events_known = true;
  node.history_s = 600;
  node.host.cpu = {0.23};
  node.host.memory_used = {412.0 * (1 << 30)};
  node.host.memory_total = {2015.0 * (1 << 30)};
  node.host.net_in = {1.2e9};
  node.host.net_out = {0.8e9};
  node.host.disk_read = {0};
  node.host.disk_write = {1.9e9};
  node.host.cpu_trend = {0.1, 0.3, kNotMeasured, 0.2};
  for (int i = 0; i < 8; ++i) {
    TopGpu gpu;
    gpu.index = std::to_string(i);
    gpu.uuid = "GPU-" + gpu.index;
    gpu.model = "NVIDIA H100 80GB HBM3";
    gpu.memory_total = {79.6 * (1 << 30)};
    gpu.power_limit = {700};
    if (i == 5) {
      gpu.driver_state = "lost";
      gpu.level = TopLevel::kAct;
      gpu.trouble = "lost";
      gpu.runs = "48213 ft-8b";
      gpu.busy_trend = {0.9, 0.9, kNotMeasured, kNotMeasured};
      node.gpus.push_back(gpu);
      continue;
    }
    const bool busy = i < 7;
    gpu.driver_state = "ok";
    gpu.busy = {busy ? 0.97 - 0.01 * i : 0.0};
    gpu.memory_used = {(busy ? 71.2 : 0.6) * (1 << 30)};
    gpu.power = {busy ? 612.0 - i : 71.0};
    gpu.core = {busy ? 64.0 + i % 3 : 34.0};
    gpu.links = {busy ? 184e9 : 0};
    gpu.clock = {1755};
    gpu.pcie_gen = gpu.pcie_gen_max = {5};
    gpu.pcie_width = gpu.pcie_width_max = {16};
    gpu.health = {1};
    gpu.runs = i < 4 ? "prod/llama-70b-0" : busy ? "48213 ft-8b" : "";
    gpu.busy_trend = {0.5, kNotMeasured, 0.75, gpu.busy.value};
    gpu.processes = {{"4001", "python3", "1001", gpu.runs, {70.0 * (1 << 30)}, {0.9}}};
    node.gpus.push_back(gpu);
  }
  node.gpus[2].throttle_cause = "power software";
  node.gpus[2].throttled = {0.04};
  node.gpus[3].busy.stale_ms = node.gpus[3].power.stale_ms = 12'000;
  TopEngine vllm;
  vllm.name = "chat-a";
  vllm.engine = "vllm";
  vllm.layer = "engine";
  vllm.model = "meta-llama/llama-70b";
  vllm.state = "up";
  vllm.running = {48};
  vllm.waiting = {3};
  vllm.kv = {0.81};
  vllm.tokens = {6120};
  vllm.ttft = {0.412};
  vllm.itl = {0.021};
  TopEngine sglang;
  sglang.name = "search";
  sglang.engine = "sglang";
  sglang.layer = "engine";
  sglang.model = "qwen-32b";
  sglang.state = "down 40 s";
  sglang.level = TopLevel::kLook;
  node.engines = {vllm, sglang};
  TopJob pod;
  pod.who = "prod/llama-70b-0";
  pod.kind = "pod";
  pod.gpus = {"0", "1", "2", "3"};
  pod.busy = {0.97};
  pod.power = {2443};
  pod.energy = {35.6e6};
  pod.cost = {115.58};
  TopJob job;
  job.who = "48213 ft-8b";
  job.kind = "job";
  job.gpus = {"4", "5", "6"};
  job.level = TopLevel::kAct;
  job.busy = {0.9};
  job.power = {1109};
  node.jobs = {pod, job};
  node.events = {
      {node.at_ms - 40'000, TopLevel::kLook, "", "engine.down", "sglang :30000 refuses connections", ""},
      {node.at_ms - 85'000, TopLevel::kAct, "5", "gpu.xid", "Xid 79: fell off the bus", "48213 ft-8b"}};
  node.self.memory = {14.1e6};
  node.self.cpu = {0.002};
  node.self.series = {2790};
  node.self.collectors = {{"host", true}, {"nvidia", true}, {"amd", false}};
  node.self.sinks = {{"prometheus", true}, {"otlp", false}};
  return node;
}

}  // namespace gpulens
