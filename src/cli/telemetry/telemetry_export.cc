// `gpulens telemetry export`: writes rows as they are read, so that memory does not grow with the file.
#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/telemetry/telemetry_command.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

using telemetry::RecordColumn;
using telemetry::RecordNumbers;
using telemetry::TextColumn;
using CellType = sqlite::Statement::Type;

// Columns after those of RecordColumns().
enum ExtraColumn : uint8_t { kOutcome, kMeasured, kExtras };

const RecordColumn* At(int column) noexcept {
  const auto all = telemetry::RecordColumns();
  return static_cast<size_t>(column) < all.size() ? &all[static_cast<size_t>(column)] : nullptr;
}
int ExtraOf(int column) noexcept { return column - static_cast<int>(telemetry::RecordColumns().size()); }

bool Nullable(const RecordColumn& column) noexcept {
  return column.declaration.find("NOT NULL") == std::string_view::npos;
}

// A record as cells of the types of their columns, NULL for an absent value, without `id`.
class RowCells {
 public:
  // `row` outlives it.
  explicit RowCells(const telemetry::RecordRow& row) noexcept : row_(&row) {}

  int columns() const noexcept { return static_cast<int>(telemetry::RecordColumns().size()) + kExtras; }
  std::string_view ColumnName(int column) const noexcept {
    if (const RecordColumn* found = At(column)) return found->name;
    return ExtraOf(column) == kOutcome ? "outcome" : "measured";
  }
  CellType TypeOf(int column) const noexcept {
    const RecordColumn* found = At(column);
    if (!found) return ExtraOf(column) == kOutcome ? CellType::kText : CellType::kInteger;
    if (const auto* real = std::get_if<double RecordNumbers::*>(&found->at))
      return Nullable(*found) && std::isnan(row_->numbers.*(*real)) ? CellType::kNull : CellType::kReal;
    if (const auto* whole = std::get_if<int64_t RecordNumbers::*>(&found->at))
      return Nullable(*found) && row_->numbers.*(*whole) == telemetry::kNoCount ? CellType::kNull
                                                                                : CellType::kInteger;
    return Nullable(*found) && Text(column).empty() ? CellType::kNull : CellType::kText;
  }
  int64_t Int(int column) const noexcept {
    const RecordColumn* found = At(column);
    if (!found) return telemetry::MeasuredMask(*row_);
    const int64_t value = row_->numbers.*std::get<int64_t RecordNumbers::*>(found->at);
    return value == telemetry::kNoCount ? 0 : value;
  }
  double Real(int column) const noexcept {
    const double value = row_->numbers.*std::get<double RecordNumbers::*>(At(column)->at);
    return std::isnan(value) ? 0 : value;
  }
  std::string_view Text(int column) const noexcept {
    const RecordColumn* found = At(column);
    if (!found) return OutcomeName(static_cast<Outcome>(row_->numbers.outcome));
    const TextColumn which = std::get<TextColumn>(found->at);
    const std::string_view text = row_->text(which);
    return text.empty() && which == TextColumn::kMetadata ? "{}" : text;
  }

 private:
  const telemetry::RecordRow* row_;
};

using sqlite::Statement;

constexpr size_t kPiece = 1 << 16;  // bytes that are written at once

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

template <class Cells>
void AppendJsonRow(std::string& out, const Cells& row) {
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

template <class Cells>
void AppendCsvRow(std::string& out, const Cells& row) {
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

// Writes rows, of a Statement or RowCells.
class RowSink {
 public:
  RowSink(std::string format, std::FILE* to) : format_(std::move(format)), to_(to) {
    if (format_ == "json") out_ = "[";
  }

  // Called before the first row, also without any row.
  template <class Cells>
  void Begin(const Cells& names) {
    if (format_ != "csv") return;
    for (int i = 0; i < names.columns(); ++i) {
      if (i > 0) out_ += ',';
      AppendCsvField(out_, names.ColumnName(i));
    }
    out_ += "\r\n";
  }

  template <class Cells>
  Status Add(const Cells& row) {
    if (format_ == "csv") {
      AppendCsvRow(out_, row);
    } else {
      if (format_ == "json") out_ += count_ > 0 ? ",\n" : "\n";
      AppendJsonRow(out_, row);
      if (format_ == "jsonl") out_ += '\n';
    }
    ++count_;
    return out_.size() < kPiece ? Ok() : Write();
  }

  // Returns how many rows were written.
  Result<int64_t> End() {
    if (format_ == "json") out_ += count_ > 0 ? "\n]\n" : "]\n";
    RETURN_IF_ERROR(Write());
    if (std::fflush(to_) != 0) return Status{Code::kIo, "cannot write"};
    return count_;
  }

 private:
  Status Write() {
    const bool written = std::fwrite(out_.data(), 1, out_.size(), to_) == out_.size();
    out_.clear();
    return written ? Ok() : Status{Code::kIo, "cannot write"};
  }

  const std::string format_;
  std::FILE* const to_;
  std::string out_;
  int64_t count_ = 0;
};

Status AddFile(const std::string& path, const Query& query, RowSink& sink) {
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path));
  ASSIGN_OR_RETURN(Statement rows, telemetry::SelectAllColumns(database, query));
  sink.Begin(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return Ok();
    RETURN_IF_ERROR(sink.Add(rows));
  }
}

Status AddServer(const std::string& url, const Query& query, RowSink& sink) {
  const telemetry::RecordRow none;
  sink.Begin(RowCells(none));
  Status written;
  RETURN_IF_ERROR(telemetry::EachServerRow(url, query, [&](const telemetry::RecordRow& row) {
    written = sink.Add(RowCells(row));
    return written.ok();
  }));
  return written;
}

Result<int64_t> WriteRows(const std::string& where, const Query& query, RowSink sink) {
  RETURN_IF_ERROR(telemetry::IsServer(where) ? AddServer(where, query, sink) : AddFile(where, query, sink));
  return sink.End();
}

// Writes a complete file or none.
Result<int64_t> WriteFile(const std::string& where, const Query& query, const TelemetryOptions& options) {
  const std::string part = options.output + ".part";
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(part.c_str(), "we"));
  if (!file) return ErrnoStatus("open " + part, errno);
  auto count = WriteRows(where, query, RowSink(options.format, file.get()));
  if (!count || std::rename(part.c_str(), options.output.c_str()) != 0) {
    const Status why = count ? ErrnoStatus("rename to " + options.output, errno) : count.error();
    std::remove(part.c_str());
    return why;
  }
  return count;
}

}  // namespace

Result<int> ExportTelemetry(const TelemetryOptions& options) {
  ASSIGN_OR_RETURN(const std::string where, FindTelemetry(options.db));
  ASSIGN_OR_RETURN(const Query query, QueryOf(options, RealClock().Now().unix_ns));
  if (options.output.empty() || options.output == "-") {
    RETURN_IF_ERROR(WriteRows(where, query, RowSink(options.format, stdout)).status());
    return 0;
  }
  ASSIGN_OR_RETURN(const int64_t count, WriteFile(where, query, options));
  ::dprintf(STDERR_FILENO, "Exported %s records to %s\n", CountText(count).c_str(), options.output.c_str());
  return 0;
}

}  // namespace gpulens
