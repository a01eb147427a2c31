// Filters an encoded remote-write request, uncompressed, and cuts it into parts by labels and hashes. Pure.
//
// An attribute is a label: "k8s.namespace.name" is found as k8s.namespace.name and as k8s_namespace_name, the
// first if a series has both. A label without a value is absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/otlp_in/proto_cursor.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/split/split_router.h"

namespace gpulens {

// Not thread-safe. Memory is used again, that of `out` too.
class RemoteWriteSplitter {
 public:
  explicit RemoteWriteSplitter(SplitLimits limits = {}) : limits_(limits), router_(limits) {}

  // Replaces `out` by the parts, in the order of their first series, and sets `left_out` to the number of
  // samples and histograms that the rule excludes. A request that stays whole is copied as it is. Otherwise a
  // series is in one part with all that it holds, in the order of the request; metadata of 1.0 and unknown
  // fields are in each part. Of 2.0 each part has the symbols that it uses, before all else, the empty one
  // first. Metadata of 1.0 without any series is one part of no items, without a value; other requests
  // without series have no parts. What need not be looked at is not checked. kDataLoss: the bytes are no such
  // request. kExhausted: beyond the limits. kInvalidArgument: a rule with 0 lanes, or whose `usable` does not
  // fit `endpoints`. kUnavailable: no endpoint is usable. Then `out` is empty.
  Status Split(RemoteWriteVersion version, std::string_view request, const SplitRule& rule,
               std::vector<SplitPart>& out, uint32_t& left_out);

 private:
  // Messages of 2.0 that refer to symbols.
  enum class Shape : uint8_t { kSeries, kExemplar, kMetadata };
  // A field between series, and how many series stand before it.
  struct Other {
    std::string_view whole;
    size_t series;
  };

  bool Fail(Code code, std::string_view why);
  bool FailFull();

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
  // Of 2.0, with references to the symbols of the part that is written.
  bool Rewrite(Shape shape, std::string_view message, std::string& out);
  bool RewriteRefs(const ProtoField& field, std::string& out);
  bool Remap(uint64_t symbol, uint64_t& out);

  const SplitLimits limits_;
  split::SplitRouter router_;
  const SplitRule* rule_ = nullptr;
  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  Status failure_;
  uint32_t left_out_ = 0;
  bool metadata_ = false;  // of 1.0 is in the request
  std::vector<std::string_view> symbols_;
  std::vector<std::string_view> series_;  // with their tags
  std::vector<uint32_t> plan_;            // by series: its part, or kNoPart when it is left out
  std::vector<Other> others_;
  // Of a series: a name whose value follows.
  std::string_view name_;
  bool half_ = false;
  // Series by part, and where in order_ each part begins.
  std::vector<uint32_t> order_, begins_;
  // Of the part that is written.
  uint32_t part_ = 0;
  std::vector<uint32_t> writers_, numbers_;  // by symbol: the part + 1 that last had it, and its number there
  uint32_t next_number_ = 0;
  std::string rest_, series_out_, message_out_, refs_out_, symbol_out_;
};

}  // namespace gpulens
