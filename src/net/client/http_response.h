// Bytes to one HTTP/1 answer: pure, bounded, and quick with large bodies.
//
// Ours and not Beast's: it appends to a buffer that is used again and again, and it compiles at once.
// Interim answers (1xx) are passed over. Nothing is unpacked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens {

// Not thread-safe. Made once, used for many answers: steady use does not allocate but for the body.
class HttpResponseParser {
 public:
  struct Limits {
    size_t head_bytes = 32u << 10;  // status line and fields, interim answers included; trailers once more
    size_t body_bytes = 64u << 20;  // as received
    // Fields whose names begin so are kept, see kept(). In lower case, static storage; empty: none.
    std::string_view keep = {};
  };
  enum class State : uint8_t {
    kMore,
    kDone,
    kTooLarge,  // above a limit; see why()
    kBroken,    // no HTTP, or cut; see why()
  };

  explicit HttpResponseParser(const Limits& limits) : limits_(limits) { Reset({}); }

  // Ready for the next answer, whose body goes into `buffer` (cleared).
  void Reset(std::string buffer);
  // `consumed` tells how many bytes belong to this answer: fewer than given only when it is done or bad.
  State Feed(std::string_view bytes, size_t& consumed);
  // The other side has ended the connection: a body without a length is whole now, any other is cut.
  State End();

  // The head has come whole and is good, whatever becomes of the body.
  bool head_done() const noexcept { return head_whole_; }
  // Some byte of an answer has come.
  bool begun() const noexcept { return head_bytes_ > 0; }
  // What follows holds once the head is done.
  int status() const noexcept { return status_; }
  const std::string& content_type() const noexcept { return content_type_; }
  const std::string& location() const noexcept { return location_; }
  // As it came, at most 64 bytes; empty when there is none, or a longer one. See RetryAfter().
  const std::string& retry_after() const noexcept { return retry_after_; }
  // "name: value\n" for each field that Limits::keep asks for, the name in lower case; at most 1 KiB.
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

  // Takes a line without its end off `bytes`; nothing when it goes on, or is too long (then bad_).
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
  bool http10_ = false, keep_alive_ = true, chunked_ = false, gzip_ = false, said_keep_alive_ = false;
  bool head_whole_ = false;
  std::optional<uint64_t> length_;
  uint64_t left_ = 0;  // of the body or chunk
  size_t head_bytes_ = 0, trailer_bytes_ = 0, chunk_line_bytes_ = 0;
  std::string line_, content_type_, location_, retry_after_, kept_, body_, why_;
};

}  // namespace gpulens
