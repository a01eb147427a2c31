// Tells what happened to AMD GPUs and to their reader process, once for each change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/collectors/amd/amd_series.h"
#include "plugins/plugin.h"
#include "reader/source.h"

namespace gpulens::amd {

// Used inside the collector's run. Allocates only when something happened.
class AmdEvents {
 public:
  explicit AmdEvents(Env& env) noexcept : env_(env) {}

  void Driver(const driver::DriverState& driver, Instant now);
  void Device(const driver::Device& device, const EntityRef& entity, Instant now);

 private:
  void Report(std::string_view name, const EntityRef& entity, AttributeSet attributes, std::string body,
              Instant now) const;

  Env& env_;
  uint64_t starts_ = 0;
  driver::Fault fault_ = driver::Fault::kNone;
  std::vector<driver::DeviceState> states_;  // by index; what was last told
  std::vector<uint32_t> hangs_;
};

}  // namespace gpulens::amd
