// Replies come from a server that may be another program. A reply is taken as a whole, within the limits, and
// the same however it is cut.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "proxy/admission/engines.h"

namespace {

size_t Elements(const gpulens::proxy::RespReply& reply) {
  size_t count = reply.elements.size();
  for (const auto& element : reply.elements) count += Elements(element);
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::proxy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string_view rest = text;
  RespReply reply;
  const RespState state = ParseResp(rest, reply);
  CHECK(text.ends_with(rest));
  CHECK(state == RespState::kDone ? rest.size() < text.size() : rest.size() == text.size());
  CHECK(Elements(reply) <= kMostRespElements);
  if (state != RespState::kDone) return 0;
  // Every shorter part needs more.
  const std::string_view whole = text.substr(0, text.size() - rest.size());
  for (size_t cut = whole.size() > 64 ? whole.size() - 64 : 0; cut < whole.size(); ++cut) {
    std::string_view part = whole.substr(0, cut);
    RespReply other;
    CHECK(ParseResp(part, other) == RespState::kMore);
  }
  return 0;
}
