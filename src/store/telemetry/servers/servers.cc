#include "store/telemetry/servers/servers.h"

#include "base/result.h"
#include "base/text.h"
#include "store/clickhouse/clickhouse.h"
#include "store/postgres/postgres.h"
#include "store/telemetry/clickhouse/click_records.h"
#include "store/telemetry/postgres/postgres_records.h"

namespace gpulens::telemetry {

bool IsServer(std::string_view path_or_url) noexcept {
  return postgres::IsUrl(path_or_url) || clickhouse::IsUrl(path_or_url);
}

std::string ServerName(std::string_view url) { return UrlName(url); }

Result<std::unique_ptr<RecordDestination>> OpenServer(const std::string& url,
                                                      std::chrono::nanoseconds retention) {
  std::unique_ptr<RecordDestination> server;
  if (clickhouse::IsUrl(url)) {
    ASSIGN_OR_RETURN(server, ClickWriter::Open(url, retention));
  } else {
    ASSIGN_OR_RETURN(server, PostgresWriter::Open({.url = url, .retention = retention}));
  }
  return server;
}

Result<std::vector<InferenceSummary>> SummarizeServer(const std::string& url, const Query& query) {
  return clickhouse::IsUrl(url) ? SummarizeClick(url, query) : SummarizePostgres(url, query);
}

Status EachServerRow(const std::string& url, const Query& query,
                     const std::function<bool(const RecordRow&)>& on_row) {
  return clickhouse::IsUrl(url) ? EachClickRow(url, query, on_row) : EachPostgresRow(url, query, on_row);
}

Result<uint64_t> CountServerRecords(const std::string& url) {
  return clickhouse::IsUrl(url) ? CountClickRecords(url) : CountPostgresRecords(url);
}

Result<uint64_t> ClearServer(const std::string& url) {
  if (!clickhouse::IsUrl(url)) return ClearPostgres(url);
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  return ClearClickRows(*server);
}

Status CheckServer(const std::string& url) {
  return clickhouse::IsUrl(url) ? CheckClick(url) : CheckPostgres(url);
}

}  // namespace gpulens::telemetry
