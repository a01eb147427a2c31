#include "cli/bench/load_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace gpulens {

namespace {

// Words that most tokenizers keep whole.
constexpr std::array<std::string_view, 32> kWords{
    "time", "year",  "people", "way",  "day",   "man",  "thing",  "woman", "life",  "child",  "world",
    "hand", "part",  "place",  "case", "week",  "work", "system", "point", "group", "number", "night",
    "home", "water", "room",   "area", "money", "book", "word",   "issue", "side",  "house"};

// SplitMix64 (Steele, Lea and Flood, 2014), which accepts any seed.
uint64_t Next(uint64_t& state) noexcept {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void AppendWords(std::string& out, uint32_t count, uint64_t seed) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!out.empty()) out += ' ';
    out += kWords[Next(seed) % kWords.size()];
  }
}

std::string Prompt(const LoadPlan& plan, uint64_t number) {
  const uint32_t shared = std::min(plan.shared_words, plan.prompt_words);
  std::string out;
  AppendWords(out, shared, plan.seed);
  // The number makes the rest differ from every other prompt from its first token on.
  if (shared < plan.prompt_words) {
    if (!out.empty()) out += ' ';
    out += std::to_string(number);
    uint64_t seed = plan.seed ^ (number + 1) * 0x9e3779b97f4a7c15;
    AppendWords(out, plan.prompt_words - shared - 1, Next(seed));
  }
  return out;
}

constexpr size_t kMostSlots = 10'000;
constexpr size_t kMostDetail = 300;

int64_t SteadyNs() noexcept { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

std::string RequestBody(const LoadPlan& plan, uint64_t number) {
  std::string out = "{\"model\":";
  AppendJsonString(out, plan.model);
  out += plan.chat ? ",\"messages\":[{\"role\":\"user\",\"content\":" : ",\"prompt\":";
  AppendJsonString(out, Prompt(plan, number));
  out += plan.chat ? "}]" : "";
  out += ",\"max_tokens\":" + std::to_string(plan.max_tokens);
  if (plan.ignore_eos) out += ",\"ignore_eos\":true";
  if (plan.stream) out += ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
  return out += '}';
}

Duration ArrivalTimes::Next() noexcept {
  // In (0, 1], so that the logarithm is finite.
  const double uniform = (static_cast<double>(gpulens::Next(state_) >> 11) + 1) * 0x1p-53;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(-std::log(uniform) / rate_));
}

// A connection and its current request.
struct LoadRun::Slot {
  std::unique_ptr<HttpChannel> channel;
  SseReader events;
  LoadRequest request;
  int64_t previous_ns = 0;   // of the last event that brought text
  std::vector<double> gaps;  // for the observer
  std::string broken;        // why an answer with status 200 is unusable
  bool ended = false;        // the stream's end mark has come
  bool busy = false;
};

LoadRun::LoadRun(IoLoop& loop, LoadPlan plan, std::function<void()> done, LoadObserver* observer)
    : loop_(loop),
      client_(loop),
      plan_(std::move(plan)),
      done_(std::move(done)),
      observer_(observer),
      arrivals_(plan_.rate, plan_.seed) {}

LoadRun::~LoadRun() { loop_.Cancel(timer_); }

int64_t LoadRun::Now() const noexcept { return SteadyNs() - start_ns_; }

void LoadRun::Start() {
  record_.start_ns = start_ns_ = SteadyNs();
  const size_t slots = std::clamp<size_t>(plan_.concurrency, 1, kMostSlots);
  for (size_t i = 0; i < slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->channel = client_.Open({plan_.url, {}, {}});
    free_.push_back(slots_.back().get());
  }
  record_.requests.reserve(std::min<uint64_t>(plan_.requests, 100'000));
  plan_.rate > 0 ? ScheduleNext() : BeginNext();
}

bool LoadRun::MayBegin() const noexcept {
  const uint64_t begun = plan_.rate > 0 ? scheduled_ : begun_;
  if (stopping_ || (plan_.requests > 0 && begun >= plan_.requests)) return false;
  return plan_.duration.count() == 0 || (plan_.rate > 0 ? next_due_ns_ : Now()) < plan_.duration.count();
}

void LoadRun::BeginNext() {
  while (!free_.empty() && MayBegin()) {
    Slot& slot = *free_.back();
    free_.pop_back();
    Send(slot, Now());
  }
  EndIfDone();
}

void LoadRun::ScheduleNext() {
  next_due_ns_ += arrivals_.Next().count();
  if (!MayBegin()) return EndIfDone();
  ++scheduled_;
  const int64_t due = next_due_ns_;
  timer_ = loop_.After(Duration(std::max<int64_t>(0, due - Now())), [this, due] { OnDue(due); });
}

void LoadRun::OnDue(int64_t due_ns) {
  timer_ = 0;
  if (free_.empty()) {
    waiting_.push_back(due_ns);
  } else {
    Slot& slot = *free_.back();
    free_.pop_back();
    Send(slot, due_ns);
  }
  ScheduleNext();
}

void LoadRun::Send(Slot& slot, int64_t due_ns) {
  slot.request = {.number = begun_++, .due_ns = due_ns};
  slot.events.Reset();
  slot.gaps.clear();
  slot.broken.clear();
  slot.ended = false;
  slot.busy = true;
  HttpPost post{.headers = plan_.headers,
                .body = std::make_shared<const std::string>(RequestBody(plan_, slot.request.number)),
                .tls = plan_.tls,
                .timeout = plan_.timeout,
                .buffer = {}};
  if (plan_.stream) post.on_body = [this, &slot](std::string_view bytes) { OnBytes(slot, bytes); };
  slot.request.sent_ns = slot.previous_ns = Now();
  if (observer_) observer_->OnSent(slot.request);
  slot.channel->Post(std::move(post), [this, &slot](HttpReply& reply) { OnReply(slot, reply); });
}

void LoadRun::OnBytes(Slot& slot, std::string_view bytes) {
  if (!slot.broken.empty()) return;
  const bool read = slot.events.Feed(bytes, [&](std::string_view data) { OnData(slot, data); });
  if (!read) slot.broken = "an event is larger than 1 MiB";
}

void LoadRun::OnData(Slot& slot, std::string_view data) {
  const auto chunk = ReadCompletionChunk(data);
  if (!chunk) {
    slot.broken = "an event is not JSON: " + std::string(data.substr(0, kMostDetail));
    return;
  }
  LoadRequest& request = slot.request;
  Take(request, *chunk);
  slot.ended |= chunk->done;
  if (!chunk->error.empty()) slot.broken = chunk->error;
  if (chunk->text) OnText(slot);
}

void LoadRun::OnText(Slot& slot) {
  LoadRequest& request = slot.request;
  const int64_t now = Now();
  ++request.chunks;
  request.last_ns = now;
  if (request.first_ns == 0) {
    request.first_ns = now;
    newest_first_ = static_cast<double>(now - request.due_ns) * 1e-9;
    if (observer_) observer_->OnFirstToken(request);
  } else {
    const double gap = static_cast<double>(now - slot.previous_ns) * 1e-9;
    const bool counted = request.number >= plan_.warmup;
    if (counted && record_.gap_seconds.size() < LoadRecord::kMostGaps) record_.gap_seconds.push_back(gap);
    else record_.gaps_cut |= counted;
    if (observer_ && slot.gaps.size() < LoadRecord::kMostGaps) slot.gaps.push_back(gap);
  }
  slot.previous_ns = now;
}

void LoadRun::Take(LoadRequest& request, const CompletionChunk& chunk) const {
  if (chunk.prompt_tokens) request.prompt_tokens = chunk.prompt_tokens;
  if (chunk.cached_tokens) request.cached_tokens = chunk.cached_tokens;
  if (chunk.completion_tokens) request.completion_tokens = chunk.completion_tokens;
}

// Returns the kind of error under which the answer is counted; empty for a good answer.
std::string LoadRun::FailureOf(Slot& slot, HttpReply& reply, std::string& detail) const {
  if (reply.failure != HttpFailure::kNone) {
    detail = reply.body.empty() ? reply.detail : reply.body.substr(0, kMostDetail);
    if (const auto answer = ReadCompletionChunk(reply.body); answer && !answer->error.empty())
      detail = answer->error;
    return reply.status ? "HTTP " + std::to_string(reply.status)
                        : std::string(HttpFailureName(reply.failure));
  }
  if (!plan_.stream) {
    const auto answer = ReadCompletionChunk(reply.body);
    if (!answer) slot.broken = "the response is not JSON: " + reply.body.substr(0, kMostDetail);
    else if (!answer->error.empty()) slot.broken = answer->error;
    else Take(slot.request, *answer);
    slot.ended = true;
  }
  detail = slot.broken;
  if (!slot.broken.empty()) return "error in the answer";
  if (!slot.ended) return "no end mark";
  if (plan_.stream && slot.request.chunks == 0) return "no tokens";
  return {};
}

void LoadRun::OnReply(Slot& slot, HttpReply& reply) {
  LoadRequest& request = slot.request;
  request.done_ns = Now();
  std::string detail;
  request.error = FailureOf(slot, reply, detail);
  request.outcome = request.error.empty() ? LoadRequest::Outcome::kOk : LoadRequest::Outcome::kError;
  slot.busy = false;
  Keep(slot, detail);
  free_.push_back(&slot);
  if (plan_.rate == 0) return BeginNext();
  if (!waiting_.empty() && !stopping_) {
    const int64_t due = waiting_.front();
    waiting_.pop_front();
    free_.pop_back();
    return Send(slot, due);
  }
  EndIfDone();
}

void LoadRun::Keep(Slot& slot, const std::string& detail) {
  LoadRequest& request = slot.request;
  if (request.outcome == LoadRequest::Outcome::kError) {
    ++errors_;
    LoadRecord::Error& error = record_.errors[request.error];
    if (error.count++ == 0) error.detail = detail;
  }
  if (observer_) observer_->OnEnded(request, slot.gaps);
  output_tokens_ += request.completion_tokens.value_or(request.chunks);
  record_.requests.push_back(std::move(request));
}

void LoadRun::Stop() {
  if (ended_ || stopping_) return;
  stopping_ = record_.stopped = true;
  loop_.Cancel(std::exchange(timer_, 0));
  waiting_.clear();
  for (const auto& slot : slots_) {
    slot->channel.reset();
    if (!slot->busy) continue;
    slot->busy = false;
    slot->request.done_ns = Now();
    slot->request.outcome = LoadRequest::Outcome::kCancelled;
    Keep(*slot, {});
    free_.push_back(slot.get());
  }
  EndIfDone();
}

void LoadRun::EndIfDone() {
  const bool idle = free_.size() == slots_.size() && waiting_.empty() && timer_ == 0;
  if (ended_ || !idle || MayBegin()) return;
  ended_ = true;
  done_();
}

LoadProgress LoadRun::progress() const noexcept {
  return {.ended = record_.requests.size(),
          .in_flight = slots_.size() - free_.size(),
          .errors = errors_,
          .output_tokens = output_tokens_,
          .elapsed_seconds = static_cast<double>(Now()) * 1e-9,
          .first_token_seconds = newest_first_};
}

namespace {

constexpr double kSeconds = 1e-9;
// The rate is taken over steps of this many requests, or of those in flight if they are more.
constexpr size_t kLeastStep = 10;
// Steady: three steps within 5 % of each other, twice in a row, after one step that fills the batch.
constexpr SteadyStateOptions kSteady{.warmup = 1, .window = 3, .consecutive = 2, .cv_below = 0.05};

uint64_t TokensOf(const LoadRequest& request) noexcept {
  return request.completion_tokens.value_or(request.chunks);
}

double FirstToken(const LoadRequest& request) noexcept {
  return request.first_ns ? static_cast<double>(request.first_ns - request.due_ns) * kSeconds : kNotMeasured;
}
double EndToEnd(const LoadRequest& request) noexcept {
  return static_cast<double>(request.done_ns - request.due_ns) * kSeconds;
}
double PerToken(const LoadRequest& request) noexcept {
  const uint64_t tokens = TokensOf(request);
  if (!request.first_ns || tokens < 2) return kNotMeasured;
  return static_cast<double>(request.last_ns - request.first_ns) * kSeconds / static_cast<double>(tokens - 1);
}

// An unknown value does not meet a limit.
bool Meets(std::optional<double> target, double value) noexcept { return !target || value <= *target; }
bool IsGood(const LoadRequest& request, const LoadTargets& targets) noexcept {
  // One token has no time between tokens.
  const bool itl = TokensOf(request) < 2 || Meets(targets.itl, PerToken(request));
  return request.outcome == LoadRequest::Outcome::kOk && Meets(targets.ttft, FirstToken(request)) && itl &&
         Meets(targets.e2e, EndToEnd(request));
}

struct Samples {
  std::vector<double> ttft, e2e, tpot, late;
};

void CountTokens(LoadSummary& out, const LoadRequest& request) {
  out.completion_tokens += TokensOf(request);
  out.prompt_tokens_known |= request.prompt_tokens.has_value();
  out.prompt_tokens += request.prompt_tokens.value_or(0);
  out.cached_tokens_known |= request.cached_tokens.has_value();
  out.cached_tokens += request.cached_tokens.value_or(0);
  if (!request.completion_tokens) {
    ++out.without_usage;
  } else if (request.first_ns) {
    out.chunks += request.chunks;
    out.tokens_of_chunks += *request.completion_tokens;
  }
}

void Count(LoadSummary& out, Samples& samples, const LoadRequest& request) {
  samples.late.push_back(static_cast<double>(request.sent_ns - request.due_ns) * kSeconds);
  switch (request.outcome) {
    case LoadRequest::Outcome::kError: ++out.errors; return;
    case LoadRequest::Outcome::kCancelled: ++out.cancelled; return;
    case LoadRequest::Outcome::kOk: break;
  }
  ++out.ok;
  CountTokens(out, request);
  samples.ttft.push_back(FirstToken(request));
  samples.e2e.push_back(EndToEnd(request));
  samples.tpot.push_back(PerToken(request));
}

// `ended` are the answered requests in the order of their ends.
std::optional<uint64_t> SteadySince(const std::vector<const LoadRequest*>& ended, size_t step) {
  SteadyStateDetector detector(kSteady);
  for (size_t at = step; at <= ended.size(); at += step) {
    const int64_t from = at == step ? ended.front()->due_ns : ended[at - step - 1]->done_ns;
    uint64_t tokens = 0;
    for (size_t i = at - step; i < at; ++i) tokens += TokensOf(*ended[i]);
    const double seconds = static_cast<double>(ended[at - 1]->done_ns - from) * kSeconds;
    if (detector.Record(static_cast<double>(tokens) / seconds)) return at;
  }
  return {};
}

}  // namespace

LoadSummary Summarize(const LoadRecord& record, uint64_t warmup, uint32_t concurrency,
                      const LoadTargets& targets) {
  LoadSummary out;
  Samples samples;
  std::vector<const LoadRequest*> answered;
  uint64_t good = 0;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const LoadRequest& request : record.requests) {
    if (request.number < warmup) continue;
    Count(out, samples, request);
    good += IsGood(request, targets) ? 1 : 0;
    first = std::min(first, request.due_ns);
    last = std::max(last, request.done_ns);
    if (request.outcome == LoadRequest::Outcome::kOk) answered.push_back(&request);
  }
  out.ttft = Describe(samples.ttft);
  out.e2e = Describe(samples.e2e);
  out.tpot = Describe(samples.tpot);
  out.late = Describe(samples.late);
  out.itl = Describe(record.gap_seconds);
  const size_t step = std::max<size_t>(kLeastStep, concurrency);
  out.steady_since = SteadySince(answered, step);
  out.steady_validated = answered.size() / step >= kSteady.warmup + kSteady.window + kSteady.consecutive - 1;
  if (last <= first) return out;
  out.begin_ns = first;
  out.end_ns = last;
  out.elapsed_seconds = static_cast<double>(last - first) * kSeconds;
  const auto rate = [&](uint64_t n) { return static_cast<double>(n) / out.elapsed_seconds; };
  out.requests_per_second = rate(out.ok);
  out.output_tokens_per_second = rate(out.completion_tokens);
  if (out.prompt_tokens_known) out.total_tokens_per_second = rate(out.completion_tokens + out.prompt_tokens);
  if (targets.any()) {
    out.good_ratio = static_cast<double>(good) / static_cast<double>(out.ok + out.errors + out.cancelled);
    out.good_per_second = rate(good);
  }
  return out;
}

}  // namespace gpulens
