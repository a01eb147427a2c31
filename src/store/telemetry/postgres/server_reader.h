// Reads inference records out of a PostgreSQL database. Each call makes a connection of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/inference.h>

namespace gpulens::telemetry {

// As those of summary.h; all rows that fit are read, some thousands at once, as they are at one moment.
Result<std::vector<InferenceSummary>> SummarizeServer(const std::string& url, const Query& query);
Status EachServerRecord(const std::string& url, const Query& query,
                        const std::function<bool(const InferenceRecord&)>& on_record);
Result<uint64_t> CountServerRecords(const std::string& url);
// Whether it can be read at all.
Status CheckServer(const std::string& url);

}  // namespace gpulens::telemetry
