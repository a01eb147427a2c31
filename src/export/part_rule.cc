#include "export/part_rule.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "net/client/http_client.h"
#include "pipeline/delivery/send_setup.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

constexpr size_t kLongestTenant = 150;  // as in Mimir and Loki
constexpr size_t kMostConditions = 64;

// Whether a value, which senders choose, cannot end the header field or be changed by a proxy.
bool IsTenant(std::string_view value) noexcept {
  return !value.empty() && value.size() <= kLongestTenant &&
         std::ranges::all_of(value, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

void CheckParts(const Config& config, ConfigFaults& faults) {
  const std::vector<Config>& where = config.Groups("where");
  if (where.size() > kMostConditions)
    faults.Refuse(config, "where", "where: more than " + std::to_string(kMostConditions) + " conditions");
  for (const Config& one : where) {
    if (one.Text("attribute").empty()) faults.Refuse(one, "attribute", "where.attribute is empty");
  }
  const Config& tenant = config.Group("tenant");
  if (tenant.Text("from").empty()) return;
  std::string line;
  const Status header = AddRequestField(line, tenant.Text("header"), "x");
  if (!header) faults.Refuse(tenant, "header", "tenant.header: " + header.detail);
  const std::string& fallback = tenant.Text("fallback");
  if (!fallback.empty() && !IsTenant(fallback))
    faults.Refuse(tenant, "fallback", "tenant.fallback: up to 150 printable ASCII characters without spaces");
}

PartRule::PartRule(const Config& config, const std::vector<std::vector<HttpUrl>>& urls) {
  SplitRule rule;
  for (const Config& one : config.Groups("where"))
    rule.where.push_back({one.Text("attribute"), one.Texts("values"), one.Bool("exclude")});
  const Config& tenant = config.Group("tenant");
  rule.by = tenant.Text("from");
  header_ = tenant.Text("header");
  fallback_ = tenant.Text("fallback");
  rule.shards = static_cast<uint32_t>(config.Int("in_flight"));
  const bool by_endpoint = config.Text("balance") == "hash" && urls.size() > 1;
  if (by_endpoint) {
    rule.hash = SplitHash::kResource;
    for (const auto& endpoint : urls) rule.endpoints.push_back(EndpointHash(endpoint));
  }
  // Requests of the agent's own data have keys by which they are spread.
  if (by_endpoint || !rule.where.empty() || !rule.by.empty()) own_ = rule;
  // Not by series: every small request would be divided for all requests in flight, and no more of them be
  // sent in a second than one after the other.
  if (!by_endpoint && rule.shards > 1) rule.hash = SplitHash::kTrace;
  if (own_ || rule.hash != SplitHash::kNone) received_ = std::move(rule);
}

const SplitRule* PartRule::For(RecordSource source) const noexcept {
  const std::optional<SplitRule>& rule = source == RecordSource::kOwn ? own_ : received_;
  return rule ? &*rule : nullptr;
}

std::string PartRule::HeadersOf(const SplitPart& part) const {
  std::string line;
  if (!received_ || received_->by.empty()) return line;
  const std::string& value = part.has_value && IsTenant(part.value) ? part.value : fallback_;
  // Both were checked.
  if (!value.empty()) static_cast<void>(AddRequestField(line, header_, value));
  return line;
}

Status ReceivedParts::Read(const Request& request, const SplitRule* rule,
                           const std::function<Status(const SplitPart& part)>& take, uint32_t& left_out) {
  const size_t packing = request.encoding.packing;
  if (!rule) {
    whole_.items = request.items;
    RETURN_IF_ERROR(UnpackOtlp(request.body, packing, kUnpackedBytes, whole_.body));
    return take(whole_);
  }
  std::string_view plain = request.body;
  if (packing != 0) {
    RETURN_IF_ERROR(UnpackOtlp(request.body, packing, kUnpackedBytes, plain_));
    plain = plain_;
  }
  uint32_t excluded = 0;
  RETURN_IF_ERROR(
      splitter_.Split(static_cast<OtlpSignal>(request.encoding.signal), plain, *rule, parts_, excluded));
  left_out += excluded;
  for (const SplitPart& part : parts_) RETURN_IF_ERROR(take(part));
  return Ok();
}

}  // namespace gpulens
