#include "sources/nccl_ras/ras_client.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/parse.h"
#include "net/stream.h"
#include "sources/nccl_ras/ras_answer.h"

namespace gpulens::nccl_ras {
namespace {

constexpr size_t kLongestLine = 4096;       // of the greeting
constexpr size_t kLongestEvent = 64 << 10;  // and of what comes between events
constexpr Duration kLeastBetweenQueries = std::chrono::seconds(10);

}  // namespace

// One connection: the greeting, then `command`, whose answer goes to `on_bytes` until the server closes.
class RasClient::Exchange final : public StreamHandler {
 public:
  struct Events {
    std::function<void()> on_ready;                        // the command was accepted, or sent
    std::function<bool(std::string_view bytes)> on_bytes;  // false: ends the exchange
    std::function<void(Status status)> on_end;             // once; the exchange may be destroyed inside
  };

  Exchange(IoLoop& loop, std::string command, bool command_is_answered, Events events)
      : loop_(loop), events_(std::move(events)) {
    steps_ = {"CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", std::move(command)};
    answered_ = command_is_answered ? steps_.size() : steps_.size() - 1;
  }
  ~Exchange() { loop_.Cancel(timer_); }

  void Start(const Endpoint& at, Duration greeting_within, Duration answer_within) {
    answer_within_ = answer_within;
    timer_ = loop_.After(greeting_within, [this] { End({Code::kTimeout, "RAS does not answer"}); });
    auto stream = Stream::Connect(loop_, at);
    if (!stream) return Later(stream.error());
    stream_ = *std::move(stream);
    stream_.SetHandler(this);
    out_ = steps_[0] + "\n";
    stream_.WaitWritable();
  }

  void OnWritable() override { Flush(); }
  void OnReadable() override {
    std::array<char, 16 << 10> room;
    while (true) {
      const IoResult read = stream_.ReadSome(room);
      if (read.outcome == IoOutcome::kWouldBlock) return stream_.WaitReadable();
      if (read.outcome == IoOutcome::kClosed) {
        if (done_ >= steps_.size()) return End(Ok());
        return End({Code::kDataLoss, "RAS closed the connection during the greeting"});
      }
      if (read.outcome == IoOutcome::kFailed) return End({Code::kUnavailable, stream_.error()});
      if (!Take(std::string_view(room.data(), read.bytes))) return;
    }
  }

 private:
  // For what fails inside Start.
  void Later(Status status) {
    loop_.Cancel(timer_);
    timer_ = loop_.After(Duration{}, [this, status = std::move(status)] { End(status); });
  }
  void End(Status status) {
    if (std::exchange(ended_, true)) return;
    stream_.Close();
    const auto on_end = std::move(events_.on_end);
    on_end(std::move(status));  // `this` is gone
  }
  void Flush() {
    while (!out_.empty()) {
      const std::array<std::string_view, 1> pieces{out_};
      const IoResult written = stream_.WriteSome(pieces);
      if (written.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
      if (written.outcome != IoOutcome::kOk)
        return Later({Code::kUnavailable, "nothing of RAS listens: " + stream_.error()});
      out_.erase(0, written.bytes);
    }
    if (done_ >= answered_) Begin();
    stream_.WaitReadable();
  }
  // The command is sent or accepted: bytes that come now are its answer.
  void Begin() {
    done_ = steps_.size();
    loop_.Cancel(std::exchange(timer_, 0));
    if (answer_within_ > Duration{})
      timer_ =
          loop_.After(answer_within_, [this] { End({Code::kTimeout, "RAS does not finish its answer"}); });
    if (events_.on_ready) events_.on_ready();
  }
  // False: the exchange has ended, or is gone.
  bool Take(std::string_view bytes) {
    if (done_ < steps_.size()) {
      line_ += bytes;
      while (done_ < steps_.size()) {
        const size_t end = line_.find('\n');
        if (end == std::string::npos) {
          if (line_.size() <= kLongestLine) return true;
          return End({Code::kDataLoss, "it is no RAS: a line does not end"}), false;
        }
        const std::string line(Trim(std::string_view(line_).substr(0, end)));
        line_.erase(0, end + 1);
        if (Status status = CheckAnswer(line); !status) return End(std::move(status)), false;
        if (++done_ < steps_.size()) {
          out_ = steps_[done_] + "\n";
          const bool last = done_ >= answered_;
          Flush();
          if (last) break;
        } else {
          Begin();
        }
      }
      bytes = {};
      if (!line_.empty() && done_ >= steps_.size()) {
        const std::string rest = std::exchange(line_, {});
        if (!events_.on_bytes(rest)) return End({Code::kDataLoss, "the answer of RAS is too long"}), false;
      }
      return true;
    }
    if (!events_.on_bytes(bytes)) return End({Code::kDataLoss, "the answer of RAS is too long"}), false;
    return true;
  }
  Status CheckAnswer(const std::string& line) const {
    if (done_ == 0) {
      if (line.size() > 15 && EqualsIgnoringCase(std::string_view(line).substr(0, 15), "SERVER PROTOCOL"))
        return Ok();
      return {Code::kDataLoss, "it is no RAS"};
    }
    if (EqualsIgnoringCase(line, "OK")) return Ok();
    if (done_ == 2) return {Code::kUnavailable, "this RAS has no JSON: it needs NCCL 2.28.7"};
    return {Code::kUnavailable, "RAS refuses " + steps_[done_]};
  }

  IoLoop& loop_;
  Events events_;
  std::vector<std::string> steps_;
  size_t answered_ = 0;  // steps that have an answer line
  size_t done_ = 0;
  Duration answer_within_{};
  Stream stream_;
  IoLoop::TimerId timer_ = 0;
  std::string out_, line_;
  bool ended_ = false;
};

class RasClient::Impl : public std::enable_shared_from_this<RasClient::Impl> {
 public:
  Impl(IoLoop& loop, const Options& options)
      : loop_(loop), options_(options), watch_pause_(options.again_after) {}

  // On the loop.
  void Start() {
    Query();
    Watch();
  }
  void Stop() {
    stopped_ = true;
    query_.reset();
    watch_.reset();
    loop_.Cancel(query_timer_);
    loop_.Cancel(watch_timer_);
  }
  void QuerySoon() {
    if (stopped_ || query_) return;
    const Instant now = RealClock().Now();
    if (now - queried_ < kLeastBetweenQueries) return;
    loop_.Cancel(query_timer_);
    Query();
  }

  Taken Take() {
    std::lock_guard lock(mutex_);
    Taken taken{.report = std::exchange(report_, {}),
                .events = std::exchange(events_, {}),
                .dropped = dropped_,
                .status = status_,
                .watches = watches_};
    return taken;
  }

 private:
  void SetStatus(Status status) {
    std::lock_guard lock(mutex_);
    status_ = std::move(status);
  }

  void Query() {
    if (stopped_) return;
    queried_ = RealClock().Now();
    answer_.clear();
    query_ = std::make_unique<Exchange>(
        loop_, "VERBOSE STATUS", false,
        Exchange::Events{.on_ready = {},
                         .on_bytes =
                             [this](std::string_view bytes) {
                               if (answer_.size() + bytes.size() > kLongestReport) return false;
                               answer_ += bytes;
                               return true;
                             },
                         .on_end =
                             [this](Status status) {
                               // The exchange calls this: it is destroyed afterwards.
                               loop_.Post([self = shared_from_this(),
                                           gone = std::shared_ptr<Exchange>(std::move(query_))] {});
                               if (status) {
                                 std::lock_guard lock(mutex_);
                                 report_ = std::exchange(answer_, {});
                               }
                               SetStatus(std::move(status));
                               if (stopped_) return;
                               query_timer_ = loop_.After(options_.query_every, [self = weak_from_this()] {
                                 if (auto there = self.lock()) there->Query();
                               });
                             }});
    query_->Start(options_.at, options_.greeting_within, options_.answer_within);
  }

  void Watch() {
    if (stopped_) return;
    stream_.clear();
    watch_ = std::make_unique<Exchange>(
        loop_, "MONITOR", true,
        Exchange::Events{.on_ready =
                             [this] {
                               watch_pause_ = options_.again_after;
                               std::lock_guard lock(mutex_);
                               watches_ = true;
                             },
                         .on_bytes = [this](std::string_view bytes) { return TakeEvents(bytes); },
                         .on_end =
                             [this](const Status&) {
                               loop_.Post([self = shared_from_this(),
                                           gone = std::shared_ptr<Exchange>(std::move(watch_))] {});
                               {
                                 std::lock_guard lock(mutex_);
                                 watches_ = false;
                               }
                               if (stopped_) return;
                               watch_timer_ = loop_.After(watch_pause_, [self = weak_from_this()] {
                                 if (auto there = self.lock()) there->Watch();
                               });
                               watch_pause_ = std::min(2 * watch_pause_, options_.query_every);
                             }});
    // Events may not come for days.
    watch_->Start(options_.at, options_.greeting_within, Duration{});
  }

  bool TakeEvents(std::string_view bytes) {
    stream_ += bytes;
    while (true) {
      std::string event = TakeJsonObject(stream_);
      if (event.empty()) return stream_.size() <= kLongestEvent;
      std::lock_guard lock(mutex_);
      if (events_.size() < options_.events) events_.push_back(std::move(event));
      else ++dropped_;
    }
  }

  IoLoop& loop_;
  const Options options_;
  // Of the loop.
  bool stopped_ = false;
  std::unique_ptr<Exchange> query_, watch_;
  IoLoop::TimerId query_timer_ = 0, watch_timer_ = 0;
  Duration watch_pause_;
  Instant queried_;
  std::string answer_, stream_;

  std::mutex mutex_;  // guards what follows
  std::string report_;
  std::vector<std::string> events_;
  uint64_t dropped_ = 0;
  Status status_{Code::kUnavailable, "RAS was not queried yet"};
  bool watches_ = false;
};

RasClient::RasClient(IoLoop& loop, const Options& options) : impl_(std::make_shared<Impl>(loop, options)) {
  loop.Post([impl = impl_] { impl->Start(); });
  loop_ = &loop;
}
RasClient::~RasClient() {
  loop_->Call([this] { impl_->Stop(); });
}
RasClient::Taken RasClient::Take() { return impl_->Take(); }
void RasClient::QuerySoon() {
  loop_->Post([self = std::weak_ptr<Impl>(impl_)] {
    if (auto there = self.lock()) there->QuerySoon();
  });
}

}  // namespace gpulens::nccl_ras
