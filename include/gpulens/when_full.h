// What queues do with an item for which they have no room.
#pragma once

#include <cstdint>

namespace gpulens {

// Applies to a message that is sent, or to a record. InferenceStore has kBlock and kDropNewest.
enum class WhenFull : uint8_t {
  kBlock,       // waits for room
  kReject,      // returns kExhausted
  kDropOldest,  // drops the oldest item
  kDropNewest,  // drops the new item
};

}  // namespace gpulens
