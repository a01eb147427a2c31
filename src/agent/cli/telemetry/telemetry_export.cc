// `gpulens telemetry export`: rows as they come, so that a file of any size needs no memory.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "agent/cli/table/text_table.h"
#include "agent/cli/telemetry/telemetry_command.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/summary/call_scan.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using sqlite::Statement;

constexpr size_t kPiece = 1 << 16;  // bytes that are written at once

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

void AppendJsonRow(std::string& out, const Statement& row) {
  out += '{';
  for (int i = 0; i < row.columns(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(out, row.ColumnName(i));
    out += ':';
    switch (row.TypeOf(i)) {
      case Statement::Type::kNull: out += "null"; break;
      case Statement::Type::kInteger: AppendJsonInt(out, row.Int(i)); break;
      case Statement::Type::kReal: AppendJsonNumber(out, row.Real(i)); break;
      default: AppendJsonString(out, row.Text(i));
    }
  }
  out += '}';
}

void AppendCsvRow(std::string& out, const Statement& row) {
  for (int i = 0; i < row.columns(); ++i) {
    if (i > 0) out += ',';
    switch (row.TypeOf(i)) {
      case Statement::Type::kNull: break;
      case Statement::Type::kInteger: out += std::to_string(row.Int(i)); break;
      case Statement::Type::kReal:
        if (std::isfinite(row.Real(i))) AppendJsonNumber(out, row.Real(i));
        break;
      default: AppendCsvField(out, row.Text(i));
    }
  }
  out += "\r\n";
}

// How many were written.
Result<int64_t> WriteRows(Statement& rows, const std::string& format, std::FILE* to) {
  std::string out;
  if (format == "json") out = "[";
  if (format == "csv") {
    for (int i = 0; i < rows.columns(); ++i) {
      if (i > 0) out += ',';
      AppendCsvField(out, rows.ColumnName(i));
    }
    out += "\r\n";
  }
  int64_t count = 0;
  const auto flush = [&](size_t least) {
    if (out.size() < least) return true;
    const bool written = std::fwrite(out.data(), 1, out.size(), to) == out.size();
    out.clear();
    return written;
  };
  for (;; ++count) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) break;
    if (format == "csv") {
      AppendCsvRow(out, rows);
    } else {
      if (format == "json") out += count > 0 ? ",\n" : "\n";
      AppendJsonRow(out, rows);
      if (format == "jsonl") out += '\n';
    }
    if (!flush(kPiece)) return Status{Code::kIo, "cannot write"};
  }
  if (format == "json") out += count > 0 ? "\n]\n" : "]\n";
  if (!flush(0) || std::fflush(to) != 0) return Status{Code::kIo, "cannot write"};
  return count;
}

// A file is whole or not there.
Result<int64_t> WriteFile(Statement& rows, const std::string& format, const std::string& path) {
  const std::string part = path + ".part";
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(part.c_str(), "we"));
  if (!file) return ErrnoStatus("open " + part, errno);
  auto count = WriteRows(rows, format, file.get());
  if (!count || std::rename(part.c_str(), path.c_str()) != 0) {
    const Status why = count ? ErrnoStatus("rename to " + path, errno) : count.error();
    std::remove(part.c_str());
    return why;
  }
  return count;
}

}  // namespace

int RunTelemetryExport(const TelemetryOptions& options) {
  const auto run = [&]() -> Result<int64_t> {
    ASSIGN_OR_RETURN(const std::string path, FindTelemetryFile(options.db));
    ASSIGN_OR_RETURN(const Query query, QueryOf(options, RealClock().Now().unix_ns));
    ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
    ASSIGN_OR_RETURN(Statement rows, telemetry::SelectAsTheyAre(database, query));
    if (options.output.empty() || options.output == "-") return WriteRows(rows, options.format, stdout);
    return WriteFile(rows, options.format, options.output);
  };
  auto count = run();
  if (!count) return ComplainOfTelemetry("export", count.error());
  if (!options.output.empty() && options.output != "-")
    ::dprintf(STDERR_FILENO, "Exported %s records to %s\n", CountText(*count).c_str(),
              options.output.c_str());
  return 0;
}

}  // namespace gpulens
