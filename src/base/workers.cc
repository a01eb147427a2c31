#include "base/workers.h"

namespace gpulens {

Workers::Workers(size_t threads, size_t queue_limit) : queue_(queue_limit) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Workers::~Workers() { Stop(); }

bool Workers::Post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !queue_.Push(std::move(job))) return false;
  }
  wake_.notify_one();
  return true;
}

void Workers::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    while (queue_.Pop()) {
    }
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::Run() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = std::move(*queue_.Pop());
    }
    job();
  }
}

}  // namespace gpulens
