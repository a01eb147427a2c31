// For tests of sinks: a config with the options of names as they are by default, and every metric.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "export/sink_names.h"

namespace gpulens::testing {

inline void SetNames(Config& config, std::vector<std::string> names = {"native"}) {
  config.Set("names", std::move(names), {});
  config.Set(kMetricsKey, std::string("all"), {});
  config.Set("include", std::vector<std::string>(), {});
  config.Set("exclude", std::vector<std::string>(), {});
  config.Set("rename", std::map<std::string, std::string>(), {});
  config.Set(kAttributesKey, std::map<std::string, std::string>(), {});
}

inline SinkNames NamesOf(std::vector<std::string> names = {"native"}) {
  Config config;
  SetNames(config, std::move(names));
  return SinkNames(config);
}

}  // namespace gpulens::testing
