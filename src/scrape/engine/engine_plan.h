// Plans the series of an engine's page: which cells of the page feed which metric. Computed whenever its
// series or families change, from that page alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/inference.h"
#include "core/layout.h"
#include "scrape/engine/engine_families.h"
#include "scrape/series_rules.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::engine_page {

// The source of a series' number.
enum class SeriesReading : uint8_t {
  kNumber,    // the sample
  kOne,       // always 1
  kConstant,  // a number in a label; of several, that of the greatest sample
  kShaped,    // a histogram's cells
};

// A series and the cells that feed it.
struct SeriesPlan {
  const MetricDesc* metric = nullptr;
  EntityRef entity;
  AttributeSet extra;
  std::string identity;
  SeriesReading reading = SeriesReading::kNumber;
  Combine combine = Combine::kSum;
  double scale = 1;
  Ref<const Shape> shape;
  std::vector<uint32_t> slots;    // member by member
  std::vector<double> constants;  // kConstant: one per member
  std::vector<uint32_t> created;  // slots of the members' `_created`; empty unless all have it
  int64_t start_unix_ns = 0;      // of a single member that has it

  // Number of series of the page that it combines.
  uint32_t members() const noexcept {
    return static_cast<uint32_t>(slots.size()) / (shape ? shape->cells() : 1);
  }
};

struct PlanOptions {
  std::string_view target, model;
  const std::vector<std::pair<std::string, std::string>>* attributes;
  const GovernedLabels* labels;  // after the rules of the target
  int64_t pid = 0;               // a hidden fact of the entities; 0: unknown
};

// Whether two plans have the same cells.
bool SameShape(const Ref<const Shape>& a, const Ref<const Shape>& b) noexcept;

// Allocates; not for steady scrapes.
std::vector<SeriesPlan> PlanSeries(const ParsedPage& page, const PageFamilies& families,
                                   const PlanOptions& options);

// Applies the column `labels` of a row (engine_row.h). Views into the row's text, which has static storage.
class LabelPlan {
 public:
  explicit LabelPlan(std::string_view labels);

  // A choice between series of the family by a label (? and ~).
  struct Choice {
    std::string_view label, value;
    bool preferred;  // name?value; else name~value
    bool active = false;
  };
  std::span<Choice> choices() noexcept { return choices_; }
  // Call for every series of the family before the plan is used.
  void Observe(const std::vector<PageLabel>& labels) noexcept;

  // Whether the row is for a series with these labels.
  bool Takes(const std::vector<PageLabel>& labels) const noexcept;

  using Attributes = std::vector<std::pair<std::string, std::string>>;
  // Returns the attributes of such a series. `all`: labels that the row does not name keep their names.
  void Apply(const std::vector<PageLabel>& labels, bool all, Attributes& out) const;

 private:
  struct Op {
    enum Kind : uint8_t { kBecomes, kOnly, kAdd, kDrop } kind;
    std::string_view name, text;  // text: the attribute, or the value
    std::string_view map = {};    // "a:b c*:d"
  };
  static std::string_view Mapped(std::string_view map, std::string_view value) noexcept;

  std::vector<Op> ops_;
  std::vector<Choice> choices_;
};

// Returns the value of a label; empty: absent.
std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept;

}  // namespace gpulens::engine_page
