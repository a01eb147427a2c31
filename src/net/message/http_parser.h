// Parsers of HTTP/1 requests and responses: incremental, bounded, without I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/message/http_message.h"

namespace gpulens {

// Limits of an HTTP server for its clients.
struct HttpLimits {
  size_t connections = 512;
  size_t header_bytes = 16 << 10;  // request line and fields
  size_t target_bytes = 8 << 10;   // the URL in it
  size_t header_count = 100;
  size_t body_bytes = 64 << 10;
  // Of all incomplete requests together; a request above it gets 429. 0: no limit.
  size_t arriving_bytes = 0;
  size_t pipelined = 16;  // unanswered requests of one connection
  // From the first byte, or the accept, to the end of the request's body.
  Duration request_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(60);
  // In each such interval a client has to read 64 KiB of its response, or the rest of it.
  Duration write_timeout = std::chrono::seconds(15);
  // Reading goes on after the last response, so that it arrives before a reset.
  Duration linger = std::chrono::seconds(1);
};

// Parses the requests of one connection: Beast's parser with limits, the rules for servers (Host, versions,
// transfer codings) and requests that own their text. Not thread-safe. Reused without allocation.
class HttpParser {
 public:
  enum class State : uint8_t {
    kMore,      // incomplete
    kDone,      // request() is complete
    kRejected,  // respond with `status` and close: what follows cannot be parsed
  };
  struct Step {
    State state = State::kMore;
    size_t consumed = 0;   // of the given bytes; the rest must be given again, followed by more
    int status = 0;        // 400, 413, 414, 417, 431, 501, 505
    std::string_view why;  // a sentence for the client
  };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  Step Feed(std::string_view bytes);
  // Ready for the next request.
  void Reset();
  // True once per request whose client waits for "100 Continue" before it sends the body.
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

// Parses HTTP/1 responses, without Beast: the body goes into a reused buffer. Skips interim responses (1xx);
// does not decompress. Not thread-safe. Reused without allocation, except for the body.
class HttpResponseParser {
 public:
  struct Limits {
    size_t head_bytes = 32u << 10;  // of status lines and fields with interim responses; again of trailers
    size_t body_bytes = 64u << 20;  // as received
    // Prefix of the names of fields for kept(), in lower case, in static storage. Empty: none.
    std::string_view keep = {};
  };
  enum class State : uint8_t {
    kMore,
    kDone,
    kTooLarge,  // above a limit; see why()
    kBroken,    // not HTTP, or truncated; see why()
  };

  explicit HttpResponseParser(const Limits& limits) : limits_(limits) { Reset({}); }

  // Prepares for the next response, whose body goes into `buffer` (cleared).
  void Reset(std::string buffer);
  // `consumed`: bytes that belong to this response, fewer than given only when it is done or bad.
  State Feed(std::string_view bytes, size_t& consumed);
  // The peer closed the connection: completes a body without a length, any other is truncated.
  State End();

  // The head is complete and valid.
  bool head_done() const noexcept { return head_whole_; }
  bool begun() const noexcept { return head_bytes_ > 0; }
  // Valid once the head is done.
  int status() const noexcept { return status_; }
  const std::string& content_type() const noexcept { return content_type_; }
  const std::string& location() const noexcept { return location_; }
  // Unparsed, see RetryAfter(); empty when there is none or it exceeds 64 bytes.
  const std::string& retry_after() const noexcept { return retry_after_; }
  // "name: value\n" of each field selected by Limits::keep, names in lower case; at most 1 KiB.
  const std::string& kept() const noexcept { return kept_; }
  bool gzip() const noexcept { return gzip_; }
  // The connection can carry another request after this answer.
  bool keeps_alive() const noexcept { return keep_alive_; }
  std::string& body() noexcept { return body_; }
  const std::string& why() const noexcept { return why_; }

 private:
  enum class Step : uint8_t {
    kStatusLine,
    kField,
    kLength,      // a body of known length
    kUntilClose,  // a body that ends with the connection
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailer,
    kDone,
    kBad,
  };

  // Takes a line without its end off `bytes`; nothing when it is incomplete, or too long (then bad_).
  std::optional<std::string_view> TakeLine(std::string_view& bytes, size_t& budget);
  void OnLine(std::string_view line);
  void OnStatusLine(std::string_view line);
  void OnField(std::string_view line);
  void Keep(std::string_view name, std::string_view value);
  void OnKnownField(std::string_view name, std::string_view value);
  void OnContentLength(std::string_view value);
  void OnHeadEnd();
  void OnChunkSize(std::string_view line);
  void TakeBody(std::string_view& bytes);
  void Expect(uint64_t body_bytes);
  void Break(std::string why);
  void Exceed(std::string why);

  const Limits limits_;
  Step step_ = Step::kStatusLine;
  State bad_ = State::kBroken;
  int status_ = 0;
  bool http10_ = false, keep_alive_ = true, chunked_ = false, gzip_ = false, has_keep_alive_ = false;
  bool head_whole_ = false;
  std::optional<uint64_t> length_;
  uint64_t left_ = 0;  // of the body or chunk
  size_t head_bytes_ = 0, trailer_bytes_ = 0, chunk_line_bytes_ = 0;
  std::string line_, content_type_, location_, retry_after_, kept_, body_, why_;
};

}  // namespace gpulens
