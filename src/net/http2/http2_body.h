// What is sent on one stream after its fields, and how far it has gone. Plain values.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/http2/http2_fields.h"

namespace gpulens {

struct Http2Body {
  std::string head;                         // first
  std::shared_ptr<const std::string> rest;  // then; never copied whole. Null is empty
  Http2Fields trailers;                     // last; none: the body's end is the stream's
  bool none = false;                        // no body at all: the fields end the stream
};

class Http2BodyReader {
 public:
  explicit Http2BodyReader(Http2Body body) : body_(std::move(body)) {}

  // The next bytes, at most `room`; how many that were.
  size_t Take(char* into, size_t room) noexcept {
    size_t filled = Part(body_.head, 0, into, room);
    if (body_.rest) filled += Part(*body_.rest, body_.head.size(), into + filled, room - filled);
    return filled;
  }
  bool finished() const noexcept {
    return sent_ >= body_.head.size() + (body_.rest ? body_.rest->size() : 0);
  }
  const Http2Body& body() const noexcept { return body_; }
  // The last frame of the stream is out.
  void Close() noexcept {
    body_ = {};
    closed_ = true;
  }
  bool closed() const noexcept { return closed_; }

 private:
  size_t Part(std::string_view piece, size_t begins, char* into, size_t room) noexcept {
    if (sent_ < begins || sent_ - begins >= piece.size()) return 0;
    piece = piece.substr(sent_ - begins, room);
    std::memcpy(into, piece.data(), piece.size());
    sent_ += piece.size();
    return piece.size();
  }

  Http2Body body_;
  size_t sent_ = 0;
  bool closed_ = false;
};

}  // namespace gpulens
