// The code of BasicRowReader, for who brings a source of its own.
#pragma once

#include <optional>

#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

inline Outcome OutcomeOf(std::string_view word) noexcept {
  if (word == OutcomeName(Outcome::kError)) return Outcome::kError;
  return word == OutcomeName(Outcome::kCancelled) ? Outcome::kCancelled : Outcome::kOk;
}

template <class Source>
BasicRowReader<Source>::BasicRowReader(const Source& source) : source_(&source), at_(Columns().size(), -1) {
  const std::span<const Column> all = Columns();
  for (int i = 0; i < source.columns(); ++i) {
    const std::string_view name = source.ColumnName(i);
    if (name == "outcome") outcome_ = i;
    if (name == "measured") measured_ = i;
    for (size_t c = 0; c < all.size(); ++c) {
      if (all[c].name == name) at_[c] = i;
    }
  }
}

template <class Source>
Row BasicRowReader<Source>::Read() const {
  const std::span<const Column> all = Columns();
  Row row;
  const std::optional<int64_t> mask = measured_ < 0 ? std::nullopt : source_->MaybeInt(measured_);
  for (size_t i = 0; i < all.size(); ++i) {
    const int at = at_[i];
    if (at < 0) continue;
    const Column& column = all[i];
    if (const auto* text = std::get_if<TextColumn>(&column.at)) {
      row.text(*text) = source_->Text(at);
      continue;
    }
    if (source_->IsNull(at) || (column.masked && mask && !(*mask >> i & 1))) continue;
    if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
      const double value = source_->Real(at);
      if (mask || !column.masked || value != 0) row.numbers.*(*real) = value;
    } else {
      const int64_t value = source_->Int(at);
      if (mask || !column.masked || value != 0)
        row.numbers.*(*std::get_if<int64_t Numbers::*>(&column.at)) = value;
    }
  }
  if (outcome_ >= 0) row.numbers.outcome = static_cast<int64_t>(OutcomeOf(source_->Text(outcome_)));
  return row;
}

}  // namespace gpulens::telemetry
