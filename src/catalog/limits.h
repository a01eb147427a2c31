// Limits that more than one part of the program goes by, so that the health of a GPU, its alerts and `gpulens
// why` agree. docs/fleet-health.md and deploy/rules have the same numbers.
#pragma once

namespace gpulens::limits {

// A GPU with more utilization than this does something.
inline constexpr double kBusyAbove = 0.05;
// Link generation and load are read up to ten seconds apart, and a link takes a moment to speed up.
inline constexpr int kSlowLinkSeconds = 30;
// NVLink errors within five minutes: more are a fault. A few replays of a link are normal.
inline constexpr double kMostLinkErrors = 10;
inline constexpr int kRecentSeconds = 300;
// PCIe replays in the same time. DCGM calls 8 a minute too many.
inline constexpr double kMostPcieReplays = 40;
// Share of time for which some program waits for a processor. A quarter: a loader or tokenizer that waits a
// quarter of its time is late for a GPU that would not wait for it.
inline constexpr double kMostCpuPressure = 0.25;
// Corrected memory errors in an hour that announce uncorrectable ones.
inline constexpr double kFullCorrectedPerHour = 120;
// Share of time for which heat or the power supply may hold the clock down, and the power limit, which full
// load reaches by design.
inline constexpr double kMostThrottled = 0.1, kMostPowerCapped = 0.5;
// Share of the KV cache above which requests wait or are preempted.
inline constexpr double kKvCacheFull = 0.95;

}  // namespace gpulens::limits
