// The writer's first and last acts: whose file it is, and what is deleted.
#include <sys/stat.h>

#include "base/result.h"
#include "store/experiments/run_schema.h"
#include "store/experiments/run_writer.h"

namespace gpulens::experiments {

using sqlite::Statement;
using sqlite::Transaction;

namespace {

// Of a batch's transaction. Ranks of one job take turns, each for milliseconds.
constexpr int kBusyMs = 10'000;

// Looked at before it is opened for writing, which alone changes a file.
Status CheckIsOurs(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || info.st_size == 0) return Ok();
  auto database = sqlite::Database::Open({.path = path, .read_only = true, .busy_ms = kBusyMs});
  if (!database) return database.error();
  ASSIGN_OR_RETURN(bool old, IsOldFile(*database));
  if (old)
    return {Code::kInvalidArgument,
            path + " is a file of the zernel project, which is read-only. Use another file"};
  ASSIGN_OR_RETURN(int64_t version, CheckVersion(*database, kRunSchema));
  ASSIGN_OR_RETURN(int64_t tables, database->Number("SELECT count(*) FROM sqlite_master"));
  if (version == 0 && tables != 0) return {Code::kInvalidArgument, path + " is not a file of experiments"};
  return Ok();
}

}  // namespace

Result<std::unique_ptr<RunWriter>> RunWriter::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckIsOurs(path));
  ASSIGN_OR_RETURN(sqlite::Database database,
                   sqlite::Database::Open({.path = path, .busy_ms = kBusyMs, .durable = false}));
  RETURN_IF_ERROR(BringUpToDate(database, kRunSchema));
  return std::unique_ptr<RunWriter>(new RunWriter(std::move(database)));
}

Result<std::vector<std::string>> RunWriter::Delete(std::string_view id) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  constexpr const char* kFamily =
      "WITH RECURSIVE family(id) AS (SELECT id FROM run WHERE id=? UNION SELECT r.id FROM run r JOIN family "
      "f ON"
      " r.parent_id=f.id) ";
  ASSIGN_OR_RETURN(Statement family, database_.Prepare(std::string(kFamily) + "SELECT id FROM family"));
  family.Bind(1, id);
  std::vector<std::string> ids;
  for (;;) {
    ASSIGN_OR_RETURN(bool more, family.Step());
    if (!more) break;
    ids.emplace_back(family.Text(0));
  }
  if (ids.empty()) return Status{Code::kInvalidArgument, "no run " + std::string(id)};
  ASSIGN_OR_RETURN(Statement points, database_.Prepare("DELETE FROM point WHERE metric_id IN"
                                                       " (SELECT id FROM metric WHERE run_id=?)"));
  ASSIGN_OR_RETURN(Statement run, database_.Prepare("DELETE FROM run WHERE id=?"));
  for (const std::string& each : ids) {
    RETURN_IF_ERROR(points.Bind(1, each).Execute());
    RETURN_IF_ERROR(run.Bind(1, each).Execute());
  }
  RETURN_IF_ERROR(transaction.Commit());
  return ids;
}

}  // namespace gpulens::experiments
