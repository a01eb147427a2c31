// The Authorization header, from any client: no crash, no access, and a password that is passed
// on to be checked came as "Basic".
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/auth/authenticator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static gpulens::IoLoop loop;
  static int checks = 0;
  static const auto authenticator = [] {
    const std::string_view config =
        "basic_auth_users: {alice: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK}\n"
        "bearer_token: a-token-of-some-length-that-is-not-guessed\n";
    const int file = ::memfd_create("web.yml", MFD_CLOEXEC);
    CHECK(::write(file, config.data(), config.size()) == static_cast<ssize_t>(config.size()));
    auto opened = gpulens::Authenticator::Open(
        loop, "/proc/self/fd/" + std::to_string(file),
        [](const gpulens::Endpoint&, const gpulens::PasswordQueue::Job&) { return ++checks > 0; });
    CHECK(opened.ok());
    return *std::move(opened);
  }();
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  const int before = checks;
  const gpulens::Access access = authenticator->Check(header, {}, [](gpulens::Access) {});
  CHECK(access == gpulens::Access::kDenied || access == gpulens::Access::kPending);
  CHECK((access == gpulens::Access::kPending) == (checks == before + 1));
  if (access == gpulens::Access::kPending) CHECK(size >= 10 && size < 2048);
  return 0;
}
