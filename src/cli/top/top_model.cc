#include "cli/top/top_model.h"

#include <algorithm>
#include <set>

#include "base/parse.h"
#include "catalog/cost.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/ledger.h"
#include "catalog/self.h"

namespace gpulens {

namespace {

constexpr size_t kMostRows = 4096;  // of GPUs, engines, processes of a GPU

// A series of a metric, with these attributes, is this member of a row.
struct GpuRule {
  const MetricDesc* metric;
  std::string_view key = {}, value = {};
  TopValue TopGpu::* gpu = nullptr;
  bool sum = false;
};

constexpr GpuRule kGpuRules[] = {
    {&kGpuUtilization, "gpu.task.type", "compute", &TopGpu::busy},
    {&kGpuSmActive, {}, {}, &TopGpu::sm},
    {&kGpuPipeTensorActive, {}, {}, &TopGpu::tensor},
    {&kGpuDramActive, {}, {}, &TopGpu::dram},
    {&kGpuMemoryUsed, {}, {}, &TopGpu::memory_used},
    {&kGpuMemoryTotal, {}, {}, &TopGpu::memory_total},
    {&kGpuPowerDraw, {}, {}, &TopGpu::power},
    {&kGpuPowerLimit, "gpu.power.limit_type", "enforced", &TopGpu::power_limit},
    {&kGpuEnergyConsumption, {}, {}, &TopGpu::energy},
    {&kGpuTemperature, "gpu.temperature.sensor", "edge", &TopGpu::core},
    {&kGpuTemperature, "gpu.temperature.sensor", "memory", &TopGpu::hbm},
    {&kGpuClockFrequency, "gpu.clock.type", "sm", &TopGpu::clock},
    {&kGpuClockFrequency, "gpu.clock.type", "graphics", &TopGpu::clock},
    {&kGpuClockMax, "gpu.clock.type", "sm", &TopGpu::clock_max},
    {&kGpuInterconnectThroughput, {}, {}, &TopGpu::links, true},
    {&kGpuPcieLinkGenCurrent, {}, {}, &TopGpu::pcie_gen},
    {&kGpuPcieLinkGenMax, {}, {}, &TopGpu::pcie_gen_max},
    {&kGpuPcieLinkWidthCurrent, {}, {}, &TopGpu::pcie_width},
    {&kGpuPcieLinkWidthMax, {}, {}, &TopGpu::pcie_width_max},
    {&kGpuHealthScore, {}, {}, &TopGpu::health},
    {&kGpuFanSpeed, {}, {}, &TopGpu::fan},
    {&kGpuEccErrors, "gpu.ecc.error_type", "correctable", &TopGpu::ecc_corrected, true},
    {&kGpuEccErrors, "gpu.ecc.error_type", "uncorrectable", &TopGpu::ecc_uncorrected, true},
    {&kGpuRowRemapCount, {}, {}, &TopGpu::rows_remapped, true},
};

struct EngineRule {
  std::string_view ending;  // of the metric's name
  TopValue TopEngine::* engine;
  bool max = false, rate = false, sum = false;
};
constexpr EngineRule kEngineRules[] = {
    {"inference.requests.running", &TopEngine::running, false, false, true},
    {"inference.requests.waiting", &TopEngine::waiting, false, false, true},
    {"inference.kv_cache.usage", &TopEngine::kv, true},
    {"inference.cache.hit_ratio", &TopEngine::prefix_hits, true},
    {"inference.tokens.generation", &TopEngine::tokens, false, true, true},
    {".generation.throughput", &TopEngine::throughput, true},
    {"inference.tokens.rate", &TopEngine::throughput, true},
    {".ttft", &TopEngine::ttft, true},
    {".itl", &TopEngine::itl, true},
    {".tpot", &TopEngine::itl, true},
    {".request.latency", &TopEngine::latency, true},
    {kGpuJoulesPerToken.name, &TopEngine::joules_per_token},
};

struct HostRule {
  const MetricDesc* metric;
  std::string_view key = {}, value = {};
  TopValue TopHost::* host = nullptr;
  bool rate = false;
};
constexpr HostRule kHostRules[] = {
    {&kSystemMemoryLimit, {}, {}, &TopHost::memory_total},
    {&kSystemMemoryUsage, "system.memory.state", "used", &TopHost::memory_used},
    {&kSystemPagingUsage, "system.paging.state", "used", &TopHost::swap},
    {&kSystemUptime, {}, {}, &TopHost::uptime},
    {&kSystemDiskIo, "disk.io.direction", "read", &TopHost::disk_read, true},
    {&kSystemDiskIo, "disk.io.direction", "write", &TopHost::disk_write, true},
    {&kSystemNetworkIo, "network.io.direction", "receive", &TopHost::net_in, true},
    {&kSystemNetworkIo, "network.io.direction", "transmit", &TopHost::net_out, true},
    {&kHostRdmaIo, "network.io.direction", "receive", &TopHost::rdma_in, true},
    {&kHostRdmaIo, "network.io.direction", "transmit", &TopHost::rdma_out, true},
};

struct SelfRule {
  const MetricDesc* metric;
  std::string_view key = {}, value = {};
  TopValue TopSelf::* self = nullptr;
};
constexpr SelfRule kSelfRules[] = {
    {&kSelfProcessMemory, "gpulens.memory.type", "rss", &TopSelf::memory},
    {&kSelfOverheadCpu, {}, {}, &TopSelf::cpu},
    {&kSelfSeries, {}, {}, &TopSelf::series},
    {&kSelfSeriesLimit, "limit", "total", &TopSelf::series_limit},
    {&kSelfSeriesRefused, {}, {}, &TopSelf::refused},
    {&kSelfSamples, "result", "rejected", &TopSelf::rejected},
    {&kSelfTickDuration, {}, {}, &TopSelf::tick_duration},
    {&kSelfTickLate, {}, {}, &TopSelf::tick_late},
};

// Causes that hold no work back.
constexpr std::string_view kHarmlessCauses[] = {"clock_setting", "display", "idle", "syncboost"};

// Whether the series has the attribute, or no attribute is wanted.
bool Fits(const KeptSeries& series, const MetricDesc& metric, std::string_view key, std::string_view value) {
  return series.name == metric.name && (key.empty() || series.attributes.Text(key) == value);
}

std::string FirstText(const AttributeSet& attributes, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (std::string text = attributes.Text(key); !text.empty()) return text;
  }
  return {};
}

// The pod or the job that has the entity: kind and name; empty: none.
std::pair<std::string, std::string> OwnerOf(const AttributeSet& attributes) {
  const std::string pod = attributes.Text("k8s.pod.name");
  if (!pod.empty()) {
    const std::string space = attributes.Text("k8s.namespace.name");
    return {"pod", space.empty() ? pod : space + "/" + pod};
  }
  const std::string job = attributes.Text("slurm.job.id");
  if (job.empty()) return {};
  const std::string name = attributes.Text("slurm.job.name");
  return {"job", name.empty() ? job : job + " " + name};
}

void PushTrend(std::vector<double>& trend, const TopValue& value) {
  // A stale value is the last one again: no reading was made.
  trend.push_back(value.stale_ms > 0 ? kNotMeasured : value.value);
  if (trend.size() > TopModel::kTrend) trend.erase(trend.begin());
}

TopLevel LevelOf(std::string_view severity) {
  if (severity == "fatal" || severity == "error" || severity == "critical") return TopLevel::kAct;
  if (severity == "warning" || severity == "warn") return TopLevel::kLook;
  return severity.empty() ? TopLevel::kUnknown : TopLevel::kGood;
}

std::string WordOf(std::string_view word) {
  std::string out(word);
  std::ranges::replace(out, '_', ' ');
  return out;
}

}  // namespace

std::vector<std::string> TopModel::TrendMetrics() {
  return {std::string(kGpuUtilization.name) + "{gpu.task.type=\"compute\"}", std::string(kGpuPowerDraw.name),
          std::string(kGpuMemoryUsed.name), std::string(kSystemCpuUtilization.name) + "{cpu.mode=\"idle\"}"};
}

uint32_t TopModel::GpuRow(const AttributeSet& attributes) {
  std::string key = attributes.Text("gpu.uuid");
  if (key.empty()) key = attributes.Text("gpu.index");
  if (key.empty()) return UINT32_MAX;
  auto [at, added] = gpu_rows_.emplace(key, static_cast<uint32_t>(node_.gpus.size()));
  if (added) {
    if (node_.gpus.size() >= kMostRows) return gpu_rows_.erase(at), UINT32_MAX;
    TopGpu gpu;
    gpu.uuid = attributes.Text("gpu.uuid");
    gpu.index = attributes.Text("gpu.index");
    if (gpu.index.empty()) gpu.index = gpu.uuid;
    node_.gpus.push_back(std::move(gpu));
    gpu_owners_.emplace_back();
    shares_.emplace_back();
  }
  TopGpu& gpu = node_.gpus[at->second];
  auto take = [&](std::string& out, std::string_view name) {
    if (out.empty()) out = attributes.Text(name);
  };
  take(gpu.model, "gpu.model");
  take(gpu.pci, "gpu.pci.bus_id");
  take(gpu.numa, "gpu.numa_node");
  if (!attributes.Has("process.pid") && gpu_owners_[at->second].second.empty())
    gpu_owners_[at->second] = OwnerOf(attributes);
  return at->second;
}

uint32_t TopModel::EngineRow(const AttributeSet& attributes) {
  const std::string name = attributes.Text("target");
  if (name.empty()) return UINT32_MAX;
  auto [at, added] = engine_rows_.emplace(name, static_cast<uint32_t>(node_.engines.size()));
  if (added) {
    if (node_.engines.size() >= kMostRows) return engine_rows_.erase(at), UINT32_MAX;
    node_.engines.push_back({});
    node_.engines.back().name = name;
    engine_states_.emplace_back();
  }
  TopEngine& engine = node_.engines[at->second];
  if (engine.engine.empty()) engine.engine = attributes.Text("inference.engine");
  if (engine.layer.empty()) engine.layer = attributes.Text("inference.layer");
  if (engine.model.empty()) engine.model = attributes.Text("model.name");
  std::string& owner = engine_states_[at->second].owner;
  if (owner.empty()) owner = OwnerOf(attributes).second;
  return at->second;
}

uint32_t TopModel::ProcessRow(uint32_t gpu, const AttributeSet& attributes) {
  std::vector<TopProcess>& processes = node_.gpus[gpu].processes;
  const std::string pid = attributes.Text("process.pid");
  auto [at, added] = process_rows_.try_emplace({gpu, pid}, static_cast<uint32_t>(processes.size()));
  if (!added) return at->second;
  if (processes.size() >= kMostRows) return process_rows_.erase(at), UINT32_MAX;
  TopProcess process;
  process.pid = pid;
  process.name = FirstText(attributes, {"process.executable.name", "process.command"});
  process.user = FirstText(attributes, {"process.owner.name", "process.owner"});
  process.where = OwnerOf(attributes).second;
  processes.push_back(std::move(process));
  return at->second;
}

void TopModel::BindGpu(const KeptSeries& series, Target target) {
  const AttributeSet& set = series.attributes;
  for (std::string_view part : {"gpu.mig.instance_id", "gpu.partition.id"}) {
    if (set.Has(part)) return;
  }
  target.row = GpuRow(set);
  if (target.row == UINT32_MAX) return;
  if (set.Has("process.pid")) {
    const bool memory = series.name == kGpuProcessMemoryUsed.name;
    if (!memory && !Fits(series, kGpuProcessUtilization, "gpu.task.type", "compute")) return;
    target.process = ProcessRow(target.row, set);
    if (target.process == UINT32_MAX) return;
    target.use = Use::kSum;
    if (memory) {
      target.at = [](TopModel& model, const Target& to) {
        return &model.node_.gpus[to.row].processes[to.process].memory;
      };
    } else {
      target.at = [](TopModel& model, const Target& to) {
        return &model.node_.gpus[to.row].processes[to.process].busy;
      };
    }
    return AddTarget(series, std::move(target));
  }
  if (series.name == kGpuState.name || series.name == kGpuHealthState.name) {
    target.use = series.name == kGpuState.name ? Use::kState : Use::kHealth;
    target.text = set.Text(series.name);
    return AddTarget(series, std::move(target));
  }
  if (series.name == kGpuThrottleReason.name || series.name == kGpuThrottleShare.name) {
    target.use = series.name == kGpuThrottleReason.name ? Use::kCause : Use::kShare;
    target.text = set.Text("gpu.throttle.cause");
    if (std::ranges::find(kHarmlessCauses, target.text) == std::end(kHarmlessCauses))
      AddTarget(series, std::move(target));
    return;
  }
  for (const GpuRule& rule : kGpuRules) {
    if (!Fits(series, *rule.metric, rule.key, rule.value)) continue;
    // Errors since the driver was loaded; those over the board's life are another series.
    if (set.Text("gpu.ecc.count_type") == "aggregate") return;
    target.use = rule.sum ? Use::kSum : Use::kValue;
    target.process = static_cast<uint32_t>(&rule - kGpuRules);
    target.at = [](TopModel& model, const Target& to) {
      return &(model.node_.gpus[to.row].*kGpuRules[to.process].gpu);
    };
    return AddTarget(series, std::move(target));
  }
}

void TopModel::BindEngine(const KeptSeries& series, Target target) {
  const AttributeSet& set = series.attributes;
  if (series.name == kSelfScrapeUp.name) {
    target.row = EngineRow(set);
    if (target.row == UINT32_MAX) return;
    target.use = Use::kUp;
    return AddTarget(series, std::move(target));
  }
  // Caches and gateways have pages, too, and their own measures.
  if (const std::string layer = set.Text("inference.layer"); !layer.empty()) {
    const uint32_t row = EngineRow(set);
    if (row == UINT32_MAX) return;
  }
  const std::string tier = set.Text("cache.type");
  if (!tier.empty() && tier != "gpu") return;
  if (const std::string quantile = set.Text("quantile"); !quantile.empty() && quantile != "p95") return;
  for (const EngineRule& rule : kEngineRules) {
    if (!series.name.ends_with(rule.ending)) continue;
    target.row = EngineRow(set);
    if (target.row == UINT32_MAX) return;
    target.use = rule.sum ? Use::kSum : rule.max ? Use::kMax : Use::kValue;
    target.rate = rule.rate;
    target.process = static_cast<uint32_t>(&rule - kEngineRules);
    target.at = [](TopModel& model, const Target& to) {
      return &(model.node_.engines[to.row].*kEngineRules[to.process].engine);
    };
    return AddTarget(series, std::move(target));
  }
}

void TopModel::BindRest(const KeptSeries& series, Target target) {
  const AttributeSet& set = series.attributes;
  auto at_host = [&](uint32_t rule) {
    target.process = rule;
    target.at = [](TopModel& model, const Target& to) {
      return &(model.node_.host.*kHostRules[to.process].host);
    };
  };
  if (series.name == kSystemCpuUtilization.name) {
    if (set.Text("cpu.mode") != "idle") return;
    target.use = Use::kRest;
    target.at = [](TopModel& model, const Target&) { return &model.node_.host.cpu; };
    return AddTarget(series, std::move(target));
  }
  if (series.name == kHostPressureTime.name && set.Text("host.pressure.level") == "some") {
    target.rate = true;
    target.text = set.Text("host.pressure.resource");
    target.at = [](TopModel& model, const Target& to) {
      TopHost& host = model.node_.host;
      return to.text == "cpu"  ? &host.pressure_cpu
             : to.text == "io" ? &host.pressure_io
                               : &host.pressure_memory;
    };
    return AddTarget(series, std::move(target));
  }
  for (const HostRule& rule : kHostRules) {
    if (!Fits(series, *rule.metric, rule.key, rule.value)) continue;
    // What stays inside the machine is no traffic.
    if (set.Text("network.interface.name") == "lo") return;
    at_host(static_cast<uint32_t>(&rule - kHostRules));
    target.use = Use::kSum;
    target.rate = rule.rate;
    return AddTarget(series, std::move(target));
  }
  for (const SelfRule& rule : kSelfRules) {
    if (!Fits(series, *rule.metric, rule.key, rule.value)) continue;
    target.use = Use::kSum;
    target.process = static_cast<uint32_t>(&rule - kSelfRules);
    target.at = [](TopModel& model, const Target& to) {
      return &(model.node_.self.*kSelfRules[to.process].self);
    };
    return AddTarget(series, std::move(target));
  }
  const bool collector = series.name == kSelfCollectorUp.name, sink = series.name == kSelfSinkUp.name;
  if (collector || sink) {
    auto& parts = collector ? node_.self.collectors : node_.self.sinks;
    if (parts.size() >= kMostRows) return;
    target.use = Use::kPart;
    target.row = static_cast<uint32_t>(parts.size());
    target.process = sink;
    parts.push_back({set.Text(collector ? "collector" : "sink")});
    return AddTarget(series, std::move(target));
  }
  const bool energy = series.name == kEnergyLedgerOwner.name;
  if (energy || (series.name == kCostLedgerOwner.name && set.Text("cost.basis") == "allocation")) {
    target.use = energy ? Use::kOwnerEnergy : Use::kOwnerCost;
    target.text = set.Text("owner.kind") + '\x1f' + set.Text("owner");
    return AddTarget(series, std::move(target));
  }
  if (series.name == kGpuDriverInfo.name) node_.driver = set.Text("gpu.driver.version");
  if (series.name == kHostInfo.name) {
    node_.host.cpu_model = set.Text("host.cpu.model");
    node_.host.kernel = set.Text("host.kernel.version");
  }
}

void TopModel::Bind(const std::vector<KeptSeries>& series) {
  // Trends survive a new layout.
  const std::vector<TopGpu> gpus = std::move(node_.gpus);
  const std::vector<TopEngine> engines = std::move(node_.engines);
  const std::vector<EngineState> states = std::move(engine_states_);
  const auto gpu_rows = std::move(gpu_rows_), engine_rows = std::move(engine_rows_);
  node_.gpus.clear();
  node_.engines.clear();
  engine_states_.clear();
  gpu_rows_.clear();
  engine_rows_.clear();
  gpu_owners_.clear();
  shares_.clear();
  targets_.clear();
  process_rows_.clear();
  sources_.clear();
  node_.self.collectors.clear();
  node_.self.sinks.clear();
  std::map<std::string, uint32_t, std::less<>> source_rows;
  for (const KeptSeries& one : series) {
    auto [at, added] = source_rows.emplace(one.source, static_cast<uint32_t>(sources_.size()));
    if (added) sources_.push_back(one.source);
    Target target;
    target.source = at->second;
    if (one.attributes.Has("gpu.index") || one.attributes.Has("gpu.uuid")) BindGpu(one, std::move(target));
    else if (one.attributes.Has("target")) BindEngine(one, std::move(target));
    else BindRest(one, std::move(target));
  }
  for (const auto& [key, row] : gpu_rows_) {
    auto old = gpu_rows.find(key);
    if (old == gpu_rows.end()) continue;
    node_.gpus[row].busy_trend = gpus[old->second].busy_trend;
    node_.gpus[row].power_trend = gpus[old->second].power_trend;
    node_.gpus[row].memory_trend = gpus[old->second].memory_trend;
  }
  for (const auto& [key, row] : engine_rows_) {
    auto old = engine_rows.find(key);
    if (old == engine_rows.end()) continue;
    node_.engines[row].tokens_trend = engines[old->second].tokens_trend;
    engine_states_[row].down_since_ms = states[old->second].down_since_ms;
  }
}

void TopModel::Clear() {
  for (TopGpu& gpu : node_.gpus) {
    for (const GpuRule& rule : kGpuRules) gpu.*rule.gpu = {};
    gpu.throttled = gpu.joules_per_token = {};
    gpu.throttle_cause.clear();
    gpu.driver_state.clear();
    gpu.health_state.clear();
    for (TopProcess& process : gpu.processes) process.memory = process.busy = {};
  }
  for (auto& shares : shares_) shares.clear();
  for (TopEngine& engine : node_.engines) {
    for (const EngineRule& rule : kEngineRules) engine.*rule.engine = {};
  }
  for (EngineState& state : engine_states_) state.up = -1;
  for (const HostRule& rule : kHostRules) node_.host.*rule.host = {};
  node_.host.cpu = node_.host.pressure_cpu = node_.host.pressure_memory = node_.host.pressure_io = {};
  for (const SelfRule& rule : kSelfRules) node_.self.*rule.self = {};
  owner_energy_.clear();
  owner_cost_.clear();
}

TopValue TopModel::RateOf(uint32_t id, const TopValue& value, int64_t read_ms) {
  LastRate& last = rates_[id];
  // A source that was not read again has the same rate as before.
  if (read_ms > last.read_ms) {
    const bool first = last.read_ms == 0, reset = value.value < last.value;
    last.rate = first || reset
                    ? kNotMeasured
                    : (value.value - last.value) * 1000.0 / static_cast<double>(read_ms - last.read_ms);
    last.value = value.value;
    last.read_ms = read_ms;
  }
  return {last.rate, value.stale_ms};
}

void TopModel::Apply(const Target& target, const TopValue& value) {
  auto pair_of = [&] {
    std::string_view rest = target.text;
    const std::string_view kind = TakeUntil(rest, '\x1f');
    return std::pair(std::string(kind), std::string(rest));
  };
  switch (target.use) {
    case Use::kValue: {
      TopValue& to = *target.at(*this, target);
      if (!to.known()) to = value;
      return;
    }
    case Use::kSum: {
      TopValue& to = *target.at(*this, target);
      to.value = to.known() ? to.value + value.value : value.value;
      to.stale_ms = std::max(to.stale_ms, value.stale_ms);
      return;
    }
    case Use::kMax: {
      TopValue& to = *target.at(*this, target);
      if (!to.known() || value.value > to.value) to = value;
      return;
    }
    case Use::kRest: {
      TopValue& to = *target.at(*this, target);
      to = {1 - value.value, value.stale_ms};
      return;
    }
    case Use::kState:
      if (value.value == 1) node_.gpus[target.row].driver_state = target.text;
      return;
    case Use::kHealth:
      if (value.value == 1) node_.gpus[target.row].health_state = target.text;
      return;
    case Use::kCause:
      if (value.value == 1 && value.stale_ms == 0) {
        std::string& cause = node_.gpus[target.row].throttle_cause;
        if (cause.empty()) cause = WordOf(target.text);
      }
      return;
    case Use::kShare: shares_[target.row][target.text] = value.value; return;
    case Use::kPart:
      (target.process ? node_.self.sinks : node_.self.collectors)[target.row].up = value.value == 1;
      return;
    case Use::kUp: engine_states_[target.row].up = value.value == 1; return;
    case Use::kOwnerEnergy: owner_energy_[pair_of()] = value; return;
    case Use::kOwnerCost: owner_cost_[pair_of()] = value; return;
  }
}

void TopModel::Take(const NodeNow& now) {
  const bool again = now.tick != 0 && now.tick == tick_ && now.layout == layout_;
  node_.name = now.node.Text("host.name");
  node_.version = now.version;
  node_.simulated = now.simulated;
  node_.at_ms = now.at_ms;
  if (now.interval_s > 0) node_.interval_s = now.interval_s;
  node_.history_s =
      now.history_begin_ms > 0 ? static_cast<double>(now.at_ms - now.history_begin_ms) / 1000 : 0;
  node_.away_since_ms = 0;
  node_.away_why.clear();
  if (again) return;
  // Of an agent that was started again ids and trends mean something else.
  if (now.tick < tick_) {
    rates_.clear();
    node_.gpus.clear();
    node_.engines.clear();
    gpu_rows_.clear();
    engine_rows_.clear();
    targets_.clear();
  }
  if (now.series) {
    Bind(*now.series);
    layout_ = now.layout;
  }
  tick_ = now.tick;
  Clear();
  std::map<std::string_view, int64_t> read;
  for (const auto& [source, at] : now.read) read.emplace(source, at);
  std::vector<int64_t> read_ms(sources_.size(), now.at_ms);
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (auto at = read.find(sources_[i]); at != read.end()) read_ms[i] = at->second;
  }
  for (const NodeValue& value : now.values) {
    auto at = targets_.find(value.id);
    if (at == targets_.end()) continue;
    const int64_t source_read_ms = read_ms[at->second.source];
    TopValue shown{value.value, value.stale_ms};
    // Its age was that at the last reading of the source.
    if (shown.stale_ms > 0) shown.stale_ms += std::max<int64_t>(0, now.at_ms - source_read_ms);
    if (at->second.rate) shown = RateOf(value.id, shown, source_read_ms);
    if (shown.known()) Apply(at->second, shown);
  }
  if (rates_.size() > 2 * targets_.size() + 1000)
    std::erase_if(rates_, [&](const auto& rate) { return !targets_.contains(rate.first); });
  Finish();
}

void TopModel::FinishGpu(TopGpu& gpu) {
  const size_t row = static_cast<size_t>(&gpu - node_.gpus.data());
  for (const auto& [cause, share] : shares_[row]) {
    if (share <= gpu.throttled.value) continue;
    gpu.throttled = {share, 0};
    if (share > 0 && gpu.throttle_cause.empty()) gpu.throttle_cause = WordOf(cause);
  }
  gpu.runs = gpu_owners_[row].second;
  gpu.level = TopLevel::kGood;
  gpu.trouble.clear();
  auto find = [&](TopLevel level, std::string trouble) {
    if (gpu.level == TopLevel::kAct || (gpu.level == TopLevel::kLook && level == TopLevel::kLook)) return;
    gpu.level = level;
    gpu.trouble = std::move(trouble);
  };
  if (!gpu.driver_state.empty() && gpu.driver_state != "ok") find(TopLevel::kAct, WordOf(gpu.driver_state));
  if (gpu.ecc_uncorrected.known() && gpu.ecc_uncorrected.value > 0)
    find(TopLevel::kLook, "uncorrected ECC errors");
  if (!gpu.health_state.empty() && gpu.health_state != "ok")
    find(gpu.health_state == "failed" ? TopLevel::kAct : TopLevel::kLook,
         "health: " + WordOf(gpu.health_state));
  if (gpu.pcie_gen.known() && gpu.pcie_width.known() && gpu.pcie_width_max.known() &&
      gpu.pcie_width.value < gpu.pcie_width_max.value)
    find(TopLevel::kLook, "PCIe is narrower than it can be");
  int64_t youngest = INT64_MAX;
  for (const TopValue* value : {&gpu.busy, &gpu.memory_used, &gpu.power, &gpu.core})
    if (value->known()) youngest = std::min(youngest, value->stale_ms);
  if (youngest != INT64_MAX && youngest > 0) find(TopLevel::kLook, "no new reading");
  if (gpu.driver_state.empty() && !gpu.busy.known() && !gpu.memory_used.known() &&
      gpu.level == TopLevel::kGood) {
    gpu.level = TopLevel::kUnknown;
    gpu.trouble = "nothing is known";
  }
  // A GPU that does not answer has no values, even if its last ones are not yet too old.
  PushTrend(gpu.busy_trend, gpu.busy);
  PushTrend(gpu.power_trend, gpu.power);
  PushTrend(gpu.memory_trend, gpu.memory_used);
  std::erase_if(gpu.processes, [](const TopProcess& process) {
    return !process.memory.known() && !process.busy.known() && process.pid.empty();
  });
}

void TopModel::FinishEngine(size_t row) {
  TopEngine& engine = node_.engines[row];
  EngineState& state = engine_states_[row];
  engine.level = TopLevel::kGood;
  if (state.up == 0) {
    if (state.down_since_ms == 0) state.down_since_ms = node_.at_ms;
    engine.level = TopLevel::kLook;
    engine.state = "down " + std::to_string((node_.at_ms - state.down_since_ms) / 1000) + " s";
  } else {
    state.down_since_ms = 0;
    engine.state = state.up == 1 ? "up" : "–";
    if (state.up < 0) engine.level = TopLevel::kUnknown;
    if (engine.waiting.known() && engine.waiting.value > 0 && engine.kv.known() && engine.kv.value > 0.95) {
      engine.level = TopLevel::kLook;
      engine.state = "KV cache full";
    }
  }
  if (!engine.tokens.known()) engine.tokens = engine.throughput;
  PushTrend(engine.tokens_trend, engine.tokens);
}

// Pods and jobs that have GPUs, with sums over these.
void TopModel::FinishJobs() {
  node_.jobs.clear();
  std::map<std::pair<std::string, std::string>, size_t> rows;
  std::vector<double> busy;
  for (size_t i = 0; i < node_.gpus.size(); ++i) {
    const auto& owner = gpu_owners_[i];
    if (owner.second.empty()) continue;
    auto [at, added] = rows.emplace(owner, node_.jobs.size());
    if (added) {
      node_.jobs.push_back({});
      node_.jobs.back().kind = owner.first;
      node_.jobs.back().who = owner.second;
      busy.push_back(0);
    }
    const TopGpu& gpu = node_.gpus[i];
    TopJob& job = node_.jobs[at->second];
    job.gpus.push_back(gpu.index);
    job.level = std::max(job.level == TopLevel::kUnknown ? TopLevel::kGood : job.level,
                         gpu.level == TopLevel::kUnknown ? TopLevel::kGood : gpu.level);
    auto add = [](TopValue& to, const TopValue& value) {
      if (!value.known()) return;
      to.value = to.known() ? to.value + value.value : value.value;
      to.stale_ms = std::max(to.stale_ms, value.stale_ms);
    };
    add(job.power, gpu.power);
    add(job.memory, gpu.memory_used);
    add(job.busy, gpu.busy);
    busy[at->second] += gpu.busy.known();
  }
  for (size_t i = 0; i < node_.jobs.size(); ++i) {
    TopJob& job = node_.jobs[i];
    if (job.busy.known()) job.busy.value /= busy[i];
    const std::string bare =
        job.kind == "job" ? job.who.substr(0, job.who.find(' ')) : job.who.substr(job.who.find('/') + 1);
    for (const std::string& name : {job.who, bare}) {
      if (auto at = owner_energy_.find({job.kind, name}); at != owner_energy_.end()) job.energy = at->second;
      if (auto at = owner_cost_.find({job.kind, name}); at != owner_cost_.end()) job.cost = at->second;
    }
  }
}

void TopModel::Finish() {
  for (TopGpu& gpu : node_.gpus) FinishGpu(gpu);
  for (size_t i = 0; i < node_.engines.size(); ++i) FinishEngine(i);
  // An engine's energy is that of all its GPUs: each shows what a token on it takes.
  for (size_t i = 0; i < node_.engines.size(); ++i) {
    const TopValue& joules = node_.engines[i].joules_per_token;
    if (!joules.known() || engine_states_[i].owner.empty()) continue;
    for (TopGpu& gpu : node_.gpus) {
      if (gpu.runs == engine_states_[i].owner && gpu.busy.known()) gpu.joules_per_token = joules;
    }
  }
  FinishJobs();
  PushTrend(node_.host.cpu_trend, node_.host.cpu);
}

void TopModel::Take(const std::vector<NodeEvent>& events) {
  node_.events.clear();
  node_.events_known = true;
  for (const NodeEvent& event : events) {
    TopEvent shown;
    shown.at_ms = event.at_ms;
    shown.level = LevelOf(event.severity);
    shown.gpu = event.attributes.Text("gpu.index");
    shown.name = event.name;
    shown.text = event.body.empty() ? WordOf(event.name) : event.body;
    // The line has the GPU's index.
    const std::string uuid = " (" + event.attributes.Text("gpu.uuid") + ")";
    if (const size_t at = shown.text.find(uuid); uuid.size() > 3 && at != std::string::npos)
      shown.text.erase(at, uuid.size());
    shown.who = OwnerOf(event.attributes).second;
    node_.events.push_back(std::move(shown));
  }
}

void TopModel::TakeTrends(const NodeHistory& history) {
  const int64_t step_ms = std::max<int64_t>(100, static_cast<int64_t>(node_.interval_s * 1000));
  for (const SeriesWindow& window : history.series) {
    const KeptSeries& series = window.series;
    std::vector<double>* trend = nullptr;
    const bool idle = series.name == kSystemCpuUtilization.name;
    if (idle) {
      trend = &node_.host.cpu_trend;
    } else {
      std::string key = series.attributes.Text("gpu.uuid");
      if (key.empty()) key = series.attributes.Text("gpu.index");
      auto at = gpu_rows_.find(key);
      if (at == gpu_rows_.end() || series.attributes.Has("gpu.mig.instance_id")) continue;
      TopGpu& gpu = node_.gpus[at->second];
      trend = series.name == kGpuUtilization.name ? &gpu.busy_trend
              : series.name == kGpuPowerDraw.name ? &gpu.power_trend
                                                  : &gpu.memory_trend;
    }
    // Values at the ticks before this one.
    std::vector<double> before;
    const std::vector<SeriesSample>& samples = window.samples;
    for (size_t next = 0, i = kTrend; i > 0; --i) {
      const int64_t at_ms = node_.at_ms - static_cast<int64_t>(i) * step_ms;
      while (next < samples.size() && samples[next].unix_ms <= at_ms) ++next;
      const bool known = next > 0 && samples[next - 1].mark == SeriesSample::kOk;
      before.push_back(!known ? kNotMeasured : idle ? 1 - samples[next - 1].value : samples[next - 1].value);
    }
    before.insert(before.end(), trend->begin(), trend->end());
    if (before.size() > kTrend) before.erase(before.begin(), before.end() - kTrend);
    *trend = std::move(before);
  }
}

void TopModel::TakeFailure(const Status& why, int64_t now_ms) {
  if (node_.away_since_ms == 0) node_.away_since_ms = now_ms;
  // What answers next may be another agent, in which the numbers of series mean something else.
  rates_.clear();
  node_.away_why = why.detail;
}

}  // namespace gpulens
