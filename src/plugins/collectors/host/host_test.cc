#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/parse.h"
#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "plugins/collectors/host/host_for_test.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kGolden = GPULENS_SOURCE_DIR "/src/plugins/collectors/host/testdata/golden.prom";

// One second of a machine at work.
void WorkForASecond(const FakeRoot& root) {
  root.Replace("proc/stat", "cpu  988000 2428 328280 72000196 12028 0 6588 32 20000 0",
               "cpu  988400 2428 328380 72000490 12024 0 6594 32 20000 0");
  root.Replace("proc/stat", "cpu0 120000", "cpu0 120050");
  root.Replace("proc/stat", "ctxt 1888777666", "ctxt 1888787666");
  root.Replace("proc/diskstats", "250000 1200 40000000 90000", "250100 1200 40008000 90030");
  root.Replace("proc/net/dev", "123456789012 98765432", "123456799012 98765532");
  root.Replace("proc/pressure/io", "total=77000001", "total=77500001");
  root.Replace("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "\n", "0\n");
  root.Replace("proc/meminfo", "MemAvailable:   180000000", "MemAvailable:   170000000");
}

TEST(HostGolden, TwoSecondsOfAFakeMachine) {
  FakeRoot root;
  HostRun run(root.path(), FullConfig());
  Status status = run.Collect();
  ASSERT_TRUE(status.ok()) << status.detail;
  WorkForASecond(root);
  status = run.After(seconds(1));
  ASSERT_TRUE(status.ok()) << status.detail;
  std::string page = run.Page(ExpositionFormat::kOpenMetrics100);
  if (std::getenv("GPULENS_UPDATE_GOLDEN")) {
    std::ofstream(kGolden) << page;
    GTEST_SKIP() << "wrote " << kGolden;
  }
  EXPECT_EQ(page, ReadFile(kGolden).value_or("")) << "GPULENS_UPDATE_GOLDEN=1 writes it anew";
  EXPECT_EQ(run.writer.counts().invalid, 0u);
  for (size_t i = 0; i < kSeriesRefusals; ++i)
    EXPECT_EQ(run.table.refused(static_cast<SeriesRefusal>(i)), 0u);
}

TEST(HostNames, EveryFamilyIsInTheCatalogue) {
  HostRun run(kGoodRoot, FullConfig());
  ASSERT_TRUE(run.Collect().ok());
  std::set<const MetricDesc*> emitted;
  for (uint32_t slot = 0; slot < run.frame->layout->slots(); ++slot)
    emitted.insert((*run.frame->layout)[slot].desc);
  std::set<const MetricDesc*> declared(host_collector.metrics.begin(), host_collector.metrics.end());
  auto tsv = ReadFile(GPULENS_SOURCE_DIR "/../shared/reference/catalogue_gpu.tsv");
  for (const MetricDesc* metric : emitted) {
    EXPECT_TRUE(declared.contains(metric)) << metric->name;
    EXPECT_EQ(FindMetric(metric->name), metric);
    EXPECT_TRUE(metric->name.starts_with("system.") || metric->name.starts_with("host.")) << metric->name;
    if (!tsv) continue;
    std::string named;
    AppendPrometheusName(named, *metric);
    size_t row = tsv->find("\nhost\t" + std::string(metric->name) + "\t" +
                           (metric->unit.empty() ? "-" : std::string(metric->unit)) + "\t");
    ASSERT_NE(row, std::string::npos) << metric->name << " " << metric->unit;
    EXPECT_THAT(tsv->substr(row + 1, tsv->find('\n', row + 1) - row), HasSubstr("\t" + named + "\t"));
  }
  // Only the shares of CPU time need a second run.
  for (const MetricDesc* metric : declared) {
    EXPECT_EQ(emitted.contains(metric), metric != &kSystemCpuUtilization) << metric->name;
  }
  if (!tsv) GTEST_SKIP() << "captures not here: the catalogue's table was not compared";
}

// Every attribute that a series has is one of its row.
TEST(HostNames, AttributesMatchTheCatalogue) {
  HostRun run(kGoodRoot, FullConfig());
  ASSERT_TRUE(run.Collect().ok());
  for (uint32_t slot = 0; slot < run.frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*run.frame->layout)[slot];
    for (auto attribute : info.attributes) {
      EXPECT_NE(std::ranges::find(info.desc->keys, attribute.key), info.desc->keys.end())
          << info.desc->name << " " << attribute.key;
    }
  }
}

TEST(HostOptions, OptInRowsAreOff) {
  HostRun run(kGoodRoot);
  ASSERT_TRUE(run.Collect().ok());
  auto lines = run.Lines();
  for (const char* name : {"system_cpu_frequency", "host_pressure_share", "host_entropy"}) {
    EXPECT_THAT(lines, Not(Contains(StartsWith(name))));
  }
  EXPECT_THAT(lines, Not(Contains(HasSubstr("cpu_logical_number"))));
  EXPECT_THAT(lines, Contains("system_process_count{process_state=\"running\"} 5"));
  EXPECT_THAT(lines, Contains("system_process_count{process_state=\"blocked\"} 2"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("process_state=\"sleeping\""))));
  EXPECT_THAT(lines, Contains("host_temperature_celsius{host_sensor=\"cpu0\"} 54"));
  EXPECT_THAT(lines, Contains(StartsWith("host_temperature_celsius{host_sensor=\"nvme0\"} -5.15")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("acpitz"))));
}

TEST(HostOptions, Excluded) {
  Config config = HostConfig();
  Exclude(config, "disks", {"sd*", "dm-?"});
  Exclude(config, "filesystems", {"/data*"});
  Exclude(config, "network", {"eth*", "lo"});
  HostRun run(kGoodRoot, config);
  ASSERT_TRUE(run.Collect().ok());
  std::string page = run.Page();
  for (const char* gone : {"\"sda\"", "\"dm-0\"", "/data disk", "\"eth0\"", "\"lo\""})
    EXPECT_THAT(page, Not(HasSubstr(gone))) << gone;
  for (const char* there : {"\"nvme0n1\"", "/boot/efi", "\"ib0\""}) EXPECT_THAT(page, HasSubstr(there));
}

TEST(HostOptions, Globs) {
  EXPECT_TRUE(MatchesAny({"veth*"}, "veth12"));
  EXPECT_TRUE(MatchesAny({"x", "*"}, ""));
  EXPECT_TRUE(MatchesAny({"a*b*c"}, "aXbbYc"));
  EXPECT_TRUE(MatchesAny({"?d?"}, "sda"));
  EXPECT_FALSE(MatchesAny({"a*b*c"}, "aXbbY"));
  EXPECT_FALSE(MatchesAny({"sd"}, "sda"));
  EXPECT_FALSE(MatchesAny({"sda?"}, "sda"));
  EXPECT_FALSE(MatchesAny({}, "sda"));
}

TEST(HostOptions, RootOfTheProgramUnlessTheConfigurationNamesOne) {
  Config config = HostConfig();
  Env env;
  env.root = "/host";
  EXPECT_EQ(HostRoot(config, env), "/host");
  config.Set("root", std::string("/other"), {});
  EXPECT_EQ(HostRoot(config, env), "/other");
}

TEST(HostCpu, SharesNeedTwoRunsAndAddUpToOne) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  EXPECT_FALSE(run.Has("system_cpu_utilization"));
  // No tick has passed: no shares yet.
  ASSERT_TRUE(run.After(milliseconds(1)).ok());
  EXPECT_FALSE(run.Has("system_cpu_utilization"));
  WorkForASecond(root);
  ASSERT_TRUE(run.After(seconds(1)).ok());
  // 400 user, 100 system, 294 idle, 6 softirq; iowait stepped back and is held.
  EXPECT_THAT(run.Lines(), Contains("system_cpu_utilization_ratio{cpu_mode=\"user\"} 0.5"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_utilization_ratio{cpu_mode=\"system\"} 0.125"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_utilization_ratio{cpu_mode=\"idle\"} 0.3675"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_utilization_ratio{cpu_mode=\"iowait\"} 0"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_time_seconds_total{cpu_mode=\"iowait\"} 120.28"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_time_seconds_total{cpu_mode=\"user\"} 9884"));
  // Without a new tick the shares stay as they are.
  ASSERT_TRUE(run.After(milliseconds(1)).ok());
  EXPECT_THAT(run.Lines(), Contains("system_cpu_utilization_ratio{cpu_mode=\"user\"} 0.5"));
}

TEST(HostCpu, RestoredMachineStartsWithNewBases) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Replace("proc/stat", "cpu  988000 2428 328280 72000196", "cpu  1000 2428 328280 72000196");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_FALSE(run.Has("system_cpu_utilization"));
  EXPECT_THAT(run.Lines(), Contains("system_cpu_time_seconds_total{cpu_mode=\"user\"} 10"));
}

TEST(HostCpu, ProcessorsComeAndGo) {
  FakeRoot root;
  HostRun run(root.path(), FullConfig());
  ASSERT_TRUE(run.Collect().ok());
  EXPECT_THAT(run.Lines(), Contains("system_cpu_logical_count 8"));
  EXPECT_THAT(run.Lines(), Contains(StartsWith("system_cpu_time_seconds_total{cpu_logical_number=\"7\"")));
  uint32_t before = run.table.size();
  root.Replace("proc/stat", "cpu7 127000 307 41070 9000049 1507 0 827 4 0 0\n", "");
  ASSERT_TRUE(run.After(seconds(11)).ok());
  EXPECT_THAT(run.Lines(), Contains("system_cpu_logical_count 7"));
  EXPECT_THAT(run.Lines(), Not(Contains(HasSubstr("cpu_logical_number=\"7\""))));
  EXPECT_LT(run.table.size(), before);
}

TEST(HostCpu, RejectsABootTimeInTheFuture) {
  FakeRoot root;
  root.Replace("proc/stat", "btime 1767225600", "btime 1867225600");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  EXPECT_THAT(run.Page(ExpositionFormat::kOpenMetrics100), Not(HasSubstr("switches_created")));
}

TEST(HostMemory, StatesAddUpToTheLimit) {
  HostRun run(kGoodRoot);
  ASSERT_TRUE(run.Collect().ok());
  int64_t sum = 0, limit = 0;
  double shares = 0;
  for (const std::string& line : run.Lines()) {
    std::string_view number = std::string_view(line).substr(line.rfind(' ') + 1);
    if (line.starts_with("system_memory_usage_bytes")) sum += ParseInt<int64_t>(number).value_or(0);
    if (line.starts_with("system_memory_limit_bytes")) limit = ParseInt<int64_t>(number).value_or(0);
    if (line.starts_with("system_memory_utilization_ratio")) shares += ParseDouble(number).value_or(0);
  }
  EXPECT_EQ(sum, limit);
  EXPECT_NEAR(shares, 1, 1e-12);
}

TEST(HostMemory, OmitsWhatTheKernelDoesNotPrint) {
  FakeRoot root;
  root.Write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  EXPECT_FALSE(run.Has("host_memory_utilization_ratio"));
  EXPECT_FALSE(run.Has("system_memory_usage_bytes{system_memory_state=\"used\"}"));
  EXPECT_TRUE(run.Has("system_memory_usage_bytes{system_memory_state=\"free\"} 409600"));
  EXPECT_TRUE(run.Has("system_paging_usage_bytes{system_paging_state=\"used\"} 0"));
  EXPECT_FALSE(run.Has("system_paging_utilization_ratio"));
}

TEST(HostDisk, DevicesComeAndGo) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Write("proc/diskstats", "   8  16 sdz 10 0 80 5 20 0 160 7 4294967295 9 12\n");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  auto lines = run.Lines();
  EXPECT_THAT(lines,
              Contains("system_disk_io_bytes_total{disk_io_direction=\"read\",system_device=\"sdz\"} 40960"));
  EXPECT_THAT(lines, Not(Contains(AllOf(StartsWith("system_disk_io"), HasSubstr("nvme0n1")))));
  // The kernel's underflow is rejected.
  EXPECT_THAT(lines, Not(Contains(StartsWith("host_disk_pending_operations"))));
  // One that came later has no known start.
  std::string page = run.Page(ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(page, Not(HasSubstr("system_disk_io_bytes_created")));
}

TEST(HostDisk, TimesContinuePast32Bits) {
  FakeRoot root;
  root.Write("proc/diskstats", "8 0 sda 10 0 80 4294967290 20 0 160 7 0 4294967000 12\n");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Write("proc/diskstats", "8 0 sda 11 0 80 10 20 0 160 7 0 504 12\n");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_TRUE(
      run.Has("system_disk_operation_time_seconds_total{disk_io_direction=\"read\",system_device=\"sda\"} "
              "4294967.306"));
  EXPECT_TRUE(run.Has("system_disk_io_time_seconds_total{system_device=\"sda\"} 4294967.8"));
}

TEST(HostDisk, Counter32) {
  Counter32 counter;
  EXPECT_EQ(counter.Carry(4294967000, true), 4294967000u);
  EXPECT_EQ(counter.Carry(100, true), 4294967396u);
  EXPECT_EQ(counter.Carry(200, true), 4294967496u);
  EXPECT_EQ(counter.Carry(50, true), 50u) << "a fall from there is no wrap";
  Counter32 restarted;
  EXPECT_EQ(restarted.Carry(4294967000, true), 4294967000u);
  EXPECT_EQ(restarted.Carry(100, false), 100u);
  Counter32 wide;
  EXPECT_EQ(wide.Carry(uint64_t{1} << 40, true), uint64_t{1} << 40);
  EXPECT_EQ(wide.Carry(5, true), 5u);
}

TEST(HostFileSystems, ReadsLocalFileSystemsOnly) {
  HostRun run(kGoodRoot);
  ASSERT_TRUE(run.Collect().ok());
  auto lines = run.Lines();
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("host_filesystem_unreachable"), HasSubstr("/data disk"),
                                    testing::EndsWith(" 1"))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("host_filesystem_unreachable"), HasSubstr("\"/\""),
                                    testing::EndsWith(" 0"))));
  // Without permission all is unknown; remote file systems are not queried.
  for (const char* silent : {"\"/opt\"", "\"/home\"", "/lustre", "/mnt/model", "/home/scratch"})
    EXPECT_THAT(lines, Not(Contains(HasSubstr(silent)))) << silent;
  EXPECT_THAT(lines, Not(Contains(AllOf(StartsWith("host_filesystem_inodes"), HasSubstr("/boot/efi")))));
}

TEST(HostFileSystems, RemountedFileSystemStartsANewSeries) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Replace("proc/self/mountinfo", "27 1 259:2 / / rw,relatime", "27 1 259:2 / / ro,relatime");
  root.Replace("proc/self/mountinfo", "- ext4 /dev/nvme0n1p2 rw", "- ext4 /dev/nvme0n1p2 ro");
  ASSERT_TRUE(run.After(seconds(10)).ok());
  auto lines = run.Lines();
  auto of_root = [](const char* mode) {
    return AllOf(StartsWith("system_filesystem_limit"), HasSubstr("mountpoint=\"/\""), HasSubstr(mode));
  };
  EXPECT_THAT(lines, Contains(of_root("mode=\"ro\"")));
  EXPECT_THAT(lines, Not(Contains(of_root("mode=\"rw\""))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("host_filesystem_unreachable"), HasSubstr("\"/\""))));
  EXPECT_EQ(run.writer.counts().invalid, 0u);
}

TEST(HostNetwork, InterfacesComeAndGoAndCountersPass32Bits) {
  FakeRoot root;
  const std::string head = root.Read("proc/net/dev").substr(0, root.Read("proc/net/dev").find("    lo:"));
  root.Write("proc/net/dev", head + "  eth9:4294967000 50 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Write("proc/net/dev", head + "  eth9:1000 60 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_TRUE(
      run.Has("system_network_io_bytes_total{network_interface_name=\"eth9\",network_io_direction="
              "\"receive\"} 4294968296"));
  root.Write("proc/net/dev", head + "  eth8:5 6 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_THAT(run.Page(), AllOf(HasSubstr("\"eth8\""), Not(HasSubstr("\"eth9\""))));
}

TEST(HostRdma, RejectsSaturatedCounters) {
  FakeRoot root;
  const std::string counters = "sys/class/infiniband/mlx5_0/ports/1/counters/";
  root.Write(counters + "port_rcv_data", "4294967295\n");
  root.Write(counters + "symbol_error", "65535\n");
  root.Write(counters + "port_rcv_constraint_errors", "255\n");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  auto lines = run.Lines();
  auto of = [](const char* family, const char* what) {
    return Contains(AllOf(StartsWith(family), HasSubstr("mlx5_0"), HasSubstr(what)));
  };
  EXPECT_THAT(lines, Not(of("host_rdma_io", "receive")));
  EXPECT_THAT(lines, of("host_rdma_io", "transmit"));
  EXPECT_THAT(lines, Not(of("host_rdma_errors", "\"symbol\"")));
  EXPECT_THAT(lines, Not(of("host_rdma_errors", "\"constraint\"")));
  EXPECT_THAT(lines, of("host_rdma_errors", "\"link_downed\""));
  EXPECT_EQ(run.writer.counts().rejected[static_cast<size_t>(Validation::kStuck)], 3u);
}

TEST(HostRdma, HandlesNewFirmwareAndAPortThatIsDown) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Write("sys/class/infiniband/mlx5_0/fw_ver", "99.1\n");
  root.Write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  ASSERT_TRUE(run.After(seconds(10)).ok());
  auto lines = run.Lines();
  EXPECT_EQ(std::ranges::count_if(lines,
                                  [](const std::string& line) {
                                    return line.starts_with("host_rdma_port_info") &&
                                           line.find("mlx5_0") != std::string::npos;
                                  }),
            1);
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("host_rdma_port_info"), HasSubstr("\"99.1\""))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("host_rdma_port_active"), HasSubstr("mlx5_0"),
                                    testing::EndsWith(" 0"))));
  EXPECT_THAT(lines, Not(Contains(AllOf(StartsWith("host_rdma_port_speed"), HasSubstr("mlx5_0")))));
}

TEST(HostPace, ValuesStayFreshUntilTheNextReadingIsDue) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  const std::string faults = "system_paging_faults_total{system_paging_fault_type=\"major\"} ";
  EXPECT_TRUE(run.Has(faults + "45000"));
  root.Replace("proc/vmstat", "pgmajfault 45000", "pgmajfault 45001");
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(run.After(seconds(1)).ok());
    EXPECT_TRUE(run.Lines().contains(faults + "45000")) << i;  // fresh: has no time
  }
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_TRUE(run.Lines().contains(faults + "45001"));
  // Gone: stale with its time until the time to live ends, then absent; exported again at the next retry.
  std::string text = root.Read("proc/vmstat");
  root.Remove("proc/vmstat");
  ASSERT_TRUE(run.After(seconds(10)).ok());
  EXPECT_FALSE(run.Lines().contains(faults + "45001"));
  EXPECT_TRUE(run.Has(faults + "45001 "));
  ASSERT_TRUE(run.After(seconds(5)).ok());
  EXPECT_FALSE(run.Has(faults));
  root.Write("proc/vmstat", text);
  ASSERT_TRUE(run.After(seconds(50)).ok());
  EXPECT_FALSE(run.Has(faults));
  ASSERT_TRUE(run.After(seconds(5)).ok());
  EXPECT_TRUE(run.Lines().contains(faults + "45001"));
}

// A rejected reading is not kept fresh by the interval of its part.
TEST(HostPace, RejectedReadingAges) {
  FakeRoot root;
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  root.Replace("proc/vmstat", "pswpout 2048", "pswpout 48");
  ASSERT_TRUE(run.After(seconds(10)).ok());
  const std::string swapped = "system_paging_operations_total{system_paging_direction=\"out\"";
  EXPECT_TRUE(run.Has(swapped));
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_FALSE(run.Has(swapped));
}

TEST(HostEnergy, AddsDiesOfAPackageAndItsMemory) {
  FakeRoot root;
  root.Remove("sys/class/powercap");
  auto zone = [&](const std::string& name, const std::string& what, const std::string& microjoules) {
    root.Write("sys/class/powercap/" + name + "/name", what + "\n");
    root.Write("sys/class/powercap/" + name + "/max_energy_range_uj", "262143328850\n");
    root.Write("sys/class/powercap/" + name + "/energy_uj", microjoules + "\n");
  };
  zone("intel-rapl:0", "psys", "9000000");
  zone("intel-rapl:1", "package-0-die-0", "1000000");
  zone("intel-rapl:1:0", "dram", "500000");
  zone("intel-rapl:1:1", "core", "1");
  zone("intel-rapl:2", "package-0-die-1", "2000000");
  zone("intel-rapl:3", "package-1", "7000000");
  zone("intel-rapl:4", "package-x", "7000000");
  zone("intel-rapl:5:0", "dram", "7000000");
  HostRun run(root.path());
  ASSERT_TRUE(run.Collect().ok());
  std::vector<std::string> energy;
  for (const std::string& line : run.Lines()) {
    if (line.find("_energy_") != std::string::npos) energy.push_back(line);
  }
  EXPECT_THAT(energy, testing::ElementsAre("host_cpu_energy_joules_total{host_cpu_package=\"0\"} 3",
                                           "host_cpu_energy_joules_total{host_cpu_package=\"1\"} 7",
                                           "host_memory_energy_joules_total{host_cpu_package=\"0\"} 0.5"));
  // Without one of its dies a package has no sum.
  root.Remove("sys/class/powercap/intel-rapl:2/energy_uj");
  ASSERT_TRUE(run.After(seconds(1)).ok());
  EXPECT_FALSE(run.Lines().contains("host_cpu_energy_joules_total{host_cpu_package=\"0\"} 3"));
  EXPECT_TRUE(run.Lines().contains("host_cpu_energy_joules_total{host_cpu_package=\"1\"} 7"));
}

TEST(HostTemperatures, ReadsOtherMachines) {
  FakeRoot root;
  root.Remove("sys/class/hwmon");
  auto sensor = [&](const std::string& chip, const std::string& name, const std::string& file,
                    const std::string& label, const std::string& value) {
    const std::string folder = "sys/class/hwmon/" + chip + "/";
    root.Write(folder + "name", name + "\n");
    if (!label.empty()) root.Write(folder + file + "_label", label + "\n");
    root.Write(folder + file + "_input", value + "\n");
  };
  auto device = [&](const std::string& chip, const std::string& target) {
    std::filesystem::create_symlink("../../../devices/" + target,
                                    root.path() / ("sys/class/hwmon/" + chip + "/device"));
  };
  sensor("hwmon0", "k10temp", "temp1", "Tctl", "71000");
  sensor("hwmon0", "k10temp", "temp2", "Tdie", "61000");
  device("hwmon0", "0000:00:18.3");
  sensor("hwmon1", "k10temp", "temp1", "Tctl", "52000");
  sensor("hwmon1", "k10temp", "temp3", "Tccd1", "53000");
  device("hwmon1", "0000:00:19.3");
  sensor("hwmon2", "coretemp", "temp1", "Package id ?", "50000");
  Config config = HostConfig();
  config.Set("temperatures", std::string("all"), {});
  HostRun run(root.path(), config);
  ASSERT_TRUE(run.Collect().ok());
  std::vector<std::string> lines;
  for (const std::string& line : run.Lines()) {
    if (line.starts_with("host_temperature")) lines.push_back(line.substr(line.find('"')));
  }
  EXPECT_THAT(lines,
              testing::UnorderedElementsAre("\"cpu0\"} 61", "\"cpu1\"} 52", "\"k10temp.0/tctl\"} 71",
                                            "\"k10temp.1/tccd1\"} 53", "\"coretemp.0/package_id_?\"} 50"));
}

TEST(HostTime, HasNoOffsetWithoutAReference) {
  HostSeams seams{&FakeStatVfs, [](TimeSync& out) {
                    out = {};
                    return Ok();
                  }};
  HostRun run(kGoodRoot, HostConfig(), seams);
  ASSERT_TRUE(run.Collect().ok());
  EXPECT_TRUE(run.Has("host_time_synchronized 0"));
  EXPECT_FALSE(run.Has("host_time_offset"));
  seams.time_sync = [](TimeSync&) { return Status{Code::kPermissionDenied, "sandbox"}; };
  HostRun forbidden(kGoodRoot, HostConfig(), seams);
  EXPECT_TRUE(forbidden.Collect().ok());
  EXPECT_FALSE(forbidden.Has("host_time"));
}

TEST(HostProbe, CompleteMachine) {
  Config config = HostConfig();
  config.Set("root", kGoodRoot, {});
  Env env;
  auto findings = host_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, Finding::kFound);
  EXPECT_EQ(findings[0].subject, "host");
  EXPECT_EQ(findings[0].what, "/proc, /sys, cgroup v2");
  EXPECT_EQ(findings[1].subject, "cpu energy");
  EXPECT_EQ(findings[1].kind, Finding::kFound);
}

TEST(HostProbe, ContainerWithoutPressureAndEnergy) {
  FakeRoot root;
  root.Remove("proc/pressure");
  root.Remove("sys/class/powercap");
  root.Write(".dockerenv", "");
  Config config = HostConfig();
  config.Set("root", root.path().string(), {});
  Env env;
  auto findings = host_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[1].subject, "container");
  EXPECT_EQ(findings[1].what, "docker, cgroup v2 limits of this container (4.0 CPUs, 0.5 GiB)");
  EXPECT_EQ(findings[2].subject, "pressure");
  EXPECT_EQ(findings[2].kind, Finding::kNotHere);
  root.Write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  root.Write("sys/class/powercap/intel-rapl:0/energy_uj", "garbage\n");
  findings = host_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[2].kind, Finding::kBroken);
}

TEST(HostProbe, EnergyWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  FakeRoot root;
  std::filesystem::permissions(root.path() / "sys/class/powercap/intel-rapl:0/energy_uj",
                               std::filesystem::perms::none);
  Config config = HostConfig();
  config.Set("root", root.path().string(), {});
  Env env;
  auto findings = host_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].kind, Finding::kNoPermission);
  EXPECT_THAT(findings[1].remedy, HasSubstr("sudo chmod o+r /sys/class/powercap/intel-rapl:*/energy_uj"));
  HostRun run(root.path());
  EXPECT_TRUE(run.Collect().ok());
}

TEST(HostProbe, NothingThere) {
  FakeRoot root;
  Config config = HostConfig();
  config.Set("root", (root.path() / "nowhere").string(), {});
  Env env;
  EXPECT_EQ(host_collector.probe(config, env).at(0).kind, Finding::kBroken);
  config.Set("root", (root.path() / "etc").string(), {});
  auto findings = host_collector.probe(config, env);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Finding::kBroken);
  EXPECT_THAT(findings[0].remedy, HasSubstr("collectors.host.root"));
}

// The first number after `key` in a file of this machine.
double NumberIn(const std::string& file, std::string_view key) {
  std::string text = ReadFile(file).value_or("");
  size_t at = text.find(key);
  if (at == std::string::npos) return NAN;
  std::string_view rest = Trim(std::string_view(text).substr(at + key.size()));
  return ParseDouble(rest.substr(0, rest.find_first_not_of("0123456789."))).value_or(NAN);
}

double ValueOf(HostRun& run, const std::string& series) {
  for (const std::string& line : run.Lines()) {
    if (line.starts_with(series + " ")) return ParseDouble(line.substr(series.size() + 1)).value_or(NAN);
  }
  return NAN;
}

TEST(HostReal, AgreesWithProc) {
  if (!std::filesystem::exists("/proc/meminfo")) GTEST_SKIP() << "no /proc here";
  HostRun run("/", HostConfig(), HostSeams{}, RealClock().Now());
  Status status = run.Collect();
  ASSERT_TRUE(status.ok()) << status.detail;
  double total = NumberIn("/proc/meminfo", "MemTotal:"),
         available = NumberIn("/proc/meminfo", "MemAvailable:");
  EXPECT_NEAR(ValueOf(run, "host_memory_utilization_ratio"), 1 - available / total, 0.01);
  EXPECT_EQ(ValueOf(run, "system_memory_limit_bytes"), total * 1024);
  double uptime = NumberIn("/proc/uptime", "");
  EXPECT_NEAR(ValueOf(run, "system_uptime_seconds"), uptime, 5);
  double user = NumberIn("/proc/stat", "cpu ") / 100;
  EXPECT_NEAR(ValueOf(run, "system_cpu_time_seconds_total{cpu_mode=\"user\"}"), user, 5 + user * 0.01);
  EXPECT_NEAR(ValueOf(run, "host_context_switches_total") / NumberIn("/proc/stat", "ctxt "), 1, 0.02);
  EXPECT_GE(ValueOf(run, "system_cpu_logical_count"), 1);
  // All modes together are the time of all processors since boot.
  double sum = 0;
  for (const std::string& line : run.Lines()) {
    if (line.starts_with("system_cpu_time_seconds_total"))
      sum += ParseDouble(std::string_view(line).substr(line.rfind(' ') + 1)).value_or(0);
  }
  EXPECT_LE(sum, 1.02 * (uptime + 5) * ValueOf(run, "system_cpu_logical_count"));
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace gpulens
