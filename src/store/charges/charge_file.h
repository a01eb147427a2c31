// Charges in a file of SQLite: a row for each request, and its attempts.
//
//   llm_charge   the columns of charge_sql.h; request_id is unique
//   llm_attempt  (request_id, number) and the attempt
//
// A file of its own and not the telemetry's: that one loses the last commits in a power cut, has many writers
// and is deleted by age. Here each commit waits for the disk, one program writes, and rows go only by
// `retention`.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "store/charges/charge_store.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {

class ChargeFile final : public ChargeStore {
 public:
  struct Options {
    std::string path;
    bool read_only = false;
    bool create = true;     // a missing file, with mode 0600, and the folders above it
    Duration retention{0};  // rows settled before it are deleted, an hour's at most with each Write; 0: none
    bool durable = true;    // a commit waits for the disk
    Duration longest = std::chrono::minutes(10);  // of all reading, and of a Write: then kTimeout
    const Clock* clock = &RealClock();
  };

  // kUnavailable: another program writes it, there is no file (read-only), or a newer program made it.
  // kDataLoss: it is damaged or not ours; it is left as it is, because charges that were in it are needed.
  static Result<std::unique_ptr<ChargeFile>> Open(const Options& options);

  Result<ChargeWriteCounts> Write(std::span<const ChargeRecord> records) override;
  Result<std::vector<ChargeSumRow>> Sum(const ChargeQuery& query) override;
  Result<std::vector<__int128>> Spent(std::span<const SpentWindow> windows) override;
  Result<std::vector<ChargeRecord>> List(const ChargePlace& after, size_t limit,
                                         const ChargeQuery& which = {}) override;
  Result<std::optional<IdempotentCharge>> FindIdempotent(std::string_view key, const IdempotencyHash& hash,
                                                         int64_t since_unix_ns) override;
  Result<std::vector<IdempotentCharge>> ListIdempotent(int64_t since_unix_ns) override;

  const std::string& path() const noexcept { return options_.path; }

 private:
  ChargeFile(sqlite::Database database, const Options& options)
      : options_(options), database_(std::move(database)) {}
  Status Forget();

  const Options options_;
  UniqueFd lock_;  // of the writer
  sqlite::Database database_;
  sqlite::Statement insert_, insert_attempt_;
};

}  // namespace gpulens
