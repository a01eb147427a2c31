// The latest events of the agent, and /api/events. What an earlier run of the agent stored comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/api.h"
#include "base/clock.h"
#include "core/frame.h"

namespace gpulens {

struct Incident;

// Thread-safe.
class EventRing {
 public:
  // The oldest go first when there are more, or all of them have more bytes as JSON.
  static constexpr size_t kMostEvents = 2000, kMostBytes = 1 << 20;

  struct Options {
    std::string store;     // file of incidents; empty: there is none
    int64_t start_ns = 0;  // when this run began; what was stored later came from Add, too
  };

  EventRing() = default;
  // Call before the others.
  void Begin(Options options) { options_ = std::move(options); }

  // Adds events, with the attributes of their entities. Returns each as the JSON of docs/api.md, in their
  // order.
  std::vector<std::string> Add(const Events& events);

  struct Query {
    int64_t since_ms = 0;
    std::optional<int64_t> gpu_index;
    size_t limit = 1000;
  };
  // The newest `limit` matches as JSON, newest first. The first call reads the store, for some milliseconds.
  std::vector<std::string> Find(const Query& query);

 private:
  struct Kept {
    int64_t unix_ms = 0;
    std::optional<int64_t> gpu_index;
    std::string json;
  };

  static Kept MakeKept(const Incident& incident);
  void Insert(Kept kept);
  void ReadStore();

  Options options_;
  std::once_flag store_read_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<Kept> kept_;     // by time
  size_t bytes_ = 0;
};

void AddEventsPage(Api& api, EventRing& ring, const Clock& clock);

}  // namespace gpulens
