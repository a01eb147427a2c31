// All that is read of one GPU, as a reader of the reader process.
#pragma once

#include <memory>

#include "reader/process/reader.h"
#include "sources/nvml/reader/event_waiter.h"
#include "sources/nvml/reader/nvml_reader.h"
#include "sources/nvml/reader/parts_reader.h"

namespace gpulens::nvml {

// Used by the thread of its GPU. The library, the slot and the clock outlive it. A steady round does not
// allocate.
class GpuDevice final : public driver::DeviceReader {
 public:
  struct Options {
    unsigned index = 0;
    ReaderOptions reader;
    std::shared_ptr<EventWaiter> events;  // Null: the library has no events.
  };
  GpuDevice(const NvmlLibrary& library, CallSlot& slot, const Clock& clock, Options options);

  Attached Attach() override;
  const driver::Facts& facts() const noexcept override { return reader_.identity().facts; }
  bool Round(int64_t boot_ns, driver::Outbox& out) override;
  uint64_t calls() const noexcept override;

 private:
  const unsigned index_;
  const std::shared_ptr<EventWaiter> events_;
  GpuReader reader_;
  PartsReader parts_;
  MessageEncoder encoder_;
};

}  // namespace gpulens::nvml
