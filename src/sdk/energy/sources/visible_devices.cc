#include "sdk/energy/sources/visible_devices.h"

#include <algorithm>
#include <cstdlib>

#include "base/parse.h"

namespace gpulens::sdk {
namespace {

bool BeginsWith(std::string_view text, std::string_view begin) noexcept {
  return text.size() >= begin.size() && EqualsIgnoringCase(text.substr(0, begin.size()), begin);
}

// Returns the only device that matches; nothing for none or several.
template <class Is>
std::optional<size_t> OnlyOne(std::span<const VisibleName> devices, Is is) {
  std::optional<size_t> found;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!is(devices[i])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::optional<size_t> Find(std::string_view entry, std::span<const VisibleName> devices) {
  if (const auto number = ParseInt<size_t>(entry)) return *number < devices.size() ? number : std::nullopt;
  if (entry.size() < 5) return std::nullopt;  // "GPU-" and "MIG-" alone name no device
  const auto named = OnlyOne(devices, [&](const VisibleName& one) {
    return BeginsWith(one.uuid, entry) ||
           std::ranges::any_of(one.parts, [&](const std::string& part) { return BeginsWith(part, entry); });
  });
  if (named || !BeginsWith(entry, "MIG-")) return named;
  // Before driver 470: "MIG-GPU-<uuid>/<instance>/<instance>".
  std::string_view rest = entry.substr(4);
  const std::string_view uuid = TakeUntil(rest, '/');
  return OnlyOne(devices, [&](const VisibleName& one) { return EqualsIgnoringCase(one.uuid, uuid); });
}

}  // namespace

std::vector<size_t> VisibleDevices(std::optional<std::string_view> list,
                                   std::span<const VisibleName> devices) {
  std::vector<size_t> out;
  if (!list) {
    for (size_t i = 0; i < devices.size(); ++i) out.push_back(i);
    return out;
  }
  for (std::string_view rest = *list; !rest.empty();) {
    const auto found = Find(Trim(TakeUntil(rest, ',')), devices);
    if (!found) break;
    if (std::ranges::find(out, *found) == out.end()) out.push_back(*found);
  }
  return out;
}

std::optional<std::string_view> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return std::string_view(value);
}

}  // namespace gpulens::sdk
