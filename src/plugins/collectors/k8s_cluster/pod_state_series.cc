#include "plugins/collectors/k8s_cluster/pod_state_series.h"

#include <algorithm>
#include <utility>

#include "catalog/kubernetes.h"

namespace gpulens {
namespace {

constexpr std::pair<std::string_view, std::string_view> kPhaseWords[] = {{"Pending", "pending"},
                                                                         {"Running", "running"},
                                                                         {"Succeeded", "succeeded"},
                                                                         {"Failed", "failed"},
                                                                         {"Unknown", "unknown"}};

EntityRef MakePod(const kubelet::Pod& pod) {
  std::vector<AttributeSet::Attribute> own = {{"k8s.pod.name", std::string_view(pod.name)},
                                              {"k8s.namespace.name", std::string_view(pod.name_space)},
                                              {"k8s.pod.uid", std::string_view(pod.uid)}};
  if (!pod.node.empty()) own.push_back({"k8s.node.name", std::string_view(pod.node)});
  return MakeRef<Entity>("k8s.pod", AttributeSet(std::span<const AttributeSet::Attribute>(own)));
}

}  // namespace

void PodStateSeries::Write(const std::vector<kubelet::Pod>& pods, FrameWriter& out) {
  ++round_;
  for (const kubelet::Pod& pod : pods) WritePod(pod, out);
  for (auto at = pods_.begin(); at != pods_.end();) {
    One& one = at->second;
    std::erase_if(one.containers, [&](const Container& container) {
      bool gone = container.seen != round_;
      if (gone) out.table().Retire(container.entity);
      return gone;
    });
    bool gone = one.seen != round_;
    if (gone) out.table().Retire(one.entity);
    at = gone ? pods_.erase(at) : std::next(at);
  }
}

void PodStateSeries::Retire(One& one, FrameWriter& out) {
  for (const Container& container : one.containers) out.table().Retire(container.entity);
  out.table().Retire(one.entity);
  one = One{.seen = one.seen, .node = {}, .entity = {}, .phases = {}, .delay = {}, .containers = {}};
}

void PodStateSeries::WritePod(const kubelet::Pod& pod, FrameWriter& out) {
  auto at = pods_.find(std::string_view(pod.uid));
  if (at == pods_.end()) at = pods_.emplace(pod.uid, One{}).first;
  One& one = at->second;
  if (std::exchange(one.seen, round_) == round_) return;
  if (one.entity && one.node != pod.node) Retire(one, out);  // it was given a node
  if (!one.entity) {
    one.node = pod.node;
    one.entity = MakePod(pod);
  }
  for (size_t i = 0; i < kPhases; ++i) {
    if (!one.phases[i])
      one.phases[i] = out.table().Declare(kK8sPodStatusPhase, one.entity,
                                          {{"k8s.pod.status.phase", kPhaseWords[i].second}});
    out.Set(one.phases[i], pod.phase == kPhaseWords[i].first ? 1 : 0);
  }
  if (pod.created_unix_ns != 0 && pod.scheduled_unix_ns >= pod.created_unix_ns) {
    if (!one.delay) one.delay = out.table().Declare(kK8sPodSchedulingDelay, one.entity);
    out.Set(one.delay, static_cast<double>(pod.scheduled_unix_ns - pod.created_unix_ns) * 1e-9);
  }
  for (const kubelet::PodContainer& container : pod.containers) WriteContainer(container, one, out);
}

void PodStateSeries::WriteContainer(const kubelet::PodContainer& container, One& one, FrameWriter& out) {
  auto at = std::find_if(one.containers.begin(), one.containers.end(),
                         [&](const Container& known) { return known.name == container.name; });
  if (at == one.containers.end()) {
    at = one.containers.insert(one.containers.end(), Container{});
    at->name = container.name;
    at->entity = MakeRef<Entity>(
        "k8s.container", AttributeSet({{"k8s.container.name", std::string_view(at->name)}}), one.entity);
  }
  if (std::exchange(at->seen, round_) == round_) return;
  if (container.restarts) {
    if (!at->restarts) at->restarts = out.table().Declare(kK8sContainerRestartCount, at->entity);
    out.Set(at->restarts, *container.restarts);
  }
  if (container.ready) {
    if (!at->ready) at->ready = out.table().Declare(kK8sContainerReady, at->entity);
    out.Set(at->ready, *container.ready ? 1 : 0);
  }
}

}  // namespace gpulens
