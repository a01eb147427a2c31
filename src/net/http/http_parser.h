// Bytes to requests, one connection's worth at a time.
//
// Beast's parser reads the syntax; this adds the limits, the rules for a server (Host, versions,
// transfer codings) and a request that owns its text. No I/O.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/accept/limits.h"
#include "net/http/http_message.h"

namespace gpulens {

// Not thread-safe. Made once and used for many requests: steady use allocates nothing per request.
class HttpParser {
 public:
  enum class State : uint8_t {
    kMore,      // the request goes on
    kDone,      // request() is whole
    kRejected,  // answer with `status` and close; nothing after it can be understood
  };
  struct Step {
    State state = State::kMore;
    size_t consumed = 0;   // of the bytes given; what is left has to come again, with more behind it
    int status = 0;        // 400, 413, 414, 417, 431, 501, 505
    std::string_view why;  // a sentence for the client
  };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  Step Feed(std::string_view bytes);
  // Ready for the next request.
  void Reset();
  // True once the head is complete and the client waits for "100 Continue" before it sends the body.
  // Says so once.
  bool TakeExpectContinue() noexcept;

  HttpRequest& request() noexcept { return request_; }

 private:
  class Reader;

  const HttpLimits limits_;
  HttpRequest request_;
  std::unique_ptr<Reader> reader_;
  size_t head_bytes_ = 0;
  bool expect_continue_ = false;
};

}  // namespace gpulens
