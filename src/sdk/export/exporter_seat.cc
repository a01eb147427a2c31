#include "sdk/export/exporter_seat.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <gpulens/export.h>

#include "base/check.h"
#include "base/log.h"
#include "base/ref.h"
#include "base/threads.h"
#include "instruments/cells.h"

namespace gpulens::sdk {
namespace {

constexpr Duration kFinish = std::chrono::seconds(1);
// Cancelled jobs end at once, except during a look-up of a host name.
constexpr Duration kCut = std::chrono::milliseconds(300);

}  // namespace

struct ExporterSeat::Running {
  explicit Running(std::shared_ptr<ExportJob> what) : job(std::move(what)) {}

  const std::shared_ptr<ExportJob> job;
  std::mutex mutex;  // guards what follows
  std::condition_variable ended;
  bool over = false;
  std::thread thread;

  bool AwaitEnd(Duration longest) {
    std::unique_lock lock(mutex);
    return ended.wait_for(lock, longest, [this] { return over; });
  }
  // Called before the last reference is released. A thread that ends in time is joined: it may still be
  // freeing thread-local state of a library such as OpenSSL, which must happen before exit handlers tear that
  // library down.
  void End() {
    bool in_time = AwaitEnd(kFinish);
    if (!in_time) {
      job->Cut();
      in_time = AwaitEnd(kCut);
    }
    std::thread ending;
    {
      std::lock_guard lock(mutex);
      ending.swap(thread);
    }
    if (!ending.joinable()) return;
    if (in_time) ending.join();
    else ending.detach();
  }
};

// All exporters of the process; never destroyed.
class ExporterRegistry {
 public:
  using Running = ExporterSeat::Running;

  static ExporterRegistry& Instance() noexcept {
    static Immortal<ExporterRegistry> registry;
    return *registry;
  }

  void Add(ExporterSeat& seat) {
    // Registered for each exporter: handlers run in reverse order, and this one must export before handlers
    // of libraries that its transport needs, such as OpenSSL. A second run does nothing.
    CHECK(std::atexit(&AtExit) == 0);
    std::lock_guard lock(mutex_);
    seats_.push_back(&seat);
    Start(seat);
  }

  std::shared_ptr<Running> Remove(ExporterSeat& seat) {
    std::lock_guard lock(mutex_);
    std::erase(seats_, &seat);
    std::shared_ptr<Running> running;
    if (seat.running_) running.swap(*seat.running_);
    delete seat.running_;
    seat.running_ = nullptr;
    return running;
  }

  std::shared_ptr<ExportJob> JobOf(const ExporterSeat& seat) {
    if (forked_) Restart();
    std::lock_guard lock(mutex_);
    return seat.running_ ? (*seat.running_)->job : nullptr;
  }
  Status WhyOf(const ExporterSeat& seat) {
    std::lock_guard lock(mutex_);
    return seat.why_;
  }

  void SetFirst(void (*first)() noexcept) { first_ = first; }

 private:
  // The instruments' fork handlers are registered first, so that their locks are taken after ours.
  friend class Immortal<ExporterRegistry>;
  ExporterRegistry() {
    Registry::Process();
    CHECK(::pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild) == 0);
    instruments::CellStore::OnUse(&OnUse);
  }

  static void BeforeFork() noexcept {
    Instance().mutex_.lock();
    HoldLog();
  }
  static void AfterForkInParent() noexcept {
    ReleaseLog();
    Instance().mutex_.unlock();
  }
  static void AfterForkInChild() noexcept {
    ReleaseLog();
    ExporterRegistry& registry = Instance();
    for (ExporterSeat* seat : registry.seats_) {
      if (!seat->running_) continue;
      (*seat->running_)->job->LeaveBehind();
      seat->running_ = nullptr;
      registry.forked_ = true;
    }
    registry.mutex_.unlock();
  }

  static void OnUse() noexcept {
    ExporterRegistry& registry = Instance();
    if (registry.first_.load(std::memory_order_relaxed)) {
      if (auto first = registry.first_.exchange(nullptr)) first();
    }
    if (registry.forked_.load(std::memory_order_relaxed)) registry.Restart();
  }

  void Restart() {
    std::lock_guard lock(mutex_);
    if (!forked_.exchange(false)) return;
    for (ExporterSeat* seat : seats_) Start(*seat);
  }

  void Start(ExporterSeat& seat) {
    if (!seat.make_ || seat.running_) return;
    std::shared_ptr<ExportJob> job = seat.make_();
    if (!job) {
      seat.why_ = {Code::kUnavailable, "it stays with the parent process of the fork"};
      return;
    }
    auto running = std::make_shared<Running>(std::move(job));
    const SignalsBlocked quiet;
    Status started = StartThread(running->thread, [running] {
      ::pthread_setname_np(::pthread_self(), "gpulens-export");
      running->job->Run();
      std::lock_guard lock(running->mutex);
      running->over = true;
      running->ended.notify_all();
    });
    if (started) seat.running_ = new std::shared_ptr<Running>(std::move(running));
    else seat.why_ = std::move(started);
  }

  static void AtExit() {
    std::vector<std::shared_ptr<Running>> left;
    {
      ExporterRegistry& registry = Instance();
      std::lock_guard lock(registry.mutex_);
      for (ExporterSeat* seat : registry.seats_) {
        if (seat->running_) left.push_back(*seat->running_);
      }
    }
    for (const auto& running : left) running->job->Finish(kFinish);
    for (const auto& running : left) running->End();
  }

  std::mutex mutex_;  // guards what follows, and what seats have
  std::vector<ExporterSeat*> seats_;
  std::atomic<bool> forked_{false};
  std::atomic<void (*)() noexcept> first_{nullptr};
};

std::unique_ptr<ExporterSeat> ExporterSeat::Take(MakeJob make) {
  std::unique_ptr<ExporterSeat> seat(new ExporterSeat);
  seat->make_ = std::move(make);
  ExporterRegistry::Instance().Add(*seat);
  return seat;
}

std::unique_ptr<ExporterSeat> ExporterSeat::Empty(Status why) {
  std::unique_ptr<ExporterSeat> seat(new ExporterSeat);
  seat->why_ = std::move(why);
  return seat;
}

ExporterSeat::~ExporterSeat() {
  const std::shared_ptr<Running> running = ExporterRegistry::Instance().Remove(*this);
  if (!running) return;
  running->job->Finish(kFinish);
  running->End();
}

std::shared_ptr<ExportJob> ExporterSeat::job() const { return ExporterRegistry::Instance().JobOf(*this); }
Status ExporterSeat::why() const { return ExporterRegistry::Instance().WhyOf(*this); }

void AtFirstUse(void (*first)() noexcept) {
  ExporterRegistry::Instance().SetFirst(first);
  // Before main() instruments of other files may already have been created and used.
  if (!Registry::Process().Snapshot().empty()) instruments::CellStore::ReportUse();
}

}  // namespace gpulens::sdk

namespace gpulens {

Exporter::Exporter(std::unique_ptr<sdk::ExporterSeat> seat) noexcept : seat_(std::move(seat)) {}
Exporter::Exporter(Exporter&&) noexcept = default;
Exporter& Exporter::operator=(Exporter&&) noexcept = default;
Exporter::~Exporter() = default;

Status Exporter::status() const {
  if (!seat_) return {Code::kUnavailable, "it was moved from"};
  const auto job = seat_->job();
  return job ? job->status() : seat_->why();
}

Status Exporter::Flush(std::chrono::nanoseconds timeout) {
  if (!seat_) return {Code::kUnavailable, "it was moved from"};
  const auto job = seat_->job();
  return job ? job->Flush(timeout) : seat_->why();
}

std::string Exporter::address() const {
  const auto job = seat_ ? seat_->job() : nullptr;
  return job ? job->address() : std::string();
}

}  // namespace gpulens
