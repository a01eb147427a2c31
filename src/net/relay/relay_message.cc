#include "net/relay/relay_message.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parse.h"
#include "base/text.h"
#include "net/message/http_message.h"

namespace gpulens {
namespace {

constexpr size_t kKeptCapacity = 4096;
constexpr uint32_t kMostSizeDigits = 15;

enum CharClass : uint8_t { kControl = 0, kText = 1, kTarget = 2, kToken = 4 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool control = (c < 0x20 && c != '\t') || c == 0x7f;
    if (!control) table[static_cast<size_t>(c)] |= kText;
    if (c > 0x20 && c < 0x7f && c != '#') table[static_cast<size_t>(c)] |= kTarget;
  }
  for (char c :
       std::string_view("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
    table[static_cast<uint8_t>(c)] |= kToken;
  return table;
}();

bool All(std::string_view text, uint8_t of) noexcept {
  uint8_t all = of;
  for (char c : text) all &= kClasses[static_cast<uint8_t>(c)];
  return all != 0;
}

std::string_view TrimBlanks(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool BeginsWith(std::string_view name, std::string_view prefix) noexcept {
  return EqualsIgnoringCase(name.substr(0, prefix.size()), prefix);
}

// Whether a name is that of a field which frames a message, so that Connection cannot remove it.
bool IsFrame(std::string_view name) noexcept {
  return EqualsIgnoringCase(name, "host") || EqualsIgnoringCase(name, "content-length") ||
         EqualsIgnoringCase(name, "transfer-encoding");
}

RelayHead::Kind KindOf(std::string_view name) noexcept {
  using Kind = RelayHead::Kind;
  switch (name[0] | 32) {
    case 'c':
      if (EqualsIgnoringCase(name, "connection")) return Kind::kHop;
      if (EqualsIgnoringCase(name, "content-length")) return Kind::kContentLength;
      break;
    case 'e':
      if (EqualsIgnoringCase(name, "expect")) return Kind::kExpect;
      break;
    case 'f':
      if (EqualsIgnoringCase(name, "forwarded")) return Kind::kForwarded;
      break;
    case 'h':
      if (EqualsIgnoringCase(name, "host")) return Kind::kHost;
      break;
    case 'k':
      if (EqualsIgnoringCase(name, "keep-alive")) return Kind::kHop;
      break;
    case 'p':
      if (BeginsWith(name, "proxy-")) return Kind::kHop;
      break;
    case 't':
      if (EqualsIgnoringCase(name, "te")) return Kind::kTe;
      if (EqualsIgnoringCase(name, "trailer") || EqualsIgnoringCase(name, "transfer-encoding"))
        return Kind::kHop;
      break;
    case 'u':
      if (EqualsIgnoringCase(name, "upgrade")) return Kind::kHop;
      break;
    case 'x':
      if (BeginsWith(name, "x-forwarded-")) return Kind::kForwarded;
      break;
    default: break;
  }
  return Kind::kPlain;
}

RelayHeadStep Bad(int status, std::string_view why) { return {RelayHeadStep::State::kBad, 0, status, why}; }

}  // namespace

std::string_view RelayHead::Header(std::string_view name) const noexcept {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field each = field(i);
    if (EqualsIgnoringCase(each.name, name)) return each.value;
  }
  return {};
}

bool RelayHead::HasHeader(std::string_view name) const noexcept {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (EqualsIgnoringCase(field(i).name, name)) return true;
  }
  return false;
}

void RelayHead::Clear() {
  std::string text = std::move(text_);
  std::vector<Range> fields = std::move(fields_);
  text.clear();
  fields.clear();
  if (text.capacity() > kKeptCapacity) text.shrink_to_fit();
  if (fields.capacity() * sizeof(Range) > kKeptCapacity) fields.shrink_to_fit();
  *this = RelayHead();
  text_ = std::move(text);
  fields_ = std::move(fields);
}

// Parses one head whose end is known.
class RelayHeadParser {
 public:
  RelayHeadParser(bool request, const RelayHeadLimits& limits, RelayHead& head) noexcept
      : request_(request), limits_(limits), head_(head) {}

  RelayHeadStep Parse(std::string_view bytes);

 private:
  using State = RelayHeadStep::State;
  RelayHeadStep Fail(int status, std::string_view why) const noexcept {
    return Bad(request_ || status == 431 ? status : 502, why);
  }
  // Ok: state kDone.
  RelayHeadStep RequestLine(std::string_view line);
  RelayHeadStep StatusLine(std::string_view line);
  RelayHeadStep FieldLine(size_t at, size_t size);
  RelayHeadStep Known(RelayHead::Kind kind, std::string_view name, std::string_view value);
  RelayHeadStep Length(std::string_view value);
  void ConnectionTokens(std::string_view value);
  RelayHeadStep Finish();

  static constexpr RelayHeadStep kGood = {State::kDone, 0, 0, {}};

  const bool request_;
  const RelayHeadLimits& limits_;
  RelayHead& head_;
  size_t hosts_ = 0, codings_ = 0;
  bool has_length_ = false, chunked_ = false, other_coding_ = false;
  bool close_ = false, keep_ = false, names_fields_ = false, other_expectation_ = false;
};

RelayHeadStep RelayHeadParser::Parse(std::string_view bytes) {
  size_t skipped = 0;
  // RFC 9112, 2.2: an empty line before a request is let pass.
  if (request_ && bytes.starts_with("\r\n")) skipped = 2;
  const std::string_view rest = bytes.substr(skipped);
  const size_t end = rest.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    // A bare LF shows at once that this never becomes a head.
    for (size_t at = rest.find('\n'); at != std::string_view::npos; at = rest.find('\n', at + 1)) {
      if (at == 0 || rest[at - 1] != '\r') return Fail(400, "A line does not end with CR and LF.");
    }
    const bool in_line = request_ && rest.find('\n') == std::string_view::npos;
    if (in_line && rest.size() > limits_.target_bytes + 64) return Fail(414, "The URL is too long.");
    if (rest.size() > limits_.bytes) return Fail(431, "The header fields are too large.");
    return {};
  }
  if (end + 4 > limits_.bytes) return Fail(431, "The header fields are too large.");
  head_.Clear();
  head_.text_.assign(rest.substr(0, end + 2));
  const std::string_view text = head_.text_;
  for (size_t at = 0; at < text.size();) {
    // Every line ends with CRLF here; a CR or LF elsewhere is a control byte in the line.
    const size_t stop = text.find("\r\n", at);
    const std::string_view line = text.substr(at, stop - at);
    RelayHeadStep step = at > 0     ? FieldLine(at, stop + 2 - at)
                         : request_ ? RequestLine(line)
                                    : StatusLine(line);
    if (step.state != State::kDone) return step;
    at = stop + 2;
  }
  RelayHeadStep step = Finish();
  step.consumed = skipped + end + 4;
  return step;
}

RelayHeadStep RelayHeadParser::RequestLine(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0)
    return Fail(400, "The request line is not valid.");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (target.empty() || !All(method, kToken) || !All(target, kTarget))
    return Fail(400, "The request line is not valid.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.';
    return other ? Fail(505, "This server supports HTTP/1.0 and HTTP/1.1.")
                 : Fail(400, "The request line is not valid.");
  }
  if (target.size() > limits_.target_bytes) return Fail(414, "The URL is too long.");
  if (method == "CONNECT" || method == "TRACE") return Fail(501, "This method is not supported.");
  if (target[0] != '/') return Fail(400, "The target must be a path.");
  head_.method_ = {0, static_cast<uint32_t>(method.size())};
  head_.target_ = {static_cast<uint32_t>(first + 1), static_cast<uint32_t>(target.size())};
  head_.minor_ = version.back() - '0';
  return kGood;
}

RelayHeadStep RelayHeadParser::StatusLine(std::string_view line) {
  const auto code = line.size() >= 12 ? ParseInt<int>(line.substr(9, 3)) : std::nullopt;
  const bool shaped = code && line.starts_with("HTTP/1.") && (line[7] == '0' || line[7] == '1') &&
                      line[8] == ' ' && (line.size() == 12 || line[12] == ' ') && All(line, kText);
  if (!shaped || *code < 100 || *code > 599) return Fail(502, "The answer is not HTTP/1.1.");
  head_.status_ = *code;
  head_.method_ = {9, static_cast<uint32_t>(line.size() - 9)};
  head_.minor_ = line[7] - '0';
  return kGood;
}

RelayHeadStep RelayHeadParser::FieldLine(size_t at, size_t size) {
  if (head_.fields_.size() >= limits_.fields) return Fail(431, "There are too many header fields.");
  const std::string_view line = std::string_view(head_.text_).substr(at, size - 2);
  const size_t colon = line.find(':');
  // A blank at the front would be a continuation of the line before.
  if (colon == std::string_view::npos || colon == 0 || colon > UINT16_MAX ||
      !All(line.substr(0, colon), kToken))
    return Fail(400, "A header field is not valid.");
  const std::string_view name = line.substr(0, colon), value = TrimBlanks(line.substr(colon + 1));
  if (!All(line.substr(colon), kText)) return Fail(400, "A header field has a control byte.");
  RelayHead::Range range;
  range.at = static_cast<uint32_t>(at);
  range.size = static_cast<uint32_t>(size);
  range.name = static_cast<uint16_t>(colon);
  range.value =
      static_cast<uint32_t>(value.empty() ? colon + 1 : static_cast<size_t>(value.data() - line.data()));
  range.value_size = static_cast<uint32_t>(value.size());
  range.kind = KindOf(name);
  if (request_ && name.find('_') != std::string_view::npos) {
    // Servers that make variables of fields (CGI, WSGI) take X_Y for X-Y.
    std::string with_hyphens(name);
    std::ranges::replace(with_hyphens, '_', '-');
    const RelayHead::Kind kind = KindOf(with_hyphens);
    if (kind == RelayHead::Kind::kForwarded) range.kind = RelayHead::Kind::kHop;
    else if (kind != RelayHead::Kind::kPlain) return Fail(400, "A header field is not valid.");
  }
  head_.fields_.push_back(range);
  return range.kind == RelayHead::Kind::kPlain ? kGood : Known(range.kind, name, value);
}

RelayHeadStep RelayHeadParser::Known(RelayHead::Kind kind, std::string_view name, std::string_view value) {
  switch (kind) {
    case RelayHead::Kind::kHost:
      ++hosts_;
      if (request_ && value.find_first_of(" \t,/@?#") != std::string_view::npos)
        return Fail(400, "The Host field is not valid.");
      return kGood;
    case RelayHead::Kind::kContentLength: return Length(value);
    case RelayHead::Kind::kExpect:
      head_.expects_continue_ = EqualsIgnoringCase(value, "100-continue");
      other_expectation_ |= !head_.expects_continue_;
      return kGood;
    case RelayHead::Kind::kTe:
      while (!value.empty()) {
        std::string_view token = TakeUntil(value, ',');
        head_.takes_trailers_ |= EqualsIgnoringCase(TrimBlanks(TakeUntil(token, ';')), "trailers");
      }
      return kGood;
    case RelayHead::Kind::kHop:
      if (EqualsIgnoringCase(name, "connection")) {
        ConnectionTokens(value);
      } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
        ++codings_;
        (EqualsIgnoringCase(value, "chunked") ? chunked_ : other_coding_) = true;
      }
      return kGood;
    default: return kGood;
  }
}

RelayHeadStep RelayHeadParser::Length(std::string_view value) {
  const auto number = value.size() <= 18 ? ParseInt<uint64_t>(value) : std::nullopt;
  if (!number || value[0] == '-') return Fail(400, "The Content-Length is not a number.");
  // Servers that repeat an equal length exist; of a client it is an attempt.
  if (has_length_ && (request_ || head_.length_ != *number))
    return Fail(400, "There is more than one Content-Length.");
  has_length_ = true;
  head_.length_ = *number;
  return kGood;
}

void RelayHeadParser::ConnectionTokens(std::string_view value) {
  while (!value.empty()) {
    const std::string_view token = TrimBlanks(TakeUntil(value, ','));
    if (EqualsIgnoringCase(token, "close")) close_ = true;
    else if (EqualsIgnoringCase(token, "keep-alive")) keep_ = true;
    else if (!token.empty()) names_fields_ = true;
  }
}

RelayHeadStep RelayHeadParser::Finish() {
  if (request_) {
    if (hosts_ > 1) return Fail(400, "There is more than one Host field.");
    if (hosts_ == 0 && head_.minor_ == 1) return Fail(400, "The Host field is missing.");
    if (other_expectation_) return Fail(417, "The only expectation supported is 100-continue.");
  }
  if (codings_ > 0) {
    if (head_.minor_ == 0) return Fail(400, "HTTP/1.0 has no Transfer-Encoding.");
    if (has_length_) return Fail(400, "The length of the body is given twice.");
    if (codings_ > 1) return Fail(400, "There is more than one Transfer-Encoding.");
    if (other_coding_) return Fail(501, "The only Transfer-Encoding supported is chunked.");
  }
  head_.framing_ = chunked_      ? RelayFraming::kChunked
                   : has_length_ ? RelayFraming::kLength
                   : request_    ? RelayFraming::kNone
                                 : RelayFraming::kUntilClose;
  if (request_ && has_length_ && head_.length_ == 0) head_.framing_ = RelayFraming::kNone;
  head_.expects_continue_ &= head_.minor_ == 1;
  head_.keep_alive_ = !close_ && (head_.minor_ == 1 || keep_);
  if (!names_fields_) return kGood;
  for (size_t i = 0; i < head_.fields_.size(); ++i) {
    const RelayHead::Field connection = head_.field(i);
    if (!EqualsIgnoringCase(connection.name, "connection")) continue;
    for (std::string_view rest = connection.value; !rest.empty();) {
      const std::string_view token = TrimBlanks(TakeUntil(rest, ','));
      if (IsFrame(token)) continue;
      for (size_t k = 0; k < head_.fields_.size(); ++k) {
        RelayHead::Kind& kind = head_.fields_[k].kind;
        if (kind != RelayHead::Kind::kTe && EqualsIgnoringCase(head_.field(k).name, token))
          kind = RelayHead::Kind::kHop;
      }
    }
  }
  return kGood;
}

RelayHeadStep ParseRequestHead(std::string_view bytes, const RelayHeadLimits& limits, RelayHead& head) {
  return RelayHeadParser(true, limits, head).Parse(bytes);
}

RelayHeadStep ParseAnswerHead(std::string_view bytes, const RelayHeadLimits& limits, RelayHead& head) {
  return RelayHeadParser(false, limits, head).Parse(bytes);
}

void RelayBodyWalk::Begin(RelayFraming framing, uint64_t length) noexcept {
  left_ = framing == RelayFraming::kLength ? length : 0;
  digits_ = extension_ = 0;
  line_ = 0;
  trailers_.clear();
  if (trailers_.capacity() > 256) trailers_.shrink_to_fit();
  why_ = {};
  switch (framing) {
    case RelayFraming::kNone: step_ = At::kDone; break;
    case RelayFraming::kLength: step_ = length == 0 ? At::kDone : At::kLength; break;
    case RelayFraming::kChunked: step_ = At::kSize; break;
    case RelayFraming::kUntilClose: step_ = At::kUntilClose; break;
  }
}

RelayBodyWalk::Step RelayBodyWalk::Take(std::span<char> data) {
  size_t in = 0, out = 0;
  while (in < data.size() && step_ < At::kDone) {
    if (step_ == At::kUntilClose) {
      in = out = data.size();
    } else if (step_ == At::kLength || step_ == At::kData) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(data.size() - in, left_));
      if (in != out) std::memmove(data.data() + out, data.data() + in, part);
      in += part;
      out += part;
      left_ -= part;
      if (left_ == 0) step_ = step_ == At::kLength ? At::kDone : At::kDataCr;
    } else if (!TakeFrame(data[in++])) {
      break;
    }
  }
  const State state = step_ == At::kBad ? State::kBad : step_ == At::kDone ? State::kDone : State::kMore;
  return {state, out, in};
}

bool RelayBodyWalk::TakeFrame(char c) {
  switch (step_) {
    case At::kSize:
      if (const int digit = HexDigit(c); digit >= 0) {
        if (++digits_ > kMostSizeDigits) return Break("The size of a chunk is too large.");
        left_ = left_ * 16 + static_cast<uint64_t>(digit);
        return true;
      }
      if (digits_ == 0 || (c != ';' && c != '\r')) return Break("The size of a chunk is not a number.");
      step_ = c == ';' ? At::kExtension : At::kSizeLf;
      return true;
    case At::kExtension:
      if (c == '\r') step_ = At::kSizeLf;
      else if ((kClasses[static_cast<uint8_t>(c)] & kText) == 0 || ++extension_ > kExtensionBytes)
        return Break("The extension of a chunk is not valid.");
      return true;
    case At::kSizeLf:
      if (c != '\n') return Break("The size of a chunk does not end with CR and LF.");
      digits_ = extension_ = 0;
      step_ = left_ == 0 ? At::kTrailer : At::kData;
      return true;
    case At::kDataCr:
    case At::kDataLf:
      if (c != (step_ == At::kDataCr ? '\r' : '\n')) return Break("A chunk is longer than its size.");
      step_ = step_ == At::kDataCr ? At::kDataLf : At::kSize;
      return true;
    case At::kTrailer: return TakeTrailer(c);
    default: return false;
  }
}

bool RelayBodyWalk::TakeTrailer(char c) {
  if (trailers_.size() >= kTrailerBytes) return Break("The trailers are too large.");
  trailers_ += c;
  if (c != '\n') return true;
  std::string_view line = std::string_view(trailers_).substr(line_);
  if (!line.ends_with("\r\n")) return Break("A trailer does not end with CR and LF.");
  line.remove_suffix(2);
  if (line.empty()) {
    trailers_.resize(line_);
    step_ = At::kDone;
    return true;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || !All(line.substr(0, colon), kToken) ||
      !All(line.substr(colon), kText))
    return Break("A trailer is not valid.");
  line_ = trailers_.size();
  return true;
}

bool RelayBodyWalk::Break(std::string_view why) noexcept {
  step_ = At::kBad;
  why_ = why;
  return false;
}

RelayBodyWalk::State RelayBodyWalk::End() {
  if (step_ == At::kUntilClose) step_ = At::kDone;
  if (step_ == At::kDone) return State::kDone;
  if (step_ != At::kBad) Break("The body is truncated.");
  return State::kBad;
}

void AppendPassedTrailers(std::string& out, std::string_view trailers) {
  while (!trailers.empty()) {
    const size_t end = trailers.find('\n');
    const std::string_view line = trailers.substr(0, end + 1);
    trailers.remove_prefix(line.size());
    const std::string_view name = line.substr(0, line.find(':'));
    if (KindOf(name) == RelayHead::Kind::kPlain) out += line;
  }
}

}  // namespace gpulens
