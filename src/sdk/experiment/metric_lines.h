// Metrics in what training programs print: one line in, names and numbers out. Known are
//
//   {'loss': 2.1, 'epoch': 0.5}            dictionaries of Python and JSON, after any text
//   loss: 3.2e-4, lr=1e-5 | Train Loss: nan  pairs, with the words before a known one
//   epoch 3 step 120 loss 0.31               known words with a blank
//   1,234 tokens/s   942 samples/s           rates
//    12%|█▏        | 12/100 [00:01<00:09, 9.5it/s, loss=0.3]   bars of tqdm
//
// A pure function with bounds: no state, no I/O, safe from any thread. What is doubtful is left out: a log
// line with an address or a time is no metric.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::metric_lines {

inline constexpr size_t kMostLineBytes = 16 << 10;  // what is longer is not looked at
inline constexpr size_t kMostMetrics = 64;          // of a line

struct Metric {
  std::string key;  // one that a run takes: experiments::IsKey
  double value = 0;
};

struct ParsedLine {
  std::vector<Metric> metrics;  // each key once
  std::optional<int64_t> step;
  std::optional<int64_t> epoch;  // a whole one; also among the metrics
  // Progress of a bar; `total` 0: unknown.
  bool bar = false;
  int64_t at = 0, total = 0;

  bool empty() const noexcept { return metrics.empty() && !step && !epoch && !bar; }
};

ParsedLine ParseLine(std::string_view text);

}  // namespace gpulens::metric_lines
