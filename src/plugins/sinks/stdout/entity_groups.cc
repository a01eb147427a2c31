#include "plugins/sinks/stdout/entity_groups.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace gpulens {
namespace {

bool IsOnEntity(const Entity* entity, std::string_view key) noexcept {
  for (; entity; entity = entity->parent.get()) {
    if (entity->attributes.Has(key)) return true;
  }
  return false;
}

bool BelongsToEntity(const SeriesInfo& info, std::string_view key) noexcept {
  if (IsOnEntity(info.entity.get(), key)) return true;
  const MetricDesc& desc = *info.desc;
  // Scraped families do not say which labels they add: all of them, then.
  return desc.naming != Naming::kVerbatim && std::ranges::find(desc.keys, key) == desc.keys.end();
}

// The entity's type, and its attributes as text.
std::pair<std::string_view, std::string> IdentityOf(const SeriesInfo& info) {
  std::pair<std::string_view, std::string> identity;
  if (info.entity) identity.first = info.entity->type;
  for (AttributeSet::Attribute attribute : info.attributes) {
    if (!BelongsToEntity(info, attribute.key)) continue;
    identity.second += attribute.key;
    identity.second += '=';
    AppendValue(identity.second, attribute.value);
    identity.second += '\0';
  }
  return identity;
}

constexpr double kKi = 1024.0;

// So many that three figures are seen.
int DecimalsFor(double shown) noexcept {
  if (shown >= 100) return 0;
  return shown >= 10 ? 1 : 2;
}

HumanScale Figures(double factor, std::string_view unit, double largest) noexcept {
  return {factor, unit, DecimalsFor(largest * factor)};
}

HumanScale BytesScale(double largest) noexcept {
  if (largest >= kKi * kKi * kKi) return {1 / (kKi * kKi * kKi), "GiB", 1};
  if (largest >= kKi * kKi) return {1 / (kKi * kKi), "MiB", 1};
  if (largest >= kKi) return {1 / kKi, "KiB", 1};
  return {1, "B", 0};
}

HumanScale RateScale(double largest) noexcept {
  if (largest >= 1e9) return {1e-9, "GB/s", 1};
  if (largest >= 1e6) return {1e-6, "MB/s", 1};
  if (largest >= 1e3) return {1e-3, "kB/s", 1};
  return {1, "B/s", 0};
}

HumanScale TimeScale(double largest) noexcept {
  if (largest == 0 || largest >= 1) return Figures(1, "s", largest);
  if (largest >= 1e-3) return Figures(1e3, "ms", largest);
  return Figures(1e6, "µs", largest);
}

HumanScale EnergyScale(double largest) noexcept {
  if (largest >= 3.6e6) return Figures(1 / 3.6e6, "kWh", largest);
  if (largest >= 1e4) return Figures(1e-3, "kJ", largest);
  return Figures(1, "J", largest);
}

bool IsCount(const MetricDesc& desc) noexcept {
  return desc.unit.empty() || (desc.unit.starts_with('{') && desc.unit.ends_with('}'));
}

}  // namespace

std::vector<EntityGroup> GroupByEntity(const Layout& layout) {
  std::vector<EntityGroup> groups;
  // Two collector parts may each have made an entity for the same thing: what it is known by decides.
  std::map<std::pair<std::string_view, std::string>, size_t> known;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!info.desc) continue;
    auto [at, added] = known.try_emplace(IdentityOf(info), groups.size());
    if (added) {
      EntityGroup& group = groups.emplace_back();
      if (info.entity) {
        group.type = info.entity->type;
        group.own.assign(info.entity->attributes.begin(), info.entity->attributes.end());
      }
      for (AttributeSet::Attribute attribute : info.attributes) {
        if (BelongsToEntity(info, attribute.key)) group.known_by.push_back(attribute);
      }
    }
    EntityReading reading;
    reading.slot = slot;
    for (AttributeSet::Attribute attribute : info.attributes) {
      if (!BelongsToEntity(info, attribute.key)) reading.extra.push_back(attribute);
    }
    groups[at->second].readings.push_back(std::move(reading));
  }
  for (EntityGroup& group : groups) {
    std::ranges::sort(group.readings, {}, [&](const EntityReading& reading) {
      return std::pair(layout[reading.slot].desc->name, reading.slot);
    });
  }
  return groups;
}

HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept {
  std::string_view unit = desc.unit;
  if (unit == "By") return BytesScale(largest);
  if (unit == "By/s") return RateScale(largest);
  if (unit == "s") return TimeScale(largest);
  if (unit == "J") return EnergyScale(largest);
  if (unit == "W" && largest >= 1e4) return Figures(1e-3, "kW", largest);
  if (unit == "W") return {1, "W", largest >= 10 ? 0 : 1};
  if (unit == "1" && desc.kind != Kind::kCounter && largest <= 1.5)
    return {100, "%", largest < 0.0995 ? 1 : 0};
  if (unit == "{percent}" || unit == "%") return {1, "%", largest < 9.95 ? 1 : 0};
  if (unit == "Cel") return {1, "°C", 0};
  if (unit == "MHz") return {1, "MHz", 0};
  if (IsCount(desc) && desc.number == Number::kInt)
    return largest >= 1e7 ? Figures(1e-6, "M", largest) : HumanScale{};
  return Figures(1, IsCount(desc) || unit == "1" ? std::string_view() : unit, largest);
}

std::string HumanNumber(double value, const HumanScale& scale) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[400];
  double shown = value * scale.factor;
  if (std::isinf(shown)) shown = value;
  auto end =
      std::to_chars(text, text + sizeof text, std::abs(shown), std::chars_format::fixed, scale.decimals).ptr;
  std::string_view digits(text, static_cast<size_t>(end - text));
  size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && i < whole && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  bool zero = digits.find_first_not_of("0.") == digits.npos;
  return shown < 0 && !zero ? "-" + out : out;
}

size_t DisplayWidth(std::string_view text) noexcept {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

}  // namespace gpulens
