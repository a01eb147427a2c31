// How Slurm's programs write numbers, times, sizes and lists. Pure functions over bytes from outside: what is
// not whole is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpulens::slurm {

inline constexpr size_t kMostTres = 64, kMostIndices = 1024;

// Whether the text says that there is no value: empty, "(null)", "N/A", "None", "Unknown", …
bool SaysNothing(std::string_view text) noexcept;

// "1-02:03:04", "02:03:04", "03:04", "00:23.779" in seconds. Days at most a million. "UNLIMITED" is nothing.
std::optional<double> ParseSpan(std::string_view text) noexcept;

// "64G", "7284K", "112.50T", "0", "4.50Kn" in bytes; a bare number is in `unit` bytes. The letters are powers
// of 1024. An ending n or c (per node, per CPU) is passed over.
std::optional<double> ParseSize(std::string_view text, double unit = 1) noexcept;

// A count with an optional letter of powers of 1000, as sinfo shortens them: "12", "1.5K".
std::optional<double> ParseCount(std::string_view text) noexcept;

// "cpu=20480,gres/gpu=2048,mem=60T,node=256": names as Slurm has them, with numbers; memory is in bytes.
// A part that is not NAME=NUMBER is left out.
std::vector<std::pair<std::string, double>> ParseTres(std::string_view text);
std::optional<double> TresOf(std::string_view text, std::string_view name);

// "2026-11-22T10:40:06" as seconds since 1970, read as UTC.
std::optional<int64_t> ParseTime(std::string_view text) noexcept;
// The other way round.
std::string TimeText(int64_t unix_seconds);

// "0,4-5" as 0, 4, 5, ascending and each once; nothing when it is no such list or has more than kMostIndices.
std::optional<std::vector<int>> ParseIndices(std::string_view text);

// Whether a host list, "node[0201-0272,0281],gpu7,rack[1-2]n[1-4]", has the host. Nothing is unfolded, so a
// list of a million hosts costs no memory. Zeros in front count: node1 is not node01.
bool HostListHas(std::string_view list, std::string_view host) noexcept;

// "ReqTRES" as "req_tres", "CPUS(A/I/O/T)" as "cpus_a_i_o_t", "S:C:T" as "s_c_t".
std::string SnakeCase(std::string_view name);

// The text with what is not UTF-8 as U+FFFD, and control characters but tab and newline as blanks.
std::string CleanText(std::string_view text);

}  // namespace gpulens::slurm
