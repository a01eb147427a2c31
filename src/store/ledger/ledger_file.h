// The ledger on disk: a file of SQLite with a row for each hour and account, and the state that a restart
// needs.
//
//   ledger          one row: id (32 hexadecimal digits, random), format, created_unix_ns, host
//   ledger_state    one row: StateText, and when it was written
//   ledger_account  a row per account, with every column of Account as text; last_hour_unix
//   ledger_entry    (hour_unix, for_hour_unix, account) and all Amounts as integers
//   ledger_day      (day_unix, account) and the sums of ledger_entry over the hours of the day, for reports
//   ledger_hour     hour_unix, revision: how many Writes changed the hour, for those who copy it
//
// hour_unix is when the booking window began, in seconds, as a whole hour of UTC. for_hour_unix is 0 for all
// but adjustments of windows in an earlier hour. Sums over hours are by hour_unix: a row is never changed
// by what is booked in a later hour.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ledger/account.h"
#include "ledger/ledger.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::ledger {

// What sums are grouped and filtered by. kDay and kHour are of hour_unix.
enum class Dimension : uint8_t {
  kTenant,
  kNamespace,
  kPod,
  kJob,
  kProcess,
  kModel,
  kEngine,
  kGpu,
  kSlice,
  kClass,  // RequestClass
  kCause,
  kState,  // ComputeState
  kEnergyState,
  kMethod,
  kDay,   // "2026-11-26"
  kHour,  // "2026-11-26T14:00:00Z"
};
inline constexpr size_t kDimensions = 16;
// "tenant", "namespace", "energy_state". Static storage.
std::string_view Name(Dimension dimension) noexcept;
// False, and `out` unchanged, for another text.
bool Parse(std::string_view text, Dimension& out) noexcept;
// Its text in an account; empty for kDay and kHour.
std::string_view TextOf(const Account& account, Dimension dimension) noexcept;
// "2026-11-26" and "2026-11-26T14:00:00Z", of seconds since 1970.
std::string DayText(int64_t unix_seconds);
std::string TimeText(int64_t unix_seconds);

// Sums of Amounts that cannot overflow in practice. Same units.
struct Totals {
  __int128 energy_uj = 0, time_ms = 0, cost_allocation_pico = 0, cost_usage_pico = 0, priced_ms = 0;
  __int128 electricity_pico = 0, carbon_ng = 0, carbon_known_uj = 0, unmetered_ms = 0, tokens = 0;

  Totals& operator+=(const Amounts& amounts) noexcept;
  Totals& operator+=(const Totals& other) noexcept;
  bool operator==(const Totals&) const = default;
};

struct SumQuery {
  int64_t since_unix = INT64_MIN, until_unix = INT64_MAX;  // seconds: hours with since <= hour_unix < until
  std::vector<Dimension> by = {};                          // empty: one row
  std::vector<std::pair<Dimension, std::string>> where = {};  // all must hold; an empty text: unknown or none
};
struct SumRow {
  std::vector<std::string> key;  // as `by`
  Totals sums;
};

// One row of ledger_entry.
struct HourEntry {
  int64_t hour_unix = 0, for_hour_unix = 0;
  const Account* account = nullptr;  // until the visit ends
  Amounts amounts;
};

// Used by one thread at a time.
class LedgerFile {
 public:
  struct Options {
    std::string path;
    bool read_only = false;
    Duration retention = std::chrono::hours(24 * 400);  // days that ended before it are deleted; 0: none
    bool create = true;                                 // a missing file, with mode 0640, and folders
    Duration longest = std::chrono::minutes(10);        // of all reading, and of a Write: then kTimeout
  };

  // For writing: a damaged or foreign file is renamed to PATH.broken (or .broken.2, ...) with a line in the
  // log, and a new one is made. Only one writer: kUnavailable when another program has the file open to
  // write. Read-only works while another program writes, with permission to read the file and the folder.
  // It sees the file as it was at its first query. kUnavailable: there is no file, or a newer program made
  // it. kDataLoss, read-only: damaged or foreign.
  static Result<std::unique_ptr<LedgerFile>> Open(Options options);

  // 32 hexadecimal digits that no other file has.
  const std::string& id() const noexcept { return id_; }
  const std::string& host() const noexcept { return host_; }
  const std::string& path() const noexcept { return options_.path; }
  int64_t created_unix_ns() const noexcept { return created_unix_ns_; }

  // Empty: nothing was written yet. kDataLoss: the text is no state.
  Result<std::optional<LedgerState>> ReadState();

  // Adds the entries to the rows of their hours, replaces the state, and deletes what is too old, in one
  // transaction: after a failure, or a kill at any moment, all of it is there or none. It survives the end of
  // this program at once; a crash of the machine may lose the last Writes, never a part of one. A file that
  // turns out to be damaged is set aside as by Open, and the entries go into a new one, whose id differs.
  // kExhausted: the disk is full. kInvalidArgument: a time before 1970.
  Status Write(std::span<const Entry> entries, const LedgerState& state, Instant now);

  // Texts of all accounts; more is kExhausted.
  static constexpr size_t kMostAccountBytes = 256 << 20;
  // Rows in the order of their keys. All amounts of the matching entries are in exactly one row.
  Result<std::vector<SumRow>> Sum(const SumQuery& query);
  // Calls `visit` for each entry with since <= hour_unix < until, by hour, then for_hour, then account (in
  // the order of Account), until it fails.
  Status ForEach(int64_t since_unix, int64_t until_unix,
                 const std::function<Status(const HourEntry&)>& visit);

  struct Hour {
    int64_t hour_unix = 0, revision = 0;
  };
  // With since <= hour_unix < until, the oldest first.
  Result<std::vector<Hour>> Hours(int64_t since_unix, int64_t until_unix);
  // When the last Write was; 0: never.
  Result<int64_t> WrittenUnixNs();

 private:
  struct Known {
    int64_t id = 0, last_hour_unix = INT64_MIN;
  };
  LedgerFile(sqlite::Database database, Options options)
      : options_(std::move(options)), database_(std::move(database)) {}
  static Result<std::unique_ptr<LedgerFile>> OpenOnce(const Options& options);
  static Status SetAside(const Options& options, const Status& why);
  Status Prepare();
  Status WriteOnce(std::span<const Entry> entries, const LedgerState& state, Instant now);
  Result<int64_t> AccountId(const Account& account, int64_t hour_unix);
  Status Add(const Entry& entry);
  Status Forget(int64_t now_unix);
  // Accounts of entries since then, by id.
  Result<std::map<int64_t, Account>> Accounts(int64_t since_unix);

  Options options_;
  UniqueFd lock_;  // of the writer
  sqlite::Database database_;
  std::string id_, host_;
  int64_t created_unix_ns_ = 0;
  // Of the writer.
  std::map<Account, Known> known_;   // accounts of the last hours
  std::vector<int64_t> hours_unix_;  // that the Write in progress changed
  int64_t next_forget_unix_ = INT64_MIN;
  sqlite::Statement add_, add_to_day_, insert_account_, find_account_, use_account_, set_state_, change_hour_;
};

}  // namespace gpulens::ledger
