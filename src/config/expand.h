// Expansion of ${NAME} of the environment, ${file:PATH} of a file and ${credential:NAME} of the service
// manager in values of a configuration, never in keys. The inserted text is not expanded again.
//
//   bearer_token: ${file:/run/secrets/token}
//   bearer_token: ${credential:token}          # LoadCredential=token:… of the unit
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
  // Returns nothing for a missing variable.
  std::function<std::optional<std::string_view>(std::string_view name)> variable;
  // The whole text of a file; null: files are not read here.
  std::function<Result<std::string>(const std::string& path)> file;
  // The whole text of a credential; null: credentials are not read here. `name`: see IsCredentialName.
  std::function<Result<std::string>(const std::string& name)> credential;
};

// Whether the service manager can have a credential of this name: letters, digits and ._- without .. or a dot
// in front, at most 255 bytes. It names a file of one folder, and no other.
bool IsCredentialName(std::string_view name);

// Changes the texts of scalars in place, marks them as replaced, and those of files and credentials as
// secret. A text that cannot be expanded is unchanged and added to `problems` with its place. A $ that is
// followed by neither { nor $ is itself.
void ExpandValues(YamlTree& tree, const SourceText& source, const ExpandFrom& from, ConfigProblems& problems);

// Escapes `text` so that ExpandValues returns it.
std::string EscapeDollars(std::string_view text);

// A regular file of at most 64 KiB, without the newlines at its end. Never waits, as a pipe would make it.
Result<std::string> ReadValueFile(const std::string& path);

}  // namespace gpulens
