#include "plugins/collectors/kubelet_stats/usage_series.h"

#include <algorithm>
#include <utility>

#include "catalog/kubernetes.h"

namespace gpulens {
namespace {

using kubelet::UsageStats;

constexpr std::array<const MetricDesc*, 6> kNodeRows = {&kK8sNodeCpuTime,     &kK8sNodeCpuUsage,
                                                        &kK8sNodeMemoryUsage, &kK8sNodeMemoryWorkingSet,
                                                        &kK8sNodeMemoryRss,   &kK8sNodeMemoryAvailable};
constexpr std::array<const MetricDesc*, 6> kPodRows = {&kK8sPodCpuTime,     &kK8sPodCpuUsage,
                                                       &kK8sPodMemoryUsage, &kK8sPodMemoryWorkingSet,
                                                       &kK8sPodMemoryRss,   &kK8sPodMemoryAvailable};
constexpr std::array<const MetricDesc*, 6> kContainerRows = {
    &kContainerCpuTime,          &kContainerCpuUsage,  &kContainerMemoryUsage,
    &kContainerMemoryWorkingSet, &kContainerMemoryRss, &kContainerMemoryAvailable};

}  // namespace

void UsageSeries::WriteUsage(const UsageStats& stats, const Level& level, Usage& usage, FrameWriter& out) {
  const Instant now = out.begun_at();
  // Numbers are as old as the kubelet says: it reads cgroups every ten seconds or so.
  auto read_at = [&](int64_t unix_ns) {
    int64_t age = unix_ns == 0 ? 0 : std::max<int64_t>(0, now.unix_ns - unix_ns);
    out.ReadAt(now + Duration(-age));
  };
  auto set = [&](size_t row, bool known, double value) {
    if (!known) return;
    Series& series = usage.series[row];
    SeriesTable::Form form;
    if (level.rows[row]->kind == Kind::kCounter) form.start_unix_ns = level.started_ns;
    if (!series) series = out.table().Declare(*level.rows[row], level.entity, {}, form);
    out.Set(series, value);
  };
  constexpr double kNano = 1e-9;
  read_at(stats.cpu_time_ns);
  set(0, stats.cpu_nanoseconds.has_value(), static_cast<double>(stats.cpu_nanoseconds.value_or(0)) * kNano);
  set(1, stats.cpu_nanocores.has_value(), static_cast<double>(stats.cpu_nanocores.value_or(0)) * kNano);
  read_at(stats.memory_time_ns);
  size_t row = 2;
  for (const auto& bytes :
       {stats.memory_bytes, stats.working_set_bytes, stats.rss_bytes, stats.available_bytes}) {
    set(row++, bytes.has_value(), static_cast<double>(bytes.value_or(0)));
  }
  out.ReadAt(now);
}

void UsageSeries::Write(const kubelet::StatsSummary& summary, FrameWriter& out) {
  ++round_;
  if (!node_ || node_name_ != summary.node) {
    if (node_) out.table().Retire(node_);
    node_name_ = summary.node;
    node_ = MakeRef<Entity>("k8s.node", AttributeSet({{"k8s.node.name", std::string_view(node_name_)}}));
    node_usage_ = {};
  }
  WriteUsage(summary.node_usage, {kNodeRows, node_, summary.node_started_ns}, node_usage_, out);
  for (const kubelet::PodStats& pod : summary.pods) WritePod(pod, out);
  RetireGone(out);
}

void UsageSeries::WritePod(const kubelet::PodStats& stats, FrameWriter& out) {
  auto at = pods_.find(std::string_view(stats.uid));
  if (at == pods_.end()) at = pods_.emplace(stats.uid, Pod{}).first;
  Pod& pod = at->second;
  if (std::exchange(pod.seen, round_) == round_) return;  // twice in one summary
  if (!pod.entity) {
    pod.name = stats.name;
    pod.name_space = stats.name_space;
    pod.entity =
        MakeRef<Entity>("k8s.pod", AttributeSet({{"k8s.pod.name", std::string_view(pod.name)},
                                                 {"k8s.namespace.name", std::string_view(pod.name_space)},
                                                 {"k8s.pod.uid", std::string_view(at->first)},
                                                 {"k8s.node.name", std::string_view(node_name_)}}));
  }
  WriteUsage(stats.usage, {kPodRows, pod.entity, stats.started_ns}, pod.usage, out);
  struct Network {
    const MetricDesc* row;
    std::string_view direction;
    const std::optional<uint64_t>& count;
  };
  const Network network[] = {{&kK8sPodNetworkIo, "receive", stats.received_bytes},
                             {&kK8sPodNetworkIo, "transmit", stats.sent_bytes},
                             {&kK8sPodNetworkErrors, "receive", stats.receive_errors},
                             {&kK8sPodNetworkErrors, "transmit", stats.send_errors}};
  for (size_t i = 0; i < std::size(network); ++i) {
    if (!network[i].count) continue;
    if (!pod.network[i]) {
      pod.network[i] =
          out.table().Declare(*network[i].row, pod.entity, {{"network.io.direction", network[i].direction}},
                              {.shape = {}, .start_unix_ns = stats.started_ns});
    }
    out.Set(pod.network[i], *network[i].count);
  }
  for (const kubelet::ContainerStats& container : stats.containers) WriteContainer(container, pod, out);
}

void UsageSeries::WriteContainer(const kubelet::ContainerStats& stats, Pod& pod, FrameWriter& out) {
  auto at = std::find_if(pod.containers.begin(), pod.containers.end(),
                         [&](const Container& one) { return one.name == stats.name; });
  if (at == pod.containers.end()) {
    at = pod.containers.insert(pod.containers.end(), Container{});
    at->name = stats.name;
    at->entity = MakeRef<Entity>(
        "k8s.container", AttributeSet({{"k8s.container.name", std::string_view(at->name)}}), pod.entity);
  }
  if (std::exchange(at->seen, round_) == round_) return;
  if (std::exchange(at->started_ns, stats.started_ns) != stats.started_ns) {
    // Another life of it: its counters begin anew. The kills go on.
    for (Series& series : at->usage.series) out.table().Retire(std::exchange(series, Series{}));
  }
  WriteUsage(stats.usage, {kContainerRows, at->entity, stats.started_ns}, at->usage, out);
}

void UsageSeries::RetireGone(FrameWriter& out) {
  for (auto at = pods_.begin(); at != pods_.end();) {
    Pod& pod = at->second;
    bool gone = pod.seen != round_;
    std::erase_if(pod.containers, [&](const Container& one) {
      bool ended = gone || one.seen != round_;
      if (ended) out.table().Retire(one.entity);
      return ended;
    });
    if (gone) out.table().Retire(pod.entity);
    at = gone ? pods_.erase(at) : std::next(at);
  }
}

UsageSeries::Container* UsageSeries::Find(const kubelet::OomEvents& events) {
  for (auto& [uid, pod] : pods_) {
    if (pod.name != events.pod || pod.name_space != events.name_space) continue;
    for (Container& one : pod.containers) {
      if (one.name == events.container) return &one;
    }
  }
  return nullptr;
}

// A container that starts again has another cgroup, whose count begins at 0: what each has grown by adds up.
void UsageSeries::WriteKills(const std::vector<kubelet::OomEvents>& events, FrameWriter& out) {
  ++kills_round_;
  for (const kubelet::OomEvents& one : events) {
    key_.clear();
    for (const std::string* part : {&one.name_space, &one.pod, &one.container, &one.cgroup}) {
      key_ += *part;
      key_ += '/';
    }
    auto at = kills_.find(std::string_view(key_));
    const bool added = at == kills_.end();
    if (added) at = kills_.emplace(key_, Count{}).first;
    double before = added && !kills_begun_ ? one.count : at->second.count;
    at->second = {one.count, kills_round_};
    Container* container = Find(one);
    if (!container) continue;
    container->kills_known = true;
    if (one.count > before) container->kills += static_cast<uint64_t>(one.count - before);
  }
  kills_begun_ = true;
  std::erase_if(kills_, [&](const auto& entry) { return entry.second.seen != kills_round_; });
  for (auto& [uid, pod] : pods_) {
    for (Container& one : pod.containers) {
      if (!one.kills_known) continue;
      if (!one.kills_series) one.kills_series = out.table().Declare(kK8sContainerOomKills, one.entity);
      out.Set(one.kills_series, one.kills);
    }
  }
}

}  // namespace gpulens
