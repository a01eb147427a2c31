#include "base/background.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "base/threads.h"

namespace gpulens {

Background::Background(std::function<void(Instant)> work)
    : work_(std::move(work)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Background::Start() {
  std::lock_guard lock(mutex_);
  begun_ = true;
  return thread_.joinable() ? Status{} : StartThread(thread_, [this] { Run(); });
}

void Background::Request(Instant deadline, std::function<void()> done) {
  {
    std::unique_lock lock(mutex_);
    if (begun_ && !thread_.joinable() && !StartThread(thread_, [this] { Run(); })) {
      lock.unlock();
      return done();
    }
    done_ = std::move(done);
    deadline_ = deadline;
  }
  wake_.notify_all();
}

bool Background::stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Background::Pause(Duration span) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, span, [this] { return stopping_; });
}

void Background::Run() {
  for (;;) {
    Instant deadline;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || done_; });
      if (stopping_) return;
      deadline = deadline_;
    }
    work_(deadline);
    std::function<void()> done;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      done.swap(done_);
    }
    done();
  }
}

}  // namespace gpulens
