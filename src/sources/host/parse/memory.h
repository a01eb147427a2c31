// Memory of the machine and of its NUMA nodes as the kernel prints it: /proc/meminfo, /proc/vmstat,
// /sys/devices/system/node/node*/{meminfo,numastat}. Pure functions over text.
//
// Sizes are bytes (the kernel prints KiB). What this kernel does not print is absent, never 0.
// Failures: kDataLoss, kExhausted; the output is then meaningless.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// /proc/meminfo. free + buffers + cached + reclaimable slab + "used" make the total; `available`
// is the kernel's own estimate and overlaps with them.
struct MemoryInfo {
  std::optional<uint64_t> total, free;  // Both present after a good parse.
  std::optional<uint64_t> available, buffers, cached, swap_cached;
  std::optional<uint64_t> active, inactive, unevictable, locked;
  std::optional<uint64_t> swap_total, swap_free;
  std::optional<uint64_t> dirty, writeback, anonymous, mapped, shared;
  std::optional<uint64_t> slab, slab_reclaimable, slab_unreclaimable, kernel_reclaimable;
  std::optional<uint64_t> kernel_stack, page_tables, per_cpu;
  std::optional<uint64_t> commit_limit, committed;
  std::optional<uint64_t> hardware_corrupted, anonymous_huge;
  std::optional<uint64_t> hugetlb, huge_page_size;                             // Bytes.
  std::optional<uint64_t> huge_total, huge_free, huge_reserved, huge_surplus;  // Pages of that size.
};
Status ParseMemoryInfo(std::string_view text, MemoryInfo& out);

// /proc/vmstat: counts since boot. Paging in and out is in KiB, swapping in pages. `faults`
// contains `major_faults`.
struct VmStat {
  std::optional<uint64_t> paged_in_kib, paged_out_kib;
  std::optional<uint64_t> swapped_in, swapped_out;
  std::optional<uint64_t> faults, major_faults;
  std::optional<uint64_t> oom_kills;
  std::optional<uint64_t> numa_pages_migrated, compact_stalls, thp_fault_fallbacks;
};
Status ParseVmStat(std::string_view text, VmStat& out);

// node*/meminfo. Every line is about the same node.
struct NodeMemory {
  std::optional<uint64_t> total, free, used;  // All present after a good parse.
  std::optional<uint64_t> file_pages, anonymous, shared, slab_reclaimable, slab_unreclaimable;
  std::optional<uint64_t> huge_total, huge_free;  // Pages.
};
Status ParseNodeMemory(std::string_view text, NodeMemory& out);

// node*/numastat: pages since boot. The results overlap: hit = local + part of other.
struct NodeAllocations {
  std::optional<uint64_t> hit, miss, foreign, interleave_hit, local, other;
};
Status ParseNodeAllocations(std::string_view text, NodeAllocations& out);

}  // namespace gpulens
