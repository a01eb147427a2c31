#include "sources/slurm/parse/when.h"

#include <optional>

#include "base/parse.h"
#include "base/text.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

std::optional<int64_t> UnitSeconds(std::string_view unit) {
  if (unit.ends_with('s')) unit.remove_suffix(1);
  if (unit == "second") return 1;
  if (unit == "minute" || unit == "min") return 60;
  if (unit == "hour") return 3600;
  if (unit == "day") return 86400;
  if (unit == "week") return 7 * 86400;
  return std::nullopt;
}

}  // namespace

Result<int64_t> ParseWhen(std::string text, int64_t now) {
  std::string_view said = Trim(text);
  if (said == "now") return now;
  if (said.ends_with(" ago")) {
    std::string_view rest = said.substr(0, said.size() - 4);
    std::optional<int32_t> count = ParseInt<int32_t>(TakeUntil(rest, ' '));
    std::optional<int64_t> unit = UnitSeconds(Trim(rest));
    if (count && unit && *count >= 0 && *count * *unit <= now) return now - *count * *unit;
  }
  std::string full(said);
  if (full.ends_with('Z')) full.pop_back();
  if (full.size() == 10) full += "T00:00";
  if (full.size() == 16) full += ":00";
  if (full.size() == 19 && full[10] == ' ') full[10] = 'T';
  if (std::optional<int64_t> at = ParseTime(full)) return *at;
  std::string shown;
  AppendPrintable(shown, said);
  return Status{Code::kInvalidArgument,
                "not a time: \"" + shown + "\"; like 2026-11-22T10:00:00 (UTC), 3 hours ago, now"};
}

}  // namespace gpulens::slurm
