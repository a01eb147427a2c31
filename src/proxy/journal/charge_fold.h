// Carries settled charges from the journal into one store: write first, then forget.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/backoff.h"
#include "proxy/journal/journal.h"
#include "store/charges/charge_store.h"

namespace gpulens {

struct ChargeFoldStats {
  uint64_t stored = 0;   // rows
  uint64_t known = 0;    // that the store had already
  uint64_t refused = 0;  // that the store will never take: they are in the file refused.NAME
  uint64_t failures = 0;
  uint64_t behind = 0;  // records of the journal that the store may not have
  Status status = {};   // of the last attempt
};

// A thread that writes to one store, in batches of 1,000 rows or 50 ms. A store that is away is tried again
// with back-off, and the journal keeps what it has not. A row that the store refuses for what it contains is
// set aside in the file refused.NAME of the journal's folder, so that it does not stop the others. Ends
// before its journal.
class ChargeFold {
 public:
  // Called on the thread, again after each error of the store.
  using OpenStore = std::function<Result<std::unique_ptr<ChargeStore>>()>;
  struct Options {
    size_t store = 0;  // an index of JournalOptions::stores
    std::string name;
    std::string folder;  // of the journal
    size_t batch = ChargeStore::kMostBatch;
    Duration batch_time = std::chrono::milliseconds(50);
    Backoff::Options backoff{.initial = std::chrono::milliseconds(200), .cap = std::chrono::seconds(30)};
    uint64_t seed = 1;
  };

  static Result<std::unique_ptr<ChargeFold>> Start(Journal& journal, Options options, OpenStore open);
  // A batch under way is finished; what is not folded then is folded after the next start.
  ~ChargeFold();

  ChargeFoldStats stats() const;
  // True: the store has all that the journal had when this was called. False after that time.
  bool Drain(Duration longest);

 private:
  ChargeFold(Journal& journal, Options options, OpenStore open);
  void Run();
  // Fills `records_` from the journal. False: stop.
  bool Gather();
  Status WriteBatch();
  Status SetAside(const ChargeRecord& record, const Status& why);

  const Options options_;
  const OpenStore open_;
  JournalReader reader_;
  Backoff backoff_;
  std::unique_ptr<ChargeStore> store_;
  std::vector<ChargeRecord> records_;
  uint64_t place_ = 0;  // behind `records_`
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;  // guards what follows
  ChargeFoldStats stats_;
  std::thread thread_;
};

}  // namespace gpulens
