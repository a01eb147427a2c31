// An engine's page as series of roles: what its families mean, in the units of the catalogue.
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
#include "scrape/engine/engine_candidates.h"
#include "scrape/engine/engine_families.h"
#include "scrape/governed_labels.h"
#include "scrape/series_losses.h"

namespace gpulens::engine_page {

// Follows one ScrapedPage. Used inside its instance's run: not thread-safe. A Write of a page whose series
// stayed does not allocate.
//
// Each role is a series on an entity "engine" with `target`, `inference.engine` and `inference.layer`;
// several engines on one page are several entities. Series of a page that become the same (a personal label
// was dropped) are combined as their role says; families that tell the same are not added: the first row of
// the table wins.
//
// What counts begins anew when it falls, when its `_created` on the page moves, and, where it has none, when
// the page's process_start_time_seconds does: these programs count from 0 when they start.
class EnginePageSeries {
 public:
  struct Options {
    std::string target = {};         // the attribute of that name
    const Engine* engine = nullptr;  // whose page it is; null: found out from the names on it
    std::string model = {};          // model.name of series that the page gives none
    std::vector<std::pair<std::string, std::string>> attributes = {};  // of every series
    SeriesRules rules = {};  // of the configuration; labels that a table maps are the table's
  };

  EnginePageSeries(const ScrapedPage& page, Options options);

  // After an Update of the page that read something, each of them. Not `complete`: what is missing on the
  // page is left as it was. kDataLoss: no family on it is one of an engine that we know.
  Status Write(bool complete, FrameWriter& out);

  // What the engine said of itself since; series without a model of their own get it.
  void SetModel(std::string_view model);

  // What the tables say of the last page.
  const PageFamilies& families() const noexcept { return families_; }
  uint64_t generation() const noexcept { return generation_; }
  // What of the last page has no series of its own.
  const SeriesLosses& losses() const noexcept { return losses_; }

 private:
  // A series of ours and where its numbers are: `members` times `cells` slots from `first` on.
  struct Held {
    Series series;
    Ref<const Shape> shape;
    uint64_t used = 0;
    double created_s = 0;  // when the youngest of its members was created; 0: unknown
  };
  struct Live {
    Series series;
    Held* held = nullptr;
    uint32_t first_created = 0, created = 0;  // in created_; none when it does not count
    uint32_t first = 0, members = 0, cells = 0;
    Reading reading = Reading::kNumber;
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

  const ScrapedPage& page_;
  Options options_;
  PageFamilies families_;
  GovernedLabels labels_;
  SeriesLosses losses_;
  bool followed_ = false;
  uint64_t generation_ = 0, round_ = 0;
  std::map<std::string, Held> held_;  // by the identity of the series
  std::vector<Live> live_;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> created_;          // slots of times of creation
  std::optional<uint32_t> process_start_;  // a slot
  double process_started_s_ = 0;           // 0: unknown
  std::vector<double> constants_;          // beside slots_ where a label holds the number
};

}  // namespace gpulens::engine_page
