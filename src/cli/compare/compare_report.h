// A comparison as a table of 80 columns, and as JSON. Pure.
#pragma once

#include <string>

#include "cli/compare/comparison.h"

namespace gpulens::compare {

struct ReportHead {
  std::string tool;   // "nvidia-smi"
  std::string where;  // the program's path, or the files
  size_t looks = 1;   // how often the tool was run
  bool simulated = false;
};

std::string TextReport(const ReportHead& head, const Comparison& comparison);
std::string JsonReport(const ReportHead& head, const Comparison& comparison);

}  // namespace gpulens::compare
