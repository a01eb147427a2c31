// Field values of the simulated boards: power by scope, margins, violations, errors.
#include <algorithm>

#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {

void FakePutUint(FieldValue& value, unsigned number) noexcept {
  value.value_type = kUint;
  value.value.uint_value = number;
}
void FakePutUllong(FieldValue& value, uint64_t number) noexcept {
  value.value_type = kUllong;
  value.value.ull_value = number;
}
void FakePutInt(FieldValue& value, int number) noexcept {
  value.value_type = kSint;
  value.value.int_value = number;
}

namespace {

using C = FakeFault::Counter;

bool PowerField(const FakeView& view, FieldValue& value) {
  const FakeModel& model = *view.model;
  // The first data centre Ampere has no mean of its own.
  bool mean = model.architecture >= kAmpere && !(model.cc_major == 8 && model.cc_minor == 0);
  switch (value.scope_id) {
    case kPowerOfGpu:
      if (mean) FakePutUint(value, view.power_mean_mw);
      return mean;
    case kPowerOfMemory:
      // HBM is about half of what an idle board draws, and a fifth of what a busy one does.
      if (model.architecture >= kHopper) FakePutUint(value, model.idle_mw / 2 + view.power_mean_mw / 8);
      return model.architecture >= kHopper;
    case kPowerOfModule:
      if (model.coherent) FakePutUint(value, view.power_mean_mw + 180'000);
      return model.coherent;
    default: return false;
  }
}

bool ErrorField(const FakeView& view, FieldValue& value) {
  bool counts = view.model->architecture >= kAmpere;
  switch (value.field_id) {
    case 173:
    case 175: return counts && (FakePutUllong(value, view.Faults(C::kPcieCorrectable)), true);
    case 174:
    case 176:
    case 177:
    case 178:
    case 179:
    case 180:
    case 181:
    case 182:
    case 183: return counts && (FakePutUllong(value, 0), true);
    case 169: return view.model->architecture >= kTuring && (FakePutUllong(value, 3), true);
    case 95: return FakePutUint(value, 0), true;
    case 301:
    case 302:
      return view.profile->remapped_rows && view.model->architecture >= kHopper &&
             (FakePutUint(value, 0), true);
    default: return false;
  }
}

}  // namespace

bool FakeBoardField(const FakeView& view, FieldValue& value) {
  bool margins = view.model->architecture >= kHopper;
  switch (value.field_id) {
    case kFiPowerAverage: return PowerField(view, value);
    case 193: return margins && (FakePutInt(value, -8), true);
    case 194: return margins && (FakePutInt(value, -2), true);
    case 195:
    case 196: return margins && (FakePutInt(value, 0), true);
    case 75: return FakePutUllong(value, view.ThrottledNs(0x60)), true;
    case 77:
    case 78:
    case 79:
    case 80:
    case 81: return FakePutUllong(value, 0), true;
    case 274: return margins && (FakePutUint(value, 100), true);
    case 297: return margins && (FakePutUint(value, static_cast<unsigned>(view.busy * 20)), true);
    case 299:
      return view.model->architecture >= kAda && view.model->links == 0 && (FakePutUint(value, 500), true);
    default: return ErrorField(view, value);
  }
}

}  // namespace gpulens::nvml
