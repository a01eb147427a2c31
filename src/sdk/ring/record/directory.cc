#include "sdk/ring/record/directory.h"

#include <algorithm>
#include <utility>

#include "sdk/ring/record/exported.h"

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
  if (kernels_.size() < look_at_) return;
  std::vector<std::pair<uint64_t, std::string>> ended;
  for (const auto& [id, entry] : kernels_) {
    if (entry.kernel->Ended()) ended.emplace_back(entry.number, id);
  }
  std::ranges::sort(ended);
  for (size_t i = 0; i + ring::kMostEnded < ended.size(); ++i) Forget(kernels_.find(ended[i].second));
  look_at_ = kernels_.size() + std::max<size_t>(1, kernels_.size() / 16);
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
