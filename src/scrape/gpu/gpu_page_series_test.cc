// Pages of our own making: what each exporter's names become, and what happens when pages change or are
// damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "scrape/gpu/gpu_page_testing.h"

namespace gpulens::gpu_page {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr std::string_view kGpu0 =
    "gpu=\"0\",UUID=\"GPU-a\",pci_bus_id=\"00000000:04:00.0\",device=\"nvidia0\",modelName=\"NVIDIA "
    "H100\",Hostname=\"n\"";
constexpr std::string_view kIds[] = {"gpu.index", "gpu.uuid", "gpu.model"};

std::string Line(std::string_view family, std::string_view labels, std::string_view value) {
  return std::string(family) + "{" + std::string(labels) + "} " + std::string(value) + "\n";
}
std::string Gpu0(std::string_view family, std::string_view value) { return Line(family, kGpu0, value); }

TEST(DcgmPage, ScalesAreNative) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(
      Gpu0("DCGM_FI_DEV_FB_USED", "4845") + Gpu0("DCGM_FI_DEV_GPU_UTIL", "87") +
      Gpu0("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "319159391") + Gpu0("DCGM_FI_DEV_POWER_USAGE", "409.692") +
      Gpu0("DCGM_FI_DEV_POWER_VIOLATION", "2500000000") + Gpu0("DCGM_FI_DEV_FB_USED_PERCENT", "0.25") +
      Gpu0("DCGM_FI_PROF_SM_ACTIVE", "0.5") + Gpu0("DCGM_FI_DEV_FAN_SPEED", "40") +
      Gpu0("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "10") + Gpu0("DCGM_FI_DEV_SM_CLOCK", "1410"));
  ASSERT_TRUE(fixture.last.ok()) << fixture.last.detail;
  auto values = fixture.Values(kIds);
  EXPECT_EQ(values["gpu.memory.used{}"], 4845.0 * 1048576);
  EXPECT_EQ(values["gpu.utilization{gpu.task.type=compute}"], 0.87);
  EXPECT_EQ(values["gpu.energy.consumption{}"], 319159.391);
  EXPECT_EQ(values["gpu.power.draw{}"], 409.692);
  EXPECT_EQ(values["gpu.violation.time{gpu.violation.policy=power}"], 2.5);
  EXPECT_EQ(values["gpu.memory.used.percent{}"], 25);
  EXPECT_EQ(values["gpu.sm.active{}"], 0.5);
  EXPECT_EQ(values["gpu.fan.speed{}"], 0.4);
  EXPECT_EQ(values["gpu.pcie.throughput{gpu.interconnect.direction=transmit,gpu.interconnect.type=pcie}"],
            10240);
  EXPECT_EQ(values["gpu.clock.frequency{gpu.clock.type=sm}"], 1410);
  EXPECT_EQ(values["gpu.info{gpu.pci.bus_id=0000:04:00.0,gpu.vendor=nvidia}"], 1);
}

TEST(DcgmPage, ContradictingLinesAreResolvedIndependentOfHistory) {
  const auto used = [](std::string_view profile) {
    return Line("DCGM_FI_DEV_FB_USED",
                "gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"3\",GPU_I_PROFILE=\"" + std::string(profile) + "\"",
                "5");
  };
  PageFixture fresh(FindExporter("dcgm")), used_before(FindExporter("dcgm"));
  used_before.Read(used("2g.10gb"));
  for (PageFixture* fixture : {&fresh, &used_before}) fixture->Read(used("1g.5gb") + used("2g.10gb"));
  EXPECT_EQ(used_before.Names(), fresh.Names());
  EXPECT_THAT(fresh.Names(), Contains(::testing::HasSubstr("gpu.mig.profile=1g.5gb")));
}

TEST(DcgmPage, IdentifiesAGpuByLabelsInAnyCase) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Line(
      "DCGM_FI_DEV_POWER_USAGE",
      "gpu=\"3\",uuid=\"GPU-x\",modelName=\"L4\",hostname=\"n\",pod=\"p\",namespace=\"s\",container=\"c\"",
      "50"));
  EXPECT_THAT(fixture.Values(),
              Contains(Pair("gpu.power.draw{gpu.index=3,gpu.model=L4,gpu.uuid=GPU-x,k8s.container.name=c,"
                            "k8s.namespace.name=s,k8s.pod.name=p}",
                            50)));
  fixture.Read(Line("DCGM_FI_DEV_POWER_USAGE",
                    "gpu=\"3\",UUID=\"GPU-x\",modelName=\"L4\",pod=\"\",namespace=\"\",container=\"\"",
                    "51"));
  EXPECT_THAT(fixture.Values(),
              Contains(Pair("gpu.power.draw{gpu.index=3,gpu.model=L4,gpu.uuid=GPU-x}", 51)));
  EXPECT_EQ(fixture.table.size(), 2u) << "the pod's series are gone at once: power and gpu.info are left";
}

TEST(DcgmPage, NamesOf46AreNotCountedTwice) {
  const std::pair<std::string_view, std::string_view> renamed[] = {
      {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"},
      {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"},
      {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"},
      {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"},
      {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"},
      {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L3_TOTAL"}};
  std::string before, after;
  for (auto [old_name, new_name] : renamed) {
    before += Gpu0(old_name, "1");
    after += Gpu0(new_name, "1");
  }
  PageFixture one(FindExporter("dcgm")), other(FindExporter("dcgm")), both(FindExporter("dcgm"));
  one.Read(before);
  other.Read(after);
  both.Read(before + after);
  EXPECT_EQ(one.Values().size(), std::size(renamed) + 1);
  EXPECT_EQ(one.Values(), other.Values());
  EXPECT_EQ(one.Values(), both.Values());
  EXPECT_EQ(both.table.refused(SeriesRefusal::kDuplicate), 0u);
  // The exporter is replaced by a newer one under way: the series go on.
  uint32_t before_size = both.table.size();
  both.Read(after);
  EXPECT_EQ(both.Values(), other.Values());
  EXPECT_EQ(both.table.size(), before_size);
}

TEST(DcgmPage, ProfilingRateWins) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Gpu0("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "7") + Gpu0("DCGM_FI_PROF_PCIE_RX_BYTES", "97863601") +
               Gpu0("DCGM_FI_PROF_NVLINK_TX_BYTES", "5") +
               Gpu0("DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", "9"));
  auto values = fixture.Values(kIds);
  EXPECT_EQ(values.size(), 3u);
  EXPECT_EQ(
      values["gpu.pcie.throughput{gpu.interconnect.direction=receive,gpu.interconnect.source=dcgm_profiling,"
             "gpu.interconnect.type=pcie}"],
      97863601);
  EXPECT_EQ(
      values["gpu.interconnect.throughput{gpu.interconnect.direction=transmit,gpu.interconnect.source=dcgm_"
             "profiling,gpu.interconnect.type=nvlink}"],
      5);
}

TEST(DcgmPage, BlanksAreRejectedAsSentinels) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Gpu0("DCGM_FI_DEV_MEMORY_TEMP", "9223372036854775794") +
               Gpu0("DCGM_FI_DEV_GPU_TEMP", "2147483634") + Gpu0("DCGM_FI_DEV_GPU_UTIL", "4294967295") +
               Gpu0("DCGM_FI_PROF_DRAM_ACTIVE", "140737488355330") +
               Gpu0("DCGM_FI_DEV_FB_FREE", "9223372036854775792") + Gpu0("DCGM_FI_DEV_POWER_USAGE", "65535"));
  EXPECT_EQ(fixture.Values(kIds).size(), 1u) << "gpu.info alone";
  EXPECT_EQ(fixture.writer.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 6u);
}

TEST(DcgmPage, XidGaugeIsTheLastCode) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Gpu0("DCGM_FI_DEV_XID_ERRORS", "0"));
  EXPECT_THAT(fixture.Values(kIds), Not(Contains(Key(StartsWith("gpu.xid")))));
  fixture.Read(
      Line("DCGM_FI_DEV_XID_ERRORS", std::string(kGpu0) + ",err_code=\"79\",err_msg=\"off the bus\"", "79"));
  EXPECT_EQ(fixture.Values(kIds)["gpu.xid.last_error_code{}"], 79);
  EXPECT_THAT(fixture.Values(kIds), Not(Contains(Key(StartsWith("gpu.xid.errors")))));
}

TEST(DcgmPage, BitsStatesAndLinks) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Gpu0("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "36") +
               Gpu0("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "2") + Gpu0("DCGM_FI_PROF_NVDEC2_ACTIVE", "0.5") +
               Line("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS",
                    "nvlink=\"4\",gpu=\"0\",gpu_uuid=\"GPU-a\",model_name=\"NVIDIA H100\"", "8") +
               Gpu0("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", "11") +
               Line("DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "nvswitch=\"1\"", "41"));
  auto values = fixture.Values(kIds);
  EXPECT_EQ(values["gpu.throttle.mask{}"], 36);
  EXPECT_EQ(values["gpu.throttle.reason{gpu.throttle.cause=power_software}"], 1);
  EXPECT_EQ(values["gpu.throttle.reason{gpu.throttle.cause=temp_software}"], 1);
  EXPECT_EQ(values["gpu.throttle.reason{gpu.throttle.cause=temp_hardware}"], 0);
  EXPECT_EQ(values["gpu.clock.idle{}"], 0);
  EXPECT_EQ(values["gpu.recovery.action{gpu.recovery.action=reboot}"], 1);
  EXPECT_EQ(values["gpu.recovery.action{gpu.recovery.action=none}"], 0);
  EXPECT_EQ(values["gpu.engine.utilization{gpu.engine.index=2,gpu.engine.type=nvdec}"], 0.5);
  EXPECT_EQ(
      values["gpu.interconnect.link.errors{gpu.interconnect.error_type=receive,gpu.interconnect.link_index=4,"
             "gpu.interconnect.type=nvlink}"],
      8);
  EXPECT_EQ(
      values["gpu.interconnect.errors{gpu.interconnect.error_type=receive,gpu.interconnect.type=nvlink}"],
      11);
  EXPECT_EQ(values["nvswitch.temperature{nvswitch.id=1}"], 41);
  fixture.Read(Gpu0("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "77"));
  EXPECT_THAT(fixture.Values(kIds), Not(Contains(Key(StartsWith("gpu.recovery")))));
}

TEST(DcgmPage, SeparatesMigInstancesAndCountsTheBoardOnce) {
  auto instance = [](std::string_view id, std::string_view pod) {
    return std::string(kGpu0) + ",GPU_I_PROFILE=\"1g.5gb\",GPU_I_ID=\"" + std::string(id) + "\",pod=\"" +
           std::string(pod) + "\"";
  };
  std::string page;
  for (std::string_view id : {"7", "8"}) {
    page += Line("DCGM_FI_DEV_POWER_USAGE", instance(id, id == "7" ? "train" : ""), "130");
    page += Line("DCGM_FI_DEV_FB_USED", instance(id, id == "7" ? "train" : ""), id == "7" ? "100" : "3");
    page += Line("DCGM_FI_PROF_SM_ACTIVE", instance(id, id == "7" ? "train" : ""), id == "7" ? "0.75" : "0");
  }
  page += Gpu0("DCGM_FI_PROF_SM_ACTIVE", "0.11");
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(page);
  auto values = fixture.Values(kIds);
  EXPECT_EQ(values["gpu.power.draw{}"], 130);
  EXPECT_EQ(values["gpu.mig.memory.used{gpu.mig.enabled=true,gpu.mig.instance_id=7,k8s.pod.name=train}"],
            100.0 * 1048576);
  EXPECT_EQ(values["gpu.mig.memory.used{gpu.mig.enabled=true,gpu.mig.instance_id=8}"], 3.0 * 1048576);
  EXPECT_EQ(values["gpu.sm.active{gpu.mig.enabled=true,gpu.mig.instance_id=7,k8s.pod.name=train}"], 0.75);
  EXPECT_EQ(values["gpu.sm.active{gpu.mig.enabled=true,gpu.mig.instance_id=8}"], 0);
  EXPECT_THAT(values, Not(Contains(Key("gpu.sm.active{}")))) << "on instances or on the board, not on both";
  EXPECT_EQ(values["gpu.mig.info{gpu.mig.enabled=true,gpu.mig.instance_id=8,gpu.mig.profile=1g.5gb}"], 1);
}

TEST(AmdPage, GaugesBecomeCountersAndPartsWithoutSensorsAreLeftOut) {
  auto labels = [](std::string_view part, std::string_view type) {
    return "gpu_id=\"2\",gpu_uuid=\"cc-1\",card_series=\"AMD Instinct "
           "MI300X\",card_model=\"102-G\",gpu_partition_id=\"" +
           std::string(part) + "\",gpu_compute_partition_type=\"" + std::string(type) +
           "\",serial_number=\"69\",driver_version=\"6.12\"";
  };
  PageFixture fixture(FindExporter("amd"));
  std::string page =
      "# TYPE gpu_energy_consumed gauge\n" + Line("gpu_energy_consumed", labels("0", "spx"), "5000000") +
      Line("gpu_total_vram", labels("0", "spx"), "196592") +
      Line("gpu_gfx_activity", labels("0", "spx"), "100") +
      Line("gpu_clock", labels("0", "spx") + ",clock_index=\"3\",clock_type=\"GPU_CLOCK_TYPE_SYSTEM\"",
           "2000") +
      Line("gpu_clock", labels("0", "spx") + ",clock_index=\"0\",clock_type=\"GPU_CLOCK_TYPE_SYSTEM\"",
           "1900") +
      Line("gpu_clock", labels("0", "spx") + ",clock_index=\"8\",clock_type=\"memory\"", "1300") +
      Line("pcie_speed", labels("0", "spx"), "32") + Line("gpu_ecc_uncorrect_umc", labels("0", "spx"), "2") +
      Line("gpu_xgmi_link_rx", labels("0", "spx") + ",link_index=\"5\"", "4") +
      Line("gpu_ecc_correct_total", labels("0", "spx"), "9") + "gpu_nodes_total 8\n";
  fixture.Read(page);
  auto values = fixture.Values({"gpu.index", "gpu.uuid", "gpu.model"});
  EXPECT_EQ(values["gpu.energy.consumption{}"], 5);
  EXPECT_EQ(values["gpu.memory.total{}"], 196592.0 * 1048576);
  EXPECT_EQ(values["gpu.utilization{gpu.task.type=compute}"], 1);
  EXPECT_EQ(values["gpu.clock.frequency{gpu.clock.type=graphics}"], 1900)
      << "the first of eight, whatever their order";
  EXPECT_EQ(values["gpu.clock.frequency{gpu.clock.type=memory}"], 1300);
  EXPECT_EQ(values["gpu.pcie.link.gen.current{}"], 5);
  EXPECT_EQ(values["gpu.ecc.errors{gpu.ecc.count_type=volatile,gpu.ecc.error_type=uncorrectable,gpu.ecc."
                   "memory_block=umc}"],
            2);
  EXPECT_EQ(values["gpu.interconnect.io{gpu.interconnect.direction=receive,gpu.interconnect.link_index=5,gpu."
                   "interconnect.type=xgmi}"],
            4096);
  EXPECT_EQ(values["gpu.devices{gpu.vendor=amd}"], 8);
  EXPECT_EQ(fixture.series.unknown_families(), 0u);

  PageFixture parts(FindExporter("amd"));
  parts.Read(
      Line("gpu_power_usage", labels("0", "cpx"), "500") + Line("gpu_power_usage", labels("1", "cpx"), "0") +
      Line("gpu_used_vram", labels("0", "cpx"), "10") + Line("gpu_used_vram", labels("1", "cpx"), "20"));
  auto split = parts.Values({"gpu.index", "gpu.uuid", "gpu.model"});
  EXPECT_EQ(split["gpu.power.draw{}"], 500) << "the 0 of the second partition is no reading";
  EXPECT_EQ(split["gpu.memory.used{gpu.partition.id=0}"], 10.0 * 1048576);
  EXPECT_EQ(split["gpu.memory.used{gpu.partition.id=1}"], 20.0 * 1048576);
}

TEST(AmdPage, AcceptsAConfiguredPrefix) {
  PageFixture fixture;
  fixture.Read(Line("amd_gpu_power_usage", "gpu_id=\"0\"", "41") +
               Line("amd_gpu_gfx_activity", "gpu_id=\"0\"", "50"));
  ASSERT_TRUE(fixture.series.exporter());
  EXPECT_EQ(fixture.series.exporter()->name, "amd");
  EXPECT_EQ(fixture.Values()["gpu.power.draw{gpu.index=0}"], 41);
}

TEST(HabanaPage, PowerIsMilliwattsAndPendingRowsAddUp) {
  const std::string card =
      "Serial=\"AN\",UUID=\"01P4-1\",device=\"AN\",id=\"3\",driver=\"1.22\",pod_namespace=\"s\",pod_name="
      "\"p\"";
  PageFixture fixture;
  fixture.Read(Line("habanalabs_power_mW", card, "226500") + Line("habanalabs_utilization", card, "80") +
               Line("habanalabs_pending_rows_with_single_bit_ecc_errors", card, "2") +
               Line("habanalabs_pending_rows_with_double_bit_ecc_errors", card, "3") +
               Line("habanalabs_nic_port_status", card + ",port=\"7\",port_type=\"internal\"", "1") +
               Line("habanalabs_pci_link_speed", card, "16") + Line("habanalabs_energy", card, "77"));
  EXPECT_EQ(fixture.series.exporter()->name, "habana");
  auto values = fixture.Values({"gpu.uuid", "k8s.pod.name", "k8s.namespace.name"});
  EXPECT_EQ(values["gpu.power.draw{gpu.index=3}"], 226.5);
  EXPECT_EQ(values["gpu.utilization{gpu.index=3,gpu.task.type=compute}"], 0.8);
  EXPECT_EQ(values["gpu.row_remap.pending{gpu.index=3,gpu.row_remap.state=pending}"], 5);
  EXPECT_EQ(values["gpu.interconnect.link.active{gpu.index=3,gpu.interconnect.link_index=7,gpu.interconnect."
                   "type=roce}"],
            1);
  EXPECT_EQ(values["gpu.pcie.link.gen.current{gpu.index=3}"], 4);
  EXPECT_EQ(values["gpu.driver.info{gpu.driver.version=1.22,gpu.vendor=intel}"], 1);
  EXPECT_THAT(values, Not(Contains(Key(StartsWith("gpu.energy"))))) << "its unit is not known";
  // One of the two is missing: half a sum is none.
  fixture.Read(Line("habanalabs_power_mW", card, "1000") +
               Line("habanalabs_pending_rows_with_single_bit_ecc_errors", card, "2"));
  EXPECT_THAT(fixture.Values(), Not(Contains(Key(StartsWith("gpu.row_remap.pending")))));
}

TEST(XpumPage, BothGenerationsOfNamesAndTilesLeftOut) {
  const std::string card =
      "dev_file=\"card0\",dev_name=\"Intel(R) Max "
      "1550\",pci_bdf=\"0000:4d:00.0\",uuid=\"u1\",vendor=\"Intel\"";
  PageFixture fixture;
  fixture.Read("# TYPE xpum_energy_joules_total counter\n" + Line("xpum_energy_joules_total", card, "12.5") +
               Line("xpum_power_watts", card, "300") +
               Line("xpum_power_watts", card + ",sub_dev=\"0\"", "140") +
               Line("xpum_temperature_celsius", card + ",location=\"gpu\"", "51") +
               Line("xpum_engine_ratio", card, "0.4"));
  EXPECT_EQ(fixture.series.exporter()->name, "xpum");
  auto values = fixture.Values({"gpu.uuid", "gpu.model"});
  EXPECT_EQ(values["gpu.power.draw{}"], 300);
  EXPECT_EQ(values["gpu.energy.consumption{}"], 12.5);
  EXPECT_EQ(values["gpu.temperature{gpu.temperature.sensor=edge}"], 51);
  EXPECT_EQ(values["gpu.utilization{gpu.task.type=compute}"], 0.4);
  PageFixture newer;
  const std::string hw = "hw_id=\"0-power\",hw_name=\"card\",pci_bdf=\"0000:4d:00.0\"";
  newer.Read(
      "# TYPE hw_energy_joules counter\n" + Line("hw_energy_joules_total", hw, "7") +
          Line("hw_power_watts", hw, "300") +
          Line("hw_frequency_hertz", hw + ",hw_frequency_domain=\"gpu\",aggregation=\"avg\"", "1.6e9") +
          Line("hw_frequency_hertz", hw + ",hw_frequency_domain=\"gpu\",aggregation=\"max\"", "1.7e9") +
          "# EOF\n",
      ExpositionFormat::kOpenMetrics100);
  EXPECT_EQ(newer.Values()["gpu.power.draw{gpu.pci.bus_id=0000:4d:00.0}"], 300);
  EXPECT_EQ(newer.Values()["gpu.energy.consumption{gpu.pci.bus_id=0000:4d:00.0}"], 7);
  EXPECT_EQ(newer.Values()["gpu.clock.frequency{gpu.clock.type=graphics,gpu.pci.bus_id=0000:4d:00.0}"], 1600);
}

TEST(GpuPage, CountsUnknownFamiliesAndRejectsOtherPages) {
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(Gpu0("DCGM_FI_DEV_POWER_USAGE", "1") + Gpu0("DCGM_FI_DEV_THING_OF_TOMORROW", "1") +
               Gpu0("something_else", "2") + "go_goroutines 7\n" + Gpu0("DCGM_EXP_XID_ERRORS_COUNT", "1"));
  EXPECT_EQ(fixture.series.unknown_families(), 2u) << "what the exporter says of itself is known";
  PageFixture strange;
  strange.Read("node_cpu_seconds_total 1\n");
  EXPECT_EQ(strange.last.code, Code::kDataLoss);
  EXPECT_FALSE(strange.series.exporter());
  EXPECT_EQ(strange.table.size(), 0u);
}

TEST(GpuPage, EndsSeriesOfAGpuThatLeft) {
  auto gpu = [](int i) {
    std::string labels = "gpu=\"" + std::to_string(i) + "\",UUID=\"GPU-" + std::to_string(i) + "\"";
    return Line("DCGM_FI_DEV_POWER_USAGE", labels, "100") + Line("DCGM_FI_DEV_GPU_TEMP", labels, "50");
  };
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(gpu(0) + gpu(1));
  EXPECT_EQ(fixture.Values().size(), 6u);
  fixture.Read(gpu(1));
  auto values = fixture.Values();
  EXPECT_EQ(values.size(), 3u);
  EXPECT_THAT(values, Not(Contains(Key(::testing::HasSubstr("GPU-0")))));
  fixture.Read(gpu(1) + gpu(0));
  EXPECT_EQ(fixture.Values().size(), 6u);
}

TEST(GpuPage, CutPageKeepsMissingValues) {
  std::string whole = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n" + Gpu0("DCGM_FI_DEV_POWER_USAGE", "100") +
                      Gpu0("DCGM_FI_DEV_GPU_TEMP", "50");
  PageFixture fixture(FindExporter("dcgm"));
  fixture.Read(whole + "# EOF\n", ExpositionFormat::kOpenMetrics100);
  fixture.Read("# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n" + Gpu0("DCGM_FI_DEV_POWER_USAGE", "120"),
               ExpositionFormat::kOpenMetrics100);
  EXPECT_EQ(fixture.Values(kIds)["gpu.power.draw{}"], 120);
  EXPECT_THAT(fixture.Values(kIds), Not(Contains(Key(StartsWith("gpu.temperature"))))) << "not fresh";
  EXPECT_EQ(fixture.table.size(), 3u) << "but not gone";
}

TEST(GpuPage, RejectsGarbage) {
  for (std::string_view body : {"", "\n\n", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"",
                                "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} abc\n", "DCGM_FI_DEV_POWER_USAGE 5\n",
                                "DCGM_FI_DEV_POWER_USAGE{gpu=\"-1\"} 5\n", "\xff\xfe\x00\x01"}) {
    PageFixture fixture(FindExporter("dcgm"));
    fixture.Read(body);
    EXPECT_TRUE(fixture.Values().empty()) << body;
  }
}

TEST(GpuPage, RefusesSeriesAboveTheLimit) {
  PageFixture fixture(FindExporter("dcgm"), 2);
  fixture.Read(Gpu0("DCGM_FI_DEV_POWER_USAGE", "1") + Gpu0("DCGM_FI_DEV_GPU_TEMP", "40") +
               Gpu0("DCGM_FI_DEV_SM_CLOCK", "40"));
  EXPECT_EQ(fixture.table.size(), 2u);
  EXPECT_EQ(fixture.table.refused(SeriesRefusal::kLimit), 2u);
  EXPECT_EQ(fixture.writer.counts().invalid, 0u);
}

TEST(GpuPage, AddsConfiguredAttributes) {
  PageFixture fixture(FindExporter("dcgm"), UINT32_MAX, {{"host.name", "far"}});
  fixture.Read(Gpu0("DCGM_FI_DEV_POWER_USAGE", "1"));
  for (const auto& [name, value] : fixture.Values()) EXPECT_THAT(name, ::testing::HasSubstr("host.name=far"));
}

TEST(GpuPage, SteadyPageDoesNotAllocate) {
  std::string pages[2];
  for (int p = 0; p < 2; ++p) {
    for (int gpu = 0; gpu < 8; ++gpu) {
      std::string labels = "gpu=\"" + std::to_string(gpu) + "\",UUID=\"GPU-" + std::to_string(gpu) + "\"";
      for (auto family :
           {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
            "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED"}) {
        pages[p] += Line(family, labels, std::to_string(p + 1));
      }
    }
  }
  PageFixture fixture(FindExporter("dcgm"));
  for (int i = 0; i < 10; ++i) fixture.Read(pages[i % 2]);
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) fixture.Read(pages[i % 2]);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted()) << "the counter counts";
}

}  // namespace
}  // namespace gpulens::gpu_page
