#include "sources/bpf/governor.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace gpulens::bpf {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(250);
constexpr Duration kForget = std::chrono::hours(1);
constexpr int kOverSteps = 2;  // a single interval may be late
constexpr int kFitSteps = 20;  // before more is measured again
constexpr double kCalm = 0.5;  // of the budget, for more

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

uint64_t Grown(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

std::string PercentText(double share) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.2f %%", share * 100);
  return text.data();
}

std::string RateText(double rate) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.0f calls/s", rate);
  return text.data();
}

}  // namespace

std::string_view ProbeStateName(ProbeState state) noexcept {
  switch (state) {
    case ProbeState::kTimed: return "timed";
    case ProbeState::kCounted: return "counted";
    case ProbeState::kWindow: return "window";
    case ProbeState::kPaused: return "paused";
    case ProbeState::kDetached: return "detached";
    case ProbeState::kGivenUp: return "given_up";
  }
  return "unknown";
}

Governor::Rates Governor::RatesOf(Target& target, const TargetLoad& load, Instant now) {
  Rates out;
  const double seconds = Seconds(now - target.stepped);
  const bool usable = !target.fresh && seconds > 0;
  if (usable) {
    out.events = static_cast<double>(Grown(load.events, target.totals.events)) / seconds;
    out.timed = static_cast<double>(Grown(load.timed_events, target.totals.timed)) / seconds;
  }
  std::map<ProcessId, Totals> present;
  for (const ProcessLoad& process : load.processes) {
    const ProcessId id{process.pid, process.start_boot_ns};
    const auto before = target.processes.find(id);
    const Totals old = before == target.processes.end() ? Totals{} : before->second;
    const double rate = usable ? static_cast<double>(Grown(process.events, old.events)) / seconds : 0;
    if (rate > out.hottest) {
      out.hottest = rate;
      out.hottest_timed = static_cast<double>(Grown(process.timed_events, old.timed)) / seconds;
    }
    present[id] = {process.events, process.timed_events};
  }
  target.processes = std::move(present);
  target.totals = {load.events, load.timed_events};
  target.stepped = now;
  target.fresh = false;
  return out;
}

bool Governor::Fits(const TargetLoad& load, const Rates& rates, double timed_share, double time_share,
                    double budget_share) const {
  const double each = load.count_ns + timed_share * std::max(0.0, load.timed_ns - load.count_ns);
  return rates.hottest * each * 1e-9 * time_share <= options_.thread_budget * budget_share &&
         rates.events * each * 1e-9 * time_share <= options_.host_budget * budget_share;
}

int64_t Governor::Sampling(const TargetLoad& load, const Rates& rates, uint32_t from,
                           double budget_share) const {
  for (uint32_t sampling = std::max(1u, from); sampling <= options_.most_sampling; sampling *= 4) {
    if (Fits(load, rates, 1.0 / sampling, 1, budget_share)) return sampling;
  }
  return Fits(load, rates, 0, 1, budget_share) ? 0 : -1;
}

void Governor::Set(Target& target, ProbeState state, uint32_t sampling, std::string reason) {
  Decision& decision = target.decision;
  decision.state = state, decision.sampling = sampling, decision.reason = std::move(reason);
  decision.attached =
      state == ProbeState::kTimed || state == ProbeState::kCounted || state == ProbeState::kWindow;
  if (state != ProbeState::kTimed && state != ProbeState::kCounted) decision.exact = false;
  target.over = target.fits = 0;
  changed_.push_back(decision.target);
}

void Governor::Detach(Target& target, Instant now, const std::string& why) {
  ++target.strikes;
  if (target.strikes >= options_.most_strikes) {
    Set(target, ProbeState::kGivenUp, 0,
        why + "; this was so " + std::to_string(target.strikes) + " times: left alone");
    return;
  }
  target.back_off = target.back_off.count() == 0 ? options_.first_back_off
                                                 : std::min(target.back_off * 2, options_.most_back_off);
  target.until = now + target.back_off;
  Set(target, ProbeState::kDetached, 0,
      why + "; tried again in " + std::to_string(static_cast<int64_t>(Seconds(target.back_off))) + " s");
}

void Governor::Reduce(Target& target, const TargetLoad& load, const Rates& rates, Instant now) {
  const double more = load.timed_ns - load.count_ns;
  const double thread = (rates.hottest * load.count_ns + rates.hottest_timed * more) * 1e-9;
  const double host = (rates.events * load.count_ns + rates.timed * more) * 1e-9;
  const std::string cause = thread > options_.thread_budget
                                ? RateText(rates.hottest) + " cost " + PercentText(thread) + " of a thread"
                                : RateText(rates.events) + " cost " + PercentText(host) + " of a CPU";
  const Decision& present = target.decision;
  const int64_t sampling = present.state == ProbeState::kCounted
                               ? (Fits(load, rates, 0, 1, 1) ? 0 : -1)
                               : Sampling(load, rates, std::max(1u, present.sampling) * 4, 1);
  if (sampling > 0) {
    Set(target, ProbeState::kTimed, static_cast<uint32_t>(sampling),
        cause + ": one call in " + std::to_string(sampling) + " is timed");
  } else if (sampling == 0 && present.state != ProbeState::kCounted) {
    Set(target, ProbeState::kCounted, 0, cause + ": calls are counted, not timed");
  } else if (options_.windows &&
             Fits(load, rates, 0, Seconds(options_.window) / Seconds(options_.window_period), 1)) {
    target.until = now + options_.window_period;
    Set(target, ProbeState::kPaused, 0, cause + ": measured in windows");
  } else {
    Detach(target, now, cause);
  }
}

void Governor::CloseWindow(Target& target, const TargetLoad& load, const Rates& rates, Instant now) {
  const int64_t sampling = Sampling(load, rates, 1, kCalm);
  if (sampling >= 0) {
    target.strikes = 0, target.back_off = {};
    Set(target, sampling > 0 ? ProbeState::kTimed : ProbeState::kCounted, static_cast<uint32_t>(sampling),
        RateText(rates.events) + " fit the budget again");
  } else if (options_.windows &&
             Fits(load, rates, 0, Seconds(options_.window) / Seconds(options_.window_period), 1)) {
    target.until = now + options_.window_period;
    Set(target, ProbeState::kPaused, 0, RateText(rates.events) + ": measured in windows");
  } else {
    Detach(target, now, RateText(rates.events) + " are over the budget also in windows");
  }
}

std::vector<Decision> Governor::Step(Instant now, const std::vector<TargetLoad>& loads) {
  changed_.clear();
  host_overhead_ = thread_overhead_ = 0;
  struct Seen {
    Target* target;
    const TargetLoad* load;
    Rates rates;
    double host;
  };
  std::vector<Seen> seen;
  for (const TargetLoad& load : loads) {
    const auto [at, fresh] = targets_.try_emplace(load.target);
    Target& target = at->second;
    if (fresh) target.decision.target = load.target;
    target.seen = now;
    const Rates rates = RatesOf(target, load, now);
    const double more = load.timed_ns - load.count_ns;
    const double host = (rates.events * load.count_ns + rates.timed * more) * 1e-9;
    host_overhead_ += host;
    thread_overhead_ =
        std::max(thread_overhead_, (rates.hottest * load.count_ns + rates.hottest_timed * more) * 1e-9);
    seen.push_back({&target, &load, rates, host});
  }
  // The dearest target gives way when all together are too dear.
  const auto dearest = std::ranges::max_element(seen, {}, &Seen::host);
  const Target* too_dear = host_overhead_ > options_.host_budget ? dearest->target : nullptr;
  for (const Seen& one : seen) {
    Target& target = *one.target;
    const TargetLoad& load = *one.load;
    switch (target.decision.state) {
      case ProbeState::kTimed:
      case ProbeState::kCounted: {
        const double thread =
            (one.rates.hottest * load.count_ns + one.rates.hottest_timed * (load.timed_ns - load.count_ns)) *
            1e-9;
        if (thread > options_.thread_budget || &target == too_dear) {
          target.fits = 0;
          if (++target.over >= kOverSteps) Reduce(target, load, one.rates, now);
          break;
        }
        target.over = 0;
        if (target.decision.state == ProbeState::kTimed && target.decision.sampling <= 1) break;
        const uint32_t more = target.decision.state == ProbeState::kCounted ? options_.most_sampling
                                                                            : target.decision.sampling / 4;
        if (!Fits(load, one.rates, 1.0 / more, 1, kCalm)) target.fits = 0;
        else if (++target.fits >= kFitSteps)
          Set(target, ProbeState::kTimed, std::max(1u, more),
              RateText(one.rates.events) + " leave room: more calls are timed");
        break;
      }
      case ProbeState::kWindow:
        if ((now - target.until).count() >= 0) CloseWindow(target, load, one.rates, now);
        break;
      case ProbeState::kPaused:
      case ProbeState::kDetached:
        if ((now - target.until).count() < 0) break;
        target.until = now + options_.window;
        Set(target, ProbeState::kWindow, 0,
            "a window of " + std::to_string(options_.window.count() / 1'000'000) + " ms");
        break;
      case ProbeState::kGivenUp: break;
    }
  }
  std::erase_if(targets_, [&](const auto& one) { return now - one.second.seen > kForget; });
  std::vector<Decision> out;
  for (const std::string& name : changed_) out.push_back(targets_.find(name)->second.decision);
  return out;
}

Duration Governor::Wait(Instant now) const noexcept {
  Duration out = kStep;
  for (const auto& [name, target] : targets_) {
    if (target.decision.state == ProbeState::kWindow)
      out = std::min(out, std::max(Duration(0), target.until - now));
  }
  return out;
}

const Decision* Governor::Of(std::string_view target) const noexcept {
  const auto found = targets_.find(target);
  return found == targets_.end() ? nullptr : &found->second.decision;
}

}  // namespace gpulens::bpf
