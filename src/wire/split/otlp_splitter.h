// Filters an encoded OTLP request and cuts it into parts by attributes and hashes. Pure.
//
//   OtlpSplitter splitter;
//   Status status = splitter.Split(OtlpSignal::kMetrics, request, {.by = "tenant"}, parts, left_out);
//
// An attribute is looked up in the resource, then in the scope, then in the data point, log record or span.
// Values that are no text are compared as JSON: true, 5, 1.5; bytes have no text and count as absent.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/otlp/received_otlp.h"
#include "wire/otlp_in/proto_cursor.h"
#include "wire/split/split_router.h"

namespace gpulens {

// Not thread-safe. Memory is used again, that of `out` too.
class OtlpSplitter {
 public:
  explicit OtlpSplitter(SplitLimits limits = {}) : limits_(limits), router_(limits) {}

  // Replaces `out` by the parts, in the order of their first item, and sets `left_out` to the number of items
  // that the rule excludes. A request that stays whole is copied as it is. Otherwise each part has the
  // messages and fields of the request in their order, unknown fields too: an item in one part; a metric,
  // scope or resource, with its fields and with empty messages beside the items, in each part that has items
  // of it. A request without items has no parts. What need not be looked at is not checked. kDataLoss: the
  // bytes are no such request. kExhausted: beyond the limits. kInvalidArgument: a rule with 0 lanes, or whose
  // `usable` does not fit `endpoints`. kUnavailable: no endpoint is usable. Then `out` is empty.
  Status Split(OtlpSignal signal, std::string_view request, const SplitRule& rule,
               std::vector<SplitPart>& out, uint32_t& left_out);

 private:
  // Messages on the way down to the items. Logs and spans have no kMetric and kData.
  enum Level : uint8_t { kRequest, kResource, kScope, kMetric, kData, kItem };
  static constexpr size_t kLevels = 5;  // of messages that can be cut
  // A message while it is cut.
  struct Cut {
    uint32_t number = 0;                    // its field in the message around it
    std::vector<std::string_view> between;  // what is not routed and goes to each part
    std::vector<uint32_t> parts;            // that have this message
  };
  // How much a part has of each Cut.
  struct Progress {
    std::array<bool, kLevels> open{};
    std::array<size_t, kLevels> length_at{}, between{};
  };

  bool IsRouted(Level level, uint32_t number) const noexcept;
  Level Below(Level level) const noexcept;
  bool Fail(Code code, std::string_view why);
  bool FailFull();

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

  const SplitLimits limits_;
  split::SplitRouter router_;
  const SplitRule* rule_ = nullptr;
  OtlpSignal signal_ = OtlpSignal::kMetrics;
  Status failure_;
  uint32_t left_out_ = 0;
  // Of the message that is read.
  uint64_t resource_hash_ = 0, metric_hash_ = 0;
  uint32_t data_ = 0;           // the field of the metric's data
  bool hash_of_items_ = false;  // the hash differs from item to item
  std::string text_;            // scratch: of a value that is no text

  // What becomes of each message, a message before those in it: the number of its part, kNoPart when it is
  // left out, or one of the words in the .cc. Only of a message that is cut those in it follow.
  std::vector<uint32_t> plan_;
  size_t next_ = 0;
  std::array<Cut, kLevels> cuts_;
  std::vector<Progress> progress_;
};

}  // namespace gpulens
