// The store of calls as Python holds it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <gpulens/inference.h>

#include "src/bind.h"

namespace gpulens::python {

// The stores that are open, to be closed before Python ends.
struct OpenStores {
  std::mutex mutex;
  std::vector<std::weak_ptr<InferenceStore>> stores;
};
OpenStores& Opened();

class Store {
 public:
  Store(InferenceStore store, nb::object energy)
      : energy_(std::move(energy)), store_(std::make_shared<InferenceStore>(std::move(store))) {
    const std::lock_guard lock(Opened().mutex);
    std::erase_if(Opened().stores, [](const auto& known) { return known.expired(); });
    Opened().stores.push_back(store_);
  }
  Store(Store&&) = delete;
  ~Store() {
    const nb::gil_scoped_release released;  // writes what waits
    store_.reset();
  }
  InferenceStore& operator*() const noexcept { return *store_; }
  InferenceStore* operator->() const noexcept { return store_.get(); }

 private:
  nb::object energy_;  // outlives the store
  std::shared_ptr<InferenceStore> store_;
};

// Calls that have ended may still wait for their energy.
void Drain(double seconds);
// Summaries of calls: bind_summary.cc.
void BindSummary(nb::module_& m);
void BindQuerying(nb::class_<Store>& store);

}  // namespace gpulens::python
