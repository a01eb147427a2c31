// Where plugins report that something happened, and where what became of it waits for the sinks.
//
//   collector ─ Report ─▶ desk ─ Take ─▶ analyzer gpu_events ─ Publish ─▶ desk ─ TakeReady ─▶ sinks
//
// The analyzer joins what several sources say of one happening; without it nothing is delivered.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Thread-safe. Never waits for a reader: when kMaxWaiting events wait, a further one is dropped and
// counted. The bodies it gives out are valid UTF-8, as attributes are.
class EventQueue {
 public:
  static constexpr size_t kMaxWaiting = 4096;

  void Report(Event event);
  // Says that a source of XIDs works, or no longer does. While none does, counters of XIDs are absent:
  // a 0 would be a promise.
  void Watches(std::string_view source, bool works);
  // A source saw a happening of a kind that it reports only so often, and kept it to itself.
  void Suppressed(uint64_t count);

  // For the analyzer. What was reported since the last call, oldest first.
  std::vector<Event> Take();
  bool Watched() const;
  bool Watched(std::string_view source) const;
  // Ready for the sinks.
  void Publish(Event event);
  // For the pipeline. What was published since the last call, oldest first.
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
