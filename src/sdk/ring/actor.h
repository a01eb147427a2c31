// A kernel: its queues, thread, state and record under one lock, so that its telemetry is of one instant.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <gpulens/ring_kernel.h>
#include <gpulens/ring_message.h>
#include <gpulens/stats.h>

#include "sdk/ring/record/record.h"

namespace gpulens::ring {

// Bounded queue of messages of an erased type. Not thread-safe.
class MessageQueue {
 public:
  MessageQueue() = default;
  // `form` must outlive the queue; null: the queue is unused. `stamped`: stores the times of messages.
  MessageQueue(const internal::MessageForm* form, size_t limit, bool stamped)
      : form_(form), limit_(form ? limit : 0) {
    if (!form) return;
    slots_ = ::operator new(limit * form->size, std::align_val_t(form->align), std::nothrow);
    if (stamped) stamps_.reset(new (std::nothrow) TimePoint[limit]);
    if (!slots_ || (stamped && !stamps_)) limit_ = 0;
  }
  MessageQueue(MessageQueue&& other) noexcept { Swap(other); }
  MessageQueue& operator=(MessageQueue&& other) noexcept {
    MessageQueue gone(std::move(*this));
    Swap(other);
    return *this;
  }
  ~MessageQueue() {
    for (; size_ > 0; Advance()) form_->destroy(At(head_));
    if (slots_) ::operator delete(slots_, std::align_val_t(form_->align));
  }

  size_t size() const noexcept { return size_; }
  size_t limit() const noexcept { return limit_; }  // 0: no memory
  bool used() const noexcept { return form_ != nullptr; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ >= limit_; }

  // Moves the object at `message` into the queue, which must not be full.
  void Push(void* message, TimePoint at) noexcept {
    size_t tail = head_ + size_;
    if (tail >= limit_) tail -= limit_;
    form_->move(At(tail), message);
    if (stamps_) stamps_[tail] = at;
    ++size_;
  }
  // Moves the oldest message to `to` and returns its time. The queue must not be empty.
  TimePoint Pop(void* to) noexcept {
    const TimePoint at = stamps_ ? stamps_[head_] : TimePoint();
    form_->move(to, At(head_));
    Advance();
    return at;
  }
  // Exchanges the oldest message of a full queue with `message`, which becomes the newest.
  void ReplaceOldest(void* message, TimePoint at) noexcept {
    form_->exchange(At(head_), message);
    if (stamps_) stamps_[head_] = at;
    if (++head_ == limit_) head_ = 0;
  }

 private:
  void* At(size_t slot) const noexcept { return static_cast<std::byte*>(slots_) + slot * form_->size; }
  void Advance() noexcept {
    if (++head_ == limit_) head_ = 0;
    --size_;
  }
  void Swap(MessageQueue& other) noexcept {
    std::swap(form_, other.form_);
    std::swap(limit_, other.limit_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
    std::swap(slots_, other.slots_);
    std::swap(stamps_, other.stamps_);
  }

  const internal::MessageForm* form_ = nullptr;
  size_t limit_ = 0, head_ = 0, size_ = 0;
  void* slots_ = nullptr;
  std::unique_ptr<TimePoint[]> stamps_;
};

}  // namespace gpulens::ring

namespace gpulens::internal {

// Processor time of a running thread.
class ThreadCpu {
 public:
  void Watch(pthread_t thread) noexcept { known_ = ::pthread_getcpuclockid(thread, &clock_) == 0; }
  std::optional<double> Seconds() const noexcept {
    timespec at{};
    if (!known_ || ::clock_gettime(clock_, &at) != 0) return std::nullopt;
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
  }

 private:
  bool known_ = false;
  clockid_t clock_{};
};

// Waits until `ready` returns true; returns false after `timeout`. A timeout above a year is infinite.
template <class Ready>
bool Wait(std::condition_variable& on, std::unique_lock<std::mutex>& lock, Duration timeout,
          const Ready& ready) {
  if (ready()) return true;
  if (timeout <= Duration::zero()) return false;
  if (timeout > std::chrono::hours(24 * 365)) return on.wait(lock, ready), true;
  return on.wait_until(lock, std::chrono::steady_clock::now() + timeout, ready);
}

inline double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

struct ActorOptions {
  std::string id;
  const MessageForm* messages = nullptr;
  const MessageForm* replies = nullptr;  // null: it sends no replies
  std::unique_ptr<KernelBody> body;
  KernelOptions options;
  bool telemetry = false;
};

// A kernel. Thread-safe, except for the functions of the kernel's own thread. Must be terminated before its
// destruction if it has a thread.
class RingActor : public ring::KernelSource {
 public:
  virtual bool HasQueues() const = 0;  // false: no memory for its queues
  // Without a timeout it never waits.
  virtual Status Send(void* message, bool& full, std::optional<Duration> timeout) = 0;
  virtual Status Receive(void* to, bool& full, Duration timeout) = 0;
  // For its own thread.
  virtual Status Take(void* to, bool& full, Duration timeout) = 0;
  virtual Status Put(void* reply, bool& full) = 0;
  virtual void Done() noexcept = 0;
  virtual void Failed(const char* what) noexcept = 0;
  virtual bool ShouldTerminate() const noexcept = 0;

  virtual Status Activate() = 0;
  virtual Status Deactivate() = 0;
  virtual Status Reactivate() = 0;
  virtual void Close() = 0;  // first half of Terminate: wakes all waiters and does not wait
  virtual Status Terminate(Duration timeout) = 0;
  virtual KernelState state() const = 0;
};

// kReported false compiles an actor without any telemetry, for comparison in benchmarks.
template <bool kReported>
class BasicActor final : public RingActor {
 public:
  explicit BasicActor(ActorOptions options);
  ~BasicActor() override;

  bool HasQueues() const override;
  Status Send(void* message, bool& full, std::optional<Duration> timeout) override;
  Status Receive(void* to, bool& full, Duration timeout) override;
  Status Take(void* to, bool& full, Duration timeout) override;
  Status Put(void* reply, bool& full) override;
  void Done() noexcept override;
  void Failed(const char* what) noexcept override;
  bool ShouldTerminate() const noexcept override { return closed_.load(std::memory_order_relaxed); }

  Status Activate() override;
  Status Deactivate() override;
  Status Reactivate() override;
  void Close() override;
  Status Terminate(Duration timeout) override;
  KernelState state() const override;

  KernelTelemetry Copy() const override;
  void AddTo(ring::KernelTotals& totals) const override;
  void Reset() override;
  bool Ended() const override { return state() == KernelState::kTerminated; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  bool has_telemetry() const noexcept { return kReported && record_ != nullptr; }
  TimePoint Now() const noexcept { return has_telemetry() ? std::chrono::steady_clock::now() : TimePoint(); }
  void Run();
  void SetState(KernelState state);
  Status Change(std::string_view what, KernelState from, KernelState to);
  Status Refused(std::string_view what) const;
  bool Running() const noexcept {
    return state_ == KernelState::kActive || state_ == KernelState::kDeactivated;
  }
  void DropQueued(ring::MessageQueue& messages, ring::MessageQueue& replies);
  Status SendToFull(void* message, bool detailed);
  void Settle(TimePoint now) noexcept;
  void UpdateCpu() const noexcept;
  ring::KernelRecord& Record() const;
  template <class Ready>
  void Spin(const Ready& ready) const noexcept;

  const std::string id_;
  const KernelOptions options_;
  std::unique_ptr<KernelBody> body_;
  std::atomic<size_t> queued_{0}, answered_{0};  // sizes of the queues, read without the lock
  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_, room_, replied_, reply_room_, ended_;
  ring::MessageQueue messages_, replies_;
  KernelState state_ = KernelState::kLaunched;
  std::string failure_;
  std::unique_ptr<ring::KernelRecord> record_;  // null: telemetry is off
  std::thread thread_;
  bool running_ = false;  // the thread
  ThreadCpu cpu_;
  bool working_ = false;  // on the message taken at taken_at_
  TimePoint taken_at_{};
};

extern template class BasicActor<true>;
extern template class BasicActor<false>;

}  // namespace gpulens::internal
