#include "pipeline/instance.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "pipeline/enricher_set.h"

namespace gpulens {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Back-off of an unavailable collector: hardware is hot-plugged and drivers are loaded while the agent runs.
constexpr Duration kFirstRetry = seconds(5);
constexpr Duration kLastRetry = minutes(5);

}  // namespace

Instance::Instance(Setup setup, Env& env)
    : setup_(std::move(setup)),
      env_(env),
      table_(setup_.table),
      writer_(table_, setup_.ttl, setup_.name),
      retry_({.initial = kFirstRetry, .cap = kLastRetry, .jitter = 0}, 0) {
  if (GpuQuality::Concerns(setup_.spec->metrics)) gpu_quality_.emplace(setup_.period);
}

bool Instance::SameAs(const Setup& setup) const {
  return setup_.spec == setup.spec && setup_.config == setup.config && setup_.period == setup.period &&
         setup_.deadline == setup.deadline && setup_.ttl == setup.ttl;
}

bool Instance::Ready() {
  if (collector_) return true;
  Instant now = env_.clock->Now();
  if (now.boot_ns < retry_at_ns_) return false;
  auto made = setup_.spec->create(setup_.config, env_);
  if (made) {
    collector_ = std::move(*made);
    return true;
  }
  retry_at_ns_ = now.boot_ns + retry_.Next().count();
  std::lock_guard lock(mutex_);
  if (stats_.last.detail != made.error().detail) {
    // The agent names what is absent in one line when it is ready; doctor explains each.
    Log(LogLevel::kDebug, setup_.name, "unavailable", made.error().detail, setup_.name);
  }
  stats_.last = made.error();
  stats_.up = false;
  ++stats_.errors[static_cast<size_t>(made.error().code)];
  return false;
}

void Instance::Collect(const Status& fetched) {
  Instant started = env_.clock->Now();
  if (setup_.enrichers) {
    const uint64_t now = setup_.enrichers->generation();
    if (std::exchange(described_, now) != now) table_.Redescribe(started.unix_ns);
  }
  writer_.Begin(started);
  Status status = fetched;
  if (status) status = collector_->Collect(writer_);
  if (gpu_quality_) gpu_quality_->Validate(writer_);
  Ref<const Frame> frame = writer_.Finish();
  if (env_.events) quality_events_.Report(writer_, *env_.events);
  {
    std::lock_guard lock(mutex_);
    std::swap(latest_, frame);
  }
  Record(status, started);
}

void Instance::Record(const Status& status, Instant started) {
  std::lock_guard lock(mutex_);
  // A process that was killed, and then may not open the device: the second reason is the one that helps.
  bool other = !status.ok() && !stats_.up && status.code != stats_.last.code;
  if (stats_.runs_ok != 0 && (stats_.up != status.ok() || other)) {
    std::string reason = setup_.name + " " + std::string(CodeName(status.code));
    if (status.ok()) Log(LogLevel::kInfo, setup_.name, "collector_up", "works again.", setup_.name);
    else Log(LogLevel::kWarn, setup_.name, "collector_down", status.detail, reason);
  }
  stats_.up = status.ok();
  stats_.last = status;
  stats_.duration = env_.clock->Now() - started;
  if (status.ok()) {
    ++stats_.runs_ok;
    stats_.last_success_unix_ns = started.unix_ns;
  } else if (!collector_->starting()) {
    ++stats_.runs_error;
    ++stats_.errors[static_cast<size_t>(status.code)];
  }
  stats_.samples = writer_.counts();
  stats_.oldest_ns = writer_.oldest_ns();
  stats_.series = table_.size();
  for (size_t i = 0; i < kSeriesRefusals; ++i)
    stats_.refused[i] = table_.refused(static_cast<SeriesRefusal>(i));
}

void Instance::TimedOut() {
  std::lock_guard lock(mutex_);
  if (stats_.up) {
    Log(LogLevel::kWarn, setup_.name, "collector_late", "has not finished by its deadline; its values age.",
        setup_.name);
  }
  stats_.up = false;
  stats_.last = {Code::kTimeout, "the run has not finished by its deadline"};
  ++stats_.runs_timeout;
  ++stats_.errors[static_cast<size_t>(Code::kTimeout)];
}

Ref<const Frame> Instance::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

Instance::Age Instance::AgeOf(const Frame& frame, Instant now) const noexcept {
  Duration age = now - frame.read_at;
  if (age > std::max(setup_.ttl, setup_.period * 2)) return Age::kExpired;
  return age > setup_.period * 2 ? Age::kOverdue : Age::kFresh;
}

InstanceStats Instance::stats() const {
  InstanceStats stats;
  ReadStats(stats);
  return stats;
}

void Instance::ReadStats(InstanceStats& out) const {
  std::lock_guard lock(mutex_);
  out = stats_;
  out.refused[static_cast<size_t>(SeriesRefusal::kDuplicate)] += duplicates_;
}

bool Instance::answered() const {
  std::lock_guard lock(mutex_);
  return stats_.answered();
}

void Instance::CountDuplicates(uint64_t series) {
  std::lock_guard lock(mutex_);
  duplicates_ += series;
}

}  // namespace gpulens
