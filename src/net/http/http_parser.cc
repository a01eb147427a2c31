#include "net/http/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "base/parse.h"

namespace gpulens {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;
using beast::string_view;

// What Beast calls. Views it gives die with the buffer, so everything is copied into one string.
class HttpParser::Reader {
 public:
  Reader(HttpParser& owner, const HttpLimits& limits) : owner_(owner), limits_(limits) { Restart(); }

  void Restart() {
    beast_.emplace(*this);
    beast_->eager(true);
    beast_->header_limit(static_cast<uint32_t>(limits_.header_bytes));
    beast_->body_limit(limits_.body_bytes);
    status = 0;
    got_line = got_head = false;
  }
  size_t Put(std::string_view bytes, error_code& error) {
    return beast_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  }
  bool done() const { return beast_->is_done(); }
  // What is left of a chunked body is never shorter than its last chunk "0\r\n\r\n", and Beast (1.81) asserts
  // those five bytes when it comes back to a last chunk that it has seen only the line of.
  bool InShortChunk(std::string_view rest) const {
    return got_head && rest.size() < 5 && owner_.request_.HasHeader("Transfer-Encoding");
  }

  int status = 0;  // set when one of our own rules is broken
  std::string_view why;
  bool got_line = false, got_head = false;

 private:
  class Beast final : public http::basic_parser<true> {
   public:
    explicit Beast(Reader& reader) : reader_(reader) {}

   private:
    void on_request_impl(http::verb, string_view method, string_view target, int version,
                         error_code& ec) override {
      reader_.OnLine(method, target, version, ec);
    }
    void on_response_impl(int, string_view, int, error_code&) override {}
    void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override {
      reader_.OnField(name, value, ec);
    }
    void on_header_impl(error_code& ec) override { reader_.OnHead(ec); }
    void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
    size_t on_body_impl(string_view body, error_code&) override {
      reader_.owner_.request_.body_.append(body.data(), body.size());
      return body.size();
    }
    void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
    size_t on_chunk_body_impl(uint64_t, string_view body, error_code&) override {
      reader_.owner_.request_.body_.append(body.data(), body.size());
      return body.size();
    }
    void on_finish_impl(error_code&) override {}

    Reader& reader_;
  };

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
  void OnLine(string_view method, string_view target, int version, error_code& ec);
  void OnField(string_view name, string_view value, error_code& ec);
  void OnHead(error_code& ec);

  HttpParser& owner_;
  const HttpLimits& limits_;
  std::optional<Beast> beast_;
};

void HttpParser::Reader::OnLine(string_view method, string_view target, int version, error_code& ec) {
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

void HttpParser::Reader::OnField(string_view name, string_view value, error_code& ec) {
  if (got_head) return;  // trailers of a chunked body
  HttpRequest& request = owner_.request_;
  if (request.fields_.size() >= limits_.header_count)
    return Break(431, "There are too many header fields.", ec);
  HttpRequest::Range name_range = Keep(name);
  request.fields_.push_back({name_range, Keep(value)});
}

void HttpParser::Reader::OnHead(error_code& ec) {
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
  reader_->Restart();
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

// Beast says bad_version for every fault in the third word: only another version of HTTP gets 505.
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
  size_t used = reader_->Put(rest, error);
  if (!had_head) head_bytes_ += used;
  Step step{State::kMore, blank + used, 0, {}};
  if (error && error != http::error::need_more) {
    step.state = State::kRejected;
    step.status = reader_->status ? reader_->status : StatusOf(error, !reader_->got_line);
    if (step.status == 505 && !NamesOtherVersion(rest)) step.status = 400;
    step.why = reader_->status ? reader_->why : WhyOf(step.status);
    return step;
  }
  if (reader_->done()) {
    step.state = State::kDone;
    return step;
  }
  // What is not consumed grows with every call: the head, the line of a chunk, the trailers.
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

}  // namespace gpulens
