// The series of one layout by the thing they measure, as both forms of the stdout sink show them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace gpulens {

// A series of an entity, with what tells it from others of its family there.
struct EntityReading {
  uint32_t slot = 0;
  std::vector<AttributeSet::Attribute> extra;  // lives as long as the layout
};

struct EntityGroup {
  std::string type;                               // "gpu"; empty: the series belong to no entity
  std::vector<AttributeSet::Attribute> known_by;  // sorted by key; lives as long as the layout
  std::vector<AttributeSet::Attribute> own;       // without those of parents and enrichers
  std::vector<EntityReading> readings;            // by family name, then slot
};

// An attribute is the entity's when the entity or a parent has it, or when it is none that the series'
// family may add (so an enricher has). Groups stand in the order of their first slot.
std::vector<EntityGroup> GroupByEntity(const Layout& layout);

}  // namespace gpulens
