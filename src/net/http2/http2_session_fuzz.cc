#include "net/http2/http2_session.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"

// What a peer sends, right or wrong, in pieces: nothing above the limits is reported, and what waits to be
// sent stays bounded. The first byte selects which side is ours and how the rest is cut; a server's preface
// is put in front.
namespace {

using gpulens::Http2Session;

struct Echo final : gpulens::Http2Handler {
  void OnFields(int32_t stream, const gpulens::Http2Fields& fields, bool ended, bool too_large) override {
    CHECK(fields.bytes() <= limits.header_bytes && fields.size() <= limits.header_count);
    // What begins a request or an answer names its method or its status. Trailers name none, and may be
    // empty.
    if (begun.insert(stream).second) CHECK(too_large || fields.Has(server ? ":method" : ":status"));
    if (server && ended) Answer(stream, fields);
    last = fields;
  }
  void OnData(int32_t stream, std::string_view bytes) override {
    CHECK(!bytes.empty() || stream != 0);
    seen += bytes.size();
  }
  void OnEnd(int32_t stream) override {
    if (server) Answer(stream, last);
  }
  void OnClosed(int32_t stream, uint32_t) override { begun.erase(stream); }
  void OnGoaway(uint32_t) override {}
  void Answer(int32_t stream, const gpulens::Http2Fields& fields) {
    gpulens::Http2Fields answer;
    answer.Add(":status", "200");
    gpulens::Http2Body body;
    body.head = std::string(fields.Find(":path"));
    body.rest = std::make_shared<const std::string>(seen % 5000, 'x');
    body.trailers.Add("grpc-status", "0");
    session->Answer(stream, answer, std::move(body));
  }

  gpulens::Http2Limits limits;
  Http2Session* session = nullptr;
  bool server = false;
  size_t seen = 0;
  std::set<int32_t> begun;
  gpulens::Http2Fields last;
};

void Drain(Http2Session& session) {
  for (int i = 0; i < 100; ++i) {
    const std::string_view output = session.Output();
    CHECK(output.size() <= (64u << 10) + (17u << 10));
    if (output.empty()) return;
    session.Sent(output.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Echo echo;
  echo.limits.header_bytes = 2000;
  echo.limits.header_count = 20;
  echo.limits.streams = 8;
  echo.server = data[0] % 2 == 0;
  const bool reads = data[0] % 4 < 2;  // whether the peer reads our output
  const size_t step = data[0] % 61 + 1u;
  Http2Session session(echo.server ? Http2Session::Side::kServer : Http2Session::Side::kClient, echo.limits,
                       echo);
  echo.session = &session;
  if (echo.server) {
    bytes.insert(0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  } else {
    gpulens::Http2Fields fields;
    for (auto [name, value] :
         {std::pair{":method", "POST"}, {":scheme", "http"}, {":path", "/x"}, {":authority", "y"}})
      fields.Add(name, value);
    gpulens::Http2Body body;
    body.head.assign(300, 'x');
    CHECK(session.Request(fields, std::move(body)) == 1);
    Drain(session);
  }
  for (std::string_view rest = bytes; !rest.empty() && session.wants_input();
       rest.remove_prefix(std::min(step, rest.size()))) {
    if (!session.Feed(rest.substr(0, step), {})) {
      CHECK(!session.why().empty());
      break;
    }
    if (reads) Drain(session);
  }
  Drain(session);
  return 0;
}
