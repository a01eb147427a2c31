#include "delivery/parcel_sender.h"

#include <algorithm>
#include <random>

#include "base/log.h"
#include "base/result.h"
#include "base/threads/threads.h"
#include "net/client/retry_after.h"

namespace gpulens {
namespace {

using std::chrono::hours;

// A request may outlive its own timeout by so much before it is given up.
constexpr Duration kGrace = std::chrono::seconds(5);

std::string CodeOf(const HttpReply& reply) {
  return reply.status != 0 ? std::to_string(reply.status) : std::string(HttpFailureName(reply.failure));
}

std::string CodeOf(const GrpcReply& reply) {
  const bool told = reply.failure == HttpFailure::kNone;
  return std::string(told ? GrpcCodeName(reply.code) : HttpFailureName(reply.failure));
}

}  // namespace

bool IsRetryable(const GrpcReply& reply) {
  switch (reply.failure) {
    case HttpFailure::kNone: break;
    case HttpFailure::kAuth:
    case HttpFailure::kStatus: return IsRetryable(reply.http_status);
    case HttpFailure::kTooLarge: return false;
    default: return true;
  }
  switch (reply.code) {
    case GrpcCode::kCancelled:
    case GrpcCode::kDeadlineExceeded:
    case GrpcCode::kAborted:
    case GrpcCode::kOutOfRange:
    case GrpcCode::kUnavailable:
    case GrpcCode::kDataLoss: return true;
    case GrpcCode::kResourceExhausted: return ReadGrpcRetryInfo(reply.details).has_value();
    default: return false;
  }
}

bool IsRetryable(int http_status) noexcept {
  return http_status == 429 || http_status == 502 || http_status == 503 || http_status == 504;
}

ParcelSender::ParcelSender(Options options, ParcelQueue& queue, HttpClient& client, IoLoop& loop,
                           const Clock& clock)
    : options_(std::move(options)),
      queue_(queue),
      loop_(loop),
      clock_(clock),
      backoff_(options_.backoff, std::random_device{}()) {
  GrpcClient calls(loop);
  for (const SendRoute& route : options_.routes) {
    const HttpTarget& to = route.target;
    Way& way = ways_.emplace_back();
    if (route.grpc_method.empty()) way.http = client.Open(to);
    else way.grpc = calls.Open({to.url, to.unix_socket, to.limits.body_bytes, to.limits.head_bytes});
  }
  stats_.routes.resize(ways_.size());
  static_cast<void>(Begin());
}

Status ParcelSender::Begin() {
  return thread_.joinable() ? Ok() : StartThread(thread_, [this] { Run(); });
}

ParcelSender::~ParcelSender() { static_cast<void>(Finish(clock_.Now())); }

Status ParcelSender::Finish(Instant deadline) {
  if (!thread_.joinable()) return Ok();
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    end_by_ = deadline;
  }
  changed_.notify_all();
  queue_.Wake();
  thread_.join();
  ways_.clear();
  loop_.Call([] {});  // what a channel still had to say, it has said
  const ParcelQueue::Stats left = queue_.stats();
  if (left.parcels == 0) return stats_.refused == 0 ? Ok() : Status{Code::kDataLoss, trouble_};
  std::string detail = std::to_string(left.items) + " points or records were not delivered in time";
  return {Code::kTimeout, trouble_.empty() ? detail : detail + ": " + trouble_};
}

void ParcelSender::stats(Stats& out) const {
  std::lock_guard lock(mutex_);
  out = stats_;
}

bool ParcelSender::Ending() const {
  std::lock_guard lock(mutex_);
  return ending_;
}

// Of a wait: all of it, or until the end.
Duration ParcelSender::TimeLeft(Duration wanted) const {
  std::lock_guard lock(mutex_);
  if (!ending_) return wanted;
  return std::clamp(end_by_ - clock_.Now(), Duration::zero(), wanted);
}

void ParcelSender::Run() {
  while (true) {
    const bool ending = Ending();
    if (OutOfTime()) return;
    if (auto parcel = queue_.Front()) {
      Deliver(*std::move(parcel));
    } else if (ending) {
      return;
    } else {
      queue_.Wait(clock_.Now() + hours(1));
    }
  }
}

// One parcel until it is out of the queue or the end has come.
void ParcelSender::Deliver(Parcel parcel) {
  size_t route = parcel.bytes.empty() ? options_.routes.size() : static_cast<unsigned char>(parcel.bytes[0]);
  if (route >= options_.routes.size()) return queue_.Pop(parcel.id);  // of another configuration
  parcel.bytes.erase(0, 1);
  auto body = std::make_shared<const std::string>(std::move(parcel.bytes));
  for (bool anew = false;;) {
    const Status reworked = Rework(route, body);
    Tried tried{{SendOutcome::kRefused, 0, reworked.detail}, "unsendable"};
    if (reworked) tried = Try(route, body);
    SendOutcome& outcome = tried.outcome;
    if (outcome.kind == SendOutcome::kAnew) {
      if (!std::exchange(anew, true)) {
        std::lock_guard lock(mutex_);
        ++stats_.requests[tried.code];
        continue;
      }
      outcome.kind = SendOutcome::kAgain;
    }
    if (outcome.accepted)
      outcome.rejected = parcel.items - std::min<uint64_t>(*outcome.accepted, parcel.items);
    Count(parcel, route, tried.code, outcome, body->size());
    if (outcome.kind != SendOutcome::kAgain) {
      backoff_.Reset();
      return queue_.Pop(parcel.id);
    }
    if (tried.wait) backoff_.AtLeast(*tried.wait);
    queue_.Pause(clock_.Now() + TimeLeft(backoff_.Next()));
    if (OutOfTime()) return;
    // It may have been dropped meanwhile to make room.
    auto front = queue_.Front();
    if (!front || front->id != parcel.id) return;
  }
}

Status ParcelSender::Rework(size_t& route, std::shared_ptr<const std::string>& body) const {
  return options_.rework ? options_.rework(route, body) : Ok();
}

ParcelSender::Tried ParcelSender::Try(size_t route, const std::shared_ptr<const std::string>& body) {
  Result<Access> access = options_.access(route);
  if (!access) return {{SendOutcome::kAgain, 0, access.error().detail}, "access"};
  const SendRoute& to = options_.routes[route];
  const std::string headers = access->headers + to.headers;
  const Duration timeout = TimeLeft(options_.timeout);
  Tried abandoned{{SendOutcome::kAgain, 0, "the program ended before there was an answer"}, "abandoned"};
  if (ways_[route].grpc) {
    GrpcReply reply;
    GrpcCall call{to.grpc_method, headers, body, to.gzip, access->tls, timeout};
    auto start = [&](auto done) { ways_[route].grpc->Call(std::move(call), std::move(done)); };
    if (!Await(timeout, start, reply)) return abandoned;
    return {options_.judge_call(reply), CodeOf(reply), ReadGrpcRetryInfo(reply.details)};
  }
  HttpReply reply;
  HttpPost post{headers, body, access->tls, timeout, {}};
  auto start = [&](auto done) { ways_[route].http->Post(std::move(post), std::move(done)); };
  if (!Await(timeout, start, reply)) return abandoned;
  if (reply.status == 0) return {{SendOutcome::kAgain, 0, reply.detail}, CodeOf(reply)};
  return {options_.judge(reply), CodeOf(reply), RetryAfter(reply.retry_after, clock_.Now())};
}

// `start` begins a request on the loop, with who is to be told. False when the end came before the answer.
template <class Reply, class Start>
bool ParcelSender::Await(Duration timeout, Start start, Reply& reply) {
  struct Answer {
    bool done = false;
    Reply reply;
  };
  auto answer = std::make_shared<Answer>();
  const Instant latest = clock_.Now() + timeout + kGrace;
  loop_.Call([&] {
    start([this, answer](Reply& came) {
      std::lock_guard lock(mutex_);
      answer->reply = std::move(came);
      answer->done = true;
      changed_.notify_all();
    });
  });
  std::unique_lock lock(mutex_);
  while (!answer->done) {
    const Instant now = clock_.Now();
    Duration left = latest - now;
    if (ending_) left = std::min(left, end_by_ - now);
    if (left <= Duration::zero()) return false;
    changed_.wait_for(lock, left);
  }
  reply = std::move(answer->reply);
  return true;
}

void ParcelSender::Count(const Parcel& parcel, size_t route, const std::string& code,
                         const SendOutcome& outcome, size_t bytes) {
  Tell(parcel, route, outcome);
  const bool taken = outcome.kind == SendOutcome::kTaken;
  std::lock_guard lock(mutex_);
  ++stats_.requests[code];
  stats_.retries += outcome.kind == SendOutcome::kAgain;
  stats_.refused += outcome.kind == SendOutcome::kRefused;
  stats_.up = taken;
  if (!taken) return;
  const uint64_t rejected = std::min<uint64_t>(outcome.rejected, parcel.items);
  stats_.routes[route].delivered += parcel.items - rejected;
  stats_.routes[route].rejected += rejected;
  stats_.sent_bytes += bytes;
  stats_.last_success_unix_ns = clock_.Now().unix_ns;
}

// An outage is told when it begins and when it ends; what is lost, each time.
void ParcelSender::Tell(const Parcel& parcel, size_t route, const SendOutcome& outcome) {
  const std::string& subject = options_.routes[route].name;
  const std::string url = options_.routes[route].target.url.Origin();
  const std::string items = std::to_string(parcel.items) + " points or records";
  const bool down = outcome.kind == SendOutcome::kAgain;
  if (outcome.kind != SendOutcome::kTaken) trouble_ = url + ": " + outcome.detail;
  if (down && !waits_) {
    Log(LogLevel::kWarn, options_.name, "sink_down",
        "cannot deliver to " + url + ": " + outcome.detail + ". It is queued and tried again.", subject);
  } else if (!down && waits_) {
    Log(LogLevel::kInfo, options_.name, "sink_up",
        "delivers again; " + std::to_string(queue_.stats().parcels) + " requests are in the queue.", subject);
  }
  waits_ = down;
  if (outcome.kind == SendOutcome::kRefused)
    Log(LogLevel::kError, options_.name, "refused",
        url + " refused " + items + ", they are lost: " + outcome.detail, subject);
  if (outcome.rejected != 0)
    Log(LogLevel::kError, options_.name, "rejected",
        url + " left out " + std::to_string(outcome.rejected) + " of " + items + ": " + outcome.detail,
        subject);
}

}  // namespace gpulens
