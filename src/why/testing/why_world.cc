#include "why/testing/why_world.h"

#include <algorithm>
#include <cmath>

#include "catalog/all.h"

namespace gpulens::why_world {

World::World(uint64_t seed, int gpus) : state(seed), gpu_count(gpus) {
  for (int g = 0; g < gpus; ++g) AddGpu(g);
  AddEngine("chat-a");
  AddEngine("code-b");
  AddHost();
}

std::vector<Signal*> World::Find(const WhySubject& subject, std::string_view name,
                                 const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<Signal*> found;
  for (Signal& signal : signals) {
    if (signal.name != name) continue;
    auto has = [&](const std::pair<std::string, std::string>& want) {
      return std::find(signal.attributes.begin(), signal.attributes.end(), want) != signal.attributes.end();
    };
    if (subject.kind == WhyKind::kGpu && !has({"gpu.index", subject.name})) continue;
    if (subject.kind == WhyKind::kEngine && !has({"target", subject.name})) continue;
    if (std::all_of(more.begin(), more.end(), has)) found.push_back(&signal);
  }
  return found;
}

std::vector<SeriesWindow> World::Render() {
  std::vector<SeriesWindow> out;
  uint32_t id = 0;
  for (const Signal& signal : signals) {
    const MetricDesc* desc = FindMetric(signal.name);
    SeriesWindow window;
    std::vector<AttributeSet::Attribute> attributes;
    for (const auto& [key, value] : signal.attributes) attributes.push_back({key, std::string_view(value)});
    window.series = {id++,
                     signal.name,
                     std::string(desc->unit),
                     desc->kind,
                     AttributeSet(attributes),
                     signal.source,
                     std::chrono::seconds(signal.period)};
    double total = Uniform(0, 1e6), good = kNotMeasured;
    bool reset = false, gap = false;
    for (int i = 0; i < kSeconds; ++i) {
      const auto at = static_cast<size_t>(i);
      if (signal.resets[at]) total = 0, reset = true;
      total += signal.values[at];
      if ((kSeconds - 1 - i) % signal.period != 0) continue;
      SeriesSample sample{kEndMs - int64_t{kSeconds - 1 - i} * 1000 - Whole(0, 300),
                          IsMonotonic(desc->kind) ? total : signal.values[at], signal.marks[at], false};
      if (sample.mark == SeriesSample::kGap) {
        if (gap) continue;
        gap = true;
        sample.value = kNotMeasured;
      } else if (sample.mark == SeriesSample::kStale) {
        if (std::isnan(good)) continue;
        sample.value = good;
      } else {
        gap = false;
        sample.reset = reset;
        reset = false;
        good = sample.value;
      }
      window.samples.push_back(sample);
    }
    out.push_back(std::move(window));
  }
  return out;
}

Signal& World::Add(std::string name, Attributes attributes, const std::string& source, int period,
                   const std::function<double()>& value) {
  Signal signal;
  signal.name = std::move(name);
  signal.attributes = std::move(attributes);
  signal.source = source;
  signal.period = period;
  for (size_t i = 0; i < signal.values.size(); ++i) signal.values[i] = value();
  signals.push_back(std::move(signal));
  return signals.back();
}

void World::AddGpu(int index) {
  Attributes base = {{"gpu.index", std::to_string(index)}, {"gpu.model", "NVIDIA H100 80GB HBM3"}};
  if (index < kJobGpus) base.emplace_back("slurm.job.id", "48213");
  else
    base.insert(base.end(), {{"k8s.pod.name", "pod-" + std::to_string(index)}, {"k8s.namespace.name", "ml"}});
  auto add = [&](std::string name, Attributes more, const std::function<double()>& value, int period = 2) {
    Attributes all = base;
    all.insert(all.end(), more.begin(), more.end());
    Add(std::move(name), all, "nvidia", period, value);
  };
  auto fixed = [](double value) { return [value] { return value; }; };
  auto near = [&](double value, double by) { return [this, value, by] { return value + Uniform(-by, by); }; };
  const double busy = Uniform(0.6, 0.95), clock = Uniform(1890, 1950), tensor = Uniform(0.3, 0.5);
  for (const char* cause : {"power_software", "temp_software", "temp_hardware", "power_brake"}) {
    // Every GPU is held down a little now and then.
    const double share = Chance(0.3) ? Uniform(0, 0.02) : 0;
    add("gpu.throttle.time", {{"gpu.throttle.cause", cause}},
        [this, share] { return Chance(share) ? Uniform(0, 1) : 0.0; });
    add("gpu.throttle.reason", {{"gpu.throttle.cause", cause}}, fixed(0));
  }
  add("gpu.throttle.reason", {{"gpu.throttle.cause", "clock_setting"}}, fixed(0));
  for (const char* type : {"sm", "graphics"}) {
    add("gpu.clock.frequency", {{"gpu.clock.type", type}}, near(clock, 30));
    add("gpu.clock.max", {{"gpu.clock.type", type}}, fixed(1980), 10);
  }
  add("gpu.clock.limit", {{"gpu.clock.type", "graphics"}, {"gpu.clock.limit_type", "application"}},
      fixed(1980), 10);
  for (const char* type : {"enforced", "default"})
    add("gpu.power.limit", {{"gpu.power.limit_type", type}}, fixed(700), 10);
  add("gpu.power.draw", {}, near(450 * busy + 100, 40));
  add("gpu.temperature", {{"gpu.temperature.sensor", "edge"}}, near(60, 3));
  add("gpu.temperature", {{"gpu.temperature.sensor", "memory"}}, near(68, 3));
  add("gpu.temperature.margin", {}, near(27, 3));
  add("gpu.utilization", {{"gpu.task.type", "compute"}}, near(busy, 0.05));
  add("gpu.sm.active", {}, near(busy * 0.85, 0.03));
  add("gpu.pipe.tensor.active", {}, near(tensor, 0.05));
  add("gpu.pipe.fp64.active", {}, near(0.005, 0.005));
  add("gpu.dram.active", {}, near(Uniform(0.3, 0.5), 0.05));
  for (const char* which : {"current", "max"}) {
    add(std::string("gpu.pcie.link.gen.") + which, {}, fixed(5), 10);
    add(std::string("gpu.pcie.link.width.") + which, {}, fixed(16), 10);
  }
  add("gpu.pcie.io", {{"gpu.interconnect.direction", "receive"}}, near(2e9, 1e9));
  for (const char* type : {"replay", "recovery", "crc_flit"}) {
    // A replay now and then, CRC errors always.
    const double rate = std::string_view(type) == "crc_flit" ? 0.2 : 0.003;
    add("gpu.interconnect.errors",
        {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.error_type", type}},
        [this, rate] { return Chance(rate) ? 1.0 : 0.0; });
  }
  for (const char* type : {"correctable", "uncorrectable"}) {
    for (const char* count : {"volatile", "aggregate"})
      add("gpu.ecc.errors", {{"gpu.ecc.error_type", type}, {"gpu.ecc.count_type", count}}, fixed(0), 5);
  }
  add("gpu.row_remap.reset_pending", {}, fixed(0), 5);
  add("gpu.row_remap.failed", {}, fixed(0), 5);
  add("gpu.idle", {}, fixed(0));
  Attributes process = {{"process.pid", std::to_string(5000 + index)},
                        {"process.executable.name", "python3"}};
  add("gpu.process.memory.used", process, near(4e10, 1e6));
  auto inside = [&](std::string name, Attributes more, const std::string& source,
                    const std::function<double()>& value) {
    more.insert(more.begin(), process.begin(), process.end());
    Add(std::move(name), std::move(more), source, 2, value);
  };
  inside("process.phase.time", {{"process.phase", "data_loading"}, {"phase.source", "mark"}}, "phases",
         [this] { return Uniform(0, 0.02); });
  inside("process.phase.time", {{"process.phase", "gpu_compute"}, {"phase.source", "mark"}}, "phases",
         [this] { return Uniform(0.9, 0.98); });
  inside("process.phase.confidence", {}, "phases", fixed(1));
  if (index >= kJobGpus) return;
  Attributes rank = {
      {"nccl.communicator", "0xab"}, {"nccl.host", "node-1"}, {"nccl.rank", std::to_string(index)}};
  Add("nccl.rank.straggler", rank, "nccl", 2, fixed(0));
  Add("nccl.rank.lateness", rank, "nccl", 2, near(0, 0.001));
  Add("nccl.rank.lost_time", rank, "nccl", 2, fixed(0));
}

void World::AddEngine(const std::string& target) {
  Attributes base = {{"target", target}, {"inference.layer", "engine"}, {"model.name", "m"}};
  auto add = [&](std::string name, Attributes more, const std::function<double()>& value) {
    Attributes all = base;
    all.insert(all.end(), more.begin(), more.end());
    Add(std::move(name), all, "targets/" + target, 5, value);
  };
  const double running = Uniform(8, 60), hits = Uniform(0.4, 0.7), prompts = Uniform(500, 5000);
  add("inference.kv_cache.usage", {{"cache.type", "gpu"}}, [this] { return Uniform(0.4, 0.8); });
  add("inference.scheduler.preemptions", {}, [this] { return Chance(0.002) ? 1.0 : 0.0; });
  add("inference.tokens.recomputed", {}, [] { return 0.0; });
  add("inference.tokens.prompt", {}, [this, prompts] { return prompts * Uniform(0.8, 1.2); });
  // Now and then one or two wait for a moment.
  add("inference.requests.waiting", {},
      [this] { return Chance(0.15) ? static_cast<double>(Whole(1, 2)) : 0.0; });
  add("inference.requests.running", {}, [this, running] { return std::round(running * Uniform(0.8, 1.2)); });
  add("inference.prefix_cache.queries", {{"cache.type", "gpu"}}, [prompts] { return prompts; });
  add("inference.prefix_cache.hits", {{"cache.type", "gpu"}},
      [this, prompts, hits] { return prompts * (hits + Uniform(-0.05, 0.05)); });
}

void World::AddHost() {
  auto add = [&](std::string name, Attributes more, const std::function<double()>& value) {
    Add(std::move(name), std::move(more), "host", 5, value);
  };
  auto pressure = [&](const char* resource, const char* level, double most) {
    add("host.pressure.time", {{"host.pressure.resource", resource}, {"host.pressure.level", level}},
        [this, most] { return Uniform(0, most); });
  };
  pressure("cpu", "some", 0.15);
  pressure("memory", "some", 0.02);
  pressure("memory", "full", 0.01);
  pressure("io", "some", 0.1);
  pressure("io", "full", 0.05);
  add("host.memory.oom_kills", {}, [] { return 0.0; });
  for (const char* node : {"0", "1"}) {
    add("host.numa.memory.allocations", {{"host.numa.node", node}, {"host.numa.result", "local"}},
        [this] { return Uniform(2e4, 8e4); });
    add("host.numa.memory.allocations", {{"host.numa.node", node}, {"host.numa.result", "other"}},
        [this] { return Uniform(0, 2e3); });
  }
  for (const char* name : {"nccl.communicator.hung", "nccl.communicator.ranks.missing"})
    Add(name, {{"nccl.communicator", "0xab"}}, "nccl", 2, [] { return 0.0; });
  add("system.disk.io_time", {{"system.device", "nvme0n1"}}, [this] { return Uniform(0, 0.4); });
}

}  // namespace gpulens::why_world
