#include "cli/telemetry/row_cells.h"

#include <cmath>

namespace gpulens {
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

}  // namespace gpulens
