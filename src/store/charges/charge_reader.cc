#include "store/charges/charge_reader.h"

#include "base/result.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_servers.h"

namespace gpulens {

Result<std::unique_ptr<ChargeStore>> OpenCharges(const std::string& where) {
  if (IsChargeServer(where)) return OpenChargeServer(where, ChargeAccess::kRead);
  ASSIGN_OR_RETURN(auto file, ChargeFile::Open({.path = where, .read_only = true}));
  return std::unique_ptr<ChargeStore>(std::move(file));
}

Status ForEachCharge(ChargeStore& store, const ChargeQuery& query,
                     const std::function<Status(const ChargeRecord&)>& visit) {
  // Ids begin with their time and are never 0, so the first record is behind this place.
  ChargePlace place{query.since_unix_ns, {}};
  for (;;) {
    ASSIGN_OR_RETURN(const std::vector<ChargeRecord> records,
                     store.List(place, ChargeStore::kMostBatch, query));
    if (records.empty()) return Ok();
    for (const ChargeRecord& record : records) RETURN_IF_ERROR(visit(record));
    place = {records.back().settled_unix_ns, records.back().id};
  }
}

}  // namespace gpulens
