// Any bytes as the head of a request or an answer and its body: no crash; a head that is whole reads the same
// from its own lines; the payload is the same in pieces of any size; what one reads, the server's or the
// client's parser of net/message does not read as another length.
// Input: a byte for what it is and how it is cut, then the bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/message/http_parser.h"
#include "net/relay/relay_message.h"

namespace {

using namespace gpulens;

struct Walked {
  std::string payload, trailers;
  RelayBodyWalk::State state = RelayBodyWalk::State::kMore;
  size_t consumed = 0;
};

Walked Walk(const RelayHead& head, std::string_view bytes, size_t step) {
  RelayBodyWalk walk;
  walk.Begin(head.framing(), head.length());
  Walked out;
  if (walk.done()) out.state = RelayBodyWalk::State::kDone;
  while (!bytes.empty() && out.state == RelayBodyWalk::State::kMore) {
    std::string part(bytes.substr(0, step));
    const RelayBodyWalk::Step done = walk.Take(part);
    CHECK(done.payload <= done.consumed && done.consumed <= part.size());
    out.payload.append(part, 0, done.payload);
    out.consumed += done.consumed;
    out.state = done.state;
    bytes.remove_prefix(done.consumed);
  }
  out.trailers = walk.trailers();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const bool request = data[0] % 2 == 0;
  const size_t step = 1 + data[0] / 2;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const RelayHeadLimits limits{.bytes = 2048, .target_bytes = 256, .fields = 20};
  RelayHead head;
  const RelayHeadStep parsed =
      request ? ParseRequestHead(bytes, limits, head) : ParseAnswerHead(bytes, limits, head);
  if (parsed.state == RelayHeadStep::State::kBad) CHECK(parsed.status >= 400 && !parsed.why.empty());
  if (parsed.state != RelayHeadStep::State::kDone) return 0;
  CHECK(parsed.consumed <= bytes.size() && bytes.substr(0, parsed.consumed).ends_with("\r\n\r\n"));
  for (size_t i = 0; i < head.field_count(); ++i) {
    const RelayHead::Field field = head.field(i);
    CHECK(field.line.ends_with("\r\n") && field.line.starts_with(field.name) && !field.name.empty());
    CHECK(field.line.find('\n') == field.line.size() - 1 && field.line.find('\0') == std::string_view::npos);
    CHECK(field.value.data() >= field.line.data() &&
          field.value.data() + field.value.size() <= field.line.data() + field.line.size());
  }
  const std::string_view rest = bytes.substr(parsed.consumed);
  const Walked whole = Walk(head, rest, rest.size() + 1), cut = Walk(head, rest, step);
  CHECK(whole.payload == cut.payload && whole.state == cut.state && whole.consumed == cut.consumed);
  CHECK(whole.trailers == cut.trailers);
  if (!request) {
    const bool no_body = head.status() < 200 || head.status() == 204 || head.status() == 304;
    HttpResponseParser other({.head_bytes = 64 << 10, .body_bytes = 1 << 20});
    size_t used = 0;
    if (!no_body && whole.state == RelayBodyWalk::State::kDone &&
        other.Feed(bytes, used) == HttpResponseParser::State::kDone) {
      CHECK(other.body() == whole.payload && used == parsed.consumed + whole.consumed);
    }
    return 0;
  }
  HttpParser other({.header_bytes = 64 << 10, .target_bytes = 8 << 10, .body_bytes = 1 << 20});
  const HttpParser::Step step_of_other = other.Feed(bytes);
  if (whole.state == RelayBodyWalk::State::kDone && step_of_other.state == HttpParser::State::kDone) {
    CHECK(other.request().body() == whole.payload);
    CHECK(step_of_other.consumed == parsed.consumed + whole.consumed);
    CHECK(other.request().target() == head.target());
  }
  return 0;
}
