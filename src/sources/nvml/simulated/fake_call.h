// What the functions of the simulated library share: the way in, handles, and putting results out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {

// The simulated functions, with the parameters by which the reader calls them.
#define GPULENS_FAKE_FUNCTION(id, symbol, parameters) FAKE_API int symbol parameters;
GPULENS_NVML_CALLS(GPULENS_FAKE_FUNCTION)
#undef GPULENS_FAKE_FUNCTION

// Field values of boards and links; false when the GPU does not have the field.
bool FakeBoardField(const FakeView& view, FieldValue& value);
bool FakeLinkField(const FakeView& view, FieldValue& value);
void FakePutUint(FieldValue& value, unsigned number) noexcept;
void FakePutUllong(FieldValue& value, uint64_t number) noexcept;
void FakePutInt(FieldValue& value, int number) noexcept;

// A handle points at the place of its GPU in here; that of a MIG device behind all of them.
inline char fake_handles[kMaxFakeGpus * (1 + kMaxFakeMig)];

inline int FakeIndexOf(Device device) noexcept {
  auto place = reinterpret_cast<uintptr_t>(device), first = reinterpret_cast<uintptr_t>(fake_handles);
  return place >= first && place < first + kMaxFakeGpus ? static_cast<int>(place - first) : -1;
}

inline Device FakeMigHandle(unsigned gpu, unsigned slot) noexcept {
  return reinterpret_cast<Device>(fake_handles + kMaxFakeGpus + gpu * kMaxFakeMig + slot);
}
// The place among MIG handles, gpu * kMaxFakeMig + slot; -1 for a handle that is none.
inline int FakeMigPlaceOf(Device device) noexcept {
  auto place = reinterpret_cast<uintptr_t>(device),
       first = reinterpret_cast<uintptr_t>(fake_handles) + kMaxFakeGpus;
  return place >= first && place < first + kMaxFakeGpus * kMaxFakeMig ? static_cast<int>(place - first) : -1;
}
// Narrows a view to the MIG device of that slot. The library's code when the call does not take one, or when
// there is no such device now.
int FakeNarrow(std::string_view call, unsigned slot, FakeView& view);

// Precedes every call that takes a GPU: initialized, a known handle, the profile's errors and
// hangs. Then `body(view)` gives the code.
template <class Body>
int With(const char* call, Device device, Body body) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kUninitialized;
  int index = FakeIndexOf(device), mig = FakeMigPlaceOf(device);
  if (mig >= 0) index = mig / static_cast<int>(kMaxFakeMig);
  if (index < 0) return kInvalidArgument;
  if (int code = world.Enter(call, index); code != kSuccess) return code;
  FakeView view;
  auto profile = world.profile();  // Kept alive while the view points into it.
  if (!world.View(static_cast<unsigned>(index), view)) return kGpuIsLost;
  if (mig >= 0) {
    if (int code = FakeNarrow(call, static_cast<unsigned>(mig) % kMaxFakeMig, view); code != kSuccess)
      return code;
  }
  return body(view);
}

// kInsufficientSize when `text` and its end do not fit.
inline int CopyText(std::string_view text, char* out, unsigned size) {
  if (!out) return kInvalidArgument;
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return kSuccess;
}

inline uint64_t Flow(const FakeView& view, FakeFlow flow) { return view.flows[static_cast<size_t>(flow)]; }

template <class T, class V>
int Put(T* out, V value) {
  if (!out) return kInvalidArgument;
  *out = static_cast<T>(value);
  return kSuccess;
}

template <class T, class V>
int PutIf(bool supported, T* out, V value) {
  return supported ? Put(out, value) : int{kNotSupported};
}

// Defines a function that puts out one number of a GPU, computed from its `view`, or is not supported.
#define FAKE_NUMBER(function, type, supported, number)                                                 \
  FAKE_API int function(Device device, type* out) {                                                    \
    return With(#function, device,                                                                     \
                [&]([[maybe_unused]] const FakeView& view) { return PutIf(supported, out, number); }); \
  }

}  // namespace gpulens::nvml
