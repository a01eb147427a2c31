// Store functions of gpulens/c.h: a file of their own, since they link SQLite and the JSON reader.
#include <gpulens/c.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include <gpulens/inference.h>

#include "sdk/c/c_state.h"
#include "sdk/inference/core.h"
#include "sdk/inference/record_json.h"

struct gpulens_store {
  gpulens::InferenceStore store;
};

namespace gpulens::sdk {
namespace {

// Turns exceptions, which only a lack of memory causes, into an error: none may reach C.
template <class F>
int Guarded(F&& f) noexcept {
  try {
    return Reported(f());
  } catch (const std::exception& e) {
    try {
      return Reported({Code::kExhausted, e.what()});
    } catch (...) {  // no memory for the message
      return GPULENS_EXHAUSTED;
    }
  }
}

Status NoStore() { return {Code::kInvalidArgument, "there is no store"}; }

Status Open(const char* path_or_url, const gpulens_store_options* given, gpulens_store** out) {
  if (!out) return {Code::kInvalidArgument, "the pointer for the store is null"};
  *out = nullptr;
  gpulens_store_options known = {};
  if (given) std::memcpy(&known, given, std::min(given->size, sizeof known));
  StoreOptions options;
  if (known.queue_records > 0) options.queue_records = known.queue_records;
  if (known.when_full == GPULENS_WHEN_FULL_BLOCK) options.when_full = WhenFull::kBlock;
  else if (known.when_full != GPULENS_WHEN_FULL_DROP_NEWEST)
    return {Code::kInvalidArgument, "when_full must be a value of GPULENS_WHEN_FULL_"};
  auto store = InferenceStore::Open(path_or_url ? path_or_url : "", options);
  if (!store) return store.error();
  *out = new gpulens_store{*std::move(store)};
  return {};
}

Status Record(gpulens_store* store, const char* json, size_t size) {
  if (!store) return NoStore();
  const auto record = ReadRecordJson(json ? std::string_view(json, size) : std::string_view());
  if (!record) return record.error();
  internal::InferenceCore& core = store->store.core();
  if (core.Record(record->row())) return {};
  Status blocked = core.blocked();
  return blocked ? Status{Code::kExhausted, core.path() + ": the queue is full, and the record was dropped"}
                 : blocked;
}

Status Close(gpulens_store* store) {
  if (!store) return NoStore();
  const std::unique_ptr<gpulens_store> owned(store);
  Status closed = owned->store.Close();
  if (!closed) return closed;
  const StoreHealth health = owned->store.health();
  if (health.dropped > 0) {
    return {Code::kExhausted, std::to_string(health.dropped) +
                                  " records were dropped: they arrived faster than they could be written"};
  }
  if (health.rejected > 0) {
    return {Code::kDataLoss, std::to_string(health.rejected) +
                                 " records were rejected; see the table telemetry_poison for the reasons"};
  }
  return {};
}

}  // namespace
}  // namespace gpulens::sdk

int gpulens_store_open(const char* path_or_url, gpulens_store** store) {
  return gpulens_store_open_with(path_or_url, nullptr, store);
}

int gpulens_store_open_with(const char* path_or_url, const gpulens_store_options* options,
                            gpulens_store** store) {
  return gpulens::sdk::Guarded([&] { return gpulens::sdk::Open(path_or_url, options, store); });
}

int gpulens_store_record_json(gpulens_store* store, const char* json, size_t size) {
  return gpulens::sdk::Guarded([&] { return gpulens::sdk::Record(store, json, size); });
}

int gpulens_store_flush(gpulens_store* store, double timeout_seconds) {
  using namespace gpulens;
  return sdk::Guarded(
      [&] { return store ? store->store.Flush(sdk::TimeoutOf(timeout_seconds)) : sdk::NoStore(); });
}

int gpulens_store_close(gpulens_store* store) {
  return gpulens::sdk::Guarded([&] { return gpulens::sdk::Close(store); });
}
