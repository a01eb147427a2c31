// What the simulated library shows of the parts of its GPUs, and what happens to them: MIG devices,
// vGPUs, events. Lists of the profile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {
class YamlFields;
}

namespace gpulens::nvml {

inline constexpr unsigned kMaxFakeMig = 8;  // MIG devices of one GPU, over all times.
inline constexpr unsigned kNoFakeInstance = ~0U;

// Rules hold for one GPU, or all (-1), between two times since the library was opened, in seconds.
struct FakeWhen {
  int gpu = -1;
  double from = 0, to = 1e18;

  bool Holds(int index, double seconds) const noexcept {
    return (gpu < 0 || gpu == index) && seconds >= from && seconds < to;
  }
};

// mig: [{gpu: 0, profile: 3g.40gb, instance: 1, compute: 0, load: 0.5, from: 0, to: 60}]
struct FakeMig {
  FakeWhen when;        // One GPU.
  std::string profile;  // "3g.40gb", "1c.3g.40gb"
  unsigned instance = 0, compute = 0;
  unsigned slices = 0, compute_slices = 0, gigabytes = 0;  // As the profile says.
  double load = -1;   // Busy share; below 0: that of the GPU, where a process runs in it.
  unsigned slot = 0;  // Among those of its GPU: its place in the library's list.
};

// vgpus: [{gpu: 0, id: 3251634213, type: NVIDIA L40S-8Q, vm: vm-7, memory: 4GiB, sm: 35}]
struct FakeVgpu {
  FakeWhen when;  // One GPU.
  unsigned id = 0;
  std::string type = "NVIDIA L40S-8Q", vm, driver = "580.95.05";
  double bytes = 0;
  unsigned sm = 0, memory = 0;  // %
  bool licensed = true;
};

// xids: [{gpu: 0, code: 79, at: 5}]; events: [{gpu: 0, type: ecc_uncorrected, data: 1, at: 5}]
struct FakeEvent {
  unsigned gpu = 0;
  uint64_t type = 0, data = 0;  // As in DeviceEvent.
  double at = 0;                // Seconds since the library was opened.
  unsigned instance = kNoFakeInstance;

  friend bool operator==(const FakeEvent&, const FakeEvent&) = default;
};

struct FakeParts {
  std::vector<FakeMig> mig;
  std::vector<FakeVgpu> vgpus;
  std::vector<FakeEvent> events;
  std::vector<unsigned> boards;  // boards: [4, 7], which board each GPU is; no more than there are GPUs
};

// Reads the lists `mig`, `vgpus`, `xids`, `events` and `boards` of a profile with so many GPUs.
// kInvalidArgument names line and key.
Status ReadFakeParts(YamlFields& root, size_t gpus, FakeParts& out);

}  // namespace gpulens::nvml
