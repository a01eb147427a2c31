// From the series of a page to the series of roles that it makes: gathered anew whenever the page's series or
// families change, from that page alone.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/inference.h"
#include "core/layout.h"
#include "scrape/engine/engine_families.h"
#include "scrape/governed_labels.h"

namespace gpulens::engine_page {

// Where the number of a series comes from.
enum class Reading : uint8_t {
  kNumber,    // the sample
  kOne,       // always 1
  kConstant,  // a number that stands in a label; of several, that of the greatest sample
  kShaped,    // a histogram's cells
};

// A series to be made: which cells of the page feed it.
struct SeriesPlan {
  const MetricDesc* metric = nullptr;
  EntityRef entity;
  AttributeSet extra;
  std::string identity;
  Reading reading = Reading::kNumber;
  Combine combine = Combine::kSum;
  double scale = 1;
  Ref<const Shape> shape;
  std::vector<uint32_t> slots;    // member by member
  std::vector<double> constants;  // kConstant: one per member
  std::vector<uint32_t> created;  // where each member says when it was created; empty unless all do
  int64_t start_unix_ns = 0;      // of a single member that tells it

  // Series of the page that are this one together.
  uint32_t members() const noexcept {
    return static_cast<uint32_t>(slots.size()) / (shape ? shape->cells() : 1);
  }
};

struct PlanOptions {
  std::string_view target, model;
  const std::vector<std::pair<std::string, std::string>>* attributes;
  const GovernedLabels* labels;  // what the configuration leaves of labels
};

// Whether two plans have the same cells.
bool SameShape(const Ref<const Shape>& a, const Ref<const Shape>& b) noexcept;

// Allocates freely; not for steady scrapes.
std::vector<SeriesPlan> PlanSeries(const ScrapedPage& page, const PageFamilies& families,
                                   const PlanOptions& options);

}  // namespace gpulens::engine_page
