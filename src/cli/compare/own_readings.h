// What gpulens reads of a machine's GPUs, by the same subjects as a vendor's tool.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/compare/tools/tool_output.h"
#include "core/frame.h"

namespace gpulens::compare {

struct OwnValue {
  std::string metric;
  std::vector<std::pair<std::string, std::string>> attributes;  // of the series and of what it is measured on
  double value = 0;
  bool present = false;
  std::string absence;  // of one that is absent: "not_read", "out_of_range", …
  Kind kind = Kind::kGauge;

  // Whether it has all of "key=value,key=value".
  bool Has(std::string_view wanted) const noexcept;
  // The text of an attribute; empty when it has none.
  std::string_view Text(std::string_view key) const noexcept;
};

using OwnReadings = std::map<std::string, std::vector<OwnValue>, std::less<>>;

OwnReadings ReadOwn(const Snapshot& snapshot, KeyBy key_by);

}  // namespace gpulens::compare
