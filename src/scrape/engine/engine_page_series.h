// Series of an engine's page as metrics of the catalogue, in its units, by the tables of engines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "scrape/engine/engine_families.h"
#include "scrape/engine/engine_plan.h"
#include "scrape/series_rules.h"

namespace gpulens::engine_page {

// Follows one ParsedPage. Used inside its instance's run: not thread-safe. A Write of a page whose series
// stayed does not allocate.
//
// Series belong to an entity "engine" with `target`, `inference.engine` and `inference.layer`, one for each
// engine on the page. Series of the page that become equal (a personal label was dropped) are combined by
// EngineMetric::combine; of families that mean the same, the first row of the table wins.
//
// A counter restarts when it falls, when its `_created` changes, and, without one, when the page's
// process_start_time_seconds does: these programs count from 0 when they start.
class EnginePageSeries {
 public:
  struct Options {
    std::string target = {};         // the attribute of that name
    const Engine* engine = nullptr;  // as configured; null: detected from the names on the page
    std::string model = {};          // model.name of series that the page gives none
    std::vector<std::pair<std::string, std::string>> attributes = {};  // of every series
    int64_t pid = 0;         // process that serves the page, a hidden fact of the entities; 0: unknown
    SeriesRules rules = {};  // of the target
  };

  EnginePageSeries(const ParsedPage& page, Options options);

  // Call after every Update that read something. Samples that an incomplete page lacks keep their values.
  // kDataLoss: no family is of a known engine.
  Status Write(bool complete, FrameWriter& out);

  // Sets the model of series that have none of their own.
  void SetModel(std::string_view model);

  // Families of the last page.
  const PageFamilies& families() const noexcept { return families_; }
  uint64_t generation() const noexcept { return generation_; }
  // Series of the last page that are not exported as they are.
  const SeriesDrops& drops() const noexcept { return drops_; }

 private:
  struct Held {
    Series series;
    Ref<const Shape> shape;
    uint64_t used = 0;
    double created_s = 0;  // when the youngest of its members was created; 0: unknown
  };
  // A series and its numbers: `members` times `cells` slots from `first` on.
  struct Live {
    Series series;
    Held* held = nullptr;
    uint32_t first_created = 0, created = 0;  // in created_; 0 for a gauge
    uint32_t first = 0, members = 0, cells = 0;
    SeriesReading reading = SeriesReading::kNumber;
    Combine combine = Combine::kSum;
    bool has_sum = false, counts = false, written = false;
    double scale = 1;
  };
  void Follow(SeriesTable& table);
  Live MakeLive(const SeriesPlan& plan);
  Series Declare(const SeriesPlan& plan, SeriesTable& table);
  bool Seen(const Live& live) const noexcept;
  double Number(const Live& live, uint32_t cell) const noexcept;
  void WriteShaped(Live& live, FrameWriter& out);
  void FindProcessStart();
  bool ProcessRestarted() noexcept;
  void RestartCreated(const Live& live, bool process_restarted, SeriesTable& table) const;

  const ParsedPage& page_;
  Options options_;
  PageFamilies families_;
  GovernedLabels labels_;
  SeriesDrops drops_;
  bool followed_ = false;
  uint64_t generation_ = 0, round_ = 0;
  std::map<std::string, Held> held_;  // by the identity of the series
  std::vector<Live> live_;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> created_;          // slots of times of creation
  std::optional<uint32_t> process_start_;  // a slot
  double process_started_s_ = 0;           // 0: unknown
  std::vector<double> constants_;          // by index of slots_, where a label holds the number
};

}  // namespace gpulens::engine_page
