// The series of how pods and containers fare. Used inside the collector's run.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "sources/kubelet/parse/api_objects.h"

namespace gpulens {

// One list after the other; a pod is known by its uid. A steady Write does not allocate.
class PodStateSeries {
 public:
  // What is no more in the list is retired.
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
