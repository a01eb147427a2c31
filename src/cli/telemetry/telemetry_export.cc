// `gpulens telemetry export`: rows as they come, so that a file of any size needs no memory.
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
#include "cli/common/command.h"
#include "cli/common/text_table.h"
#include "cli/telemetry/telemetry_command.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary/call_scan.h"
#include "wire/json/json_text.h"

namespace gpulens {

// A record as cells, typed as its column; NULL for an absent value. Without `id`.
class RowCells {
 public:
  // `row` outlives it.
  explicit RowCells(const telemetry::Row& row) noexcept : row_(&row) {}

  int columns() const noexcept;
  std::string_view ColumnName(int column) const noexcept;
  sqlite::Statement::Type TypeOf(int column) const noexcept;
  int64_t Int(int column) const noexcept;
  double Real(int column) const noexcept;
  std::string_view Text(int column) const noexcept;

 private:
  const telemetry::Row* row_;
};

namespace {

using telemetry::Column;
using telemetry::Numbers;
using telemetry::TextColumn;
using Type = sqlite::Statement::Type;

// Behind those of Columns().
enum Last : uint8_t { kOutcome, kMeasured, kLasts };

const Column* At(int column) noexcept {
  const auto all = telemetry::Columns();
  return static_cast<size_t>(column) < all.size() ? &all[static_cast<size_t>(column)] : nullptr;
}
int LastOf(int column) noexcept { return column - static_cast<int>(telemetry::Columns().size()); }

bool Nullable(const Column& column) noexcept {
  return column.declaration.find("NOT NULL") == std::string_view::npos;
}

}  // namespace

int RowCells::columns() const noexcept { return static_cast<int>(telemetry::Columns().size()) + kLasts; }

std::string_view RowCells::ColumnName(int column) const noexcept {
  if (const Column* found = At(column)) return found->name;
  return LastOf(column) == kOutcome ? "outcome" : "measured";
}

Type RowCells::TypeOf(int column) const noexcept {
  const Column* found = At(column);
  if (!found) return LastOf(column) == kOutcome ? Type::kText : Type::kInteger;
  if (const auto* real = std::get_if<double Numbers::*>(&found->at))
    return Nullable(*found) && std::isnan(row_->numbers.*(*real)) ? Type::kNull : Type::kReal;
  if (const auto* whole = std::get_if<int64_t Numbers::*>(&found->at))
    return Nullable(*found) && row_->numbers.*(*whole) == telemetry::kNoCount ? Type::kNull : Type::kInteger;
  return Nullable(*found) && Text(column).empty() ? Type::kNull : Type::kText;
}

int64_t RowCells::Int(int column) const noexcept {
  const Column* found = At(column);
  if (!found) return telemetry::MeasuredMask(*row_);
  const int64_t value = row_->numbers.*std::get<int64_t Numbers::*>(found->at);
  return value == telemetry::kNoCount ? 0 : value;
}

double RowCells::Real(int column) const noexcept {
  const double value = row_->numbers.*std::get<double Numbers::*>(At(column)->at);
  return std::isnan(value) ? 0 : value;
}

std::string_view RowCells::Text(int column) const noexcept {
  const Column* found = At(column);
  if (!found) return OutcomeName(static_cast<Outcome>(row_->numbers.outcome));
  const TextColumn which = std::get<TextColumn>(found->at);
  const std::string_view text = row_->text(which);
  return text.empty() && which == TextColumn::kMetadata ? "{}" : text;
}

namespace {

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

// Takes rows one by one, a Statement's or RowCells.
class RowSink {
 public:
  RowSink(std::string format, std::FILE* to) : format_(std::move(format)), to_(to) {
    if (format_ == "json") out_ = "[";
  }

  // Before the first row, and where there is none.
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

  // How many were written.
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
  ASSIGN_OR_RETURN(Statement rows, telemetry::SelectAsTheyAre(database, query));
  sink.Begin(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return Ok();
    RETURN_IF_ERROR(sink.Add(rows));
  }
}

Status AddServer(const std::string& url, const Query& query, RowSink& sink) {
  const telemetry::Row none;
  sink.Begin(RowCells(none));
  Status written;
  RETURN_IF_ERROR(telemetry::EachServerRow(url, query, [&](const telemetry::Row& row) {
    written = sink.Add(RowCells(row));
    return written.ok();
  }));
  return written;
}

Result<int64_t> WriteRows(const std::string& where, const Query& query, RowSink sink) {
  RETURN_IF_ERROR(telemetry::IsServer(where) ? AddServer(where, query, sink) : AddFile(where, query, sink));
  return sink.End();
}

// A file is whole or not there.
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

int RunTelemetryExport(const TelemetryOptions& options) {
  const auto run = [&]() -> Result<int64_t> {
    ASSIGN_OR_RETURN(const std::string where, FindTelemetry(options.db));
    ASSIGN_OR_RETURN(const Query query, QueryOf(options, RealClock().Now().unix_ns));
    if (!options.output.empty() && options.output != "-") return WriteFile(where, query, options);
    return WriteRows(where, query, RowSink(options.format, stdout));
  };
  auto count = run();
  if (!count) return FailCommand("telemetry export", count.error());
  if (!options.output.empty() && options.output != "-")
    ::dprintf(STDERR_FILENO, "Exported %s records to %s\n", CountText(*count).c_str(),
              options.output.c_str());
  return 0;
}

}  // namespace gpulens
