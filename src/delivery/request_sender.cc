#include "delivery/request_sender.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/threads.h"
#include "net/message/http_message.h"

namespace gpulens {
namespace {

// Records read ahead of those in flight.
constexpr size_t kReadAhead = 2;
constexpr Duration kLongestWait = std::chrono::hours(1);

std::string CodeOf(const HttpReply& reply) {
  return reply.status != 0 ? std::to_string(reply.status) : std::string(HttpFailureName(reply.failure));
}

std::string CodeOf(const GrpcReply& reply) {
  const bool answered = reply.failure == HttpFailure::kNone;
  return std::string(answered ? GrpcCodeName(reply.code) : HttpFailureName(reply.failure));
}

}  // namespace

// Outlives the sender: logs hold it.
struct RequestSender::Waker {
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = false;

  void Wake() {
    {
      std::lock_guard lock(mutex);
      woken = true;
    }
    changed.notify_one();
  }
  void Wait(Duration longest) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, longest, [this] { return woken; });
    woken = false;
  }
};

struct RequestSender::Source {
  std::shared_ptr<LogReader> reader;
  Chain chain = kOwn;
  size_t open = 0;             // records under way
  std::shared_ptr<Open> held;  // waits for earlier records
  std::vector<SendPart> held_parts;
  std::atomic<bool> leaving{false};
};

// A record with requests in flight.
struct RequestSender::Open {
  std::shared_ptr<Source> source;
  uint64_t id = 0;
  uint32_t items = 0;
  bool once = false;
  size_t left = 0;  // requests
  uint32_t left_out = 0, untranslated = 0;
  bool taken = false, refused = false, dropped = false;
};

struct RequestSender::Item {
  std::shared_ptr<Open> open;
  SendPart part;
  unsigned tries = 0;
  bool reworked = false;
};

// Requests that are sent one after the other.
struct RequestSender::Queue {
  struct Channel {
    std::unique_ptr<HttpChannel> http;  // one of the two
    std::unique_ptr<GrpcChannel> grpc;
  };
  std::deque<Item> items;
  bool busy = false;
  size_t endpoint = 0;            // of the request in flight
  std::vector<Channel> channels;  // by endpoint and signal; made when they are needed
};

struct RequestSender::Endpoint {
  Backoff backoff;
  Instant until;       // not before
  bool waits = false;  // the last request was not taken
};

struct RequestSender::Answer {
  size_t queue = 0;
  uint64_t generation = 0;
  bool grpc = false;
  HttpReply http;
  GrpcReply call;
};

RequestSender::RequestSender(std::shared_ptr<const SendSetup> setup, HttpClient& client, IoLoop& loop,
                             const Clock& clock)
    : client_(client), calls_(loop), loop_(loop), clock_(clock), waker_(std::make_shared<Waker>()) {
  next_setup_ = std::move(setup);
  TakeSetup();
  static_cast<void>(Begin());
}

RequestSender::~RequestSender() { static_cast<void>(Finish(clock_.Now())); }

std::function<void()> RequestSender::waker() const {
  return [waker = waker_] { waker->Wake(); };
}

Status RequestSender::Begin() {
  return thread_.joinable() ? Ok() : StartThread(thread_, [this] { Run(); });
}

void RequestSender::Add(std::shared_ptr<LogReader> reader, Chain chain) {
  {
    std::lock_guard lock(mutex_);
    auto source = std::make_shared<Source>();
    source->reader = std::move(reader);
    source->chain = chain;
    sources_.push_back(std::move(source));
  }
  waker_->Wake();
}

void RequestSender::Remove(const std::shared_ptr<LogReader>& reader) {
  {
    std::lock_guard lock(mutex_);
    for (const auto& source : sources_) {
      if (source->reader == reader) source->leaving = true;
    }
  }
  waker_->Wake();
}

void RequestSender::Update(std::shared_ptr<const SendSetup> setup) {
  {
    std::lock_guard lock(mutex_);
    next_setup_ = std::move(setup);
  }
  waker_->Wake();
}

void RequestSender::BeginFinish(Instant deadline) {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    end_by_ = deadline;
  }
  waker_->Wake();
}

Status RequestSender::Finish(Instant deadline) {
  if (!thread_.joinable()) return Ok();
  BeginFinish(deadline);
  thread_.join();
  queues_.clear();
  loop_.Call([] {});  // waits for the last callbacks of the channels
  uint64_t records = 0, items = 0;
  for (const auto& source : sources_) {
    const LogReader::Stats left = source->reader->stats();
    records += left.records;
    items += left.items;
    source->held.reset();  // breaks the cycle of references
  }
  taking_.clear();
  sources_.clear();
  if (records == 0) return stats_.refused == 0 ? Ok() : Status{Code::kDataLoss, trouble_};
  std::string detail = std::to_string(items) + " points or records were not delivered in time";
  return {Code::kTimeout, trouble_.empty() ? detail : detail + ": " + trouble_};
}

void RequestSender::stats(Stats& out) const {
  std::lock_guard lock(mutex_);
  out = stats_;
}

// `wanted`, or the shorter time until the end.
Duration RequestSender::TimeLeft(Duration wanted) const {
  std::lock_guard lock(mutex_);
  if (!ending_) return wanted;
  return std::clamp(end_by_ - clock_.Now(), Duration::zero(), wanted);
}

bool RequestSender::Busy() const {
  return std::ranges::any_of(queues_, [](const Queue& queue) { return queue.busy; });
}

bool RequestSender::AllEmpty() {
  if (std::ranges::any_of(opened_, [](size_t count) { return count != 0; })) return false;
  for (const auto& source : taking_) {
    if (source->held || source->reader->stats().records != 0) return false;
  }
  return true;
}

void RequestSender::Run() {
  while (true) {
    bool ending = false, changing = false;
    {
      std::lock_guard lock(mutex_);
      ending = ending_;
      changing = next_setup_ != nullptr;
      std::erase_if(sources_, [](const auto& source) {
        if (!source->leaving || source->open != 0) return false;
        source->held.reset();  // breaks the cycle of references
        return true;
      });
      taking_ = sources_;
    }
    TakeAnswers();
    if (changing && !Busy()) {
      TakeSetup();
      changing = false;
    }
    std::optional<Instant> next;
    if (!changing) {
      FillQueues();
      next = StartQueues();
    }
    if (TimeLeft(kLongestWait) == Duration::zero() || (ending && AllEmpty())) return;
    const Instant now = clock_.Now();
    Instant until = Maintain();
    if (next && *next - until < Duration::zero()) until = *next;
    waker_->Wait(TimeLeft(std::clamp(until - now, Duration::zero(), kLongestWait)));
  }
}

// Maintains the logs. Returns when that is due next.
Instant RequestSender::Maintain() {
  const Instant now = clock_.Now();
  if (now - maintain_at_ < Duration::zero()) return maintain_at_;
  Duration next = kLongestWait;
  for (const auto& source : taking_) next = std::min(next, source->reader->log()->Maintain());
  maintain_at_ = now + next;
  return maintain_at_;
}

void RequestSender::TakeSetup() {
  std::shared_ptr<const SendSetup> before = setup_;
  {
    std::lock_guard lock(mutex_);
    setup_ = std::exchange(next_setup_, nullptr);
    stats_.signals.resize(setup_->signals.size());
  }
  std::vector<Item> waiting;
  for (Queue& queue : queues_) {
    for (Item& item : queue.items) waiting.push_back(std::move(item));
  }
  queues_.clear();
  endpoints_.clear();
  hashes_.clear();
  ++generation_;
  for (const SendEndpoint& endpoint : setup_->endpoints) {
    endpoints_.push_back({Backoff(setup_->backoff, std::random_device{}()), {}, false});
    hashes_.push_back(endpoint.hash);
  }
  queues_ =
      std::vector<Queue>(kChains * setup_->in_flight * (setup_->by_hash ? setup_->endpoints.size() : 1));
  for (Queue& queue : queues_)
    queue.channels = std::vector<Queue::Channel>(setup_->endpoints.size() * setup_->signals.size());
  if (before && before->format == setup_->format) {
    // Requests of one key were in one queue, in order.
    for (Item& item : waiting) {
      const Chain chain = item.open->source->chain;
      queues_[QueueOf(item.part.key, chain)].items.push_back(std::move(item));
    }
    return;
  }
  // They were made for another format.
  opened_ = {};
  for (const auto& source : taking_) {
    source->open = 0;
    source->held.reset();
    source->held_parts.clear();
    source->reader->Rewind();
  }
}

void RequestSender::FillQueues() {
  const size_t most = std::min(LogReader::kMaxInFlight, queues_.size() / kChains * kReadAhead);
  std::array<bool, kChains> taken{};  // by chain: an earlier log still has something
  for (const auto& source : taking_) {
    if (std::exchange(taken[source->chain], true)) continue;
    while (opened_[source->chain] < most && !source->leaving && OpenNext(*source)) {
    }
    taken[source->chain] = source->open != 0 || source->held || source->reader->stats().records != 0;
  }
}

// Opens one more record. False when there is none, or it has to wait.
bool RequestSender::OpenNext(Source& source) {
  if (source.held) {
    if (source.open != 0) return false;
    auto held = std::exchange(source.held, nullptr);
    Enqueue(held, source.held_parts);
    return true;
  }
  std::optional<LogRecord> record = source.reader->Next();
  if (!record) return false;
  auto open = std::make_shared<Open>();
  for (const auto& one : taking_) {
    if (one.get() == &source) open->source = one;
  }
  open->id = record->id;
  open->items = record->items;
  open->once = record->once;
  bool alone = false;
  parts_.list.clear();
  parts_.left_out = parts_.untranslated = 0;
  const Status prepared = setup_->prepare(*record, parts_, alone);
  open->left_out = parts_.left_out;
  open->untranslated = parts_.untranslated;
  if (!prepared || parts_.list.empty()) {
    Count(*open);
    if (!prepared) {
      Log(LogLevel::kError, setup_->name, "unsendable",
          std::to_string(record->items) +
              " points or records cannot be sent, they are lost: " + prepared.detail);
      std::lock_guard lock(mutex_);
      ++stats_.refused;
      ++stats_.requests["unsendable"];
    }
    if (prepared) source.reader->Skip(record->id);
    else source.reader->Done(record->id, false);
    return true;
  }
  if (alone && source.open != 0) {
    source.held = std::move(open);
    source.held_parts.swap(parts_.list);
    return false;
  }
  Enqueue(open, parts_.list);
  return true;
}

void RequestSender::Enqueue(const std::shared_ptr<Open>& open, std::vector<SendPart>& parts) {
  ++opened_[open->source->chain];
  ++open->source->open;
  open->left = parts.size();
  for (SendPart& part : parts)
    queues_[QueueOf(part.key, open->source->chain)].items.push_back({open, std::move(part)});
  parts.clear();
}

size_t RequestSender::QueueOf(uint64_t key, Chain chain) const {
  const size_t queues = queues_.size() / kChains;
  if (!setup_->by_hash) return chain * queues + key % queues;
  return chain * queues + PickEndpoint(key, hashes_) * setup_->in_flight + key % setup_->in_flight;
}

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

// Returns when a waiting request may be tried again.
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
    if (open.dropped || (item.tries > 0 && !open.source->reader->IsPending(open.id))) {
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

// The endpoint for a request: the first without back-off, or that of the key. Without one, `next` is the time
// of the earliest.
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
        Receive(std::move(answer));
      });
    });
    return;
  }
  if (!channel.http) channel.http = client_.Open(target);
  HttpPost post{headers, item.part.body, access->tls, timeout, {}};
  loop_.Call([&] {
    channel.http->Post(std::move(post), [this, answer](HttpReply& reply) mutable {
      answer.http = std::move(reply);
      Receive(std::move(answer));
    });
  });
}

void RequestSender::Receive(Answer answer) {
  {
    std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  waker_->Wake();
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

// Handles the outcome of a request.
void RequestSender::Settle(size_t index, SendOutcome outcome, const std::string& code,
                           std::optional<Duration> wait) {
  Queue& queue = queues_[index];
  Item& item = queue.items.front();
  Endpoint& endpoint = endpoints_[queue.endpoint];
  if (outcome.kind == SendOutcome::kRework) {
    if (!std::exchange(item.reworked, true)) {
      std::lock_guard lock(mutex_);
      ++stats_.requests[code];
      return;
    }
    outcome.kind = SendOutcome::kAgain;
  }
  item.reworked = false;
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

// Removes the first request of the queue.
void RequestSender::Leave(Queue& queue) {
  const std::shared_ptr<Open> open = std::move(queue.items.front().open);
  queue.items.pop_front();
  if (--open->left == 0) Close(*open);
}

void RequestSender::Close(Open& open) {
  --opened_[open.source->chain];
  --open.source->open;
  Count(open);
  // Also if another part was accepted: the record did not arrive as a whole.
  if (open.dropped) return open.source->reader->GiveUp(open.id);
  open.source->reader->Done(open.id, open.taken);
}

// Called once for each record.
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

// Logs the begin and end of an outage, and each refusal.
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
