// The joules of a record, from the energy window of its call.
#pragma once

#include <memory>
#include <string_view>

#include <gpulens/energy.h>

#include "sdk/inference/packed_record.h"

namespace gpulens::inference {

// The phases of a call's window. Only of a call whose window has both marks energy is told by phases.
inline constexpr std::string_view kPrefill = "prefill", kDecode = "decode";

// Asks the window, which should have ended, when the record is written: by then its joules are settled, and
// nobody waits for them. What the record says of its energy itself wins.
std::unique_ptr<Settler> SettleEnergy(EnergyWindow window);

}  // namespace gpulens::inference
