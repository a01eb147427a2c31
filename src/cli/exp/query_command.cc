// `gpulens query "SELECT …"`.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/common/output.h"
#include "cli/exp/exp_command.h"
#include "store/experiments/run_query.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using namespace experiments;
using sqlite::Statement;

// Characters of a cell of a table; CSV and JSON have all of it.
constexpr size_t kMostCell = 60;
constexpr Duration kLongest = std::chrono::seconds(30);
constexpr size_t kMostHeld = 1 << 20;  // bytes of output

std::string NumberText(double value) {
  std::string out;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  AppendJsonNumber(out, value);
  return out;
}

std::string CellText(const Statement& row, int column) {
  switch (row.TypeOf(column)) {
    case Statement::Type::kNull: return kNoValue;
    case Statement::Type::kReal: return NumberText(row.Real(column));
    default: {
      // A character has four bytes at most.
      return Printable(row.Text(column).substr(0, 4 * kMostCell));
    }
  }
}

// Writes rows as they arrive, except for tables, which need the widest cell of each column.
class QueryPrinter {
 public:
  QueryPrinter(const ExpOptions& options, Instant end) : options_(options), end_(end) {}

  bool Row(const Statement& row, bool first) {
    if (first) return Begin(row);
    const bool whole = options_.json ? Json(row) : options_.csv ? Csv(row) : Cells(row);
    ++rows_;
    return Flush(options_.json || options_.csv) && whole;
  }
  bool End(bool cut) {
    if (options_.json) out_ += std::string("],\"cut\":") + (cut ? "true" : "false") + "}\n";
    if (!options_.json && !options_.csv) Lay();
    return Flush(true);
  }
  size_t rows() const noexcept { return rows_; }

 private:
  bool Begin(const Statement& row) {
    for (int i = 0; i < row.columns(); ++i) names_.emplace_back(row.ColumnName(i));
    if (options_.json) {
      out_ = "{\"schema\":\"gpulens.query/1\",\"columns\":[";
      for (const std::string& name : names_) {
        if (&name != &names_.front()) out_ += ',';
        AppendJsonString(out_, name);
      }
      out_ += "],\"rows\":[";
    } else if (options_.csv) {
      for (const std::string& name : names_) Field(name, &name == &names_.front());
      out_ += '\n';
    } else {
      std::ranges::transform(names_, std::back_inserter(table_.emplace_back()), Printable);
      right_.assign(names_.size(), true);
    }
    return true;
  }

  // Called between cells, which may have 64 MiB each. False when the output fails or the time is over.
  bool GoesOn() { return Flush(out_.size() > kMostHeld) && RealClock().Now().boot_ns < end_.boot_ns; }

  bool Json(const Statement& row) {
    out_ += rows_ == 0 ? "\n[" : ",\n[";
    for (int i = 0; i < row.columns(); ++i) {
      if (!GoesOn()) return false;
      if (i > 0) out_ += ',';
      switch (row.TypeOf(i)) {
        case Statement::Type::kNull: out_ += "null"; break;
        case Statement::Type::kInteger: AppendJsonInt(out_, row.Int(i)); break;
        case Statement::Type::kReal:
          if (std::isinf(row.Real(i))) AppendJsonString(out_, NumberText(row.Real(i)));
          else AppendJsonNumber(out_, row.Real(i));
          break;
        default: AppendJsonString(out_, row.Text(i));
      }
    }
    out_ += ']';
    return true;
  }

  void Field(std::string_view text, bool first) {
    if (!first) out_ += ',';
    AppendCsvField(out_, text);
  }
  bool Csv(const Statement& row) {
    for (int i = 0; i < row.columns(); ++i) {
      if (!GoesOn()) return false;
      const Statement::Type type = row.TypeOf(i);
      if (type == Statement::Type::kText || type == Statement::Type::kBlob) {
        Field(row.Text(i), i == 0);
        continue;
      }
      if (i > 0) out_ += ',';
      if (type != Statement::Type::kNull) out_ += CellText(row, i);
    }
    out_ += '\n';
    return true;
  }

  bool Cells(const Statement& row) {
    std::vector<std::string> cells;
    for (int i = 0; i < row.columns(); ++i) {
      std::string cell = Shortened(CellText(row, i), kMostCell);
      const Statement::Type type = row.TypeOf(i);
      if (type == Statement::Type::kText || type == Statement::Type::kBlob)
        right_[static_cast<size_t>(i)] = false;
      cells.push_back(std::move(cell));
    }
    table_.push_back(std::move(cells));
    return true;
  }
  void Lay() {
    if (table_.empty()) return;
    TextTable table(std::move(table_.front()));
    for (size_t i = 0; i < right_.size(); ++i) {
      if (right_[i]) table.AlignRight(i);
    }
    for (size_t i = 1; i < table_.size(); ++i) table.Add(std::move(table_[i]));
    out_ += table.Text();
  }

  // False when the output cannot be written.
  bool Flush(bool now) {
    if (!now) return true;
    // A terminal gets each row at once; a pipe full buffers.
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    const bool written =
        terminal ? WriteOut(out_) : std::fwrite(out_.data(), 1, out_.size(), stdout) == out_.size();
    out_.clear();
    return written && std::ferror(stdout) == 0;
  }

  const ExpOptions& options_;
  const Instant end_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> table_;
  std::vector<bool> right_;
  std::string out_;
  size_t rows_ = 0;
};

int FailQuery(const Status& status) {
  return FailCommand("query", status.detail,
                     status.code == Code::kInvalidArgument || status.code == Code::kTimeout ? 2 : 1);
}

}  // namespace

int RunQueryCommand(const ExpOptions& options) {
  if (options.json && options.csv) return FailQuery({Code::kInvalidArgument, "--json or --csv, not both"});
  const Instant begun = RealClock().Now();
  auto reader = OpenExperiments(options.db, kLongest);
  if (!reader) return FailQuery(reader.error());
  if (Status views = MakeViews(*reader); !views) return FailQuery(views);
  QueryPrinter printer(options, begun + kLongest);
  const QueryLimits limits{.rows = options.rows, .time = kLongest - (RealClock().Now() - begun)};
  auto outcome = RunQuery(*reader, options.sql, limits, RealClock(),
                          [&](const Statement& row, bool first) { return printer.Row(row, first); });
  if (!outcome) return FailQuery(outcome.error());
  const bool written = printer.End(outcome->cut) && std::fflush(stdout) == 0;
  if (outcome->cut)
    ::dprintf(STDERR_FILENO, "gpulens query: there are more than %zu rows; --limit shows more\n",
              options.rows);
  return written ? 0 : 1;
}

}  // namespace gpulens
