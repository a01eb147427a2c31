#include "sdk/ring/record/directory.h"

#include <algorithm>
#include <functional>
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

// A look at all of them for every so many that are new.
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

// Counts of one id so far.
struct ExportedKernels::Reported {
  std::vector<std::pair<std::string, std::string>> attributes;
  KernelTotals totals;
  int64_t start_unix_ns = 0;
  bool live = false;
};

namespace {

using Value = double (*)(const Counts&);
struct CounterRow {
  const char *name, *unit, *description;
  Value value;
};
constexpr CounterRow kCounters[] = {
    {"ring_kernel.messages.received", "{message}", "Messages accepted by a kernel's queue.",
     [](const Counts& counts) { return static_cast<double>(counts.received); }},
    {"ring_kernel.messages.sent", "{message}", "Replies that a kernel sent.",
     [](const Counts& counts) { return static_cast<double>(counts.sent); }},
    {"ring_kernel.messages.processed", "{message}", "Messages whose handler returned without an exception.",
     [](const Counts& counts) { return static_cast<double>(counts.processed); }},
    {"ring_kernel.errors", "{error}", "Exceptions while a kernel worked on a message.",
     [](const Counts& counts) { return static_cast<double>(counts.errors); }},
};

Sample SampleOf(const char* name, const char* unit, const char* description, InstrumentKind kind) {
  Sample sample;
  sample.name = name;
  sample.unit = unit;
  sample.description = description;
  sample.kind = kind;
  return sample;
}

void PutBuckets(const instruments::Exponential& from, Sample& to) {
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

// In the child of a fork: the kernels, and their locks, are the parent's.
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
  const auto tell = [&](const char* key, const std::string& value, const Entry& entry) {
    Reported& one = reported.emplace_back();
    one.attributes = {{key, value}};
    one.totals = entry.ended;
    one.start_unix_ns = entry.start_unix_ns;
    one.live = !entry.live.empty();
    for (const KernelSource* kernel : entry.live) kernel->AddTo(one.totals);
  };
  for (const auto& [id, entry] : kernels_) tell("ring_kernel.id", id, entry);
  if (overflows_) tell("otel.metric.overflow", "true", overflow_);

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
