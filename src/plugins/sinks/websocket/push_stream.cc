#include "plugins/sinks/websocket/push_stream.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "base/log.h"
#include "base/result.h"
#include "catalog/gpu.h"
#include "catalog/phases.h"
#include "catalog/self.h"
#include "net/blocking/listening_socket.h"
#include "plugins/latest_snapshot.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// Collectors that read the processes of GPUs.
constexpr std::string_view kGpuCollector = "nvidia";
constexpr std::string_view kLatencies[] = {"cuda_latency_p50_us", "cuda_latency_p99_us",
                                           "nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms",
                                           "dataloader_wait_p50_ms"};
using Latencies = std::array<double, std::size(kLatencies)>;

void AppendProcess(std::string& out, const std::string& key, int64_t current, int64_t peak) {
  out += "{\"key\":\"" + key + "\",\"current_bytes\":";
  AppendJsonInt(out, current);
  out += ",\"peak_bytes\":";
  AppendJsonInt(out, peak);
  out += '}';
}

// Statistics of all streams of this process over time.
ServerStats& ProcessStats() {
  static ServerStats stats;
  return stats;
}

void Add(std::atomic<uint64_t>& to, uint64_t& seen, const std::atomic<uint64_t>& from) noexcept {
  uint64_t now = from.load(std::memory_order_relaxed);
  to.fetch_add(now - seen, std::memory_order_relaxed);
  seen = now;
}

bool HasIpv6Loopback() {
  auto at = ParseIp("::1");
  return at && OpenListeningSocket(*at).ok();
}

}  // namespace

PushFrame::PushFrame()
    : launches_(kRecentAllLaunches, {}),
      waits_(kRecentAllDataWaits, {}),
      collectives_(kRecentCollectives, "nccl.collective.type"),
      memory_(kGpuProcessMemoryUsed, kGpuProcessMemoryPeak),
      collector_up_(kSelfCollectorUp) {}

bool PushFrame::GpusAreRead(const Snapshot& snapshot) {
  bool up = false;
  collector_up_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
    up |= value == 1 && info.attributes.Text("collector") == kGpuCollector;
  });
  return up;
}

std::string PushFrame::Make(const Snapshot* snapshot) {
  std::string out = "{\"gpu_utilization\":[";
  bool any = false;
  if (snapshot) {
    for (const auto& [key, bytes] : memory_.Of(*snapshot)) {
      if (!bytes.current) continue;
      if (any) out += ',';
      any = true;
      // The peak so far is at least the current use.
      AppendProcess(out, key, *bytes.current, std::max(*bytes.current, bytes.peak.value_or(0)));
    }
  }
  out += ']';
  Latencies latencies;
  latencies.fill(std::numeric_limits<double>::quiet_NaN());
  if (snapshot) {
    if (const auto all = launches_.Of(*snapshot); !all.empty()) {
      latencies[0] = all.begin()->second.p50 * 1e6;
      latencies[1] = all.begin()->second.p99 * 1e6;
    }
    const auto by_operation = collectives_.Of(*snapshot);
    if (auto at = by_operation.find("all_reduce"); at != by_operation.end()) {
      latencies[2] = at->second.p50 * 1e3;
      latencies[3] = at->second.p99 * 1e3;
    }
    if (const auto all = waits_.Of(*snapshot); !all.empty()) latencies[4] = all.begin()->second.p50 * 1e3;
  }
  for (size_t i = 0; i < latencies.size(); ++i) {
    out.append(",\"").append(kLatencies[i]).append("\":");
    if (std::isfinite(latencies[i]) && latencies[i] != 0) AppendJsonNumber(out, latencies[i]);
    else out += "0.0";
  }
  out += ",\"last_update_ms\":";
  AppendJsonInt(out, snapshot ? snapshot->closed_at.unix_ns / 1'000'000 : 0);
  out += ",\"valid\":{\"gpu_utilization\":";
  out += any || (snapshot && GpusAreRead(*snapshot)) ? "true" : "false";
  for (size_t i = 0; i < latencies.size(); ++i) {
    out.append(",\"").append(kLatencies[i]).append("\":");
    out += std::isfinite(latencies[i]) ? "true" : "false";
  }
  out += ",\"last_update_ms\":";
  out += snapshot ? "true}}" : "false}}";
  return out;
}

StatsMirror::~StatsMirror() { to_.connections.fetch_sub(seen_.connections, std::memory_order_relaxed); }

void StatsMirror::Update(const ServerStats& from) noexcept {
  Add(to_.connections, seen_.connections, from.connections);
  Add(to_.accepted, seen_.accepted, from.accepted);
  Add(to_.bytes_sent, seen_.bytes_sent, from.bytes_sent);
  for (size_t i = 0; i < std::size(seen_.answers); ++i)
    Add(to_.answers[i], seen_.answers[i], from.answers[i]);
  for (size_t i = 0; i < kRefusals; ++i) Add(to_.refused[i], seen_.refused[i], from.refused[i]);
}

// Ticks that have not come for so many of their periods have stopped.
constexpr int kTicksMissed = 3;

Duration PushPace::period(Instant now) const noexcept {
  return ticked_ && now - ticked_at_ < period_ * kTicksMissed ? period_ : Duration{};
}

bool PushPace::Ticked(Instant now) noexcept {
  period_ = ticked_ ? now - ticked_at_ : Duration{};
  ticked_at_ = now;
  ticked_ = true;
  const Duration nearest = period_ == Duration{} ? interval_ : std::min(interval_, period_);
  // The tick nearest to the end of the interval.
  return now - pushed_at_ >= interval_ - nearest / 2;
}

Instant PushPace::due() const noexcept {
  const Instant due = pushed_at_ + interval_;
  const Duration period = this->period(pushed_at_);
  if (period == Duration{}) return due;
  // A tick that is expected near the end of the interval is waited for.
  const Duration nearest = std::min(interval_, period);
  const int64_t ticks = std::max<int64_t>(1, (due - ticked_at_ + period / 2) / period);
  const Instant expected = ticked_at_ + period * ticks;
  return std::chrono::abs(expected - due) <= nearest / 2 ? expected + nearest / 2 : due;
}

// The part on the I/O loop: the frame of the latest tick, and the timer that sends it when no tick closes.
class PushStream::Loop {
 public:
  Loop(Env& env, Duration interval) : io_(*env.io), env_(env), mirror_(ProcessStats()), pace_(interval) {}

  SharedBytes Current() {
    Ref<const Snapshot> snapshot = env_.latest->latest();
    if (!text_.owner || (snapshot && (!known_ || made_for_ != snapshot->tick))) {
      text_ = SharedBytes(frame_.Make(snapshot.get()));
      known_ = static_cast<bool>(snapshot);
      made_for_ = snapshot ? snapshot->tick : 0;
    }
    return text_;
  }

  void Start(WebSocketServer& server) {
    server_ = &server;
    {
      std::lock_guard lock(mutex_);
      pace_.Start(env_.clock->Now());
    }
    Arm();
  }
  void Stop() {
    io_.Cancel(timer_);
    if (server_) mirror_.Update(server_->stats());
    server_ = nullptr;
  }
  // Returns whether a frame is to be sent with the closed tick; it then counts as sent. Any thread.
  bool Ticked() {
    const Instant now = env_.clock->Now();
    std::lock_guard lock(mutex_);
    if (!pace_.Ticked(now)) return false;
    pace_.Pushed(now);
    return true;
  }
  void Send() {
    if (server_) server_->Broadcast(Current());
  }

 private:
  void Arm() {
    std::unique_lock lock(mutex_);
    const Duration left = pace_.due() - env_.clock->Now();
    lock.unlock();
    timer_ = io_.After(std::max<Duration>(left, Duration(0)), [this] { Look(); });
  }
  // Sends a frame when no tick has closed in time.
  void Look() {
    mirror_.Update(server_->stats());
    const Instant now = env_.clock->Now();
    std::unique_lock lock(mutex_);
    const bool due = pace_.due() - now <= Duration(0);
    if (due) pace_.Pushed(now);
    lock.unlock();
    if (due && server_->clients() != 0) Send();
    Arm();
  }

  IoLoop& io_;
  Env& env_;
  PushFrame frame_;
  SharedBytes text_;
  bool known_ = false;
  uint64_t made_for_ = 0;
  WebSocketServer* server_ = nullptr;
  IoLoop::TimerId timer_ = 0;
  StatsMirror mirror_;
  std::mutex mutex_;  // guards pace_
  PushPace pace_;
};

PushStream::PushStream(const Options& options, Env& env)
    : io_(*env.io), loop_(std::make_shared<Loop>(env, options.interval)) {
  WebSocketServer::Options server;
  server.authenticator = env.authenticator;
  server.allowed_origins = options.allowed_origins;
  server_ =
      std::make_unique<WebSocketServer>(io_, [loop = loop_] { return loop->Current(); }, std::move(server));
}

Result<std::unique_ptr<PushStream>> PushStream::Open(const Options& options, Env& env) {
  std::unique_ptr<PushStream> stream(new PushStream(options, env));
  for (const std::string& text : options.listen) {
    ASSIGN_OR_RETURN(Endpoint at, ParseListenAddress(text));
    bool ipv6_loopback = at.family == Endpoint::Family::kIpv6 && at.IsLoopback();
    if (ipv6_loopback && options.listen.size() > 1 && !HasIpv6Loopback()) {
      Log(LogLevel::kInfo, "websocket", "no_ipv6",
          "this machine has no IPv6 loopback: " + text + " is left out");
      continue;
    }
    RETURN_IF_ERROR(stream->Listen(at));
  }
  stream->io_.Call([&] { stream->loop_->Start(*stream->server_); });
  if (env.stats) env.stats->websocket = &ProcessStats();
  return stream;
}

Status PushStream::Listen(const Endpoint& at) {
  ASSIGN_OR_RETURN(std::shared_ptr<SharedSocket> socket, SharedSocket::Get(at));
  ASSIGN_OR_RETURN(UniqueFd copy, socket->Copy());
  RETURN_IF_ERROR(server_->Listen(std::move(copy)).status());
  sockets_.push_back(std::move(socket));
  return Ok();
}

void PushStream::Ticked() {
  if (!loop_->Ticked() || server_->clients() == 0) return;
  // The loop no longer refers to this when the destructor returns.
  io_.Post([loop = loop_.get()] { loop->Send(); });
}

PushStream::~PushStream() {
  io_.Call([&] {
    loop_->Stop();
    server_ = nullptr;
  });
}

void PushStream::Close(Duration timeout) {
  struct Gone {
    std::mutex mutex;
    std::condition_variable wake;
    bool all = false;
  };
  auto gone = std::make_shared<Gone>();
  // Refuse connections, as none is accepted any more.
  sockets_.clear();
  io_.Call([&] { loop_->Stop(); });
  server_->Shutdown(timeout, [gone] {
    std::lock_guard lock(gone->mutex);
    gone->all = true;
    gone->wake.notify_all();
  });
  if (io_.InLoop()) return;
  std::unique_lock lock(gone->mutex);
  gone->wake.wait_for(lock, timeout, [&] { return gone->all; });
}

namespace {

// Maximum wait for the clients' close frames.
constexpr Duration kGoodbye = std::chrono::seconds(1);

constexpr OptionSpec kOptions[] = {
    TextsOption("listen", R"(["127.0.0.1:9092", "[::1]:9092"])", "Where the WebSocket stream is served."),
    TimeOption("push_interval", "1s",
               "How often a frame is sent to each client, with the tick that has just closed.", 0.01, 86400),
    TextsOption("allowed_origins", "[]",
                "Web pages elsewhere that may connect, as https://grafana.example.org; * allows all."),
};
using Options = OptionsOf<kOptions>;

// Clients get the frame of the latest tick from Env::latest; Write only signals a new tick.
class WebSocketSink final : public Sink {
 public:
  WebSocketSink(std::unique_ptr<PushStream> stream, const Clock& clock)
      : stream_(std::move(stream)), clock_(clock) {}
  Status Write(const Snapshot&) override {
    stream_->Ticked();
    return Ok();
  }
  Status Flush(Instant deadline) override {
    stream_->Close(std::clamp<Duration>(deadline - clock_.Now(), Duration(0), kGoodbye));
    return Ok();
  }

 private:
  const std::unique_ptr<PushStream> stream_;
  const Clock& clock_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.io || !env.latest)
    return Status{Code::kInvalidArgument, "the websocket sink needs the agent's I/O loop"};
  const Options options(config);
  ASSIGN_OR_RETURN(auto stream, PushStream::Open({.listen = options.Texts("listen"),
                                                  .allowed_origins = options.Texts("allowed_origins"),
                                                  .interval = options.Time("push_interval")},
                                                 env));
  return std::unique_ptr<Sink>(std::make_unique<WebSocketSink>(std::move(stream), *env.clock));
}

}  // namespace

extern const SinkSpec websocket_sink;
const SinkSpec websocket_sink{
    .name = "websocket",
    .help = "A WebSocket stream that sends the latest state at every push interval.",
    .on_by_default = true,
    .options = kOptions,
    .create = &Create,
    .root_key = "websocket"};

}  // namespace gpulens
