#include "base/text.h"
#include "cli/compare/tools/field_row.h"

namespace gpulens::compare {

std::span<const FieldRow> RowsFor(std::span<const FieldRow> rows, std::string_view path) noexcept {
  for (size_t first = 0; first < rows.size(); ++first) {
    if (rows[first].path != path) continue;
    size_t last = first;
    while (last < rows.size() && rows[last].path == path) ++last;
    return rows.subspan(first, last - first);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].path.find('*') != rows[i].path.npos && MatchesStars(rows[i].path, path))
      return rows.subspan(i, 1);
  }
  return {};
}

}  // namespace gpulens::compare
