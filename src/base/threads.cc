#include "base/threads.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/no_threads_testing.h"

namespace gpulens {
namespace {

Status NoThread(const std::string& why) { return {Code::kExhausted, "start a thread: " + why}; }

void* RunBody(void* body) {
  std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(body));
  (*owned)();
  return nullptr;
}

}  // namespace

std::atomic<int> NoThreads::living{0};

Status StartThread(std::thread& thread, std::function<void()> body) {
  if (NoThreads::living.load() > 0) return NoThread("a test allows none");
  try {
    thread = std::thread(std::move(body));
  } catch (const std::exception& error) {
    return NoThread(error.what());
  }
  return Status{};
}

Status StartDetachedThread(std::function<void()> body, size_t stack_bytes) {
  if (NoThreads::living.load() > 0) return NoThread("a test allows none");
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  if (stack_bytes > 0) ::pthread_attr_setstacksize(&attributes, stack_bytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t id;
  const int error = ::pthread_create(&id, &attributes, RunBody, owned.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return NoThread(::strerrordesc_np(error));
  static_cast<void>(owned.release());  // The thread's.
  return Status{};
}

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
