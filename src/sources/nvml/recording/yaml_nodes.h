// A YAML text as nodes with their lines, small and without anything that can refer to itself: anchors,
// aliases and tags are refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::nvml {

struct YamlValue {
  enum class Kind : unsigned char { kScalar, kList, kMap } kind = Kind::kScalar;
  bool quoted = false;  // A scalar in quotes: a text, whatever it looks like.
  int line = 0;         // From 1.
  std::string text;
  // Of a list its items; of a map key, value, key, value, …
  std::vector<YamlValue> items;
};

// kInvalidArgument with the line for what is no YAML, deeper than 8, larger than a million nodes, has more
// than one document, or a key twice.
Result<YamlValue> ParseYamlNodes(const std::string& text);

}  // namespace gpulens::nvml
