#include "store/clickhouse/clickhouse.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::clickhouse {
namespace {

constexpr std::string_view kPlain = "clickhouse://", kSecure = "clickhouses://";
constexpr uint16_t kPlainPort = 8123, kSecurePort = 8443;
constexpr size_t kMostError = 400;

// Error codes that a single row can cause, in a constraint or a view.
constexpr std::array kDataErrors = {6, 26, 27, 38, 41, 69, 72, 117, 131, 153, 321, 349, 395, 407, 469, 691};
// REQUIRED_PASSWORD, UNKNOWN_USER, WRONG_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED, READONLY.
constexpr std::array kDenied = {164, 192, 193, 194, 497, 516};

std::string Escaped(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    if (c == '\0') out += "\\0";
    else out += c;
  }
  return out + quote;
}

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool FitsAField(std::string_view text) noexcept {
  return std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7F; });
}

// "Code: 60. DB::Exception: Table d.t does not exist."
std::optional<int> ErrorCode(std::string_view text) noexcept {
  constexpr std::string_view kBefore = "Code: ";
  const size_t at = text.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kBefore.size());
  return ParseInt<int>(TakeUntil(text, '.'));
}

// Adds the default port to an authority without one.
std::string WithPort(std::string_view rest, uint16_t port) {
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const size_t at = rest.substr(0, end).rfind('@');
  const std::string_view host = rest.substr(0, end).substr(at == std::string_view::npos ? 0 : at + 1);
  const size_t bracket = host.rfind(']');
  const bool has = host.find(':', bracket == std::string_view::npos ? 0 : bracket) != std::string_view::npos;
  std::string out(rest.substr(0, end));
  if (!has) out += ":" + std::to_string(port);
  return out + std::string(rest.substr(end));
}

Status ReadParameters(std::string_view query, ServerAddress& address) {
  while (!query.empty()) {
    std::string_view value = TakeUntil(query, '&');
    const std::string_view key = TakeUntil(value, '=');
    if (key != "table") return {Code::kInvalidArgument, "the only supported parameter is table"};
    address.table = PercentDecoded(value);
  }
  return Ok();
}

Status ReadPath(std::string_view target, ServerAddress& address) {
  std::string_view path = TakeUntil(target, '?');
  if (!path.empty()) path.remove_prefix(1);
  if (path.find('/') != std::string_view::npos)
    return {Code::kInvalidArgument, "its path must be the name of a database"};
  address.database = PercentDecoded(path);
  address.table = "telemetry";
  RETURN_IF_ERROR(ReadParameters(target, address));
  for (const std::string& name : {address.database, address.table}) {
    if (!FitsAField(name) || !IsUtf8(name)) return {Code::kInvalidArgument, "a name has a control byte"};
  }
  if (address.table.empty()) return {Code::kInvalidArgument, "the table has no name"};
  return Ok();
}

// The format escapes these alone; another byte behind a backslash is itself.
char Unescaped(char c) noexcept {
  switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '0': return '\0';
    default: return c;
  }
}

}  // namespace

bool IsUrl(std::string_view text) noexcept { return text.starts_with(kPlain) || text.starts_with(kSecure); }

Result<ServerAddress> ParseUrl(std::string_view url) {
  const auto wrong = [&](const std::string& why) {
    return Status{Code::kInvalidArgument,
                  UrlName(url) + " and what follows cannot be read as a URL of ClickHouse: " + why +
                      "; special characters of a password are written as %40"};
  };
  const bool secure = url.starts_with(kSecure);
  const std::string_view rest = url.substr(secure ? kSecure.size() : kPlain.size());
  auto http =
      ParseHttpUrl((secure ? "https://" : "http://") + WithPort(rest, secure ? kSecurePort : kPlainPort));
  if (!http) return wrong(http.error().detail);
  ServerAddress address{.url = *std::move(http), .database = {}, .table = {}};
  if (Status path = ReadPath(address.url.target, address); !path) return wrong(path.detail);
  if (address.url.user.empty()) address.url.user = FromEnvironment("CLICKHOUSE_USER");
  if (address.url.password.empty()) address.url.password = FromEnvironment("CLICKHOUSE_PASSWORD");
  if (!FitsAField(address.url.user) || !FitsAField(address.url.password))
    return wrong("user or password has a control byte");
  return address;
}

std::string Quoted(std::string_view text) { return Escaped(text, '\''); }
std::string NameQuoted(std::string_view name) { return Escaped(name, '`'); }

Result<std::unique_ptr<Server>> Server::Open(const std::string& url) {
  ASSIGN_OR_RETURN(ServerAddress address, ParseUrl(url));
  if (address.url.tls && !LinkedSecurePost())
    return Status{Code::kUnavailable,
                  UrlName(url) + ": this program is built without TLS; clickhouse:// is not encrypted"};
  return std::unique_ptr<Server>(new Server(std::move(address), UrlName(url)));
}

// The server's message in one line, without the password.
Status Server::Refusal(const BlockingReply& reply) const {
  std::string stated(Trim(reply.body));
  const std::optional<int> code = ErrorCode(stated);
  if (const std::string& password = address_.url.password; !password.empty()) {
    for (size_t at = 0; (at = stated.find(password, at)) != std::string::npos;)
      stated.replace(at, password.size(), "…");
  }
  std::ranges::replace(stated, '\n', ' ');
  std::string text;
  AppendPrintable(text, std::string_view(stated).substr(0, kMostError));
  if (stated.size() > kMostError) text += "…";
  if (!code) text = "HTTP " + std::to_string(reply.status) + (text.empty() ? "" : ": ") + text;
  const auto among = [&](const auto& codes) {
    return code && std::ranges::find(codes, *code) != codes.end();
  };
  if (among(kDataErrors)) return {Code::kInvalidArgument, std::move(text)};
  if (among(kDenied) || reply.status == 401 || reply.status == 403)
    return {Code::kPermissionDenied, name_ + ": " + text};
  return {Code::kIo, name_ + ": " + text};
}

Status Server::Post(Sent sent) const {
  std::string target = "/?", headers = "Content-Type: application/octet-stream\r\n";
  if (!address_.database.empty()) target += "database=" + PercentEncoded(address_.database) + "&";
  // Errors come instead of the answer, not within it.
  target += "wait_end_of_query=1" + sent.parameters;
  if (!address_.url.user.empty()) headers += "X-ClickHouse-User: " + address_.url.user + "\r\n";
  if (!address_.url.password.empty()) headers += "X-ClickHouse-Key: " + address_.url.password + "\r\n";
  BlockingPost::Request request{.url = address_.url,
                                .unix_socket = {},
                                .headers = headers,
                                .body = sent.body,
                                .on_body = std::move(sent.on_body)};
  request.url.target = std::move(target);
  auto reply =
      request.url.tls ? LinkedSecurePost()(request, sent.timeout) : plain_.Send(request, sent.timeout);
  if (!reply) return {reply.error().code, name_ + ": " + reply.error().detail};
  return reply->status / 100 == 2 ? Ok() : Refusal(*reply);
}

// The outcome is in the status at the end.
Status Server::Run(const std::string& sql, Duration timeout) const {
  return Post({.parameters = {}, .body = sql, .timeout = timeout, .on_body = nullptr});
}

Status Server::Insert(const std::string& sql, std::string_view data, const std::string& token) const {
  return Post({.parameters = "&async_insert=0&insert_deduplicate=1&insert_deduplication_token=" +
                             PercentEncoded(token) + "&query=" + PercentEncoded(sql),
               .body = data,
               .on_body = nullptr});
}

Result<std::string> Server::Query(const std::string& sql, Duration timeout) const {
  std::string answer;
  const auto take = [&](std::string_view piece) {
    if (answer.size() + piece.size() > kMostAnswer)
      return Status{Code::kExhausted, name_ + ": its response is too large"};
    answer += piece;
    return Ok();
  };
  RETURN_IF_ERROR(Read(sql, take, timeout));
  return answer;
}

Status Server::Read(const std::string& sql, const std::function<Status(std::string_view piece)>& on_piece,
                    Duration quiet) const {
  Status taken;
  const auto take = [&](std::string_view piece) {
    taken = on_piece(piece);
    return taken.ok();
  };
  Status status = Post({.parameters = {}, .body = sql, .timeout = quiet, .on_body = take});
  return taken ? status : taken;
}

Status TabRows::Feed(std::string_view bytes, const OnRow& on_row) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (line_.size() + std::min(end, bytes.size()) > kMostLine)
      return {Code::kExhausted, "a row of the response is longer than 1 MiB"};
    if (end == std::string_view::npos) {
      line_ += bytes;
      return Ok();
    }
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!line_.empty()) line = line_ += line;
    const Status status = OnLine(line, on_row);
    line_.clear();
    RETURN_IF_ERROR(status);
  }
  return Ok();
}

Status TabRows::OnLine(std::string_view line, const OnRow& on_row) {
  RETURN_IF_ERROR(Split(line));
  if (names_.empty()) {
    for (size_t i = 0; i < fields_.size(); ++i) names_.emplace_back(Text(static_cast<int>(i)));
    return Ok();
  }
  if (fields_.size() != names_.size())
    return {Code::kDataLoss, "a row of the response has " + std::to_string(fields_.size()) + " fields of " +
                                 std::to_string(names_.size())};
  return on_row();
}

Status TabRows::Split(std::string_view line) {
  fields_.clear();
  text_.clear();
  for (bool more = true; more;) {
    more = line.find('\t') != std::string_view::npos;
    std::string_view field = TakeUntil(line, '\t');
    if (fields_.size() == kMostColumns)
      return {Code::kExhausted, "the response has more than " + std::to_string(kMostColumns) + " columns"};
    const size_t from = text_.size();
    const bool null = field == "\\N";
    while (!field.empty() && !null) {
      const std::string_view plain = field.substr(0, field.find('\\'));
      text_ += plain;
      field.remove_prefix(plain.size());
      if (field.empty()) break;
      if (field.size() < 2) return {Code::kDataLoss, "a field of the response ends within an escape"};
      text_ += Unescaped(field[1]);
      field.remove_prefix(2);
    }
    fields_.push_back({.from = from, .size = text_.size() - from, .null = null});
  }
  return Ok();
}

Status TabRows::End() const {
  if (!line_.empty()) return {Code::kDataLoss, "the response ends within a row"};
  if (names_.empty()) return {Code::kDataLoss, "the response is empty"};
  return Ok();
}

std::string_view TabRows::Text(int column) const noexcept {
  const Field& field = At(column);
  return std::string_view(text_).substr(field.from, field.size);
}
double TabRows::Real(int column) const noexcept {
  return ParseDouble(Text(column)).value_or(std::numeric_limits<double>::quiet_NaN());
}
std::optional<int64_t> TabRows::MaybeInt(int column) const noexcept {
  return ParseInt<int64_t>(Text(column));
}

}  // namespace gpulens::clickhouse
