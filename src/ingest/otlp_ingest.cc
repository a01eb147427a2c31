#include "ingest/otlp_ingest.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"

namespace gpulens {
namespace {

constexpr int64_t kLookEvery = 100'000'000, kTrimEvery = 1'000'000'000;

uint64_t Soft(const MemoryLimiter::Options& options) {
  const double share = std::max(0.0, options.share - options.spike);
  return static_cast<uint64_t>(static_cast<double>(options.limit) * share);
}

constexpr Duration kComeAgain = std::chrono::seconds(1);
// Unanswered requests to the sinks, below the bound of their queues.
constexpr size_t kMaxInFlight = 8;
// Requests wait for others to join them only while these come; even then not longer.
constexpr Duration kLongestJoin = std::chrono::milliseconds(20);
// Memory of a request besides its bytes.
constexpr size_t kPerCall = 512;

// Requests of up to some megabytes come and go all the time. Memory for each from the system, and back, would
// cost more than reading it does; this much of what was freed is kept instead. It holds for the whole
// process, and replaces the threshold of RunAgent: an agent without receivers keeps nothing.
void KeepFreedMemory() {
  constexpr int kKept = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
}

OtlpAnswer::Kind KindOf(const Status& status) noexcept {
  switch (status.code) {
    case Code::kOk: return OtlpAnswer::kAccepted;
    case Code::kExhausted: return OtlpAnswer::kOverloaded;
    case Code::kInvalidArgument: return OtlpAnswer::kMalformed;  // no retry helps
    default: return OtlpAnswer::kUnavailable;
  }
}

}  // namespace

MemoryLimiter::MemoryLimiter(Options options, const Clock& clock, Used used)
    : soft_(Soft(options)), clock_(clock), used_(std::move(used)) {}

bool MemoryLimiter::HasRoom() {
  if (soft_ == 0) return true;
  const int64_t now = clock_.Now().boot_ns;
  if (looked_ns_ >= 0 && now - looked_ns_ < kLookEvery) return room_;
  looked_ns_ = now;
  room_ = used_() <= soft_;
  if (room_) return true;
  // Freed memory that the allocator keeps does not count.
  if (trimmed_ns_ >= 0 && now - trimmed_ns_ < kTrimEvery) return room_;
  trimmed_ns_ = now;
  ::malloc_trim(0);
  return room_ = used_() <= soft_;
}

// A request with parts in flight. The last part answers it.
struct OtlpIngest::Open {
  OtlpCall call;
  uint64_t items = 0, rejected = 0, filtered = 0;
  std::string why;
  DecodedParts counted;
  std::shared_ptr<OtlpInFlight> in_flight;

  std::mutex mutex;  // guards what follows
  size_t parts = 1;  // one more until all parts are sent
  Status worst;

  bool failed() {
    std::lock_guard lock(mutex);
    return !worst.ok();
  }
  void Complete(const Status& status) {
    {
      std::lock_guard lock(mutex);
      if (worst.ok()) worst = status;
      if (--parts != 0) return;
    }
    OtlpAnswer answer{KindOf(worst), worst.detail};
    if (answer.kind == OtlpAnswer::kAccepted) {
      answer.rejected = rejected;
      answer.message = why;
      answer.parts = counted;
    } else {
      if (answer.kind != OtlpAnswer::kMalformed) answer.retry_after = kComeAgain;
    }
    {
      std::lock_guard lock(in_flight->mutex);
      auto& stats = in_flight->transports[call.transport].signals[static_cast<size_t>(call.signal)];
      if (answer.kind == OtlpAnswer::kAccepted) {
        stats.accepted += items;
        stats.rejected += rejected;
        stats.filtered += filtered;
      } else {
        stats.refused += items + rejected + filtered;
      }
    }
    call.answer(answer);
  }
};

// The requests of one signal that are being merged.
struct OtlpIngest::Queue {
  Queue(OtlpIngest& ingest, OtlpSignal of)
      : signal(of), batch(of, ingest.options_.batch, [this, &ingest](std::string bytes, uint32_t items) {
          ingest.Send(*this, std::move(bytes), items);
        }) {}

  const OtlpSignal signal;
  OtlpBatch batch;
  Opens members;  // requests with parts in the batch
  std::shared_ptr<Open> adding;
  Instant begun;
};

OtlpIngest::OtlpIngest(Options options, const ReceiverContext& context)
    : options_(std::move(options)),
      unwanted_(options_.unwanted),
      clock_(*context.env.clock),
      forward_(context.forward),
      observer_(context.env.received),
      table_(context.describer, context.env.latest),
      identity_(options_.identity, table_, clock_),
      in_flight_(std::make_shared<OtlpInFlight>()),
      memory_(options_.memory, clock_, [] { return ResidentBytes(0, true); }) {
  KeepFreedMemory();
  for (std::string_view transport : options_.transports) in_flight_->transports.push_back({transport, {}, 0});
  for (size_t i = 0; i < kOtlpSignals; ++i)
    queues_[i] = std::make_unique<Queue>(*this, static_cast<OtlpSignal>(i));
  std::lock_guard lock(mutex_);
  static_cast<void>(Begin());
}

// Under the lock. Starts the thread; after a failure each request tries again.
Status OtlpIngest::Begin() {
  if (thread_.joinable()) return Ok();
  return StartThread(thread_, [this] {
    ::pthread_setname_np(::pthread_self(), "receive");
    Run();
  });
}

OtlpIngest::~OtlpIngest() { Finish(); }

void OtlpIngest::Take(OtlpCall call) {
  OtlpAnswer refused;
  const size_t size = call.body.capacity() + kPerCall;
  std::unique_lock lock(mutex_);
  if (ending_) refused = {OtlpAnswer::kUnavailable, "the receiver is stopping", 0, kComeAgain};
  else if (Status begun = Begin(); !begun) refused = {OtlpAnswer::kUnavailable, begun.detail, 0, kComeAgain};
  else if (waiting_bytes_ + size > options_.max_waiting && !waiting_.empty())
    refused = {OtlpAnswer::kOverloaded, "too many requests are queued", 0, kComeAgain};
  else if (!memory_.HasRoom())
    refused = {OtlpAnswer::kOverloaded, "the memory limit is reached", 0, kComeAgain};
  if (refused.kind != OtlpAnswer::kAccepted) {
    lock.unlock();
    return Refuse(call, std::move(refused), 0);
  }
  waiting_bytes_ += size;
  waiting_.push_back(std::move(call));
  lock.unlock();
  wake_.notify_one();
}

void OtlpIngest::Finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  {
    std::lock_guard lock(in_flight_->mutex);
    in_flight_->ending = true;
  }
  in_flight_->completed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OtlpIngest::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto ready = [this] { return ending_ || !waiting_.empty(); };
    const bool holding = std::ranges::any_of(queues_, [](const auto& l) { return !l->batch.empty(); });
    if (holding)
      wake_.wait_for(lock, std::max<Duration>(options_.batch_wait / 4, std::chrono::milliseconds(1)), ready);
    else wake_.wait(lock, ready);
    while (!waiting_.empty()) {
      OtlpCall call = std::move(waiting_.front());
      waiting_.pop_front();
      const size_t size = call.body.capacity() + kPerCall;
      lock.unlock();
      Process(std::move(call));
      FlushOlder(std::max(options_.batch_wait, kLongestJoin));
      lock.lock();
      waiting_bytes_ -= size;
    }
    const bool ending = ending_;
    lock.unlock();
    FlushOlder(ending ? Duration(0) : options_.batch_wait);
    lock.lock();
    if (ending && waiting_.empty()) return;
  }
}

void OtlpIngest::Process(OtlpCall call) {
  {
    std::lock_guard lock(in_flight_->mutex);
    in_flight_->transports[call.transport].received_bytes += call.body.size();
  }
  decoded_ = {};
  decoded_.request = call.body;
  Status read;
  if (call.decoder) read = call.decoder->Decode(call, options_.max_request, decoded_);
  else if (call.body.size() > options_.max_request)
    read = {Code::kExhausted, "the request has more than " + std::to_string(options_.max_request) + " bytes"};
  if (!read) {
    const bool large = read.code == Code::kExhausted;
    return Refuse(call, {large ? OtlpAnswer::kTooLarge : OtlpAnswer::kMalformed, read.detail}, 0);
  }
  const Status scanned = ScanOtlp(call.signal, decoded_.request, &unwanted_, scan_);
  if (!scanned) return Refuse(call, {OtlpAnswer::kMalformed, scanned.detail}, 0);
  if (scan_.items != 0 && !AwaitRoom())
    return Refuse(call, {OtlpAnswer::kOverloaded, "the sinks are busy", 0, kComeAgain}, scan_.items);
  auto open = std::make_shared<Open>();
  open->items = scan_.items;
  open->rejected = scan_.rejected + decoded_.rejected;
  open->filtered = scan_.filtered;
  open->why = decoded_.why.empty() ? std::string(scan_.why) : std::move(decoded_.why);
  open->counted = decoded_.parts;
  open->in_flight = in_flight_;
  Queue& queue = *queues_[static_cast<size_t>(call.signal)];
  if (scan_.items != 0) {
    if (observer_) observer_->Observe(call.signal, decoded_.request);
    if (queue.batch.empty()) queue.begun = clock_.Now();
    identity_.Begin(call.peer, call.relayed);
    queue.adding = open;
    queue.batch.Add(scan_, &identity_);
    queue.adding = nullptr;
    if (!queue.batch.empty()) {
      std::lock_guard lock(open->mutex);
      ++open->parts;
      queue.members.push_back(open);
    }
  }
  // The decoded bytes may be those of the call.
  open->call = std::move(call);
  open->call.body = {};
  open->Complete(Ok());
}

// Sends a batch to the sinks, with the requests of its parts.
void OtlpIngest::Send(Queue& queue, std::string bytes, uint32_t items) {
  Opens members = std::exchange(queue.members, {});
  if (queue.adding) {
    std::lock_guard lock(queue.adding->mutex);
    ++queue.adding->parts;
    members.push_back(queue.adding);
  }
  auto completed = [in_flight = in_flight_, members = std::move(members)](const Status& status) {
    {
      std::lock_guard lock(in_flight->mutex);
      --in_flight->count;
    }
    in_flight->completed.notify_all();
    for (const auto& open : members) open->Complete(status);
  };
  // After a partial failure the request is answered at once.
  const bool room = !(queue.adding && queue.adding->failed()) && AwaitRoom();
  {
    std::lock_guard lock(in_flight_->mutex);
    ++in_flight_->count;
  }
  if (!room) return completed({Code::kExhausted, "the sinks are busy"});
  const size_t packing = forward_.packing();
  forward_.Forward({queue.signal, items, options_.source, packing, packer_.Pack(bytes, packing)},
                   std::move(completed));
}

bool OtlpIngest::AwaitRoom() {
  std::unique_lock lock(in_flight_->mutex);
  in_flight_->completed.wait_for(lock, options_.timeout,
                                 [this] { return in_flight_->count < kMaxInFlight || in_flight_->ending; });
  return in_flight_->count < kMaxInFlight;
}

void OtlpIngest::FlushOlder(Duration age) {
  const Instant now = clock_.Now();
  for (const auto& queue : queues_) {
    if (queue->batch.empty()) continue;
    if (now - queue->begun >= age) queue->batch.Flush();
  }
}

void OtlpIngest::Refuse(const OtlpCall& call, OtlpAnswer answer, uint64_t items) {
  {
    std::lock_guard lock(in_flight_->mutex);
    in_flight_->transports[call.transport].signals[static_cast<size_t>(call.signal)].refused += items;
  }
  call.answer(answer);
}

void OtlpInFlight::CountAnswer(size_t transport, OtlpSignal signal, std::string_view code) {
  std::lock_guard lock(mutex);
  auto& requests = transports[transport].signals[static_cast<size_t>(signal)].requests;
  auto at = requests.find(code);
  if (at == requests.end()) at = requests.emplace(std::string(code), 0).first;
  ++at->second;
}

void OtlpIngest::ReadStats(ReceiverStats& out) const {
  std::lock_guard lock(in_flight_->mutex);
  out.transports.insert(out.transports.end(), in_flight_->transports.begin(), in_flight_->transports.end());
}

}  // namespace gpulens
