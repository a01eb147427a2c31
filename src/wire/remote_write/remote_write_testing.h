// For tests: the contents of a remote-write request as text. Pure.
#pragma once

#include <string>

#include "wire/remote_write/remote_write_reader_testing.h"

namespace gpulens::remote_write_testing {

// A line for each series, times in seconds after `zero`:
//   name{a="b"} 1.5 @2        name{} ended @3        name{} le0.1:3 le0.5:2 above:4 sum=2.5 @1
// and, below its series,
//     exemplar 0.3 trace_id=ab @1
inline std::string TextOf(const Request& request, int64_t zero_unix_ns = 0) {
  auto number = [](double value) {
    std::string text;
    AppendValue(text, value);
    return text;
  };
  const int64_t zero = remote_write::MsOf(zero_unix_ns);
  auto time = [&](int64_t ms, int64_t start) {
    auto seconds = [&](int64_t one) { return number(static_cast<double>(one - zero) / 1000); };
    return " @" + (start == 0 ? "" : seconds(start) + "..") + seconds(ms) + "\n";
  };
  std::string out;
  for (const Series& series : request.series) {
    out += series.Name();
    for (const Sample& sample : series.samples) {
      out += remote_write::IsStaleMarker(sample.value) ? " ended" : " " + number(sample.value);
      out += time(sample.ms, sample.start_ms);
    }
    for (const Histogram& one : series.histograms) {
      for (size_t i = 0; i < one.buckets.size(); ++i)
        out += (i < one.bounds.size() ? " le" + number(one.bounds[i]) : " above") + ":" +
               std::to_string(one.buckets[i]);
      out += " sum=" + number(one.sum) + time(one.ms, one.start_ms);
    }
    for (const Exemplar& one : series.exemplars) {
      out += "  exemplar " + number(one.value);
      for (const auto& [key, value] : one.labels) out += " " + key + "=" + value;
      out += time(one.ms, 0);
    }
  }
  for (const auto& [name, about] : request.metadata)
    out +=
        "# " + name + " type=" + std::to_string(about.type) + " unit=" + about.unit + " " + about.help + "\n";
  return out;
}

}  // namespace gpulens::remote_write_testing
