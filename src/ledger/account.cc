#include "ledger/account.h"

#include <array>

namespace gpulens::ledger {
namespace {

constexpr std::array<std::string_view, kEnergyStates> kEnergyStateNames = {"idle", "held", "active",
                                                                           "unattributed", "unobserved"};
constexpr std::array<std::string_view, kComputeStates> kComputeStateNames = {
    "unobserved", "unavailable", "unallocated", "allocated_unheld", "held_idle", "active_wasted", "useful"};
constexpr std::array<std::string_view, kCauses> kCauseNames = {"",
                                                               "hardware",
                                                               "maintenance",
                                                               "starting",
                                                               "crash_loop",
                                                               "forgotten",
                                                               "no_requests",
                                                               "input_wait",
                                                               "checkpoint",
                                                               "startup",
                                                               "collective_wait",
                                                               "interactive",
                                                               "unknown",
                                                               "throttle_power",
                                                               "throttle_thermal",
                                                               "preempt_recompute",
                                                               "spec_rejected",
                                                               "cancelled",
                                                               "lost_work"};
constexpr std::array<std::string_view, 4> kRequestClassNames = {"", "prefill", "decode", "engine_held"};
constexpr std::array<std::string_view, 5> kMethodNames = {"whole", "utilization", "memory", "mig_slice",
                                                          "equal"};

template <class Enum, size_t N>
std::string_view NameIn(const std::array<std::string_view, N>& names, Enum value) noexcept {
  const auto at = static_cast<size_t>(value);
  return at < N ? names[at] : std::string_view();
}

template <class Enum, size_t N>
bool ParseIn(const std::array<std::string_view, N>& names, std::string_view text, Enum& out) noexcept {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] != text) continue;
    out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

}  // namespace

std::string_view Name(EnergyState state) noexcept { return NameIn(kEnergyStateNames, state); }
std::string_view Name(ComputeState state) noexcept { return NameIn(kComputeStateNames, state); }
std::string_view Name(Cause cause) noexcept { return NameIn(kCauseNames, cause); }
std::string_view Name(RequestClass request_class) noexcept {
  return NameIn(kRequestClassNames, request_class);
}
std::string_view Name(Method method) noexcept { return NameIn(kMethodNames, method); }

bool Parse(std::string_view text, EnergyState& out) noexcept { return ParseIn(kEnergyStateNames, text, out); }
bool Parse(std::string_view text, ComputeState& out) noexcept {
  return ParseIn(kComputeStateNames, text, out);
}
bool Parse(std::string_view text, Cause& out) noexcept { return ParseIn(kCauseNames, text, out); }
bool Parse(std::string_view text, RequestClass& out) noexcept {
  return ParseIn(kRequestClassNames, text, out);
}
bool Parse(std::string_view text, Method& out) noexcept { return ParseIn(kMethodNames, text, out); }

Amounts& Amounts::operator+=(const Amounts& other) noexcept {
  energy_uj += other.energy_uj;
  time_ms += other.time_ms;
  cost_allocation_pico += other.cost_allocation_pico;
  cost_usage_pico += other.cost_usage_pico;
  priced_ms += other.priced_ms;
  electricity_pico += other.electricity_pico;
  carbon_ng += other.carbon_ng;
  carbon_known_uj += other.carbon_known_uj;
  unmetered_ms += other.unmetered_ms;
  tokens += other.tokens;
  return *this;
}

Amounts& Amounts::operator-=(const Amounts& other) noexcept {
  energy_uj -= other.energy_uj;
  time_ms -= other.time_ms;
  cost_allocation_pico -= other.cost_allocation_pico;
  cost_usage_pico -= other.cost_usage_pico;
  priced_ms -= other.priced_ms;
  electricity_pico -= other.electricity_pico;
  carbon_ng -= other.carbon_ng;
  carbon_known_uj -= other.carbon_known_uj;
  unmetered_ms -= other.unmetered_ms;
  tokens -= other.tokens;
  return *this;
}

}  // namespace gpulens::ledger
