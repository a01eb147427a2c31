// Rules for filtering an encoded request and splitting it into parts, the resulting parts, and the router
// that applies a rule to the attributes of an item, for the splitters of the encodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/otlp/proto_cursor.h"

namespace gpulens {

// Input of the hash that chooses the endpoint and the shard of an item.
enum class SplitHash : uint8_t {
  kNone,
  // OTLP: all resource attributes. Remote write: the labels job and instance.
  kResource,
  // OTLP metrics: resource attributes, metric name and attributes of the data point. Spans: the trace id. Log
  // records: same as kResource. Remote write: all labels.
  kSeries,
  // Same as kResource, but of spans the trace id: for requests in flight, which then stay whole.
  kTrace,
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
  // With a hash, the shard of an item is hash % shards; items of different shards go to different parts. At
  // least 1.
  uint32_t shards = 1;
};

// A complete request with all items of one value, endpoint and shard.
struct SplitPart {
  bool has_value = false;  // false: the items do not have the attribute `by`
  std::string value;       // chosen by the sender: any bytes
  uint32_t endpoint = 0;   // index into SplitRule::endpoints
  uint32_t shard = 0;      // below SplitRule::shards
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

namespace gpulens::split {

// The state of one request that is being split: its failure, its parts, and the values by which an item is
// routed. The caller passes the values of attributes with a level: a value of a lower level hides those of
// higher levels; of equal levels the last value counts. Not thread-safe. Reuses its memory.
class SplitRouter {
 public:
  // Never the index of a part.
  static constexpr uint32_t kNoPart = UINT32_MAX;
  enum class Choice : uint8_t { kUnknown, kLeaveOut, kKeep };

  explicit SplitRouter(SplitLimits limits);

  // Starts a request. `rule` and `out` must live until Finish. False: it failed, by a bad rule or its size.
  bool Begin(const SplitRule& rule, std::string_view request, std::vector<SplitPart>& out);
  // Returns the first failure, if any, and sets `left_out` and shortens `out` to the parts; to none after a
  // failure.
  Status Finish(uint32_t& left_out);

  // Records a failure and returns false.
  bool Fail(Code code, std::string_view why);
  bool FailMalformed() { return Fail(Code::kDataLoss, "the request is not valid protobuf"); }
  // Whether one more is within SplitLimits::messages; fails otherwise. `what` names them.
  bool HasRoom(size_t count, std::string_view what);
  // Calls `read(field)` for each field while it returns true, and returns its last result. Fails for bytes
  // that are no message.
  template <class Read>
  bool ForEachField(std::string_view message, Read&& read) {
    ProtoCursor cursor(message);
    for (ProtoField field; cursor.Next(field);)
      if (!read(field)) return false;
    return !cursor.broken() || FailMalformed();
  }

  // Forgets the values of `level` and higher levels.
  void DropFrom(uint8_t level) noexcept;
  // Returns whether the rule uses this attribute and no lower level has a value of it.
  bool Wants(std::string_view name, uint8_t level) const noexcept;
  // Sets the value of an attribute. Unless `copy`, `text` must live until DropFrom forgets it.
  void Take(std::string_view name, std::string_view text, uint8_t level, bool copy = false);
  // Sets the value of a Prometheus label. Where the label has an underscore, the rule's name may have any
  // other ASCII character that label names cannot have. A label with exactly the rule's name (level 0) hides
  // such a label (level 1).
  void TakeLabel(std::string_view name, std::string_view text);
  // Evaluates the rule for the current values. `last`: attributes without a value are missing; otherwise
  // their values are not known yet.
  Choice Choose(bool last) const noexcept;

  // Counts items that the rule excludes.
  void LeaveOut(uint32_t items) noexcept { left_out_ += items; }
  // Finds the part for the current values and adds `items` to it. This and the next two fail at a limit.
  bool Route(uint64_t hash, uint32_t items, uint32_t& part);
  size_t parts() const noexcept { return count_; }
  SplitPart& part(uint32_t index) noexcept { return (*out_)[index]; }

  // Appends to the body of a part.
  bool Append(uint32_t part, std::string_view bytes);
  // Counts bytes that the caller appends itself.
  bool Spend(size_t bytes);

 private:
  struct Slot {
    std::string_view name;
    const SplitRule::Match* match = nullptr;  // null: this is the slot of SplitRule::by
    uint8_t level = 0;
    bool given = false, fails = false;
    std::string_view text;
    std::string copy;
  };
  void Give(Slot& slot, std::string_view text, uint8_t level);
  bool IsPart(uint32_t index, const SplitPart& key, std::string_view value) const noexcept;
  uint32_t Add(const SplitPart& key, std::string_view value);

  const SplitLimits limits_;
  const SplitRule* rule_ = nullptr;
  std::vector<SplitPart>* out_ = nullptr;
  std::vector<SplitPart> spare_;  // unused parts, kept for their memory
  std::vector<Slot> slots_;       // the slot of SplitRule::by is the first, if the rule has one
  std::vector<uint32_t> table_;   // open addressing: index of a part + 1; 0: free
  uint32_t count_ = 0, last_ = 0, left_out_ = 0;
  size_t spent_ = 0;
  Status failure_;
};

}  // namespace gpulens::split
