#include "wire/remote_write/remote_write_types.h"

namespace gpulens {
namespace {

using remote_write::Type;

constexpr bool Bit(uint32_t types, Type type) noexcept {
  return (types >> static_cast<uint32_t>(type) & 1) != 0;
}
constexpr uint32_t Of(Type type) noexcept { return 1u << static_cast<uint32_t>(type); }

struct Suffix {
  std::string_view text;
  uint32_t types;  // of families whose series may have it
};
constexpr uint32_t kDistributions = Of(Type::kHistogram) | Of(Type::kSummary);
constexpr Suffix kSuffixes[] = {
    {"_total", Of(Type::kCounter)},
    {"_bucket", Of(Type::kHistogram) | Of(Type::kGaugeHistogram)},
    {"_count", kDistributions},
    {"_sum", kDistributions},
    {"_gcount", Of(Type::kGaugeHistogram)},
    {"_gsum", Of(Type::kGaugeHistogram)},
    {"_created", kDistributions | Of(Type::kCounter)},
    {"_info", Of(Type::kInfo)},
};
// A node of the map and two texts, roughly.
constexpr size_t kPerName = 160;

}  // namespace

void RemoteWriteTypes::Learn(std::string_view family, Type type, std::string_view help,
                             std::string_view unit) {
  if (family.empty()) return;
  auto at = entries_.find(family);
  if (at != entries_.end() && at->second.type == type && at->second.help == help && at->second.unit == unit)
    return;
  const size_t bytes = kPerName + family.size() + help.size() + unit.size();
  if (bytes > kMostBytes) return;
  if (entries_.size() >= kMostNames || bytes_ + bytes > kMostBytes) {
    entries_.clear();
    bytes_ = 0;
    at = entries_.end();
  }
  if (at == entries_.end()) {
    at = entries_.emplace(std::string(family), Entry()).first;
    at->second.family = at->first;
  }
  // What a name had before still counts: the bound is one above what is held.
  bytes_ += bytes;
  at->second.type = type;
  at->second.help = help;
  at->second.unit = unit;
}

const RemoteWriteTypes::Entry* RemoteWriteTypes::Get(std::string_view family) const noexcept {
  const auto at = entries_.find(family);
  return at == entries_.end() ? nullptr : &at->second;
}

const RemoteWriteTypes::Entry* RemoteWriteTypes::Find(std::string_view series) const noexcept {
  if (entries_.empty()) return nullptr;
  if (const Entry* found = Get(series)) return found;
  for (const Suffix& suffix : kSuffixes) {
    if (!series.ends_with(suffix.text)) continue;
    const Entry* found = Get(series.substr(0, series.size() - suffix.text.size()));
    if (found && Bit(suffix.types, found->type)) return found;
  }
  return nullptr;
}

}  // namespace gpulens
