// What a tick knows of a GPU and its host besides a series' own attributes: other people's labels say it
// on every series, ours on info families alone.
//
// Read from gpu.info, gpu.mig.info and gpu.driver.info of all frames, and from the resource. Whoever
// writes those families feeds this; a collector need not know of it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/frame.h"

namespace gpulens {

// Not thread-safe; one per user.
class TickFacts {
 public:
  // Looks through a tick. True when it knows something else than after the last look.
  bool Look(const Snapshot& snapshot);

  // The attribute's value as text: the series' own, else that of its MIG instance, its GPU, its driver,
  // its host. Empty when nobody knows.
  std::string Text(const SeriesInfo& series, std::string_view attribute) const;

 private:
  struct Known {
    std::map<std::string, AttributeSet> gpus;     // by uuid, and by "#" and index
    std::map<std::string, AttributeSet> slices;   // by GPU, "/" and MIG instance, "/" and compute instance
    std::map<std::string, AttributeSet> drivers;  // by vendor
    AttributeSet resource;
    friend bool operator==(const Known&, const Known&) = default;
  };
  static void AddGpu(const SeriesInfo& info, Known& known);

  Known known_;
};

}  // namespace gpulens
