// Python's reference to a store of calls, and records of calls passed from Python.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <gpulens/inference.h>
#include <gpulens/inference_record.h>

#include "src/bind.h"

namespace gpulens::python {

// Open stores, which are closed before Python ends.
struct OpenStores {
  std::mutex mutex;
  std::vector<std::weak_ptr<InferenceStore>> stores;
};
OpenStores& Opened();

class StoreHandle {
 public:
  StoreHandle(InferenceStore store, nb::object energy)
      : energy_(std::move(energy)), store_(std::make_shared<InferenceStore>(std::move(store))) {
    const std::lock_guard lock(Opened().mutex);
    std::erase_if(Opened().stores, [](const auto& known) { return known.expired(); });
    Opened().stores.push_back(store_);
  }
  StoreHandle(StoreHandle&&) = delete;
  ~StoreHandle() {
    const nb::gil_scoped_release released;  // writes queued records
    store_.reset();
  }
  InferenceStore& operator*() const noexcept { return *store_; }
  InferenceStore* operator->() const noexcept { return store_.get(); }

 private:
  nb::object energy_;  // outlives the store
  std::shared_ptr<InferenceStore> store_;
};

// Waits for ended calls whose energy is not settled yet.
void Drain(double seconds);

// Reads fields into a record, which is valid while this and the Python objects live. Raises TypeError
// (nb::python_error or nb::type_error) for values of the wrong type; the store checks everything else.
class RecordFields {
 public:
  // Reads all fields from the attributes of an object.
  void TakeAll(nb::handle from);
  // Reads one field by name.
  void Take(PyObject* name, PyObject* value);
  const InferenceRecord& record() const noexcept { return record_; }

 private:
  std::string_view Text(const char* name, PyObject* value);
  void TakeOther(const char* name, PyObject* value);

  InferenceRecord record_;
  std::vector<nb::object> kept_;  // owners of viewed texts
};

}  // namespace gpulens::python
