// Finds metrics in the output of training programs, line by line. Recognizes
//
//   {'loss': 2.1, 'epoch': 0.5}            dictionaries of Python and JSON, after any text
//   loss: 3.2e-4, lr=1e-5 | Train Loss: nan  pairs, with the words before a known word
//   epoch 3 step 120 loss 0.31               known words followed by a blank
//   1,234 tokens/s   942 samples/s           rates
//    12%|█▏        | 12/100 [00:01<00:09, 9.5it/s, loss=0.3]   bars of tqdm
//
// Ambiguous text is ignored: an address or a time in a log line is not a metric.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::metric_lines {

inline constexpr size_t kMostLineBytes = 16 << 10;  // longer lines are ignored
inline constexpr size_t kMostMetrics = 64;          // of a line

struct ParsedMetric {
  std::string key;  // valid for a run: experiments::IsKey
  double value = 0;
};

struct ParsedLine {
  std::vector<ParsedMetric> metrics;  // with unique keys
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;  // an integer; also among the metrics
  // Progress of a bar; `total` 0: unknown.
  bool bar = false;
  int64_t at = 0, total = 0;

  bool empty() const noexcept { return metrics.empty() && !step && !epoch && !bar; }
};

// Parses a line. Pure; thread-safe.
ParsedLine ParseLine(std::string_view text);

// Splits bytes into lines. A carriage return ends a line, too, since progress bars are redrawn in place.
// Lines above kMostLineBytes are dropped.
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
  // `step` is empty before the first printed step.
  using OnPoint = std::function<void(const std::string& key, double value, std::optional<int64_t> step)>;
  void Add(std::string_view line, const OnPoint& on_point);

 private:
  // A bar of equal length that restarts continues the count.
  struct Bar {
    int64_t total = 0, at = -1, base = 0;
  };
  std::optional<int64_t> StepOf(const ParsedLine& line);
  std::optional<int64_t> StepOfBar(const ParsedLine& line);

  std::optional<int64_t> step_, epoch_;
  std::vector<Bar> bars_;
};

}  // namespace gpulens::metric_lines
