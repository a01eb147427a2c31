// Charges for reports: any store of them, opened to be read, and its records one by one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gpulens/status.h>

#include "store/charges/charge_store.h"

namespace gpulens {

// Opens charges to read them: the path of a file, postgresql://… or clickhouse://…. Nothing is created or
// changed, and a proxy may write meanwhile. Write is not called. kUnavailable: no file, no server, no
// tables, or those of a newer program. kDataLoss: another file.
Result<std::unique_ptr<ChargeStore>> OpenCharges(const std::string& where);

// Calls `visit` for each record with query.since_unix_ns <= settled_unix_ns < query.until_unix_ns for which
// all of query.where holds, in the order of (settled_unix_ns, id), until it fails. query.by is not used.
// Records have their attempts, and each id comes once. kInvalidArgument: a day that is none.
Status ForEachCharge(ChargeStore& store, const ChargeQuery& query,
                     const std::function<Status(const ChargeRecord&)>& visit);

}  // namespace gpulens
