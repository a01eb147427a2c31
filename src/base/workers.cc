#include "base/workers.h"

#include "base/threads.h"

namespace gpulens {

Workers::Workers(size_t threads, size_t queue_limit) : wanted_(threads), queue_(queue_limit) {
  std::lock_guard lock(mutex_);
  threads_.reserve(wanted_);
  Grow();
}

Workers::~Workers() { Stop(); }

bool Workers::Post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !queue_.Push(std::move(job))) return false;
    if (threads_.size() < wanted_) Grow();
  }
  wake_.notify_one();
  return true;
}

void Workers::Grow() {
  while (threads_.size() < wanted_) {
    std::thread thread;
    started_ = StartThread(thread, [this] { Run(); });
    if (!started_) return;
    threads_.push_back(std::move(thread));
  }
}

Status Workers::status() const {
  std::lock_guard lock(mutex_);
  return threads_.empty() ? started_ : Status{};
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
