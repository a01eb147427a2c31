// Calls a vendor library from a reader process: announces calls on the shared page, names the call that ends
// the process, and spaces out what the library does not answer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "reader/call_page.h"
#include "reader/vendor.h"

namespace gpulens::reader {

// The slot of the call that this thread is in; null outside of calls.
extern constinit thread_local CallSlot* current_call;

// From now on a signal that ends the process, and exit() out of a call, first name the call on `page`, which
// stays mapped for ever. The signal then does what it would have done. Not thread-safe; of several pages
// the last one holds.
void NameEndingCallOn(CallPage& page);

// Announces library calls on the shared page, and counts them. Used by one thread; slot and clock outlive it.
class CallGate {
 public:
  CallGate(CallSlot& slot, const Clock& clock) noexcept : slot_(slot), clock_(clock) {}

  void Begin(CallNumber call) noexcept {
    last_boot_ns_ = clock_.Now().boot_ns;
    slot_.Begin(call, last_boot_ns_);
    current_call = &slot_;
  }
  void End() noexcept {
    current_call = nullptr;
    slot_.End();
    ++calls_;
  }
  int64_t now() const noexcept { return clock_.Now().boot_ns; }
  // When the last call began.
  int64_t last_boot_ns() const noexcept { return last_boot_ns_; }
  uint64_t calls() const noexcept { return calls_; }

 private:
  CallSlot& slot_;
  const Clock& clock_;
  int64_t last_boot_ns_ = 0;
  uint64_t calls_ = 0;
};

// Calls functions of one library, one at a time: announces each on the shared page and times it. `kMissing`
// is the code for a function that the library lacks. Used by one thread; the library, the slot and the clock
// outlive it.
template <class Symbols, int kMissing>
class LibraryCaller {
 public:
  template <class Library>
  LibraryCaller(const Library& library, CallSlot& slot, const Clock& clock) noexcept
      : fn_(library.fn()), gate_(slot, clock) {}

  const Symbols& fn() const noexcept { return fn_; }
  // The library's return code.
  template <class Call, class... Parameters, class... Arguments>
  int Do(const LibraryFunction<Call, int(Parameters...)>& function, Arguments... arguments) {
    if (!function) return kMissing;
    gate_.Begin(static_cast<CallNumber>(function.call));
    int code = function.pointer(arguments...);
    gate_.End();
    return code;
  }
  // Calls the newer of two functions that do the same if the library has it, else the older one.
  template <class Function, class... Arguments>
  int DoEither(const Function& newer, const Function& older, Arguments... arguments) {
    return Do(newer ? newer : older, arguments...);
  }
  int64_t now() const noexcept { return gate_.now(); }
  // When the last call began.
  int64_t last_boot_ns() const noexcept { return gate_.last_boot_ns(); }
  uint64_t calls() const noexcept { return gate_.calls(); }

 private:
  const Symbols& fn_;
  CallGate gate_;
};

// Used by one thread. Answers that something is not supported, or that an argument is not known, are as a
// rule for ever, but a library gives them for a moment, too, while a driver is being loaded or a GPU
// recovers. So what has worked before is called again soon and then ever later, and what has never worked
// each hour. A failed call is repeated after a second and then ever later, before its tier has its turn.
class QueryBackoff {
 public:
  static constexpr Duration kNeverWorked = std::chrono::hours(1), kWorked = std::chrono::seconds(5),
                            kFailed = std::chrono::seconds(1), kFailedLongest = std::chrono::seconds(60);

  void Take(ReadStatus status, int64_t boot_ns) noexcept {
    absent_ = status == ReadStatus::kNotSupported;
    failed_ = status == ReadStatus::kError;
    if (status == ReadStatus::kOk) worked_ = true;
    if (!absent_ && !failed_) {
      times_ = 0;
      return;
    }
    Duration first = failed_ ? kFailed : worked_ ? kWorked : kNeverWorked;
    Duration longest = failed_ ? kFailedLongest : kNeverWorked;
    next_ns_ = boot_ns + std::min<Duration>(first * (1 << times_), longest).count();
    times_ = std::min(times_ + 1, 10);
  }
  // It is not supported, and not due yet.
  bool Rests(int64_t boot_ns) const noexcept { return absent_ && boot_ns < next_ns_; }
  // The same, or it failed a moment ago.
  bool Waits(int64_t boot_ns) const noexcept { return (absent_ || failed_) && boot_ns < next_ns_; }
  // It is due although its tier is not.
  bool Due(int64_t boot_ns) const noexcept { return (absent_ || failed_) && boot_ns >= next_ns_; }
  bool absent() const noexcept { return absent_; }
  bool worked() const noexcept { return worked_; }  // Once at least.

 private:
  int64_t next_ns_ = 0;
  int times_ = 0;  // In a row.
  bool absent_ = false, failed_ = false, worked_ = false;
};

}  // namespace gpulens::reader
