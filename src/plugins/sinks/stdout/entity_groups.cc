#include "plugins/sinks/stdout/entity_groups.h"

#include <algorithm>
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

}  // namespace gpulens
