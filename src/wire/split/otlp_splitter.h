// Filters an encoded OTLP request and splits it into parts by attributes and hashes. Pure.
//
//   OtlpSplitter splitter;
//   Status status = splitter.Split(OtlpSignal::kMetrics, request, {.by = "tenant"}, parts, left_out);
//
// An attribute is looked up in the resource, then in the scope, then in the data point, log record or span.
// Values other than strings are compared as JSON: true, 5, 1.5. A value of bytes counts as a missing
// attribute.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/split/split_router.h"

namespace gpulens {

// Not thread-safe. Reuses its memory and that of `out`.
class OtlpSplitter {
 public:
  explicit OtlpSplitter(SplitLimits limits = {}) : router_(limits) {}

  // Replaces `out` with the parts, ordered by their first item, and sets `left_out` to the number of items
  // that the rule excludes. If there is one part and nothing is left out, its body is the request, byte for
  // byte. Otherwise each item is in one part, and resources, scopes and metrics are repeated in each part
  // that has items of them, with all their other fields, unknown fields included. Items and fields keep their
  // order. A request without items has no parts. Only what the rule needs is read: the rest may be malformed.
  // kDataLoss: malformed request. kExhausted: a limit is reached. kInvalidArgument: a rule with 0 shards, or
  // with `usable` and `endpoints` of different sizes. kUnavailable: no endpoint is usable. `out` is then
  // empty.
  Status Split(OtlpSignal signal, std::string_view request, const SplitRule& rule,
               std::vector<SplitPart>& out, uint32_t& left_out);

 private:
  // Nesting of messages. Logs and spans have no kMetric and kData.
  enum Level : uint8_t { kRequest, kResource, kScope, kMetric, kData, kItem };
  static constexpr size_t kLevels = 5;  // of messages that can be split
  // A message that is being split.
  struct Cut {
    uint32_t number = 0;                    // its field number in the enclosing message
    std::vector<std::string_view> between;  // fields that go to each part, so far
    std::vector<uint32_t> parts;            // that have begun this message
  };
  // Amount of each Cut that was written to a part.
  struct Progress {
    std::array<bool, kLevels> open{};
    std::array<size_t, kLevels> length_at{}, between{};
  };

  bool IsRouted(Level level, uint32_t number) const noexcept;
  Level Below(Level level) const noexcept;
  bool IsMessage(const ProtoField& field);
  bool Plan(Level level, const ProtoField& message, uint32_t& decision);
  bool PlanWhole(Level level, std::string_view message, bool leave_out, uint32_t& decision);
  bool PlanBelow(Level level, std::string_view message, uint32_t& decision);
  bool PlanItem(const ProtoField& item, uint32_t& decision);
  bool Count(Level level, std::string_view message, uint32_t& items);
  bool ReadHead(Level level, std::string_view message);
  bool ReadItem(std::string_view item, uint64_t& hash);
  bool ReadAttributes(std::string_view message, uint32_t number, Level level, uint64_t* hash);
  bool TakeAttribute(std::string_view key_value, Level level, uint64_t* hash);

  bool Write(Level level, std::string_view message);
  bool Open(uint32_t part, Level level);
  bool WriteBetween(uint32_t part, Level level);
  bool Close(Level level);

  split::SplitRouter router_;
  const SplitRule* rule_ = nullptr;
  OtlpSignal signal_ = OtlpSignal::kMetrics;
  // State of the message that is being read.
  uint64_t resource_hash_ = 0, metric_hash_ = 0;
  uint32_t data_ = 0;           // field number of the metric's data
  bool hash_of_items_ = false;  // the hash differs from item to item
  std::string text_;            // scratch: the text of a value that is not a string

  // One decision for each routed message, in the order of the request, a message before those inside it: the
  // index of its part, or a special value (see the .cc). Messages inside have decisions only if the message
  // is split.
  std::vector<uint32_t> plan_;
  size_t next_ = 0;
  std::array<Cut, kLevels> cuts_;
  std::vector<Progress> progress_;
};

}  // namespace gpulens
