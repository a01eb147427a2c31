#include "cli/check/check_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

// Readings of a node.
class Node {
 public:
  explicit Node(size_t gpus) {
    for (size_t i = 0; i < gpus; ++i) data.gpus.push_back({"GPU-" + std::to_string(i), std::to_string(i)});
    data.watched = true;
  }
  Node& Set(size_t gpu, const MetricDesc& metric, double value,
            std::initializer_list<std::pair<const std::string, std::string>> attributes = {}) {
    data.readings.push_back({&metric, gpu, {attributes.begin(), attributes.end()}, value, false});
    return *this;
  }
  Node& Stale() {
    data.readings.back().stale = true;
    return *this;
  }
  CheckResult Run(std::string_view name, const CheckSettings& settings = {}) const {
    const CheckSpec* check = FindCheck(name);
    EXPECT_TRUE(check) << name;
    return Evaluate(*check, data, settings);
  }
  CheckCode Code(std::string_view name, const CheckSettings& settings = {}) const {
    return Run(name, settings).code;
  }

  CheckData data;
};

TEST(CheckTable, HasAllChecksOfCheckNvidiaSmi) {
  for (std::string_view name : {"gpu_num", "running_procs", "running_procs_and_kill", "clock_freq",
                                "gpu_temperature", "gpu_mem_usage", "gpu_retired_pages",
                                "ecc_uncorrected_volatile_total", "ecc_corrected_volatile_total",
                                "vbios_mismatch", "row_remap", "row_remap_pending", "row_remap_failed"}) {
    EXPECT_TRUE(FindCheck(name)) << name;
  }
  EXPECT_FALSE(FindCheck("gpu"));
}

TEST(CheckTable, RowsAreComplete) {
  std::set<std::string_view> names;
  for (const CheckSpec& check : AllChecks()) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
    EXPECT_FALSE(check.help.empty() || check.inputs.empty()) << check.name;
    EXPECT_TRUE(check.evaluate || check.critical || check.warning) << check.name;
    EXPECT_THAT(CheckList(), HasSubstr(std::string(check.name)));
  }
}

// An unknown value is never OK.
TEST(CheckTable, UnknownWithoutReadings) {
  for (const CheckSpec& check : AllChecks()) {
    EXPECT_EQ(Evaluate(check, Node(0).data, {}).code, CheckCode::kUnknown) << check.name;
    CheckResult result = Evaluate(check, Node(2).data, {});
    EXPECT_EQ(result.code, CheckCode::kUnknown) << check.name;
    EXPECT_FALSE(result.text.empty()) << check.name;
  }
}

TEST(CheckTable, MissingInputIsUnknownUnlessAnotherGpuIsWorse) {
  Node node(2);
  node.Set(0, kGpuTemperature, 60, {{"gpu.temperature.sensor", "edge"}});
  CheckResult result = node.Run("gpu_temperature");
  EXPECT_EQ(result.code, CheckCode::kUnknown);
  EXPECT_EQ(result.text, "GPU 1 does not report gpu.temperature, gpu.temperature.limit");
  node.data.readings[0].value = 96;
  result = node.Run("gpu_temperature");
  EXPECT_EQ(result.code, CheckCode::kCritical);
  EXPECT_EQ(result.text,
            "GPU 0 at 96 °C, limit 90; GPU 1 does not report gpu.temperature, gpu.temperature.limit");
}

TEST(CheckTable, IgnoresStaleValues) {
  Node node(1);
  node.Set(0, kGpuTemperature, 60, {{"gpu.temperature.sensor", "edge"}}).Stale();
  EXPECT_EQ(node.Code("gpu_temperature"), CheckCode::kUnknown);
  EXPECT_THAT(node.Run("gpu_temperature").text, HasSubstr("stale"));
  node.Set(0, kGpuHealthScore, 1).Set(0, kGpuHealthState, 1, {{"gpu.health.state", "ok"}}).Stale();
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kUnknown);
}

TEST(CheckTable, Thresholds) {
  Node node(1);
  node.Set(0, kGpuTemperature, 86, {{"gpu.temperature.sensor", "edge"}});
  EXPECT_EQ(node.Code("gpu_temperature"), CheckCode::kWarning);
  EXPECT_EQ(node.Code("gpu_temperature", {.warning = 87, .critical = 90, .expect = ""}), CheckCode::kOk);
  EXPECT_EQ(node.Code("gpu_temperature", {.warning = {}, .critical = 80, .expect = ""}),
            CheckCode::kCritical);
  EXPECT_EQ(node.Code("gpu_temperature", {.warning = 86, .critical = {}, .expect = ""}), CheckCode::kOk)
      << "at the limit is within it";
}

TEST(CheckTable, GpuNum) {
  Node node(2);
  auto state = [&](size_t gpu, const char* name) { node.Set(gpu, kGpuState, 1, {{"gpu.state", name}}); };
  state(0, "ok");
  state(1, "lost");
  EXPECT_EQ(node.Code("gpu_num"), CheckCode::kCritical);
  EXPECT_EQ(node.Run("gpu_num").text, "1 of 2 GPUs answer");
  EXPECT_EQ(node.Code("gpu_num", {.warning = {}, .critical = 1, .expect = ""}), CheckCode::kOk);
  EXPECT_EQ(node.Code("gpu_num", {.warning = {}, .critical = 8, .expect = ""}), CheckCode::kCritical);
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kCritical);
  node.Set(0, kGpuTemperature, 50, {{"gpu.temperature.sensor", "edge"}});
  EXPECT_EQ(node.Run("gpu_state").text, "GPU 1 is lost");
  node.data.readings[1].attributes["gpu.state"] = "ok";
  EXPECT_EQ(node.Code("gpu_num", {.warning = {}, .critical = 1, .expect = ""}), CheckCode::kOk)
      << "more are fine";
  node.data.expected = 3;
  EXPECT_EQ(node.Run("gpu_num").text, "2 of 3 GPUs answer") << "one has left the bus";
}

TEST(CheckTable, StateOkNeedsReadings) {
  Node node(1);
  node.Set(0, kGpuState, 1, {{"gpu.state", "ok"}}).Set(0, kGpuPcieReplayCount, 0);
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kUnknown);
  node.Set(0, kGpuPowerDraw, 300).Stale();
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kUnknown) << "an old value is none";
  node.Set(0, kGpuHealthCondition, 1, {{"gpu.health.reason", "no_readings"}});
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kCritical);
  node.data.readings.back().value = 0;
  node.Set(0, kGpuUtilization, 0);
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kOk);
  node.Set(0, kGpuHealthCondition, 1, {{"gpu.health.reason", "driver_fails"}});
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kCritical);
}

TEST(CheckTable, UnknownWithoutPermission) {
  Node node(1);
  node.Set(0, kGpuState, 1, {{"gpu.state", "no_permission"}});
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kUnknown);
}

TEST(CheckTable, Processes) {
  Node node(1);
  for (const char* type : {"compute", "graphics", "mps"}) {
    node.Set(0, kGpuProcesses, type[0] == 'g' ? 2 : 0, {{"gpu.process.type", type}});
  }
  EXPECT_EQ(node.Code("running_procs"), CheckCode::kCritical);
  node.data.readings[1].value = 0;
  EXPECT_EQ(node.Code("running_procs"), CheckCode::kOk);
  EXPECT_TRUE(FindCheck("running_procs_and_kill")->repeats);
}

TEST(CheckTable, ChecksClocksUnderLoadOnly) {
  Node node(1);
  CheckSettings limit{.warning = {}, .critical = 1155, .expect = ""};
  node.Set(0, kGpuClockFrequency, 345, {{"gpu.clock.type", "graphics"}});
  EXPECT_EQ(node.Code("clock_freq", limit), CheckCode::kUnknown) << "nobody knows whether it is idle";
  node.Set(0, kGpuUtilization, 0);
  EXPECT_EQ(node.Code("clock_freq", limit), CheckCode::kOk);
  node.data.readings.back().value = 0.9;
  EXPECT_EQ(node.Code("clock_freq", limit), CheckCode::kCritical);
  EXPECT_EQ(node.Code("clock_freq"), CheckCode::kUnknown) << "how high its clock may be is not known";
  node.Set(0, kGpuClockMax, 1980, {{"gpu.clock.type", "graphics"}});
  EXPECT_EQ(node.Code("clock_freq"), CheckCode::kCritical);
  node.data.readings[0].value = 1200;
  EXPECT_EQ(node.Code("clock_freq"), CheckCode::kOk);
}

TEST(CheckTable, MemoryIsInMib) {
  Node node(1);
  node.Set(0, kGpuMemoryUsed, 15.0 * (1 << 20));
  EXPECT_EQ(node.Code("gpu_mem_usage"), CheckCode::kOk);
  node.data.readings[0].value = 16.0 * (1 << 20);
  EXPECT_EQ(node.Run("gpu_mem_usage").text, "GPU 0 at 16 MiB, limit 15");
}

TEST(CheckTable, RetiredPages) {
  Node node(1);
  node.Set(0, kGpuRetiredPages, 10, {{"gpu.ecc.error_type", "correctable"}})
      .Set(0, kGpuRetiredPages, 3, {{"gpu.ecc.error_type", "uncorrectable"}});
  EXPECT_EQ(node.Code("gpu_retired_pages"), CheckCode::kUnknown);
  node.Set(0, kGpuRetiredPagesPending, 0);
  EXPECT_EQ(node.Code("gpu_retired_pages"), CheckCode::kOk);
  node.data.readings[2].value = 1;
  EXPECT_EQ(node.Code("gpu_retired_pages"), CheckCode::kCritical);
}

TEST(CheckTable, MemoryErrors) {
  Node node(1);
  auto ecc = [&](const char* count, const char* type, double value) {
    node.Set(0, kGpuEccErrors, value, {{"gpu.ecc.count_type", count}, {"gpu.ecc.error_type", type}});
  };
  ecc("aggregate", "uncorrectable", 7);
  EXPECT_EQ(node.Code("ecc_uncorrected_volatile_total"), CheckCode::kUnknown);
  ecc("volatile", "uncorrectable", 0);
  ecc("volatile", "correctable", 50'000'001);
  EXPECT_EQ(node.Code("ecc_uncorrected_volatile_total"), CheckCode::kOk);
  EXPECT_EQ(node.Code("ecc_corrected_volatile_total"), CheckCode::kCritical);
}

TEST(CheckTable, RowRemapping) {
  Node node(1);
  node.Set(0, kGpuRowRemapResetPending, 1);
  EXPECT_EQ(node.Code("row_remap"), CheckCode::kCritical) << "known to be wrong, whatever the other says";
  EXPECT_EQ(node.Code("row_remap_failed"), CheckCode::kUnknown);
  node.Set(0, kGpuRowRemapFailed, 0);
  EXPECT_EQ(node.Code("row_remap_pending"), CheckCode::kCritical);
  EXPECT_EQ(node.Code("row_remap_failed"), CheckCode::kOk);
}

TEST(CheckTable, Vbios) {
  Node node(3);
  for (size_t gpu = 0; gpu < 2; ++gpu) node.Set(gpu, kGpuInfo, 1, {{"gpu.vbios.version", "96.00.1"}});
  EXPECT_EQ(node.Code("vbios_mismatch"), CheckCode::kUnknown);
  node.Set(2, kGpuInfo, 1, {{"gpu.vbios.version", "96.00.2"}});
  EXPECT_EQ(node.Run("vbios_mismatch").text, "GPU 2 has 96.00.2, expected 96.00.1");
  EXPECT_EQ(node.Run("vbios_mismatch", {.warning = {}, .critical = {}, .expect = "96.00.2"}).text,
            "GPU 0 has 96.00.1 and 1 has 96.00.1, expected 96.00.2");
}

TEST(CheckTable, Nvlink) {
  Node node(1);
  auto errors = [&](const char* type, double value) {
    node.Set(0, kGpuInterconnectErrors, value,
             {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.error_type", type}});
  };
  errors("crc_flit", 0);
  errors("replay", 0);
  errors("recovery", 0);
  EXPECT_EQ(node.Code("nvlink_errors"), CheckCode::kUnknown) << "one of four is missing";
  errors("crc_data", 0);
  EXPECT_EQ(node.Code("nvlink_errors"), CheckCode::kOk);
  errors("ecc_data", 5);
  EXPECT_EQ(node.Code("nvlink_errors"), CheckCode::kOk) << "not one of the four";
  node.data.readings[1].value = 1;
  EXPECT_EQ(node.Code("nvlink_errors"), CheckCode::kCritical);
  node.Set(0, kGpuInterconnectLinks, 1,
           {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.state", "inactive"}});
  EXPECT_EQ(node.Code("nvlink_status"), CheckCode::kCritical);
}

TEST(CheckTable, LinksOfOtherGenerations) {
  Node b200(1);
  auto errors = [&](const char* type, double value) {
    b200.Set(0, kGpuInterconnectErrors, value,
             {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.error_type", type}});
  };
  for (const char* type : {"malformed", "overrun", "receive", "remote", "general", "integrity"})
    errors(type, 0);
  EXPECT_EQ(b200.Code("nvlink_errors"), CheckCode::kUnknown) << "one of seven is missing";
  errors("discard", 0);
  errors("effective", 0);
  errors("symbol", 0);
  EXPECT_EQ(b200.Code("nvlink_errors"), CheckCode::kOk);
  b200.data.readings.back().value = 7;
  EXPECT_EQ(b200.Code("nvlink_errors"), CheckCode::kWarning) << "error correction has repaired them";
  b200.data.readings[0].value = 1;
  EXPECT_EQ(b200.Code("nvlink_errors"), CheckCode::kCritical);
  Node mi300(1);
  mi300.Set(0, kGpuInterconnectLinks, 1,
            {{"gpu.interconnect.type", "xgmi"}, {"gpu.interconnect.state", "inactive"}});
  EXPECT_EQ(mi300.Code("nvlink_status"), CheckCode::kCritical);
}

TEST(CheckTable, TemperaturesUseLimitsOfTheBoard) {
  Node mi300(1);
  mi300.Set(0, kGpuTemperature, 97, {{"gpu.temperature.sensor", "hotspot"}});
  EXPECT_EQ(mi300.Code("gpu_temperature"), CheckCode::kOk) << "a hot spot may be hotter than a die";
  mi300.Set(0, kGpuTemperatureLimit, 100,
            {{"gpu.temperature.sensor", "hotspot"}, {"gpu.temperature.limit_type", "slowdown"}});
  EXPECT_EQ(mi300.Code("gpu_temperature"), CheckCode::kWarning);
  mi300.data.readings[0].value = 100;
  EXPECT_EQ(mi300.Code("gpu_temperature"), CheckCode::kCritical);
  EXPECT_EQ(mi300.Code("gpu_memory_temperature"), CheckCode::kUnknown);
  mi300.Set(0, kGpuTemperature, 96, {{"gpu.temperature.sensor", "memory"}});
  EXPECT_EQ(mi300.Code("gpu_memory_temperature"), CheckCode::kCritical);
  mi300.Set(0, kGpuTemperatureLimit, 105,
            {{"gpu.temperature.sensor", "memory"}, {"gpu.temperature.limit_type", "max_operating"}});
  EXPECT_EQ(mi300.Code("gpu_memory_temperature"), CheckCode::kOk);
  Node h100(1);
  h100.Set(0, kGpuTemperatureMargin, 3);
  EXPECT_EQ(h100.Code("gpu_temperature_margin"), CheckCode::kWarning);
  h100.Set(0, kGpuTemperatureMarginLimit, -4,
           {{"gpu.temperature.sensor", "edge"}, {"gpu.temperature.limit_type", "slowdown"}});
  EXPECT_EQ(h100.Code("gpu_temperature_margin"), CheckCode::kOk) << "seven degrees are left";
}

TEST(CheckTable, FabricEccAndRecovery) {
  Node node(1);
  node.Set(0, kGpuFabricState, 1, {{"gpu.fabric.state", "not_supported"}});
  EXPECT_EQ(node.Code("nvlink_fabric"), CheckCode::kOk);
  node.data.readings[0].attributes["gpu.fabric.state"] = "in_progress";
  EXPECT_EQ(node.Run("nvlink_fabric").text, "GPU 0 is not registered with the fabric: in_progress");
  node.data.readings[0].attributes["gpu.fabric.state"] = "completed";
  EXPECT_EQ(node.Code("nvlink_fabric"), CheckCode::kOk);
  node.Set(0, kGpuFabricDegraded, 1, {{"gpu.fabric.condition", "bandwidth"}});
  EXPECT_EQ(node.Run("nvlink_fabric").text, "GPU 0 has a degraded fabric: bandwidth");
  node.Set(0, kGpuEccMode, 1, {{"gpu.ecc.mode_type", "current"}})
      .Set(0, kGpuEccMode, 0, {{"gpu.ecc.mode_type", "pending"}});
  EXPECT_EQ(node.Code("ecc_mode"), CheckCode::kWarning);
  node.data.readings.back().value = 1;
  EXPECT_EQ(node.Code("ecc_mode"), CheckCode::kOk);
  node.Set(0, kGpuRecoveryAction, 1, {{"gpu.recovery.action", "reboot"}});
  EXPECT_EQ(node.Run("recovery_action").text, "GPU 0 needs reboot (reported by the driver)");
  node.Set(0, kGpuInforomValid, 0);
  EXPECT_EQ(node.Code("inforom"), CheckCode::kCritical);
}

TEST(CheckTable, RecentXidsByAction) {
  Node node(1);
  node.Set(0, kGpuXidErrors, 5).Set(0, kGpuXidRecent, 0, {{"gpu.xid.action", "none"}});
  EXPECT_EQ(node.Code("xid"), CheckCode::kOk) << "they were cleared, or are of long ago";
  node.Set(0, kGpuXidRecent, 2, {{"gpu.xid.action", "restart_app"}});
  EXPECT_EQ(node.Code("xid"), CheckCode::kWarning);
  node.Set(0, kGpuXidRecent, 1, {{"gpu.xid.action", "reset_gpu"}});
  EXPECT_EQ(node.Code("xid"), CheckCode::kCritical);
  EXPECT_THAT(node.Run("xid").text, HasSubstr("GPU 0 at 3 errors"));
  node.data.readings.back().attributes["gpu.xid.action"] = "unknown";
  EXPECT_EQ(node.Code("xid"), CheckCode::kCritical);
}

TEST(CheckTable, PowerSource) {
  for (auto [source, code] : {std::pair{"ac", CheckCode::kOk},
                              {"battery", CheckCode::kWarning},
                              {"undersized", CheckCode::kCritical}}) {
    Node node(1);
    node.Set(0, kGpuPowerSource, 1, {{"gpu.power.source", source}});
    EXPECT_EQ(node.Code("gpu_power_source"), code) << source;
  }
}

TEST(CheckTable, DriverAndSwitches) {
  Node node(1);
  auto host = [&](const MetricDesc& metric, double value, const char* key, const char* word) {
    node.data.host.push_back({&metric, 0, {{key, word}}, value, false});
  };
  host(kGpuDriverMismatch, 0, "gpu.vendor", "nvidia");
  EXPECT_EQ(node.Code("driver_mismatch"), CheckCode::kOk);
  node.data.host.back().value = 1;
  EXPECT_EQ(node.Code("driver_mismatch"), CheckCode::kCritical);
  node.data.host.back().stale = true;
  EXPECT_EQ(node.Code("driver_mismatch"), CheckCode::kUnknown);
  EXPECT_EQ(node.Code("nvswitch_sxid"), CheckCode::kUnknown) << "no switch";
  host(kNvswitchSxidErrors, 0, "nvswitch.sxid.severity", "fatal");
  host(kNvswitchSxidErrors, 0, "nvswitch.sxid.severity", "non_fatal");
  EXPECT_EQ(node.Code("nvswitch_sxid"), CheckCode::kOk);
  node.data.host.back().value = 3;
  EXPECT_EQ(node.Code("nvswitch_sxid"), CheckCode::kWarning);
  host(kNvswitchSxidErrors, 1, "nvswitch.sxid.severity", "fatal");
  EXPECT_EQ(node.Code("nvswitch_sxid"), CheckCode::kCritical);
  EXPECT_THAT(node.Run("nvswitch_sxid").text, HasSubstr("1 fatal SXid errors and 3 others"));
  node.data.watched = false;
  EXPECT_EQ(node.Code("nvswitch_sxid"), CheckCode::kUnknown);
}

// Some minutes after a GPU is gone, only the expected number of GPUs shows that it is missing.
TEST(CheckTable, DetectsMissingGpu) {
  Node node(2);
  for (size_t gpu : {0U, 1U}) {
    node.Set(gpu, kGpuState, 1, {{"gpu.state", "ok"}}).Set(gpu, kGpuPowerDraw, 300);
    node.Set(gpu, kGpuHealthScore, 1).Set(gpu, kGpuHealthState, 1, {{"gpu.health.state", "ok"}});
  }
  node.data.expected = 2;
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kOk);
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kOk);
  node.data.expected = 3;
  EXPECT_EQ(node.Code("gpu_state"), CheckCode::kCritical);
  EXPECT_EQ(node.Run("gpu_state").text, "2 of 3 GPUs are here");
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kCritical);
}

TEST(CheckTable, UnreadableGpus) {
  for (const char* state : {"failed", "left_out", "unread", "hung", "lost", "reset_required"}) {
    Node node(1);
    node.Set(0, kGpuState, 1, {{"gpu.state", state}}).Set(0, kGpuPowerDraw, 300);
    EXPECT_EQ(node.Code("gpu_state"), CheckCode::kCritical) << state;
    EXPECT_EQ(node.Code("gpu_num"), CheckCode::kCritical) << state;
  }
}

TEST(CheckTable, Groups) {
  EXPECT_EQ(FindCheckGroup("all").size(), AllChecks().size());
  for (const CheckSpec* check : FindCheckGroup("in-use")) EXPECT_FALSE(check->for_idle_nodes) << check->name;
  EXPECT_EQ(FindCheckGroup("in-use").size() + 3, AllChecks().size());
  EXPECT_TRUE(FindCheckGroup("some").empty());
  Node node(1);
  EXPECT_TRUE(IsUnreported(*FindCheck("nvlink_status"), node.data));
  node.Set(0, kGpuInterconnectLinks, 0, {{"gpu.interconnect.state", "inactive"}}).Stale();
  EXPECT_FALSE(IsUnreported(*FindCheck("nvlink_status"), node.data)) << "an old value: the board has links";
}

TEST(CheckTable, Xids) {
  Node node(1);
  node.Set(0, kGpuXidErrors, 0);
  EXPECT_EQ(node.Code("xid"), CheckCode::kOk);
  node.data.watched = false;
  EXPECT_EQ(node.Code("xid"), CheckCode::kUnknown) << "a look of a second sees nothing";
  node.data.readings[0].value = 2;
  node.Set(0, kGpuXidCodeErrors, 2, {{"gpu.xid.code", "31"}});
  EXPECT_EQ(node.Code("xid"), CheckCode::kWarning);
  node.data.readings[0].value = 3;
  EXPECT_EQ(node.Code("xid"), CheckCode::kCritical) << "one that no code explains";
  node.data.readings[1].attributes["gpu.xid.code"] = "79";
  EXPECT_EQ(node.Code("xid"), CheckCode::kCritical);
}

TEST(CheckTable, PcieLink) {
  Node node(1);
  node.Set(0, kGpuPcieLinkWidthMax, 16).Set(0, kGpuPcieLinkWidthCurrent, 8);
  node.Set(0, kGpuPcieLinkGenMax, 5).Set(0, kGpuPcieLinkGenCurrent, 1);
  EXPECT_EQ(node.Run("pcie_width").text, "GPU 0 at 8 lanes missing, limit 0");
  EXPECT_EQ(node.Code("pcie_gen"), CheckCode::kUnknown);
  node.Set(0, kGpuUtilization, 0);
  EXPECT_EQ(node.Code("pcie_gen"), CheckCode::kOk) << "an idle link is slow";
  node.data.readings.back().value = 1;
  EXPECT_EQ(node.Code("pcie_gen"), CheckCode::kCritical);
}

TEST(CheckTable, ThrottleAndHealth) {
  Node node(1);
  for (const char* cause : {"temp_hardware", "power_brake", "temp_software"}) {
    node.Set(0, kGpuThrottleReason, cause[5] == 's', {{"gpu.throttle.cause", cause}});
  }
  EXPECT_EQ(node.Code("gpu_throttle"), CheckCode::kWarning);
  node.data.readings[0].value = 1;
  EXPECT_EQ(node.Code("gpu_throttle"), CheckCode::kCritical);
}

TEST(CheckTable, HealthNeedsWordAndScore) {
  Node node(1);
  node.Set(0, kGpuHealthScore, 1);
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kUnknown) << "a score without a word";
  node.Set(0, kGpuHealthState, 1, {{"gpu.health.state", "ok"}});
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kOk);
  node.data.readings[0].value = 0.7;
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kWarning);
  node.data.readings[0].value = 0.49;
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kCritical);
  node.data.readings[0].value = 1;
  node.data.readings[1].attributes["gpu.health.state"] = "predicted_failure";
  EXPECT_EQ(node.Code("gpu_health"), CheckCode::kWarning);
  node.data.readings[1].attributes["gpu.health.state"] = "failed";
  node.data.readings[0].value = 0;
  node.Set(0, kGpuHealthCondition, 1, {{"gpu.health.reason", "gpu_lost"}});
  CheckResult result = node.Run("gpu_health");
  EXPECT_EQ(result.code, CheckCode::kCritical);
  EXPECT_EQ(result.text, "GPU 0 at 0 of 1, limit 0.5 (GPU 0 is failed: gpu_lost)");
}

std::vector<CheckOutcome> Outcomes(const Node& node, std::initializer_list<std::string_view> names) {
  std::vector<CheckOutcome> outcomes;
  for (std::string_view name : names) outcomes.push_back({FindCheck(name), false, node.Run(name)});
  return outcomes;
}

TEST(CheckReport, ExitCodeIsTheWorst) {
  EXPECT_EQ(Worse(CheckCode::kWarning, CheckCode::kUnknown), CheckCode::kWarning);
  EXPECT_EQ(Worse(CheckCode::kOk, CheckCode::kUnknown), CheckCode::kUnknown);
  EXPECT_EQ(Worse(CheckCode::kCritical, CheckCode::kWarning), CheckCode::kCritical);
  EXPECT_EQ(WorstOf({}), CheckCode::kUnknown);
}

TEST(CheckReport, NagiosLines) {
  Node node(2);
  node.Set(0, kGpuTemperature, 64, {{"gpu.temperature.sensor", "edge"}});
  node.Set(1, kGpuTemperature, 96.5, {{"gpu.temperature.sensor", "edge"}});
  for (size_t gpu : {0U, 1U}) node.Set(gpu, kGpuHealthState, 1, {{"gpu.health.state", "ok"}});
  node.Set(0, kGpuHealthScore, 1).Set(1, kGpuHealthScore, 0.9);
  EXPECT_EQ(CheckText(Outcomes(node, {"gpu_temperature", "gpu_health"}), false),
            "CRITICAL - gpu_temperature: GPU 1 at 96.5 °C, limit 90 | gpu0=64;85;90 gpu1=96.5;85;90\n"
            "OK - gpu_health: 2 GPUs, lowest 0.9 of 1 | gpu0=1;0.8:;0.5: gpu1=0.9;0.8:;0.5:\n");
  EXPECT_THAT(CheckText(Outcomes(node, {"gpu_health"}), true), HasSubstr("gpu_health: SIMULATED, 2 GPUs"));
}

TEST(CheckReport, EscapesForeignTexts) {
  Node node(1);
  node.data.gpus[0].label = "0 | x=1\n\x1b[2J";
  node.Set(0, kGpuTemperature, 96, {{"gpu.temperature.sensor", "edge"}});
  std::string text = CheckText(Outcomes(node, {"gpu_temperature"}), false);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_EQ(std::ranges::count(text, '|'), 1);
  EXPECT_EQ(text.find('\x1b'), text.npos);
}

TEST(CheckReport, Json) {
  Node node(1);
  node.Set(0, kGpuTemperature, 86, {{"gpu.temperature.sensor", "edge"}});
  auto outcomes = Outcomes(node, {"gpu_temperature"});
  outcomes.push_back({FindCheck("xid"), true, {}});
  outcomes.back().result.code = CheckCode::kOk;
  outcomes.back().result.text = "disabled";
  EXPECT_EQ(
      CheckJson(outcomes, "here", false),
      "{\"schema\":\"gpulens.check/1\",\"source\":\"here\",\"code\":1,\"status\":\"WARNING\",\"checks\":[\n"
      "{\"name\":\"gpu_temperature\",\"code\":1,\"status\":\"WARNING\",\"text\":\"GPU 0 at 86 °C, limit 85\","
      "\"warning\":85,\"critical\":90,\"gpus\":[{\"gpu\":\"0\",\"value\":86,\"code\":1}]},\n"
      "{\"name\":\"xid\",\"code\":0,\"status\":\"OK\",\"text\":\"disabled\",\"disabled\":true,\"gpus\":[]}\n]"
      "}\n");
}

}  // namespace
}  // namespace gpulens
