// Inference records on a PostgreSQL or ClickHouse server, chosen by the URL.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Whether the text is a URL of a server: postgresql://… or clickhouse://….
bool IsServer(std::string_view path_or_url) noexcept;
// The URL without password and parameters, for messages.
std::string ServerName(std::string_view url);

// Thread-safe; each call makes its own connections. Errors are those of store/postgres and store/clickhouse,
// and kDataLoss when the tables are missing.
Result<std::unique_ptr<RecordDestination>> OpenServer(const std::string& url,
                                                      std::chrono::nanoseconds retention);
Result<std::vector<InferenceSummary>> SummarizeServer(const std::string& url, const Query& query);
// Calls `on_row` in the order of time until it returns false.
Status EachServerRow(const std::string& url, const Query& query,
                     const std::function<bool(const RecordRow&)>& on_row);
Result<uint64_t> CountServerRecords(const std::string& url);
// Deletes all records. Returns their number.
Result<uint64_t> ClearServer(const std::string& url);
Status CheckServer(const std::string& url);

}  // namespace gpulens::telemetry
