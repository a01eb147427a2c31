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
constexpr Tolerance kCounts{.slack = 0, .share = 0.01, .why = kOtherMoment};
// What a GPU takes within some seconds; a share of a counter that only grows would hide any error.
constexpr Tolerance kJoules{.slack = 5000, .share = 0, .why = kOtherMoment};
constexpr Tolerance kVolts{.slack = 0.2, .share = 0.1, .why = kOtherMoment};

// What `amd-smi static --json` and `amd-smi metric --json` print of a GPU, ROCm 6.1 to 7.2.
constexpr FieldRow kAmdRows[] = {
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
    NotCompared("limit/ppt1/*", kNotRead),
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
    NotCompared("clock/*/frequency_levels/*", kOfTable),
    NotCompared("clock/*/current_level", kOfTable),
    NotCompared("clock/*/current level", kOfTable),
    // metric
    NumberRow("usage/gfx_activity", "gpu.utilization", "gpu.task.type=compute", kShare),
    NumberRow("usage/umc_activity", "gpu.memory.utilization", "gpu.task.type=memory_controller", kShare),
    NumberRow("usage/mm_activity", "gpu.multimedia.utilization", {}, kShare),
    NotCompared("usage/*", kPerEngine),
    NumberRow("power/socket_power", "gpu.power.instant", {}, kWatts),
    NotCompared("power/throttle_status", "exported by cause: gpu.throttle.reason"),
    NotCompared("power/*", kSetting),
    NotCompared("clock/*_0/*", kNotReportedClock),
    NotCompared("clock/*", kOtherCopies),
    NumberRow("pcie/width", "gpu.pcie.link.width.current"),
    {"pcie/speed", How::kGeneration, "gpu.pcie.link.gen.current", {}, {}, {}, kStep},
    NotCompared("pcie/bandwidth", "the tool's mean over its own time"),
    NumberRow("pcie/replay_count", "gpu.pcie.replay.count"),
    NotCompared("pcie/*", kNotRead),
    NotCompared("ecc/*", kOfBlocks),
    NotCompared("ecc_blocks*", "of another block: gpu.ecc.errors has it by gpu.ecc.memory_block"),
    NumberRow("fan/rpm", "gpu.fan.rotation", "gpu.fan.index=0",
              {.slack = 200, .share = 0.1, .why = kOtherMoment}),
    NumberRow("fan/usage", "gpu.fan.speed", {}, {.slack = 0.05, .share = 0.1, .why = kOtherMoment}),
    NotCompared("fan/*", "a step of the fan's control"),
    NotCompared("voltage_curve*", kOfTable),
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
    {kIdentity, "uuid"},
    {kSetting, "overdrive mem_overdrive perf_level"},
    {kNotRead, "xgmi_err"},
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

std::span<const FieldRow> GaudiRows() { return kGaudiRows; }

}  // namespace gpulens::compare
