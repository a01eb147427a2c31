// Reads records of received OTLP for sinks: unpacks them and divides them by the sink's rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "wire/split/otlp_splitter.h"

namespace gpulens {

// Of a request that was unpacked: far above what is ever put into one.
inline constexpr size_t kUnpackedBytes = size_t{64} << 20;

// Not thread-safe; keeps its memory between calls.
class ReceivedParts {
 public:
  struct Request {
    OtlpEncoding encoding;  // not JSON
    std::string_view body;
    uint32_t items = 0;
  };
  // Calls `take` for each part; without a rule, for the whole. Adds to `left_out` the items that the rule
  // excludes. kDataLoss: the bytes cannot be read; kExhausted: they are too large, or make too many parts;
  // else what `take` says.
  Status Read(const Request& request, const SplitRule* rule,
              const std::function<Status(const SplitPart& part)>& take, uint32_t& left_out);

 private:
  OtlpSplitter splitter_;
  std::string plain_;
  std::vector<SplitPart> parts_;
  SplitPart whole_;
};

}  // namespace gpulens
