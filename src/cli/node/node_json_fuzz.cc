// Pages of a node from a program that is not to be trusted.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cli/node/node_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto now = gpulens::ParseNodeNow(text)) {
    for (const gpulens::NodeValue& value : now->values) {
      if (std::isnan(value.value)) std::abort();
    }
  }
  if (auto history = gpulens::ParseNodeHistory(text)) {
    if (history->step_s > 0 && history->series.size() != history->stepped.size()) std::abort();
    for (const gpulens::SeriesWindow& window : history->series) {
      for (size_t i = 1; i < window.samples.size(); ++i) {
        if (window.samples[i].unix_ms < window.samples[i - 1].unix_ms) std::abort();
      }
    }
  }
  static_cast<void>(gpulens::ParseNodeEvents(text));
  return 0;
}
