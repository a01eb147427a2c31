// A reader process of the agent: how it is started, its socket and call page, and how it is reaped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "reader/call_page.h"

namespace gpulens::reader {

struct SourceOptions {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;    // Before those that the source adds: "reader", "amdsmi".
  std::vector<std::string> environment;  // "KEY=value", added to ours.
  std::string library_path;              // Empty: the usual places.
  std::string build_id;
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10), slow = std::chrono::seconds(60);
  Duration deadline{0};  // For a call and for a heartbeat; 0: two intervals.
  // For opening the library and waking a device, which may rightly take long.
  Duration slow_deadline = std::chrono::seconds(30);
  Duration backoff_first = std::chrono::milliseconds(100), backoff_limit = std::chrono::seconds(30);
  // The limit while devices answer before the process ends: their values must not run out meanwhile.
  Duration backoff_limit_answering = std::chrono::seconds(3);
  Duration healthy = std::chrono::minutes(1);  // after so long the back-off restarts
  Duration retry_left_out = std::chrono::minutes(5);
  // A device lost or hung for so long: the library is opened again, which alone can find it, and ends
  // the call. Twice as late each time, up to 16 times.
  Duration retry_lost = std::chrono::seconds(60);
  std::string device_folder;  // Empty: the kernel driver's. See ReaderProcessOptions.
};

// A running reader process: the child, its socket, its call page. Used by one thread.
class ReaderLink {
 public:
  ReaderLink() noexcept = default;
  ~ReaderLink() { Close(); }
  ReaderLink(const ReaderLink&) = delete;
  ReaderLink& operator=(const ReaderLink&) = delete;

  struct StartOptions {
    uint64_t left_out = 0;  // Devices not to touch.
    bool watch = true;      // Whether it waits for the library's events.
  };
  // A fresh socket, a fresh page of zeros and a child that has both.
  Status Start(const SourceOptions& options, const StartOptions& how);
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

// Reader processes that were killed and have not ended yet.

// Used by one thread. Waits for nothing: what the kernel does not end at once is looked at again later.
class Reaper {
 public:
  // Kills it.
  void Take(ChildProcess child, int64_t boot_ns);
  // Reaps what has ended. `stuck`: those that were killed more than a second ago and are still there, as a
  // process in state D is. The pid of one that is found stuck for the first time; -1 when there is none.
  pid_t Reap(Instant now, std::vector<int>& stuck);
  bool empty() const noexcept { return dying_.empty(); }

 private:
  struct Dying {
    ChildProcess child;
    int64_t since_ns;
    bool reported = false;
  };
  std::vector<Dying> dying_;
};

}  // namespace gpulens::reader
