#include "sdk/ring/actor.h"

#include <exception>
#include <system_error>

#include "base/check.h"
#include "base/threads.h"

namespace gpulens::internal {
namespace {

std::string Named(const std::string& id) { return "kernel \"" + id + "\""; }

Status LateBy(const std::string& id, std::string_view what) {
  return {Code::kTimeout, Named(id) + ": " + std::string(what)};
}

}  // namespace

using ring::MessageQueue;

template <bool kReported>
BasicActor<kReported>::BasicActor(ActorOptions options)
    : id_(std::move(options.id)),
      options_(options.options),
      body_(std::move(options.body)),
      messages_(options.messages, options_.queue_size, kReported && options.telemetry),
      replies_(options.replies, options_.queue_size, false) {
  if (!kReported || !options.telemetry) return;
  record_ = std::make_unique<ring::KernelRecord>(id_);
  record_->SetQueueLimit(options_.queue_size);
  record_->SetState(state_, Now());
}

template <bool kReported>
BasicActor<kReported>::~BasicActor() {
  CHECK(!thread_.joinable());
}

template <bool kReported>
bool BasicActor<kReported>::HasQueues() const {
  std::lock_guard lock(mutex_);
  return messages_.limit() > 0 && (replies_.limit() > 0 || !replies_.used());
}

template <bool kReported>
KernelState BasicActor<kReported>::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

template <bool kReported>
void BasicActor<kReported>::SetState(KernelState state) {
  state_ = state;
  if (has_telemetry()) record_->SetState(state, Now());
}

// Returns why nothing can be sent or received. Called under the lock.
template <bool kReported>
Status BasicActor<kReported>::Refused(std::string_view what) const {
  if (state_ == KernelState::kLaunched)
    return {Code::kInvalidArgument, Named(id_) + " is launched: activate it before you " + std::string(what)};
  if (state_ == KernelState::kFailed) return {Code::kUnavailable, Named(id_) + " has failed: " + failure_};
  return {Code::kUnavailable, Named(id_) + " is " + std::string(KernelStateName(state_))};
}

template <bool kReported>
template <class Ready>
void BasicActor<kReported>::Spin(const Ready& ready) const noexcept {
  if (options_.spin <= Duration::zero() || ready()) return;
  const TimePoint until = std::chrono::steady_clock::now() + options_.spin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  } while (!closed_.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < until);
}

template <bool kReported>
Status BasicActor<kReported>::Send(void* message, bool& full, std::optional<Duration> timeout) {
  Lock lock(mutex_);
  if (messages_.full() && Running() && options_.when_full == WhenFull::kBlock && timeout)
    Wait(room_, lock, *timeout, [this] { return !Running() || !messages_.full(); });
  if (!Running()) return timeout ? Refused("send") : Status{Code::kUnavailable, {}};
  if (messages_.full()) return SendToFull(message, timeout.has_value());
  const TimePoint now = Now();
  messages_.Push(message, now);
  full = false;
  queued_.store(messages_.size(), std::memory_order_relaxed);
  if (has_telemetry()) record_->Received(now, messages_.size());
  lock.unlock();
  arrived_.notify_one();
  return Ok();
}

// Called under the lock. `detailed`: return an error with a text, which allocates.
template <bool kReported>
Status BasicActor<kReported>::SendToFull(void* message, bool detailed) {
  const auto drop = [this](DropReason reason) {
    if (has_telemetry()) record_->Drop(reason, 1);
  };
  switch (options_.when_full) {
    case WhenFull::kBlock:
      drop(detailed ? DropReason::kTimeout : DropReason::kRejected);
      return detailed ? LateBy(id_, "its queue is full") : Status{Code::kExhausted, {}};
    case WhenFull::kReject:
      drop(DropReason::kRejected);
      return {Code::kExhausted, detailed ? Named(id_) + ": its queue is full" : std::string()};
    case WhenFull::kDropNewest: drop(DropReason::kNewest); break;
    case WhenFull::kDropOldest: {
      drop(DropReason::kOldest);
      const TimePoint now = Now();
      messages_.ReplaceOldest(message, now);  // the sender destroys it, outside of the lock
      if (has_telemetry()) record_->Received(now, messages_.size());
      break;
    }
  }
  return Ok();
}

template <bool kReported>
Status BasicActor<kReported>::Receive(void* to, bool& full, Duration timeout) {
  Spin([this] { return answered_.load(std::memory_order_relaxed) > 0; });
  Lock lock(mutex_);
  if (state_ == KernelState::kLaunched) return Refused("receive");
  if (!Wait(replied_, lock, timeout, [this] { return !replies_.empty() || !Running(); }))
    return LateBy(id_, "no reply");
  if (replies_.empty()) return Refused("receive");
  replies_.Pop(to);
  full = true;
  answered_.store(replies_.size(), std::memory_order_relaxed);
  lock.unlock();
  reply_room_.notify_one();
  return Ok();
}

// Counts the last message as processed, when the loop takes the next one or ends.
template <bool kReported>
void BasicActor<kReported>::Settle(TimePoint now) noexcept {
  if (!working_) return;
  working_ = false;
  if (has_telemetry()) record_->Processed(now, Seconds(now - taken_at_));
}

template <bool kReported>
Status BasicActor<kReported>::Take(void* to, bool& full, Duration timeout) {
  Lock lock(mutex_);
  if (working_) Settle(Now());
  const auto ready = [this] { return (state_ == KernelState::kActive && !messages_.empty()) || !Running(); };
  if (!ready() && options_.spin > Duration::zero()) {
    lock.unlock();
    Spin([this] { return queued_.load(std::memory_order_relaxed) > 0; });
    lock.lock();
  }
  if (!Wait(arrived_, lock, timeout, ready)) return LateBy(id_, "no message");
  if (!Running()) return Refused("receive");
  const TimePoint came = messages_.Pop(to);
  full = working_ = true;
  queued_.store(messages_.size(), std::memory_order_relaxed);
  if (has_telemetry()) {
    taken_at_ = Now();
    record_->SetDepth(messages_.size());
    record_->Took(Seconds(taken_at_ - came));
  }
  lock.unlock();
  if (options_.when_full == WhenFull::kBlock) room_.notify_one();
  return Ok();
}

template <bool kReported>
Status BasicActor<kReported>::Put(void* reply, bool& full) {
  Lock lock(mutex_);
  const TimePoint now = Now();
  const auto lost = [&](DropReason reason) {
    Settle(now);
    if (has_telemetry()) record_->Drop(reason, 1);
  };
  if (replies_.full() && options_.when_full == WhenFull::kBlock)
    reply_room_.wait(lock, [this] { return !replies_.full() || !Running(); });
  if (!Running()) return lost(DropReason::kTerminated), Refused("send");
  if (!replies_.full()) {
    replies_.Push(reply, now);
    full = false;
  } else if (options_.when_full == WhenFull::kDropOldest) {
    replies_.ReplaceOldest(reply, now);
    if (has_telemetry()) record_->Drop(DropReason::kReply, 1);
  } else {
    lost(DropReason::kReply);
    return options_.when_full == WhenFull::kReject
               ? Status{Code::kExhausted, Named(id_) + ": its queue of replies is full"}
               : Ok();
  }
  answered_.store(replies_.size(), std::memory_order_relaxed);
  Settle(now);
  if (has_telemetry()) record_->Sent(now);
  lock.unlock();
  replied_.notify_one();
  return Ok();
}

template <bool kReported>
void BasicActor<kReported>::Done() noexcept {
  Lock lock(mutex_);
  Settle(Now());
}

template <bool kReported>
void BasicActor<kReported>::Failed(const char* what) noexcept {
  Lock lock(mutex_);
  const TimePoint now = Now();
  if (has_telemetry()) record_->Error(now, what, working_ ? Seconds(now - taken_at_) : kNotMeasured);
  working_ = false;
}

template <bool kReported>
Status BasicActor<kReported>::Change(std::string_view what, KernelState from, KernelState to) {
  if (state_ != from)
    return {Code::kInvalidArgument, Named(id_) + " is " + std::string(KernelStateName(state_)) +
                                        "; only one that is " + std::string(KernelStateName(from)) +
                                        " can be " + std::string(what)};
  SetState(to);
  return Ok();
}

template <bool kReported>
Status BasicActor<kReported>::Activate() {
  Lock lock(mutex_);
  if (Status status = Change("activated", KernelState::kLaunched, KernelState::kActive); !status.ok())
    return status;
  if (Status started = StartThread(thread_, [this] { Run(); }); !started) {
    SetState(KernelState::kLaunched);
    return {Code::kExhausted, Named(id_) + ": " + started.detail};
  }
  running_ = true;
  cpu_.Watch(thread_.native_handle());
  return Ok();
}

template <bool kReported>
Status BasicActor<kReported>::Deactivate() {
  Lock lock(mutex_);
  return Change("deactivated", KernelState::kActive, KernelState::kDeactivated);
}

template <bool kReported>
Status BasicActor<kReported>::Reactivate() {
  Lock lock(mutex_);
  Status status = Change("reactivated", KernelState::kDeactivated, KernelState::kActive);
  if (status.ok()) arrived_.notify_all();
  return status;
}

template <bool kReported>
void BasicActor<kReported>::Run() {
  Lock(mutex_).unlock();  // Activate is done
  std::optional<std::string> why;
  try {
    body_->Run(*this);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = kNoKnownException;
  }
  if (why) Failed(why->c_str());
  Lock lock(mutex_);
  UpdateCpu();
  Settle(Now());
  running_ = false;
  if (why && Running()) failure_ = *why;
  // A loop that returned by itself has ended; Terminate handles one that was requested to end.
  if (Running()) SetState(why ? KernelState::kFailed : KernelState::kTerminated);
  MessageQueue unread = std::move(messages_);
  if (has_telemetry() && unread.size() > 0) record_->Drop(DropReason::kTerminated, unread.size());
  if (has_telemetry()) record_->SetDepth(0);
  closed_.store(true, std::memory_order_relaxed);
  for (auto* on : {&arrived_, &room_, &replied_, &reply_room_, &ended_}) on->notify_all();
  lock.unlock();
}

template <bool kReported>
void BasicActor<kReported>::DropQueued(MessageQueue& messages, MessageQueue& replies) {
  messages = std::move(messages_);
  replies = std::move(replies_);
  queued_.store(0, std::memory_order_relaxed);
  answered_.store(0, std::memory_order_relaxed);
  if (!has_telemetry()) return;
  record_->Drop(DropReason::kTerminated, messages.size() + replies.size());
  record_->SetDepth(0);
}

template <bool kReported>
void BasicActor<kReported>::Close() {
  MessageQueue messages, replies;  // destroyed outside of the lock
  Lock lock(mutex_);
  if (state_ == KernelState::kTerminating || state_ == KernelState::kTerminated) return;
  SetState(KernelState::kTerminating);
  closed_.store(true, std::memory_order_relaxed);
  DropQueued(messages, replies);
  for (auto* on : {&arrived_, &room_, &replied_, &reply_room_}) on->notify_all();
  lock.unlock();
}

template <bool kReported>
Status BasicActor<kReported>::Terminate(Duration timeout) {
  Close();
  MessageQueue messages, replies;
  std::thread ended;
  std::unique_ptr<KernelBody> body;
  Lock lock(mutex_);
  if (thread_.get_id() == std::this_thread::get_id() && thread_.joinable())
    return {Code::kInvalidArgument, Named(id_) + " cannot wait for itself; it will end"};
  if (!Wait(ended_, lock, timeout, [this] { return !running_; }))
    return LateBy(id_, "its handler is still at work");
  if (state_ != KernelState::kTerminated) SetState(KernelState::kTerminated);
  DropQueued(messages, replies);
  ended = std::move(thread_);
  body = std::move(body_);
  lock.unlock();
  if (ended.joinable()) ended.join();
  return Ok();
}

// Called under the lock.
template <bool kReported>
void BasicActor<kReported>::UpdateCpu() const noexcept {
  if (!has_telemetry() || !running_) return;
  if (const auto seconds = cpu_.Seconds()) record_->SetCpu(*seconds);
}

template <bool kReported>
ring::KernelRecord& BasicActor<kReported>::Record() const {
  CHECK(record_);  // directories contain only actors with telemetry
  UpdateCpu();
  return *record_;
}

template <bool kReported>
KernelTelemetry BasicActor<kReported>::Copy() const {
  Lock lock(mutex_);
  return Record().Copy(Now(), std::chrono::system_clock::now());
}

template <bool kReported>
void BasicActor<kReported>::AddTo(ring::KernelTotals& totals) const {
  Lock lock(mutex_);
  Record().AddTo(totals);
}

template <bool kReported>
void BasicActor<kReported>::Reset() {
  Lock lock(mutex_);
  Record().Reset(Now());
}

template class BasicActor<true>;
template class BasicActor<false>;

Status SendTo(RingActor& actor, void* message, bool& full, Duration timeout) {
  return actor.Send(message, full, timeout);
}
bool TrySendTo(RingActor& actor, void* message, bool& full) noexcept {
  return actor.Send(message, full, std::nullopt).ok();
}
Status ReceiveFrom(RingActor& actor, void* to, bool& full, Duration timeout) {
  return actor.Receive(to, full, timeout);
}
Status Take(RingActor& actor, void* to, bool& full, Duration timeout) {
  return actor.Take(to, full, timeout);
}
Status Put(RingActor& actor, void* reply, bool& full) { return actor.Put(reply, full); }
void Done(RingActor& actor) noexcept { actor.Done(); }
void Failed(RingActor& actor, const char* what) noexcept { actor.Failed(what); }
bool ShouldTerminate(const RingActor& actor) noexcept { return actor.ShouldTerminate(); }

}  // namespace gpulens::internal
