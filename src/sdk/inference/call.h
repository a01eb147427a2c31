// Clock of one call: time of the engine and of the consumer, time to the first tokens, gaps between tokens.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <gpulens/energy.h>
#include <gpulens/stats.h>

#include "base/clock.h"
#include "sdk/inference/record_ring.h"
#include "store/telemetry/rows.h"

namespace gpulens::inference {

// Used by one thread at a time.
class CallClock {
 public:
  // Maximum number of gaps kept for percentiles: of a longer answer every second one, then every fourth, and
  // so on.
  static constexpr size_t kMostGaps = 16'384;

  explicit CallClock(TimePoint now = Now()) noexcept : begin_(now) {}

  void Enter(TimePoint now = Now()) noexcept {
    waits_ = true;
    if (!inside_) entered_ = now;
    inside_ = true;
  }
  void Leave(TimePoint now = Now()) noexcept {
    if (inside_) engine_ += now - entered_;
    inside_ = false;
  }

  void AddTokens(int64_t count, TimePoint now = Now()) noexcept {
    const double at = EngineSeconds(now);
    ++arrivals_;
    if (tokens_ == 0) {
      first_ = at;
    } else {
      const double gap = std::max(at - last_, 0.0) / static_cast<double>(count);
      sum_ += gap * static_cast<double>(count), squares_ += gap * gap * static_cast<double>(count);
      min_ = std::fmin(min_, gap), max_ = std::fmax(max_, gap);
      gaps_ += count;
      Keep(gap, count);
    }
    last_ = at;
    tokens_ += count;
  }
  int64_t tokens() const noexcept { return tokens_; }

  void End(telemetry::RecordNumbers& n, TimePoint now = Now()) {
    Leave(now);
    n.latency_seconds = EngineSeconds(now);
    if (waits_) n.consumer_seconds = Seconds(now - begin_) - n.latency_seconds;
    n.is_streaming = arrivals_ > 1;
    if (tokens_ == 0) return;
    n.ttft = first_, n.completion_tokens = tokens_;
    if (gaps_ == 0) return;
    const Distribution kept = Describe(gaps_kept_);
    const double count = static_cast<double>(gaps_), mean = sum_ / count;
    n.itl_count = gaps_;
    n.mean_itl_ms = mean * 1e3, n.min_itl_ms = min_ * 1e3, n.max_itl_ms = max_ * 1e3;
    if (gaps_ > 1) n.std_itl_ms = std::sqrt(std::max(squares_ - sum_ * mean, 0.0) / (count - 1)) * 1e3;
    n.median_itl_ms = kept.p50 * 1e3, n.p90_itl_ms = kept.p90 * 1e3;
    n.p95_itl_ms = kept.p95 * 1e3, n.p99_itl_ms = kept.p99 * 1e3;
  }

 private:
  static TimePoint Now() noexcept { return std::chrono::steady_clock::now(); }
  static double Seconds(Duration time) noexcept { return std::chrono::duration<double>(time).count(); }
  // The time within Wait or, if it was never used, since the beginning.
  double EngineSeconds(TimePoint now) const noexcept {
    if (!waits_) return Seconds(now - begin_);
    return Seconds(engine_ + (inside_ ? now - entered_ : Duration::zero()));
  }
  void Keep(double gap, int64_t count) noexcept {
    try {
      // More gaps than this do not change the sample.
      for (int64_t i = 0; i < std::min<int64_t>(count, kMostGaps); ++i) {
        if (seen_++ % stride_ != 0) continue;
        gaps_kept_.push_back(gap);
        if (gaps_kept_.size() < kMostGaps) continue;
        for (size_t k = 0; 2 * k < gaps_kept_.size(); ++k) gaps_kept_[k] = gaps_kept_[2 * k];
        gaps_kept_.resize(gaps_kept_.size() / 2);
        stride_ *= 2;
      }
    } catch (...) {  // no memory: percentiles are those of the kept gaps
      return;
    }
  }

  TimePoint begin_, entered_{};
  Duration engine_{};
  bool waits_ = false, inside_ = false;
  int64_t tokens_ = 0, gaps_ = 0, arrivals_ = 0;
  double first_ = kNotMeasured, last_ = 0, sum_ = 0, squares_ = 0, min_ = kNotMeasured, max_ = kNotMeasured;
  uint64_t seen_ = 0, stride_ = 1;
  std::vector<double> gaps_kept_;
};

// Phases of a call's window. Energy is reported by phase only if the window has both marks.
inline constexpr std::string_view kPrefill = "prefill", kDecode = "decode";

// Returns a settler that fills in the energy of the ended window when the record is written, so that no
// caller waits for readings. Energy in the record takes precedence.
std::unique_ptr<RecordSettler> SettleEnergy(EnergyWindow window);

}  // namespace gpulens::inference
