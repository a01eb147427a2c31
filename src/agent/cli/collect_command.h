// `gpulens collect`: one collector and one sink, without an agent.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpulens {

struct CollectOptions {
  std::string collector;
  std::string sink;                                          // empty: a table
  std::string config_file;                                   // as for the agent
  std::string interval;                                      // text; empty: the collector's own
  std::vector<std::pair<std::string, std::string>> options;  // -o key=value, of the collector or the sink
  bool once = false;
  bool json = false;
  bool demo = false;
  bool strict = false;
};

// 0 something was read, 1 nothing could be read (or, strictly, something was stale or rejected), 2 wrong
// use. Without `once` it goes on until a signal.
int RunCollect(const CollectOptions& options);

}  // namespace gpulens
