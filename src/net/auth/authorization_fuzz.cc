// The Authorization header, from any client, through decoding, the queue of checks and bcrypt: no crash; what
// is granted is the token or the one password, whole; and who waits is answered once. Fuzz inputs: 10'000
// Fuzz inputs: 3'000
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/auth/authenticator.h"

namespace {

using gpulens::Access;

constexpr std::string_view kToken = "a-token-of-some-length-that-is-not-guessed";
constexpr std::string_view kAliceSecret = "YWxpY2U6c2VjcmV0";  // alice:secret, whose hash is below

struct Fixture {
  gpulens::IoLoop loop;
  gpulens::PasswordQueue queue{{.waiting = 4, .of_one_address = 2}};
  std::unique_ptr<gpulens::Authenticator> authenticator;

  Fixture() {
    const std::string config =
        "basic_auth_users:\n"
        "  alice: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK\n"
        "bearer_token: " +
        std::string(kToken) + "\n";
    const int file = ::memfd_create("web.yml", MFD_CLOEXEC);
    CHECK(::write(file, config.data(), config.size()) == static_cast<ssize_t>(config.size()));
    auto opened =
        gpulens::Authenticator::Open(loop, "/proc/self/fd/" + std::to_string(file),
                                     [this](const gpulens::Endpoint& from, gpulens::PasswordQueue::Job job) {
                                       gpulens::PasswordQueue::Job gone;
                                       const bool taken = queue.Push(from, job, gone);
                                       if (gone) gone(false);
                                       return taken;
                                     });
    CHECK(opened.ok());
    authenticator = *std::move(opened);
    loop.Start();
  }
};

// Only this is an answer of "granted" for.
bool IsRight(std::string_view header) {
  std::string text;
  for (char c : header)
    if (c != ' ' && c != '\t' && c != '=' && c != '\r' && c != '\n' && c != '\v' && c != '\f') text += c;
  const bool basic = text.size() == 5 + kAliceSecret.size() && text.ends_with(kAliceSecret);
  return basic || (text.size() == 6 + kToken.size() && text.ends_with(kToken));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& fixture = *new Fixture;
  const std::string header(reinterpret_cast<const char*>(data), size);
  gpulens::Endpoint from;
  from.family = gpulens::Endpoint::Family::kIpv4;
  from.ip[0] = size > 0 ? data[size - 1] % 3 : 0;
  int answers = 0, expected = 0;
  std::optional<Access> last;
  // Three at once from one address, of which one finds no room.
  for (int i = 0; i < 3; ++i) {
    Access access = Access::kBusy;
    fixture.loop.Call([&] {
      access = fixture.authenticator->Check(header, from, [&](Access found) {
        ++answers, last = found;
        if (found == Access::kGranted) CHECK(IsRight(header));
      });
    });
    if (access == Access::kPending) {
      ++expected;
      CHECK(size >= 10 && size < 8192);
    }
    CHECK(access != Access::kBusy || (i == 2 && expected == 2));
    if (access == Access::kGranted) CHECK(IsRight(header));
  }
  // The first decides; a second check of the same would only take as long.
  bool turn = true;
  while (auto job = fixture.queue.Pop()) {
    (*job)(turn);
    turn = false;
  }
  for (int i = 0; i < 2; ++i) fixture.loop.Call([] {});
  CHECK(answers == expected);
  if (expected == 2) CHECK(last == Access::kBusy);
  // A password is remembered only once it was right.
  fixture.loop.Call([&] {
    const Access again = fixture.authenticator->Check(header, from, [](Access) {});
    if (again == Access::kGranted) CHECK(IsRight(header));
  });
  while (auto job = fixture.queue.Pop()) (*job)(false);
  fixture.loop.Call([] {});
  return 0;
}
