// Drops what waits for a sink that will not come back. Safe beside an agent that runs and at any moment of a
// crash: a step that was not reached leaves the reader as it was, and no step touches another reader.
#pragma once

#include <cstdint>
#include <string>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/queue_places.h"

namespace gpulens {

struct QueueDrop {
  bool in_use = false;       // the process that has the folder frees the room within half a minute
  int64_t holder = 0;        // that process; 0: not known
  bool removed = false;      // the folder is gone: nobody else reads it
  uint64_t freed_bytes = 0;  // of files that are gone
};

// kUnavailable when nothing is kept there for the sink. Not ok otherwise: nothing was dropped, or, for
// kExhausted and kIo after the sink's place was removed, only the room is not free yet.
Result<QueueDrop> DropFromQueue(const QueuePlace& place, const std::string& sink, const Clock& clock);

// Removes a folder whose segments no reader will come for: a crash just after the last drop leaves it so.
// False when there is a reader, or anything that cannot be read, or when it is in use.
bool RemoveAbandoned(const QueuePlace& place, const Clock& clock);

}  // namespace gpulens
