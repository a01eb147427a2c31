#include "agent/api/fleet.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/stable_sort.h"
#include "base/text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using G = FleetGpuValue;
using E = FleetEngineValue;

constexpr int64_t kDefaultRows = 100, kMostRows = 20'000;
// An Xid is a problem for this long after it came.
constexpr int64_t kXidMs = 15 * 60'000;
// Samples that are this much older than their node's newest are no longer its state.
constexpr int64_t kLeastStaleMs = 45'000;
// Nodes are late after two and a half intervals and a bit.
constexpr int64_t kLateSlackMs = 5000, kLateUnknownMs = 60'000;
constexpr int64_t kBehindMs = 120'000;
// No person replaces a GPU four times in ten minutes.
constexpr uint32_t kReplacedOften = 4;
constexpr int64_t kReplacedMs = 10 * 60'000;
// Of NVML's clock event reasons those that are no choice of anybody: hardware slowdown, heat, power brake.
struct HeldDown {
  uint64_t bits;
  std::string_view text;
};
constexpr HeldDown kHeldDown[] = {{0x80, "the power supply holds its clocks down"},
                                  {0x60, "too hot: its clocks are held down"},
                                  {0x08, "the hardware holds its clocks down"}};
// States in which a GPU does no work; in others it is only not read.
constexpr std::string_view kFaultStates[] = {"lost", "hung", "reset_required", "failed"};

std::string DurationText(int64_t ms) {
  const int64_t s = ms / 1000;
  char text[48];
  if (s < 60) std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(s));
  else if (s < 3600)
    std::snprintf(text, sizeof text, "%lld m %02lld s", static_cast<long long>(s / 60),
                  static_cast<long long>(s % 60));
  else
    std::snprintf(text, sizeof text, "%lld h %02lld m", static_cast<long long>(s / 3600),
                  static_cast<long long>(s / 60 % 60));
  return text;
}

std::string Spaced(std::string_view word) {
  std::string text(word);
  std::ranges::replace(text, '_', ' ');
  return text;
}

int64_t StaleAfterMs(const FleetNode& node) noexcept {
  return std::max(kLeastStaleMs, 5 * node.interval_ms / 2);
}

// The value while it is as new as the node's others; else none.
template <class Of, class Which>
std::optional<double> Fresh(const FleetNode& node, const Of& of, Which which) {
  const FleetValue& value = of[which];
  if (!std::isfinite(value.value) || node.newest_ms - value.at_ms > StaleAfterMs(node)) return {};
  return value.value;
}

bool IsFresh(const FleetNode& node, int64_t at_ms) noexcept {
  return at_ms != 0 && node.newest_ms - at_ms <= StaleAfterMs(node);
}

void AddGpuProblems(const FleetNode& node, const FleetGpu& gpu, int64_t now_ms,
                    std::vector<FleetProblem>& out) {
  const auto add = [&](FleetProblem::Severity severity, std::string text) {
    out.push_back({severity, gpu.index, std::move(text)});
  };
  const bool xid = gpu.xid_rise_ms != 0 && now_ms - gpu.xid_rise_ms < kXidMs;
  std::string xid_text = "Xid";
  if (const FleetValue& code = gpu[G::kXidCode]; std::isfinite(code.value))
    xid_text += " " + std::to_string(std::lround(std::clamp(code.value, 0.0, 1e6)));
  if (!IsFresh(node, gpu.NewestMs())) {
    add(FleetProblem::kFault,
        "no reading for " + DurationText(std::max<int64_t>(0, now_ms - gpu.NewestMs())));
    return;
  }
  const bool state_known = !gpu.state.empty() && IsFresh(node, gpu.state_at_ms);
  if (state_known && gpu.state != "ok") {
    const bool fault = std::ranges::find(kFaultStates, gpu.state) != std::end(kFaultStates);
    add(fault ? FleetProblem::kFault : FleetProblem::kWarning,
        Spaced(gpu.state) + (xid && fault ? ", " + xid_text : ""));
    if (fault) return;
  }
  if (xid)
    add(FleetProblem::kWarning,
        xid_text + ", " + DurationText(std::max<int64_t>(0, now_ms - gpu.xid_rise_ms)) + " ago");
  if (!gpu.health.empty() && gpu.health != "ok" && IsFresh(node, gpu.health_at_ms)) {
    const bool why = !gpu.condition.empty() && IsFresh(node, gpu.condition_at_ms);
    add(gpu.health == "failed" ? FleetProblem::kFault : FleetProblem::kWarning,
        "health: " + Spaced(gpu.health) + (why ? ", " + Spaced(gpu.condition) : ""));
  }
  // The bits of other vendors mean other things.
  const auto mask = Fresh(node, gpu, G::kThrottleMask);
  if (mask && gpu.uuid.starts_with("GPU-") && *mask > 0 && *mask < 1e15) {
    for (const HeldDown& one : kHeldDown) {
      if ((static_cast<uint64_t>(*mask) & one.bits) == 0) continue;
      add(FleetProblem::kWarning, std::string(one.text));
      break;
    }
  }
}

// Sums of nodes or of parts of them. Absent values add nothing and are not counted.
struct Sums {
  double busy = 0, power = 0, memory_used = 0, memory_total = 0, hottest = 0;
  double running = 0, waiting = 0, first_token = 0;
  uint64_t gpus = 0, answering = 0, with_busy = 0, with_power = 0, with_used = 0, with_total = 0;
  uint64_t with_heat = 0, engines = 0, with_running = 0, with_waiting = 0, with_first_token = 0;

  void Add(const FleetNode& node, const FleetGpu& gpu, bool away) {
    ++gpus;
    if (away) return;
    answering += IsFresh(node, gpu.NewestMs()) && (gpu.state.empty() || gpu.state == "ok");
    const auto sum = [&](G which, double& to, uint64_t& count) {
      if (const auto value = Fresh(node, gpu, which)) to += *value, ++count;
    };
    sum(G::kBusy, busy, with_busy);
    sum(G::kPower, power, with_power);
    sum(G::kMemoryUsed, memory_used, with_used);
    sum(G::kMemoryTotal, memory_total, with_total);
    if (const auto heat = Fresh(node, gpu, G::kTemperature)) {
      hottest = with_heat == 0 ? *heat : std::max(hottest, *heat);
      ++with_heat;
    }
  }
  void Add(const FleetNode& node, const FleetEngine& engine, bool away) {
    if (!IsFresh(node, engine.NewestMs())) return;
    ++engines;
    if (away) return;
    if (const auto value = Fresh(node, engine, E::kRunning)) running += *value, ++with_running;
    if (const auto value = Fresh(node, engine, E::kWaiting)) waiting += *value, ++with_waiting;
    if (const auto value = Fresh(node, engine, E::kFirstToken)) {
      first_token = with_first_token == 0 ? *value : std::max(first_token, *value);
      ++with_first_token;
    }
  }
  void Write(JsonObject& out) const {
    out.Count("gpus", gpus);
    out.Count("answering", answering);
    const auto number = [&](std::string_view key, double value, uint64_t count) {
      if (count != 0) out.Number(key, value);
    };
    number("busy", with_busy ? busy / static_cast<double>(with_busy) : 0, with_busy);
    number("power", power, with_power);
    number("memory_used", memory_used, with_used);
    number("memory_total", memory_total, with_total);
    number("temperature", hottest, with_heat);
    if (engines == 0) return;
    out.Count("engines", engines);
    number("running", running, with_running);
    number("waiting", waiting, with_waiting);
    number("first_token", first_token, with_first_token);
  }
};

std::string_view WordOf(FleetPresence presence) noexcept {
  constexpr std::string_view kWords[] = {"here", "late", "away"};
  return kWords[static_cast<size_t>(presence)];
}
std::string_view WordOf(uint8_t severity) noexcept {
  constexpr std::string_view kWords[] = {"ok", "warning", "fault"};
  return kWords[severity];
}

uint8_t WorstOf(const std::vector<FleetProblem>& problems) noexcept {
  return problems.empty() ? uint8_t{0} : static_cast<uint8_t>(problems.front().severity);
}

// A node with what is derived from it, for one answer.
struct NodeView {
  const FleetNode* node = nullptr;
  FleetPresence presence = FleetPresence::kHere;
  std::vector<FleetProblem> problems;

  uint8_t worst() const noexcept { return WorstOf(problems); }
  bool away() const noexcept { return presence == FleetPresence::kAway; }
};

// Worst first; of equals the one with more problems, then by name.
bool IsWorse(const NodeView& a, const NodeView& b) {
  if (a.worst() != b.worst()) return a.worst() > b.worst();
  if (a.problems.size() != b.problems.size()) return a.problems.size() > b.problems.size();
  if (a.node->name() != b.node->name()) return a.node->name() < b.node->name();
  return a.node->id < b.node->id;
}

// The history of a node or a GPU up to now, oldest first. A node that sends less often than a step keeps its
// value for the steps between.
template <class Read>
void WriteCourse(JsonObject& out, std::string_view key, const FleetNode& node, int64_t now_ms, Read read) {
  const int64_t now_step = now_ms / kFleetStepMs, steps = static_cast<int64_t>(kFleetSteps);
  const int64_t holds = (node.interval_ms + node.interval_ms / 2) / kFleetStepMs;
  std::string& json = out.Key(key);
  json += '[';
  double last = kNotMeasured;
  int64_t age = 0;
  for (int64_t step = now_step - steps + 1; step <= now_step; ++step) {
    double value = kNotMeasured;
    if (step <= node.step && step > node.step - steps) value = read(static_cast<size_t>(step) % kFleetSteps);
    if (std::isfinite(value)) last = std::round(value), age = 0;
    else if (++age > holds) last = kNotMeasured;
    if (step != now_step - steps + 1) json += ',';
    AppendJsonNumber(json, last);  // null where nothing is known
  }
  json += ']';
}

double BusyAt(const FleetGpu& gpu, size_t place) {
  return gpu.busy[place] == FleetGpu::kNoBusy ? kNotMeasured : gpu.busy[place];
}
double PowerAt(const FleetGpu& gpu, size_t place) {
  return gpu.power[place] == FleetGpu::kNoPower ? kNotMeasured : gpu.power[place];
}

// The sum, or the mean, of what is known of the GPUs at a place.
template <class Read>
double AllAt(const FleetNode& node, size_t place, bool mean, Read read) {
  double sum = 0;
  size_t count = 0;
  for (const FleetGpu& gpu : node.gpus)
    if (const double value = read(gpu, place); std::isfinite(value)) sum += value, ++count;
  if (count == 0) return kNotMeasured;
  return mean ? sum / static_cast<double>(count) : sum;
}

void WriteProblems(JsonObject& out, const std::vector<FleetProblem>& problems, size_t most) {
  const size_t shown = std::min(most, problems.size());
  const std::vector<FleetProblem> list(problems.begin(),
                                       problems.begin() + static_cast<std::ptrdiff_t>(shown));
  out.List("problems", list, [](std::string& json, const FleetProblem& problem) {
    JsonObject one(json);
    one.Text("severity", WordOf(problem.severity));
    if (problem.gpu >= 0) one.Whole("gpu", problem.gpu);
    one.Text("text", problem.text);
  });
  if (problems.size() > shown) out.Count("problems_more", problems.size() - shown);
}

void WriteNode(JsonObject& out, const FleetTable::Options& options, const NodeView& view, int64_t now_ms) {
  const FleetNode& node = *view.node;
  out.Text("id", std::to_string(node.id));
  out.Text("name", node.name());
  if (node.instance != node.name()) out.Text("instance", node.instance);
  out.TextIfAny("cluster", node.cluster);
  out.TextIfAny("rack", node.rack);
  out.TextIfAny("version", node.version);
  if (node.simulated) out.Flag("simulated", true);
  out.Text("state", WordOf(view.worst()));
  out.Text("presence", WordOf(view.presence));
  out.Whole("seen_at", node.seen_ms);
  out.Whole("at", node.newest_ms);
  if (node.interval_ms != 0) out.Number("interval_s", static_cast<double>(node.interval_ms) / 1000);
  Sums sums;
  std::vector<std::string_view> models, owners;
  const auto note = [](std::vector<std::string_view>& to, const std::string& text) {
    if (!text.empty() && std::ranges::find(to, text) == to.end()) to.push_back(text);
  };
  for (const FleetGpu& gpu : node.gpus) {
    sums.Add(node, gpu, view.away());
    note(models, gpu.model);
    note(owners, gpu.owner);
  }
  for (const FleetEngine& engine : node.engines) sums.Add(node, engine, view.away());
  sums.Write(out);
  out.Texts("models", models);
  out.Texts("jobs", owners);
  WriteCourse(out, "busy_course", node, now_ms,
              [&](size_t place) { return AllAt(node, place, true, BusyAt); });
  WriteCourse(out, "power_course", node, now_ms,
              [&](size_t place) { return AllAt(node, place, false, PowerAt); });
  out.TextIfAny("url", FleetNodeUrl(options.node_url, node));
}

// One node with its GPUs and engines.
void WriteDetail(JsonObject& out, const NodeView& view, int64_t now_ms) {
  const FleetNode& node = *view.node;
  out.List("gpu_list", node.gpus, [&](std::string& json, const FleetGpu& gpu) {
    JsonObject one(json);
    if (gpu.index >= 0) one.Whole("index", gpu.index);
    one.TextIfAny("uuid", gpu.uuid);
    one.TextIfAny("model", gpu.model);
    one.TextIfAny("job", gpu.owner);
    if (IsFresh(node, gpu.state_at_ms)) one.TextIfAny("state", gpu.state);
    if (IsFresh(node, gpu.health_at_ms)) one.TextIfAny("health", gpu.health);
    one.Whole("at", gpu.NewestMs());
    const auto number = [&](std::string_view key, G which) {
      if (const auto value = Fresh(node, gpu, which)) one.Number(key, *value);
    };
    number("busy", G::kBusy);
    number("memory_used", G::kMemoryUsed);
    number("memory_total", G::kMemoryTotal);
    number("power", G::kPower);
    const auto power = Fresh(node, gpu, G::kPower), share = Fresh(node, gpu, G::kPowerShare);
    if (power && share && *share > 0) one.Number("power_limit", std::round(*power / *share));
    number("temperature", G::kTemperature);
    number("health_score", G::kHealth);
    number("xids", G::kXids);
    if (gpu.xid_rise_ms != 0) one.Whole("xid_at", gpu.xid_rise_ms);
    number("xid_code", G::kXidCode);
    WriteCourse(one, "busy_course", node, now_ms, [&](size_t place) { return BusyAt(gpu, place); });
    WriteCourse(one, "power_course", node, now_ms, [&](size_t place) { return PowerAt(gpu, place); });
  });
  out.List("engine_list", node.engines, [&](std::string& json, const FleetEngine& engine) {
    JsonObject one(json);
    one.TextIfAny("target", engine.target);
    one.TextIfAny("engine", engine.engine);
    one.TextIfAny("model", engine.model);
    one.TextIfAny("rank", engine.rank);
    one.Whole("at", engine.NewestMs());
    const auto number = [&](std::string_view key, E which) {
      if (const auto value = Fresh(node, engine, which)) one.Number(key, *value);
    };
    number("running", E::kRunning);
    number("waiting", E::kWaiting);
    number("cache", E::kCacheShare);
    number("first_token", E::kFirstToken);
  });
}

bool Contains(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  };
  return std::ranges::search(text, lower, same).begin() != text.end();
}

bool Matches(const NodeView& view, const std::string& filter) {
  if (filter.empty()) return true;
  const FleetNode& node = *view.node;
  for (std::string_view text :
       {std::string_view(node.host), std::string_view(node.instance), std::string_view(node.cluster),
        std::string_view(node.rack), WordOf(view.worst()), WordOf(view.presence)})
    if (Contains(text, filter)) return true;
  for (const FleetGpu& gpu : node.gpus)
    if (Contains(gpu.model, filter) || Contains(gpu.owner, filter)) return true;
  for (const FleetEngine& engine : node.engines)
    if (Contains(engine.model, filter) || Contains(engine.target, filter)) return true;
  return std::ranges::any_of(view.problems, [&](const auto& one) { return Contains(one.text, filter); });
}

enum class By : uint8_t { kNode, kModel, kRack, kJob };

struct FleetQuery {
  By by = By::kNode;
  size_t limit = static_cast<size_t>(kDefaultRows);
  std::string filter, node;
};

Result<FleetQuery> ParseFleetQuery(const ApiRequest& request) {
  FleetQuery query;
  if (const std::string* by = request.Find("by")) {
    constexpr std::string_view kWords[] = {"node", "model", "rack", "job"};
    const auto at = std::ranges::find(kWords, *by);
    if (at == std::end(kWords)) return Status{Code::kInvalidArgument, "by must be node, model, rack or job"};
    query.by = static_cast<By>(at - std::begin(kWords));
  }
  if (const std::string* limit = request.Find("limit")) {
    const auto rows = ParseInt<int64_t>(*limit);
    if (!rows || *rows < 1 || *rows > kMostRows)
      return Status{Code::kInvalidArgument, "limit must be a number from 1 to " + std::to_string(kMostRows)};
    query.limit = static_cast<size_t>(*rows);
  }
  if (const std::string* filter = request.Find("filter")) {
    query.filter = *filter;
    for (char& c : query.filter)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  if (const std::string* node = request.Find("node")) query.node = *node;
  return query;
}

// GPUs of many nodes that have a model, a rack or a job in common.
struct Group {
  Sums sums;
  uint64_t nodes = 0, away = 0, faults = 0, warnings = 0;
  uint64_t last_node = 0;  // the id of the node that was counted last

  uint8_t worst() const noexcept { return faults ? uint8_t{2} : warnings ? uint8_t{1} : uint8_t{0}; }
  // True for a node that is new to it. GPUs of one node come one after the other.
  bool AddNode(const NodeView& view) {
    if (std::exchange(last_node, view.node->id) == view.node->id) return false;
    ++nodes;
    away += view.away();
    return true;
  }
};

std::map<std::string, Group> GroupsOf(const std::vector<NodeView>& all, By by) {
  std::map<std::string, Group> groups;
  for (const NodeView& view : all) {
    const FleetNode& node = *view.node;
    std::map<int64_t, uint8_t> worst;  // by GPU; -1: the node
    for (const FleetProblem& problem : view.problems) {
      uint8_t& at = worst[std::max<int64_t>(problem.gpu, -1)];
      at = std::max(at, static_cast<uint8_t>(problem.severity));
    }
    const auto count = [&](Group& group, int64_t gpu) {
      const auto found = worst.find(gpu);
      if (found == worst.end()) return;
      ++(found->second == FleetProblem::kFault ? group.faults : group.warnings);
    };
    for (const FleetGpu& gpu : node.gpus) {
      Group& group = groups[by == By::kModel ? gpu.model : by == By::kRack ? node.rack : gpu.owner];
      // What is wrong with the node is wrong with each group that has GPUs in it.
      if (group.AddNode(view)) count(group, -1);
      group.sums.Add(node, gpu, view.away());
      count(group, gpu.index);
    }
    if (by != By::kRack) continue;
    if (Group& group = groups[node.rack]; group.AddNode(view)) count(group, -1);
    for (const FleetEngine& engine : node.engines) groups[node.rack].sums.Add(node, engine, view.away());
  }
  return groups;
}

void WriteGroups(JsonObject& out, const std::vector<NodeView>& all, const FleetQuery& query) {
  const std::map<std::string, Group> groups = GroupsOf(all, query.by);
  std::vector<const std::pair<const std::string, Group>*> order;
  for (const auto& group : groups) order.push_back(&group);
  SortStably(order, [](const auto* a, const auto* b) {
    if (a->second.worst() != b->second.worst()) return a->second.worst() > b->second.worst();
    if (a->second.faults != b->second.faults) return a->second.faults > b->second.faults;
    return a->second.sums.gpus > b->second.sums.gpus;
  });
  out.Count("total", order.size());
  if (order.size() > query.limit) order.resize(query.limit);
  out.List("groups", order, [](std::string& json, const auto* group) {
    JsonObject one(json);
    one.Text("name", group->first);
    one.Text("state", WordOf(group->second.worst()));
    one.Count("nodes", group->second.nodes);
    one.Count("away", group->second.away);
    one.Count("faults", group->second.faults);
    one.Count("warnings", group->second.warnings);
    group->second.sums.Write(one);
  });
}

// Counts and sums of all nodes.
void WriteFleet(JsonObject& out, const FleetTable::Options& options, const FleetTable::Totals& totals,
                const std::vector<NodeView>& all) {
  JsonObject fleet(out.Key("fleet"));
  uint64_t away = 0, late = 0, faults = 0, warnings = 0, simulated = 0;
  Sums sums;
  for (const NodeView& view : all) {
    away += view.away();
    late += view.presence == FleetPresence::kLate;
    faults += view.worst() == FleetProblem::kFault;
    warnings += view.worst() == FleetProblem::kWarning;
    simulated += view.node->simulated;
    for (const FleetGpu& gpu : view.node->gpus) sums.Add(*view.node, gpu, view.away());
    for (const FleetEngine& engine : view.node->engines) sums.Add(*view.node, engine, view.away());
  }
  fleet.Count("nodes", all.size());
  fleet.Count("limit", options.nodes);
  fleet.Count("away", away);
  fleet.Count("late", late);
  fleet.Count("faults", faults);
  fleet.Count("warnings", warnings);
  fleet.Count("simulated", simulated);
  fleet.Count("refused_samples", totals.refused);
  fleet.Count("forgotten", totals.forgotten);
  sums.Write(fleet);
}

Result<std::string> FleetJson(FleetTable& table, const ApiRequest& request) {
  ASSIGN_OR_RETURN(const FleetQuery query, ParseFleetQuery(request));
  const FleetTable::Options options = table.options();
  if (options.nodes == 0)
    return Status{Code::kUnavailable, "this agent is no gateway: it has no receivers, or fleet.nodes is 0"};
  Result<std::string> answer = Status{Code::kUnavailable, "no such node"};
  table.Read([&](const std::list<FleetNode>& nodes, const FleetTable::Totals& totals, int64_t now_ms) {
    std::vector<NodeView> all;
    all.reserve(nodes.size());
    for (const FleetNode& node : nodes) {
      if (!query.node.empty() && query.node != std::to_string(node.id)) continue;
      all.push_back({&node, PresenceOf(options, node, now_ms), ProblemsOf(options, node, now_ms)});
    }
    if (!query.node.empty() && all.empty()) return;
    std::string out;
    {
      JsonObject page(out);
      page.Text("schema", "gpulens.fleet/1");
      page.Whole("at", now_ms);
      page.Number("step_s", static_cast<double>(kFleetStepMs) / 1000);
      page.TextIfAny("dashboards", options.dashboards);
      if (!query.node.empty()) {
        JsonObject node(page.Key("node"));
        WriteNode(node, options, all.front(), now_ms);
        WriteProblems(node, all.front().problems, all.front().problems.size());
        WriteDetail(node, all.front(), now_ms);
      } else {
        WriteFleet(page, options, totals, all);
        std::erase_if(all, [&](const NodeView& one) { return !Matches(one, query.filter); });
        if (query.by != By::kNode) {
          WriteGroups(page, all, query);
        } else {
          page.Count("total", all.size());
          std::ranges::sort(all, IsWorse);
          if (all.size() > query.limit) all.resize(query.limit);
          page.List("nodes", all, [&](std::string& json, const NodeView& view) {
            JsonObject node(json);
            WriteNode(node, options, view, now_ms);
            WriteProblems(node, view.problems, 4);
          });
        }
      }
    }
    answer = std::move(out);
  });
  return answer;
}

}  // namespace

FleetPresence PresenceOf(const FleetTable::Options& options, const FleetNode& node, int64_t now_ms) noexcept {
  const int64_t silent = now_ms - node.seen_ms;
  if (silent > FleetTable::AwayAfterMs(options, node)) return FleetPresence::kAway;
  const int64_t late = node.interval_ms == 0 ? kLateUnknownMs : 5 * node.interval_ms / 2 + kLateSlackMs;
  return silent > late ? FleetPresence::kLate : FleetPresence::kHere;
}

std::vector<FleetProblem> ProblemsOf(const FleetTable::Options& options, const FleetNode& node,
                                     int64_t now_ms) {
  std::vector<FleetProblem> problems;
  const auto add = [&](FleetProblem::Severity severity, std::string text) {
    problems.push_back({severity, -1, std::move(text)});
  };
  const FleetPresence presence = PresenceOf(options, node, now_ms);
  if (presence == FleetPresence::kAway)
    add(FleetProblem::kFault, "away: no data for " + DurationText(now_ms - node.seen_ms));
  else if (presence == FleetPresence::kLate)
    add(FleetProblem::kWarning, "late: no data for " + DurationText(now_ms - node.seen_ms));
  else if (node.seen_ms - node.newest_ms > std::max(kBehindMs, 4 * node.interval_ms))
    add(FleetProblem::kWarning, "what it sends is " + DurationText(now_ms - node.newest_ms) +
                                    " old: it has a backlog, or its clock is behind");
  if (node.ahead_ms != 0) add(FleetProblem::kWarning, "its clock is ahead by " + DurationText(node.ahead_ms));
  if (node.replaced >= kReplacedOften && now_ms - node.replaced_ms < kReplacedMs)
    add(FleetProblem::kWarning, "several machines send as this one: give each a service.instance.id");
  if (node.refused != 0)
    add(FleetProblem::kWarning, "it has more than " + std::to_string(FleetTable::kMostGpus) + " GPUs or " +
                                    std::to_string(FleetTable::kMostEngines) + " engines: not all are shown");
  // What was last known of a node that is away is old news.
  if (presence != FleetPresence::kAway)
    for (const FleetGpu& gpu : node.gpus) AddGpuProblems(node, gpu, now_ms, problems);
  SortStably(problems, [](const auto& a, const auto& b) { return a.severity > b.severity; });
  return problems;
}

std::string FleetNodeUrl(const std::string& pattern, const FleetNode& node) {
  if (pattern.empty()) return {};
  std::string url;
  for (std::string_view rest = pattern; !rest.empty();) {
    if (rest.starts_with("{name}")) {
      url += PercentEncoded(node.name(), ":");
      rest.remove_prefix(6);
    } else if (rest.starts_with("{instance}")) {
      url += PercentEncoded(node.instance, ":");
      rest.remove_prefix(10);
    } else {
      url += rest.front();
      rest.remove_prefix(1);
    }
  }
  return url.starts_with("https://") || url.starts_with("http://") ? url : std::string();
}

void AddFleetPage(Api& api, FleetTable& table) {
  api.Add("/api/fleet", [&table](const ApiRequest& request) { return FleetJson(table, request); });
}

}  // namespace gpulens
