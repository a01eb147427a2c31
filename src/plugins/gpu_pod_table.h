// Containers by the GPUs or slices of GPUs that they hold: set by an enricher, exported by a collector.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/attribute_set.h"

namespace gpulens {

// Thread-safe.
class GpuPodTable {
 public:
  // For each GPU or slice, and each container that holds it: gpu.uuid, gpu.index, gpu.allocation, the numbers
  // of the slice or partition, and the attributes of the pod.
  using List = std::vector<AttributeSet>;

  // Replaces the list, also one of another owner. `owner`: the enricher.
  void Set(const void* owner, List list) {
    auto shared = std::make_shared<const List>(std::move(list));
    std::lock_guard lock(mutex_);
    owner_ = owner;
    list_ = std::move(shared);
  }
  // Removes the list of `owner`, unless another one has replaced it.
  void Clear(const void* owner) {
    std::lock_guard lock(mutex_);
    if (owner_ == owner) list_ = nullptr;
  }
  // Null without an enricher. The same object until the list changes.
  std::shared_ptr<const List> Get() const {
    std::lock_guard lock(mutex_);
    return list_;
  }

 private:
  mutable std::mutex mutex_;
  const void* owner_ = nullptr;
  std::shared_ptr<const List> list_;
};

}  // namespace gpulens
