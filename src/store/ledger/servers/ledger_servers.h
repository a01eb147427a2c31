// Copies of ledgers on a PostgreSQL or ClickHouse server, chosen by the URL: the hours of many machines in
// two tables.
//
//   gpulens_ledger_entry  a row for each hour, for_hour and account of a ledger, with all amounts
//   gpulens_ledger_hour   a row for each hour of a ledger: host, revision, number of entries
//
// `ledger` is the id of the file and `account` the SHA-256 of the account, so that a row is the same however
// often it is copied. `for_hour` is `hour` but for adjustments of an earlier hour. PostgreSQL replaces an
// hour in one transaction; ClickHouse keeps the row with the highest revision, so its queries need FINAL.
#pragma once

#include <cstdint>
#include <string>

#include <gpulens/status.h>

#include "store/ledger/ledger_file.h"

namespace gpulens::ledger {

struct PushCounts {
  uint64_t hours = 0, entries = 0;  // that were copied
  uint64_t unchanged = 0;           // hours that the server had
};

// Whether it is a URL of such a server: postgresql://… or clickhouse://….
bool IsLedgerServer(std::string_view url) noexcept;

// Copies the hours with since <= hour_unix < until whose revision the server does not have, the oldest
// first; creates missing tables. After a failure the hours before it are there, and the rest is copied by the
// next call. Errors are those of store/postgres and store/clickhouse.
Result<PushCounts> PushLedger(LedgerFile& ledger, const std::string& url, int64_t since_unix,
                              int64_t until_unix);

}  // namespace gpulens::ledger
