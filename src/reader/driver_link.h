// The pieces of a running reader process: the child, its socket, its page.
#pragma once

#include <cstdint>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/process.h"
#include "reader/source.h"

namespace gpulens::driver {

// Used by one thread.
class DriverLink {
 public:
  DriverLink() noexcept = default;
  ~DriverLink() { Close(); }
  DriverLink(const DriverLink&) = delete;
  DriverLink& operator=(const DriverLink&) = delete;

  struct How {
    uint64_t left_out = 0;  // Devices not to touch.
    bool watch = true;      // Whether it waits for the library's events.
  };
  // A fresh socket, a fresh page of zeros and a child that has both.
  Status Start(const SourceOptions& options, const How& how);
  // Closes socket and page; the child is left as it is.
  void Close() noexcept;

  bool started() const noexcept { return page_ != nullptr; }
  // Only while started.
  const CallPage& page() const noexcept { return *page_; }

  ChildProcess child;
  UniqueFd socket;

 private:
  CallPage* page_ = nullptr;
};

}  // namespace gpulens::driver
