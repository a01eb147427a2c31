#include "proxy/admission/rate_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

namespace gpulens::proxy {
namespace {

constexpr int64_t kMsNs = 1'000'000, kSecNs = 1'000'000'000;

__extension__ using RateWide = __int128;

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

std::string Rfc3339Seconds(int64_t unix_ns) {
  const std::chrono::sys_seconds at{std::chrono::seconds((unix_ns + kSecNs - 1) / kSecNs)};
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(midnight);
  const auto second = static_cast<int>((at - midnight).count());
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), second / 3600,
                    second / 60 % 60, second % 60);
  return {text, static_cast<size_t>(size)};
}

}  // namespace

int64_t Gcra::CostNs(int64_t units) const noexcept {
  // Towards 0 in both directions: what is given back is what was used, and all of the limit fits into a
  // minute.
  return std::clamp(units, -kMostUnits, kMostUnits) * kMinuteNs / limit_;
}

int64_t Gcra::WaitNs(int64_t units, int64_t now_ns) const noexcept {
  if (limit_ == 0 || units <= 0) return 0;
  if (units > limit_) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(std::max(full_at_ns_, now_ns) + CostNs(units) - kMinuteNs - now_ns, 0);
}

void Gcra::Use(int64_t units, int64_t now_ns) noexcept {
  if (limit_ == 0) return;
  full_at_ns_ = std::max(full_at_ns_, now_ns) + CostNs(units);
}

int64_t Gcra::Remaining(int64_t now_ns) const noexcept {
  if (limit_ == 0) return 0;
  const int64_t free_ns = std::max<int64_t>(kMinuteNs - ResetNs(now_ns), 0);
  return static_cast<int64_t>(RateWide{free_ns} * limit_ / kMinuteNs);
}

int64_t Gcra::ResetNs(int64_t now_ns) const noexcept { return std::max<int64_t>(full_at_ns_ - now_ns, 0); }

RateUse::RateUse(RateUse&& other) noexcept
    : rates_(std::move(other.rates_)), tokens_(other.tokens_), at_ns_(other.at_ns_), stream_(other.stream_) {}

RateUse& RateUse::operator=(RateUse&& other) noexcept {
  if (this == &other) return *this;
  End();
  rates_ = std::move(other.rates_);
  tokens_ = other.tokens_;
  at_ns_ = other.at_ns_;
  stream_ = other.stream_;
  return *this;
}

void RateUse::Settle(int64_t actual_tokens, Instant now) noexcept {
  if (!rates_) return;
  {
    const std::lock_guard lock(rates_->mutex_);
    rates_->tokens_.Use(std::max<int64_t>(actual_tokens, 0) - tokens_, now.boot_ns);
    if (stream_) --rates_->streams_;
  }
  rates_ = {};
}

void RateUse::Undo(Instant now) noexcept {
  if (!rates_) return;
  {
    const std::lock_guard lock(rates_->mutex_);
    rates_->requests_.Use(-1, now.boot_ns);
  }
  Settle(0, now);
}

void RateUse::End() noexcept { Settle(0, {.boot_ns = at_ns_, .unix_ns = 0}); }

void KeyRates::SetLimits(int64_t requests, int64_t tokens, int64_t streams) noexcept {
  const std::lock_guard lock(mutex_);
  requests_.SetLimit(requests);
  tokens_.SetLimit(tokens);
  most_streams_ = streams;
}

KeyRates::Admitted KeyRates::Admit(int64_t tokens, bool stream, Instant now) {
  Admitted out;
  const int64_t counted = std::clamp<int64_t>(tokens, 0, Gcra::kMostUnits);
  const std::lock_guard lock(mutex_);
  if (stream && most_streams_ != 0 && streams_ >= most_streams_) {
    out.answer = RateAnswer::kStreams;
    return out;
  }
  if ((out.wait_ns = requests_.WaitNs(1, now.boot_ns)) > 0) {
    out.answer = RateAnswer::kRequests;
    return out;
  }
  if ((out.wait_ns = tokens_.WaitNs(counted, now.boot_ns)) > 0) {
    const bool never = out.wait_ns == std::numeric_limits<int64_t>::max();
    out.answer = never ? RateAnswer::kTooLarge : RateAnswer::kTokens;
    return out;
  }
  requests_.Use(1, now.boot_ns);
  tokens_.Use(counted, now.boot_ns);
  if (stream) ++streams_;
  out.use.rates_ = Ref<KeyRates>(this);
  out.use.tokens_ = counted;
  out.use.at_ns_ = now.boot_ns;
  out.use.stream_ = stream;
  return out;
}

RateView KeyRates::View(Instant now) const {
  const std::lock_guard lock(mutex_);
  const auto view = [&](const Gcra& rate) {
    return RateView::Rate{rate.limit(), rate.Remaining(now.boot_ns), rate.ResetNs(now.boot_ns)};
  };
  return {view(requests_), view(tokens_)};
}

int64_t KeyRates::open_streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

void AppendRateHeaders(std::string& out, RateHeaders names, const RateView& view, int64_t now_unix_ns) {
  const auto rate = [&](std::string_view what, const RateView::Rate& of) {
    if (of.limit == 0) return;
    const std::string limit = std::to_string(of.limit), remaining = std::to_string(of.remaining);
    if (names == RateHeaders::kOpenAi) {
      AppendHeader(out, "x-ratelimit-limit-" + std::string(what), limit);
      AppendHeader(out, "x-ratelimit-remaining-" + std::string(what), remaining);
      AppendHeader(out, "x-ratelimit-reset-" + std::string(what), RateResetText(of.reset_ns));
    } else {
      const std::string prefix = "anthropic-ratelimit-" + std::string(what);
      AppendHeader(out, prefix + "-limit", limit);
      AppendHeader(out, prefix + "-remaining", remaining);
      AppendHeader(out, prefix + "-reset", Rfc3339Seconds(now_unix_ns + of.reset_ns));
    }
  };
  rate("requests", view.requests);
  rate("tokens", view.tokens);
}

std::string RateResetText(int64_t ns) {
  if (ns <= 0) return "0s";
  if (ns <= kSecNs - kMsNs) return std::to_string((ns + kMsNs - 1) / kMsNs) + "ms";
  const int64_t seconds = ns / kSecNs + (ns % kSecNs != 0 ? 1 : 0);
  std::string out;
  if (seconds >= 3600) out += std::to_string(seconds / 3600) + "h";
  if (seconds >= 60) out += std::to_string(seconds / 60 % 60) + "m";
  return out + std::to_string(seconds % 60) + "s";
}

int64_t RetryAfterSeconds(int64_t wait_ns) noexcept {
  return std::max<int64_t>(wait_ns / kSecNs + (wait_ns % kSecNs > 0 ? 1 : 0), 1);
}

}  // namespace gpulens::proxy
