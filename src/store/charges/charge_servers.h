// Charges on a PostgreSQL or ClickHouse server, chosen by the URL, in the tables gpulens_llm_charge and
// gpulens_llm_attempt, with the columns of the file (charge_file.h). Several proxies may write to one server.
//
// PostgreSQL: request_id is a UUID and the primary key; a second row with it is ignored (ON CONFLICT DO
// NOTHING), and a Write is one transaction. ClickHouse: ReplacingMergeTree by request_id, so rows that were
// written twice count once in queries with FINAL, as all of ours are. Of two different rows of an id (after a
// power cut) one that is settled replaces `unsettled`. Attempts are written before their charges; a failure
// in between leaves them without, until the repetition. ChargeWriteCounts::known stays 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "store/charges/charge_store.h"

namespace gpulens {

// postgresql://… or clickhouse://….
bool IsChargeServer(std::string_view url) noexcept;

enum class ChargeAccess : uint8_t {
  kWrite,  // creates or extends the tables
  kRead,   // needs them, and changes nothing: rights to SELECT are enough
};
// Connects. kUnavailable: no server, no tables, or those of a newer program. After an error that passes, open
// it again.
Result<std::unique_ptr<ChargeStore>> OpenChargeServer(const std::string& url,
                                                      ChargeAccess access = ChargeAccess::kWrite);

}  // namespace gpulens
