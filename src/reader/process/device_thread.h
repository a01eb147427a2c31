// The thread that reads one device.
#pragma once

#include <cstdint>
#include <memory>

#include "reader/process/reader.h"

namespace gpulens::driver {

// kExhausted when no thread can be made. `library` is kept alive for `reader`.
Status StartDeviceThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<VendorLibrary> library,
                         std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval);

// The next multiple of `interval` after `boot_ns`: all readers work at the same moments, so that an
// idle machine is woken once.
int64_t NextTick(int64_t boot_ns, Duration interval) noexcept;

}  // namespace gpulens::driver
