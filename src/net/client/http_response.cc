#include "net/client/http_response.h"

#include <algorithm>
#include <cstring>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kChunkLine = 1024;
constexpr size_t kLongestValue = 1024;  // of the fields that are kept
constexpr size_t kLongestRetryAfter = 64;

char Lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// `lower` is in lower case.
bool Is(std::string_view text, std::string_view lower) noexcept {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) { return Lower(a) == b; });
}

bool IsNameByte(char c) noexcept {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return word || kOthers.find(c) != std::string_view::npos;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  AppendPrintable(out, text.substr(0, 60));
  return out + (text.size() > 60 ? "…\"" : "\"");
}

}  // namespace

void HttpResponseParser::Reset(std::string buffer) {
  step_ = Step::kStatusLine;
  status_ = 0;
  http10_ = chunked_ = gzip_ = said_keep_alive_ = head_whole_ = false;
  keep_alive_ = true;
  length_.reset();
  left_ = 0;
  head_bytes_ = trailer_bytes_ = chunk_line_bytes_ = 0;
  line_.clear();
  content_type_.clear();
  location_.clear();
  retry_after_.clear();
  kept_.clear();
  why_.clear();
  body_ = std::move(buffer);
  body_.clear();
}

void HttpResponseParser::Break(std::string why) {
  step_ = Step::kBad;
  bad_ = State::kBroken;
  why_ = std::move(why);
}

void HttpResponseParser::Exceed(std::string why) {
  Break(std::move(why));
  bad_ = State::kTooLarge;
}

std::optional<std::string_view> HttpResponseParser::TakeLine(std::string_view& bytes, size_t& budget) {
  size_t limit = step_ == Step::kChunkSize || step_ == Step::kChunkEnd ? kChunkLine : limits_.head_bytes;
  size_t end = bytes.find('\n');
  size_t size = end == std::string_view::npos ? bytes.size() : end + 1;
  if (budget + size > limit) {
    Exceed("the header of the response is larger than " + std::to_string(limit) + " bytes");
    return std::nullopt;
  }
  budget += size;
  std::string_view piece = bytes.substr(0, std::min(end, size));
  bytes.remove_prefix(size);
  if (end == std::string_view::npos) {
    line_ += piece;
    return std::nullopt;
  }
  if (!line_.empty()) piece = line_ += piece;
  if (piece.ends_with('\r')) piece.remove_suffix(1);
  return piece;
}

HttpResponseParser::State HttpResponseParser::Feed(std::string_view bytes, size_t& consumed) {
  std::string_view rest = bytes;
  while (!rest.empty() && step_ < Step::kDone) {
    if (step_ == Step::kLength || step_ == Step::kUntilClose || step_ == Step::kChunk) {
      TakeBody(rest);
      continue;
    }
    bool head = step_ <= Step::kField;
    size_t& budget = head ? head_bytes_ : step_ == Step::kTrailer ? trailer_bytes_ : chunk_line_bytes_;
    auto line = TakeLine(rest, budget);
    if (!line) continue;
    OnLine(*line);
    line_.clear();
  }
  consumed = bytes.size() - rest.size();
  if (step_ == Step::kBad) return bad_;
  return step_ == Step::kDone ? State::kDone : State::kMore;
}

HttpResponseParser::State HttpResponseParser::End() {
  if (step_ == Step::kDone) return State::kDone;
  if (step_ == Step::kBad) return bad_;
  if (step_ == Step::kUntilClose) {
    step_ = Step::kDone;
    return State::kDone;
  }
  if (!begun()) Break("the connection ended without a response");
  else if (!head_done()) Break("the response is truncated in its header");
  else if (length_)
    Break("the response is truncated: " + std::to_string(body_.size()) + " of " + std::to_string(*length_) +
          " bytes received");
  else
    Break("the response is truncated after " + std::to_string(body_.size()) +
          " bytes, its last chunk is missing");
  return bad_;
}

void HttpResponseParser::OnLine(std::string_view line) {
  switch (step_) {
    case Step::kStatusLine: return OnStatusLine(line);
    case Step::kField: return line.empty() ? OnHeadEnd() : OnField(line);
    case Step::kChunkSize: return OnChunkSize(line);
    case Step::kChunkEnd:
      chunk_line_bytes_ = 0;
      if (!line.empty()) return Break("a chunk of the body is longer than its stated size");
      step_ = Step::kChunkSize;
      return;
    case Step::kTrailer:
      if (line.empty()) step_ = Step::kDone;
      return;
    default: return;
  }
}

// "HTTP/1.1 200 OK"; the reason may be missing.
void HttpResponseParser::OnStatusLine(std::string_view line) {
  auto code = line.size() >= 12 ? ParseInt<int>(line.substr(9, 3)) : std::nullopt;
  bool shaped = line.starts_with("HTTP/1.") && line.size() >= 12 && (line[7] == '0' || line[7] == '1') &&
                line[8] == ' ' && (line.size() == 12 || line[12] == ' ');
  if (!shaped || !code || *code < 100 || *code > 599) {
    return Break("not an HTTP/1.1 response: " + Quoted(line));
  }
  http10_ = line[7] == '0';
  status_ = *code;
  keep_alive_ = !http10_;
  step_ = Step::kField;
}

void HttpResponseParser::OnField(std::string_view line) {
  size_t colon = line.find(':');
  bool named = colon != std::string_view::npos && colon > 0 &&
               std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), IsNameByte);
  if (!named) return Break("the response has an invalid field: " + Quoted(line));
  std::string_view value = Trim(line.substr(colon + 1));
  if (value.find('\0') != std::string_view::npos) return Break("the response has a NUL byte in a field");
  if (status_ >= 200) OnKnownField(line.substr(0, colon), value);
}

void HttpResponseParser::Keep(std::string_view name, std::string_view value) {
  if (kept_.size() + name.size() + value.size() + 3 > kLongestValue) return;
  for (char c : name) kept_ += Lower(c);
  kept_ += ": ";
  kept_ += value;
  kept_ += '\n';
}

void HttpResponseParser::OnKnownField(std::string_view name, std::string_view value) {
  if (!limits_.keep.empty() && Is(name.substr(0, limits_.keep.size()), limits_.keep)) Keep(name, value);
  if (Is(name, "content-length")) return OnContentLength(value);
  if (Is(name, "content-type")) {
    content_type_ = value.substr(0, kLongestValue);
  } else if (Is(name, "location")) {
    location_ = value.substr(0, kLongestValue);
  } else if (Is(name, "retry-after")) {
    // Cut it could mean another time.
    retry_after_ = value.size() > kLongestRetryAfter ? std::string_view{} : value;
  } else if (Is(name, "content-encoding")) {
    if (Is(value, "gzip") || Is(value, "x-gzip")) gzip_ = true;
    else if (!value.empty() && !Is(value, "identity"))
      Break("the Content-Encoding is " + Quoted(value) + ", which was not requested");
  } else if (Is(name, "transfer-encoding")) {
    if (chunked_ || !Is(value, "chunked"))
      return Break("the response's Transfer-Encoding is " + Quoted(value));
    chunked_ = true;
  } else if (Is(name, "connection")) {
    while (!value.empty()) {
      std::string_view token = Trim(TakeUntil(value, ','));
      if (Is(token, "close")) keep_alive_ = false;
      if (Is(token, "keep-alive")) said_keep_alive_ = true;
    }
  }
}

// Equal lengths given twice are one.
void HttpResponseParser::OnContentLength(std::string_view value) {
  do {
    auto length = ParseInt<uint64_t>(Trim(TakeUntil(value, ',')));
    if (!length) return Break("the response's Content-Length is not a number");
    if (length_ && *length_ != *length) return Break("the response has two different lengths");
    length_ = length;
  } while (!value.empty());
}

void HttpResponseParser::OnHeadEnd() {
  if (status_ < 200) {
    // 101 would turn the connection into something else, which nobody asked for.
    if (status_ == 101) return Break("the response switches protocols");
    step_ = Step::kStatusLine;
    return;
  }
  if (http10_) keep_alive_ = said_keep_alive_;
  if (chunked_ && (length_ || http10_)) return Break("the length of the response is ambiguous");
  head_whole_ = true;
  if (status_ == 204 || status_ == 304) {
    step_ = Step::kDone;
  } else if (chunked_) {
    step_ = Step::kChunkSize;
  } else if (length_) {
    Expect(*length_);
    if (step_ != Step::kBad) step_ = *length_ == 0 ? Step::kDone : Step::kLength;
    if (step_ == Step::kLength) body_.reserve(static_cast<size_t>(*length_));
  } else {
    keep_alive_ = false;
    step_ = Step::kUntilClose;
  }
}

void HttpResponseParser::Expect(uint64_t body_bytes) {
  left_ = body_bytes;
  if (body_bytes > limits_.body_bytes || body_.size() + body_bytes > limits_.body_bytes) {
    Exceed("the response is larger than " + std::to_string(limits_.body_bytes) + " bytes");
  }
}

void HttpResponseParser::OnChunkSize(std::string_view line) {
  chunk_line_bytes_ = 0;
  auto size = ParseInt<uint64_t>(Trim(line.substr(0, line.find(';'))), 16);
  if (!size) return Break("the size of a chunk is not a number: " + Quoted(line));
  if (*size == 0) {
    step_ = Step::kTrailer;
    return;
  }
  step_ = Step::kChunk;
  Expect(*size);
}

void HttpResponseParser::TakeBody(std::string_view& bytes) {
  size_t size = bytes.size();
  if (step_ == Step::kUntilClose) {
    Expect(size);
    if (step_ == Step::kBad) return;
  } else {
    size = static_cast<size_t>(std::min<uint64_t>(size, left_));
  }
  body_.append(bytes.data(), size);
  bytes.remove_prefix(size);
  if (step_ == Step::kUntilClose) return;
  left_ -= size;
  if (left_ == 0) step_ = step_ == Step::kChunk ? Step::kChunkEnd : Step::kDone;
}

}  // namespace gpulens
