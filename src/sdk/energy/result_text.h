// Why a result has no joules, for people; and what was read meanwhile. Parts of results that windows,
// requests and runs have in common.
#pragma once

#include <cstdint>
#include <string>

#include <gpulens/energy.h>

#include "energy/energy_curve.h"
#include "sdk/energy/track.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

// The device has not answered since long before.
void ReportSilence(const Track& track, int64_t now_ns, EnergyResult& out);
// `more`: what else is known of it. Valid when there is none.
void ReportFlaw(energy::Flaw flaw, const std::string& more, EnergyResult& out);
// Remark on a device that was lost and is back; else empty.
std::string Comeback(const Track& track);
void FillTicks(const TickSums& sums, EnergyTicks& out);

}  // namespace gpulens::sdk
