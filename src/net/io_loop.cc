#include "net/io_loop.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/threads.h"

namespace gpulens {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr size_t kSpareTimers = 16;

// Blocks SIGPIPE on this thread and discards it in the end: sendfile cannot suppress it, and a client that is
// gone is an error of its stream.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    timespec now{};
    while (::sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

}  // namespace

struct IoLoop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::atomic<TimerId> next_timer{1};
  using Timers = std::unordered_map<TimerId, std::unique_ptr<asio::steady_timer>>;
  Timers timers;                         // loop thread only
  std::vector<Timers::node_type> spare;  // loop thread only; so that what comes each second allocates nothing
  std::vector<std::unique_ptr<asio::signal_set>> signals;  // guarded by mutex
  std::unique_ptr<asio::ip::tcp::resolver> resolver;       // loop thread only
  std::atomic<std::thread::id> loop_thread{};
  std::mutex mutex;
  std::thread thread;
  Status status;
  std::atomic<bool> stopped{false};

  void Arm(TimerId id, std::chrono::steady_clock::time_point at, Task task) {
    asio::steady_timer& timer = Add(id);
    timer.expires_at(at);
    timer.async_wait([this, id, task = std::move(task)](error_code error) {
      // An expired wait may be queued already when Cancel is called.
      if (!error && Remove(id)) task();
    });
  }

  asio::steady_timer& Add(TimerId id) {
    if (spare.empty())
      return *timers.emplace(id, std::make_unique<asio::steady_timer>(context)).first->second;
    Timers::node_type node = std::move(spare.back());
    spare.pop_back();
    node.key() = id;
    return *timers.insert(std::move(node)).position->second;
  }

  // Cancels a timer; false when it does not exist.
  bool Remove(TimerId id) {
    Timers::node_type node = timers.extract(id);
    if (node.empty()) return false;
    node.mapped()->cancel();
    if (spare.size() < kSpareTimers) spare.push_back(std::move(node));
    return true;
  }

  static void WaitForSignal(asio::signal_set* set, std::shared_ptr<Task> task) {
    set->async_wait([set, task](error_code error, int) {
      if (error) return;
      WaitForSignal(set, task);
      (*task)();
    });
  }
};

IoLoop::IoLoop() : impl_(std::make_unique<Impl>()) {}

IoLoop::~IoLoop() {
  Stop();
  // A queued handler may own a Stream, whose destructor needs the loop.
  impl_->timers.clear();
  impl_->spare.clear();
}

void IoLoop::Start() {
  CHECK(!impl_->thread.joinable() && !impl_->stopped);
  std::mutex mutex;
  std::condition_variable started;
  bool up = false;
  impl_->status = StartThread(impl_->thread, [this, &mutex, &started, &up] {
    ::pthread_setname_np(::pthread_self(), "gpulens-io");
    NoPipeSignal quiet;
    impl_->loop_thread = std::this_thread::get_id();
    {
      std::lock_guard lock(mutex);
      up = true;
      started.notify_one();
    }
    impl_->context.run();
  });
  if (!impl_->status) return;
  std::unique_lock lock(mutex);
  started.wait(lock, [&up] { return up; });
}

Status IoLoop::status() const { return impl_->status; }

void IoLoop::Run() {
  NoPipeSignal quiet;
  impl_->loop_thread = std::this_thread::get_id();
  impl_->context.run();
  impl_->loop_thread = std::thread::id{};
}

void IoLoop::Stop() {
  impl_->stopped = true;
  impl_->context.stop();
  if (!impl_->thread.joinable()) return;
  CHECK(!InLoop());
  impl_->thread.join();
  impl_->loop_thread = std::thread::id{};
}

void IoLoop::Post(Task task) { asio::post(impl_->context, std::move(task)); }

void IoLoop::Call(const Task& task) {
  bool running = impl_->loop_thread.load() != std::thread::id{};
  if (InLoop() || !running || impl_->stopped) return task();
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  Post([&] {
    task();
    std::lock_guard lock(mutex);
    finished = true;
    done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&finished] { return finished; });
}

bool IoLoop::InLoop() const noexcept { return impl_->loop_thread.load() == std::this_thread::get_id(); }

IoLoop::TimerId IoLoop::After(Duration delay, Task task) {
  TimerId id = impl_->next_timer.fetch_add(1, std::memory_order_relaxed);
  auto at = std::chrono::steady_clock::now() + delay;
  if (InLoop()) {
    impl_->Arm(id, at, std::move(task));
  } else {
    Post([this, id, at, task = std::move(task)]() mutable { impl_->Arm(id, at, std::move(task)); });
  }
  return id;
}

void IoLoop::Cancel(TimerId id) {
  if (!InLoop()) return Post([this, id] { impl_->Remove(id); });
  impl_->Remove(id);
}

Status IoLoop::OnSignal(int signal, Task task) {
  auto set = std::make_unique<asio::signal_set>(impl_->context);
  error_code error;
  set->add(signal, error);
  if (error)
    return {Code::kInvalidArgument, "catch signal " + std::to_string(signal) + ": " + error.message()};
  Impl::WaitForSignal(set.get(), std::make_shared<Task>(std::move(task)));
  std::lock_guard lock(impl_->mutex);
  impl_->signals.push_back(std::move(set));
  return Ok();
}

void IoLoop::Resolve(std::string host, uint16_t port, Resolved done) {
  if (auto ip = ParseIp(host, port)) {
    return Post([ip = *ip, done = std::move(done)] { done(std::vector<Endpoint>{ip}); });
  }
  Post([this, host = std::move(host), port, done = std::move(done)] {
    if (!impl_->resolver) impl_->resolver = std::make_unique<asio::ip::tcp::resolver>(impl_->context);
    auto finish = [host, done](error_code error, const asio::ip::tcp::resolver::results_type& results) {
      std::vector<Endpoint> found;
      for (const auto& result : results) {
        sockaddr_storage address{};
        auto size = static_cast<socklen_t>(result.endpoint().size());
        std::memcpy(&address, result.endpoint().data(), size);
        found.push_back(Endpoint::FromSockaddr(address, size));
      }
      if (found.empty()) {
        std::string why = error ? error.message() : "no address";
        return done(Status{Code::kUnavailable, "look up " + host + ": " + why});
      }
      done(std::move(found));
    };
    impl_->resolver->async_resolve(host, std::to_string(port), std::move(finish));
  });
}

boost::asio::io_context& IoLoop::context() noexcept { return impl_->context; }

}  // namespace gpulens
