// Cache of the page of the latest tick. Apart from text_page.h, which programs with the SDK use: they need no
// compressor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/frame.h"
#include "wire/packing.h"

namespace gpulens {

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
