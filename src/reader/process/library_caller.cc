#include "reader/process/library_caller.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <iterator>

namespace gpulens::reader {

constinit thread_local CallSlot* current_call = nullptr;

namespace {

constexpr int kEndingSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
std::atomic<CallPage*> the_page{nullptr};
struct sigaction actions_before[std::size(kEndingSignals)];

static_assert(offsetof(CallPage, main) == 0 && offsetof(CallPage, devices) == sizeof(CallSlot) &&
              offsetof(CallPage, waiting) == (kMaxDevices + 1) * sizeof(CallSlot));

// True when this thread is in a call. The first thread to report it is believed.
bool NameCall() noexcept {
  CallPage* page = the_page.load(std::memory_order_acquire);
  if (!page || !current_call) return false;
  const auto offset = reinterpret_cast<std::byte*>(current_call) - reinterpret_cast<std::byte*>(page);
  if (offset < 0 || static_cast<size_t>(offset) >= sizeof(CallPage)) return false;
  uint32_t none = 0;
  page->ended_in.compare_exchange_strong(
      none, static_cast<uint32_t>(static_cast<size_t>(offset) / sizeof(CallSlot)) + 1);
  return true;
}

// Async-signal-safe calls only. The signal is blocked meanwhile and comes again when this returns. What
// another process or abort() has sent has no fault that a sanitizer could report.
void OnEnding(int signal, siginfo_t* info, void*) {
  NameCall();
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  for (size_t i = 0; i < std::size(kEndingSignals); ++i) {
    if (kEndingSignals[i] == signal)
      ::sigaction(signal, info->si_code > 0 ? &actions_before[i] : &plain, nullptr);
  }
  ::raise(signal);
}

// A library that calls exit() would have other threads run on while what they use is taken down.
void OnExit(int status, void*) {
  if (NameCall()) ::_exit(status);
}

}  // namespace

void NameEndingCallOn(CallPage& page) {
  const bool first = the_page.exchange(&page, std::memory_order_acq_rel) == nullptr;
  if (!first) return;
  struct sigaction action{};
  action.sa_sigaction = &OnEnding;
  action.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < std::size(kEndingSignals); ++i)
    ::sigaction(kEndingSignals[i], &action, &actions_before[i]);
  static_cast<void>(::on_exit(&OnExit, nullptr));
}

}  // namespace gpulens::reader
