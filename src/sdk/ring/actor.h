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

// A bounded queue of messages whose type only their form knows. Not thread-safe: an actor has a lock.
class Queue {
 public:
  Queue() = default;
  // `form` outlives the queue; null: unused. `stamped`: remembers when messages came.
  Queue(const internal::MessageForm* form, size_t limit, bool stamped)
      : form_(form), limit_(form ? limit : 0) {
    if (!form) return;
    slots_ = ::operator new(limit * form->size, std::align_val_t(form->align), std::nothrow);
    if (stamped) stamps_.reset(new (std::nothrow) TimePoint[limit]);
    if (!slots_ || (stamped && !stamps_)) limit_ = 0;
  }
  Queue(Queue&& other) noexcept { Swap(other); }
  Queue& operator=(Queue&& other) noexcept {
    Queue gone(std::move(*this));
    Swap(other);
    return *this;
  }
  ~Queue() {
    for (; size_ > 0; Advance()) form_->destroy(At(head_));
    if (slots_) ::operator delete(slots_, std::align_val_t(form_->align));
  }

  size_t size() const noexcept { return size_; }
  size_t limit() const noexcept { return limit_; }  // 0: there was no memory for it
  bool used() const noexcept { return form_ != nullptr; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ >= limit_; }

  // Takes the object at `message`. The queue is not full.
  void Push(void* message, TimePoint at) noexcept {
    size_t tail = head_ + size_;
    if (tail >= limit_) tail -= limit_;
    form_->move(At(tail), message);
    if (stamps_) stamps_[tail] = at;
    ++size_;
  }
  // The oldest, which is there; when it came.
  TimePoint Pop(void* to) noexcept {
    const TimePoint at = stamps_ ? stamps_[head_] : TimePoint();
    form_->move(to, At(head_));
    Advance();
    return at;
  }
  // For a full queue: `message` becomes the newest, and the oldest replaces it.
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
  void Swap(Queue& other) noexcept {
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

// Small parts of an actor.
// The processor time of a thread that runs.
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

// Waits until `ready`; false: not by the end of `timeout`. Further than a year is for ever.
template <class Ready>
bool Wait(std::condition_variable& on, std::unique_lock<std::mutex>& lock, Duration timeout,
          const Ready& ready) {
  if (ready()) return true;
  if (timeout <= Duration::zero()) return false;
  if (timeout > std::chrono::hours(24 * 365)) return on.wait(lock, ready), true;
  return on.wait_until(lock, std::chrono::steady_clock::now() + timeout, ready);
}

inline double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

// Errors of a kernel that cannot do what was requested.
Status LateBy(const std::string& id, std::string_view what);
Status Refusal(const std::string& id, KernelState state, const std::string& failure, std::string_view what);
Status WrongState(const std::string& id, KernelState state, KernelState wanted, std::string_view what);

struct ActorOptions {
  std::string id;
  const MessageForm* messages = nullptr;
  const MessageForm* replies = nullptr;  // null: it does not answer
  std::unique_ptr<KernelBody> body;
  KernelOptions options;
  bool telemetry = false;
};

// Thread-safe except for the functions of the kernel's own thread. Destroyed after Terminate was ok, or
// without a thread.
class RingActor : public ring::KernelSource {
 public:
  virtual bool HasQueues() const = 0;  // false: there was no memory for its queues
  virtual Status Send(void* message, bool& full,
                      std::optional<Duration> timeout) = 0;  // none: it never waits
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
  virtual void Close() = 0;  // first half of Terminate: wakes all waiters, waits for none
  virtual Status Terminate(Duration timeout) = 0;
  virtual KernelState state() const = 0;
};

// kReported false is an actor without a trace of telemetry, which a benchmark compares.
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
  void DropQueued(ring::Queue& messages, ring::Queue& replies);
  Status SendToFull(void* message, bool tell);
  void Settle(TimePoint now) noexcept;
  void UpdateCpu() const noexcept;
  ring::KernelRecord& Record() const;
  template <class Ready>
  void Spin(const Ready& ready) const noexcept;

  const std::string id_;
  const KernelOptions options_;
  std::unique_ptr<KernelBody> body_;
  std::atomic<size_t> queued_{0}, answered_{0};  // the queues' sizes, for readers without the lock
  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_, room_, replied_, reply_room_, ended_;
  ring::Queue messages_, replies_;
  KernelState state_ = KernelState::kLaunched;
  std::string failure_;
  std::unique_ptr<ring::KernelRecord> record_;  // null: telemetry is off
  std::thread thread_;
  bool running_ = false;  // the thread
  ThreadCpu cpu_;
  bool working_ = false;  // on a message that was taken at taken_at_
  TimePoint taken_at_{};
};

extern template class BasicActor<true>;
extern template class BasicActor<false>;

}  // namespace gpulens::internal
