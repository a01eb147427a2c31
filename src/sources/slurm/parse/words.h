// Parsers of the numbers, times, sizes, lists and resources that Slurm's programs print. Pure functions over
// bytes from outside: malformed text yields no value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::slurm {

inline constexpr size_t kMostTres = 64, kMostIndices = 1024;

// Whether the text means no value: empty, "(null)", "N/A", "None", "Unknown", …
bool IsAbsent(std::string_view text) noexcept;

// Seconds of "1-02:03:04", "02:03:04", "03:04", "00:23.779". At most a million days. "UNLIMITED" has none.
std::optional<double> ParseSpan(std::string_view text) noexcept;

// Bytes of "64G", "7284K", "112.50T", "0", "4.50Kn"; a bare number is in `unit` bytes. The letters are powers
// of 1024. An ending n or c (per node, per CPU) is skipped.
std::optional<double> ParseSize(std::string_view text, double unit = 1) noexcept;

// A count with an optional letter of powers of 1000, as sinfo shortens them: "12", "1.5K".
std::optional<double> ParseCount(std::string_view text) noexcept;

// "cpu=20480,gres/gpu=2048,mem=60T,node=256": Slurm's names with numbers; memory is in bytes. A part that is
// not NAME=NUMBER is left out.
std::vector<std::pair<std::string, double>> ParseTres(std::string_view text);
std::optional<double> TresOf(std::string_view text, std::string_view name);

// "2026-11-22T10:40:06" as seconds since 1970, read as UTC.
std::optional<int64_t> ParseTime(std::string_view text) noexcept;
// The inverse.
std::string TimeText(int64_t unix_seconds);

// "0,4-5" as 0, 4, 5, ascending and each once; none for a malformed list and one of more than kMostIndices.
std::optional<std::vector<int>> ParseIndices(std::string_view text);

// Whether a host list, "node[0201-0272,0281],gpu7,rack[1-2]n[1-4]", has the host. The list is not expanded,
// so one of a million hosts costs no memory. Leading zeros count: node1 is not node01.
bool HostListHas(std::string_view list, std::string_view host) noexcept;

// "ReqTRES" as "req_tres", "CPUS(A/I/O/T)" as "cpus_a_i_o_t", "S:C:T" as "s_c_t".
std::string SnakeCase(std::string_view name);

// The text with invalid UTF-8 as U+FFFD, and control characters but tab and newline as blanks.
std::string CleanText(std::string_view text);

inline constexpr size_t kMostGres = 64;

// One resource: "gpu:a100:8(S:0-1)", "gpu:a100:3(IDX:0,4-5)", "gpu:fake(CNT:2)", "gpu:2".
struct Gres {
  std::string name;  // "gpu"
  std::string type;  // "a100"; may be empty
  double count = 0;
  std::optional<std::vector<int>> indices;
};

// "gpu:tesla:2(S:0-1),gpu:kepler:2(S:0-1)"; "(null)" is empty. A malformed part is left out.
std::vector<Gres> ParseGres(std::string_view text);

// The sum of one name over all types; none when the text lacks the name.
std::optional<double> GresCount(std::string_view text, std::string_view name);

// Seconds since 1970 of "now", "3 hours ago", "90 minutes ago", "2026-11-22", "2026-11-22T10:00",
// "2026-11-22T10:00:00", all UTC, with or without Z. kInvalidArgument for anything else.
Result<int64_t> ParseWhen(std::string text, int64_t now);

}  // namespace gpulens::slurm
