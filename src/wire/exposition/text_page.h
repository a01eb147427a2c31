// Exposition pages of snapshots, and the cache of the page of the latest tick.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "core/frame.h"
#include "wire/exposition/layout_text.h"
#include "wire/packing.h"
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

// Keeps the page of the latest tick, plain and packed, for sinks that are pulled: made once per tick and
// coding if several clients request it, and freed as soon as it is sent if only one does.
//
// Thread-safe. `Ready` never waits for a page that is being made; `Make` does, and belongs on a worker.
//
// A page is large and most agents have one scraper, so bytes are owned by their requesters. They are
// kept for the rest of a tick once a second client has requested them, and from the start when the tick
// before had two.
class TickPage {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  // Writes the page of a snapshot. Called by one thread at a time, with an empty string that has room for
  // a page as large as the last one.
  using Render = std::function<void(const Snapshot& snapshot, std::string& out)>;

  explicit TickPage(Render render) : render_(std::move(render)) {}

  // The bytes for this snapshot if they are made already and still there, else null.
  Bytes Ready(const Snapshot& snapshot, bool gzip);
  Bytes Make(const Snapshot& snapshot, bool gzip);

 private:
  // One coding. The compressor is a taker of the plain bytes, as a scraper is.
  struct Coding {
    uint64_t tick = 0;  // 0: nothing was made
    std::weak_ptr<const std::string> bytes;
    Bytes kept;
    bool shared = false;      // had a second taker in `tick`
    bool was_shared = false;  // in the tick before
  };

  Bytes Take(Coding& coding, uint64_t tick);
  void Begin(Coding& coding, uint64_t tick);
  void Put(Coding& coding, const Bytes& bytes);
  Bytes MakePlain(const Snapshot& snapshot);

  const Render render_;
  std::mutex making_;  // guards the renderer, the compressor and room_
  GzipCompressor gzip_;
  size_t room_ = 0;
  std::mutex mutex_;  // guards what follows
  Coding plain_, packed_;
};

}  // namespace gpulens
