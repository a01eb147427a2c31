#include "delivery/request_sender.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/threads.h"
#include "delivery/request_sender_internal.h"

namespace gpulens {
namespace {

// Records that are read ahead of those whose requests are under way.
constexpr size_t kReadAhead = 2;
constexpr Duration kLongestWait = std::chrono::hours(1);

}  // namespace

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
  loop_.Call([] {});  // what a channel still had to say, it has said
  uint64_t records = 0, items = 0;
  for (const auto& source : sources_) {
    const LogReader::Stats left = source->reader->stats();
    records += left.records;
    items += left.items;
    source->held.reset();  // it holds the source, and with it the reader
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

// Of a wait: all of it, or until the end.
Duration RequestSender::TimeLeft(Duration wanted) const {
  std::lock_guard lock(mutex_);
  if (!ending_) return wanted;
  return std::clamp(end_by_ - clock_.Now(), Duration::zero(), wanted);
}

bool RequestSender::Busy() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.busy; });
}

bool RequestSender::AllEmpty() {
  if (std::any_of(opened_.begin(), opened_.end(), [](size_t count) { return count != 0; })) return false;
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
        source->held.reset();  // it holds the source
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

// The logs sync, age and try their folders again. When that is due next.
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
    // Requests of one key were in one lane, in their order.
    for (Item& item : waiting) {
      const Chain chain = item.open->source->chain;
      queues_[QueueOf(item.part.key, chain)].items.push_back(std::move(item));
    }
    return;
  }
  // They were made for another kind of receiver.
  opened_ = {};
  for (const auto& source : taking_) {
    source->open = 0;
    source->held.reset();
    source->held_parts.clear();
    source->reader->Rewind();
  }
}

// --- From the logs into the lanes ---

void RequestSender::FillQueues() {
  const size_t most = std::min(LogReader::kMostUnderWay, queues_.size() / kChains * kReadAhead);
  std::array<bool, kChains> taken{};  // by chain: an earlier log still has something
  for (const auto& source : taking_) {
    if (std::exchange(taken[source->chain], true)) continue;
    while (opened_[source->chain] < most && !source->leaving && OpenNext(*source)) {
    }
    taken[source->chain] = source->open != 0 || source->held || source->reader->stats().records != 0;
  }
}

// One record more. False: there is none, or it has to wait.
bool RequestSender::OpenNext(Source& source) {
  if (source.held) {
    if (source.open != 0) return false;
    auto held = std::exchange(source.held, nullptr);
    Spread(held, source.held_parts);
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
  Spread(open, parts_.list);
  return true;
}

void RequestSender::Spread(const std::shared_ptr<Open>& open, std::vector<SendPart>& parts) {
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

}  // namespace gpulens
