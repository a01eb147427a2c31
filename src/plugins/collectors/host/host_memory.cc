// Memory of the machine and of its NUMA nodes.

#include "base/result.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/devices.h"

namespace gpulens {
namespace {

using std::chrono::seconds;
using Since = HostSeries::Since;

AttributeSet State(std::string_view value) { return AttributeSet({{"system.memory.state", value}}); }
AttributeSet PagingState(std::string_view value) { return AttributeSet({{"system.paging.state", value}}); }

double Share(uint64_t part, uint64_t whole) noexcept {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::optional<uint64_t> Minus(std::optional<uint64_t> from, std::optional<uint64_t> amount) noexcept {
  if (!from || !amount || *amount > *from) return std::nullopt;
  return *from - *amount;
}

class MemoryPart final : public HostPart {
  using HostPart::HostPart;

  struct StateSeries {
    HostSeries usage, share;
  };
  static StateSeries OfMemory(std::string_view state) {
    return {HostSeries(kSystemMemoryUsage, State(state)), HostSeries(kSystemMemoryUtilization, State(state))};
  }
  static StateSeries OfSwap(std::string_view state) {
    return {HostSeries(kSystemPagingUsage, PagingState(state)),
            HostSeries(kSystemPagingUtilization, PagingState(state))};
  }

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadMemory(memory_));
    uint64_t total = *memory_.total;
    Put(out, limit_, total);
    if (total != 0) PutStates(out, total);
    Put(out, available_, memory_.available);
    Put(out, shared_, memory_.shared);
    Put(out, slab_reclaimable_, memory_.slab_reclaimable);
    Put(out, slab_unreclaimable_, memory_.slab_unreclaimable);
    Put(out, committed_, memory_.committed);
    Put(out, dirty_, memory_.dirty);
    Put(out, writeback_, memory_.writeback);
    if (memory_.swap_total) {
      PutState(out, swap_used_, Minus(memory_.swap_total, memory_.swap_free), *memory_.swap_total);
      PutState(out, swap_free_, memory_.swap_free, *memory_.swap_total);
    }
    return Ok();
  }

  // The states must add up to the total, so reclaimable slab, which is a cache, too, goes with the cache.
  void PutStates(FrameWriter& out, uint64_t total) {
    if (memory_.available) Put(out, utilization_, 1.0 - Share(*memory_.available, total));
    std::optional<uint64_t> cached = memory_.cached;
    if (cached && memory_.slab_reclaimable) *cached += *memory_.slab_reclaimable;
    else cached.reset();
    PutState(out, free_, memory_.free, total);
    PutState(out, buffers_, memory_.buffers, total);
    PutState(out, cached_, cached, total);
    PutState(out, used_, Minus(Minus(Minus(total, memory_.free), memory_.buffers), cached), total);
  }

  void PutState(FrameWriter& out, StateSeries& state, std::optional<uint64_t> bytes, uint64_t total) {
    if (!bytes) return;
    Put(out, state.usage, *bytes);
    if (total != 0) Put(out, state.share, Share(*bytes, total));
  }

  MemoryInfo memory_;
  HostSeries limit_{kSystemMemoryLimit}, utilization_{kHostMemoryUtilization};
  HostSeries available_{kSystemMemoryLinuxAvailable}, shared_{kSystemMemoryLinuxShared};
  HostSeries slab_reclaimable_{kSystemMemoryLinuxSlabUsage,
                               AttributeSet({{"linux.memory.slab.state", "reclaimable"}})};
  HostSeries slab_unreclaimable_{kSystemMemoryLinuxSlabUsage,
                                 AttributeSet({{"linux.memory.slab.state", "unreclaimable"}})};
  HostSeries committed_{kHostMemoryCommitted};
  HostSeries dirty_{kHostMemoryDirty, AttributeSet({{"host.memory.writeback_state", "dirty"}})};
  HostSeries writeback_{kHostMemoryDirty, AttributeSet({{"host.memory.writeback_state", "writeback"}})};
  StateSeries used_ = OfMemory("used"), free_ = OfMemory("free"), buffers_ = OfMemory("buffers"),
              cached_ = OfMemory("cached"), swap_used_ = OfSwap("used"), swap_free_ = OfSwap("free");
};

AttributeSet Swapping(std::string_view direction) {
  return AttributeSet({{"system.paging.direction", direction}, {"system.paging.fault.type", "major"}});
}

// The kernel adds up every processor's counts for this file.
class VmStatPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    VmStat vm;
    RETURN_IF_ERROR(host_.system.ReadVmStat(vm));
    Put(out, in_, vm.swapped_in);
    Put(out, out_, vm.swapped_out);
    Put(out, major_, vm.major_faults);
    Put(out, minor_, Minus(vm.faults, vm.major_faults));
    Put(out, oom_kills_, vm.oom_kills);
    return Ok();
  }

  HostSeries in_{kSystemPagingOperations, Swapping("in"), Since::kBoot};
  HostSeries out_{kSystemPagingOperations, Swapping("out"), Since::kBoot};
  HostSeries major_{kSystemPagingFaults, AttributeSet({{"system.paging.fault.type", "major"}}), Since::kBoot};
  HostSeries minor_{kSystemPagingFaults, AttributeSet({{"system.paging.fault.type", "minor"}}), Since::kBoot};
  HostSeries oom_kills_{kHostMemoryOomKills, {}, Since::kBoot};
};

class HugePagesPart final : public HostPart {
  using HostPart::HostPart;

  struct Size : HostDevice<uint64_t> {
    using HostDevice::HostDevice;
    HostSeries used{kHostMemoryHugepages, AttributeSet({{"host.hugepage.state", "used"}})};
    HostSeries free{kHostMemoryHugepages, AttributeSet({{"host.hugepage.state", "free"}})};
    HostSeries reserved{kHostMemoryHugepages, AttributeSet({{"host.hugepage.state", "reserved"}})};
  };

  Status Read(FrameWriter& out) override {
    list_.clear();  // values of an earlier reading must not stay after a failure
    Status status = ReadHugePages(host_.files, host_.names, list_);
    sizes_.Begin();
    for (const HugePages& pages : list_) {
      Size& size = sizes_.At(pages.page_bytes, [&] {
        return EntityOf("hugepages", {{"host.hugepage.size", static_cast<int64_t>(pages.page_bytes)}});
      });
      Put(out, size.used, Minus(pages.total, pages.free), size.entity);
      // The kernel counts reserved pages as free; here the states do not overlap.
      Put(out, size.free, Minus(pages.free, pages.reserved), size.entity);
      Put(out, size.reserved, pages.reserved, size.entity);
    }
    sizes_.End(out.table());
    return status;
  }

  std::vector<HugePages> list_;
  DeviceList<Size> sizes_;
};

// Errors that the memory controllers saw.
class EdacPart final : public HostPart {
  using HostPart::HostPart;

  struct Controller : HostDevice<uint32_t> {
    using HostDevice::HostDevice;
    HostSeries correctable{kHostMemoryHardwareErrors, AttributeSet({{"gpu.ecc.error_type", "correctable"}})};
    HostSeries uncorrectable{kHostMemoryHardwareErrors,
                             AttributeSet({{"gpu.ecc.error_type", "uncorrectable"}})};
  };

  Status Read(FrameWriter& out) override {
    list_.clear();  // values of an earlier reading must not stay after a failure
    Status status = ReadMemoryControllers(host_.files, host_.names, list_);
    controllers_.Begin();
    for (const MemoryController& now : list_) {
      Controller& known = controllers_.At(now.number, [&] {
        return EntityOf("memory_controller", {{"host.memory.controller", int64_t{now.number}}});
      });
      Put(out, known.correctable, now.correctable, known.entity);
      Put(out, known.uncorrectable, now.uncorrectable, known.entity);
    }
    controllers_.End(out.table());
    return status;
  }

  std::vector<MemoryController> list_;
  DeviceList<Controller> controllers_;
};

AttributeSet NumaResult(std::string_view value) { return AttributeSet({{"host.numa.result", value}}); }

class NumaPart final : public HostPart {
  using HostPart::HostPart;

  struct Node : HostDevice<uint32_t> {
    using HostDevice::HostDevice;
    HostSeries used{kHostNumaMemoryUsage, State("used")}, free{kHostNumaMemoryUsage, State("free")};
    HostSeries hit{kHostNumaMemoryAllocations, NumaResult("hit"), Since::kBoot};
    HostSeries miss{kHostNumaMemoryAllocations, NumaResult("miss"), Since::kBoot};
    HostSeries foreign{kHostNumaMemoryAllocations, NumaResult("foreign"), Since::kBoot};
    HostSeries local{kHostNumaMemoryAllocations, NumaResult("local"), Since::kBoot};
    HostSeries other{kHostNumaMemoryAllocations, NumaResult("other"), Since::kBoot};
  };

  Status Read(FrameWriter& out) override {
    list_.clear();  // values of an earlier reading must not stay after a failure
    Status status = ReadNumaNodes(host_.files, host_.names, list_);
    nodes_.Begin();
    for (const NumaNode& now : list_) {
      Node& node = nodes_.At(
          now.number, [&] { return EntityOf("numa_node", {{"host.numa.node", int64_t{now.number}}}); });
      PutNode(out, node, now);
    }
    nodes_.End(out.table());
    return status;
  }

  void PutNode(FrameWriter& out, Node& node, const NumaNode& now) {
    Put(out, node.used, now.memory.used, node.entity);
    Put(out, node.free, now.memory.free, node.entity);
    Put(out, node.hit, now.allocations.hit, node.entity);
    Put(out, node.miss, now.allocations.miss, node.entity);
    Put(out, node.foreign, now.allocations.foreign, node.entity);
    Put(out, node.local, now.allocations.local, node.entity);
    Put(out, node.other, now.allocations.other, node.entity);
  }

  std::vector<NumaNode> list_;
  DeviceList<Node> nodes_;
};

}  // namespace

void AddMemoryParts(HostContext& host, HostParts& parts) {
  AddPart<MemoryPart>(host, parts, {.needs = "proc/meminfo", .essential = true});
  AddPart<VmStatPart>(host, parts, {.needs = "proc/vmstat", .every = seconds(10)});
  AddPart<HugePagesPart>(host, parts, {.needs = "sys/kernel/mm/hugepages", .every = seconds(60)});
  AddPart<EdacPart>(host, parts, {.needs = "sys/devices/system/edac/mc", .every = seconds(60)});
  AddPart<NumaPart>(host, parts, {.needs = "sys/devices/system/node", .every = seconds(10)});
}

}  // namespace gpulens
