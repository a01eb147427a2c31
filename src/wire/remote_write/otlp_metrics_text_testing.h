// For tests: an ExportMetricsServiceRequest as text, read by protozero; what is not expected is an exception.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpulens::remote_write_in_testing {

inline std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

// Resources, scopes, metrics and points, a line each:
//   [service.name=j, service.instance.id=i]
//    (scope version)
//     name "help" unit sum cumulative monotonic prometheus.type=counter
//      {a=b} 1.5 @1000..2000 exemplar 1 @2000 {x=y}
class OtlpMetricsText {
 public:
  static std::string Of(std::string_view request) {
    OtlpMetricsText text;
    protozero::pbf_reader all(request.data(), request.size());
    while (all.next()) {
      Expect(all.tag() == 1, "resource_metrics");
      text.Resource(all.get_message());
    }
    return text.out_.str();
  }

 private:
  using Reader = protozero::pbf_reader;
  static void Expect(bool right, const char* what) {
    if (!right) throw std::runtime_error(what);
  }
  static std::string Pair(Reader reader) {
    Expect(reader.next(1), "a key");
    std::string out = reader.get_string() + "=";
    Expect(reader.next(2), "a value");
    Reader value = reader.get_message();
    Expect(value.next(1), "a text");
    return out + value.get_string();
  }
  static void Join(std::string& list, const std::string& pair) { list += (list.empty() ? "" : ", ") + pair; }

  void Resource(Reader reader) {
    Expect(reader.next(1), "a resource");
    std::string pairs;
    for (Reader resource = reader.get_message(); resource.next(1);) Join(pairs, Pair(resource.get_message()));
    out_ << "[" << pairs << "]\n";
    while (reader.next(2)) Scope(reader.get_message());
  }
  void Scope(Reader reader) {
    Expect(reader.next(1), "a scope");
    Reader scope = reader.get_message();
    out_ << " (";
    while (scope.next()) out_ << (scope.tag() == 2 ? " " : "") << scope.get_string();
    out_ << ")\n";
    while (reader.next(2)) Metric(reader.get_message());
  }
  void Metric(Reader reader) {
    std::string head, about, points;
    while (reader.next()) {
      switch (reader.tag()) {
        case 1: head += "  " + reader.get_string(); break;
        case 2: head += " \"" + reader.get_string() + "\""; break;
        case 3: head += " " + reader.get_string(); break;
        case 12: {
          // What only RemoteWriteOut reads is the matter of its own tests.
          const std::string pair = Pair(reader.get_message());
          if (!pair.starts_with("gpulens.")) about += " " + pair;
          break;
        }
        default: {
          kind_ = reader.tag();
          constexpr const char* kNames[] = {"gauge", "", "sum", "", "histogram", "exponential"};
          head += std::string(" ") + kNames[kind_ - 5];
          Reader data = reader.get_message();
          std::ostringstream all;
          while (data.next()) {
            if (data.tag() == 1) all << "   " << Point(data.get_message()) << "\n";
            else if (data.tag() == 2) head += data.get_enum() == 2 ? " cumulative" : " delta";
            else head += data.get_bool() ? " monotonic" : "";
          }
          points = all.str();
        }
      }
    }
    out_ << head << about << "\n" << points;
  }
  std::string Buckets(Reader reader) {
    std::ostringstream out;
    while (reader.next()) {
      if (reader.tag() == 1) {
        out << reader.get_sint32() << ":";
        continue;
      }
      for (uint64_t count : reader.get_packed_uint64()) out << " " << count;
    }
    return "(" + out.str() + ")";
  }
  std::string Exemplar(Reader reader) {
    std::string pairs, ids;
    std::ostringstream out;
    uint64_t ms = 0;
    while (reader.next()) {
      switch (reader.tag()) {
        case 2: ms = reader.get_fixed64() / 1'000'000; break;
        case 3: out << " exemplar " << reader.get_double(); break;
        case 4: ids += " span " + HexOf(reader.get_string()); break;
        case 5: ids += " trace " + HexOf(reader.get_string()); break;
        case 7: Join(pairs, Pair(reader.get_message())); break;
        default: Expect(false, "a field of an exemplar");
      }
    }
    out << " @" << ms << ids;
    return out.str() + (pairs.empty() ? "" : " {" + pairs + "}");
  }
  std::string Point(Reader reader) {
    const uint32_t attributes = kind_ == 9 ? 9 : kind_ == 10 ? 1 : 7;
    const uint32_t exemplars = kind_ == 9 ? 8 : kind_ == 10 ? 11 : 5;
    const uint32_t flags = kind_ == 9 || kind_ == 10 ? 10 : 8;
    std::string pairs, behind, start;
    std::ostringstream out;
    uint64_t ms = 0;
    while (reader.next()) {
      const uint32_t tag = reader.tag();
      if (tag == attributes) Join(pairs, Pair(reader.get_message()));
      else if (tag == exemplars) behind += Exemplar(reader.get_message());
      else if (tag == flags) behind += reader.get_uint32() == 1 ? " ended" : " flags?";
      else if (tag == 2) start = std::to_string(reader.get_fixed64() / 1'000'000) + "..";
      else if (tag == 3) ms = reader.get_fixed64() / 1'000'000;
      else Value(reader, out);
    }
    return "{" + pairs + "}" + out.str() + " @" + start + std::to_string(ms) + behind;
  }
  void Value(Reader& reader, std::ostringstream& out) {
    const uint32_t tag = reader.tag();
    if (kind_ == 5 || kind_ == 7) {
      Expect(tag == 4, "a double");
      out << " " << reader.get_double();
    } else if (tag == 4) {
      out << " count " << reader.get_fixed64();
    } else if (tag == 5) {
      out << " sum " << reader.get_double();
    } else if (kind_ == 9) {
      Expect(tag == 6 || tag == 7, "buckets or bounds");
      out << (tag == 6 ? " counts" : " bounds");
      if (tag == 6) {
        for (uint64_t count : reader.get_packed_fixed64()) out << " " << count;
      } else {
        for (double bound : reader.get_packed_double()) out << " " << bound;
      }
    } else {
      switch (tag) {
        case 6: out << " scale " << reader.get_sint32(); break;
        case 7: out << " zero " << reader.get_fixed64(); break;
        case 8: out << " above " << Buckets(reader.get_message()); break;
        case 9: out << " below " << Buckets(reader.get_message()); break;
        case 14: out << " threshold " << reader.get_double(); break;
        default: Expect(false, "a field of a point");
      }
    }
  }

  uint32_t kind_ = 0;
  std::ostringstream out_;
};

}  // namespace gpulens::remote_write_in_testing
