#include "cli/top/top_json.h"

#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr std::string_view kLevels[] = {"good", "look", "act", "unknown"};

class Node {
 public:
  explicit Node(JsonObject& object) : object_(object) {}

  // The value, and the age of a stale one.
  void Value(std::string_view key, const TopValue& value) {
    if (!value.known()) return;
    object_.Number(key, value.value);
    if (value.stale_ms > 0)
      object_.Number(std::string(key) + "_age_s", static_cast<double>(value.stale_ms) / 1000);
  }

 private:
  JsonObject& object_;
};

void AppendGpu(std::string& out, const TopGpu& gpu) {
  JsonObject object(out);
  Node node(object);
  object.Text("index", gpu.index);
  object.TextIfAny("uuid", gpu.uuid);
  object.TextIfAny("model", gpu.model);
  object.TextIfAny("pci_bus_id", gpu.pci);
  object.TextIfAny("state", gpu.driver_state);
  object.Text("level", kLevels[static_cast<size_t>(gpu.level)]);
  object.TextIfAny("trouble", gpu.trouble);
  object.TextIfAny("runs", gpu.runs);
  const std::pair<std::string_view, const TopValue*> values[] = {
      {"busy", &gpu.busy},
      {"sm_active", &gpu.sm},
      {"tensor_active", &gpu.tensor},
      {"dram_active", &gpu.dram},
      {"memory_used_bytes", &gpu.memory_used},
      {"memory_total_bytes", &gpu.memory_total},
      {"power_w", &gpu.power},
      {"power_limit_w", &gpu.power_limit},
      {"energy_j", &gpu.energy},
      {"temperature_c", &gpu.core},
      {"memory_temperature_c", &gpu.hbm},
      {"sm_clock_mhz", &gpu.clock},
      {"links_bytes_per_s", &gpu.links},
      {"pcie_generation", &gpu.pcie_gen},
      {"pcie_lanes", &gpu.pcie_width},
      {"throttled", &gpu.throttled},
      {"health", &gpu.health},
      {"joules_per_token", &gpu.joules_per_token},
      {"ecc_corrected", &gpu.ecc_corrected},
      {"ecc_uncorrected", &gpu.ecc_uncorrected},
  };
  for (const auto& [key, value] : values) node.Value(key, *value);
  object.TextIfAny("throttle_cause", gpu.throttle_cause);
  object.List("processes", gpu.processes, [](std::string& to, const TopProcess& process) {
    JsonObject item(to);
    item.Text("pid", process.pid);
    item.TextIfAny("name", process.name);
    item.TextIfAny("user", process.user);
    item.TextIfAny("where", process.where);
    Node(item).Value("memory_bytes", process.memory);
    Node(item).Value("busy", process.busy);
  });
}

void AppendEngine(std::string& out, const TopEngine& engine) {
  JsonObject object(out);
  Node node(object);
  object.Text("name", engine.name);
  object.TextIfAny("engine", engine.engine);
  object.TextIfAny("model", engine.model);
  object.TextIfAny("state", engine.state == "–" ? "" : engine.state);
  object.Text("level", kLevels[static_cast<size_t>(engine.level)]);
  node.Value("running", engine.running);
  node.Value("waiting", engine.waiting);
  node.Value("kv_cache", engine.kv);
  node.Value("prefix_cache_hits", engine.prefix_hits);
  node.Value("tokens_per_s", engine.tokens);
  node.Value("ttft_p95_s", engine.ttft);
  node.Value("itl_p95_s", engine.itl);
  node.Value("latency_p95_s", engine.latency);
  node.Value("joules_per_token", engine.joules_per_token);
}

void AppendJob(std::string& out, const TopJob& job) {
  JsonObject object(out);
  Node node(object);
  object.Text("who", job.who);
  object.Text("kind", job.kind);
  object.Texts("gpus", job.gpus);
  node.Value("busy", job.busy);
  node.Value("memory_bytes", job.memory);
  node.Value("power_w", job.power);
  node.Value("energy_j", job.energy);
  node.Value("cost_usd", job.cost);
}

void AppendEvent(std::string& out, const TopEvent& event) {
  JsonObject object(out);
  object.Time("at", event.at_ms * 1'000'000);
  object.Text("name", event.name);
  object.Text("level", kLevels[static_cast<size_t>(event.level)]);
  object.TextIfAny("gpu", event.gpu);
  object.TextIfAny("text", event.text);
  object.TextIfAny("who", event.who);
}

void AppendNode(std::string& out, const TopNode& top) {
  JsonObject object(out);
  object.TextIfAny("node", top.name);
  object.Text("read_by", top.address);
  object.TextIfAny("why_no_agent", top.why_direct);
  object.TextIfAny("version", top.version);
  object.Flag("simulated", top.simulated);
  if (top.at_ms > 0) object.Time("at", top.at_ms * 1'000'000);
  object.Number("interval_s", top.interval_s);
  if (top.away_since_ms > 0) {
    object.Time("away_since", top.away_since_ms * 1'000'000);
    object.Text("away_why", top.away_why);
  }
  {
    JsonObject host(object.Key("host"));
    Node node(host);
    node.Value("cpu", top.host.cpu);
    node.Value("memory_used_bytes", top.host.memory_used);
    node.Value("memory_total_bytes", top.host.memory_total);
    node.Value("swap_used_bytes", top.host.swap);
    node.Value("network_in_bytes_per_s", top.host.net_in);
    node.Value("network_out_bytes_per_s", top.host.net_out);
    node.Value("disk_read_bytes_per_s", top.host.disk_read);
    node.Value("disk_write_bytes_per_s", top.host.disk_write);
    node.Value("pressure_cpu", top.host.pressure_cpu);
    node.Value("pressure_memory", top.host.pressure_memory);
    node.Value("pressure_io", top.host.pressure_io);
  }
  object.List("gpus", top.gpus, AppendGpu, "\n ");
  object.List("engines", top.engines, AppendEngine, "\n ");
  object.List("jobs", top.jobs, AppendJob, "\n ");
  if (top.events_known) object.List("events", top.events, AppendEvent, "\n ");
}

}  // namespace

std::string TopJson(std::span<const TopNode* const> nodes) {
  return JsonDocumentText("gpulens.top/1", [&](JsonObject& root) {
    root.List("nodes", nodes, [](std::string& out, const TopNode* node) { AppendNode(out, *node); }, "\n");
  });
}

}  // namespace gpulens
