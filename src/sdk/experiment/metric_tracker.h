// Turns printed text, in pieces, into points with steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/experiment/metric_lines.h"

namespace gpulens::metric_lines {

// Bytes to lines. A return ends a line as a newline does: bars are drawn over and over. Of a line that is too
// long nothing is given.
class LineSplitter {
 public:
  using OnLine = std::function<void(std::string_view line)>;
  void Add(std::string_view bytes, const OnLine& on_line);
  // Hands over an unterminated last line.
  void Finish(const OnLine& on_line);

 private:
  std::string held_;
  bool too_long_ = false;
};

// Turns lines into points; a line without a step has the last step of either stream. Not thread-safe.
class MetricTracker {
 public:
  // No step: none was printed yet.
  using OnPoint = std::function<void(const std::string& key, double value, std::optional<int64_t> step)>;
  void Add(std::string_view line, const OnPoint& on_point);

 private:
  // Bars of one length that begin again count on.
  struct Bar {
    int64_t total = 0, at = -1, base = 0;
  };
  std::optional<int64_t> StepOf(const ParsedLine& line);
  std::optional<int64_t> StepOfBar(const ParsedLine& line);

  std::optional<int64_t> step_, epoch_;
  std::vector<Bar> bars_;
};

}  // namespace gpulens::metric_lines
