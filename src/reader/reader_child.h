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
#include "base/sandbox/launcher.h"
#include "reader/call_page.h"

namespace gpulens::reader {

struct SourceOptions {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;    // Before those that the source adds: "reader", "amdsmi".
  std::vector<std::string> environment;  // "KEY=value", added to ours.
  std::vector<int> inherited;            // Descriptors that it has under the same numbers.
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

// What lets the launcher start this reader process, with any periods, devices left out and simulated devices.
// The library and the folder of devices are as in the options.
ProgramRule ReaderRule(const SourceOptions& options);
// Variables that vendor libraries and simulated ones read, for the rule of any process that opens them.
std::vector<std::string> ReaderVariables();

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

// Reader processes that were killed and have not ended yet. Used by one thread; never waits.
class ProcessReaper {
 public:
  // Kills it.
  void Take(ChildProcess child, int64_t boot_ns);
  // Reaps processes that have ended. `stuck` receives those that were killed more than a second ago and still
  // exist, such as a process in state D. Returns the pid of one that is stuck for the first time, or -1.
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

struct CrashCulprit {
  enum Who : uint8_t { kUnknown, kMain, kDevice, kWaiting } who = kUnknown;
  uint32_t device = 0;        // In kDevice.
  CallNumber call = kNoCall;  // May be a number that is no call.
  friend bool operator==(const CrashCulprit&, const CrashCulprit&) noexcept = default;
};

// Returns which call ended or stopped a process: the one that the process named at its end, else, with
// `in_call`, that of the only device that is in a call by the page of that moment.
CrashCulprit CulpritOf(const CallPage& page, bool in_call) noexcept;

// Records how reader processes ended, and decides how the next one starts: after unexplained ends it begins
// its devices one at a time, so that another end shows the device; and the thread that waits for the
// library's events is not started for a while when it ended the process again. DeviceTable counts the devices
// that end processes. Used by one thread.
class CrashHistory {
 public:
  struct Limits {
    Duration interval, deadline;  // of its readings
    Duration healthy;             // a process that lives so long clears the history
    Duration rest;                // how long no thread waits for events
  };
  explicit CrashHistory(Limits limits) noexcept : limits_(limits) {}

  // A process is being started, in the way that the two below return.
  void Start(Instant now) noexcept;
  bool one_by_one() const noexcept { return one_by_one_; }
  bool waits_for_events() const noexcept;
  // The process was requested to begin with this device.
  void Begun(uint32_t device, Instant now) noexcept;

  // Finds what ended the process, or keeps it from answering, and remembers it. `in_call`: the process
  // stopped still where it failed. A device without a call is the one that was begun last.
  CrashCulprit Blame(const CallPage& page, bool in_call, Instant now) noexcept;
  // What failed may have been repaired.
  void Forget() noexcept { unexplained_ = event_ends_ = 0; }

 private:
  const Limits limits_;
  int unexplained_ = 0, event_ends_ = 0;
  int64_t event_end_ns_ = 0;
  bool one_by_one_ = false;
  int64_t started_ns_ = 0;
  uint32_t begun_ = kMaxDevices;  // The last one; kMaxDevices: none yet.
  int64_t begun_ns_ = 0;
};

}  // namespace gpulens::reader
