// From the lanes of a RequestSender to its receiver, and what the answers come to.

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "delivery/request_sender_internal.h"
#include "net/message/http_fields.h"

namespace gpulens {
namespace {

std::string CodeOf(const HttpReply& reply) {
  return reply.status != 0 ? std::to_string(reply.status) : std::string(HttpFailureName(reply.failure));
}

std::string CodeOf(const GrpcReply& reply) {
  const bool answered = reply.failure == HttpFailure::kNone;
  return std::string(answered ? GrpcCodeName(reply.code) : HttpFailureName(reply.failure));
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

// When one may be tried again, where something waits.
std::optional<Instant> RequestSender::StartQueues() {
  std::optional<Instant> next;
  for (size_t i = 0; i < queues_.size(); ++i) {
    const auto at = Start(i);
    if (at && (!next || *at - *next < Duration::zero())) next = at;
  }
  return next;
}

std::optional<Instant> RequestSender::Start(size_t index) {
  Queue& queue = queues_[index];
  while (!queue.busy && !queue.items.empty()) {
    Item& item = queue.items.front();
    Open& open = *item.open;
    if (open.dropped || (item.tries > 0 && !open.source->reader->Wanted(open.id))) {
      open.dropped = true;
      Leave(queue);
      continue;
    }
    Instant next;
    const auto endpoint = Choose(item.part.key, clock_.Now(), next);
    if (endpoint) {
      Send(index, *endpoint);
      continue;
    }
    if (!open.once) return next;
    open.dropped = true;
    Leave(queue);
  }
  return std::nullopt;
}

// The endpoint for a request: the first that is not waited for, or that of the key. Without one, `next` is
// when there may be.
std::optional<size_t> RequestSender::Choose(uint64_t key, Instant now, Instant& next) {
  usable_.assign(endpoints_.size(), 1);
  std::optional<size_t> first;
  bool any = false;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const Instant until = endpoints_[i].until;
    if (until - now <= Duration::zero()) {
      if (!first) first = i;
      continue;
    }
    usable_[i] = 0;
    if (!any || until - next < Duration::zero()) next = until;
    any = true;
  }
  return first && setup_->by_hash ? PickEndpoint(key, hashes_, usable_) : first;
}

void RequestSender::Send(size_t index, size_t endpoint) {
  Queue& queue = queues_[index];
  Item& item = queue.items.front();
  queue.endpoint = endpoint;
  ++item.tries;
  if (setup_->rework) {
    if (Status status = setup_->rework(item.part); !status)
      return Settle(index, {SendOutcome::kRefused, 0, std::move(status.detail)}, "unsendable", {});
  }
  const SendRoute& route = setup_->routes[item.part.route];
  Result<SendAccess> access = setup_->access(endpoint, route.signal);
  if (!access) return Settle(index, {SendOutcome::kAgain, 0, access.error().detail}, "access", {});
  const HttpTarget& target = setup_->endpoints[endpoint].targets[route.signal];
  Queue::Channel& channel = queue.channels[endpoint * setup_->signals.size() + route.signal];
  const std::string headers = access->headers + route.headers + item.part.headers;
  const Duration timeout = TimeLeft(setup_->timeout);
  queue.busy = true;
  Answer answer;
  answer.queue = index;
  answer.generation = generation_;
  if (!route.grpc_method.empty()) {
    if (!channel.grpc)
      channel.grpc =
          calls_.Open({target.url, target.unix_socket, target.limits.body_bytes, target.limits.head_bytes});
    answer.grpc = true;
    GrpcCall call{route.grpc_method, headers, item.part.body, route.gzip, access->tls, timeout};
    loop_.Call([&] {
      channel.grpc->Call(std::move(call), [this, answer](GrpcReply& reply) mutable {
        answer.call = std::move(reply);
        {
          std::lock_guard lock(mutex_);
          answers_.push_back(std::move(answer));
        }
        waker_->Wake();
      });
    });
    return;
  }
  if (!channel.http) channel.http = client_.Open(target);
  HttpPost post{headers, item.part.body, access->tls, timeout, {}};
  loop_.Call([&] {
    channel.http->Post(std::move(post), [this, answer](HttpReply& reply) mutable {
      answer.http = std::move(reply);
      {
        std::lock_guard lock(mutex_);
        answers_.push_back(std::move(answer));
      }
      waker_->Wake();
    });
  });
}

void RequestSender::TakeAnswers() {
  std::vector<Answer> answers;
  {
    std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (Answer& answer : answers) {
    if (answer.generation == generation_) Validate(answer);
  }
}

void RequestSender::Validate(Answer& answer) {
  queues_[answer.queue].busy = false;
  const size_t route = queues_[answer.queue].items.front().part.route;
  if (answer.grpc)
    return Settle(answer.queue, setup_->classify_call(answer.call, route), CodeOf(answer.call),
                  ReadGrpcRetryInfo(answer.call.details));
  HttpReply& reply = answer.http;
  if (reply.status == 0)
    return Settle(answer.queue, {SendOutcome::kAgain, 0, reply.detail}, CodeOf(reply), {});
  Settle(answer.queue, setup_->validate(reply, route), CodeOf(reply),
         RetryAfter(reply.retry_after, clock_.Now()));
}

// What a request came to.
void RequestSender::Settle(size_t index, SendOutcome outcome, const std::string& code,
                           std::optional<Duration> wait) {
  Queue& queue = queues_[index];
  Item& item = queue.items.front();
  Endpoint& endpoint = endpoints_[queue.endpoint];
  if (outcome.kind == SendOutcome::kAnew) {
    if (!std::exchange(item.anew, true)) {
      std::lock_guard lock(mutex_);
      ++stats_.requests[code];
      return;
    }
    outcome.kind = SendOutcome::kAgain;
  }
  item.anew = false;
  if (outcome.accepted)
    outcome.rejected = item.part.items - std::min<uint64_t>(*outcome.accepted, item.part.items);
  Report(item, queue.endpoint, outcome);
  Count(item, code, outcome);
  Open& open = *item.open;
  if (outcome.kind == SendOutcome::kAgain) {
    const Instant now = clock_.Now();
    if (wait) endpoint.backoff.AtLeast(*wait);
    // Several requests that fail together are one failure of the endpoint.
    if (wait || endpoint.until - now <= Duration::zero()) endpoint.until = now + endpoint.backoff.Next();
    if (!open.once) return;
    open.dropped = true;
  } else {
    endpoint.backoff.Reset();
    endpoint.until = {};
    open.taken |= outcome.kind == SendOutcome::kTaken;
    open.refused |= outcome.kind == SendOutcome::kRefused;
  }
  Leave(queue);
}

// The first request of the lane has come to its end.
void RequestSender::Leave(Queue& queue) {
  const std::shared_ptr<Open> open = std::move(queue.items.front().open);
  queue.items.pop_front();
  if (--open->left == 0) Close(*open);
}

void RequestSender::Close(Open& open) {
  --opened_[open.source->chain];
  --open.source->open;
  Count(open);
  // Also where another part of it was taken: not all of it arrived.
  if (open.dropped) return open.source->reader->GiveUp(open.id);
  open.source->reader->Done(open.id, open.taken);
}

// Once for each record, whatever became of its requests.
void RequestSender::Count(const Open& open) {
  if (open.left_out == 0 && open.untranslated == 0) return;
  std::lock_guard lock(mutex_);
  stats_.left_out += open.left_out;
  stats_.untranslated += open.untranslated;
}

void RequestSender::Count(const Item& item, const std::string& code, const SendOutcome& outcome) {
  const bool taken = outcome.kind == SendOutcome::kTaken;
  std::lock_guard lock(mutex_);
  ++stats_.requests[code];
  stats_.retries += outcome.kind == SendOutcome::kAgain;
  stats_.refused += outcome.kind == SendOutcome::kRefused;
  stats_.up = taken;
  if (!taken) return;
  const uint64_t rejected = std::min<uint64_t>(outcome.rejected, item.part.items);
  Stats::Signal& signal = stats_.signals[setup_->routes[item.part.route].signal];
  signal.delivered += item.part.items - rejected;
  signal.rejected += rejected;
  stats_.sent_bytes += item.part.body ? item.part.body->size() : 0;
  stats_.last_success_unix_ns = clock_.Now().unix_ns;
}

// An outage is told when it begins and when it ends; what is lost, each time.
void RequestSender::Report(const Item& item, size_t endpoint, const SendOutcome& outcome) {
  const std::string& subject = setup_->signals[setup_->routes[item.part.route].signal];
  const std::string& url = setup_->endpoints[endpoint].name;
  const std::string items = std::to_string(item.part.items) + " points or records";
  const bool down = outcome.kind == SendOutcome::kAgain;
  bool& waits = endpoints_[endpoint].waits;
  if (outcome.kind != SendOutcome::kTaken) trouble_ = url + ": " + outcome.detail;
  if (down && !waits) {
    Log(LogLevel::kWarn, setup_->name, "sink_down",
        "cannot deliver to " + url + ": " + outcome.detail + ". The data is queued and retried.", subject);
  } else if (!down && waits) {
    uint64_t waiting = 0;
    for (const auto& source : taking_) waiting += source->reader->stats().records;
    Log(LogLevel::kInfo, setup_->name, "sink_up",
        "delivers again; " + std::to_string(waiting) + " requests are in the queue.", subject);
  }
  waits = down;
  if (outcome.kind == SendOutcome::kRefused)
    Log(LogLevel::kError, setup_->name, "refused",
        url + " refused " + items + ", they are lost: " + outcome.detail, subject);
  if (outcome.rejected != 0)
    Log(LogLevel::kError, setup_->name, "rejected",
        url + " left out " + std::to_string(outcome.rejected) + " of " + items + ": " + outcome.detail,
        subject);
}

}  // namespace gpulens
