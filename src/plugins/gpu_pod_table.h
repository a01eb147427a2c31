// Which container holds which GPU or part of one: what an enricher knows as a list, for the collector that
// shows it as series. Nothing is derived here.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/attribute_set.h"

namespace gpulens {

// Thread-safe.
class GpuPodTable {
 public:
  // For each GPU or part, and each container that holds it: gpu.uuid, gpu.index, gpu.allocation, the slice's
  // or partition's numbers, and what is known of the pod.
  using List = std::vector<AttributeSet>;

  // Replaces the list, also that of another enricher. `owner`: the enricher.
  void Set(const void* owner, List list) {
    auto shared = std::make_shared<const List>(std::move(list));
    std::lock_guard lock(mutex_);
    owner_ = owner;
    list_ = std::move(shared);
  }
  // The enricher ends. Does nothing when another one has set its list since.
  void Clear(const void* owner) {
    std::lock_guard lock(mutex_);
    if (owner_ == owner) list_ = nullptr;
  }
  // Null: no enricher is at work. The same object until the list changes.
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
