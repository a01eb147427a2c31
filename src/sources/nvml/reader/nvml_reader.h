// Reads everything the library tells of one GPU, on a schedule of three tiers, into readings.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reader/process/query_backoff.h"
#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/reader/field_ids.h"
#include "sources/nvml/reader/gpu_identity.h"
#include "sources/nvml/reader/link_reader.h"
#include "sources/nvml/reader/mig_reader.h"
#include "sources/nvml/reader/process_list.h"
#include "sources/nvml/reader/sample_reader.h"

namespace gpulens::nvml {

using driver::QueryBackoff;

struct ReaderOptions {
  // Between two readings of a tier; a tier is never read more often than the reader is asked to.
  std::array<Duration, kTierCount> periods = {std::chrono::seconds(1), std::chrono::seconds(10),
                                              std::chrono::seconds(60)};
  std::string sysfs = "/sys";    // Where the memory of a GPU that is a NUMA node is read,
  std::string procfs = "/proc";  // and that of a GPU that has none but the machine's.
  // Driver 535 before 98 lays out _v3 process lists in its own way; _v2 is right there.
  bool avoid_process_v3 = false;
  unsigned driver_major = kDriver580;  // By which some field ids are chosen.
  uint32_t details = kDetailSamples;   // Details: what is read beyond the usual.
};

// Used by one thread. Everything it is given outlives it. Allocates only when it is attached and when
// a GPU has more processes than ever before.
//
// What a GPU does not support is learnt at the first answer, and asked for again as AskAgain says.
class GpuReader final : private ReadingSink {
 public:
  GpuReader(const NvmlLibrary& library, unsigned index, CallSlot& slot, const Clock& clock,
            ReaderOptions options);

  // Opens the GPU and reads its identity; forgets all that was learnt. The library's code.
  int Attach();
  const GpuIdentity& identity() const noexcept { return identity_; }

  // One round over the tiers that are due at `boot_ns`. The results stay until the next round. False
  // when the GPU has to be attached again: it is lost, or its MIG mode has changed.
  bool Read(int64_t boot_ns);
  // The next round reads all tiers: the last one's readings did not arrive.
  void ReadAgain() noexcept { next_ = {}; }
  // In MIG mode: processes are listed by MIG device. Empty: of the GPU. Holds for the next Read.
  void SplitProcesses(std::span<const MigDevice> devices) noexcept { mig_devices_ = devices; }
  // Somebody else tells PCIe rates: none are to be asked for until the next Attach.
  void SkipBlocking() noexcept { skip_blocking_ = true; }
  // What blocks by design (PCIe throughput: 20 ms a direction, only where there is no counter), for
  // after the round's readings are on their way. Appends to no round: replaces the readings.
  bool ReadBlocking();

  std::span<const Reading> readings() const noexcept { return readings_; }
  // True when the last round has read the process list.
  bool has_processes() const noexcept { return has_processes_; }
  std::span<const GpuProcess> processes() const noexcept { return processes_; }
  int64_t processes_boot_ns() const noexcept { return processes_boot_ns_; }
  uint64_t calls() const noexcept { return caller_.calls(); }

 private:
  // A group of fields that one or a few calls give together.
  struct Item {
    Tier tier;
    std::array<Field, 6> fields;  // Field::kCount after the last.
    int (GpuReader::*read)();
  };
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
    bool all_absent = false;  // Then each link is asked.
    QueryBackoff each{};
  };
  static constexpr size_t kItemCount = 31;
  static const std::array<Item, kItemCount> kItems;

  void Emit(Field field, int64_t raw) { Emit(field, ReadStatus::kOk, raw); }
  void Emit(Field field, ReadStatus status, int64_t raw) {
    Emit(0, static_cast<uint16_t>(field), status, raw);
  }
  void Emit(uint8_t part, uint16_t field, ReadStatus status, int64_t raw) override;
  void EmitFailure(std::span<const Field> fields, ReadStatus status);
  ItemContext Context() noexcept { return {caller_, identity_, *this}; }
  bool Queried(uint32_t details) const noexcept { return details == 0 || (details & options_.details) != 0; }
  // A static reading is due with the slow ones until it is there.
  bool Due(Tier tier, bool done) const noexcept {
    return tier == Tier::kStatic ? Due(Tier::kSlow) && !done : Due(tier);
  }
  bool Due(Tier tier) const noexcept { return due_[static_cast<size_t>(tier)]; }
  // Remembers a code that ends the round: the GPU is lost or needs a reset.
  void Note(int code) noexcept;

  void RepeatStatics();
  void ReadItems();
  template <class Function>
  void ReadItem(Tier tier, std::span<const Field> fields, ItemMemory& memory, Function read);
  void ReadFieldIds();
  void RequestFieldIds();
  void RequestLinks();
  void QueryFieldValues();
  void AddRequest(unsigned id, unsigned scope);
  // Whether a field id is not to be asked for now.
  bool FieldIdRests(size_t row) const noexcept;
  void TakeFieldId(size_t row, const FieldValue& value);
  void TakePcieBytes(Field field, const FieldValue& value);
  size_t TakeLinks(LinkCounter& counter, size_t at, size_t end);
  void ReadProcesses();
  int ReadProcessList(size_t list, const MigDevice& of);
  int ReadProcessLists(size_t list);

  int ReadUtilization();
  int ReadEncoder();
  int ReadDecoder();
  int ReadMemory();
  int ReadMemoryOfNode();
  int ReadMemoryOfMachine();
  int EmitUnified(std::string_view meminfo, std::string_view free_key);
  void EmitMemory(const MemoryV2& memory, bool reserved_known);
  int ReadBar1();
  int ReadTemperature();
  int ReadPower();
  int ReadPowerLimit();
  int ReadEnergy();
  template <Field kField, ClockType kType>
  int ReadClock();
  template <Field kField, ClockType kType>
  int ReadMaxClock();
  int ReadPerformanceState();
  int ReadClockReasons();
  int ReadFans();
  int ReadEcc();
  int ReadEccMode();
  int ReadRemappedRows();
  int ReadRetiredPages();
  int ReadRetiredPending();
  int ReadPcieReplay();
  int ReadPcieLink();
  int ReadPcieMaxLink();
  int ReadNvlinks();
  int ReadMigMode();
  int ReadPersistence();
  int ReadOne(Field field, Call call, int (*function)(Device, unsigned*));

  unsigned index_;
  Caller caller_;
  ReaderOptions options_;
  GpuIdentity identity_;

  std::array<int64_t, kTierCount> next_{};
  std::array<bool, kTierCount> due_{};
  std::array<ItemMemory, kItemCount> items_{};
  std::array<ItemMemory, kMaxMoreItems> more_items_{};
  std::array<QueryBackoff, kFieldIdRowCount> field_ids_{};
  std::bitset<kFieldIdRowCount> field_id_done_;
  std::array<QueryBackoff, 3> lists_{};
  QueryBackoff memory_v2_, field_values_, blocking_;
  int64_t now_ns_ = 0;                   // Of the round.
  ReadStatus broken_ = ReadStatus::kOk;  // kLost or kResetRequired ends a round.
  bool pcie_counter_wraps_ = false, skip_blocking_ = false;
  bool blocking_due_ = false, mig_changed_ = false;
  int mig_mode_ = -1;
  std::span<const MigDevice> mig_devices_;
  std::array<uint64_t, 2> pcie_last_{};
  std::array<LinkCounter, 2> links_;
  LinkReader each_link_;
  SampleReader samples_;
  std::vector<Reading> statics_;  // What was read once, to be said again.

  std::vector<Reading> readings_;
  std::vector<FieldValue> requests_;
  std::array<uint8_t, kFieldIdRowCount> requested_rows_{};
  size_t requested_ = 0;
  std::vector<GpuProcess> processes_;
  ProcessLister lister_{caller_, options_.avoid_process_v3};
  int64_t processes_boot_ns_ = 0;
  bool has_processes_ = false;
};

}  // namespace gpulens::nvml
