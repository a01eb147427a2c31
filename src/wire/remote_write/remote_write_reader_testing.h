// For tests: requests of remote write, read by protozero into plain structs and strictly: what a receiver
// would refuse, or a field that is not expected, is an exception. Not thread-safe.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "core/attribute_set.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_structs_testing.h"

namespace gpulens::remote_write_testing {

inline void Query(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

class Reader {
 public:
  static Request Read(std::string_view bytes, RemoteWriteVersion version) {
    Reader reader;
    protozero::pbf_reader all(bytes.data(), bytes.size());
    const bool first = version == RemoteWriteVersion::k1;
    bool series_seen = false;
    while (all.next()) {
      const uint32_t tag = all.tag();
      if (first && tag == 1) {
        reader.Series1(all.get_message());
      } else if (first && tag == 3) {
        reader.Metadata1(all.get_message());
      } else if (!first && tag == 4) {
        Query(!series_seen, "a symbol behind series");
        reader.out_.symbols.push_back(all.get_string());
      } else if (!first && tag == 5) {
        series_seen = true;
        reader.Series2(all.get_message());
      } else {
        Query(false, "an unknown field of the request");
      }
    }
    if (!first) reader.CheckSymbols();
    return std::move(reader.out_);
  }

 private:
  void Label(std::map<std::string, std::string>& labels, const std::string& name, const std::string& value) {
    Query(IsUtf8(name) && IsUtf8(value) && !name.empty() && !value.empty(), "a label that is none");
    Query(labels.empty() || labels.rbegin()->first < name, "labels out of order, or twice");
    labels.emplace(name, value);
  }
  void Label1(std::map<std::string, std::string>& labels, protozero::pbf_reader label) {
    const std::string name = label.next(1) ? label.get_string() : "";
    Label(labels, name, label.next(2) ? label.get_string() : "");
  }
  void Labels2(std::map<std::string, std::string>& labels, protozero::pbf_reader& message) {
    auto refs = message.get_packed_uint32();
    for (auto at = refs.begin(); at != refs.end(); ++at) {
      const std::string& name = Symbol(*at);
      Query(++at != refs.end(), "a label without a value");
      Label(labels, name, Symbol(*at));
    }
  }
  void ReadExemplar(Series& series, protozero::pbf_reader message, bool first) {
    Exemplar one;
    while (message.next()) {
      switch (message.tag()) {
        case 1:
          if (first) Label1(one.labels, message.get_message());
          else Labels2(one.labels, message);
          break;
        case 2: one.value = message.get_double(); break;
        case 3: one.ms = message.get_int64(); break;
        default: Query(false, "an unknown field of an exemplar");
      }
    }
    Query(one.ms > 0, "an exemplar without a time");
    Query(series.exemplars.empty() || series.exemplars.back().ms < one.ms, "exemplars out of order");
    series.exemplars.push_back(std::move(one));
  }
  void Add(Series series) {
    Query(series.labels.contains("__name__"), "a series without a name");
    Query(series.samples.size() + series.histograms.size() == 1, "not one sample");
    out_.series.push_back(std::move(series));
  }
  void Series1(protozero::pbf_reader message) {
    Series series;
    while (message.next()) {
      if (message.tag() == 2) {
        series.samples.push_back(ReadSample(message.get_message()));
        continue;
      }
      if (message.tag() == 3) {
        ReadExemplar(series, message.get_message(), true);
        continue;
      }
      Query(message.tag() == 1, "an unknown field of a series");
      Label1(series.labels, message.get_message());
    }
    Query(series.samples.empty() || series.samples[0].start_ms == 0, "1.0 has no start");
    Add(std::move(series));
  }
  void Metadata1(protozero::pbf_reader message) {
    std::string name;
    Metadata about;
    while (message.next()) {
      switch (message.tag()) {
        case 1: about.type = static_cast<uint32_t>(message.get_enum()); break;
        case 2: name = message.get_string(); break;
        case 4: about.help = message.get_string(); break;
        case 5: about.unit = message.get_string(); break;
        default: Query(false, "an unknown field of metadata");
      }
    }
    Query(out_.metadata.emplace(name, about).second, "metadata twice");
  }
  const std::string& Symbol(uint32_t number) {
    used_.insert(number);
    Query(number < out_.symbols.size(), "no such symbol");
    return out_.symbols[number];
  }
  void Series2(protozero::pbf_reader message) {
    Series series;
    while (message.next()) {
      switch (message.tag()) {
        case 1: Labels2(series.labels, message); break;
        case 4: ReadExemplar(series, message.get_message(), false); break;
        case 2: series.samples.push_back(ReadSample(message.get_message())); break;
        case 3: series.histograms.push_back(ReadHistogram(message.get_message())); break;
        case 5: {
          protozero::pbf_reader about = message.get_message();
          while (about.next()) {
            if (about.tag() == 1) series.metadata.type = static_cast<uint32_t>(about.get_enum());
            else if (about.tag() == 3) series.metadata.help = Symbol(about.get_uint32());
            else if (about.tag() == 4) series.metadata.unit = Symbol(about.get_uint32());
            else Query(false, "an unknown field of metadata");
          }
          break;
        }
        default: Query(false, "an unknown field of a series");
      }
    }
    Add(std::move(series));
  }
  static Sample ReadSample(protozero::pbf_reader message) {
    Sample sample;
    while (message.next()) {
      switch (message.tag()) {
        case 1: sample.value = message.get_double(); break;
        case 2: sample.ms = message.get_int64(); break;
        case 3: sample.start_ms = message.get_int64(); break;
        default: Query(false, "an unknown field of a sample");
      }
    }
    return sample;
  }
  static Histogram ReadHistogram(protozero::pbf_reader message) {
    Histogram out;
    std::vector<int64_t> deltas;
    int32_t schema = 0;
    uint32_t length = 0;
    while (message.next()) {
      switch (message.tag()) {
        case 1: out.count = message.get_uint64(); break;
        case 3: out.sum = message.get_double(); break;
        case 4: schema = message.get_sint32(); break;
        case 11: {
          protozero::pbf_reader span = message.get_message();
          while (span.next()) {
            Query(span.tag() == 2 && length == 0, "one span from the first bucket on");
            length = span.get_uint32();
          }
          break;
        }
        case 12:
          for (int64_t delta : message.get_packed_sint64()) deltas.push_back(delta);
          break;
        case 15: out.ms = message.get_int64(); break;
        case 16:
          for (double bound : message.get_packed_double()) out.bounds.push_back(bound);
          break;
        case 17: out.start_ms = message.get_int64(); break;
        default: Query(false, "an unknown field of a histogram");
      }
    }
    Query(schema == -53 && deltas.size() == length && length == out.bounds.size() + 1,
          "buckets that do not fit");
    int64_t bucket = 0;
    uint64_t all = 0;
    for (int64_t delta : deltas) {
      bucket += delta;
      Query(bucket >= 0, "a bucket below 0");
      out.buckets.push_back(static_cast<uint64_t>(bucket));
      all += out.buckets.back();
    }
    Query(all == out.count, "a count that is not that of all buckets");
    return out;
  }
  void CheckSymbols() {
    Query(!out_.symbols.empty() && out_.symbols[0].empty(), "the first symbol is not empty");
    Query(std::set<std::string>(out_.symbols.begin(), out_.symbols.end()).size() == out_.symbols.size(),
          "a symbol twice");
    for (uint32_t i = 1; i < out_.symbols.size(); ++i) Query(used_.contains(i), "a symbol that nobody uses");
  }

  Request out_;
  std::set<uint32_t> used_;
};

}  // namespace gpulens::remote_write_testing
