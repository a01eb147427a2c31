#include "plugins/sinks/webhook/record_arrays.h"

namespace gpulens {

uint32_t TakeRecordArray(std::string_view& lines, const RecordArrayLimits& limits, std::string& out) {
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
