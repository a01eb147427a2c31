// Splits lines of JSON into arrays of bounded length. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

struct RecordArrayLimits {
  size_t records = 10'000;
  size_t bytes = 4u << 20;  // a single record may have more
};

// Removes complete lines, each with its newline, from the front of `lines`, and writes them to `out` as the
// elements of one array. Returns their number; 0 when none is left.
inline uint32_t TakeRecordArray(std::string_view& lines, const RecordArrayLimits& limits, std::string& out) {
  out = "[";
  uint32_t records = 0;
  while (records < limits.records) {
    const size_t newline = lines.find('\n');
    if (newline == lines.npos) break;
    if (records != 0 && out.size() + newline > limits.bytes) break;
    out += records == 0 ? "\n" : ",\n";
    out += lines.substr(0, newline);
    lines.remove_prefix(newline + 1);
    ++records;
  }
  out += "\n]\n";
  return records;
}

}  // namespace gpulens
