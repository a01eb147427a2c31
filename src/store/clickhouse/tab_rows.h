// Bytes of an answer in ClickHouse's format TabSeparatedWithNames to rows, as they come: bounded, and strict.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::clickhouse {

// Not thread-safe. Column accessors are valid within `on_row`.
class TabRows {
 public:
  static constexpr size_t kMostColumns = 1024;
  static constexpr size_t kMostLine = 1 << 20;

  // Called with each row that is whole; what it returns ends Feed unless it is ok.
  using OnRow = std::function<Status()>;
  // kDataLoss: it is no such answer. kExhausted: larger than the limits. Not fed again afterwards.
  Status Feed(std::string_view bytes, const OnRow& on_row);
  // The answer is over. kDataLoss: it was cut, or had not even names.
  Status End() const;

  int columns() const noexcept { return static_cast<int>(names_.size()); }
  std::string_view ColumnName(int column) const noexcept { return names_[static_cast<size_t>(column)]; }
  bool IsNull(int column) const noexcept { return At(column).null; }
  int64_t Int(int column) const noexcept { return MaybeInt(column).value_or(0); }
  double Real(int column) const noexcept;  // NaN for NULL
  std::string_view Text(int column) const noexcept;
  std::optional<int64_t> MaybeInt(int column) const noexcept;

 private:
  struct Field {
    size_t from = 0, size = 0;  // within text_
    bool null = false;
  };
  const Field& At(int column) const noexcept { return fields_[static_cast<size_t>(column)]; }
  Status OnLine(std::string_view line, const OnRow& on_row);
  Status Split(std::string_view line);

  std::vector<std::string> names_;
  std::vector<Field> fields_;
  std::string text_;  // of the line's fields, unescaped
  std::string line_;  // what is not whole as yet
};

}  // namespace gpulens::clickhouse
