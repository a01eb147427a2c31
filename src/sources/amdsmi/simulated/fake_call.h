// What the functions of the simulated library share: the way in, handles, and putting results out.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "sources/amdsmi/reader/amdsmi_abi.h"
#include "sources/amdsmi/simulated/fake_world.h"

namespace gpulens::amdsmi {

// The simulated functions, with the parameters by which the reader calls them.
#define GPULENS_FAKE_FUNCTION(id, symbol, parameters) FAKE_API int symbol parameters;
GPULENS_AMDSMI_CALLS(GPULENS_FAKE_FUNCTION)
#undef GPULENS_FAKE_FUNCTION

inline constexpr unsigned kMaxFakeProcessors = 64;
// A handle points at its place in here: sockets by GPU, processors by GPU and partition.
inline char fake_sockets[kMaxFakeGpus];
inline char fake_processors[kMaxFakeProcessors];

inline int FakePlaceOf(Handle handle, const char* first, unsigned count) noexcept {
  auto place = reinterpret_cast<uintptr_t>(handle), start = reinterpret_cast<uintptr_t>(first);
  return place >= start && place < start + count ? static_cast<int>(place - start) : -1;
}

// Precedes every call that takes a GPU: initialized, a known handle, the profile's errors and
// hangs. Then `body(view)` gives the code.
template <class Body>
int With(const char* call, Handle handle, Body body) {
  FakeWorld& world = FakeWorld::Get();
  if (!world.open()) return kNotInitialized;
  int place = FakePlaceOf(handle, fake_processors, kMaxFakeProcessors);
  unsigned partitions = world.profile()->partitions;
  if (place < 0) return kInvalidArgument;
  unsigned gpu = static_cast<unsigned>(place) / partitions;
  if (gpu >= world.profile()->gpus.size()) return kNotFound;
  if (int code = world.Enter(call, static_cast<int>(gpu)); code != kSuccess) return code;
  FakeView view = world.View(gpu, static_cast<unsigned>(place) % partitions);
  // The profile may have changed since the call began, and have fewer GPUs now.
  if (gpu >= view.profile->gpus.size()) return kNotFound;
  return body(view);
}

// Only partition 0 is the whole board.
inline bool IsBoard(const FakeView& view) noexcept { return view.partition == 0; }

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

template <size_t kSize>
void CopyText(char (&out)[kSize], std::string_view text) noexcept {
  size_t size = text.size() < kSize ? text.size() : kSize - 1;
  std::memcpy(out, text.data(), size);
  out[size] = '\0';
}

// Defines a function that puts out one number of a GPU, computed from its `view`, or is not supported.
#define FAKE_NUMBER(function, type, supported, number)                                                 \
  FAKE_API int function(Handle device, type* out) {                                                    \
    return With(#function, device,                                                                     \
                [&]([[maybe_unused]] const FakeView& view) { return PutIf(supported, out, number); }); \
  }

}  // namespace gpulens::amdsmi
