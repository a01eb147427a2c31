// For tests: numbers and native histograms of remote write as text, read strictly by protozero.
#pragma once

#include <bit>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens::remote_write_out_testing {

inline void Query(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

// By its bits where it is no number.
inline std::string Number(double value) {
  if (remote_write::IsStaleMarker(value)) return "stale";
  std::ostringstream out;
  out.precision(17);
  if (value != value) out << "nan:" << std::hex << std::bit_cast<uint64_t>(value);
  else out << value;
  return out.str();
}

// All fields of a histogram by number; throws when it is before `last`, which it replaces; zeros that
// protobuf may leave out are left out.
inline std::string HistogramText(protozero::pbf_reader message, bool first, int64_t& last) {
  std::map<uint32_t, std::string> fields;
  while (message.next()) {
    const uint32_t tag = message.tag();
    std::string text;
    switch (tag) {
      case 1:
      case 6: text = std::to_string(message.get_uint64()); break;
      case 2:
      case 3:
      case 5:
      case 7: text = Number(message.get_double()); break;
      case 4: text = std::to_string(message.get_sint32()); break;
      case 8:
      case 11: {
        protozero::pbf_reader span = message.get_message();
        int32_t offset = 0;
        uint32_t length = 0;
        while (span.next())
          if (span.tag() == 1) offset = span.get_sint32();
          else length = span.get_uint32();
        text = fields[tag] + "(" + std::to_string(offset) + "," + std::to_string(length) + ")";
        break;
      }
      case 9:
      case 12:
        for (int64_t delta : message.get_packed_sint64()) text += std::to_string(delta) + ",";
        break;
      case 10:
      case 13:
      case 16:
        for (double number : message.get_packed_double()) text += Number(number) + ",";
        break;
      case 14: text = std::to_string(message.get_enum()); break;
      case 15:
      case 17: {
        const int64_t ms = message.get_int64();
        if (tag == 15) Query(ms >= last, "histograms out of order"), last = ms;
        Query(!first || tag == 15, "1.0 has no start");
        text = std::to_string(ms);
        break;
      }
      default: Query(false, "an unknown field of a histogram");
    }
    fields[tag] = text;
  }
  std::string out = " histogram";
  for (const auto& [tag, text] : fields)
    if (text != "0" && !text.empty()) out += " " + std::to_string(tag) + ":" + text;
  return out;
}

}  // namespace gpulens::remote_write_out_testing
