// Rules for filtering an encoded request and splitting it into parts, and the resulting parts. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpulens {

// Input of the hash that chooses the endpoint and the lane of an item.
enum class SplitHash : uint8_t {
  kNone,
  // OTLP: all resource attributes. Remote write: the labels job and instance.
  kResource,
  // OTLP metrics: resource attributes, metric name and attributes of the data point. Spans: the trace id. Log
  // records: same as kResource. Remote write: all labels.
  kSeries,
};

struct SplitRule {
  struct Match {
    std::string attribute;
    std::vector<std::string> values = {};  // patterns: * any text, ? one byte. Empty: any value
    bool exclude = false;                  // true: holds when the attribute has none of the values
  };

  // An item is kept when all of these hold. For a missing attribute only an `exclude` holds.
  std::vector<Match> where = {};
  // The attribute whose value names the part, for example the tenant. Empty: parts have no value.
  std::string by = {};
  SplitHash hash = SplitHash::kNone;
  // StableHash of each endpoint's name. With a hash, PickEndpoint chooses the endpoint of an item, and items
  // of different endpoints go to different parts. Empty: all items have endpoint 0.
  std::vector<uint64_t> endpoints = {};
  // 0 at the index of an endpoint that must not be used. Empty: all are usable.
  std::vector<uint8_t> usable = {};
  // With a hash, the lane of an item is hash % lanes; items of different lanes go to different parts. At
  // least 1.
  uint32_t lanes = 1;
};

// A complete request with all items of one value, endpoint and lane.
struct SplitPart {
  bool has_value = false;  // false: the items do not have the attribute `by`
  std::string value;       // chosen by the sender: any bytes
  uint32_t endpoint = 0;   // index into SplitRule::endpoints
  uint32_t lane = 0;       // below SplitRule::lanes
  uint64_t hash = 0;       // of the first item; 0 without SplitHash
  uint32_t items = 0;      // OTLP: data points, log records, spans. Remote write: samples and histograms
  std::string body;
};

struct SplitLimits {
  uint32_t parts = 1024;            // of one request; at most 65536
  size_t bytes = size_t{64} << 20;  // of the request; of all bodies together; below 2^28
  uint32_t messages = 1'000'000;    // OTLP: messages routed one by one. Remote write: series; symbols
};

}  // namespace gpulens
