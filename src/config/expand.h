// Texts of a configuration that stand elsewhere: ${NAME} of the environment and ${file:PATH} of a file, in
// values, never in keys. What they stand for is not looked at again.
//
//   bearer_token: ${file:/run/secrets/token}
//   cluster: prod-${REGION:-eu}
//   password: a$$b                             # a$b
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "config/diagnostic.h"

namespace gpulens {

// All values of one file together, once expanded.
inline constexpr size_t kExpandedBytes = 1 << 20;

struct ExpandFrom {
  // Nothing: there is no such variable.
  std::function<std::optional<std::string_view>(std::string_view name)> variable;
  // The whole text of a file; null: files are not read here.
  std::function<Result<std::string>(const std::string& path)> file;
};

// Changes the texts of scalars in place, marks them as replaced, and those of files as secret. What cannot be
// replaced is added to `problems` with its place and stays as it is. A $ that is followed by neither { nor $
// is itself.
void ExpandValues(YamlTree& tree, const SourceText& source, const ExpandFrom& from, Problems& problems);

// `text` so that ExpandValues gives it back.
std::string EscapeDollars(std::string_view text);

// A regular file of at most 64 KiB, without the newlines at its end. Never waits, as a pipe would make it.
Result<std::string> ReadValueFile(const std::string& path);

}  // namespace gpulens
