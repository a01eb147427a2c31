// For tests of receivers: sinks that stand still, are full, or take all.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "pipeline/receive/receiver.h"

namespace gpulens::receiver_testing {

// Sinks as one: takes, refuses, or keeps its answers back.
class FakeSinks final : public OtlpForward {
 public:
  bool wanted() const override { return true; }
  void Forward(Ref<const ReceivedOtlp> received, Done done) override {
    std::unique_lock lock(mutex_);
    received_.push_back(received);
    changed_.notify_all();
    if (holding_) {
      held_.push_back(std::move(done));
      return;
    }
    const Status answer = answer_;
    lock.unlock();
    done(answer);
  }

  void Answer(Status status) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(status);
  }
  void Hold() {
    std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void LetGo() {
    std::deque<Done> held;
    {
      std::lock_guard lock(mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (const Done& done : held) done(Ok());
  }
  bool Await(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return received_.size() >= count; });
  }
  std::vector<Ref<const ReceivedOtlp>> received() const {
    std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ref<const ReceivedOtlp>> received_;
  std::deque<Done> held_;
  Status answer_;
  bool holding_ = false;
};

}  // namespace gpulens::receiver_testing
