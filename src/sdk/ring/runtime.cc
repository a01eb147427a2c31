// RingKernelRuntime: the kernels of a runtime by id.
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include <gpulens/ring_kernel.h>

#include "sdk/ring/actor.h"
#include "sdk/ring/record/directory.h"

namespace gpulens {
namespace {

constexpr size_t kMostQueue = size_t{1} << 24, kMostId = 255, kMostListed = 10;

}  // namespace

namespace internal {

// The kernels and their telemetry. Thread-safe.
class RingRuntime {
 public:
  using Actor = std::shared_ptr<RingActor>;

  explicit RingRuntime(const RingRuntimeOptions& options)
      : directory(options.enable_telemetry ? std::make_unique<KernelDirectory>(options.exported) : nullptr) {}

  Result<Actor> Find(std::string_view id) const {
    std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(id); found != kernels_.end()) return found->second;
    std::string text = "there is no kernel \"" + std::string(id) + "\"";
    size_t listed = 0;
    for (const auto& [known, actor] : kernels_) {
      if (listed == kMostListed) break;
      text += (listed++ == 0 ? "; there are: " : ", ") + known;
    }
    if (listed == 0) text += ", nor any other";
    if (kernels_.size() > listed) text += " and " + std::to_string(kernels_.size() - listed) + " more";
    return Status{Code::kInvalidArgument, std::move(text)};
  }

  Status Add(const std::string& id, Actor actor) {
    Actor ended;
    std::lock_guard lock(mutex_);
    Actor& place = kernels_[id];
    if (place && !place->Ended())
      return {Code::kInvalidArgument, "there is a kernel \"" + id + "\" already, which is " +
                                          std::string(KernelStateName(place->state()))};
    if (place && !place->Terminate(Duration::zero()).ok())
      return {Code::kInvalidArgument, "the kernel \"" + id + "\" is about to end"};
    ended = std::exchange(place, actor);
    if (directory) directory->Add(id, std::move(actor));
    return Ok();
  }

  void Remove(std::string_view id, const Actor& actor) {
    std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(id); found != kernels_.end() && found->second == actor)
      kernels_.erase(found);
  }

  std::vector<std::pair<std::string, Actor>> All() const {
    std::lock_guard lock(mutex_);
    return {kernels_.begin(), kernels_.end()};
  }

  const std::unique_ptr<KernelDirectory> directory;  // null: telemetry is off

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Actor, std::less<>> kernels_;
};

}  // namespace internal

using internal::RingActor;

RingKernelRuntime::RingKernelRuntime(const RingRuntimeOptions& options)
    : runtime_(std::make_unique<internal::RingRuntime>(options)) {}
RingKernelRuntime::~RingKernelRuntime() { static_cast<void>(TerminateAll(Duration::max())); }

bool RingKernelRuntime::telemetry_enabled() const noexcept { return runtime_->directory != nullptr; }

Result<std::shared_ptr<RingActor>> RingKernelRuntime::AddActor(std::string_view id,
                                                               std::unique_ptr<internal::KernelBody> body,
                                                               const internal::MessageForm& messages,
                                                               const internal::MessageForm* replies,
                                                               const KernelOptions& options) {
  const std::string name(id);
  if (name.empty() || name.size() > kMostId)
    return Status{Code::kInvalidArgument, "the id of a kernel must have 1 to 255 bytes"};
  if (!body) return Status{Code::kInvalidArgument, "kernel \"" + name + "\" has no handler"};
  if (options.queue_size == 0 || options.queue_size > kMostQueue)
    return Status{Code::kInvalidArgument, "kernel \"" + name +
                                              "\": queue_size must be 1 to 16,777,216, not " +
                                              std::to_string(options.queue_size)};
  auto actor = std::make_shared<internal::BasicActor<true>>(
      internal::ActorOptions{name, &messages, replies, std::move(body), options, telemetry_enabled()});
  if (!actor->HasQueues())
    return Status{Code::kExhausted, "kernel \"" + name + "\": no memory for queues of " +
                                        std::to_string(options.queue_size) + " messages"};
  if (Status status = runtime_->Add(name, actor); !status.ok()) return status;
  return std::shared_ptr<RingActor>(std::move(actor));
}

Status RingKernelRuntime::Activate(std::string_view id) {
  auto actor = runtime_->Find(id);
  return actor ? (*actor)->Activate() : actor.error();
}
Status RingKernelRuntime::Deactivate(std::string_view id) {
  auto actor = runtime_->Find(id);
  return actor ? (*actor)->Deactivate() : actor.error();
}
Status RingKernelRuntime::Reactivate(std::string_view id) {
  auto actor = runtime_->Find(id);
  return actor ? (*actor)->Reactivate() : actor.error();
}

Status RingKernelRuntime::Terminate(std::string_view id, Duration timeout) {
  auto actor = runtime_->Find(id);
  if (!actor) return actor.error();
  Status status = (*actor)->Terminate(timeout);
  if (status.ok()) runtime_->Remove(id, *actor);
  return status;
}

// Closes all kernels before it waits for the first.
Status RingKernelRuntime::TerminateAll(Duration timeout) {
  const auto all = runtime_->All();
  for (const auto& [id, actor] : all) actor->Close();
  const bool for_ever = timeout > std::chrono::hours(24 * 365);
  const TimePoint until = std::chrono::steady_clock::now() + (for_ever ? Duration::zero() : timeout);
  Status first;
  for (const auto& [id, actor] : all) {
    const Duration left = for_ever ? timeout : Duration(until - std::chrono::steady_clock::now());
    Status status = actor->Terminate(left);
    if (status.ok()) runtime_->Remove(id, actor);
    else if (first.ok()) first = std::move(status);
  }
  return first;
}

Result<KernelState> RingKernelRuntime::state(std::string_view id) const {
  auto actor = runtime_->Find(id);
  if (!actor) return actor.error();
  return (*actor)->state();
}

std::vector<std::string> RingKernelRuntime::kernel_ids() const {
  std::vector<std::string> ids;
  for (auto& [id, actor] : runtime_->All()) ids.push_back(id);
  return ids;
}

std::optional<KernelTelemetry> RingKernelRuntime::telemetry(std::string_view id) const {
  return runtime_->directory ? runtime_->directory->Copy(id) : std::nullopt;
}
std::vector<KernelTelemetry> RingKernelRuntime::all_telemetry() const {
  return runtime_->directory ? runtime_->directory->CopyAll() : std::vector<KernelTelemetry>();
}

KernelSummary RingKernelRuntime::Summary() const {
  if (runtime_->directory) return runtime_->directory->Summary();
  KernelSummary out;
  out.kernel_count = runtime_->All().size();
  return out;
}

void RingKernelRuntime::ResetTelemetry(std::string_view id) noexcept {
  if (runtime_->directory) runtime_->directory->Reset(id);
}

}  // namespace gpulens
