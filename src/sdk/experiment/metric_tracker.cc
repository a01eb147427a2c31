#include "sdk/experiment/metric_tracker.h"

#include <algorithm>

namespace gpulens::metric_lines {
namespace {

constexpr size_t kMostBars = 16;

}  // namespace

void LineSplitter::Add(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (held_.size() + piece.size() > kMostLineBytes) too_long_ = true;
    if (end == std::string_view::npos) {
      if (!too_long_) held_ += piece;
      return;
    }
    if (!too_long_) {
      if (held_.empty()) {
        if (!piece.empty()) on_line(piece);
      } else {
        held_ += piece;
        on_line(held_);
      }
    }
    held_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(const OnLine& on_line) {
  if (!held_.empty() && !too_long_) on_line(held_);
  held_.clear();
  too_long_ = false;
}

// Nothing: the bar did not move.
std::optional<int64_t> MetricTracker::StepOfBar(const ParsedLine& line) {
  auto bar =
      std::find_if(bars_.begin(), bars_.end(), [&](const Bar& each) { return each.total == line.total; });
  if (bar == bars_.end()) {
    if (bars_.size() == kMostBars) bars_.erase(bars_.begin());
    bar = bars_.insert(bars_.end(), Bar{.total = line.total});
  }
  if (line.at == bar->at) return std::nullopt;
  if (line.at < bar->at) bar->base += line.total != 0 ? line.total : bar->at;
  bar->at = line.at;
  return bar->base + line.at;
}

std::optional<int64_t> MetricTracker::StepOf(const ParsedLine& line) {
  if (line.step) step_ = line.step;
  if (line.epoch) epoch_ = line.epoch;
  if (line.step) return line.step;
  return step_ ? step_ : epoch_;
}

void MetricTracker::Add(std::string_view text, const OnPoint& on_point) {
  const ParsedLine line = ParseLine(text);
  std::optional<int64_t> step;
  if (line.bar && !line.step) {
    step = StepOfBar(line);
    if (!step) return;
  } else {
    step = StepOf(line);
  }
  for (const Metric& metric : line.metrics) on_point(metric.key, metric.value, step);
}

}  // namespace gpulens::metric_lines
