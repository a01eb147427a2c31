#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "net/io_loop.h"
#include "net/stream.h"
#include "proxy/admission/engines.h"

namespace gpulens::proxy {
namespace {

// ApplyLeaseCall of leases.cc. KEYS[1]: a hash with the budget, and a field for each start of a replica.
constexpr std::string_view kExchange = R"lua(
local key, me = KEYS[1], 'h:' .. ARGV[4]
local limit, call_window, rolling = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local sequence, spent_total, give_back = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local want, least, ttl, close = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11] == '1'
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function text(number) return string.format('%.0f', number) end
local function holder(value)
  local h = {0, 0, 0, 0, 0}
  local i = 1
  if value then for word in string.gmatch(value, '%d+') do h[i] = tonumber(word); i = i + 1 end end
  return h
end
local function store(field, h)
  redis.call('HSET', key, field, text(h[1]) .. ' ' .. text(h[2]) .. ' ' .. text(h[3]) .. ' ' .. text(h[4]) .. ' ' .. text(h[5]))
end
local row = redis.call('HMGET', key, 'spent', 'leased', 'window')
local spent, leased, window = tonumber(row[1] or 0), tonumber(row[2] or 0), tonumber(row[3] or 0)
local begins = false
if rolling > 0 then begins = window == 0 or now >= window + rolling
else begins = call_window > window and call_window <= now end
if begins then
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local field = all[i]
    if string.sub(field, 1, 2) == 'h:' then
      local h = holder(all[i + 1])
      if h[4] <= now and h[1] > 0 then
        leased = leased - h[1]
        h[5] = h[5] + h[1]
        h[1] = 0
        store(field, h)
      end
      if field ~= me and h[1] == 0 and h[4] + 604800000 <= now then redis.call('HDEL', key, field) end
    end
  end
  spent = 0
  window = rolling > 0 and now or call_window
end
-- Lease, reported as spent, sequence, expiry, lapsed.
local known = redis.call('HGET', key, me)
local h = holder(known)
local granted = 0
local ignored = close and not known
if not ignored and (close or sequence > h[3]) then
  local more = math.max(spent_total - h[2], 0)
  h[2] = h[2] + more
  local of_lease = math.min(more, h[1])
  local of_lapsed = math.min(more - of_lease, h[5])
  h[1] = h[1] - of_lease
  h[5] = h[5] - of_lapsed
  leased = leased - of_lease
  spent = spent + more - of_lapsed
  local back = close and h[1] or math.min(give_back, h[1])
  h[1] = h[1] - back
  leased = leased - back
  if not close then
    local left = math.max(limit - spent - leased, 0)
    if left * 20 < limit then want = least end
    if left >= want then granted = want elseif left >= least then granted = left end
    h[1] = h[1] + granted
    leased = leased + granted
    h[3] = sequence
  end
end
if not ignored then
  h[4] = close and now or now + ttl
  store(me, h)
end
redis.call('HSET', key, 'limit', text(limit), 'spent', text(spent), 'leased', text(leased), 'window', text(window))
redis.call('PEXPIRE', key, 34560000000)
return {granted, h[1], limit, spent, leased, window, now}
)lua";

// At least the time, so that a server that lost its data gives no number twice.
constexpr std::string_view kNewFence = R"lua(
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local fence = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) + 1, now)
redis.call('SET', KEYS[1], string.format('%.0f', fence))
return fence
)lua";

// Removes a line that ends "\r\n".
bool TakeLine(std::string_view& rest, std::string_view& line) noexcept {
  const size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) return false;
  line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return true;
}

RespState ParseRespAt(std::string_view& rest, RespReply& out, size_t depth, size_t& elements) {
  if (rest.empty()) return RespState::kMore;
  const char kind = rest.front();
  if (std::string_view("+-:$*").find(kind) == std::string_view::npos) return RespState::kBad;
  std::string_view after = rest.substr(1), line;
  if (!TakeLine(after, line)) return RespState::kMore;
  if (kind == '+' || kind == '-') {
    out.type = kind == '+' ? RespReply::Type::kText : RespReply::Type::kError;
    out.text = line;
    rest = after;
    return RespState::kDone;
  }
  const auto number = ParseInt<int64_t>(line);
  if (!number) return RespState::kBad;
  if (kind == ':') {
    out.type = RespReply::Type::kInteger;
    out.integer = *number;
  } else if (*number == -1) {
    out.type = RespReply::Type::kNull;
  } else if (kind == '$') {
    if (*number < 0 || *number > static_cast<int64_t>(kMostRespBytes)) return RespState::kBad;
    const auto size = static_cast<size_t>(*number);
    if (after.size() < size + 2) return RespState::kMore;
    if (after.substr(size, 2) != "\r\n") return RespState::kBad;
    out.type = RespReply::Type::kText;
    out.text = after.substr(0, size);
    after.remove_prefix(size + 2);
  } else {
    if (*number < 0 || depth == kMostRespDepth ||
        elements + static_cast<uint64_t>(*number) > kMostRespElements)
      return RespState::kBad;
    elements += static_cast<size_t>(*number);
    out.type = RespReply::Type::kArray;
    for (int64_t i = 0; i < *number; ++i) {
      const RespState state = ParseRespAt(after, out.elements.emplace_back(), depth + 1, elements);
      if (state != RespState::kDone) return state;
    }
  }
  rest = after;
  return RespState::kDone;
}

struct RedisUrl {
  std::string host, unix_path, user, password, ca;
  uint16_t port = 6379;
  int database = 0;
  bool tls = false;
  std::string shown;
};

Result<RedisUrl> ParseRedisUrl(const std::string& text) {
  const Status wrong{
      Code::kInvalidArgument,
      "a URL of Redis is redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], rediss:// with TLS, or "
      "redis+unix:/PATH"};
  RedisUrl out;
  std::string_view rest = text;
  if (constexpr std::string_view kUnix = "redis+unix:"; rest.starts_with(kUnix)) {
    out.unix_path = rest.substr(kUnix.size());
    out.shown = text;
    if (!out.unix_path.starts_with('/')) return wrong;
    return out;
  }
  out.tls = rest.starts_with("rediss://");
  if (!out.tls && !rest.starts_with("redis://")) return wrong;
  rest.remove_prefix(out.tls ? 9 : 8);
  std::string_view query = rest;
  rest = TakeUntil(query, '?');
  if (!query.empty()) {
    if (!query.starts_with("ca=")) return wrong;
    out.ca = PercentDecoded(query.substr(3));
  }
  std::string_view path = rest;
  std::string_view authority = TakeUntil(path, '/');
  if (!path.empty()) {
    const auto database = ParseInt<int>(path);
    if (!database || *database < 0 || *database > 1'000'000) return wrong;
    out.database = *database;
  }
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    std::string_view password = authority.substr(0, at);
    const std::string_view user = TakeUntil(password, ':');
    out.user = PercentDecoded(user);
    out.password = PercentDecoded(password);
    authority.remove_prefix(at + 1);
  }
  // A name, an IPv4 address, or an IPv6 address in brackets.
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return wrong;
  if (const size_t colon = authority.find(':', bracket); colon != std::string_view::npos) {
    const auto port = ParseInt<uint16_t>(authority.substr(colon + 1));
    if (!port || *port == 0) return wrong;
    out.port = *port;
    authority = authority.substr(0, colon);
  }
  out.host = bracket ? authority.substr(1, bracket - 1) : authority;
  if (out.host.empty()) return wrong;
  out.shown = std::string(out.tls ? "rediss://" : "redis://") + std::string(authority) + ":" +
              std::to_string(out.port);
  return out;
}

// One connection, opened by the first call and again after a failure. Call is for one thread at a time.
class RedisConnection final : StreamHandler {
 public:
  RedisConnection(RedisUrl url, std::shared_ptr<const TlsContext> tls, Duration timeout)
      : url_(std::move(url)), tls_(std::move(tls)), timeout_(timeout) {}
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;
  ~RedisConnection() {
    if (!started_) return;
    loop_.Call([this] { stream_ = {}; });
    loop_.Stop();
  }

  // `command` is sent again on a new connection when a kept one turns out to be closed.
  Result<RespReply> Call(const std::string& command) {
    if (!started_) loop_.Start();
    started_ = true;
    RETURN_IF_ERROR(loop_.status());
    const bool kept = Kept();
    Result<RespReply> reply = Once(command);
    if (!reply && kept && reply.error().code == Code::kUnavailable) reply = Once(command);
    if (reply && reply->type == RespReply::Type::kError)
      return Status{Code::kIo, url_.shown + ": " + Printable(reply->text.substr(0, 256))};
    return reply;
  }

 private:
  bool Kept() {
    bool kept = false;
    loop_.Call([&] { kept = static_cast<bool>(stream_); });
    return kept;
  }

  Result<RespReply> Once(const std::string& command) {
    {
      const std::lock_guard lock(mutex_);
      outcome_.reset();
    }
    loop_.Post([this, &command] { Begin(command); });
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return outcome_.has_value(); });
    return std::move(*outcome_);
  }

  // The rest is on the loop.

  void Begin(const std::string& command) {
    busy_ = true;
    sent_ = 0;
    in_.clear();
    preludes_ = 0;
    out_.clear();
    const uint64_t call = ++call_;
    timer_ = loop_.After(timeout_, [this] { Fail({Code::kTimeout, url_.shown + ": no reply in time"}); });
    if (stream_) {
      out_ = command;
      stream_.WaitWritable();
      return;
    }
    if (!url_.password.empty()) {
      ++preludes_;
      if (url_.user.empty()) AppendRespCommand(out_, {"AUTH", url_.password});
      else AppendRespCommand(out_, {"AUTH", url_.user, url_.password});
    }
    if (url_.database != 0) {
      ++preludes_;
      AppendRespCommand(out_, {"SELECT", std::to_string(url_.database)});
    }
    out_ += command;
    if (!url_.unix_path.empty()) {
      Endpoint to;
      to.family = Endpoint::Family::kUnix;
      to.path = url_.unix_path;
      return Connect(to);
    }
    loop_.Resolve(url_.host, url_.port, [this, call](Result<std::vector<Endpoint>> found) {
      if (call != call_ || !busy_) return;
      if (!found) return Fail({Code::kUnavailable, url_.shown + ": " + found.error().detail});
      Connect(found->front());
    });
  }

  void Connect(const Endpoint& to) {
    auto stream = Stream::Connect(loop_, to, tls_, url_.host);
    if (!stream) return Fail({Code::kUnavailable, url_.shown + ": " + stream.error().detail});
    stream_ = std::move(*stream);
    stream_.SetHandler(this);
    stream_.WaitWritable();
  }

  void OnWritable() override {
    if (!busy_) return;
    while (sent_ < out_.size()) {
      const std::string_view rest = std::string_view(out_).substr(sent_);
      const IoResult wrote = stream_.WriteSome({&rest, 1});
      if (wrote.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
      if (wrote.outcome != IoOutcome::kOk)
        return Fail({Code::kUnavailable, url_.shown + ": " + stream_.error()});
      sent_ += wrote.bytes;
    }
    stream_.WaitReadable();
  }

  void OnReadable() override {
    if (!busy_) return;
    std::array<char, 16 << 10> bytes;
    while (true) {
      const IoResult read = stream_.ReadSome(bytes);
      if (read.outcome == IoOutcome::kWouldBlock) return stream_.WaitReadable();
      if (read.outcome == IoOutcome::kClosed)
        return Fail({Code::kUnavailable, url_.shown + ": the server closed the connection"});
      if (read.outcome != IoOutcome::kOk)
        return Fail({Code::kUnavailable, url_.shown + ": " + stream_.error()});
      in_.append(bytes.data(), read.bytes);
      if (Parse()) return;
    }
  }

  // True: the call is over.
  bool Parse() {
    std::string_view rest = in_;
    while (true) {
      RespReply reply;
      const RespState state = ParseResp(rest, reply);
      if (state == RespState::kMore) break;
      if (state == RespState::kBad || (preludes_ == 0 && !rest.empty())) {
        Fail({Code::kDataLoss, url_.shown + ": the reply is none of Redis's"});
        return true;
      }
      if (preludes_ == 0) {
        End(std::move(reply));
        return true;
      }
      --preludes_;
      if (reply.type == RespReply::Type::kError) {
        Fail({Code::kPermissionDenied, url_.shown + ": " + Printable(reply.text.substr(0, 256))});
        return true;
      }
    }
    in_.erase(0, in_.size() - rest.size());
    return false;
  }

  void Fail(Status why) {
    if (!busy_) return;
    stream_ = {};
    End(std::move(why));
  }

  void End(Result<RespReply> outcome) {
    busy_ = false;
    loop_.Cancel(timer_);
    const std::lock_guard lock(mutex_);
    outcome_.emplace(std::move(outcome));
    ended_.notify_one();
  }

  const RedisUrl url_;
  const std::shared_ptr<const TlsContext> tls_;
  const Duration timeout_;
  IoLoop loop_;
  bool started_ = false;

  // Of the loop's thread.
  Stream stream_;
  std::string out_, in_;
  size_t sent_ = 0;
  int preludes_ = 0;
  bool busy_ = false;
  uint64_t call_ = 0;
  IoLoop::TimerId timer_ = 0;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<RespReply>> outcome_;
};

class RedisEngine final : public BudgetEngine {
 public:
  RedisEngine(RedisUrl url, std::shared_ptr<const TlsContext> tls, const std::string& tag, Duration timeout)
      : prefix_("gpulens:{" + tag + "}:"), connection_(std::move(url), std::move(tls), timeout) {}

  Result<int64_t> NewFence() override {
    std::string command;
    AppendRespCommand(command, {"EVAL", kNewFence, "1", prefix_ + "fence"});
    ASSIGN_OR_RETURN(const RespReply reply, connection_.Call(command));
    if (reply.type != RespReply::Type::kInteger || reply.integer <= 0)
      return Status{Code::kDataLoss, "the engine of budgets gave no fence"};
    return reply.integer;
  }

  Result<LeaseReply> Exchange(const LeaseCall& call) override {
    std::string command;
    AppendRespCommand(command,
                      {"EVAL", kExchange, "1", prefix_ + "budget:" + call.budget, std::to_string(call.limit),
                       std::to_string(call.window_ms), std::to_string(call.rolling_ms),
                       std::to_string(call.fence) + ":" + call.replica, std::to_string(call.sequence),
                       std::to_string(call.spent), std::to_string(call.give_back), std::to_string(call.want),
                       std::to_string(call.least), std::to_string(call.ttl_ms), call.close ? "1" : "0"});
    ASSIGN_OR_RETURN(const RespReply reply, connection_.Call(command));
    std::array<int64_t, 7> numbers{};
    bool right = reply.type == RespReply::Type::kArray && reply.elements.size() == numbers.size();
    for (size_t i = 0; right && i < numbers.size(); ++i) {
      right = reply.elements[i].type == RespReply::Type::kInteger;
      numbers[i] = reply.elements[i].integer;
    }
    if (!right || *std::min_element(numbers.begin(), numbers.end()) < 0)
      return Status{Code::kDataLoss, "the engine of budgets gave no lease"};
    return LeaseReply{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]};
  }

 private:
  const std::string prefix_;
  RedisConnection connection_;
};

}  // namespace

RespState ParseResp(std::string_view& bytes, RespReply& out) {
  std::string_view rest = bytes;
  size_t elements = 0;
  out = {};
  const RespState state = ParseRespAt(rest, out, 0, elements);
  if (state == RespState::kDone) bytes = rest;
  if (state == RespState::kMore && bytes.size() > kMostRespBytes + 64) return RespState::kBad;
  return state;
}

void AppendRespCommand(std::string& out, std::initializer_list<std::string_view> words) {
  out += "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n";
    out += word;
    out += "\r\n";
  }
}

Result<std::unique_ptr<BudgetEngine>> OpenRedisEngine(const std::string& text, const std::string& tenant_tag,
                                                      Duration timeout) {
  if (tenant_tag.find_first_of("{}") != std::string::npos)
    return Status{Code::kInvalidArgument, "the tag of Redis's keys has a brace"};
  ASSIGN_OR_RETURN(RedisUrl url, ParseRedisUrl(text));
  std::shared_ptr<const TlsContext> tls;
  if (url.tls) {
    TlsClientOptions options;
    options.ca.file = url.ca;
    ASSIGN_OR_RETURN(tls, TlsContext::Client(options));
  }
  return std::unique_ptr<BudgetEngine>(new RedisEngine(std::move(url), std::move(tls), tenant_tag, timeout));
}

}  // namespace gpulens::proxy
