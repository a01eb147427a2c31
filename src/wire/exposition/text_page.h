// Exposition pages of snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "core/frame.h"
#include "wire/exposition/layout_text.h"
#include "wire/per_layout.h"

namespace gpulens {

// Writes the pages of one output in one format. Between layout changes a page is the same text with other
// numbers, so a steady Render copies prepared bytes and formats numbers: no allocation once its buffer has
// grown, no lookup.
//
// One page has one TYPE per family, one family per name and one value per series: a native family beats a
// passed-on one, then a name that is written as it is beats one that became the same by escaping, then the
// earlier frame wins; series and lines that lose are left out and counted. Not thread-safe.
class TextPage {
 public:
  struct Losses {
    uint64_t type_conflicts = 0;  // series left out since their family has another type here
    uint64_t duplicates = 0;      // lines left out since an equal one comes first
    uint64_t name_clashes = 0;    // lines left out since escaping gives their family another one's name
  };

  TextPage(PageForm form, SeriesNamer namer) : form_(form), format_(form.format), namer_(std::move(namer)) {}

  // Families that show HELP and TYPE even without a sample.
  void AlwaysShow(std::vector<NamedSeries> families);

  // Writes the page of `snapshot` to `out` (cleared first). Stale values carry the time when they
  // were read; fresh ones carry none.
  void Render(const Snapshot& snapshot, std::string& out);

  const Losses& losses() const noexcept { return losses_; }
  // Lines with a number on the last page.
  uint64_t samples() const noexcept { return samples_; }

 private:
  // A run of lines of one family from one layout.
  struct Segment {
    const std::string* header = nullptr;  // set on the first segment of a family
    const LayoutText* text = nullptr;
    uint32_t frame = 0;
    uint32_t first = 0, count = 0;
    size_t bytes = 0;  // of its lines, without numbers
    bool always = false;
  };
  class Merger;

  const LayoutText& TextFor(const Ref<const Layout>& layout);
  void Plan(const Snapshot& snapshot);
  char* RenderSegment(const Segment& segment, const SnapshotEntry& entry, char* at);
  char* AppendExemplar(char* at, const Frame& frame, uint32_t cell) const;

  const PageForm form_;
  const ExpositionFormat format_;
  const SeriesNamer namer_;
  PerLayout<LayoutText> texts_;
  LayoutText always_;
  PlannedFrames planned_;
  std::vector<Segment> segments_;
  size_t fixed_bytes_ = 0, lines_ = 0;  // of the plan: for the buffer's size
  size_t made_bytes_ = 0;               // of texts made since the last plan
  const std::string* pending_header_ = nullptr;
  uint64_t samples_ = 0;
  Losses losses_;
};

}  // namespace gpulens
