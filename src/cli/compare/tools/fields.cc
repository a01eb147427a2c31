#include "cli/compare/tools/fields.h"

#include "base/parse.h"
#include "base/text.h"

namespace gpulens::compare {

FieldTable::FieldTable(std::span<const FieldRow> rows, std::span<const FieldFamily> families,
                       std::span<const UncomparedFields> uncompared)
    : rows_(rows.begin(), rows.end()) {
  auto with = [this](std::string_view pattern, std::string_view word) -> std::string_view {
    const size_t star = pattern.find('*');
    std::string& text = texts_.emplace_back(pattern.substr(0, star));
    return text.append(word).append(pattern.substr(star + 1));
  };
  for (const FieldFamily& family : families) {
    for (std::string_view rest = family.words; !rest.empty();) {
      std::string_view ours = TakeUntil(rest, ' ');
      const std::string_view theirs = TakeUntil(ours, ':');
      FieldRow& row = rows_.emplace_back(family.row);
      row.path = with(family.row.path, theirs);
      row.attributes = with(family.row.attributes, ours.empty() ? theirs : ours);
    }
  }
  for (const UncomparedFields& fields : uncompared) {
    for (std::string_view rest = fields.paths; !rest.empty();)
      rows_.push_back(NotCompared(TakeUntil(rest, ' '), fields.reason));
  }
}

std::span<const FieldRow> RowsFor(std::span<const FieldRow> rows, std::string_view path) noexcept {
  for (size_t first = 0; first < rows.size(); ++first) {
    if (rows[first].path != path) continue;
    size_t last = first;
    while (last < rows.size() && rows[last].path == path) ++last;
    return rows.subspan(first, last - first);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].path.find('*') != rows[i].path.npos && MatchesStars(rows[i].path, path))
      return rows.subspan(i, 1);
  }
  return {};
}

namespace {

constexpr std::string_view kPerEngine = "per engine: gpu.engine.utilization, off by default";
constexpr std::string_view kOtherCopies = "of a further die; gpulens exports the first";
constexpr std::string_view kNotReportedClock = "gpulens exports the current and the highest clock";
constexpr std::string_view kOfResidency =
    "exported as gpu.throttle.reason and gpu.throttle.time, in other units";
constexpr std::string_view kOfTable = "a setting of the board's clock table, not a reading";
constexpr std::string_view kOfBlocks = "the sum over blocks, each of which is compared or exported";
constexpr FieldTolerance kCounts{.slack = 0, .share = 0.01, .why = kOtherMoment};
// What a GPU takes within some seconds; a share of a counter that only grows would hide any error.
constexpr FieldTolerance kJoules{.slack = 5000, .share = 0, .why = kOtherMoment};
constexpr FieldTolerance kVolts{.slack = 0.2, .share = 0.1, .why = kOtherMoment};

// What `amd-smi static --json` and `amd-smi metric --json` print of a GPU, ROCm 6.1 to 7.2.
constexpr FieldRow kAmdRows[] = {
    // static
    TextRow("asic/market_name", "gpu.info", "gpu.model"),
    {"bus/bdf", FieldComparison::kBusId, "gpu.info", "gpu.pci.bus_id"},
    NumberRow("bus/max_pcie_width", "gpu.pcie.link.width.max"),
    {"bus/max_pcie_speed", FieldComparison::kGeneration, "gpu.pcie.link.gen.max"},
    TextRow("vbios/version", "gpu.info", "gpu.vbios.version"),
    TextRow("ifwi/version", "gpu.info", "gpu.vbios.version"),
    NotCompared("driver/*", "of the machine, in gpu.driver.info"),
    NumberRow("vram/size", "gpu.memory.total"),
    NotCompared("clock/*/current level", kOfTable),
    // metric
    NumberRow("usage/gfx_activity", "gpu.utilization", "gpu.task.type=compute", kShare),
    NumberRow("usage/umc_activity", "gpu.memory.utilization", "gpu.task.type=memory_controller", kShare),
    NumberRow("usage/mm_activity", "gpu.multimedia.utilization", {}, kShare),
    NumberRow("power/socket_power", "gpu.power.instant", {}, kWatts),
    NotCompared("power/throttle_status", "exported by cause: gpu.throttle.reason"),
    NumberRow("pcie/width", "gpu.pcie.link.width.current"),
    {"pcie/speed", FieldComparison::kGeneration, "gpu.pcie.link.gen.current", {}, {}, {}, kStep},
    NotCompared("pcie/bandwidth", "the tool's mean over its own time"),
    NumberRow("pcie/replay_count", "gpu.pcie.replay.count"),
    NotCompared("ecc_blocks*", "of another block: gpu.ecc.errors has it by gpu.ecc.memory_block"),
    NumberRow("fan/rpm", "gpu.fan.rotation", "gpu.fan.index=0",
              {.slack = 200, .share = 0.1, .why = kOtherMoment}),
    NumberRow("fan/usage", "gpu.fan.speed", {}, {.slack = 0.05, .share = 0.1, .why = kOtherMoment}),
    NotCompared("fan/*", "a step of the fan's control"),
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
};

// Rows that differ in one word, which replaces the star.
constexpr FieldFamily kAmdRowsFamilies[] = {
    {NumberRow("limit/*_temperature", "gpu.temperature.limit", "gpu.temperature.limit_type=*"),
     "slowdown_edge:slowdown,gpu.temperature.sensor=edge "
     "slowdown_hotspot:slowdown,gpu.temperature.sensor=hotspot "
     "slowdown_vram:slowdown,gpu.temperature.sensor=memory "
     "shutdown_edge:shutdown,gpu.temperature.sensor=edge "
     "shutdown_hotspot:shutdown,gpu.temperature.sensor=hotspot "
     "shutdown_vram:shutdown,gpu.temperature.sensor=memory"},
    {NumberRow("limit/*_power", "gpu.power.limit", "gpu.power.limit_type=*"), "max min socket:enforced"},
    {NumberRow("limit/ppt0/*_power_limit", "gpu.power.limit", "gpu.power.limit_type=*"),
     "max min socket:enforced"},
    {NumberRow("power/*_voltage", "gpu.voltage", "gpu.voltage.rail=*", kVolts), "gfx soc mem:memory"},
    {NumberRow("clock/*_0/clk", "gpu.clock.frequency", "gpu.clock.type=*", kClock),
     "gfx:graphics mem:memory socclk:soc fclk:fabric vclk:vclk0 dclk:dclk0"},
    {NumberRow("clock/*_0/max_clk", "gpu.clock.max", "gpu.clock.type=*"),
     "gfx:graphics mem:memory socclk:soc fclk:fabric vclk:vclk0 dclk:dclk0"},
    {NumberRow("temperature/*", "gpu.temperature", "gpu.temperature.sensor=*", kDegrees),
     "edge hotspot mem:memory"},
    {NumberRow("pcie/*_count", "gpu.pcie.errors", "gpu.pcie.error_type=*"),
     "l0_to_recovery:recovery replay_roll_over:replay_rollover nak_sent nak_received"},
    {NumberRow("ecc_blocks/UMC/*_count", "gpu.ecc.errors", "gpu.ecc.error_type=*", kCounts),
     "correctable:correctable,gpu.ecc.memory_block=umc "
     "uncorrectable:uncorrectable,gpu.ecc.memory_block=umc "
     "deferred:deferred,gpu.ecc.memory_block=umc"},
};

// Fields that are not compared, by reason.
constexpr UncomparedFields kAmdRowsUncompared[] = {
    {kKnownBy, "gpu"},
    {kIdentity, "uuid asic/* bus/* vbios/* ifwi/* board/* numa/* vram/* cache_info/*"},
    {kSetting,
     "overdrive mem_overdrive perf_level ras/* partition/* soc_pstate* xgmi_plpd* process_isolation* "
     "power/*"},
    {kNotRead, "xgmi_err limit/ppt1/* pcie/* voltage/*"},
    {kOfTable, "clock/*/frequency_levels/* clock/*/current_level voltage_curve*"},
    {kNotReportedClock, "clock/*_0/*"},
    {kOtherCopies, "clock/*"},
    {kPerEngine, "usage/*"},
    {kOfBlocks, "ecc/*"},
    {kOfResidency, "throttle/*"},
};

}  // namespace

std::span<const FieldRow> AmdRows() {
  static const FieldTable kTable(kAmdRows, kAmdRowsFamilies, kAmdRowsUncompared);
  return kTable.rows();
}

namespace {

// What `hl-smi -Q …` prints of a card.
constexpr FieldRow kGaudiRows[] = {
    NotCompared("index", kKnownBy),
    NotCompared("module_id", kIdentity),
    TextRow("uuid", "gpu.info", "gpu.uuid"),
    TextRow("name", "gpu.info", "gpu.model"),
    NotCompared("serial", kIdentity),
    {"bus_id", FieldComparison::kBusId, "gpu.info", "gpu.pci.bus_id"},
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

std::span<const FieldRow> GaudiRows() { return kGaudiRows; }

namespace {

// Fields of `nvidia-smi -q -x`, drivers 418 to 610. Rows of one path are
// together.
constexpr std::string_view kOfBusId = "a part of pci_bus_id, which is compared";
constexpr std::string_view kOfDevice = "PCI code of the model, not a reading";
constexpr std::string_view kNotPublic = "NVML has no public call that reads it";
constexpr std::string_view kList = "a list of possible settings, not a reading";
constexpr std::string_view kBlock = "a block that is empty here";
constexpr std::string_view kSum = "compared as the sum, in sram_uncorrectable";

constexpr std::string_view kVersion = "gpu.firmware.version";

constexpr FieldRow ReasonRow(std::string_view path, std::string_view cause, std::string_view silent = {}) {
  FieldRow row = FlagRow(path, "gpu.throttle.reason", cause, kStep);
  row.silent = silent;
  return row;
}
constexpr FieldRow ThrottleTimeRow(std::string_view path, std::string_view cause) {
  return NumberRow(path, "gpu.throttle.time", cause, kSeldomSeconds);
}
constexpr FieldRow PlaceRow(std::string_view path, std::string_view attributes) {
  return NumberRow(path, "gpu.ecc.location.errors", attributes);
}

constexpr std::string_view kPcieRate =
    "the tool measures for 20 ms, gpulens takes the mean between two of its readings";
constexpr std::string_view kOneFan = "the tool shows the first fan, gpulens the fastest of several";
constexpr std::string_view kMeanOfOne = "gpulens exports the mean if the board has one";
constexpr std::string_view kNoFabric = "the GPU is in no fabric, see fabric/state";
constexpr std::string_view kNoReason = "the board does not support this reason";
constexpr std::string_view kNoSession = "gpulens exports no mean if there is no session";
constexpr std::string_view kNoCluster = "all zeros: this machine belongs to no cluster";
constexpr std::string_view kOnlyInRacks = "gpulens exports the location only of boards in a rack";
constexpr std::string_view kShared =
    "the GPU has no memory of its own: gpulens exports the machine's, as counted by the kernel";
constexpr std::string_view kOfShared = "for memory shared with the CPU, gpulens exports only size and use";
constexpr std::string_view kNoSamples = "the driver has no sample for gpulens at this moment";

// The tool's words and those of gpulens, as in FieldFamily.
constexpr std::string_view kReasonWords =
    "applications_clocks_setting:clock_setting sw_power_cap:power_software "
    "hw_slowdown:slowdown_hardware hw_thermal_slowdown:temp_hardware "
    "hw_power_brake_slowdown:power_brake sw_thermal_slowdown:temp_software "
    "display_clocks_setting:display";
constexpr std::string_view kBlockWords =
    "sram_correctable:correctable,gpu.ecc.memory_block=sram "
    "sram_uncorrectable:uncorrectable,gpu.ecc.memory_block=sram "
    "dram_correctable:correctable,gpu.ecc.memory_block=dram "
    "dram_uncorrectable:uncorrectable,gpu.ecc.memory_block=dram";
constexpr std::string_view kPlaceWords =
    "device_memory:dram register_file:register l1_cache:l1 l2_cache:l2 texture_memory:texture "
    "texture_shm:shared cbu";
constexpr std::string_view kLimitWords =
    "max:shutdown,gpu.temperature.sensor=edge slow:slowdown,gpu.temperature.sensor=edge "
    "max_gpu:max_operating,gpu.temperature.sensor=edge "
    "max_mem:max_operating,gpu.temperature.sensor=memory";
constexpr FieldRow kNvidiaRows[] = {
    // Of the machine.
    TextRow("driver_version", "gpu.driver.info", "gpu.driver.version"),
    TextRow("cuda_version", "gpu.driver.info", "gpu.runtime.version"),
    NumberRow("attached_gpus", "gpu.devices", "gpu.vendor=nvidia"),
    // Who it is.
    TextRow("product_name", "gpu.info", "gpu.model"),
    TextRow("product_architecture", "gpu.info", "gpu.architecture"),
    FlagRow("display_active", "gpu.display.active"),
    FlagRow("persistence_mode", "gpu.persistence.enabled"),
    // Of each MIG device.
    NotCompared("mig_devices/mig_device/index", "numbered by the tool"),
    NotCompared("mig_devices/mig_device/device_attributes/*",
                "the size of the slice, in gpu.mig.info as its profile"),
    NumberRow("mig_devices/mig_device/fb_memory_usage/total", "gpu.mig.memory.total", {}, kExact),
    NumberRow("mig_devices/mig_device/fb_memory_usage/reserved", "gpu.mig.memory.reserved", {}, kMemory),
    NumberRow("mig_devices/mig_device/fb_memory_usage/used", "gpu.mig.memory.used", {}, kMemory),
    NumberRow("mig_devices/mig_device/fb_memory_usage/free", "gpu.mig.memory.free", {}, kMemory),
    NumberRow("mig_devices/mig_device/bar1_memory_usage/used", "gpu.mig.bar1.used", {}, kSeldomMemory),
    NotCompared("driver_model/*", "only on Windows"),
    TextRow("serial", "gpu.info", "gpu.serial"),
    TextRow("minor_number", "gpu.info", "gpu.minor"),
    TextRow("vbios_version", "gpu.info", "gpu.vbios.version"),
    TextRow("platformInfo/chassis_serial_number", "gpu.platform.info", "gpu.platform.chassis_serial",
            kOnlyInRacks),
    TextRow("platformInfo/slot_number", "gpu.platform.info", "gpu.platform.slot", kOnlyInRacks),
    TextRow("platformInfo/tray_index", "gpu.platform.info", "gpu.platform.tray", kOnlyInRacks),
    TextRow("platformInfo/host_id", "gpu.platform.info", "gpu.platform.host", kOnlyInRacks),
    TextRow("platformInfo/module_id", "gpu.platform.info", "gpu.platform.module", kOnlyInRacks),
    TextRow("inforom_version/img_version", "gpu.info", "gpu.inforom.version"),
    NotCompared("inforom_version/*", "version of an InfoROM object; gpulens exports that of the image"),
    StateRow("gpu_virtualization_mode/virtualization_mode", "gpu.virtualization.mode"),
    FlagRow("gpu_reset_status/reset_required", "gpu.state", "gpu.state=reset_required"),
    FlagRow("gpu_reset_status/drain_and_reset_recommended", "gpu.recovery.action",
            "gpu.recovery.action=drain_and_reset"),
    StateRow("gpu_recovery_action", "gpu.recovery.action"),
    {"gsp_firmware_version", FieldComparison::kText, "gpu.firmware.info", kVersion},
    NotCompared("ibmnpu/*", "only on IBM POWER machines"),
    // PCI.
    {"pci/pci_bus_id", FieldComparison::kBusId, "gpu.info", "gpu.pci.bus_id"},
    NumberRow("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "gpu.pcie.link.gen.max"),
    NumberRow("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "gpu.pcie.link.gen.current", {},
              {.slack = 0, .share = 0, .why = "read at another moment: an idle link slows down"}),
    NotCompared("pci/pci_gpu_link_info/pcie_gen/*",
                "of one end of the link; gpulens exports what both ends support"),
    NumberRow("pci/pci_gpu_link_info/link_widths/max_link_width", "gpu.pcie.link.width.max"),
    NumberRow("pci/pci_gpu_link_info/link_widths/current_link_width", "gpu.pcie.link.width.current"),
    NumberRow("pci/replay_counter", "gpu.pcie.replay.count"),
    NumberRow("pci/replay_rollover_counter", "gpu.pcie.errors", "gpu.pcie.error_type=replay_rollover"),
    NumberRow("fan_speed", "gpu.fan.speed", {}, {.slack = 0.05, .share = 0.1, .why = kOtherMoment}, kOneFan),
    NumberRow("performance_state", "gpu.power.state", {}, kStep),
    // Why clocks are held down: newer drivers, then older ones.
    FlagRow("clocks_event_reasons/clocks_event_reason_gpu_idle", "gpu.clock.idle", {}, kStep),
    ReasonRow("clocks_event_reasons/clocks_event_reason_sync_boost", "gpu.throttle.cause=syncboost",
              kNoReason),
    FlagRow("clocks_throttle_reasons/clocks_throttle_reason_gpu_idle", "gpu.clock.idle", {}, kStep),
    ReasonRow("clocks_throttle_reasons/clocks_throttle_reason_sync_boost", "gpu.throttle.cause=syncboost",
              kNoReason),
    // Memory.
    NumberRow("fb_memory_usage/total", "gpu.memory.total"),
    NumberRow("fb_memory_usage/total", "gpu.memory.unified.total", {}, kExact, kShared),
    NumberRow("fb_memory_usage/reserved", "gpu.memory.reserved", {}, kMemory, {}, kOfShared),
    NumberRow("fb_memory_usage/used", "gpu.memory.used", {}, kMemory),
    NumberRow("fb_memory_usage/used", "gpu.memory.unified.used", {}, kMemory, kShared),
    NotCompared("fb_memory_usage/used_with_reserved", "an older tool, which counts reserved memory as used"),
    NumberRow("fb_memory_usage/free", "gpu.memory.free", {}, kMemory, {}, kOfShared),
    NumberRow("bar1_memory_usage/total", "gpu.memory.bar1.total"),
    NumberRow("bar1_memory_usage/used", "gpu.memory.bar1.used", {}, kSeldomMemory),
    NumberRow("bar1_memory_usage/free", "gpu.memory.bar1.free", {}, kSeldomMemory),
    NumberRow("cc_protected_memory_usage/total", "gpu.confidential_compute.memory",
              "gpu.memory.protection=protected"),
    StateRow("compute_mode", "gpu.compute_mode"),
    // FieldComparison busy it is.
    NumberRow("utilization/gpu_util", "gpu.utilization", "gpu.task.type=compute", kShare),
    NumberRow("utilization/memory_util", "gpu.memory.utilization", "gpu.task.type=memory_controller", kShare),
    NumberRow("utilization/encoder_util", "gpu.encode.utilization", {}, kShare),
    NumberRow("utilization/decoder_util", "gpu.decode.utilization", {}, kShare),
    NumberRow("utilization/jpeg_util", "gpu.jpeg.utilization", {}, kSeldomShare),
    NumberRow("utilization/ofa_util", "gpu.ofa.utilization", {}, kSeldomShare),
    NumberRow("encoder_stats/session_count", "gpu.encoder.sessions", {}, kSessions),
    NumberRow("encoder_stats/average_fps", "gpu.encoder.frame_rate", {},
              {.slack = 10, .share = 0.5, .why = kReadSeldom}, {}, kNoSession),
    {"encoder_stats/average_latency",
     FieldComparison::kNumber,
     "gpu.encoder.latency",
     {},
     {},
     kNoSession,
     {.slack = 0.01, .share = 0.5, .why = kReadSeldom},
     1e-6},
    NumberRow("fbc_stats/session_count", "gpu.fbc.sessions", {}, kSessions),
    // Errors of memory.
    FlagRow("ecc_errors/aggregate/sram_threshold_exceeded", "gpu.ecc.sram.threshold_exceeded"),
    FlagRow("ecc_errors/unrepairable_memory", "gpu.memory.unrepairable"),
    // The same of older boards, by place.
    NotCompared("retired_pages/*/retired_pagelist*", "addresses of pages, not a reading"),
    FlagRow("retired_pages/pending_blacklist", "gpu.retired_pages.pending"),
    FlagRow("retired_pages/pending_retirement", "gpu.retired_pages.pending"),
    FlagRow("remapped_rows/remapped_row_pending", "gpu.row_remap.reset_pending"),
    FlagRow("remapped_rows/remapped_row_failure", "gpu.row_remap.failed"),
    // Temperatures and their limits: in degrees, or as the distance from slowing down.
    NumberRow("temperature/gpu_temp", "gpu.temperature", "gpu.temperature.sensor=edge", kDegrees),
    NumberRow("temperature/gpu_temp_tlimit", "gpu.temperature.margin", {}, kDegrees),
    NumberRow("temperature/gpu_target_temperature", "gpu.temperature.limit",
              "gpu.temperature.limit_type=target,gpu.temperature.sensor=edge"),
    NumberRow("temperature/memory_temp", "gpu.temperature", "gpu.temperature.sensor=memory", kDegrees),
    // Power. Older drivers first.
    NotCompared("power_readings/power_state", "the same as performance_state, which is compared"),
    NumberRow("power_readings/power_draw", "gpu.power.draw", {}, kWatts),
    NumberRow("power_readings/power_limit", "gpu.power.limit", "gpu.power.limit_type=requested"),
    NotCompared("gpu_power_readings/power_state", "the same as performance_state, which is compared"),
    NumberRow("gpu_power_readings/power_draw", "gpu.power.draw", {}, kWatts),
    NumberRow("gpu_power_readings/average_power_draw", "gpu.power.average", {}, kSeldomWatts),
    NumberRow("gpu_power_readings/average_power_draw", "gpu.power.draw", {}, kWatts),
    NumberRow("gpu_power_readings/instant_power_draw", "gpu.power.instant", {}, kWatts),
    NumberRow("gpu_power_readings/instant_power_draw", "gpu.power.draw", {}, kWatts),
    // Driver 610 has three of them in a block.
    NumberRow("gpu_memory_power_readings/power_draw", "gpu.memory.power", {}, kSeldomWatts),
    NumberRow("gpu_memory_power_readings/average_power_draw", "gpu.memory.power", {}, kSeldomWatts),
    ToolMayBeSilent(NumberRow("gpu_memory_power_readings/instant_power_draw", "gpu.memory.power", {},
                              kSeldomWatts, kMeanOfOne),
                    kMeanOfOne),
    NotCompared("module_power_readings/power_state", "the same as performance_state, which is compared"),
    NumberRow("module_power_readings/power_draw", "gpu.module.power", {}, kSeldomWatts),
    NumberRow("module_power_readings/average_power_draw", "gpu.module.power", {}, kSeldomWatts),
    ToolMayBeSilent(NumberRow("module_power_readings/instant_power_draw", "gpu.module.power", {},
                              kSeldomWatts, kMeanOfOne),
                    kMeanOfOne),
    NotCompared("module_power_readings/*", "limits of the module, which gpulens does not read"),
    NumberRow("edpp_multiplier", "nvidia.edpp.multiplier"),
    // Clocks.
    // NVLink fabric.
    StateRow("fabric/state", "gpu.fabric.state"),
    FaultRow("fabric/status", "gpu.fabric.status", {}, kNoFabric),
    TextRow("fabric/cliqueId", "gpu.fabric.info", "gpu.fabric.clique_id"),
    TextRow("fabric/clusterUuid", "gpu.fabric.info", "gpu.fabric.cluster_uuid", kNoCluster),
    NotCompared("fabric/health/summary", "the sum of the conditions, which are compared"),
    // Of each process.
    NotCompared("processes/process_info/type", "an attribute of the series, by which memory is compared"),
    NotCompared("processes/process_info/process_name", "not a reading; enrichers of the agent export it"),
    NumberRow("processes/process_info/used_memory", "gpu.process.memory.used", {}, kMemory),
    NotCompared("accounted_processes*", "accounting of ended processes, which gpulens does not read"),
};

// Rows that differ in one word, which replaces the star.
constexpr FieldFamily kNvidiaRowsFamilies[] = {
    {ReasonRow("clocks_event_reasons/clocks_event_reason_*", "gpu.throttle.cause=*"), kReasonWords},
    {ReasonRow("clocks_throttle_reasons/clocks_throttle_reason_*", "gpu.throttle.cause=*"), kReasonWords},
    {ThrottleTimeRow("clocks_event_reasons_counters/clocks_event_reasons_counters_*", "gpu.throttle.cause=*"),
     "sw_power_cap:power_software sync_boost:syncboost sw_therm_slowdown:temp_software "
     "hw_therm_slowdown:temp_hardware hw_power_brake:power_brake"},
    {PlaceRow("ecc_errors/volatile/*", "gpu.ecc.count_type=volatile,gpu.ecc.error_type=*"), kBlockWords},
    {NumberRow("ecc_errors/volatile/*/total", "gpu.ecc.errors",
               "gpu.ecc.count_type=volatile,gpu.ecc.error_type=*"),
     "single_bit:correctable double_bit:uncorrectable"},
    {PlaceRow("ecc_errors/volatile/single_bit/*",
              "gpu.ecc.count_type=volatile,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=*"),
     kPlaceWords},
    {PlaceRow("ecc_errors/volatile/double_bit/*",
              "gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=*"),
     kPlaceWords},
    {PlaceRow("ecc_errors/aggregate/*", "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=*"), kBlockWords},
    {NumberRow("ecc_errors/aggregate/*/total", "gpu.ecc.errors",
               "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=*"),
     "single_bit:correctable double_bit:uncorrectable"},
    {PlaceRow("ecc_errors/aggregate/single_bit/*",
              "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=correctable,gpu.ecc.memory_block=*"),
     kPlaceWords},
    {PlaceRow("ecc_errors/aggregate/double_bit/*",
              "gpu.ecc.count_type=aggregate,gpu.ecc.error_type=uncorrectable,gpu.ecc.memory_block=*"),
     kPlaceWords},
    {NumberRow("ecc_errors/aggregate_uncorrectable_sram_sources/sram_*", "gpu.ecc.sram.errors",
               "gpu.ecc.sram_source=*"),
     "l2 sm microcontroller pcie other"},
    {NumberRow("remapped_rows/row_remapper_histogram/row_remapper_histogram_*", "gpu.row_remap.banks",
               "gpu.row_remap.availability=*"),
     "max high partial low none"},
    {NumberRow("temperature/gpu_temp_*_tlimit_threshold", "gpu.temperature.margin.limit",
               "gpu.temperature.limit_type=*"),
     kLimitWords},
    {NumberRow("temperature/gpu_temp_*_threshold", "gpu.temperature.limit", "gpu.temperature.limit_type=*"),
     kLimitWords},
    {NumberRow("power_readings/*_power_limit", "gpu.power.limit", "gpu.power.limit_type=*"),
     "default enforced min max"},
    {NumberRow("gpu_power_readings/*_power_limit", "gpu.power.limit", "gpu.power.limit_type=*"),
     "current:enforced requested default min max"},
    {NumberRow("gpu_power_readings/gpu_ceiling_power_limit/*_power_limit", "gpu.power.limit",
               "gpu.power.limit_type=*"),
     "current:enforced requested default"},
    {NumberRow("clocks/*_clock", "gpu.clock.frequency", "gpu.clock.type=*", kClock),
     "graphics sm mem:memory video"},
    {NumberRow("max_clocks/*_clock", "gpu.clock.max", "gpu.clock.type=*"), "graphics sm mem:memory video"},
    {NumberRow("applications_clocks/*_clock", "gpu.clock.limit",
               "gpu.clock.limit_type=application,gpu.clock.type=*"),
     "graphics mem:memory"},
    {FaultRow("fabric/health/*", "gpu.fabric.degraded", "gpu.fabric.condition=*", kNoFabric),
     "bandwidth route_recovery_in_progress:route_recovery route_unhealthy "
     "access_timeout_recovery:access_timeout incorrect_configuration:configuration"},
    {NumberRow("remapped_rows/remapped_row_*_inactive", "gpu.row_remap.inactive", "gpu.ecc.error_type=*"),
     "corr:correctable unc:uncorrectable"},
    {NumberRow("remapped_rows/remapped_row_*", "gpu.row_remap.count", "gpu.ecc.error_type=*"),
     "corr:correctable unc:uncorrectable"},
    {NumberRow("retired_pages/*_retirement/retired_count", "gpu.retired_pages", "gpu.ecc.error_type=*"),
     "multiple_single_bit:correctable double_bit:uncorrectable"},
    {FlagRow("mig_mode/*_mig", "gpu.mig.mode", "gpu.mig.mode_type=*"), "current pending"},
    {FlagRow("ecc_mode/*_ecc", "gpu.ecc.mode", "gpu.ecc.mode_type=*"), "current pending"},
    {NumberRow("pci/*x_util", "gpu.pcie.throughput", "gpu.interconnect.direction=*", kExact, kPcieRate,
               kNoSamples),
     "t:transmit r:receive"},
};

// Fields that are not compared, by reason.
constexpr UncomparedFields kNvidiaRowsUncompared[] = {
    {kOfTool, "timestamp"},
    {kIdentity,
     "product_brand multigpu_board board_id board_part_number gpu_part_number gpu_fru_part_number "
     "gpu_module_id pci/pci_bridge_chip/*"},
    {kSetting,
     "display_mode addressing_mode accounting_mode accounting_mode_buffer_size c2c_mode "
     "pci/atomic_caps_inbound pci/atomic_caps_outbound sparse_operation_mode "
     "power_readings/power_management gpu_operation_mode/* gpu_virtualization_mode/* "
     "dram_encryption_mode/* power_smoothing* power_profiles/* workload_power_profiles/* "
     "default_applications_clocks/* deferred_clocks/* max_customer_boost_clocks/* clock_policy/* "
     "capabilities/*"},
    {kNotRead,
     "display_attached mig_devices/mig_device/bar1_memory_usage/total "
     "mig_devices/mig_device/bar1_memory_usage/free pdi platformInfo/peer_type "
     "platformInfo/gpu_fabric_guid cc_protected_memory_usage/used cc_protected_memory_usage/free "
     "fbc_stats/average_fps fbc_stats/average_latency ecc_errors/channel_repair_pending "
     "ecc_errors/tpc_repair_pending fabric/health/partition_assigned "
     "mig_devices/mig_device/ecc_error_count/* inforom_bbx_flush/* gpu_power_readings/*base_power*"},
    {kBlock, "mig_devices remapped_rows remapped_rows/row_remapper_histogram fabric/health processes"},
    {kKnownBy,
     "mig_devices/mig_device/gpu_instance_id mig_devices/mig_device/compute_instance_id uuid "
     "processes/process_info/gpu_instance_id processes/process_info/compute_instance_id "
     "processes/process_info/pid"},
    {kOfBusId, "pci/pci_bus pci/pci_device pci/pci_domain"},
    {kOfDevice, "pci/pci_base_class pci/pci_sub_class pci/pci_device_id pci/pci_sub_system_id"},
    {kSum,
     "ecc_errors/volatile/sram_uncorrectable_parity ecc_errors/volatile/sram_uncorrectable_secded "
     "ecc_errors/aggregate/sram_uncorrectable_parity ecc_errors/aggregate/sram_uncorrectable_secded"},
    {kList, "supported_gpu_target_temp/* supported_clocks*"},
    {kNotPublic, "voltage/*"},
};

}  // namespace

std::span<const FieldRow> NvidiaRows() {
  static const FieldTable kTable(kNvidiaRows, kNvidiaRowsFamilies, kNvidiaRowsUncompared);
  return kTable.rows();
}

}  // namespace gpulens::compare
