#include "plugins/collectors/nccl/batch_sender.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "collectives/batch_codec.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {
namespace {

// More wait only while a gateway does not answer; old ones are worth least.
constexpr size_t kMostWaiting = 4;
constexpr size_t kShownBytes = 200;  // of a refusal
constexpr Duration kBatchTimeout = std::chrono::seconds(5);
// Samples are worth sending at once; what hangs is seen after many seconds.
constexpr Duration kStateEvery = std::chrono::milliseconds(950);
// A hint counts for a minute; a new one is sent at once.
constexpr Duration kHintEvery = std::chrono::seconds(5);

}  // namespace

// Shared with tasks of the loop, which may outlive the sender.
struct BatchSender::Gateway : std::enable_shared_from_this<BatchSender::Gateway> {
  Gateway(HttpTarget target, std::string shown, RemoteAccess with, HttpClient& client)
      : name(std::move(shown)), access(std::move(with)), channel(client.Open(std::move(target))) {}

  // On the loop: sends the next one, unless one is under way.
  void SendNext() {
    const std::lock_guard lock(mutex);
    if (busy || !channel || waiting.empty()) return;
    busy = true;
    HttpPost post;
    post.headers = fields;
    post.body = std::move(waiting.front());
    post.tls = tls;
    post.timeout = timeout;
    waiting.pop_front();
    // The channel drops this when it is destroyed.
    channel->Post(std::move(post), [this, self = shared_from_this()](HttpReply& reply) {
      const bool taken = reply.failure == HttpFailure::kNone && reply.status / 100 == 2;
      if (!taken) {
        const std::string why = reply.status == 0 ? reply.detail
                                                  : "HTTP " + std::to_string(reply.status) + " " +
                                                        std::string(Trim(reply.body.substr(0, kShownBytes)));
        Log(LogLevel::kWarn, "nccl", "collectives", "a batch of collectives was not taken: " + why, name);
      }
      {
        const std::lock_guard again(mutex);
        busy = false;
        ++(taken ? counts.sent : counts.failed);
        wanted_links = taken ? collectives::DecodeWantedLinks(reply.body) : std::vector<uint64_t>();
      }
      SendNext();
    });
  }

  const std::string name;
  RemoteAccess access;  // of the thread that sends
  Duration timeout{};
  std::mutex mutex;                      // guards what follows
  std::unique_ptr<HttpChannel> channel;  // null: the sender ended
  std::string fields;
  std::shared_ptr<const TlsContext> tls;
  std::deque<std::shared_ptr<const std::string>> waiting;
  Counts counts;
  std::vector<uint64_t> wanted_links;  // of the last answer
  bool busy = false;
};

struct BatchSender::SentState {
  using Key = std::pair<uint64_t, int32_t>;  // communicator, rank
  std::map<Key, int64_t> at_ns;
  // Of hints: when they were sent, by GPU and cause.
  std::map<std::pair<std::string, collectives::Cause>, int64_t> hints_ns;
};

BatchSender::BatchSender(Env& env) : loop_(*env.io), sent_(std::make_unique<SentState>()) {}

Result<std::unique_ptr<BatchSender>> BatchSender::Open(const std::vector<std::string>& urls,
                                                       TransportOptions transport, Env& env) {
  if (!env.io || !env.http) return Status{Code::kUnavailable, "there is no network here"};
  std::unique_ptr<BatchSender> made(new BatchSender(env));
  const std::string type = "Content-Type: " + std::string(collectives::kBatchContentType) + "\r\n";
  for (const std::string& text : urls) {
    ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(text));
    if (!url.has_path || url.target == "/") url.target = collectives::kBatchPath;
    ASSIGN_OR_RETURN(RemoteAccess access, RemoteAccess::Make(transport, url, {.always = type}));
    HttpTarget target;
    target.url = url;
    target.unix_socket = transport.Text("unix_socket");
    auto gateway = std::make_shared<Gateway>(std::move(target), url.Shown(), std::move(access), *env.http);
    gateway->timeout = RequestTimeout(transport, kBatchTimeout);
    made->gateways_.push_back(std::move(gateway));
    made->hashes_.push_back(StableHash(url.Origin()));
  }
  return made;
}

BatchSender::~BatchSender() {
  for (const auto& gateway : gateways_) {
    std::unique_ptr<HttpChannel> channel;  // destroyed without the lock
    const std::lock_guard lock(gateway->mutex);
    channel = std::move(gateway->channel);
    gateway->waiting.clear();
  }
}

void BatchSender::Send(collectives::Batch batch, Instant now) {
  auto& at_ns = sent_->at_ns;
  for (collectives::Member& member : batch.members) {
    int64_t& at = at_ns[{member.hash, member.rank}];
    const bool soon = at != 0 && now.boot_ns - at < kStateEvery.count() && !member.closed;
    if (soon) member.progress.clear();
    else at = now.boot_ns;
  }
  std::erase_if(batch.members, [](const collectives::Member& member) {
    return member.progress.empty() && member.samples.empty() && member.links.empty() && !member.closed;
  });
  std::erase_if(at_ns, [&](const auto& entry) {
    return now.boot_ns - entry.second > Duration(std::chrono::minutes(1)).count();
  });
  if (!batch.members.empty()) {
    std::erase_if(batch.hints, [&](const collectives::Hint& hint) {
      int64_t& at = sent_->hints_ns[{hint.gpu, hint.cause}];
      const int64_t since = now.boot_ns - at;
      const bool soon = at != 0 && since < kHintEvery.count() && (hint.lasts || hint.age_ns > since);
      if (!soon) at = now.boot_ns;
      return soon;
    });
  }
  std::erase_if(sent_->hints_ns, [&](const auto& entry) {
    return now.boot_ns - entry.second > Duration(std::chrono::minutes(1)).count();
  });
  std::vector<collectives::Batch> parts = collectives::DivideBatch(batch, hashes_);
  for (size_t i = 0; i < parts.size(); ++i) {
    Gateway& gateway = *gateways_[i];
    if (parts[i].members.empty()) continue;
    std::string bytes;
    collectives::EncodeBatch(parts[i], bytes);
    const Status access = gateway.access.Refresh();
    {
      const std::lock_guard lock(gateway.mutex);
      if (!access) {
        ++gateway.counts.failed;
        continue;
      }
      gateway.fields = gateway.access.headers();
      gateway.tls = gateway.access.tls();
      gateway.counts.bytes += bytes.size();
      if (gateway.waiting.size() >= kMostWaiting) {
        gateway.waiting.pop_front();
        ++gateway.counts.dropped;
      }
      gateway.waiting.push_back(std::make_shared<const std::string>(std::move(bytes)));
    }
    loop_.Post([self = gateways_[i]] { self->SendNext(); });
  }
}

std::vector<uint64_t> BatchSender::wanted_links() const {
  std::vector<uint64_t> all;
  for (const auto& gateway : gateways_) {
    const std::lock_guard lock(gateway->mutex);
    all.insert(all.end(), gateway->wanted_links.begin(), gateway->wanted_links.end());
  }
  return all;
}

BatchSender::Counts BatchSender::counts() const {
  Counts sum;
  for (const auto& gateway : gateways_) {
    const std::lock_guard lock(gateway->mutex);
    sum.sent += gateway->counts.sent;
    sum.failed += gateway->counts.failed;
    sum.dropped += gateway->counts.dropped;
    sum.bytes += gateway->counts.bytes;
  }
  return sum;
}

}  // namespace gpulens
