// Selects and divides the data of a sink: by conditions on attributes (`where`), by a tenant that each
// request has in a header field (`tenant`), and by hashes over endpoints and requests in flight (`balance`,
// `in_flight`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "net/message/address.h"
#include "plugins/config.h"
#include "wire/split/otlp_splitter.h"
#include "wire/split/split_router.h"

namespace gpulens {

inline constexpr OptionSpec kWhereOptions[] = {
    {.key = "attribute",
     .help = "An attribute of the resource, the scope, the point or the record; of remote write, a label.",
     .required = true},
    TextsOption("values", {}, "Values to match; * matches any text, ? one byte. Default: any value."),
    BoolOption("exclude", false, "Send only what has none of the values, or no such attribute."),
};
inline constexpr OptionSpec kTenantOptions[] = {
    TextOption("from", {}, "The attribute whose value is the tenant; empty: no tenants."),
    TextOption("header", "X-Scope-OrgID", "The header field with the tenant."),
    TextOption("fallback", {},
               "Tenant of data without the attribute or with an invalid value: up to 150 printable "
               "ASCII characters without spaces. Empty: it is sent without the field."),
};
inline constexpr auto kPartOptions = std::to_array<OptionSpec>({
    GroupsOption("where", "Send only what meets all these conditions.", kWhereOptions),
    GroupOption("tenant", "A request for each tenant.", kTenantOptions),
});

// A ConfigCheck of a sink whose table has kPartOptions.
void CheckParts(const Config& config, ConfigFaults& faults);

// Immutable; thread-safe.
class PartRule {
 public:
  // The configuration passed CheckParts. `urls`: as in SendPlan.
  PartRule(const Config& config, const std::vector<std::vector<HttpUrl>>& urls);

  // Null: requests of this source are not divided.
  const SplitRule* For(RecordSource source) const noexcept;
  // Whole header lines.
  std::string HeadersOf(const SplitPart& part) const;

 private:
  // For the agent's own data, and for received data.
  std::optional<SplitRule> own_, received_;
  std::string header_, fallback_;
};

// Bound of an uncompressed request, far above what the agent writes into one.
inline constexpr size_t kUnpackedBytes = size_t{64} << 20;

// Decompresses records of received OTLP and divides them by a sink's rule. Not thread-safe; reuses its
// memory.
class ReceivedParts {
 public:
  struct Request {
    OtlpEncoding encoding;  // not JSON
    std::string_view body;
    uint32_t items = 0;
  };
  // Calls `take` for each part; without a rule, once. Adds the items that the rule excludes to `left_out`.
  // kDataLoss for malformed bytes, kExhausted for too large ones or too many parts, else the status of
  // `take`.
  Status Read(const Request& request, const SplitRule* rule,
              const std::function<Status(const SplitPart& part)>& take, uint32_t& left_out);

 private:
  OtlpSplitter splitter_;
  std::string plain_;
  std::vector<SplitPart> parts_;
  SplitPart whole_;
};

}  // namespace gpulens
