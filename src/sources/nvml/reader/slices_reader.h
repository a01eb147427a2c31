// Reads the slices of one GPU (MIG devices and vGPUs), its GPM values and the shares of processes, and sends
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reader/process/library_caller.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/process_reader.h"
#include "sources/nvml/reader_protocol.h"

namespace gpulens::nvml {

// Reads GPM metrics of one GPU and of its MIG slices, each between two samples. Used by one thread; `caller`
// outlives it. Allocates when a slice is first read. Unsupported metrics are found at the first answer, and
// queried again by QueryBackoff.
class GpmReader {
 public:
  // `more`: whether single engines, caches and cycles are read, too.
  GpmReader(NvmlCaller& caller, uint32_t index, bool more = false) noexcept
      : caller_(caller), index_(index), more_(more) {}

  ~GpmReader() { Reset(nullptr); }
  GpmReader(const GpmReader&) = delete;
  GpmReader& operator=(const GpmReader&) = delete;

  // A GPU was attached: forgets everything. The samples of before are given back to the library.
  void Reset(Device device);

  // Takes a sample and, when an older one is at least 100 ms old, appends the values between both. `key`: the
  // whole GPU, or the MIG device that represents its GPU instance.
  void Read(const SliceKey& key, std::vector<SliceReading>& out);
  // It will report the whole GPU, and has not yet: a first sample is not enough for that.
  bool beginning() const noexcept { return supported_ && !reported_ && reads_ < kReadsToBegin; }
  // Gives back the samples of slices that are not in `present`.
  void KeepOnly(const std::vector<SliceKey>& present);

 private:
  struct Pair {
    SliceKey key;
    GpmSample older = nullptr, spare = nullptr;
    int64_t older_ns = 0;  // 0: no sample yet
    reader::QueryBackoff again{};
  };

  bool Supported();
  Pair& Find(const SliceKey& key);
  bool Allocate(Pair& pair);
  void Free(Pair& pair);
  void Compute(Pair& pair, int64_t boot_ns, std::vector<SliceReading>& out);

  NvmlCaller& caller_;
  const uint32_t index_;
  const bool more_;
  Device device_ = nullptr;
  bool supported_ = false;
  reader::QueryBackoff support_;
  std::array<reader::QueryBackoff, kGpmFieldCount> metrics_[2];  // [1]: on GPU instances
  unsigned newest_metric_ = ~0U;  // Older libraries refuse a request with an unknown number.
  std::vector<Pair> pairs_;
  static constexpr int kReadsToBegin = 6;
  int reads_ = 0;  // Up to kReadsToBegin.
  bool reported_ = false;
  std::unique_ptr<GpmMetricsGet> request_;
};

using SliceFacts = std::vector<std::pair<std::string, std::string>>;

struct MigDevice {
  Device device = nullptr;
  SliceKey key;        // id: GPU instance, sub: compute instance.
  bool first = false;  // Of its GPU instance: compute instances share the memory of theirs.
};

// Used by one thread; `caller` outlives it. Allocates only when instances are new.
class MigReader {
 public:
  MigReader(NvmlCaller& caller, uint32_t index) noexcept : caller_(caller), index_(index) {}

  void Reset(Device gpu);
  // Lists the instances; true when they have changed. A GPU that does not answer keeps those it had: half a
  // list would look like instances that were destroyed.
  bool Scan();

  // Sorted by instance.
  const std::vector<MigDevice>& devices() const noexcept { return devices_; }
  uint32_t max() const noexcept { return max_; }
  bool known() const noexcept { return max_ != GpuSlices::kUnknown; }

  // uuid, name, profile ("3g.40gb", "1c.3g.40gb"), slices; unknown facts are omitted.
  void Identify(const MigDevice& mig, SliceFacts& out);
  // Appends readings of a device that is the first of its GPU instance. False when it has to be looked
  // for again: it does not answer as it did.
  bool Read(const MigDevice& mig, bool slow, std::vector<SliceReading>& out);

 private:
  NvmlCaller& caller_;
  const uint32_t index_;
  Device gpu_ = nullptr;
  uint32_t max_ = GpuSlices::kUnknown;
  uint64_t gpu_memory_ = 0;  // Bytes of the whole GPU; 0: not known.
  std::vector<MigDevice> devices_, found_;
};

// "3g.40gb" as the vendor writes it: compute slices, and memory in eighths of the GPU, rounded up to whole
// GB. Empty when the numbers make no sense.
std::string MigProfileName(const DeviceAttributes& attributes, uint64_t gpu_memory);

// The vGPUs that a GPU carries, on a virtualisation host: which there are, their memory and shares.

// Used by one thread; `caller` outlives it. A GPU that is no vGPU host is queried once.
class VgpuReader {
 public:
  VgpuReader(NvmlCaller& caller, uint32_t index) noexcept : caller_(caller), index_(index) {}

  void Reset(Device gpu);
  // Lists the vGPUs; true when they have changed, or are listed for the first time.
  bool Scan();
  bool host() const noexcept { return host_; }
  const std::vector<SliceKey>& vgpus() const noexcept { return vgpus_; }

  // uuid, type, vm, driver; unknown facts are omitted.
  void Identify(const SliceKey& key, SliceFacts& out);
  // Appends readings of all vGPUs: memory and shares; the licence when `slow`. `unix_ns`: now.
  void Read(int64_t unix_ns, bool slow, std::vector<SliceReading>& out);

 private:
  void Emit(uint32_t vgpu, SliceField field, double value, std::vector<SliceReading>& out);
  void ReadShares(uint64_t since_us, std::vector<SliceReading>& out);
  int ReadSharesV1(uint64_t since_us, std::vector<SliceReading>& out);

  NvmlCaller& caller_;
  const uint32_t index_;
  Device gpu_ = nullptr;
  bool host_ = false;
  reader::QueryBackoff list_, info_, shares_;
  std::vector<SliceKey> vgpus_;
  std::vector<VgpuUtilizationInfo> infos_;
  std::vector<VgpuUtilizationSample> samples_;
};

// Reads the slices of one GPU: MIG devices, GPM, vGPUs and the shares of processes, and makes the
// messages about them.
struct SlicesReaderOptions {
  Duration interval = std::chrono::seconds(1), medium = std::chrono::seconds(10),
           slow = std::chrono::seconds(60);
  uint32_t details = 0;  // Details: what is read beyond the usual.
};

// Used by the thread of its GPU. What it is given outlives it. A steady round does not allocate.
class SlicesReader {
 public:
  SlicesReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
               SlicesReaderOptions options);

  // The GPU was opened. `mig`: has it MIG at all, and is it on?
  enum class Mig : uint8_t { kNone, kOff, kOn };
  void Attach(Device device, Mig mig);

  // Before the GPU itself is read: looks for slices when it is time to, or on `rescan`, and sends the
  // lists that have changed.
  void Scan(int64_t boot_ns, bool rescan, reader::MessageOutbox& out);
  // After it: reads what is due and sends it.
  void Read(int64_t boot_ns, reader::MessageOutbox& out);

  // The MIG devices of the last Scan.
  const std::vector<MigDevice>& mig_devices() const noexcept { return mig_.devices(); }
  // Whether GPM will report PCIe rates but has not yet; they replace the call that blocks.
  bool will_report_pcie() const noexcept {
    return !reports_pcie_ && mig_mode_ != Mig::kOn && gpm_.beginning();
  }
  bool reports_pcie() const noexcept { return reports_pcie_; }
  NvmlCaller& caller() noexcept { return caller_; }
  uint64_t calls() const noexcept { return caller_.calls(); }

 private:
  struct Due {
    int64_t next_ns = 0;
    bool Take(int64_t boot_ns, Duration period, Duration slack) noexcept;
  };

  void SendList(SliceKind kind, uint32_t max, const std::vector<SliceKey>& keys, reader::MessageOutbox& out);
  void SendMig(reader::MessageOutbox& out);
  void SendVgpus(reader::MessageOutbox& out);
  void SendFacts(const SliceKey& key, reader::MessageOutbox& out);

  const unsigned index_;
  const Clock& clock_;
  const SlicesReaderOptions options_;
  NvmlCaller caller_;
  MigReader mig_;
  GpmReader gpm_;
  VgpuReader vgpu_;
  ShareReader shares_;
  MessageEncoder encoder_;
  Mig mig_mode_ = Mig::kNone;
  bool attached_ = false, rescan_ = false, reports_pcie_ = false;
  Due scan_, repeat_, medium_, slow_;
  std::vector<SliceKey> keys_;
  SliceFacts facts_;
  std::vector<FactView> views_;
  std::vector<SliceReading> readings_;
};

}  // namespace gpulens::nvml
