#include "sdk/ring/record/directory.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "instruments/cells.h"

namespace gpulens::internal {

using ring::ExportedKernels;

KernelDirectory::~KernelDirectory() {
  for (auto at = kernels_.begin(); at != kernels_.end();) at = Forget(at);
}

KernelDirectory::Kernels::iterator KernelDirectory::Forget(Kernels::iterator at) {
  if (exported_) ExportedKernels::Of(*exported_).Retire(at->first, *at->second.kernel);
  return kernels_.erase(at);
}

// Removes the oldest ended kernels beyond kMostEnded. Scans all kernels only after their number grew by a
// sixteenth.
void KernelDirectory::ForgetEnded() {
  if (kernels_.size() < prune_at_) return;
  std::vector<std::pair<uint64_t, std::string>> ended;
  for (const auto& [id, entry] : kernels_) {
    if (entry.kernel->Ended()) ended.emplace_back(entry.number, id);
  }
  std::ranges::sort(ended);
  for (size_t i = 0; i + ring::kMostEnded < ended.size(); ++i) Forget(kernels_.find(ended[i].second));
  prune_at_ = kernels_.size() + std::max<size_t>(1, kernels_.size() / 16);
}

void KernelDirectory::AddLocked(const std::string& id, Source kernel) {
  if (const auto known = kernels_.find(id); known != kernels_.end()) Forget(known);
  if (exported_) ExportedKernels::Of(*exported_).Add(id, *kernel);
  kernels_[id] = {std::move(kernel), ++added_};
  ForgetEnded();
}

void KernelDirectory::Add(const std::string& id, Source kernel) {
  std::lock_guard lock(mutex_);
  AddLocked(id, std::move(kernel));
}

KernelDirectory::Source KernelDirectory::FindOrAdd(std::string_view id,
                                                   const std::function<Source(std::string)>& make) {
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(id); known != kernels_.end() && !known->second.kernel->Ended())
    return known->second.kernel;
  std::string name(id);
  Source made = make(name);
  AddLocked(name, made);
  return made;
}

std::vector<KernelDirectory::Source> KernelDirectory::Sources() const {
  std::lock_guard lock(mutex_);
  std::vector<Source> all;
  all.reserve(kernels_.size());
  for (const auto& [id, entry] : kernels_) all.push_back(entry.kernel);
  return all;
}

KernelDirectory::Source KernelDirectory::Find(std::string_view id) const {
  std::lock_guard lock(mutex_);
  const auto known = kernels_.find(id);
  return known == kernels_.end() ? nullptr : known->second.kernel;
}

std::optional<KernelTelemetry> KernelDirectory::Copy(std::string_view id) const {
  const Source kernel = Find(id);
  return kernel ? std::optional(kernel->Copy()) : std::nullopt;
}

std::vector<KernelTelemetry> KernelDirectory::CopyAll() const {
  std::vector<KernelTelemetry> all;
  for (const Source& kernel : Sources()) all.push_back(kernel->Copy());
  return all;
}

KernelSummary KernelDirectory::Summary() const {
  KernelSummary out;
  out.per_kernel = CopyAll();
  for (const KernelTelemetry& kernel : out.per_kernel) {
    if (kernel.state != KernelState::kTerminated) ++out.kernel_count;
    out.total_messages += kernel.messages_processed;
    out.total_errors += kernel.errors;
    out.total_dropped += kernel.dropped;
    out.aggregate_throughput += kernel.throughput;
  }
  return out;
}

void KernelDirectory::Reset(std::string_view id) {
  std::lock_guard lock(mutex_);
  auto at = id.empty() ? kernels_.begin() : kernels_.find(id);
  while (at != kernels_.end()) {
    if (at->second.kernel->Ended()) at = Forget(at);
    else (at++)->second.kernel->Reset();
    if (!id.empty()) return;
  }
}

}  // namespace gpulens::internal

namespace gpulens::ring {

// The counts of one id.
struct ExportedKernels::Reported {
  std::vector<std::pair<std::string, std::string>> attributes;
  KernelTotals totals;
  int64_t start_unix_ns = 0;
  bool live = false;
};

namespace {

using CountGetter = double (*)(const KernelCounts&);
struct CounterRow {
  const char *name, *unit, *description;
  CountGetter value;
};
constexpr CounterRow kCounters[] = {
    {"ring_kernel.messages.received", "{message}", "Messages accepted by a kernel's queue.",
     [](const KernelCounts& counts) { return static_cast<double>(counts.received); }},
    {"ring_kernel.messages.sent", "{message}", "Replies that a kernel sent.",
     [](const KernelCounts& counts) { return static_cast<double>(counts.sent); }},
    {"ring_kernel.messages.processed", "{message}", "Messages whose handler returned without an exception.",
     [](const KernelCounts& counts) { return static_cast<double>(counts.processed); }},
    {"ring_kernel.errors", "{error}", "Exceptions while a kernel worked on a message.",
     [](const KernelCounts& counts) { return static_cast<double>(counts.errors); }},
};

Sample SampleOf(const char* name, const char* unit, const char* description, InstrumentKind kind) {
  Sample sample;
  sample.name = name;
  sample.unit = unit;
  sample.description = description;
  sample.kind = kind;
  return sample;
}

void PutBuckets(const instruments::ExponentialCounts& from, Sample& to) {
  to.exponential = true;
  to.scale = from.buckets.scale();
  to.offset = from.buckets.offset();
  to.counts.assign(from.buckets.counts().begin(), from.buckets.counts().end());
  to.zeros = to.count = from.zeros;
  to.sum = from.sum;
  for (uint64_t count : to.counts) to.count += count;
}

}  // namespace

ExportedKernels& ExportedKernels::Of(const Registry& registry) {
  static auto* const all = new std::map<uint64_t, ExportedKernels*>;
  const uint64_t id = RegistryAccess::IdOf(registry);
  const auto lock = instruments::LockSources();
  ExportedKernels*& known = (*all)[id];
  if (!known) {
    known = new ExportedKernels;
    known->forks_ = instruments::CellStore::Instance().forks();
    instruments::AddSource(id, *known);
  }
  return *known;
}

// In the child of a fork, forgets the kernels: they and their locks are the parent's.
void ExportedKernels::ForgetParents() {
  const uint32_t forks = instruments::CellStore::Instance().forks();
  if (forks == forks_) return;
  forks_ = forks;
  kernels_.clear();
  overflow_ = {};
  overflows_ = false;
}

ExportedKernels::Entry& ExportedKernels::EntryOf(const std::string& id) {
  if (const auto known = kernels_.find(id); known != kernels_.end()) return known->second;
  const bool full = kernels_.size() >= kMostExportedIds;
  Entry& entry = full ? overflow_ : kernels_[id];
  overflows_ |= full;
  if (entry.start_unix_ns == 0) entry.start_unix_ns = RealClock().Now().unix_ns;
  return entry;
}

void ExportedKernels::Add(const std::string& id, const KernelSource& kernel) {
  const auto lock = instruments::LockSources();
  ForgetParents();
  EntryOf(id).live.push_back(&kernel);
}

void ExportedKernels::Retire(const std::string& id, const KernelSource& kernel) {
  const auto lock = instruments::LockSources();
  ForgetParents();
  const auto known = kernels_.find(id);
  for (Entry* entry : {known == kernels_.end() ? nullptr : &known->second, &overflow_}) {
    if (!entry || std::erase(entry->live, &kernel) == 0) continue;
    kernel.AddTo(entry->ended);
    entry->ended.queue_depth = 0;
    return;
  }
}

void ExportedKernels::Report(std::vector<Sample>& out) {
  ForgetParents();
  std::vector<Reported> reported;
  const auto add = [&](const char* key, const std::string& value, const Entry& entry) {
    Reported& one = reported.emplace_back();
    one.attributes = {{key, value}};
    one.totals = entry.ended;
    one.start_unix_ns = entry.start_unix_ns;
    one.live = !entry.live.empty();
    for (const KernelSource* kernel : entry.live) kernel->AddTo(one.totals);
  };
  for (const auto& [id, entry] : kernels_) add("ring_kernel.id", id, entry);
  if (overflows_) add("otel.metric.overflow", "true", overflow_);

  const auto each = [&](const Sample& form, const std::function<bool(const Reported&, Sample&)>& fill) {
    for (const Reported& one : reported) {
      Sample sample = form;
      sample.attributes = one.attributes;
      sample.start_unix_ns = one.start_unix_ns;
      if (fill(one, sample)) out.push_back(std::move(sample));
    }
  };
  for (const CounterRow& row : kCounters) {
    Sample form = SampleOf(row.name, row.unit, row.description, InstrumentKind::kCounter);
    form.integer = true;
    each(form, [&row](const Reported& one, Sample& sample) {
      sample.value = row.value(one.totals.counts);
      return true;
    });
  }
  Sample drops =
      SampleOf("ring_kernel.messages.dropped", "{message}",
               "Messages that never reached a kernel's handler, and replies that were not delivered.",
               InstrumentKind::kCounter);
  drops.integer = true;
  for (size_t i = 0; i < kDropReasons; ++i) {
    each(drops, [i](const Reported& one, Sample& sample) {
      sample.attributes.insert(sample.attributes.begin(),
                               {"reason", std::string(DropReasonName(static_cast<DropReason>(i)))});
      std::ranges::sort(sample.attributes);
      sample.value = static_cast<double>(one.totals.counts.dropped[i]);
      return true;
    });
  }
  Sample depth = SampleOf("ring_kernel.queue.depth", "{message}", "Messages in a kernel's queue.",
                          InstrumentKind::kUpDownCounter);
  depth.integer = true;
  each(depth, [](const Reported& one, Sample& sample) {
    sample.value = static_cast<double>(one.totals.queue_depth);
    return one.live;
  });
  each(SampleOf("ring_kernel.cpu.time", "s", "Time that kernels' threads had a processor.",
                InstrumentKind::kCounter),
       [](const Reported& one, Sample& sample) {
         sample.value = one.totals.counts.cpu_seconds;
         return one.totals.counts.cpu_known;
       });
  each(SampleOf("ring_kernel.wait.duration", "s", "How long messages waited in a kernel's queue.",
                InstrumentKind::kHistogram),
       [](const Reported& one, Sample& sample) {
         PutBuckets(one.totals.wait, sample);
         return true;
       });
  each(SampleOf("ring_kernel.service.duration", "s", "How long a kernel's handler worked on messages.",
                InstrumentKind::kHistogram),
       [](const Reported& one, Sample& sample) {
         PutBuckets(one.totals.service, sample);
         return true;
       });
}

}  // namespace gpulens::ring

namespace gpulens {
namespace internal {

// A kernel's record and its lock. Times are taken under the lock, so that they never go back.
class RecordedKernel final : public ring::KernelSource {
 public:
  explicit RecordedKernel(std::string id) : record_(std::move(id)) {}

  template <class Change>
  void Record(bool starts, const Change& change) {
    std::lock_guard lock(mutex_);
    const TimePoint now = std::chrono::steady_clock::now();
    if (starts && record_.state() == KernelState::kCreated) record_.SetState(KernelState::kActive, now);
    change(record_, now);
  }
  // Does not read the clock.
  template <class Change>
  void RecordTimeless(const Change& change) {
    std::lock_guard lock(mutex_);
    change(record_);
  }

  KernelTelemetry Copy() const override {
    std::lock_guard lock(mutex_);
    return record_.Copy(std::chrono::steady_clock::now(), std::chrono::system_clock::now());
  }
  void AddTo(ring::KernelTotals& totals) const override {
    std::lock_guard lock(mutex_);
    record_.AddTo(totals);
  }
  void Reset() override {
    std::lock_guard lock(mutex_);
    record_.Reset(std::chrono::steady_clock::now());
  }
  bool Ended() const override {
    std::lock_guard lock(mutex_);
    return record_.state() == KernelState::kTerminated;
  }

  // Guarded by the lock:
  bool reports_processed = false;     // by Done or Processed
  std::optional<TimePoint> begun_at;  // when the current message began

 private:
  mutable std::mutex mutex_;
  ring::KernelRecord record_;
};

}  // namespace internal

using ring::KernelRecord;

namespace {

double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

}  // namespace

void KernelRecorder::SetState(KernelState state) const noexcept {
  if (to_) to_->Record(false, [&](KernelRecord& to, TimePoint now) { to.SetState(state, now); });
}

void KernelRecorder::SetQueueLimit(uint64_t limit) const noexcept {
  if (to_) to_->RecordTimeless([&](KernelRecord& to) { to.SetQueueLimit(limit); });
}

void KernelRecorder::SetQueueDepth(uint64_t depth) const noexcept {
  if (to_) to_->RecordTimeless([&](KernelRecord& to) { to.SetDepth(depth); });
}

TimePoint KernelRecorder::Receive(uint64_t depth) const noexcept {
  TimePoint at{};
  if (to_) {
    to_->Record(true, [&](KernelRecord& to, TimePoint now) {
      to.Received(now, depth);
      at = now;
    });
  }
  return at;
}

void KernelRecorder::Begin(uint64_t depth, TimePoint received) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->begun_at = now;
    to.SetDepth(depth);
    to.Took(Seconds(now - received));
  });
}

void KernelRecorder::Done(bool sent) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->reports_processed = true;
    if (to_->begun_at) to.Processed(now, Seconds(now - *to_->begun_at));
    to_->begun_at.reset();
    if (sent) to.Sent(now);
  });
}

void KernelRecorder::Take(uint64_t depth, double wait_seconds) const noexcept {
  if (!to_) return;
  to_->RecordTimeless([&](KernelRecord& to) {
    to.SetDepth(depth);
    to.Took(wait_seconds);
  });
}

void KernelRecorder::Processed(double service_seconds, bool sent) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->reports_processed = true;
    to.Processed(now, service_seconds);
    if (sent) to.Sent(now);
  });
}

void KernelRecorder::Send() const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    if (!to_->reports_processed && to.open()) to.Processed(now, kNotMeasured);
    to.Sent(now);
  });
}

void KernelRecorder::Error(std::string_view what, double service_seconds) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    if (to_->begun_at) service_seconds = Seconds(now - *to_->begun_at);
    to_->begun_at.reset();
    to.Error(now, what, service_seconds);
  });
}

void KernelRecorder::Drop(DropReason reason, uint64_t count) const noexcept {
  if (to_ && static_cast<size_t>(reason) < kDropReasons)
    to_->RecordTimeless([&](KernelRecord& to) { to.Drop(reason, count); });
}

void KernelRecorder::AddCpu(double seconds) const noexcept {
  if (to_ && seconds >= 0) to_->RecordTimeless([&](KernelRecord& to) { to.AddCpu(seconds); });
}

std::optional<KernelTelemetry> KernelRecorder::Telemetry() const {
  return to_ ? std::optional(to_->Copy()) : std::nullopt;
}

TelemetryCollector::TelemetryCollector(bool enabled, Registry* exported)
    : directory_(enabled ? std::make_unique<internal::KernelDirectory>(exported) : nullptr) {}
TelemetryCollector::~TelemetryCollector() = default;
TelemetryCollector::TelemetryCollector(TelemetryCollector&&) noexcept = default;

KernelRecorder TelemetryCollector::Kernel(std::string_view id) {
  if (!directory_) return {};
  return KernelRecorder(std::static_pointer_cast<internal::RecordedKernel>(directory_->FindOrAdd(
      id, [](std::string name) { return std::make_shared<internal::RecordedKernel>(std::move(name)); })));
}

KernelRecorder TelemetryCollector::Find(std::string_view id) const {
  if (!directory_) return {};
  return KernelRecorder(std::static_pointer_cast<internal::RecordedKernel>(directory_->Find(id)));
}

std::optional<KernelTelemetry> TelemetryCollector::Telemetry(std::string_view id) const {
  return directory_ ? directory_->Copy(id) : std::nullopt;
}
std::vector<KernelTelemetry> TelemetryCollector::AllTelemetry() const {
  return directory_ ? directory_->CopyAll() : std::vector<KernelTelemetry>();
}
KernelSummary TelemetryCollector::Summary() const {
  return directory_ ? directory_->Summary() : KernelSummary();
}
void TelemetryCollector::Reset(std::string_view id) noexcept {
  if (directory_) directory_->Reset(id);
}

}  // namespace gpulens
