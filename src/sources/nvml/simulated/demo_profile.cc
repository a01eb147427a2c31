#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {

std::string_view DemoProfile() noexcept {
  return R"(# Eight H100 that train: busy, with a pause between the epochs.
model: H100
gpus: 8
nvlink_share: 0.55
pcie_share: 0.12
load: {kind: sine, level: 0.78, amplitude: 0.2, period: 45}
each:
  - {gpu: 6, load: {kind: steps, steps: [[40, 0.95], [20, 0.1]]}}
  - {gpu: 7, load: {kind: constant, level: 0.05}, nvlink_share: 0.05}
processes:
  - {pid: 41000, memory: 52GiB, swing: 6GiB, period: 90}
  - {gpu: 7, pid: 52000, memory: 4GiB}
faults:
  - {gpu: 2, counter: ecc_corrected, amount: 3, from: 60}
throttle:
  - {gpu: 4, mask: 0x20, from: 30, for: 20}
)";
}

}  // namespace gpulens::nvml
