// A kernel: its queues, its thread, its state and its record, under one lock, so that what it tells is of one
// instant.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <gpulens/ring_kernel.h>

#include "sdk/ring/actor_parts.h"
#include "sdk/ring/lane.h"
#include "sdk/ring/record/record.h"

namespace gpulens::internal {

struct ActorOptions {
  std::string id;
  const MessageForm* messages = nullptr;
  const MessageForm* replies = nullptr;  // null: it does not answer
  std::unique_ptr<KernelBody> body;
  KernelOptions options;
  bool telemetry = false;
};

// Thread-safe, but for what is said to be the kernel's own. Ends after Terminate was ok, or without a thread.
class RingActor : public ring::KernelSource {
 public:
  virtual bool HasRoom() const = 0;  // false: there was no memory for its queues
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
  virtual void Close() = 0;  // the first half of Terminate: wakes everybody, waits for nobody
  virtual Status Terminate(Duration timeout) = 0;
  virtual KernelState state() const = 0;
};

// kTold false is an actor without a trace of telemetry, which a benchmark compares.
template <bool kReported>
class BasicActor final : public RingActor {
 public:
  explicit BasicActor(ActorOptions options);
  ~BasicActor() override;

  bool HasRoom() const override;
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
  bool told() const noexcept { return kReported && record_ != nullptr; }
  TimePoint Now() const noexcept { return told() ? std::chrono::steady_clock::now() : TimePoint(); }
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
  void LookAtCpu() const noexcept;
  ring::KernelRecord& Record() const;
  template <class Ready>
  void Spin(const Ready& ready) const noexcept;

  const std::string id_;
  const KernelOptions options_;
  std::unique_ptr<KernelBody> body_;
  std::atomic<size_t> queued_{0}, answered_{0};  // the lanes' sizes, for those that look without the lock
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
