// The web config file: no crash, an error names the file, and what is read keeps the promises of its header.
#include "net/auth/web_config.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto read = gpulens::ParseWebConfig(text, "web.yml");
  if (!read) {
    CHECK(read.error().detail.starts_with("web.yml"));
    return 0;
  }
  for (const auto& [name, hash] : read->users) {
    CHECK(gpulens::IsBcryptHash(hash));
    CHECK(name.find(':') == std::string::npos);
  }
  for (const auto& [name, value] : read->headers) CHECK(value.find_first_of("\r\n") == std::string::npos);
  CHECK(read->bearer_token.empty() || read->bearer_token_file.empty());
  CHECK(read->authenticates() || read->users.empty());
  return 0;
}
