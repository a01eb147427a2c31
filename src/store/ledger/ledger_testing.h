// Made-up entries of a ledger, for tests and measurements.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ledger/account.h"

namespace gpulens::ledger {

inline constexpr int64_t kTestHour = 1'795'651'200;  // 2026-11-26T00:00:00Z

struct TestShape {
  int gpus = 8, accounts = 25;  // of each GPU in each hour
  int64_t first_hour_unix = kTestHour;
  int hours = 24;
  bool priced = true, carbon = true;
};

// The account number `i` of a GPU: the first ones have no owner, the others one of three tenants.
inline Account TestAccount(int gpu, int i) {
  Account account;
  account.gpu = "GPU-0000000" + std::to_string(gpu);
  if (i == 0) return account;
  if (i == 1) {
    account.energy_state = EnergyState::kUnobserved;
    account.compute_state = ComputeState::kUnobserved;
    return account;
  }
  const std::string number = std::to_string(i);
  account.owner = {.process = "python3",
                   .name_space = "team-" + std::to_string(i % 3),
                   .pod = "pod-" + std::to_string(gpu) + "-" + number,
                   .job = {},
                   .tenant = i % 4 == 0 ? "" : "tenant-" + std::to_string(i % 3),
                   .engine = i % 2 == 0 ? "vllm-" + std::to_string(i % 5) : "",
                   .model = i % 2 == 0 ? "llama-3.1-8b" : ""};
  account.method = static_cast<Method>(i % 5);
  if (i % 5 == 0) {
    account.energy_state = EnergyState::kHeld;
    account.compute_state = ComputeState::kHeldIdle;
    account.cause = Cause::kNoRequests;
    account.request_class = RequestClass::kHeld;
  } else if (i % 7 == 0) {
    account.energy_state = EnergyState::kActive;
    account.compute_state = ComputeState::kActiveWasted;
    account.cause = Cause::kThrottlePower;
  } else {
    account.energy_state = i % 6 == 1 ? EnergyState::kUnattributed : EnergyState::kActive;
    account.compute_state = ComputeState::kUseful;
    account.request_class = i % 2 == 0 ? RequestClass::kPrefill : RequestClass::kNone;
  }
  return account;
}

// One entry for each hour, GPU and account. Equal for equal shapes.
inline std::vector<Entry> TestEntries(const TestShape& shape) {
  std::mt19937_64 random(7);
  std::vector<Entry> entries;
  const auto up_to = [&random](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  for (int hour = 0; hour < shape.hours; ++hour) {
    for (int gpu = 0; gpu < shape.gpus; ++gpu) {
      for (int i = 0; i < shape.accounts; ++i) {
        Entry entry;
        entry.window_unix_ms = (shape.first_hour_unix + hour * 3600) * 1000 + up_to(360) * 10'000;
        entry.account = TestAccount(gpu, i);
        Amounts& amounts = entry.amounts;
        amounts.time_ms = 1 + up_to(3'600'000 / shape.accounts);
        amounts.energy_uj = amounts.time_ms * 300'000 + up_to(1'000'000);
        if (shape.priced) {
          amounts.priced_ms = amounts.time_ms;
          amounts.cost_allocation_pico = amounts.time_ms * 1'911'111 + up_to(1'000'000);
          amounts.cost_usage_pico = amounts.time_ms * 1'700'000 + up_to(1'000'000);
          amounts.electricity_pico = amounts.energy_uj / 36;
        }
        if (shape.carbon) {
          amounts.carbon_ng = amounts.energy_uj / 9;
          amounts.carbon_known_uj = amounts.energy_uj;
        }
        if (entry.account.request_class == RequestClass::kPrefill) amounts.tokens = up_to(100'000);
        entries.push_back(std::move(entry));
      }
    }
  }
  return entries;
}

}  // namespace gpulens::ledger
