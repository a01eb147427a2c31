#include "scrape/sample_names.h"

#include "base/parse.h"

namespace gpulens {
namespace {

constexpr std::string_view kTotal = "_total", kInfo = "_info";

// The name at the start of a sample's line. Views into the line or the reader.
std::string_view NameOf(std::string_view line, LineReader& reader) {
  line = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.empty() || line.front() == '#') return {};
  if (line.front() != '{') return line.substr(0, line.find_first_of(" \t{"));
  return reader.Read(line) == LineKind::kSample ? reader.name : std::string_view{};
}

}  // namespace

std::string_view OptionalSuffix(ExpositionType type) noexcept {
  if (type == ExpositionType::kCounter) return kTotal;
  return type == ExpositionType::kInfo ? kInfo : std::string_view{};
}

std::unordered_map<std::string_view, bool> FindSuffixed(std::string_view body, ExpositionFormat format,
                                                        const std::unordered_set<std::string_view>& asked) {
  std::unordered_map<std::string_view, bool> found;
  LineReader reader(format, ExpositionLimits{});
  std::string last;  // samples of one name stand together
  while (!body.empty() && found.size() < asked.size()) {
    std::string_view name = NameOf(TakeUntil(body, '\n'), reader);
    if (name.empty() || name == last) continue;
    last = name;
    if (auto plain = asked.find(name); plain != asked.end()) found.emplace(*plain, false);
    for (std::string_view suffix : {kTotal, kInfo}) {
      if (name.size() <= suffix.size() || !name.ends_with(suffix)) continue;
      auto family = asked.find(name.substr(0, name.size() - suffix.size()));
      if (family != asked.end()) found.emplace(*family, true);
    }
  }
  return found;
}

}  // namespace gpulens
