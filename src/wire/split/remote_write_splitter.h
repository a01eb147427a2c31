// Filters an encoded, uncompressed remote-write request and splits it into parts by labels and hashes. Pure.
//
// An attribute is a label: "k8s.namespace.name" matches the labels k8s.namespace.name and k8s_namespace_name,
// the first if a series has both. A label with an empty value counts as missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/split/split_router.h"

namespace gpulens {

// Not thread-safe. Reuses its memory and that of `out`.
class RemoteWriteSplitter {
 public:
  explicit RemoteWriteSplitter(SplitLimits limits = {}) : router_(limits) {}

  // Replaces `out` with the parts, ordered by their first series, and sets `left_out` to the number of
  // samples and histograms that the rule excludes. If there is one part and nothing is left out, its body is
  // the request, byte for byte. Otherwise each series is in one part, in the order of the request; metadata
  // of 1.0 and unknown fields are repeated in each part. A part of 2.0 begins with the symbols that it uses,
  // the empty one first. A request of 1.0 with metadata and no series is one part with 0 items and no value;
  // other requests without series have no parts. Only what the rule needs is read: the rest may be malformed.
  // kDataLoss: malformed request. kExhausted: a limit is reached. kInvalidArgument: a rule with 0 shards, or
  // with `usable` and `endpoints` of different sizes. kUnavailable: no endpoint is usable. `out` is then
  // empty.
  Status Split(RemoteWriteVersion version, std::string_view request, const SplitRule& rule,
               std::vector<SplitPart>& out, uint32_t& left_out);

 private:
  // Messages of 2.0 with references to symbols.
  enum class Shape : uint8_t { kSeries, kExemplar, kMetadata };
  // A field of the request that is not a series, and the number of series before it.
  struct Other {
    std::string_view whole;
    size_t series;
  };

  bool IsMessage(const ProtoField& field);
  template <class Take>
  bool ForEachRef(const ProtoField& refs, Take&& take);

  bool Plan(std::string_view request);
  bool ReadSymbols(std::string_view request);
  bool PlanSeries(const ProtoField& series);
  bool AddOther(const ProtoField& field);
  bool Count(std::string_view series, uint32_t& items);
  bool ReadLabels(std::string_view series, uint64_t& hash);
  bool ReadLabel(std::string_view label, uint64_t& sum);
  bool ReadRefs(const ProtoField& refs, uint64_t& sum);
  void TakeLabel(std::string_view name, std::string_view value, uint64_t& sum);

  bool Write();
  void GroupByPart();
  bool WritePart(uint32_t part, size_t begin, size_t end);
  // Appends a message of 2.0 with its references changed to the symbols of the current part.
  bool Rewrite(Shape shape, std::string_view message, std::string& out);
  bool RewriteRefs(const ProtoField& field, std::string& out);
  bool Remap(uint64_t symbol, uint64_t& out);

  split::SplitRouter router_;
  const SplitRule* rule_ = nullptr;
  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  bool metadata_ = false;  // the request has metadata of 1.0
  std::vector<std::string_view> symbols_;
  std::vector<std::string_view> series_;  // with their tags
  std::vector<uint32_t> plan_;            // by series: its part; kNoPart: left out
  std::vector<Other> others_;
  // Label name whose value follows, if half_.
  std::string_view name_;
  bool half_ = false;
  // Series ordered by part, and the begin of each part in order_.
  std::vector<uint32_t> order_, begins_;
  // State of the part that is being written.
  uint32_t part_ = 0;
  std::vector<uint32_t> writers_, numbers_;  // by symbol: last part that used it + 1; its number there
  uint32_t next_number_ = 0;
  std::string rest_, series_out_, message_out_, refs_out_, symbol_out_;
};

}  // namespace gpulens
