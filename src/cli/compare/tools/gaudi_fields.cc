#include "cli/compare/tools/field_makers.h"

namespace gpulens::compare {
namespace {

// What `hl-smi -Q …` prints of a card.
constexpr FieldRow kGaudiRows[] = {
    NotCompared("index", kKnownBy),
    NotCompared("module_id", kIdentity),
    TextRow("uuid", "gpu.info", "gpu.uuid"),
    TextRow("name", "gpu.info", "gpu.model"),
    NotCompared("serial", kIdentity),
    {"bus_id", How::kBusId, "gpu.info", "gpu.pci.bus_id"},
    NotCompared("driver_version", "of the machine, in gpu.driver.info"),
    NumberRow("memory.total", "gpu.memory.total"),
    NumberRow("memory.used", "gpu.memory.used", {}, kMemory),
    NumberRow("memory.free", "gpu.memory.free", {}, kMemory),
    NumberRow("power.draw", "gpu.power.draw", {}, kWatts),
    NumberRow("power.max", "gpu.power.limit", "gpu.power.limit_type=max"),
    NumberRow("temperature.aip", "gpu.temperature", "gpu.temperature.sensor=edge", kDegrees),
    NumberRow("utilization.aip", "gpu.utilization", "gpu.task.type=compute", kShare),
    NumberRow("ecc.errors.uncorrected.volatile.total", "gpu.ecc.errors",
              "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable"),
    NumberRow("ecc.errors.uncorrected.aggregate.total", "gpu.ecc.errors",
              "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable"),
    NumberRow("clocks.current.soc", "gpu.clock.frequency", "gpu.clock.type=soc", kClock),
    NumberRow("clocks.limit.soc", "gpu.clock.limit", "gpu.clock.type=soc"),
    NotCompared("clocks.limit.tpc", kNotRead),
    NumberRow("rows.replaced", "gpu.row_remap.count", "gpu.row_remap.state=replaced"),
    NumberRow("rows.pending", "gpu.row_remap.pending", "gpu.row_remap.state=pending"),
};

}  // namespace

std::span<const FieldRow> GaudiRows() noexcept { return kGaudiRows; }

}  // namespace gpulens::compare
