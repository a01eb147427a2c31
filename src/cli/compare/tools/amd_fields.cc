#include "cli/compare/tools/field_makers.h"

namespace gpulens::compare {
namespace {

constexpr std::string_view kPerEngine = "per engine: gpu.engine.utilization, off by default";
constexpr std::string_view kOtherCopies = "of a further die; gpulens exports the first";
constexpr std::string_view kNotReportedClock = "gpulens exports the current and the highest clock";
constexpr std::string_view kOfResidency =
    "exported as gpu.throttle.reason and gpu.throttle.time, in other units";
constexpr std::string_view kOfTable = "a setting of the board's clock table, not a reading";
constexpr std::string_view kOfBlocks = "the sum over blocks, each of which is compared or exported";
constexpr Tolerance kCounts{.slack = 0, .share = 0.01, .why = kOtherMoment};
// What a GPU takes within some seconds; a share of a counter that only grows would hide any error.
constexpr Tolerance kJoules{.slack = 5000, .share = 0, .why = kOtherMoment};
constexpr Tolerance kVolts{.slack = 0.2, .share = 0.1, .why = kOtherMoment};

// What `amd-smi static --json` and `amd-smi metric --json` print of a GPU, ROCm 6.1 to 7.2.
constexpr FieldRow kAmdRows[] = {
    NotCompared("gpu", kKnownBy),
    // static
    TextRow("asic/market_name", "gpu.info", "gpu.model"),
    NotCompared("asic/*", kIdentity),
    {"bus/bdf", How::kBusId, "gpu.info", "gpu.pci.bus_id"},
    NumberRow("bus/max_pcie_width", "gpu.pcie.link.width.max"),
    {"bus/max_pcie_speed", How::kGeneration, "gpu.pcie.link.gen.max"},
    NotCompared("bus/*", kIdentity),
    TextRow("vbios/version", "gpu.info", "gpu.vbios.version"),
    TextRow("ifwi/version", "gpu.info", "gpu.vbios.version"),
    NotCompared("vbios/*", kIdentity),
    NotCompared("ifwi/*", kIdentity),
    NumberRow("limit/max_power", "gpu.power.limit", "gpu.power.limit_type=max"),
    NumberRow("limit/min_power", "gpu.power.limit", "gpu.power.limit_type=min"),
    NumberRow("limit/socket_power", "gpu.power.limit", "gpu.power.limit_type=enforced"),
    NumberRow("limit/ppt0/max_power_limit", "gpu.power.limit", "gpu.power.limit_type=max"),
    NumberRow("limit/ppt0/min_power_limit", "gpu.power.limit", "gpu.power.limit_type=min"),
    NumberRow("limit/ppt0/socket_power_limit", "gpu.power.limit", "gpu.power.limit_type=enforced"),
    NotCompared("limit/ppt1/*", kNotRead),
    NumberRow("limit/slowdown_edge_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=slowdown,gpu.temperature.sensor=edge"),
    NumberRow("limit/slowdown_hotspot_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=slowdown,gpu.temperature.sensor=hotspot"),
    NumberRow("limit/slowdown_vram_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=slowdown,gpu.temperature.sensor=memory"),
    NumberRow("limit/shutdown_edge_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=shutdown,gpu.temperature.sensor=edge"),
    NumberRow("limit/shutdown_hotspot_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=shutdown,gpu.temperature.sensor=hotspot"),
    NumberRow("limit/shutdown_vram_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=shutdown,gpu.temperature.sensor=memory"),
    NotCompared("driver/*", "of the machine, in gpu.driver.info"),
    NotCompared("board/*", kIdentity),
    NotCompared("ras/*", kSetting),
    NotCompared("partition/*", kSetting),
    NotCompared("soc_pstate*", kSetting),
    NotCompared("xgmi_plpd*", kSetting),
    NotCompared("process_isolation*", kSetting),
    NotCompared("numa/*", kIdentity),
    NumberRow("vram/size", "gpu.memory.total"),
    NotCompared("vram/*", kIdentity),
    NotCompared("cache_info/*", kIdentity),
    NotCompared("uuid", kIdentity),
    NotCompared("clock/*/frequency_levels/*", kOfTable),
    NotCompared("clock/*/current_level", kOfTable),
    NotCompared("clock/*/current level", kOfTable),
    // metric
    NumberRow("usage/gfx_activity", "gpu.utilization", "gpu.task.type=compute", kShare),
    NumberRow("usage/umc_activity", "gpu.memory.utilization", "gpu.task.type=memory_controller", kShare),
    NumberRow("usage/mm_activity", "gpu.multimedia.utilization", {}, kShare),
    NotCompared("usage/*", kPerEngine),
    NumberRow("power/socket_power", "gpu.power.instant", {}, kWatts),
    NumberRow("power/gfx_voltage", "gpu.voltage", "gpu.voltage.rail=gfx", kVolts),
    NumberRow("power/soc_voltage", "gpu.voltage", "gpu.voltage.rail=soc", kVolts),
    NumberRow("power/mem_voltage", "gpu.voltage", "gpu.voltage.rail=memory", kVolts),
    NotCompared("power/throttle_status", "exported by cause: gpu.throttle.reason"),
    NotCompared("power/*", kSetting),
    NumberRow("clock/gfx_0/clk", "gpu.clock.frequency", "gpu.clock.type=graphics", kClock),
    NumberRow("clock/gfx_0/max_clk", "gpu.clock.max", "gpu.clock.type=graphics"),
    NumberRow("clock/mem_0/clk", "gpu.clock.frequency", "gpu.clock.type=memory", kClock),
    NumberRow("clock/mem_0/max_clk", "gpu.clock.max", "gpu.clock.type=memory"),
    NumberRow("clock/socclk_0/clk", "gpu.clock.frequency", "gpu.clock.type=soc", kClock),
    NumberRow("clock/socclk_0/max_clk", "gpu.clock.max", "gpu.clock.type=soc"),
    NumberRow("clock/fclk_0/clk", "gpu.clock.frequency", "gpu.clock.type=fabric", kClock),
    NumberRow("clock/fclk_0/max_clk", "gpu.clock.max", "gpu.clock.type=fabric"),
    NumberRow("clock/vclk_0/clk", "gpu.clock.frequency", "gpu.clock.type=vclk0", kClock),
    NumberRow("clock/vclk_0/max_clk", "gpu.clock.max", "gpu.clock.type=vclk0"),
    NumberRow("clock/dclk_0/clk", "gpu.clock.frequency", "gpu.clock.type=dclk0", kClock),
    NumberRow("clock/dclk_0/max_clk", "gpu.clock.max", "gpu.clock.type=dclk0"),
    NotCompared("clock/*_0/*", kNotReportedClock),
    NotCompared("clock/*", kOtherCopies),
    NumberRow("temperature/edge", "gpu.temperature", "gpu.temperature.sensor=edge", kDegrees),
    NumberRow("temperature/hotspot", "gpu.temperature", "gpu.temperature.sensor=hotspot", kDegrees),
    NumberRow("temperature/mem", "gpu.temperature", "gpu.temperature.sensor=memory", kDegrees),
    NumberRow("pcie/width", "gpu.pcie.link.width.current"),
    {"pcie/speed", How::kGeneration, "gpu.pcie.link.gen.current", {}, {}, {}, kStep},
    NotCompared("pcie/bandwidth", "the tool's mean over its own time"),
    NumberRow("pcie/replay_count", "gpu.pcie.replay.count"),
    NumberRow("pcie/l0_to_recovery_count", "gpu.pcie.errors", "gpu.pcie.error_type=recovery"),
    NumberRow("pcie/replay_roll_over_count", "gpu.pcie.errors", "gpu.pcie.error_type=replay_rollover"),
    NumberRow("pcie/nak_sent_count", "gpu.pcie.errors", "gpu.pcie.error_type=nak_sent"),
    NumberRow("pcie/nak_received_count", "gpu.pcie.errors", "gpu.pcie.error_type=nak_received"),
    NotCompared("pcie/*", kNotRead),
    NotCompared("ecc/*", kOfBlocks),
    NumberRow("ecc_blocks/UMC/correctable_count", "gpu.ecc.errors",
              "gpu.ecc.error_type=correctable,gpu.ecc.memory_block=umc", kCounts),
    NumberRow("ecc_blocks/UMC/uncorrectable_count", "gpu.ecc.errors",
              "gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=umc", kCounts),
    NumberRow("ecc_blocks/UMC/deferred_count", "gpu.ecc.errors",
              "gpu.ecc.error_type=deferred,gpu.ecc.memory_block=umc", kCounts),
    NotCompared("ecc_blocks*", "of another block: gpu.ecc.errors has it by gpu.ecc.memory_block"),
    NumberRow("fan/rpm", "gpu.fan.rotation", "gpu.fan.index=0",
              {.slack = 200, .share = 0.1, .why = kOtherMoment}),
    NumberRow("fan/usage", "gpu.fan.speed", {}, {.slack = 0.05, .share = 0.1, .why = kOtherMoment}),
    NotCompared("fan/*", "a step of the fan's control"),
    NotCompared("voltage_curve*", kOfTable),
    NotCompared("overdrive", kSetting),
    NotCompared("mem_overdrive", kSetting),
    NotCompared("perf_level", kSetting),
    NotCompared("xgmi_err", kNotRead),
    NotCompared("voltage/*", kNotRead),
    NumberRow("energy/total_energy_consumption", "gpu.energy.consumption", {}, kJoules),
    NumberRow("mem_usage/total_vram", "gpu.memory.total"),
    NumberRow("mem_usage/used_vram", "gpu.memory.used", {}, kMemory),
    NumberRow("mem_usage/free_vram", "gpu.memory.free", {}, kMemory),
    NumberRow("mem_usage/total_visible_vram", "gpu.memory.visible.total"),
    NumberRow("mem_usage/used_visible_vram", "gpu.memory.visible.used", {}, kMemory),
    NotCompared("mem_usage/free_visible_vram", "total minus used, both of which are compared"),
    NumberRow("mem_usage/total_gtt", "gpu.memory.gtt.total"),
    NumberRow("mem_usage/used_gtt", "gpu.memory.gtt.used", {}, kMemory),
    NotCompared("mem_usage/free_gtt", "total minus used, both of which are compared"),
    NotCompared("throttle/*", kOfResidency),
};

}  // namespace

std::span<const FieldRow> AmdRows() noexcept { return kAmdRows; }

}  // namespace gpulens::compare
