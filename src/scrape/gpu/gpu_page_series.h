// Series of a GPU exporter's page under native names and in native units, by the tables of exporters.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "core/layout.h"
#include "scrape/gpu/exporters.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::gpu_page {

// Returns the value of a label, its name compared without regard to case; empty: absent.
std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept;

// The GPU, and its part, that a series is about; from its labels, with views into them.
struct SeriesSubject {
  EntityRef whole;       // the GPU, without workload when the series is of a part; null: no GPU is named
  EntityRef part;        // the part with its workload; null: the series is of the whole
  std::string_view gpu;  // identifies the GPU
  uint64_t part_number = 0;
  bool first_part = true;  // no other part repeats the numbers of the whole
  bool taken = true;       // false: another aggregation than the one that is used, or a part's own number
};

// Entities of a page by their labels: a GPU stays one object while it is on the page. Not thread-safe.
class PageEntities {
 public:
  // `more`: attributes of every entity.
  PageEntities(const PageLabels* labels, std::vector<std::pair<std::string, std::string>> more)
      : labels_(labels), more_(std::move(more)) {}

  void SetLabels(const PageLabels* labels) { labels_ = labels; }
  SeriesSubject SubjectOf(const std::vector<PageLabel>& labels);
  // Returns the entity of an NVSwitch; null when none is named.
  EntityRef SwitchOf(const std::vector<PageLabel>& labels);
  // Returns attributes from labels by a list of pairs; the first of equal keys wins.
  AttributeSet Pick(const std::vector<PageLabel>& labels, std::string_view pairs,
                    std::span<const AttributeSet::Attribute> first = {}) const;
  // Drops entities that were not used since the last call.
  void DropUnused();

 private:
  struct Kept {
    EntityRef entity;
    uint64_t used = 0;
  };
  std::string_view PartOf(const std::vector<PageLabel>& labels) const noexcept;
  EntityRef FindOrMake(std::string_view type, std::vector<AttributeSet::Attribute> attributes,
                       EntityRef parent);
  void AddWorkload(const std::vector<PageLabel>& labels,
                   std::vector<AttributeSet::Attribute>& attributes) const;

  const PageLabels* labels_;
  const std::vector<std::pair<std::string, std::string>> more_;
  std::map<std::string, Kept, std::less<>> kept_;
  uint64_t round_ = 1;
};

// A row that reads a family.
struct RowMatch {
  const PageRow* row;
  uint32_t order;      // in the table
  std::string number;  // in the place of '#'
};

struct DetectedExporter {
  const Exporter* exporter = nullptr;
  size_t families = 0;  // that its table reads
};
// Finds the exporter whose table reads the most families of a page; null: none reads any.
DetectedExporter DetectExporter(const ParsedPage& page);

// Follows one ParsedPage. Used inside its instance's run: not thread-safe. A
// Write of a page whose series stayed does not allocate.
//
// The declared series depend on the last page alone. Lines of one reading (an old and a new name, a GPU's
// number for each MIG instance) make one series: the earlier row of the table wins, then the line of the
// whole GPU, the lowest part, the lowest clock_index.
class GpuPageSeries {
 public:
  // `exporter` null: detected from the first page that has families of one. `more`: attributes of every
  // entity.
  GpuPageSeries(const ParsedPage& page, const Exporter* exporter,
                std::vector<std::pair<std::string, std::string>> more = {});

  // Call after every Update that read something. Samples that an incomplete page lacks keep their values.
  // kDataLoss: no family is of a known GPU exporter.
  Status Write(bool complete, FrameWriter& out);

  // Null before it is known.
  const Exporter* exporter() const noexcept { return exporter_; }
  // Families of the last page that are neither in the table nor ignored.
  size_t unknown_families() const noexcept { return unknown_; }
  // Whether the table reads a family.
  bool Reads(const ExpositionFamily& family) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A series that the page may make.
  struct Candidate {
    const PageRow* row = nullptr;
    const MetricDesc* metric = nullptr;
    EntityRef entity;
    AttributeSet extra;
    std::string group, name;  // equal groups are one reading; the name identifies the series
    std::string gpu;          // metric and GPU, for parts that replace the whole
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
  void GatherSeries(uint32_t id, const std::vector<RowMatch>& matches);
  void AddCandidate(const RowMatch& match, const SeriesSubject& subject, uint32_t id);
  void AddFacts(const SeriesSubject& subject);
  void AddFact(const MetricDesc& metric, EntityRef entity, AttributeSet extra);
  AttributeSet Extra(const RowMatch& match) const;
  void DropWholes();
  void PickWinners();
  void Reconcile(SeriesTable& table);
  static void SetReading(const PageRow& row, double raw, const Held& held, FrameWriter& out);

  const ParsedPage& page_;
  const Exporter* exporter_;
  PageEntities entities_;
  bool followed_ = false;
  uint64_t generation_ = 0, round_ = 0;
  size_t unknown_ = 0;
  std::vector<Live> live_;
  std::map<std::string, Held> held_;
  std::vector<Candidate> candidates_;  // only while following
  std::vector<PageLabel> labels_;      // of the series being gathered
  std::vector<PageCell> cells_;
};

// Whether an exporter's number is a sentinel: the blanks of DCGM in three widths, and all bits set.
bool IsBlank(double raw) noexcept;

}  // namespace gpulens::gpu_page
