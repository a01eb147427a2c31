// Every folder of testdata/invalid is a small root with one bad file, named <reader>_<what>. Each must be
// refused with the code in the table below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "sources/host/devices.h"
#include "sources/host/process.h"
#include "sources/host/system.h"

namespace gpulens {
namespace {

const std::string kInvalid = GPULENS_SOURCE_DIR "/src/sources/host/testdata/invalid";

using ReadAny = std::function<Status(HostFiles&)>;

template <class Out>
ReadAny Through(Status (SystemReader::*read)(Out&)) {
  return [read](HostFiles& files) {
    Out out{};
    return (SystemReader(files).*read)(out);
  };
}

template <class Reader, class Out>
ReadAny By() {
  return [](HostFiles& files) {
    Out out{};
    return Reader(files).Read(out);
  };
}

template <class Out>
ReadAny Listing(Status (*read)(HostFiles&, NameList&, Out&)) {
  return [read](HostFiles& files) {
    NameList names;
    Out out{};
    return read(files, names, out);
  };
}

using ReaderTable = std::map<std::string, ReadAny, std::less<>>;

const ReaderTable& ProcReaders() {
  static const auto& readers = *new ReaderTable{
      {"stat", Through(&SystemReader::ReadCpuTimes)},
      {"meminfo", Through(&SystemReader::ReadMemory)},
      {"vmstat", Through(&SystemReader::ReadVmStat)},
      {"diskstats", Through(&SystemReader::ReadDisks)},
      {"netdev", Through(&SystemReader::ReadNetDevices)},
      {"snmp", Through(&SystemReader::ReadNetProtocols)},
      {"sockstat", Through(&SystemReader::ReadSockets)},
      {"loadavg", Through(&SystemReader::ReadLoadAverage)},
      {"uptime", Through(&SystemReader::ReadUptime)},
      {"filenr", Through(&SystemReader::ReadFileHandles)},
      {"entropy", Through(&SystemReader::ReadEntropy)},
      {"pressure",
       [](HostFiles& files) {
         PressureStall out;
         return SystemReader(files).ReadPressure(PressureResource::kCpu, out);
       }},
      {"mountinfo", By<FileSystemReader, std::vector<FileSystem>>()},
      {"procstat",
       [](HostFiles& files) {
         ProcessStat out;
         return ProcessReader(files).ReadStat(out);
       }},
      {"smaps",
       [](HostFiles& files) {
         ProcessMemory out;
         return ProcessReader(files).ReadMemory(out);
       }},
      {"limits",
       [](HostFiles& files) {
         ProcessReader::Descriptors out;
         return ProcessReader(files).ReadDescriptors(out);
       }},
      {"cgroup",
       [](HostFiles& files) {
         CgroupLimits out;
         return ReadCgroupLimits(files, out);
       }},
      {"counts",
       [](HostFiles& files) {
         NameList names;
         ProcessCounts out;
         return ReadProcessCounts(files, names, out);
       }},
  };
  return readers;
}

const ReaderTable& SysReaders() {
  static const auto& readers = *new ReaderTable{
      {"node", Listing(&ReadNumaNodes)},
      {"hugepages", Listing(&ReadHugePages)},
      {"edac", Listing(&ReadMemoryControllers)},
      {"cpulist",
       [](HostFiles& files) {
         CpuTopology out;
         return ReadCpuTopology(files, out);
       }},
      {"frequency",
       [](HostFiles& files) {
         std::vector<std::optional<uint64_t>> out;
         return ReadCpuFrequencies(files, {0}, out);
       }},
      {"hwmon", By<TemperatureReader, std::vector<TemperatureReading>>()},
      {"rapl", By<EnergyReader, std::vector<EnergyZone>>()},
      {"interface", By<NetInterfaceReader, std::vector<NetInterface>>()},
      {"rdma",
       [](HostFiles& files) {
         std::vector<RdmaPort> out;
         return RdmaReader(files).Read(RdmaDetail::kAll, out);
       }},
      {"disksize",
       [](HostFiles& files) {
         std::optional<uint64_t> bytes;
         return FindDiskSize(files, "sda", bytes);
       }},
      {"identity",
       [](HostFiles& files) {
         MachineIdentity out;
         return ReadMachineIdentity(files, out);
       }},
  };
  return readers;
}

struct Case {
  const char* folder;
  Code code;
};
// clang-format off
constexpr Case kCases[] = {
    {"stat_empty", Code::kDataLoss},
    {"stat_truncated", Code::kDataLoss},
    {"stat_negative", Code::kDataLoss},
    {"stat_overflow", Code::kDataLoss},
    {"stat_binary", Code::kDataLoss},
    {"stat_crlf", Code::kDataLoss},
    {"stat_missing", Code::kUnavailable},
    {"stat_no_total", Code::kDataLoss},
    {"stat_three_modes", Code::kDataLoss},
    {"stat_cpu_without_number", Code::kDataLoss},
    {"stat_negative_counter", Code::kDataLoss},
    {"meminfo_empty", Code::kDataLoss},
    {"meminfo_truncated", Code::kDataLoss},
    {"meminfo_negative", Code::kDataLoss},
    {"meminfo_overflow", Code::kDataLoss},
    {"meminfo_binary", Code::kDataLoss},
    {"meminfo_crlf", Code::kDataLoss},
    {"meminfo_missing", Code::kUnavailable},
    {"meminfo_unknown_unit", Code::kDataLoss},
    {"meminfo_no_unit", Code::kDataLoss},
    {"meminfo_no_total", Code::kDataLoss},
    {"meminfo_free_above_total", Code::kDataLoss},
    {"meminfo_no_colon", Code::kDataLoss},
    {"meminfo_too_many_lines", Code::kExhausted},
    {"vmstat_empty", Code::kDataLoss},
    {"vmstat_truncated", Code::kDataLoss},
    {"vmstat_negative", Code::kDataLoss},
    {"vmstat_overflow", Code::kDataLoss},
    {"vmstat_binary", Code::kDataLoss},
    {"vmstat_crlf", Code::kDataLoss},
    {"vmstat_missing", Code::kUnavailable},
    {"vmstat_too_many_lines", Code::kExhausted},
    {"vmstat_three_fields", Code::kDataLoss},
    {"diskstats_empty", Code::kDataLoss},
    {"diskstats_truncated", Code::kDataLoss},
    {"diskstats_negative", Code::kDataLoss},
    {"diskstats_overflow", Code::kDataLoss},
    {"diskstats_binary", Code::kDataLoss},
    {"diskstats_crlf", Code::kDataLoss},
    {"diskstats_missing", Code::kUnavailable},
    {"diskstats_ten_counters", Code::kDataLoss},
    {"diskstats_no_name", Code::kDataLoss},
    {"diskstats_write_overflow", Code::kDataLoss},
    {"netdev_empty", Code::kDataLoss},
    {"netdev_truncated", Code::kDataLoss},
    {"netdev_negative", Code::kDataLoss},
    {"netdev_overflow", Code::kDataLoss},
    {"netdev_binary", Code::kDataLoss},
    {"netdev_crlf", Code::kDataLoss},
    {"netdev_missing", Code::kUnavailable},
    {"netdev_no_header", Code::kDataLoss},
    {"netdev_header_only_half", Code::kDataLoss},
    {"netdev_fifteen_counters", Code::kDataLoss},
    {"netdev_no_colon", Code::kDataLoss},
    {"netdev_too_many_lines", Code::kExhausted},
    {"snmp_empty", Code::kDataLoss},
    {"snmp_truncated", Code::kDataLoss},
    {"snmp_negative", Code::kDataLoss},
    {"snmp_overflow", Code::kDataLoss},
    {"snmp_binary", Code::kDataLoss},
    {"snmp_crlf", Code::kDataLoss},
    {"snmp_missing", Code::kUnavailable},
    {"snmp_names_only", Code::kDataLoss},
    {"snmp_two_prefixes", Code::kDataLoss},
    {"snmp_fewer_values", Code::kDataLoss},
    {"sockstat_empty", Code::kDataLoss},
    {"sockstat_truncated", Code::kDataLoss},
    {"sockstat_negative", Code::kDataLoss},
    {"sockstat_overflow", Code::kDataLoss},
    {"sockstat_binary", Code::kDataLoss},
    {"sockstat_crlf", Code::kDataLoss},
    {"sockstat_missing", Code::kUnavailable},
    {"sockstat_no_value", Code::kDataLoss},
    {"sockstat_no_protocol", Code::kDataLoss},
    {"pressure_empty", Code::kDataLoss},
    {"pressure_truncated", Code::kDataLoss},
    {"pressure_negative", Code::kDataLoss},
    {"pressure_overflow", Code::kDataLoss},
    {"pressure_binary", Code::kDataLoss},
    {"pressure_crlf", Code::kDataLoss},
    {"pressure_missing", Code::kUnavailable},
    {"pressure_unknown_level", Code::kDataLoss},
    {"pressure_nan", Code::kDataLoss},
    {"pressure_too_many_lines", Code::kExhausted},
    {"loadavg_empty", Code::kDataLoss},
    {"loadavg_truncated", Code::kDataLoss},
    {"loadavg_negative", Code::kDataLoss},
    {"loadavg_overflow", Code::kDataLoss},
    {"loadavg_binary", Code::kDataLoss},
    {"loadavg_crlf", Code::kDataLoss},
    {"loadavg_missing", Code::kUnavailable},
    {"uptime_empty", Code::kDataLoss},
    {"uptime_truncated", Code::kDataLoss},
    {"uptime_negative", Code::kDataLoss},
    {"uptime_overflow", Code::kDataLoss},
    {"uptime_binary", Code::kDataLoss},
    {"uptime_crlf", Code::kDataLoss},
    {"uptime_missing", Code::kUnavailable},
    {"uptime_two_lines", Code::kDataLoss},
    {"mountinfo_empty", Code::kDataLoss},
    {"mountinfo_truncated", Code::kDataLoss},
    {"mountinfo_no_dash", Code::kDataLoss},
    {"mountinfo_binary", Code::kDataLoss},
    {"mountinfo_bad_escape", Code::kDataLoss},
    {"mountinfo_bad_device", Code::kDataLoss},
    {"mountinfo_overflow", Code::kDataLoss},
    {"mountinfo_negative", Code::kDataLoss},
    {"mountinfo_relative", Code::kDataLoss},
    {"mountinfo_no_type", Code::kDataLoss},
    {"mountinfo_missing", Code::kUnavailable},
    {"filenr_empty", Code::kDataLoss},
    {"filenr_truncated", Code::kDataLoss},
    {"filenr_negative", Code::kDataLoss},
    {"filenr_overflow", Code::kDataLoss},
    {"filenr_binary", Code::kDataLoss},
    {"filenr_crlf", Code::kDataLoss},
    {"filenr_missing", Code::kUnavailable},
    {"entropy_empty", Code::kDataLoss},
    {"entropy_truncated", Code::kDataLoss},
    {"entropy_negative", Code::kDataLoss},
    {"entropy_overflow", Code::kDataLoss},
    {"entropy_binary", Code::kDataLoss},
    {"entropy_crlf", Code::kDataLoss},
    {"entropy_missing", Code::kUnavailable},
    {"procstat_empty", Code::kDataLoss},
    {"procstat_truncated", Code::kDataLoss},
    {"procstat_negative", Code::kDataLoss},
    {"procstat_overflow", Code::kDataLoss},
    {"procstat_binary", Code::kDataLoss},
    {"procstat_crlf", Code::kDataLoss},
    {"procstat_missing", Code::kUnavailable},
    {"procstat_no_name", Code::kDataLoss},
    {"procstat_unknown_state", Code::kDataLoss},
    {"procstat_few_fields", Code::kDataLoss},
    {"smaps_empty", Code::kDataLoss},
    {"smaps_truncated", Code::kDataLoss},
    {"smaps_negative", Code::kDataLoss},
    {"smaps_overflow", Code::kDataLoss},
    {"smaps_binary", Code::kDataLoss},
    {"smaps_crlf", Code::kDataLoss},
    {"smaps_missing", Code::kUnavailable},
    {"smaps_no_rollup", Code::kDataLoss},
    {"smaps_no_pss", Code::kDataLoss},
    {"limits_empty", Code::kDataLoss},
    {"limits_truncated", Code::kDataLoss},
    {"limits_negative", Code::kDataLoss},
    {"limits_no_line", Code::kDataLoss},
    {"limits_binary", Code::kDataLoss},
    {"cgroup_cpu_max_empty", Code::kDataLoss},
    {"cgroup_cpu_max_negative", Code::kDataLoss},
    {"cgroup_cpu_max_zero_period", Code::kDataLoss},
    {"cgroup_cpu_max_garbage", Code::kDataLoss},
    {"cgroup_memory_max_negative", Code::kDataLoss},
    {"cgroup_memory_max_overflow", Code::kDataLoss},
    {"cgroup_path_relative", Code::kDataLoss},
    {"cgroup_only_version_1", Code::kUnavailable},
    {"cgroup_path_empty", Code::kDataLoss},
    {"cgroup_missing", Code::kUnavailable},
    {"cgroup_not_mounted", Code::kUnavailable},
    {"node_meminfo_empty", Code::kDataLoss},
    {"node_meminfo_no_node", Code::kDataLoss},
    {"node_meminfo_negative", Code::kDataLoss},
    {"node_meminfo_half", Code::kDataLoss},
    {"node_numastat_overflow", Code::kDataLoss},
    {"node_numastat_truncated", Code::kDataLoss},
    {"node_missing", Code::kUnavailable},
    {"cpulist_garbage", Code::kDataLoss},
    {"cpulist_backwards", Code::kDataLoss},
    {"cpulist_negative", Code::kDataLoss},
    {"cpulist_too_many", Code::kExhausted},
    {"cpulist_overflow", Code::kDataLoss},
    {"cpulist_missing", Code::kUnavailable},
    {"rdma_counter_negative", Code::kDataLoss},
    {"rdma_counter_overflow", Code::kDataLoss},
    {"rdma_counter_garbage", Code::kDataLoss},
    {"rdma_counter_empty", Code::kDataLoss},
    {"rdma_rate_garbage", Code::kDataLoss},
    {"rdma_rate_negative", Code::kDataLoss},
    {"rdma_state_garbage", Code::kDataLoss},
    {"rdma_missing", Code::kUnavailable},
    {"interface_speed_garbage", Code::kDataLoss},
    {"interface_missing", Code::kUnavailable},
    {"hwmon_garbage", Code::kDataLoss},
    {"hwmon_overflow", Code::kDataLoss},
    {"hwmon_missing", Code::kUnavailable},
    {"rapl_negative", Code::kDataLoss},
    {"rapl_overflow", Code::kDataLoss},
    {"rapl_garbage_range", Code::kDataLoss},
    {"rapl_no_energy", Code::kUnavailable},
    {"rapl_missing", Code::kUnavailable},
    {"rapl_zone_without_number", Code::kDataLoss},
    {"edac_garbage", Code::kDataLoss},
    {"edac_missing", Code::kUnavailable},
    {"hugepages_negative", Code::kDataLoss},
    {"hugepages_missing", Code::kUnavailable},
    {"disksize_garbage", Code::kDataLoss},
    {"disksize_overflow", Code::kDataLoss},
    {"frequency_garbage", Code::kDataLoss},
    {"frequency_missing", Code::kUnavailable},
    {"identity_missing", Code::kUnavailable},
    {"counts_garbage", Code::kDataLoss},
    {"counts_missing", Code::kUnavailable},
};
// clang-format on

TEST(HostInvalid, EveryBadInputIsRefusedWithItsCode) {
  for (const Case& bad : kCases) {
    SCOPED_TRACE(bad.folder);
    std::string folder = bad.folder;
    // The reader is the text before the first underscore.
    std::string name = folder.substr(0, folder.find('_'));
    auto reader = ProcReaders().find(name);
    if (reader == ProcReaders().end()) reader = SysReaders().find(name);
    ASSERT_NE(reader, SysReaders().end());
    auto files = HostFiles::Open(kInvalid + "/" + folder);
    ASSERT_TRUE(files.ok()) << files.error().detail;
    Status status = reader->second(*files);
    EXPECT_EQ(CodeName(status.code), CodeName(bad.code)) << status.detail;
    EXPECT_FALSE(status.detail.empty());
    EXPECT_LT(status.detail.size(), 400u);
    for (char c : status.detail) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << status.detail;
  }
}

TEST(HostInvalid, TableAndFolderAgree) {
  std::set<std::string> listed, there;
  for (const Case& bad : kCases) listed.insert(bad.folder);
  for (const auto& entry : std::filesystem::directory_iterator(kInvalid))
    there.insert(entry.path().filename());
  EXPECT_EQ(listed, there);
}

// A bad value of one device must not take the others along.
TEST(HostInvalid, OtherValuesOfADeviceSurvive) {
  auto files = HostFiles::Open(kInvalid + "/rdma_counter_garbage");
  ASSERT_TRUE(files.ok());
  std::vector<RdmaPort> ports;
  RdmaReader reader(*files);
  Status status = reader.Read(RdmaDetail::kAll, ports);
  EXPECT_EQ(status.code, Code::kDataLoss);
  EXPECT_THAT(status.detail, testing::HasSubstr("symbol_error: not a counter: \"?\""));
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].device, "mlx5_0");
  EXPECT_FALSE(ports[0].counters.symbol_errors.has_value());
}

TEST(HostInvalid, NoRoot) {
  EXPECT_EQ(HostFiles::Open(kInvalid + "/nothing_here").error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
