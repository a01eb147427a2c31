// Batches that a receiver takes in, for the collector that joins them, and what that collector wants to know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/batch.h"

namespace gpulens::collectives {

// Thread-safe. Bounded: what does not fit is refused, since the next batch has the totals.
class BatchQueue {
 public:
  explicit BatchQueue(size_t most_bytes = 32u << 20) noexcept : most_bytes_(most_bytes) {}

  enum class Outcome : uint8_t { kTaken, kFull, kNotJoined };
  // `bytes`: size of the batch as it came. kNotJoined: there is no consumer.
  Outcome Put(Batch batch, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (consumers_ == 0) return Outcome::kNotJoined;
    if (bytes_ + bytes > most_bytes_) {
      ++refused_;
      return Outcome::kFull;
    }
    bytes_ += bytes;
    batches_.push_back(std::move(batch));
    return Outcome::kTaken;
  }

  // A consumer takes batches from AddConsumer to RemoveConsumer.
  void AddConsumer() noexcept {
    const std::lock_guard lock(mutex_);
    ++consumers_;
  }
  void RemoveConsumer() noexcept {
    const std::lock_guard lock(mutex_);
    if (--consumers_ > 0) return;
    batches_.clear();
    wanted_links_.clear();
    bytes_ = 0;
  }
  // In the order in which they came.
  std::vector<Batch> Take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    return std::exchange(batches_, {});
  }
  // Communicators of which steps of the network are wanted: the answer to each batch.
  void SetWantedLinks(std::vector<uint64_t> communicators) {
    const std::lock_guard lock(mutex_);
    wanted_links_ = std::move(communicators);
  }
  std::vector<uint64_t> wanted_links() const {
    const std::lock_guard lock(mutex_);
    return wanted_links_;
  }
  uint64_t refused() const noexcept {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::vector<Batch> batches_;
  std::vector<uint64_t> wanted_links_;
  size_t bytes_ = 0;
  uint64_t refused_ = 0;
  int consumers_ = 0;
};

}  // namespace gpulens::collectives
