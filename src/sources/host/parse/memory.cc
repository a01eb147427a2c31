#include "sources/host/parse/memory.h"

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

// Factor 1 marks the few rows that are counts; the others carry the unit kB, which means KiB.
constexpr uint64_t kKib = 1024;

constexpr UintKey<MemoryInfo> kMemoryKeys[] = {
    {"MemTotal", &MemoryInfo::total, kKib},
    {"MemFree", &MemoryInfo::free, kKib},
    {"MemAvailable", &MemoryInfo::available, kKib},
    {"Buffers", &MemoryInfo::buffers, kKib},
    {"Cached", &MemoryInfo::cached, kKib},
    {"SwapCached", &MemoryInfo::swap_cached, kKib},
    {"Active", &MemoryInfo::active, kKib},
    {"Inactive", &MemoryInfo::inactive, kKib},
    {"Unevictable", &MemoryInfo::unevictable, kKib},
    {"Mlocked", &MemoryInfo::locked, kKib},
    {"SwapTotal", &MemoryInfo::swap_total, kKib},
    {"SwapFree", &MemoryInfo::swap_free, kKib},
    {"Dirty", &MemoryInfo::dirty, kKib},
    {"Writeback", &MemoryInfo::writeback, kKib},
    {"AnonPages", &MemoryInfo::anonymous, kKib},
    {"Mapped", &MemoryInfo::mapped, kKib},
    {"Shmem", &MemoryInfo::shared, kKib},
    {"KReclaimable", &MemoryInfo::kernel_reclaimable, kKib},
    {"Slab", &MemoryInfo::slab, kKib},
    {"SReclaimable", &MemoryInfo::slab_reclaimable, kKib},
    {"SUnreclaim", &MemoryInfo::slab_unreclaimable, kKib},
    {"KernelStack", &MemoryInfo::kernel_stack, kKib},
    {"PageTables", &MemoryInfo::page_tables, kKib},
    {"Percpu", &MemoryInfo::per_cpu, kKib},
    {"CommitLimit", &MemoryInfo::commit_limit, kKib},
    {"Committed_AS", &MemoryInfo::committed, kKib},
    {"HardwareCorrupted", &MemoryInfo::hardware_corrupted, kKib},
    {"AnonHugePages", &MemoryInfo::anonymous_huge, kKib},
    {"HugePages_Total", &MemoryInfo::huge_total, 1},
    {"HugePages_Free", &MemoryInfo::huge_free, 1},
    {"HugePages_Rsvd", &MemoryInfo::huge_reserved, 1},
    {"HugePages_Surp", &MemoryInfo::huge_surplus, 1},
    {"Hugepagesize", &MemoryInfo::huge_page_size, kKib},
    {"Hugetlb", &MemoryInfo::hugetlb, kKib},
};

constexpr UintKey<NodeMemory> kNodeKeys[] = {
    {"MemTotal", &NodeMemory::total, kKib},
    {"MemFree", &NodeMemory::free, kKib},
    {"MemUsed", &NodeMemory::used, kKib},
    {"FilePages", &NodeMemory::file_pages, kKib},
    {"AnonPages", &NodeMemory::anonymous, kKib},
    {"Shmem", &NodeMemory::shared, kKib},
    {"SReclaimable", &NodeMemory::slab_reclaimable, kKib},
    {"SUnreclaim", &NodeMemory::slab_unreclaimable, kKib},
    {"HugePages_Total", &NodeMemory::huge_total, 1},
    {"HugePages_Free", &NodeMemory::huge_free, 1},
};

constexpr UintKey<VmStat> kVmKeys[] = {
    {"pgpgin", &VmStat::paged_in_kib},
    {"pgpgout", &VmStat::paged_out_kib},
    {"pswpin", &VmStat::swapped_in},
    {"pswpout", &VmStat::swapped_out},
    {"pgfault", &VmStat::faults},
    {"pgmajfault", &VmStat::major_faults},
    {"oom_kill", &VmStat::oom_kills},
    {"numa_pages_migrated", &VmStat::numa_pages_migrated},
    {"compact_stall", &VmStat::compact_stalls},
    {"thp_fault_fallback", &VmStat::thp_fault_fallbacks},
};

constexpr UintKey<NodeAllocations> kNumaKeys[] = {
    {"numa_hit", &NodeAllocations::hit},         {"numa_miss", &NodeAllocations::miss},
    {"numa_foreign", &NodeAllocations::foreign}, {"interleave_hit", &NodeAllocations::interleave_hit},
    {"local_node", &NodeAllocations::local},     {"other_node", &NodeAllocations::other},
};

// One line "Key:   123 kB" or "Key:  123". The unit must be the one that the row expects.
template <class T>
Status ParseSizeLine(std::string_view file, std::string_view line, std::string_view rest,
                     std::span<const UintKey<T>> keys, T& out) {
  std::string_view key = NextField(rest);
  if (!key.ends_with(':')) return BadText(file, "no key", line);
  key.remove_suffix(1);
  uint64_t value = 0;
  if (!NextUint(rest, value)) return BadText(file, "not a number", line);
  std::string_view unit = NextField(rest);
  if ((!unit.empty() && unit != "kB") || !NextField(rest).empty()) return BadText(file, "unknown unit", line);
  const UintKey<T>* row = FindKey(keys, key);
  if (row == nullptr) return Ok();
  if (unit.empty() != (row->factor == 1)) return BadText(file, "another unit than expected", line);
  if (!Scale(value, row->factor, value)) return BadText(file, "number too large", line);
  out.*(row->member) = value;
  return Ok();
}

}  // namespace

Status ParseMemoryInfo(std::string_view text, MemoryInfo& out) {
  constexpr std::string_view kFile = "proc/meminfo";
  out = {};
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    RETURN_IF_ERROR(ParseSizeLine<MemoryInfo>(kFile, line, line, kMemoryKeys, out));
  }
  RETURN_IF_ERROR(lines.status());
  if (!out.total || !out.free) return BadText(kFile, "no MemTotal or no MemFree");
  if (*out.total == 0 || *out.free > *out.total) return BadText(kFile, "MemFree is more than MemTotal");
  return Ok();
}

Status ParseVmStat(std::string_view text, VmStat& out) {
  out = {};
  return ParseKeyedUints<VmStat>("proc/vmstat", text, kVmKeys, out);
}

Status ParseNodeMemory(std::string_view text, NodeMemory& out) {
  constexpr std::string_view kFile = "node/meminfo";
  out = {};
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    if (NextField(rest) != "Node" || !AllDigits(NextField(rest)))
      return BadText(kFile, "no \"Node N\"", line);
    RETURN_IF_ERROR(ParseSizeLine<NodeMemory>(kFile, line, rest, kNodeKeys, out));
  }
  RETURN_IF_ERROR(lines.status());
  if (!out.total || !out.free || !out.used) return BadText(kFile, "no MemTotal, MemFree or MemUsed");
  return Ok();
}

Status ParseNodeAllocations(std::string_view text, NodeAllocations& out) {
  out = {};
  return ParseKeyedUints<NodeAllocations>("node/numastat", text, kNumaKeys, out);
}

}  // namespace gpulens
