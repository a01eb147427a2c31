#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/message/http_parser.h"

// A stream of requests in one piece and cut small gives the same requests, within the limits, and what
// a parser holds back never grows past them.
namespace {

std::string Run(std::string_view all, size_t step, const gpulens::HttpLimits& limits) {
  gpulens::HttpParser parser(limits);
  std::string seen, kept;
  while (true) {
    bool fresh = !all.empty();
    kept += all.substr(0, step);
    all.remove_prefix(std::min(step, all.size()));
    bool more = kept.empty();
    while (!more && !kept.empty()) {
      auto result = parser.Feed(kept);
      CHECK(result.consumed <= kept.size());
      kept.erase(0, result.consumed);
      if (result.state == gpulens::HttpParser::State::kRejected) {
        CHECK(result.status >= 400 && result.status < 600);
        return seen + "rejected";
      }
      more = result.state == gpulens::HttpParser::State::kMore;
      if (more) break;
      const gpulens::HttpRequest& request = parser.request();
      CHECK(request.body().size() <= limits.body_bytes && request.field_count() <= limits.header_count);
      seen += std::string(request.method()) + "|" + std::string(request.target()) + "|";
      for (size_t i = 0; i < request.field_count(); ++i) {
        seen += std::string(request.field(i).name) + ":" + std::string(request.field(i).value) + "|";
      }
      seen += request.Parameter("a").value_or("-") + request.JoinedHeader("a");
      seen += std::string(request.body()) + "\n";
      parser.Reset();
    }
    CHECK(kept.size() <= limits.header_bytes + step);
    if (!fresh) return seen;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  gpulens::HttpLimits limits;
  limits.header_bytes = 2048;
  limits.target_bytes = 512;
  limits.body_bytes = 1024;
  size_t step = data[0] % 31 + 1u;
  std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string whole = Run(all, all.size() + 1, limits), parts = Run(all, step, limits);
  // Which limit a too long request meets first depends on the pieces; that it is rejected does not.
  bool limited = whole.ends_with("rejected") || parts.ends_with("rejected");
  CHECK(limited || whole == parts);
  return 0;
}
