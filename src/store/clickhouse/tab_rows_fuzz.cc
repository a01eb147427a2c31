// Any bytes as an answer, whole and byte by byte: no crash, bounded, and the same rows whatever the pieces
// are.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "store/clickhouse/clickhouse.h"

namespace {

// All rows that it returns, and its final status.
std::string Reported(std::string_view bytes, size_t step) {
  gpulens::clickhouse::TabRows rows;
  std::string reported;
  const auto on_row = [&] {
    for (int i = 0; i < rows.columns(); ++i) {
      reported += rows.ColumnName(i);
      reported += rows.IsNull(i) ? "~" : "=";
      reported += rows.Text(i);
      if (const auto whole = rows.MaybeInt(i)) reported += std::to_string(*whole);
      CHECK(rows.Int(i) == rows.MaybeInt(i).value_or(0));
      static_cast<void>(rows.Real(i));
    }
    reported += '\n';
    return gpulens::Ok();
  };
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    if (!rows.Feed(bytes.substr(0, step), on_row)) return reported + "bad";
  }
  return reported + (rows.End() ? "good" : "cut");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CHECK(Reported(bytes, 1) == Reported(bytes, size + 1));
  return 0;
}
