#include "net/auth/password_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/threads.h"

namespace gpulens {
namespace {

// Below everything else of the agent, yet done within seconds where all cores are busy.
constexpr int kNice = 10;

}  // namespace

PasswordQueue::Key PasswordQueue::KeyOf(const Endpoint& from) noexcept {
  Key key{};
  // Users of this machine may choose among millions of its own addresses.
  if (from.family == Endpoint::Family::kUnix || from.IsLoopback()) return key;
  key[0] = static_cast<uint8_t>(from.family);
  const size_t size = from.family == Endpoint::Family::kIpv4 ? 4 : 8;
  std::copy_n(from.ip.begin(), size, key.begin() + 1);
  return key;
}

bool PasswordQueue::Push(const Endpoint& from, Job& job, Job& gone) {
  const Key key = KeyOf(from);
  const auto own = waiting_.find(key);
  const size_t has = own == waiting_.end() ? 0 : own->second.size();
  if (has >= limits_.of_one_address) return false;
  if (size_ >= limits_.waiting) {
    const auto most =
        std::ranges::max_element(waiting_, {}, [](const auto& one) { return one.second.size(); });
    if (most == waiting_.end() || most->second.size() <= has + 1) return false;
    gone = std::move(most->second.back());
    most->second.pop_back();
    --size_;
  }
  waiting_[key].push_back(std::move(job));
  ++size_;
  return true;
}

std::optional<PasswordQueue::Job> PasswordQueue::Pop() {
  if (waiting_.empty()) return std::nullopt;
  auto next = last_ ? waiting_.upper_bound(*last_) : waiting_.begin();
  if (next == waiting_.end()) next = waiting_.begin();
  last_ = next->first;
  Job job = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  --size_;
  return job;
}

bool PasswordThread::Post(const Endpoint& from, PasswordQueue::Job job) {
  PasswordQueue::Job gone;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    if (!thread_.joinable()) {
      if (Status started = StartThread(thread_, [this] { Run(); }); !started) {
        Log(LogLevel::kError, "net", "no_thread", "passwords cannot be checked: " + started.detail);
        return false;
      }
    }
    if (!queue_.Push(from, job, gone)) return false;
  }
  wake_.notify_one();
  if (gone) gone(false);
  return true;
}

void PasswordThread::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    while (queue_.Pop()) {
    }
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PasswordThread::Run() {
  // Of this thread alone: on Linux each has its own.
  const auto self = static_cast<id_t>(::gettid());
  if (::getpriority(PRIO_PROCESS, self) < kNice) static_cast<void>(::setpriority(PRIO_PROCESS, self, kNice));
  while (true) {
    std::optional<PasswordQueue::Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      job = queue_.Pop();
    }
    (*job)(true);
  }
}

}  // namespace gpulens
