// What the functions of the simulated library share: the way in, handles, and putting results out.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "sources/amdsmi/reader/amdsmi_abi.h"
#include "sources/amdsmi/simulated/fake_world.h"

// Names of the library are visible outside only when they are built into a libamd_smi.so.
#ifdef GPULENS_FAKE_AMDSMI_EXPORT
#define FAKE_API extern "C" __attribute__((visibility("default")))
#else
#define FAKE_API extern "C" __attribute__((visibility("hidden")))
#endif

#define FAKE_SYMBOL(function) {#function, reinterpret_cast<void*>(&function)}

namespace gpulens::amdsmi {

struct FakeSymbol {
  std::string_view name;
  void* function;
};
std::span<const FakeSymbol> FakeIdentitySymbols() noexcept;
std::span<const FakeSymbol> FakeStateSymbols() noexcept;
std::span<const FakeSymbol> FakeListSymbols() noexcept;

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

}  // namespace gpulens::amdsmi
