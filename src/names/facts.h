// What a tick knows of a GPU and its host besides a series' own attributes: other people's labels say it
// on every series, ours on info families alone.
//
// Read from gpu.info, gpu.mig.info, gpu.driver.info and gpulens.scrape.info of all frames, and from the
// resource. Whoever writes those families feeds this; a collector need not know of it. Besides: whether a
// tick has a series that says the same as another one, and better.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// What says the same as some series, and better. Static storage.
struct Rival {
  std::span<const MetricDesc* const> metrics;
  // It has this attribute. A series of these metrics that has it, too, has no rival.
  std::string_view key = {}, value = {};
  std::span<const std::string_view> same = {};  // of both; neither having one is equal, too
};

// Not thread-safe; one per user.
class TickFacts {
 public:
  // Before the first look: rivals that HasRival will be asked of.
  void Watch(std::span<const Rival> rivals);
  // Looks through a tick. True when it knows something else than after the last look.
  bool Look(const Snapshot& snapshot);

  // The attribute's value as text: the series' own, else that of its MIG instance, its GPU, its driver,
  // its host; server.address and server.port are those of the page that its target is read from. Empty when
  // nobody knows.
  std::string Text(const SeriesInfo& series, std::string_view attribute) const;
  // Whether the tick has, as far as its layouts say, such a rival of the series.
  bool HasRival(const SeriesInfo& series, const Rival& rival) const;

 private:
  struct Known {
    std::map<std::string, AttributeSet> gpus;     // by uuid, and by "#" and index
    std::map<std::string, AttributeSet> slices;   // by GPU, "/" and MIG instance, "/" and compute instance
    std::map<std::string, AttributeSet> drivers;  // by vendor
    std::map<std::string, AttributeSet> servers;  // by target: server.address, server.port
    AttributeSet resource;
    std::set<std::string> rivals;  // by KeyOf
    friend bool operator==(const Known&, const Known&) = default;
  };
  static void AddGpu(const SeriesInfo& info, Known& known);
  // What a rival is found by: which one it is, and what it has in common with its series.
  static std::string KeyOf(const Rival& rival, const AttributeSet& attributes);
  void AddRivals(const SeriesInfo& info, Known& known) const;

  std::vector<const Rival*> watched_;
  Known known_;
};

}  // namespace gpulens
