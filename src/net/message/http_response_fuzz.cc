#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/message/address.h"
#include "net/message/http_message.h"
#include "net/message/http_parser.h"

// Responses in one piece and in small pieces give the same, within the limits. What is to be waited is within
// a day.
namespace {

using gpulens::HttpResponseParser;
using State = HttpResponseParser::State;

std::string Run(std::string_view all, size_t step, const HttpResponseParser::Limits& limits) {
  HttpResponseParser parser(limits);
  std::string seen;
  for (int answers = 0; answers < 4; ++answers) {
    State state = State::kMore;
    while (state == State::kMore && !all.empty()) {
      std::string_view piece = all.substr(0, step);
      size_t consumed = 0;
      state = parser.Feed(piece, consumed);
      CHECK(consumed <= piece.size() && (state != State::kMore || consumed == piece.size()));
      all.remove_prefix(consumed);
    }
    if (state == State::kMore) state = parser.End();
    CHECK(parser.body().size() <= limits.body_bytes && state != State::kMore);
    if (state != State::kDone) {
      CHECK(!parser.why().empty() && parser.why().size() < 1000);
      return seen + "bad";
    }
    CHECK(parser.status() >= 200 && parser.status() <= 599);
    seen += std::to_string(parser.status()) + parser.content_type() + parser.location() + parser.body();
    seen += parser.gzip() ? "gzip" : "";
    CHECK(parser.head_done() && parser.retry_after().size() <= 64);
    seen += parser.retry_after();
    if (!parser.keeps_alive() || all.empty()) return seen;
    parser.Reset(std::move(parser.body()));
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  HttpResponseParser::Limits limits;
  limits.head_bytes = 1024;
  limits.body_bytes = 4096;
  std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  CHECK(Run(all, all.size() + 1, limits) == Run(all, data[0] % 31 + 1u, limits));
  for (int64_t now : {int64_t{784'111'777'000'000'000}, INT64_MIN, INT64_MAX}) {
    auto wait = gpulens::RetryAfter(all, {0, now});
    CHECK(!wait || (wait->count() >= 0 && *wait <= std::chrono::hours(24)));
  }
  auto url = gpulens::ParseHttpUrl(all);
  if (url) {
    auto again = gpulens::ParseHttpUrl(url->ToString());
    CHECK(again.ok() && again->host == url->host && again->port == url->port);
  }
  return 0;
}
