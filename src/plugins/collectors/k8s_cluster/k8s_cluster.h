// Series of the states of pods and containers. Used inside the collector's run.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "sources/kubelet/parse/api_objects.h"

namespace gpulens {

// Pods are identified by uid. Write does not allocate while the list stays.
class PodStateSeries {
 public:
  // Retires pods that are no longer listed.
  void Write(const std::vector<kubelet::Pod>& pods, FrameWriter& out);

 private:
  static constexpr size_t kPhases = 5;
  struct Container {
    std::string name;
    uint64_t seen = 0;
    EntityRef entity;
    Series restarts, ready;
  };
  struct One {
    uint64_t seen = 0;
    std::string node;
    EntityRef entity;
    std::array<Series, kPhases> phases;
    Series delay;
    std::vector<Container> containers;
  };

  void Retire(One& one, FrameWriter& out);
  void WritePod(const kubelet::Pod& pod, FrameWriter& out);
  void WriteContainer(const kubelet::PodContainer& container, One& one, FrameWriter& out);

  uint64_t round_ = 0;
  std::map<std::string, One, std::less<>> pods_;  // by uid
};

}  // namespace gpulens
