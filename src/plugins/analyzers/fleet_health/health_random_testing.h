// Draws random faults for the GPUs of a world, and checks the analyzer's results.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "catalog/gpu.h"
#include "plugins/analyzers/fleet_health/health_score.h"
#include "plugins/analyzers/fleet_health/health_world_testing.h"

namespace gpulens::health_world {

inline constexpr std::array<std::string_view, 8> kStates = {"ok",     "hung",     "lost",   "reset_required",
                                                            "failed", "left_out", "unread", "no_permission"};
inline constexpr size_t kLastAway = 6;  // the state of a GPU that does not answer: from 1 up to this one

// The true state of a GPU.
struct Truth {
  size_t state = 0;      // of kStates; kStates.size(): unknown
  bool readings = true;  // power, temperature, memory, clocks, load
  std::string_view xid;  // action of an XID that was not cleared; empty: none
  bool unrepairable = false, requests_recovery = false;

  bool answers() const noexcept { return state == 0; }
  bool healthy() const noexcept {
    return answers() && readings && xid.empty() && !unrepairable && !requests_recovery;
  }
};

// Shows the truth of every GPU to the analyzer.
inline void Show(World& world, size_t gpu, const Truth& truth) {
  for (size_t i = 0; i < kStates.size(); ++i) {
    double value = truth.state >= kStates.size() ? std::nan("") : truth.state == i;
    world.Set(gpu, kGpuState, {{"gpu.state", kStates[i]}}, value);
  }
  auto read = [&](double value) { return truth.answers() && truth.readings ? value : std::nan(""); };
  world.Set(gpu, kGpuInfo, {{"gpu.vendor", std::string_view("nvidia")}}, 1);
  world.Set(gpu, kGpuPowerDraw, {}, read(300));
  world.Set(gpu, kGpuTemperature, {{"gpu.temperature.sensor", std::string_view("edge")}}, read(50));
  world.Set(gpu, kGpuMemoryUsed, {}, read(1e9));
  world.Set(gpu, kGpuClockFrequency, {{"gpu.clock.type", std::string_view("graphics")}}, read(1500));
  world.Set(gpu, kGpuUtilization, {{"gpu.task.type", std::string_view("compute")}}, read(0.5));
  // Series that continue for a GPU that does not answer.
  world.Set(gpu, kGpuXidErrors, {}, 0);
  world.Set(gpu, kGpuRowRemapFailed, {}, 0);
  for (std::string_view action : {"restart_app", "reset_gpu", "reboot", "drain"})
    world.Set(gpu, kGpuXidRecent, {{"gpu.xid.action", action}}, truth.xid == action);
  world.Set(gpu, kGpuMemoryUnrepairable, {}, read(truth.unrepairable));
  world.Set(gpu, kGpuRecoveryAction, {{"gpu.recovery.action", std::string_view("none")}},
            read(!truth.requests_recovery));
}

// A number below `limit`, from a generator, or the bytes of a fuzzer.
using Draw = std::function<size_t(size_t limit)>;

inline void ChangeTruth(Truth& truth, const Draw& draw) {
  constexpr std::string_view kActions[] = {"", "restart_app", "reset_gpu", "reboot", "drain"};
  switch (draw(7)) {
    case 0: truth = {}; break;
    case 1: truth.state = draw(kStates.size() + 1); break;
    case 2: truth.readings = draw(2) == 0; break;
    case 3: truth.xid = kActions[draw(std::size(kActions))]; break;
    case 4: truth.unrepairable = draw(2) == 1; break;
    case 5: truth.requests_recovery = draw(2) == 1; break;
    default: break;
  }
}

// Returns what is wrong with the result; empty: nothing. `seconds`: for how long the truth has been so.
inline std::string FalseClear(const Truth& truth, const World::Result& result, int seconds) {
  bool good = !std::isnan(result.score) && result.score >= kDegradedBelow, ok = result.state == "ok";
  if (ok && !good) return "the word is ok, and the score is " + std::to_string(result.score);
  if (!ok && !result.state.empty() && good) return "the word is " + result.state + " with a good score";
  if (result.state == "failed" && result.score >= kFailedBelow)
    return "the word is failed, and the score is " + std::to_string(result.score);
  if (!result.conditions.empty() && good) return "a good score although " + result.conditions[0];
  bool away = truth.state >= 1 && truth.state <= kLastAway;
  if (away && (good || ok)) return "a GPU that does not answer is called well";
  if (away && kStates[truth.state] != "unread" && result.state != "failed")
    return "a GPU that does not answer is called " + result.state;
  if (!truth.answers() && (good || ok)) return "a GPU of which unknown is called well";
  if (truth.answers() && !truth.readings && seconds >= 1 && (good || ok))
    return "a GPU that answers nothing is called well";
  bool serious = truth.xid == "reset_gpu" || truth.xid == "reboot" || truth.xid == "drain";
  if (serious && (good || ok)) return "an XID that asks for " + std::string(truth.xid) + " is passed over";
  bool reported = truth.answers() && truth.readings && (truth.unrepairable || truth.requests_recovery);
  if (reported && (good || ok)) return "the driver's recovery action is ignored";
  return "";
}

}  // namespace gpulens::health_world
