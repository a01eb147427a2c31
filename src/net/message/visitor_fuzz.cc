// Host and Origin as anybody may send them: no crash, and a name with a dot that is neither an address nor of
// this machine never passes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "net/message/request_origin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view origin = text.substr(0, text.find('\n'));
  const std::string_view host = origin.size() == size ? std::string_view() : text.substr(origin.size() + 1);
  const std::vector<std::string> none;
  for (bool loopback : {false, true}) {
    const bool allowed = gpulens::OriginAllowed(origin, host, loopback, none, none);
    CHECK(!allowed || origin.find("://") != std::string_view::npos);
    // What is let in at the loopback is let in elsewhere.
    if (loopback && allowed) CHECK(gpulens::OriginAllowed(origin, host, false, none, none));
  }
  const std::string evil = std::string(host) + ".example";
  const bool has_port = host.find(':') != std::string_view::npos, bracketed = host.find('[') == 0;
  if (!has_port && !bracketed) CHECK(!gpulens::HostAllowed(evil, none));
  static_cast<void>(gpulens::HostAllowed(host, none));
  return 0;
}
