// Reads the numbers of one GPU on a schedule of three tiers.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reader/process/device_reader.h"
#include "sources/nvml/reader/gpu_items.h"
#include "sources/nvml/reader/link_reader.h"
#include "sources/nvml/reader/process_reader.h"
#include "sources/nvml/reader/slices_reader.h"
#include "sources/nvml/reader_protocol.h"

namespace gpulens::nvml {

using reader::QueryBackoff;

// The first driver of today's field ids.
inline constexpr unsigned kDriver580 = 580;
inline constexpr size_t kFieldIdCount = 0
#define GPULENS_NVML_COUNT(...) +1
    GPULENS_NVML_FIELD_VALUES(GPULENS_NVML_COUNT)
#undef GPULENS_NVML_COUNT
    ;

struct GpuReaderOptions {
  // Between two readings of a tier; a tier is never read more often than Read is called.
  std::array<Duration, kTierCount> periods = {std::chrono::seconds(1), std::chrono::seconds(10),
                                              std::chrono::seconds(60)};
  std::string sysfs = "/sys", procfs = "/proc";  // see ItemContext
  // Driver 535 before 98 lays out _v3 process lists in its own way; _v2 is right there.
  bool avoid_process_v3 = false;
  unsigned driver_major = kDriver580;  // By which some field ids are chosen.
  uint32_t details = kDetailSamples;   // Details: what is read beyond the usual.
};

// Used by one thread; its arguments outlive it. Allocates only when it is attached and when a GPU has more
// processes than ever before.
//
// A field that a GPU does not support is found by its first answer, and queried again by QueryBackoff.
class GpuReader final : private ReadingSink {
 public:
  GpuReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
            GpuReaderOptions options);

  // Opens the GPU and reads its identity; forgets all that was learnt. The library's code.
  int Attach();
  const GpuIdentity& identity() const noexcept { return identity_; }

  // One round over the tiers that are due at `boot_ns`. The results stay until the next round. False
  // when the GPU has to be attached again: it is lost, or its MIG mode has changed.
  bool Read(int64_t boot_ns);
  // The next round reads all tiers: the last one's readings did not arrive.
  void ReadAgain() noexcept { tiers_.Reset(); }
  // In MIG mode: processes are listed by MIG device. Empty: of the GPU. Holds for the next Read.
  void SplitProcesses(std::span<const MigDevice> devices) noexcept { mig_devices_ = devices; }
  // Skip PCIe throughput calls until the next Attach; another source provides them.
  void SkipBlocking() noexcept { skip_blocking_ = true; }
  // Reads PCIe throughput, which blocks for 20 ms a direction, where there is no counter: for after the
  // round's readings were sent. Replaces the readings; false when it was not due.
  bool ReadBlocking();

  std::span<const DeviceReading> readings() const noexcept { return readings_; }
  // True when the last round has read the process list.
  bool has_processes() const noexcept { return has_processes_; }
  std::span<const GpuProcess> processes() const noexcept { return processes_; }
  int64_t processes_boot_ns() const noexcept { return processes_boot_ns_; }
  uint64_t calls() const noexcept { return caller_.calls(); }

 private:
  // What was learnt of an item.
  struct ItemMemory {
    QueryBackoff again;
    bool denied = false;
    bool done = false;  // A static one that was read.
  };
  struct LinkCounter {
    Field field;
    FieldId all_links, per_link;
    std::array<uint64_t, kMaxLinks> last{};
    bool all_absent = false;  // then each link is queried
    QueryBackoff each{};
  };
  void Emit(Field field, int64_t raw) { Emit(field, ReadStatus::kOk, raw); }
  void Emit(Field field, ReadStatus status, int64_t raw) {
    Emit(0, static_cast<uint16_t>(field), status, raw);
  }
  void Emit(uint8_t link, uint16_t field, ReadStatus status, int64_t raw) override;
  void EmitFailure(std::span<const Field> fields, ReadStatus status);
  ItemContext Context() noexcept {
    return {caller_, identity_, *this, item_state_, options_.sysfs, options_.procfs};
  }
  bool IsConfigured(uint32_t details) const noexcept {
    return details == 0 || (details & options_.details) != 0;
  }
  // A static reading is due with the slow ones until it is there.
  bool Due(FieldTier tier, bool done) const noexcept {
    return tier == FieldTier::kStatic ? Due(FieldTier::kSlow) && !done : Due(tier);
  }
  bool Due(FieldTier tier) const noexcept { return tiers_.Due(tier); }
  // Remembers a code that ends the round: the GPU is lost or needs a reset.
  void NoteCode(int code) noexcept;

  void RepeatStatics();
  void ReadItems();
  void ReadItem(const GpuItem& item, ItemMemory& memory, const ItemContext& context);
  void ReadFieldIds();
  void RequestFieldIds();
  void RequestLinks();
  void QueryFieldValues();
  void AddRequest(unsigned id, unsigned scope);
  // Whether a field id is not queried now.
  bool FieldIdRests(size_t row) const noexcept;
  void TakeFieldId(size_t row, const FieldValue& value);
  void TakePcieBytes(Field field, const FieldValue& value);
  size_t TakeLinks(LinkCounter& counter, size_t at, size_t end);
  void ReadProcesses();
  int ReadProcessList(size_t list, const MigDevice& of);
  int ReadProcessLists(size_t list);

  unsigned index_;
  NvmlCaller caller_;
  GpuReaderOptions options_;
  GpuIdentity identity_;

  reader::TierClock tiers_;
  std::vector<ItemMemory> items_;  // as GpuItems()
  ItemState item_state_;
  std::array<QueryBackoff, kFieldIdCount> field_ids_{};
  std::bitset<kFieldIdCount> field_id_done_;
  std::array<QueryBackoff, 3> lists_{};
  QueryBackoff field_values_, blocking_;
  int64_t now_ns_ = 0;                   // Of the round.
  ReadStatus broken_ = ReadStatus::kOk;  // kLost or kResetRequired ends a round.
  bool pcie_counter_wraps_ = false, skip_blocking_ = false;
  bool blocking_due_ = false;
  std::span<const MigDevice> mig_devices_;
  std::array<uint64_t, 2> pcie_last_{};
  std::array<LinkCounter, 2> links_;
  LinkReader each_link_;
  SampleReader samples_;
  std::vector<DeviceReading> statics_;  // static readings, to be repeated

  std::vector<DeviceReading> readings_;
  std::vector<FieldValue> requests_;
  std::array<uint8_t, kFieldIdCount> requested_rows_{};
  size_t requested_ = 0;
  std::vector<GpuProcess> processes_;
  ProcessLister lister_{caller_, options_.avoid_process_v3};
  int64_t processes_boot_ns_ = 0;
  bool has_processes_ = false;
};

}  // namespace gpulens::nvml
