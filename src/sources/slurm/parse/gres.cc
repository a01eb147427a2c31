#include "sources/slurm/parse/gres.h"

#include "base/parse.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

// The next part before a comma that stands outside of brackets.
std::string_view TakePart(std::string_view& rest) noexcept {
  int depth = 0;
  for (size_t at = 0; at < rest.size(); ++at) {
    depth += rest[at] == '(';
    depth -= rest[at] == ')';
    if (rest[at] != ',' || depth > 0) continue;
    std::string_view part = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    return part;
  }
  return std::exchange(rest, {});
}

std::optional<Gres> ParseOne(std::string_view text) {
  Gres out;
  std::string_view inner;
  bool counted = false;
  if (const size_t open = text.find('('); open != std::string_view::npos) {
    inner = text.substr(open + 1);
    if (const size_t close = inner.find(')'); close != std::string_view::npos) inner = inner.substr(0, close);
    text = text.substr(0, open);
  }
  if (inner.starts_with("IDX:")) out.indices = ParseIndices(inner.substr(4));
  // Newer versions write the sockets in front: "S:0-1,IDX:0".
  if (const size_t at = inner.find(",IDX:"); at != std::string_view::npos)
    out.indices = ParseIndices(inner.substr(at + 5));
  if (inner.starts_with("CNT:")) {
    std::optional<double> count = ParseCount(inner.substr(4));
    if (!count) return std::nullopt;
    out.count = *count;
    counted = true;
  }
  // "gpu:a100:8", "gpu:8", "gpu:a100", "gpu". Older versions have "gres:" in front, newer ones "gres/".
  if (text.starts_with("gres:") || text.starts_with("gres/")) text.remove_prefix(5);
  out.name = TakeUntil(text, ':');
  if (out.name.empty()) return std::nullopt;
  while (!text.empty()) {
    std::string_view word = TakeUntil(text, ':');
    std::optional<double> count = counted ? std::nullopt : ParseCount(word);
    if (count && text.empty()) {
      out.count = *count;
      counted = true;
    } else if (out.type.empty() && !word.empty()) {
      out.type = word;
    }
  }
  if (!counted) out.count = 1;
  // A list that says another number than the count is not believed.
  if (out.indices && static_cast<double>(out.indices->size()) != out.count) out.indices.reset();
  return out;
}

}  // namespace

std::vector<Gres> ParseGres(std::string_view text) {
  std::vector<Gres> out;
  text = Trim(text);
  if (SaysNothing(text)) return out;
  while (!text.empty() && out.size() < kMostGres) {
    std::string_view part = Trim(TakePart(text));
    if (part.empty()) continue;
    if (std::optional<Gres> gres = ParseOne(part)) out.push_back(std::move(*gres));
  }
  return out;
}

std::optional<double> GresCount(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  for (const Gres& gres : ParseGres(text)) {
    if (gres.name == name) sum = sum.value_or(0) + gres.count;
  }
  return sum;
}

}  // namespace gpulens::slurm
