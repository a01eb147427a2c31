// A ledger with its clock and all that it returned, for tests. Seconds are of the clock that does not jump.
#pragma once

#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ledger/ledger.h"

namespace gpulens::ledger {

inline constexpr int64_t kTestSecond = 1'000'000'000;
// A multiple of an hour, so that windows begin at multiples of ten seconds of both clocks.
inline constexpr int64_t kTestOffset = 1'699'999'200'000'000'000;

class TestLedger {
 public:
  explicit TestLedger(Ledger::Options options = {}, Rates rates = {}) : rates_(rates) { Start(options); }

  // As a new process has it: the last state is restored.
  void Restart(double at, const std::string& boot_id = "boot", Ledger::Options options = {}) {
    const LedgerState saved = ledger->state();
    Start(options);
    ledger->Restore(saved, At(at), boot_id);
  }
  Instant At(double seconds) const {
    const auto ns = static_cast<int64_t>(seconds * kTestSecond);
    return {ns, ns + offset};
  }
  void Close(double at) { Take(ledger->Close(At(at))); }
  void Finish(double at) { Take(ledger->Finish(At(at))); }

  using Match = std::function<bool(const Entry&)>;
  Amounts Sum(const Match& match = [](const Entry&) { return true; }) const {
    Amounts sum;
    for (const Entry& entry : entries) {
      if (match(entry)) sum += entry.amounts;
    }
    return sum;
  }
  // Joules and seconds.
  double Joules(EnergyState state, const std::string& pod = {}) const {
    return static_cast<double>(Sum([&](const Entry& entry) {
                                 return entry.account.energy_state == state &&
                                        (pod.empty() || entry.account.owner.pod == pod);
                               }).energy_uj) /
           1e6;
  }
  double Seconds(ComputeState state, Cause cause, const std::string& pod = {}) const {
    return static_cast<double>(Sum([&](const Entry& entry) {
                                 return entry.account.compute_state == state &&
                                        entry.account.cause == cause &&
                                        (pod.empty() || entry.account.owner.pod == pod);
                               }).time_ms) /
           1e3;
  }
  // Of each window, adjustments with the window that they are for: what a report of windows shows.
  std::map<std::pair<int64_t, Account>, Amounts> Totals() const {
    std::map<std::pair<int64_t, Account>, Amounts> totals;
    for (const Entry& entry : entries) {
      const int64_t window = entry.for_window_unix_ms != 0 ? entry.for_window_unix_ms : entry.window_unix_ms;
      totals[{window, entry.account}] += entry.amounts;
    }
    std::erase_if(totals, [](const auto& row) { return row.second.empty(); });
    return totals;
  }

  std::unique_ptr<Ledger> ledger;
  std::vector<Entry> entries;
  std::vector<ProcessEnergy> processes;
  int64_t offset = kTestOffset;
  std::function<Rates(int64_t)> rates_at;

 private:
  void Start(Ledger::Options options) {
    options.boot_to_unix_ns = offset;
    if (options.boot_id.empty()) options.boot_id = "boot";
    ledger = std::make_unique<Ledger>(
        options, [this](std::string_view, int64_t unix_ns) { return rates_at ? rates_at(unix_ns) : rates_; });
  }
  void Take(Ledger::Closed closed) {
    EXPECT_EQ(closed.residual_uj, 0);
    EXPECT_EQ(closed.residual_ms, 0);
    EXPECT_EQ(closed.residual_pico, 0);
    entries.insert(entries.end(), std::make_move_iterator(closed.entries.begin()),
                   std::make_move_iterator(closed.entries.end()));
    processes.insert(processes.end(), closed.processes.begin(), closed.processes.end());
  }
  Rates rates_;
};

inline Owner PodOwner(const std::string& pod, const std::string& engine = {}) {
  Owner owner;
  owner.pod = pod, owner.name_space = "default", owner.process = "python3", owner.engine = engine;
  return owner;
}

// Of GPU "GPU-0", with no process.
inline GpuReading TestReading(double at, double joules) {
  GpuReading reading;
  reading.gpu = "GPU-0", reading.model = "H100";
  reading.at_ns = static_cast<int64_t>(at * kTestSecond);
  reading.energy_uj = static_cast<int64_t>(joules * 1e6);
  reading.energy_source = EnergySource::kCounter;
  reading.utilization = 0;
  reading.users_known = true;
  return reading;
}

inline GpuUser TestUser(int64_t pid, const Owner& owner, std::optional<double> utilization = {},
                        std::optional<int64_t> memory = {}) {
  GpuUser user;
  user.pid = pid, user.start_ticks = pid * 10, user.owner = owner;
  user.utilization = utilization, user.memory_bytes = memory;
  return user;
}

}  // namespace gpulens::ledger
