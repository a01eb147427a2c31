// For tests of leases: an engine in memory whose failures are chosen, replicas, and real servers.
#pragma once

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/testing/temp_folder.h"
#include "proxy/admission/engines.h"
#include "proxy/admission/leases.h"

namespace gpulens::proxy::testing {

// What the servers of all replicas' engines share.
struct EngineState {
  std::mutex mutex;
  std::map<std::string, std::pair<EngineBudget, EngineHolders>> budgets;
  int64_t fence = 0, now_ms = 0;
  int calls = 0;
  bool down = false;         // requests do not arrive
  bool loses_reply = false;  // the next request arrives, its reply does not
};

class MemoryEngine final : public BudgetEngine {
 public:
  explicit MemoryEngine(EngineState& state) : state_(state) {}
  Result<int64_t> NewFence() override {
    const std::lock_guard lock(state_.mutex);
    if (state_.down) return Status{Code::kUnavailable, "down"};
    return ++state_.fence;
  }
  Result<LeaseReply> Exchange(const LeaseCall& call) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.down) return Status{Code::kUnavailable, "down"};
    ++state_.calls;
    auto& [budget, holders] = state_.budgets[call.budget];
    const LeaseReply reply = ApplyLeaseCall(call, state_.now_ms, budget, holders);
    if (std::exchange(state_.loses_reply, false)) return Status{Code::kTimeout, "lost"};
    return reply;
  }

 private:
  EngineState& state_;
};

// A process of the proxy: its budgets and its keeper, with one shared budget.
struct Replica {
  Replica(std::unique_ptr<BudgetEngine> with, const BudgetSpec& spec, const LeaseOptions& options)
      : engine(std::move(with)), keeper(*engine, budgets, options), of{budgets.Define(spec)} {}

  BudgetAnswer Spend(int64_t pico, Instant now) {
    auto admitted = budgets.Admit(of, {.expected_pico = pico, .most_pico = pico}, now);
    admitted.reservation.Settle(pico, now);
    return admitted.answer;
  }
  // Waits for leases, with the keeper's thread.
  Budgets::Admitted AdmitWaiting(const CostEstimate& cost) {
    while (true) {
      auto admitted = budgets.Admit(of, cost, RealClock().Now());
      if (admitted.answer != BudgetAnswer::kLease) return admitted;
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      keeper.WhenLeased([&] {
        const std::lock_guard lock(mutex);
        done = true;
        changed.notify_one();
      });
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done; });
    }
  }

  std::unique_ptr<BudgetEngine> engine;
  Budgets budgets;
  LeaseKeeper keeper;
  std::vector<Ref<Budget>> of;
};

// A program of tools/prepare_peers.sh, or an installed one, with the libraries that came along.
struct PeerProgram {
  std::string path;
  std::vector<std::string> environment;
};
inline std::optional<PeerProgram> FindPeer(const char* variable, const std::string& folder,
                                           const std::string& name) {
  const char* set = std::getenv(variable);
  const std::string root = set ? set : folder;
  for (const std::string& base : {root, std::string()}) {
    for (const std::string& path : {base + "/usr/bin/" + name, base + "/usr/lib/postgresql/15/bin/" + name,
                                    base + "/usr/lib/postgresql/17/bin/" + name}) {
      if (::access(path.c_str(), X_OK) != 0) continue;
      PeerProgram found{std::filesystem::absolute(path).string(), {}};
      const std::string libraries = std::filesystem::absolute(base + "/usr/lib/x86_64-linux-gnu").string();
      if (!base.empty()) found.environment.push_back("LD_LIBRARY_PATH=" + libraries);
      return found;
    }
  }
  return std::nullopt;
}

// Calls `until` until it is true, for 20 s.
inline bool Await(const std::function<bool()>& until) {
  const Instant end = RealClock().Now() + std::chrono::seconds(20);
  while (!until()) {
    if (RealClock().Now().boot_ns > end.boot_ns) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

}  // namespace gpulens::proxy::testing
