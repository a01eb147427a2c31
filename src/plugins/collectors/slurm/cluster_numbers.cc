#include "plugins/collectors/slurm/cluster_numbers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/parse.h"
#include "sources/slurm/parse/gres.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

// Names of accounts and partitions come from outside.
constexpr size_t kMostAccounts = 10'000, kMostPartitions = 1000;

constexpr std::string_view kUp[] = {"allocated", "mixed",   "idle",    "completing",
                                    "draining",  "failing", "planned", "reserved"};
constexpr std::string_view kDown[] = {"down",
                                      "drained",
                                      "maint",
                                      "fail",
                                      "future",
                                      "inval",
                                      "perfctrs",
                                      "powered_down",
                                      "powering_down",
                                      "powering_up",
                                      "reboot",
                                      "reboot_issued",
                                      "reboot_requested",
                                      "power_down",
                                      "power_up",
                                      "blocked",
                                      "unknown",
                                      "error"};

// "1/1/0/2" as allocated, idle, other.
struct Cpus {
  double allocated = 0, idle = 0, other = 0;
};
std::optional<Cpus> ParseCpus(std::string_view text) {
  std::optional<double> parts[4];
  for (auto& part : parts) part = slurm::ParseCount(TakeUntil(text, '/'));
  if (!parts[0] || !parts[1] || !parts[2] || !parts[3]) return std::nullopt;
  return Cpus{*parts[0], *parts[1], *parts[2]};
}

// Of a node in a state that we do not know, only what is in use is known.
void AddGpus(Amounts& to, double all, double used, std::optional<bool> up) {
  to["allocated"] += used;
  if (up) to[*up ? "idle" : "down"] += std::max(0.0, all - used);
}

// The GPUs of a job: what it has, else what it asks for on each node.
double GpusOf(const slurm::Table& table, size_t row, double nodes) {
  if (auto have = slurm::TresOf(table.At(row, "tres_alloc"), "gres/gpu")) return *have;
  std::optional<double> each = slurm::GresCount(table.At(row, "tres_per_node"), "gpu");
  return each.value_or(0) * nodes;
}

template <typename Map>
typename Map::mapped_type* Entry(Map& map, std::string_view name, size_t most) {
  auto at = map.find(name);
  if (at == map.end() && map.size() >= most) return nullptr;
  return at != map.end() ? &at->second : &map[slurm::CleanText(name)];
}

std::string_view Bare(std::string_view partition) {
  if (partition.ends_with('*')) partition.remove_suffix(1);
  return partition;
}

}  // namespace

void SpreadOf::Add(double value) noexcept {
  count_ += 1;
  const double step = value - mean_;
  mean_ += step / count_;
  squares_ += step * (value - mean_);
}

Spread SpreadOf::Make() const noexcept {
  Spread out;
  if (count_ >= 1) out.mean = mean_;
  if (count_ >= 2) out.deviation = std::sqrt(squares_ / (count_ - 1));
  return out;
}

std::string PlainState(std::string_view state) {
  std::string out;
  for (char c : Trim(state)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool word = (c >= 'a' && c <= 'z') || c == '_';
    // "CANCELLED by 1000", "drained*", "mixed+drain", "idle~".
    if (!word) break;
    out += c;
  }
  return out;
}

std::optional<bool> IsUp(std::string_view plain_state) noexcept {
  if (std::ranges::find(kUp, plain_state) != std::end(kUp)) return true;
  if (std::ranges::find(kDown, plain_state) != std::end(kDown)) return false;
  return std::nullopt;
}

NodeNumbers AddUpNodes(const slurm::Table& table, Partitions& partitions) {
  NodeNumbers out;
  std::set<std::string, std::less<>> seen;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string_view said = table.At(row, "state");
    std::string state = PlainState(said);
    const std::optional<bool> up = IsUp(state);
    if (!up) state = "unknown";
    const std::optional<Cpus> cpus = ParseCpus(table.At(row, "cpus"));
    const std::optional<double> gpus = slurm::GresCount(table.At(row, "gres"), "gpu");
    const std::optional<double> used = slurm::GresCount(table.At(row, "gres_used"), "gpu");
    auto add = [&](auto& to) {
      to.nodes[state] += 1;
      if (gpus && used) AddGpus(to.gpus, *gpus, *used, up);
      if (!cpus) return;
      to.cpus["allocated"] += cpus->allocated;
      to.cpus["idle"] += cpus->idle;
      to.cpus["other"] += cpus->other;
    };
    if (auto* partition = Entry(partitions, Bare(table.At(row, "partition")), kMostPartitions))
      add(*partition);
    if (!seen.emplace(table.At(row, "node")).second) continue;
    add(out);
    out.down += up.has_value() && !*up;
    out.silent += said.find('*') != std::string_view::npos;
  }
  return out;
}

QueueNumbers AddUpQueue(const slurm::Table& table, Partitions& partitions) {
  QueueNumbers out;
  std::map<std::string, double, std::less<>> running_of;
  std::set<std::string, std::less<>> queued;
  double running = 0, distributed = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string state = PlainState(table.At(row, "state"));
    if (state.empty()) continue;
    const double nodes = slurm::ParseCount(table.At(row, "nodes")).value_or(0);
    const double cpus = slurm::ParseCount(table.At(row, "cpus")).value_or(0);
    const double gpus = GpusOf(table, row, nodes);
    const std::string_view user = table.At(row, "user"), account = table.At(row, "account");
    const bool runs = state == "running";
    out.jobs[state] += 1;
    out.cpus[state] += cpus;
    out.gpus[state] += gpus;
    out.nodes[state] += nodes;
    running += runs;
    distributed += runs && nodes > 1;
    if (slurm::SaysNothing(user) || user == "nobody") {
      out.without_user += 1;
    } else if (runs || state == "pending") {
      queued.emplace(user);
      if (runs) running_of[std::string(user)] += 1;
    }
    // A waiting job may name several partitions; it counts in the first.
    std::string_view first = table.At(row, "partition");
    if (auto* partition = Entry(partitions, TakeUntil(first, ','), kMostPartitions))
      partition->jobs[state] += 1;
    if (slurm::SaysNothing(account)) continue;
    AccountNumbers* of = Entry(out.accounts, account, kMostAccounts);
    if (!of) continue;
    of->jobs[state] += 1;
    if (!runs) continue;
    of->cpus += cpus;
    of->gpus += gpus;
    of->nodes += nodes;
  }
  SpreadOf per_user;
  for (const auto& [user, count] : running_of) per_user.Add(count);
  out.jobs_per_user = per_user.Make();
  out.active_users = static_cast<double>(running_of.size());
  out.queued_users = static_cast<double>(queued.size());
  if (running > 0) out.distributed = distributed / running;
  return out;
}

EndedNumbers AddUpEnded(const slurm::Table& table, int64_t from, int64_t to) {
  EndedNumbers out;
  SpreadOf runtime, wait, suspended;
  double seconds = 0, cpu_seconds = 0, gpu_seconds = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::optional<int64_t> end = slurm::ParseTime(table.At(row, "End"));
    const std::string state = PlainState(table.At(row, "State"));
    if (!end || *end < from || *end >= to || state.empty()) continue;
    out.jobs[state] += 1;
    const std::optional<int64_t> start = slurm::ParseTime(table.At(row, "Start"));
    const std::optional<int64_t> submit = slurm::ParseTime(table.At(row, "Submit"));
    if (start && submit && *start >= *submit) wait.Add(static_cast<double>(*start - *submit));
    if (auto held = slurm::ParseSpan(table.At(row, "Suspended"))) suspended.Add(*held);
    std::optional<double> ran = slurm::ParseCount(table.At(row, "ElapsedRaw"));
    if (!ran) continue;
    runtime.Add(*ran);
    const std::string_view tres = table.At(row, "AllocTRES");
    seconds += *ran;
    cpu_seconds += *ran * slurm::TresOf(tres, "cpu").value_or(0);
    gpu_seconds += *ran * slurm::TresOf(tres, "gres/gpu").value_or(0);
  }
  out.runtime = runtime.Make();
  out.wait = wait.Make();
  out.suspended = suspended.Make();
  if (seconds > 0) {
    out.mean_cpus = cpu_seconds / seconds;
    out.mean_gpus = gpu_seconds / seconds;
  }
  return out;
}

}  // namespace gpulens
