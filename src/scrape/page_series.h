// The series of a scraped page as series of ours: made when they appear on the page, written at every
// scrape, ended when they vanish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "scrape/folded_series.h"
#include "scrape/sample_times.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// Follows one ScrapedPage. Used inside its instance's run: not thread-safe. A Write of a page whose
// series stayed does not allocate, unless it has exemplars.
//
// Labels become attributes as they are; one that the target itself has becomes "exported_…", as
// Prometheus does. So does a name of the agent's own: catalog/exported_name.h. A value with a timestamp on
// the page is of that time, see FrameWriter::DatedAt. With rules, series that become equal are one series of
// ours, without exemplars.
class PageSeries {
 public:
  // Which families are passed on; the answer for one name may change only with the page's generation.
  using Filter = std::function<bool(const ExpositionFamily&)>;

  // `target` carries the attributes that every series gets. Without a filter all families pass.
  PageSeries(const ScrapedPage& page, EntityRef target, Filter passes = {}, SeriesRules rules = {});

  // After an Update of the page that read something, each of them. `body` is what it read; not
  // `complete`: what is missing on it is left as it was.
  void Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out);

  // Series of the page that have no series of ours: the table is full, or the page says one thing twice.
  uint32_t refused() const noexcept { return static_cast<uint32_t>(refused_.size()); }
  // What of the last page is not passed on as it is.
  const SeriesLosses& losses() const noexcept { return losses_; }
  size_t memory_bytes() const noexcept;

 private:
  // Between the page and its series, when rules are set.
  struct Governor {
    Governor(const ScrapedPage& page, const EntityRef& target, SeriesRules rules)
        : labels(page, std::move(rules)), groups(page, labels), series(groups, target) {}

    GovernedLabels labels;
    SeriesGroups groups;
    FoldedSeries series;
  };
  struct Family {
    const MetricDesc* desc = nullptr;  // null: none, or not to be had
    Ref<const Shape> last_shape;       // most series of a family have the same
    std::string name;
    ExpositionType type = ExpositionType::kUnknown;
    bool known = false, suffixed = false, changed = false;
    bool left_out = false;  // by the filter
  };
  // One series of the page, by its id.
  struct Entry {
    Series series;
    uint32_t first = 0;       // a scalar's slot; else the place of its first slot in cell_slots_
    uint32_t cells : 28 = 0;  // 0: a scalar
    uint32_t counts : 1 = 0;  // shaped: its last cell is a count that only grows
    uint32_t written : 1 = 0;
    uint32_t refused : 2 = 0;  // 1 + the SeriesLoss: it has no series
  };
  // When a counter says it began. Of another series than the present one of `id`: to be forgotten.
  struct Created {
    uint32_t id, slot;
    double unix_s;
    Series series;
  };

  void Follow(std::string_view body, ExpositionFormat format, SeriesTable& table);
  void UpdateFamilies(std::string_view body, ExpositionFormat format, SeriesTable& table);
  void LearnSuffixes(std::string_view body, ExpositionFormat format);
  void FollowGroups(SeriesTable& table);
  void CountLosses();
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

  const ScrapedPage& page_;
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
  SeriesLosses losses_;
  std::vector<uint32_t> owners_;   // slot to series id; only while the page has exemplars
  std::vector<PageCell> cells_;    // of the series being declared
  std::vector<PageLabel> labels_;  // of the same
};

}  // namespace gpulens
