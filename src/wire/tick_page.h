// One page of the latest tick, plain and packed: made at most once per tick and coding, then shared by
// all who ask. For sinks that are pulled; the words of the page are somebody else's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/frame.h"
#include "wire/gzip.h"

namespace gpulens {

// Thread-safe. `Ready` never waits for a page that is being made; `Make` does, and belongs on a worker.
class TickPage {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  // Writes the page of a snapshot. Called by one thread at a time, with an empty string that has room for
  // a page as large as the last one.
  using Render = std::function<void(const Snapshot& snapshot, std::string& out)>;

  explicit TickPage(Render render) : render_(std::move(render)) {}

  // The bytes for this snapshot if they are made already, else null.
  Bytes Ready(const Snapshot& snapshot, bool gzip) const;
  Bytes Make(const Snapshot& snapshot, bool gzip);

 private:
  const Render render_;
  std::mutex making_;  // guards the renderer, the compressor and room_
  GzipCompressor gzip_;
  size_t room_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  uint64_t made_for_ = 0;
  Bytes plain_, packed_;
};

}  // namespace gpulens
