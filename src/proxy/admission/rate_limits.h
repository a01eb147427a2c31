// Rate limits of a key: requests a minute, tokens a minute, streams at once; and the headers that report
// them.
//
// Rates are limited by GCRA: a full minute's allowance may be used at once, and it comes back evenly. They
// are of this process; replicas do not share them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/ref.h"

namespace gpulens::proxy {

// One rate. Not thread-safe. Times are of the boot clock, so that a jump of the wall clock changes nothing.
class Gcra {
 public:
  static constexpr int64_t kMinuteNs = 60'000'000'000;
  static constexpr int64_t kMostUnits = 100'000'000;  // of one call; more count as this

  // 0: no limit.
  void SetLimit(int64_t per_minute) noexcept { limit_ = per_minute; }
  int64_t limit() const noexcept { return limit_; }

  // 0: `units` fit. Otherwise the time until they do; INT64_MAX: never, as they are more than a minute's.
  int64_t WaitNs(int64_t units, int64_t now_ns) const noexcept;
  // Uses units, or with a negative number gives them back.
  void Use(int64_t units, int64_t now_ns) noexcept;
  // What is free now.
  int64_t Remaining(int64_t now_ns) const noexcept;
  // Until all of it is free.
  int64_t ResetNs(int64_t now_ns) const noexcept;

 private:
  // Of the time at which all is free again, so that errors of rounding are below 1 ns a call.
  int64_t CostNs(int64_t units) const noexcept;

  int64_t limit_ = 0;
  int64_t full_at_ns_ = 0;
};

enum class RateAnswer : uint8_t {
  kAdmitted,
  kRequests,  // of the minute are used
  kTokens,
  kStreams,   // too many at once
  kTooLarge,  // more tokens than a minute has
};

// A moment of the limits, for headers.
struct RateView {
  struct Rate {
    int64_t limit = 0;  // 0: none
    int64_t remaining = 0, reset_ns = 0;
  };
  Rate requests, tokens;
};

class KeyRates;

// What a request uses of its key's rates. Move-only. Without Settle its tokens are given back at destruction,
// its request is not; the stream ends with it in any case.
class RateUse {
 public:
  RateUse() noexcept = default;
  RateUse(RateUse&& other) noexcept;
  RateUse& operator=(RateUse&& other) noexcept;
  ~RateUse() { End(); }

  // The request used so many tokens and is over. Nothing happens the second time.
  void Settle(int64_t actual_tokens, Instant now) noexcept;
  // As if the request had not come: gives back the request, too.
  void Undo(Instant now) noexcept;

 private:
  friend class KeyRates;
  void End() noexcept;
  Ref<KeyRates> rates_;
  int64_t tokens_ = 0;
  int64_t at_ns_ = 0;  // of the reservation: when tokens are given back without another time
  bool stream_ = false;
};

// The limits of one key. Thread-safe.
class KeyRates : public RefCounted<KeyRates> {
 public:
  // 0: no limit. What is used stays.
  void SetLimits(int64_t requests, int64_t tokens, int64_t streams) noexcept;

  struct Admitted {
    RateAnswer answer = RateAnswer::kAdmitted;
    int64_t wait_ns = 0;  // kRequests and kTokens: until it may be tried again
    RateUse use;
  };
  // Reserves a request, `tokens` and, if `stream`, a stream, or nothing.
  Admitted Admit(int64_t tokens, bool stream, Instant now);

  RateView View(Instant now) const;
  int64_t open_streams() const;

 private:
  friend class RateUse;
  mutable std::mutex mutex_;
  Gcra requests_, tokens_;
  int64_t most_streams_ = 0, streams_ = 0;
};

enum class RateHeaders : uint8_t { kOpenAi, kAnthropic };
// Appends x-ratelimit-… or anthropic-ratelimit-… lines, each ending "\r\n", of the limits that exist.
void AppendRateHeaders(std::string& out, RateHeaders names, const RateView& view, int64_t now_unix_ns);
// "12ms", "7s", "1m3s", "2h0m0s": rounded up.
std::string RateResetText(int64_t ns);
// The value of Retry-After: whole seconds, rounded up, at least 1.
int64_t RetryAfterSeconds(int64_t wait_ns) noexcept;

}  // namespace gpulens::proxy
