// Generic resources as Slurm writes them, of nodes and of jobs. Pure functions over bytes from outside.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::slurm {

inline constexpr size_t kMostGres = 64;

// One resource: "gpu:a100:8(S:0-1)", "gpu:a100:3(IDX:0,4-5)", "gpu:fake(CNT:2)", "gpu:2".
struct Gres {
  std::string name;  // "gpu"
  std::string type;  // "a100"; empty: none is told
  double count = 0;
  std::optional<std::vector<int>> indices;  // nothing: not told, or "N/A"
};

// "gpu:tesla:2(S:0-1),gpu:kepler:2(S:0-1)"; "(null)" is none. A part that is none of the forms is left out.
std::vector<Gres> ParseGres(std::string_view text);

// The sum of one name over all types; nothing when the text has none of it.
std::optional<double> GresCount(std::string_view text, std::string_view name);

}  // namespace gpulens::slurm
