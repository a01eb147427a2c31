// Series of a layout grouped by entity, and numbers in readable units, for the formats of the stdout sink.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "core/metric_desc.h"

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

// Scale of the values of one row or column: one unit, three or four figures, commas for thousands.
struct HumanScale {
  double factor = 1;
  std::string_view unit;  // "GiB"; empty: a plain number
  int decimals = 0;
};

// The scale for values of a family (unit "By", "1", "s", …) of which `largest` is the greatest magnitude.
HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept;
// "1,755", "71.2", "NaN". Zero has no sign.
std::string HumanNumber(double value, const HumanScale& scale);
// Columns that the text takes on a terminal: its UTF-8 characters.
size_t DisplayWidth(std::string_view text) noexcept;

}  // namespace gpulens
