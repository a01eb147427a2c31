// Queue of reported events, and of the events that wait for the sinks.
//
//   collector ─ Report ─▶ queue ─ Take ─▶ analyzer gpu_events ─ Publish ─▶ queue ─ TakeReady ─▶ sinks
//
// The analyzer joins reports of several sources about one event; without it nothing is exported.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Thread-safe. Does not wait for readers: above kMaxWaiting events, further ones are dropped and counted.
// Bodies of returned events are valid UTF-8.
class EventQueue {
 public:
  static constexpr size_t kMaxWaiting = 4096;

  void Report(Event event);
  // Reports whether a source of XIDs works. Counters of XIDs are absent while none does.
  void Watches(std::string_view source, bool works);
  // Counts events that a source suppressed by its rate limit.
  void Suppressed(uint64_t count);

  // For the analyzer: events reported since the last call, oldest first.
  std::vector<Event> Take();
  bool Watched() const;
  bool Watched(std::string_view source) const;
  // Queues an event for the sinks.
  void Publish(Event event);
  // For the pipeline: events published since the last call, oldest first.
  std::vector<Event> TakeReady();

  uint64_t dropped() const;
  uint64_t suppressed() const;

 private:
  void Add(std::vector<Event>& to, Event event);

  mutable std::mutex mutex_;
  std::vector<Event> waiting_, ready_;
  std::vector<std::string> watching_;
  uint64_t dropped_ = 0, suppressed_ = 0;
};

}  // namespace gpulens
