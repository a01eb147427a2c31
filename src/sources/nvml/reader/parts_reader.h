// Reads the parts of one GPU: MIG devices, GPM, vGPUs and the shares of processes, and makes the
// messages that tell of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/reader/gpm_reader.h"
#include "sources/nvml/reader/mig_reader.h"
#include "sources/nvml/reader/share_reader.h"
#include "sources/nvml/reader/vgpu_reader.h"

namespace gpulens::nvml {

struct PartsOptions {
  Duration interval = std::chrono::seconds(1), medium = std::chrono::seconds(10),
           slow = std::chrono::seconds(60);
  uint32_t details = 0;  // Details: what is read beyond the usual.
};

// Used by the thread of its GPU. What it is given outlives it. A steady round does not allocate.
class PartsReader {
 public:
  PartsReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
              PartsOptions options);

  // The GPU was opened. `mig`: has it MIG at all, and is it on?
  enum class Mig : uint8_t { kNone, kOff, kOn };
  void Attach(Device device, Mig mig);

  // Before the GPU itself is read: looks for parts when it is time to, or `rescan` says so, and sends the
  // lists that have changed.
  void Scan(int64_t boot_ns, bool rescan, driver::Outbox& out);
  // After it: reads what is due and sends it.
  void Read(int64_t boot_ns, driver::Outbox& out);

  // The MIG devices of the last Scan.
  const std::vector<MigDevice>& mig_devices() const noexcept { return mig_.devices(); }
  // Whether GPM tells PCIe rates, so that nobody needs to ask for them in a way that blocks.
  // It will tell, and has not yet.
  bool will_report_pcie() const noexcept {
    return !reports_pcie_ && mig_mode_ != Mig::kOn && gpm_.beginning();
  }
  bool reports_pcie() const noexcept { return reports_pcie_; }
  Caller& caller() noexcept { return caller_; }
  uint64_t calls() const noexcept { return caller_.calls(); }

 private:
  struct Due {
    int64_t next_ns = 0;
    bool Take(int64_t boot_ns, Duration period, Duration slack) noexcept;
  };

  void SendList(PartKind kind, uint32_t max, const std::vector<PartKey>& keys, driver::Outbox& out);
  void SendMig(driver::Outbox& out);
  void SendVgpus(driver::Outbox& out);
  void SendFacts(const PartKey& key, driver::Outbox& out);

  const unsigned index_;
  const Clock& clock_;
  const PartsOptions options_;
  Caller caller_;
  MigReader mig_;
  GpmReader gpm_;
  VgpuReader vgpu_;
  ShareReader shares_;
  MessageEncoder encoder_;
  Mig mig_mode_ = Mig::kNone;
  bool attached_ = false, rescan_ = false, reports_pcie_ = false;
  Due scan_, repeat_, medium_, slow_;
  std::vector<PartKey> keys_;
  PartFacts facts_;
  std::vector<Fact> views_;
  std::vector<PartReading> readings_;
};

}  // namespace gpulens::nvml
