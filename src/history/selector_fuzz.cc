// Any bytes as a selector: no crash, and one that is accepted is the same when it is written out and parsed
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "history/series_window.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto selector = gpulens::ParseSelector(text);
  if (!selector) return 0;
  std::string again = selector->name + "{";
  for (const auto& [key, value] : selector->attributes) {
    again += key + "=\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') again += '\\';
      again += c;
    }
    again += "\",";
  }
  again += "}";
  const auto parsed = gpulens::ParseSelector(again);
  if (!parsed || parsed->name != selector->name || parsed->attributes != selector->attributes) std::abort();
  static_cast<void>(selector->Matches(selector->name, gpulens::AttributeSet({{"gpu.index", int64_t{0}}})));
  return 0;
}
