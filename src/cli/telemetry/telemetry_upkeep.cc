// `gpulens telemetry clear`, `vacuum` and `check`.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "base/result.h"
#include "base/text.h"
#include "cli/common/command.h"
#include "cli/common/text_table.h"
#include "cli/telemetry/telemetry_command.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary/rollup_tables.h"

namespace gpulens {
namespace {

constexpr int kBusyMs = 10'000;           // a writer's batch takes milliseconds
constexpr size_t kRollUpAtOnce = 65'536;  // rows in a transaction, so that writers wait no longer than 0.2 s

std::string Plural(int64_t count, const char* what) {
  return CountText(count) + " " + what + (count == 1 ? "" : "s");
}

Result<int64_t> Clear(const std::string& path) {
  if (telemetry::IsServer(path)) {
    ASSIGN_OR_RETURN(const uint64_t deleted, telemetry::ClearServer(path));
    return static_cast<int64_t>(deleted);
  }
  ASSIGN_OR_RETURN(sqlite::Database database,
                   sqlite::Database::Open({.path = path, .create = false, .busy_ms = kBusyMs}));
  ASSIGN_OR_RETURN(sqlite::Transaction transaction, sqlite::Transaction::Begin(database));
  telemetry::RollupWriter rollups;
  RETURN_IF_ERROR(database.Run("DELETE FROM telemetry"));
  const int64_t deleted = database.changes();
  // Of nothing there is nothing stale.
  RETURN_IF_ERROR(rollups.Forget(database, std::numeric_limits<double>::infinity()));
  RETURN_IF_ERROR(transaction.Commit());
  return deleted;
}

Result<int64_t> CountRecords(const std::string& path) {
  if (telemetry::IsServer(path)) {
    ASSIGN_OR_RETURN(const uint64_t count, telemetry::CountServerRecords(path));
    return static_cast<int64_t>(count);
  }
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  return database.Number("SELECT count(*) FROM telemetry");
}

Result<int64_t> SizeOf(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return Status{Code::kUnavailable, "there is no " + path};
  return info.st_size;
}

Status RollUpAll(const sqlite::Database& database) {
  telemetry::RollupWriter rollups;
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(sqlite::Transaction transaction, sqlite::Transaction::Begin(database));
    ASSIGN_OR_RETURN(more, rollups.CatchUp(database, kRollUpAtOnce));
    RETURN_IF_ERROR(transaction.Commit());
  }
  return Ok();
}

Status Vacuum(const std::string& path, std::string& told) {
  RETURN_IF_ERROR(telemetry::OpenToRead(path).status());
  ASSIGN_OR_RETURN(const int64_t before, SizeOf(path));
  telemetry::RollupWriter rollups;
  ASSIGN_OR_RETURN(sqlite::Database database, telemetry::OpenToWrite(path, &rollups));
  RETURN_IF_ERROR(RollUpAll(database));
  RETURN_IF_ERROR(database.Run("VACUUM; PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)"));
  ASSIGN_OR_RETURN(const int64_t after, SizeOf(path));
  told = path + ": " + CountText(before / 1024) + " KiB before, " + CountText(after / 1024) + " KiB now\n";
  return Ok();
}

Result<bool> HasTable(const sqlite::Database& database, const char* name) {
  ASSIGN_OR_RETURN(const int64_t found,
                   database.Number("SELECT count(*) FROM sqlite_master WHERE type='table' AND name='" +
                                   std::string(name) + "'"));
  return found > 0;
}

// What SQLite finds wrong, a line each; empty: nothing.
Result<std::string> Damage(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(sqlite::Statement check, database.Prepare("PRAGMA integrity_check(20)"));
  std::string found;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, check.Step());
    if (!more) return found;
    if (check.Text(0) == "ok") continue;
    found += "  ";
    AppendPrintable(found, check.Text(0));
    found += "\n";
  }
}

Status ReportRollups(const sqlite::Database& database, int64_t records, std::string& out) {
  ASSIGN_OR_RETURN(const telemetry::RollupState state, telemetry::ReadState(database));
  if (!state.there) {
    out += "  no roll-ups: summaries read every record (gpulens telemetry vacuum makes them)\n";
  } else if (state.stale) {
    out += "  roll-ups are stale, as another program changed records; the next writer renews them\n";
  } else {
    ASSIGN_OR_RETURN(const int64_t held, database.Number("SELECT count(*) FROM telemetry WHERE id<=" +
                                                         std::to_string(state.covered)));
    out += "  " + CountText(held) + " of " + Plural(records, "record") + " rolled up\n";
  }
  return Ok();
}

// False: it is damaged.
Result<bool> Check(const std::string& path, std::string& out) {
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  ASSIGN_OR_RETURN(const std::string damage, Damage(database));
  if (!damage.empty()) {
    out = path + ": damaged\n" + damage;
    return false;
  }
  ASSIGN_OR_RETURN(const int64_t records, database.Number("SELECT count(*) FROM telemetry"));
  out = path + ": sound, " + Plural(records, "record") + "\n";
  RETURN_IF_ERROR(ReportRollups(database, records, out));
  ASSIGN_OR_RETURN(const bool poison, HasTable(database, "telemetry_poison"));
  if (!poison) return true;
  ASSIGN_OR_RETURN(const int64_t aside, database.Number("SELECT count(*) FROM telemetry_poison"));
  if (aside > 0) out += "  " + Plural(aside, "record") + " rejected: SELECT * FROM telemetry_poison\n";
  return true;
}

}  // namespace

int RunTelemetryClear(const TelemetryOptions& options) {
  auto path = FindTelemetry(options.db);
  if (!path) return FailCommand("telemetry clear", path.error());
  auto records = CountRecords(*path);
  if (!records) return FailCommand("telemetry clear", records.error());
  if (!options.yes) {
    if (::isatty(STDIN_FILENO) == 0)
      return FailCommand("telemetry clear",
                         "no terminal to confirm on; pass --yes to delete without confirmation", 2);
    const std::string place = telemetry::IsServer(*path) ? telemetry::ServerName(*path) : *path;
    if (!IsConfirmed("Delete all telemetry records? " + Plural(*records, "record") + " in " + place +
                     " [y/N] ")) {
      ::dprintf(STDERR_FILENO, "Aborted.\n");
      return 1;
    }
  }
  auto deleted = Clear(*path);
  if (!deleted) return FailCommand("telemetry clear", deleted.error());
  return PrintText("Deleted " + CountText(*deleted) + " telemetry records.\n");
}

int RunTelemetryVacuum(const TelemetryOptions& options) {
  auto path = FindTelemetryFile(options.db);
  if (!path) return FailCommand("telemetry vacuum", path.error());
  std::string told;
  if (Status done = Vacuum(*path, told); !done) return FailCommand("telemetry vacuum", done);
  return PrintText(told);
}

int RunTelemetryCheck(const TelemetryOptions& options) {
  auto path = FindTelemetryFile(options.db);
  if (!path) return FailCommand("telemetry check", path.error());
  std::string told;
  auto sound = Check(*path, told);
  if (!sound) return FailCommand("telemetry check", sound.error());
  const int printed = PrintText(told);
  return *sound ? printed : 1;
}

}  // namespace gpulens
