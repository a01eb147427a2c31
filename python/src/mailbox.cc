#include "src/mailbox.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace gpulens::python {
namespace {

constexpr Duration kOpenTimeout = std::chrono::seconds(3), kReadTimeout = std::chrono::seconds(1);

}  // namespace

void Mailbox::Renew() {
  // Waiting threads are not here; their memory is leaked.
  static_cast<void>(state_.release());
  state_ = std::make_unique<State>();
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) state_->closed = true;
  state_->read_end.reset(ends[0]);
  state_->write_end.reset(ends[1]);
}

Mailbox::Answer Mailbox::Query(int what, Duration timeout) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.closed) {
    ++state.serial;
    state.what = what;
    state.waiting = true;
    const char byte = 1;
    // A full pipe wakes Python as well.
    if (::write(state.write_end.get(), &byte, 1) < 0) state.closed = true;
    state.came.wait_for(lock, timeout, [&] { return state.closed || state.answered == state.serial; });
    state.waiting = false;
    if (state.answered == state.serial) return std::exchange(state.answer, {});
  }
  if (state.closed) return {{Code::kUnavailable, "the source is closed"}, {}, {}};
  return {
      {Code::kTimeout, "Python did not answer in time: read() is slow, or other code holds the GIL"}, {}, {}};
}

Mailbox::Request Mailbox::Take() {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (!state.waiting || state.answered == state.serial) return {};
  return {state.serial, state.what};
}

void Mailbox::Give(uint64_t serial, Answer answer) {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (serial != state.serial || !state.waiting) return;
  state.answer = std::move(answer);
  state.answered = serial;
  state.came.notify_all();
}

void Mailbox::Close() {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  state.closed = true;
  state.write_end.reset();
  state.came.notify_all();
}

Result<std::vector<EnergyDevice>> MailboxSource::Open() {
  Mailbox::Answer answer = box_->Query(Mailbox::kOpen, kOpenTimeout);
  if (!answer.status.ok()) return answer.status;
  return std::move(answer.devices);
}

Status MailboxSource::Read(size_t device, EnergyReading& out) {
  Mailbox::Answer answer = box_->Query(static_cast<int>(device), kReadTimeout);
  out = answer.reading;
  return answer.status;
}

}  // namespace gpulens::python
