// Series of the usage of nodes, pods and containers. Used inside the collector's run.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "sources/kubelet/parse/api_objects.h"

namespace gpulens {

// Pods are identified by uid, containers by pod, name and start time, so that a restart is a new identity.
// Write does not allocate while pods and containers stay.
class UsageSeries {
 public:
  // Retires pods and containers that are no longer in the summary.
  void Write(const kubelet::StatsSummary& summary, FrameWriter& out);
  // Counts kills since the last call. Those before the first call are ignored.
  void WriteKills(const std::vector<kubelet::OomEvents>& events, FrameWriter& out);

 private:
  // Rows of one level, in the order of UsageStats.
  struct Usage {
    static constexpr size_t kRows = 6;
    std::array<Series, kRows> series;
  };
  struct Container {
    std::string name;
    int64_t started_ns = 0;
    uint64_t seen = 0, kills = 0;
    bool kills_known = false;
    EntityRef entity;
    Usage usage;
    Series kills_series;
  };
  struct Pod {
    std::string name, name_space;
    uint64_t seen = 0;
    EntityRef entity;
    Usage usage;
    std::array<Series, 4> network;
    std::vector<Container> containers;
  };
  using Rows = std::array<const MetricDesc*, Usage::kRows>;

  // A node, pod or container. `started_ns`: start of its counters; 0: unknown.
  struct Level {
    const Rows& rows;
    const EntityRef& entity;
    int64_t started_ns;
  };

  static void WriteUsage(const kubelet::UsageStats& stats, const Level& level, Usage& usage,
                         FrameWriter& out);
  void WritePod(const kubelet::PodStats& stats, FrameWriter& out);
  void WriteContainer(const kubelet::ContainerStats& stats, Pod& pod, FrameWriter& out);
  void RetireGone(FrameWriter& out);
  Container* Find(const kubelet::OomEvents& events);

  uint64_t round_ = 0;
  EntityRef node_;
  std::string node_name_;
  Usage node_usage_;
  std::map<std::string, Pod, std::less<>> pods_;  // by uid
  struct Count {
    double count = 0;
    uint64_t seen = 0;
  };
  std::map<std::string, Count, std::less<>> kills_;  // by the kubelet's id of a container's run
  bool kills_begun_ = false;
  uint64_t kills_round_ = 0;
  std::string key_;
};

}  // namespace gpulens
