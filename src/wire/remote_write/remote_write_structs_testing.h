// For tests: the contents of a remote-write request as plain structs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpulens::remote_write_testing {

struct Sample {
  double value = 0;
  int64_t ms = 0, start_ms = 0;
};
struct Histogram {
  uint64_t count = 0;
  double sum = 0;
  int64_t ms = 0, start_ms = 0;
  std::vector<uint64_t> buckets;  // the last is above all bounds
  std::vector<double> bounds;
};
struct Metadata {
  uint32_t type = 0;
  std::string help, unit;
};
struct Exemplar {
  std::map<std::string, std::string> labels;
  double value = 0;
  int64_t ms = 0;
};
struct Series {
  std::map<std::string, std::string> labels;
  std::vector<Exemplar> exemplars;
  std::vector<Sample> samples;
  std::vector<Histogram> histograms;
  Metadata metadata;

  // name{a="b",c="d"}
  std::string Name() const {
    std::string out = labels.at("__name__"), inside;
    for (const auto& [key, value] : labels) {
      if (key != "__name__") inside += (inside.empty() ? "" : ",") + key + "=\"" + value + "\"";
    }
    return inside.empty() ? out : out + "{" + inside + "}";
  }
};
struct Request {
  std::vector<Series> series;
  std::map<std::string, Metadata> metadata;
  std::vector<std::string> symbols;
};

}  // namespace gpulens::remote_write_testing
