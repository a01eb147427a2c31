// `gpulens collect`: one collector and one sink, without an agent. An analyzer is run over all collectors
// of GPUs that are here, and is shown alone. The name of an LLM engine is one target of the collector
// `engines`, and what the analyzer `inference` derives is shown beside it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpulens {

struct CollectOptions {
  std::string target;                                        // a collector, an analyzer or an engine
  std::string sink;                                          // empty: a table
  std::string config_file;                                   // as for the agent
  std::string interval;                                      // text; empty: the collector's own
  std::string cluster;                                       // an attribute of everything
  std::string endpoint;                                      // the page's URL; empty: the target's own
  std::string endpoint_option = "--endpoint";                // what it was given by, for messages
  std::vector<std::pair<std::string, std::string>> options;  // -o key=value, of the target or the sink
  bool once = false;
  bool json = false;
  bool demo = false;
  bool strict = false;
  bool genai = false;      // the names of the dialect genai in addition to the native ones
  bool gpus_only = false;  // on stdout: one element per GPU and part of it, nothing else
};

// 0 something was read, 1 nothing could be read (or, strictly, something was stale or rejected), 2 wrong
// use. Without `once` it goes on until a signal.
int RunCollect(const CollectOptions& options);

// Everything that `collect` takes by name, in lines of 78 columns.
std::string TargetNames();

// Every collector with what it reads and whether that is here, then every analyzer. 0, or 2 for a bad
// configuration.
int ListCollectors(const std::string& config_file, bool demo);

}  // namespace gpulens
