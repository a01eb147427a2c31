#include "proxy/admission/lease_starts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::proxy {

Result<std::vector<LeaseStart>> ReadLeaseStarts(const std::string& path) {
  std::vector<LeaseStart> out;
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return out;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 64 << 10));
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    const auto fence = ParseInt<int64_t>(TakeUntil(line, '\t'));
    const auto since = ParseInt<int64_t>(line);
    if (!fence || !since || *fence <= 0 || *since < 0)
      return Status{Code::kInvalidArgument, path + ": a line has other than a fence and a time"};
    out.push_back({*fence, *since});
  }
  return out;
}

Status WriteLeaseStarts(const std::string& path, const std::vector<LeaseStart>& starts) {
  std::string text;
  for (size_t i = starts.size() - std::min(starts.size(), kMostLeaseStarts); i < starts.size(); ++i)
    text += std::to_string(starts[i].fence) + "\t" + std::to_string(starts[i].since_unix_ns) + "\n";
  return WriteFileAtomically(path, text, {.mode = 0600});
}

}  // namespace gpulens::proxy
