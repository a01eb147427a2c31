// Rules that filter an encoded request and cut it into parts, and the parts. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpulens {

// What the hash of an item, which chooses its endpoint and its lane, is made of.
enum class SplitHash : uint8_t {
  kNone,
  // OTLP: all resource attributes. Remote write: the labels job and instance.
  kResource,
  // OTLP metrics: resource attributes, the metric's name and the point's attributes. Spans: the trace id. Log
  // records: as kResource. Remote write: all labels.
  kSeries,
};

struct SplitRule {
  struct Match {
    std::string attribute;
    std::vector<std::string> values = {};  // patterns: * for any text, ? for one byte; empty: any value
    bool exclude = false;                  // the item must not have the attribute with such a value
  };

  // An item stays when all hold. An attribute that an item does not have holds for `exclude` alone.
  std::vector<Match> where = {};
  // The attribute whose value names the part; empty: the parts have no value.
  std::string by = {};
  SplitHash hash = SplitHash::kNone;
  // With a hash: parts differ by the endpoint that PickEndpoint chooses. Empty: one endpoint, number 0.
  std::vector<uint64_t> endpoints = {};
  std::vector<uint8_t> usable = {};
  // With a hash: parts differ by hash % lanes. At least 1.
  uint32_t lanes = 1;
};

// A request of its own. All items with the same value, endpoint and lane are in one part.
struct SplitPart {
  bool has_value = false;  // some item has the attribute `by`, even with an empty text
  std::string value;       // from outside: any bytes
  uint32_t endpoint = 0;   // an index of SplitRule::endpoints
  uint32_t lane = 0;       // below SplitRule::lanes
  uint64_t hash = 0;       // of the first item; 0 without SplitHash
  uint32_t items = 0;      // OTLP: points, records, spans. Remote write: samples and histograms
  std::string body;
};

struct SplitLimits {
  uint32_t parts = 1024;            // of one request
  size_t bytes = size_t{64} << 20;  // of the request, and of all parts together; below 2^28
  uint32_t messages = 1'000'000;    // that are looked at one by one; series, and symbols
};

}  // namespace gpulens
