#include "store/telemetry/clickhouse/click_reader.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "store/clickhouse/tab_rows.h"
#include "store/telemetry/clickhouse/click_tables.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary/call_scan.h"
#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {
namespace {

using clickhouse::NameQuoted;
using clickhouse::Quoted;

std::string Conditions(const Query& query) {
  std::string sql = " WHERE 1";
  const TimeRange range = RangeOf(query);
  if (std::isfinite(range.since)) sql += " AND timestamp>=" + ClickNumber(range.since);
  if (std::isfinite(range.until)) sql += " AND timestamp<=" + ClickNumber(range.until);
  const auto text = [&](const char* column, const std::string& wanted) {
    if (!wanted.empty()) sql += std::string(" AND ") + column + "=" + Quoted(wanted);
  };
  text("model_id", query.model);
  text("engine", query.engine);
  text("agent", query.agent);
  text("batch_id", query.batch_id);
  if (query.by == GroupBy::kBatch) sql += " AND batch_id<>''";
  if (!query.warmup) sql += " AND is_warmup=0";
  if (query.token_counting_version)
    sql += " AND token_counting_version=" + std::to_string(*query.token_counting_version);
  return sql;
}

std::string From(const clickhouse::Server& server, const ClickTable& table) {
  return " FROM " + NameQuoted(server.address().table) + (table.replaces() ? " FINAL" : "");
}

Status Scan(const std::string& url, const std::function<std::string(const ClickTable&)>& select,
            const std::string& behind, const std::function<bool(const Row&)>& on_row) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  ASSIGN_OR_RETURN(const ClickTable table, CheckClickTables(*server));
  clickhouse::TabRows rows;
  std::optional<BasicRowReader<clickhouse::TabRows>> reader;
  bool enough = false;
  const auto on_piece = [&](std::string_view piece) {
    return rows.Feed(piece, [&] {
      if (!reader) reader.emplace(rows);
      enough = !on_row(reader->Read());
      return enough ? Status{Code::kExhausted, "enough"} : Ok();
    });
  };
  const Status read = server->Read(
      "SELECT " + select(table) + From(*server, table) + behind + " FORMAT TabSeparatedWithNames", on_piece);
  if (enough) return Ok();
  RETURN_IF_ERROR(read);
  return rows.End();
}

// Those that the table has.
std::string SummedColumns(const ClickTable& table) {
  std::string columns;
  for (std::string_view name : kSummedColumns) {
    if (table.types.contains(std::string(name))) columns += (columns.empty() ? "" : ",") + std::string(name);
  }
  return columns;
}

}  // namespace

std::string ClickNumber(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  return {digits, end};
}

Result<std::vector<InferenceSummary>> SummarizeClick(const std::string& url, const Query& query) {
  return SummarizeRows(query, [&](const std::function<bool(const Row&)>& on_row) {
    return Scan(url, SummedColumns, Conditions(query), on_row);
  });
}

Status EachClickRow(const std::string& url, const Query& query,
                    const std::function<bool(const Row&)>& on_row) {
  const auto ordered = [&](const char* direction) {
    std::string order = " ORDER BY ";
    for (const char* column : {"timestamp", "writer_id", "id"})
      order += std::string(order.size() > 10 ? "," : "") + column + direction;
    return order;
  };
  std::string order = ordered(query.newest_first ? " DESC" : "");
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  return Scan(url, [](const ClickTable&) { return std::string("*"); }, Conditions(query) + order, on_row);
}

Result<uint64_t> CountClickRows(const clickhouse::Server& server, const std::string& where,
                                Duration timeout) {
  ASSIGN_OR_RETURN(const ClickTable table, CheckClickTables(server));
  ASSIGN_OR_RETURN(const std::string answer,
                   server.Query("SELECT count()" + From(server, table) + where, timeout));
  if (const auto count = ParseInt<uint64_t>(Trim(answer))) return *count;
  return Status{Code::kDataLoss, "the server returned no number of rows"};
}

Result<uint64_t> CountClickRecords(const std::string& url) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  return CountClickRows(*server, "", clickhouse::Server::kLong);
}

Result<uint64_t> ClearClickRows(const clickhouse::Server& server) {
  ASSIGN_OR_RETURN(const uint64_t count, CountClickRows(server, "", clickhouse::Server::kLong));
  RETURN_IF_ERROR(server.Run("TRUNCATE TABLE " + NameQuoted(server.address().table)));
  return count;
}

Status CheckClick(const std::string& url) {
  ASSIGN_OR_RETURN(const auto server, clickhouse::Server::Open(url));
  return CheckClickTables(*server).status();
}

}  // namespace gpulens::telemetry
