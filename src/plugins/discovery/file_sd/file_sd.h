// A file of targets in the format of Prometheus's file_sd, JSON or YAML: a list of
// {targets: ["host:port"], labels: {key: text}}. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "plugins/plugin.h"

namespace gpulens::file_sd {

inline constexpr size_t kFileBytes = 1 << 20;
inline constexpr size_t kFileTargets = 1000;
inline constexpr size_t kGroupLabels = 64;
inline constexpr size_t kLabelBytes = 1024;  // a key, a value, or a target

struct Group {
  int line = 0;  // where it begins
  std::vector<std::string> targets;
  std::map<std::string, std::string> labels;
};

// kInvalidArgument with the line and what is wrong, kExhausted above a limit. An empty text has no groups.
Result<std::vector<Group>> ParseGroups(std::string_view text);

// Makes targets of the groups. Labels that begin with "__" set the scheme, path, interval, timeout,
// parameters and kind, or are ignored; `engine` sets the kind where it names an LLM engine and __kind__ is
// absent; `target` is the name; other labels are attributes. `kind`: of groups without a kind of their own.
Result<std::vector<FoundTarget>> ToTargets(const std::vector<Group>& groups, std::string_view kind);

}  // namespace gpulens::file_sd
