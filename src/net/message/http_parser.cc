#include "net/message/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstring>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;
using beast::string_view;

// Beast's parser with our rules. Its views are valid during a call only, so the request owns a copy of all
// text.
class HttpParser::Reader final : public http::basic_parser<true> {
 public:
  Reader(HttpParser& owner, const HttpLimits& limits) : owner_(owner), limits_(limits) {
    eager(true);
    header_limit(static_cast<uint32_t>(limits.header_bytes));
    body_limit(limits.body_bytes);
  }

  // The rest of a chunked body is never shorter than its last chunk "0\r\n\r\n", and Beast (1.81) asserts
  // those five bytes when it returns to a last chunk of which it has seen only the line.
  bool InShortChunk(std::string_view rest) const {
    return got_head && rest.size() < 5 && owner_.request_.HasHeader("Transfer-Encoding");
  }

  int status = 0;  // set when one of our own rules is broken
  std::string_view why;
  bool got_line = false, got_head = false;

 private:
  // NOLINTBEGIN(readability-identifier-naming): Beast's names.
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code& ec) override;
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override;
  void on_header_impl(error_code& ec) override;
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(string_view body, error_code&) override {
    owner_.request_.body_.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view body, error_code& ec) override {
    return on_body_impl(body, ec);
  }
  void on_finish_impl(error_code&) override {}
  // NOLINTEND(readability-identifier-naming)

  void Break(int with, std::string_view reason, error_code& ec) {
    status = with;
    why = reason;
    ec = http::error::bad_value;
  }
  HttpRequest::Range Keep(string_view text) {
    std::string& all = owner_.request_.text_;
    HttpRequest::Range range{static_cast<uint32_t>(all.size()), static_cast<uint32_t>(text.size())};
    all.append(text.data(), text.size());
    return range;
  }

  HttpParser& owner_;
  const HttpLimits& limits_;
};

void HttpParser::Reader::on_request_impl(http::verb, string_view method, string_view target, int version,
                                         error_code& ec) {
  if (target.size() > limits_.target_bytes) return Break(414, "The URL is too long.", ec);
  // RFC 9112 §3.2.2: a server takes the absolute form too.
  for (string_view scheme : {string_view("http://"), string_view("https://")}) {
    if (!target.starts_with(scheme)) continue;
    size_t slash = target.find('/', scheme.size());
    target = slash == string_view::npos ? string_view("/") : target.substr(slash);
    break;
  }
  if (target.empty() || (target[0] != '/' && target != "*")) return Break(400, "The URL has no path.", ec);
  HttpRequest& request = owner_.request_;
  request.method_ = Keep(method);
  request.target_ = Keep(target);
  request.minor_ = version % 10;
  got_line = true;
}

void HttpParser::Reader::on_field_impl(http::field, string_view name, string_view value, error_code& ec) {
  if (got_head) return;  // trailers of a chunked body
  HttpRequest& request = owner_.request_;
  if (request.fields_.size() >= limits_.header_count)
    return Break(431, "There are too many header fields.", ec);
  HttpRequest::Range name_range = Keep(name);
  request.fields_.push_back({name_range, Keep(value)});
}

void HttpParser::Reader::on_header_impl(error_code& ec) {
  got_head = true;
  const HttpRequest& request = owner_.request_;
  size_t hosts = request.CountHeader("Host");
  if (hosts > 1) return Break(400, "There is more than one Host field.", ec);
  if (hosts == 0 && request.minor_ >= 1) return Break(400, "The Host field is missing.", ec);
  if (request.HasHeader("Transfer-Encoding")) {
    if (request.minor_ == 0) return Break(400, "HTTP/1.0 has no Transfer-Encoding.", ec);
    if (request.HasHeader("Content-Length")) return Break(400, "The length of the body is given twice.", ec);
    if (!EqualsIgnoringCase(request.JoinedHeader("Transfer-Encoding"), "chunked")) {
      return Break(501, "The only Transfer-Encoding supported is chunked.", ec);
    }
  }
  if (request.HasHeader("Expect")) {
    if (!EqualsIgnoringCase(request.Header("Expect"), "100-continue")) {
      return Break(417, "The only expectation supported is 100-continue.", ec);
    }
    owner_.expect_continue_ = request.minor_ >= 1;
  }
}

HttpParser::HttpParser(const HttpLimits& limits)
    : limits_(limits), reader_(std::make_unique<Reader>(*this, limits_)) {}
HttpParser::~HttpParser() = default;

void HttpParser::Reset() {
  constexpr size_t kKeep = 4096;
  request_.text_.clear();
  request_.fields_.clear();
  request_.body_.clear();
  if (request_.body_.capacity() > kKeep) request_.body_.shrink_to_fit();
  if (request_.text_.capacity() > kKeep) request_.text_.shrink_to_fit();
  request_.method_ = request_.target_ = {};
  request_.minor_ = 1;
  head_bytes_ = 0;
  expect_continue_ = false;
  // In place: a new request allocates nothing.
  std::destroy_at(reader_.get());
  std::construct_at(reader_.get(), *this, limits_);
}

bool HttpParser::TakeExpectContinue() noexcept { return std::exchange(expect_continue_, false); }

namespace {

int StatusOf(const error_code& error, bool in_line) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return in_line ? 414 : 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_version) return 505;
  return 400;
}

std::string_view WhyOf(int status) {
  switch (status) {
    case 413: return "The request body is too large.";
    case 414: return "The URL is too long.";
    case 431: return "The header fields are too large.";
    case 505: return "This server supports HTTP/1.0 and HTTP/1.1.";
    default: return "The request is not valid HTTP.";
  }
}

// Beast reports bad_version for every fault in the third word, but only another version of HTTP gets 505.
bool NamesOtherVersion(std::string_view bytes) {
  std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  size_t at = line.rfind(" HTTP/");
  if (at == std::string_view::npos) return false;
  std::string_view version = line.substr(at + 6);
  bool is_one = version.size() == 3 && version[1] == '.' && version[0] >= '0' && version[0] <= '9';
  return is_one && version != "1.0" && version != "1.1";
}

}  // namespace

HttpParser::Step HttpParser::Feed(std::string_view bytes) {
  size_t blank = 0;
  // RFC 9112 §2.2: an empty line before the request line is let pass.
  if (!reader_->got_line && head_bytes_ == 0 && bytes.starts_with("\r\n")) blank = 2;
  std::string_view rest = bytes.substr(blank);
  if (rest.empty()) return {State::kMore, blank, 0, {}};
  if (reader_->InShortChunk(rest)) return {State::kMore, blank, 0, {}};
  bool had_head = reader_->got_head;
  error_code error;
  size_t used = reader_->put(boost::asio::const_buffer(rest.data(), rest.size()), error);
  if (!had_head) head_bytes_ += used;
  Step step{State::kMore, blank + used, 0, {}};
  if (error && error != http::error::need_more) {
    step.state = State::kRejected;
    step.status = reader_->status ? reader_->status : StatusOf(error, !reader_->got_line);
    if (step.status == 505 && !NamesOtherVersion(rest)) step.status = 400;
    step.why = reader_->status ? reader_->why : WhyOf(step.status);
    return step;
  }
  if (reader_->is_done()) {
    step.state = State::kDone;
    return step;
  }
  // Unconsumed bytes grow with every call: the head, the line of a chunk, the trailers.
  size_t waiting = rest.size() - used;
  bool line_too_long = !reader_->got_line && waiting > limits_.target_bytes + 64;
  bool head_too_long = waiting + (reader_->got_head ? 0 : head_bytes_) > limits_.header_bytes;
  if (line_too_long || head_too_long) {
    step.state = State::kRejected;
    step.status = line_too_long ? 414 : 431;
    step.why = WhyOf(step.status);
  }
  return step;
}

namespace {

constexpr size_t kChunkLine = 1024;
constexpr size_t kLongestValue = 1024;  // of the fields that are kept
constexpr size_t kLongestRetryAfter = 64;

char LowerOf(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string Quoted(std::string_view text) {
  return "\"" + Printable(text.substr(0, 60)) + (text.size() > 60 ? "…\"" : "\"");
}

}  // namespace

void HttpResponseParser::Reset(std::string buffer) {
  step_ = Step::kStatusLine;
  status_ = 0;
  http10_ = chunked_ = gzip_ = has_keep_alive_ = head_whole_ = false;
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
  const bool named = colon != std::string_view::npos && IsHttpToken(line.substr(0, colon));
  if (!named) return Break("the response has an invalid field: " + Quoted(line));
  std::string_view value = Trim(line.substr(colon + 1));
  if (value.find('\0') != std::string_view::npos) return Break("the response has a NUL byte in a field");
  if (status_ >= 200) OnKnownField(line.substr(0, colon), value);
}

void HttpResponseParser::Keep(std::string_view name, std::string_view value) {
  if (kept_.size() + name.size() + value.size() + 3 > kLongestValue) return;
  for (char c : name) kept_ += LowerOf(c);
  kept_ += ": ";
  kept_ += value;
  kept_ += '\n';
}

void HttpResponseParser::OnKnownField(std::string_view name, std::string_view value) {
  if (!limits_.keep.empty() && EqualsIgnoringCase(name.substr(0, limits_.keep.size()), limits_.keep))
    Keep(name, value);
  if (EqualsIgnoringCase(name, "content-length")) return OnContentLength(value);
  if (EqualsIgnoringCase(name, "content-type")) {
    content_type_ = value.substr(0, kLongestValue);
  } else if (EqualsIgnoringCase(name, "location")) {
    location_ = value.substr(0, kLongestValue);
  } else if (EqualsIgnoringCase(name, "retry-after")) {
    // A part of it could mean another time.
    retry_after_ = value.size() > kLongestRetryAfter ? std::string_view{} : value;
  } else if (EqualsIgnoringCase(name, "content-encoding")) {
    if (EqualsIgnoringCase(value, "gzip") || EqualsIgnoringCase(value, "x-gzip")) gzip_ = true;
    else if (!value.empty() && !EqualsIgnoringCase(value, "identity"))
      Break("the Content-Encoding is " + Quoted(value) + ", which was not requested");
  } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
    if (chunked_ || !EqualsIgnoringCase(value, "chunked"))
      return Break("the response's Transfer-Encoding is " + Quoted(value));
    chunked_ = true;
  } else if (EqualsIgnoringCase(name, "connection")) {
    while (!value.empty()) {
      std::string_view token = Trim(TakeUntil(value, ','));
      if (EqualsIgnoringCase(token, "close")) keep_alive_ = false;
      if (EqualsIgnoringCase(token, "keep-alive")) has_keep_alive_ = true;
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
    // A switch of protocols was not requested.
    if (status_ == 101) return Break("the response switches protocols");
    step_ = Step::kStatusLine;
    return;
  }
  if (http10_) keep_alive_ = has_keep_alive_;
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
