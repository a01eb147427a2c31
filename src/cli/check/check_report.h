// Results of checks as Nagios lines and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/check/check_table.h"

namespace gpulens {

struct CheckOutcome {
  const CheckSpec* check = nullptr;
  bool disabled = false;  // switched off: always OK
  CheckResult result;
};

// The worst of them; kUnknown when there are none.
CheckCode WorstOf(const std::vector<CheckOutcome>& outcomes) noexcept;
// One line per check: "CRITICAL - gpu_temperature: GPU 2 at 96 °C, limit 90 | gpu0=64;85;90 gpu2=96;85;90".
std::string CheckText(const std::vector<CheckOutcome>& outcomes, bool simulated);
std::string CheckJson(const std::vector<CheckOutcome>& outcomes, const std::string& source, bool simulated);
// The table of checks, for --list.
std::string CheckList();
// One check: what it looks at, its thresholds, and how to change them.
std::string CheckPage(const CheckSpec& check);

}  // namespace gpulens
