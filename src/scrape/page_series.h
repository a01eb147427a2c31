// Series of a scraped page under their own names: declared when they appear, written at every scrape, retired
// when they vanish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "scrape/page_cells.h"
#include "scrape/series_groups.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// Follows one ParsedPage. Used inside its instance's run: not thread-safe. A Write of a page whose
// series stayed does not allocate, unless it has exemplars.
//
// Labels become attributes; a label that the target itself has becomes "exported_…", as in Prometheus, and so
// does a metric name of the agent's own (catalog/exported_name.h). Timestamps of the page are kept
// (FrameWriter::DatedAt). With rules, series that become equal are combined, without exemplars.
class PageSeries {
 public:
  // Selects families; the answer for one name may change only with the page's generation.
  using Filter = std::function<bool(const ExpositionFamily&)>;

  // `target` has the attributes that every series gets. Without a filter all families are exported.
  PageSeries(const ParsedPage& page, EntityRef target, Filter passes = {}, SeriesRules rules = {});

  // Call after every page that was read. Samples that an incomplete page lacks keep their values.
  void Write(bool complete, FrameWriter& out);

  // Series of the page that could not be declared.
  uint32_t refused() const noexcept { return static_cast<uint32_t>(refused_.size()); }
  // Series of the last page that are not exported as they are.
  const SeriesDrops& drops() const noexcept { return drops_; }
  size_t memory_bytes() const noexcept;

 private:
  // The rules, and the series that they combine.
  struct Governor {
    Governor(const ParsedPage& page, const EntityRef& target, SeriesRules rules)
        : labels(page, std::move(rules)), groups(page, labels), series(groups, target) {}

    GovernedLabels labels;
    SeriesGroups groups;
    FoldedSeries series;
  };
  struct Family {
    const MetricDesc* desc = nullptr;  // null: none, or refused
    Ref<const Shape> last_shape;       // most series of a family have the same
    std::string name;
    ExpositionType type = ExpositionType::kUnknown;
    bool known = false, suffixed = false, changed = false;  // known: `suffixed` is
    bool left_out = false;                                  // by the filter
  };
  // One series of the page, by its id.
  struct Entry {
    Series series;
    uint32_t first = 0;       // a scalar's slot; else the place of its first slot in cell_slots_
    uint32_t cells : 28 = 0;  // 0: a scalar
    uint32_t counts : 1 = 0;  // shaped: its last cell is a count that only grows
    uint32_t written : 1 = 0;
    uint32_t refused : 2 = 0;  // 1 + SeriesDrop of one that could not be declared
  };
  // The `_created` of a counter. Obsolete when `series` is not the present one of `id`.
  struct Created {
    uint32_t id, slot;
    double unix_s;
    Series series;
  };

  void Follow(SeriesTable& table);
  void UpdateFamilies(SeriesTable& table);
  void FollowGroups(SeriesTable& table);
  void CountDrops();
  void Declare(uint32_t id, SeriesTable& table);
  void DeclareScalar(uint32_t id, const MetricDesc& desc, SeriesTable& table);
  void DeclareShaped(uint32_t id, Family& family, SeriesTable& table);
  void Retire(uint32_t id, SeriesTable& table);
  void RestartCreated(SeriesTable& table);
  void RetryRefused(SeriesTable& table);
  void CompactCells();
  AttributeSet Attributes(uint32_t id);
  AttributeSet AttributesOf(std::vector<PageLabel>& labels) const;
  void Watch(uint32_t id);
  Ref<const Shape> ShapeOf(Family& family, SampleRole bounds);
  void WriteShaped(Entry& entry, bool complete, SampleTimes& times, FrameWriter& out);
  void Attach(FrameWriter& out);

  const ParsedPage& page_;
  const EntityRef target_;
  const Filter passes_;
  const std::unique_ptr<Governor> governor_;  // null: no rules
  bool followed_ = false;
  uint64_t generation_ = 0;
  std::vector<Family> families_;      // by index of the page
  std::vector<Entry> entries_;        // by series id of the page
  std::vector<uint32_t> cell_slots_;  // of shaped series, in the order of their Shape
  size_t dead_cells_ = 0;
  std::vector<Created> created_;
  std::vector<uint32_t> refused_;
  SeriesDrops drops_;
  std::vector<uint32_t> owners_;   // slot to series id; only while the page has exemplars
  std::vector<PageCell> cells_;    // of the series being declared
  std::vector<PageLabel> labels_;  // of the same
};

// The suffix that samples of such a family may have in place of its name; empty for other types.
std::string_view OptionalSuffix(ExpositionType type) noexcept;

}  // namespace gpulens
