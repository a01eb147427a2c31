// Inference records on a PostgreSQL or ClickHouse server, chosen by the URL.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

// postgresql://…, clickhouse://…
bool IsServer(std::string_view path_or_url) noexcept;
// The URL as people may see it: without a password and without parameters.
std::string ServerName(std::string_view url);

// Thread-safe; each call makes its own connections. Errors are those of store/postgres and store/clickhouse;
// kDataLoss: there are no such tables.
Result<std::unique_ptr<Destination>> OpenServer(const std::string& url, std::chrono::nanoseconds retention);
Result<std::vector<InferenceSummary>> SummarizeServer(const std::string& url, const Query& query);
// In the order of time. False from `on_row`: enough.
Status EachServerRow(const std::string& url, const Query& query,
                     const std::function<bool(const Row&)>& on_row);
Result<uint64_t> CountServerRecords(const std::string& url);
// Deletes all of them; how many there were.
Result<uint64_t> ClearServer(const std::string& url);
Status CheckServer(const std::string& url);

}  // namespace gpulens::telemetry
