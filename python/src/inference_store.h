// Python's reference to a store of calls, and records of calls passed from Python.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <gpulens/inference.h>
#include <gpulens/inference_record.h>

#include "sdk/inference/core.h"
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

  // Records what the caller holds references to. Waits, where the store does, without the GIL, and then
  // raises the error by which a record was dropped.
  template <class T>
  void Record(const T& given) const {
    internal::InferenceCore& core = store_->core();
    if (Queue(core, given, inference::IfFull::kReturn)) return;
    Check(WithoutGil(
        [&] { return Queue(core, given, inference::IfFull::kWaitOrDrop) ? Status() : core.blocked(); }));
  }

 private:
  static bool Queue(internal::InferenceCore& core, const telemetry::RecordRow& row,
                    inference::IfFull if_full) {
    return core.Record(row, nullptr, if_full);
  }
  static bool Queue(internal::InferenceCore& core, const InferenceRecord& record, inference::IfFull if_full) {
    return core.Record(record, if_full);
  }

  nb::object energy_;  // outlives the store
  std::shared_ptr<InferenceStore> store_;
};

// Waits for ended calls whose energy is not settled yet. False: `seconds` passed first.
bool Drain(double seconds);

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
