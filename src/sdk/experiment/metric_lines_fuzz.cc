#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "sdk/experiment/metric_lines.h"
#include "store/experiments/run_rows.h"

using namespace gpulens;
using namespace gpulens::metric_lines;

// Output of a program in pieces, whose size is the first byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t piece = static_cast<size_t>(data[0]) + 1;
  text.remove_prefix(1);
  LineSplitter splitter;
  MetricTracker tracker;
  auto on_line = [&](std::string_view line) {
    CHECK(line.size() <= kMostLineBytes && line.find_first_of("\r\n") == std::string_view::npos);
    CHECK(ParseLine(line).metrics.size() <= kMostMetrics);
    tracker.Add(
        line, [](const std::string& key, double, std::optional<int64_t>) { CHECK(experiments::IsKey(key)); });
  };
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    splitter.Add(text.substr(0, piece), on_line);
  splitter.Finish(on_line);
  return 0;
}
