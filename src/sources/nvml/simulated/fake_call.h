// What the functions of the simulated library share: the way in, handles, and putting results out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/simulated/fake_world.h"

// Names of the library are visible outside only when they are built into a libnvidia-ml.so.1.
#ifdef GPULENS_FAKE_NVML_EXPORT
#define FAKE_API extern "C" __attribute__((visibility("default")))
#else
#define FAKE_API extern "C" __attribute__((visibility("hidden")))
#endif

#define FAKE_SYMBOL(function) {#function, reinterpret_cast<void*>(&function)}

namespace gpulens::nvml {

struct FakeSymbol {
  std::string_view name;
  void* function;
};
std::span<const FakeSymbol> FakeIdentitySymbols() noexcept;
std::span<const FakeSymbol> FakeStateSymbols() noexcept;
std::span<const FakeSymbol> FakeListSymbols() noexcept;
std::span<const FakeSymbol> FakeBoardSymbols() noexcept;
std::span<const FakeSymbol> FakeLinkSymbols() noexcept;

// Field values of board/: false when the GPU does not have the field.
bool FakeBoardField(const FakeView& view, FieldValue& value);
bool FakeLinkField(const FakeView& view, FieldValue& value);
void FakePutUint(FieldValue& value, unsigned number) noexcept;
void FakePutUllong(FieldValue& value, uint64_t number) noexcept;
void FakePutInt(FieldValue& value, int number) noexcept;
std::span<const FakeSymbol> FakeMigSymbols() noexcept;
std::span<const FakeSymbol> FakeGpmSymbols() noexcept;
std::span<const FakeSymbol> FakeEventSymbols() noexcept;
std::span<const FakeSymbol> FakeUseSymbols() noexcept;

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

}  // namespace gpulens::nvml
