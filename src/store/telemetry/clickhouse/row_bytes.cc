#include "store/telemetry/clickhouse/row_bytes.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace gpulens::telemetry {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is");

template <class Number>
void AppendNumber(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

// LEB128.
void AppendLength(std::string& out, size_t length) {
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7F));
  out += static_cast<char>(length);
}

void AppendText(std::string& out, std::string_view text) {
  AppendLength(out, text.size());
  out += text;
}

bool Nullable(std::string_view declaration) noexcept {
  return declaration.find("NOT NULL") == std::string_view::npos;
}

// Before a value that may be NULL; what is unknown in a column that may not is told by `measured`.
bool Known(std::string& out, bool known, std::string_view declaration) {
  if (!Nullable(declaration)) return true;
  out += known ? '\0' : '\1';
  return known;
}

void AppendValue(std::string& out, const Column& column, const Row& row) {
  if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
    const double value = row.numbers.*(*real);
    if (Known(out, !std::isnan(value), column.declaration))
      AppendNumber(out, std::isnan(value) ? 0.0 : value);
  } else if (const auto* whole = std::get_if<int64_t Numbers::*>(&column.at)) {
    const int64_t value = row.numbers.*(*whole);
    if (Known(out, value != kNoCount, column.declaration)) AppendNumber(out, value == kNoCount ? 0 : value);
  } else {
    const TextColumn which = std::get<TextColumn>(column.at);
    const std::string_view text = row.text(which);
    if (!Known(out, !text.empty(), column.declaration)) return;
    AppendText(out, text.empty() && which == TextColumn::kMetadata ? "{}" : text);
  }
}

}  // namespace

void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns) {
  AppendLength(out, columns.size());
  for (const ClickColumn& column : columns) AppendText(out, column.name);
  for (const ClickColumn& column : columns) AppendText(out, column.type);
}

void AppendRowBytes(std::string& out, const Row& row, uint64_t id, uint64_t writer_id) {
  AppendNumber(out, id);
  for (const Column& column : Columns()) AppendValue(out, column, row);
  Known(out, true, kOutcomeDeclaration);
  AppendText(out, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  Known(out, true, kMeasuredDeclaration);
  AppendNumber(out, MeasuredMask(row));
  AppendNumber(out, writer_id);
}

}  // namespace gpulens::telemetry
