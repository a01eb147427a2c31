// The series of a GPU exporter's page under native names and in native units.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "scrape/gpu/page_entities.h"
#include "scrape/gpu/page_row.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::gpu_page {

// A row of an exporter's tables that reads a family.
struct Match {
  const PageRow* row;
  uint32_t order;      // in the tables
  std::string number;  // what '#' stands for
};

// The exporter whose tables read the most families of a page; null: none reads any.
struct DetectedExporter {
  const Exporter* exporter = nullptr;
  size_t families = 0;  // that its tables read
};
DetectedExporter DetectExporter(const ScrapedPage& page);

// Follows one ScrapedPage by the tables of its exporter. Used inside its instance's run: not thread-safe. A
// Write of a page whose series stayed does not allocate.
//
// What is declared depends on the last page alone, not on those before it. Two lines that say the same
// reading (an old and a new name, a GPU's number once for each MIG instance) make one series: the earlier
// row of the table wins, then the line of the whole GPU, then the lowest part, then the lowest clock_index.
class GpuPageSeries {
 public:
  // `exporter` null: found out from the first page that has families of one.
  GpuPageSeries(const ScrapedPage& page, const Exporter* exporter,
                std::vector<std::pair<std::string, std::string>> more = {});

  // After an Update of the page that read something, each of them. Not `complete`: what is missing on the
  // page is left as it was. kDataLoss: no family on it is one of a GPU exporter that we know.
  Status Write(bool complete, FrameWriter& out);

  // Null before it is known.
  const Exporter* exporter() const noexcept { return exporter_; }
  // Families of the last page that are neither in a table nor among those known to have no native name.
  size_t unknown_families() const noexcept { return unknown_; }
  // Whether the tables read a family; the others may be passed on as they are.
  bool Reads(const ExpositionFamily& family) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A series that the page may make.
  struct Candidate {
    const PageRow* row = nullptr;
    const MetricDesc* metric = nullptr;
    EntityRef entity;
    AttributeSet extra;
    std::string group, name;  // equal groups are one reading; the name tells series apart
    std::string gpu;          // metric and GPU, for parts that stand for the whole
    uint64_t rank = 0;
    uint32_t slot = kNone, slot2 = kNone;
    bool of_part = false;
  };
  struct Held {
    std::vector<Series> series;
    uint64_t used = 0;
  };
  struct Live {
    const PageRow* row;  // null: always 1
    uint32_t slot, slot2;
    const Held* held;
  };

  void Follow(SeriesTable& table);
  void Gather();
  void GatherSeries(uint32_t id, const std::vector<Match>& matches);
  void AddCandidate(const Match& match, const Subject& subject, uint32_t id);
  void AddFacts(const Subject& subject);
  void AddFact(const MetricDesc& metric, EntityRef entity, AttributeSet extra);
  AttributeSet Extra(const Match& match) const;
  void DropWholes();
  void PickWinners();
  void Reconcile(SeriesTable& table);
  static void SetOne(const PageRow& row, double raw, const Held& held, FrameWriter& out);

  const ScrapedPage& page_;
  const Exporter* exporter_;
  Entities entities_;
  bool followed_ = false;
  uint64_t generation_ = 0, round_ = 0;
  size_t unknown_ = 0;
  std::vector<Live> live_;
  std::map<std::string, Held> held_;
  std::vector<Candidate> candidates_;  // only while following
  std::vector<PageLabel> labels_;      // of the series being gathered
  std::vector<PageCell> cells_;
};

// Whether an exporter's number says "I do not know": the blanks of DCGM in three widths, and all bits set.
bool IsBlank(double raw) noexcept;

}  // namespace gpulens::gpu_page
