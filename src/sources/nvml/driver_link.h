// The pieces of a running driver process: the child, its socket, its page; and words for its faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/process.h"
#include "sources/nvml/driver_supervisor.h"
#include "sources/nvml/nvml_calls.h"

namespace gpulens::nvml {

// Used by one thread.
class DriverLink {
 public:
  DriverLink() noexcept = default;
  ~DriverLink() { Close(); }
  DriverLink(const DriverLink&) = delete;
  DriverLink& operator=(const DriverLink&) = delete;

  // A fresh socket, a fresh page of zeros and a child that has both. `left_out`: GPUs not to touch.
  Status Start(const SourceOptions& options, uint64_t left_out);
  // Closes socket and page; the child is left as it is.
  void Close() noexcept;

  // Only while started.
  const CallPage& page() const noexcept { return *page_; }

  ChildProcess child;
  UniqueFd socket;

 private:
  CallPage* page_ = nullptr;
};

// What has happened and waits to be taken: a bounded number of it. Used by one thread.
class DriverNotes {
 public:
  DriverNotes();
  void Add(DriverChange change);
  // The number of events for which there was no room.
  size_t Add(const EventsReport& report);
  void TakeEvents(std::vector<DeviceEvent>& out);
  void TakeChanges(std::vector<DriverChange>& out);

 private:
  std::vector<DeviceEvent> events_;
  std::vector<DriverChange> changes_;
};

DriverFault FaultOf(const LibraryReport& report) noexcept;
// What is wrong and what to do about it.
std::string Sentence(const LibraryReport& report);

}  // namespace gpulens::nvml
