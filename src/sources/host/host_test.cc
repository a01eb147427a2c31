#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/allocations.h"
#include "sources/host/devices.h"
#include "sources/host/process.h"
#include "sources/host/system.h"

namespace gpulens {
namespace {

using testing::ElementsAre;
using testing::Optional;

const std::string kRoot = GPULENS_SOURCE_DIR "/src/sources/host/testdata/root";
constexpr uint64_t kKib = 1024;

#define ASSERT_OK(expr)                          \
  do {                                           \
    Status status_ = (expr);                     \
    ASSERT_TRUE(status_.ok()) << status_.detail; \
  } while (false)

class HostTest : public testing::Test {
 protected:
  HostFiles files_ = *HostFiles::Open(kRoot + "/");
  SystemReader system_{files_};
};

TEST_F(HostTest, CpuTimes) {
  CpuTimes cpu;
  ASSERT_OK(system_.ReadCpuTimes(cpu));
  EXPECT_EQ(cpu.total.user, 988000u);
  EXPECT_EQ(cpu.total.idle, 72000196u);
  EXPECT_THAT(cpu.total.steal, Optional(32u));
  EXPECT_THAT(cpu.total.guest, Optional(20000u));
  ASSERT_EQ(cpu.cpus.size(), 8u);
  EXPECT_EQ(cpu.cpus[7].number, 7u);
  EXPECT_EQ(cpu.cpus[7].ticks.system, 41070u);
  EXPECT_THAT(cpu.context_switches, Optional(1888777666u));
  EXPECT_THAT(cpu.interrupts, Optional(987654321u));
  EXPECT_THAT(cpu.processes_created, Optional(424242u));
  EXPECT_THAT(cpu.processes_running, Optional(5u));
  EXPECT_THAT(cpu.processes_blocked, Optional(2u));
  EXPECT_THAT(cpu.boot_unix_s, Optional(1767225600u));
}

TEST_F(HostTest, LoadAndUptime) {
  LoadAverage load;
  ASSERT_OK(system_.ReadLoadAverage(load));
  EXPECT_DOUBLE_EQ(load.one_minute, 5.25);
  EXPECT_DOUBLE_EQ(load.fifteen_minutes, 3.05);
  SystemUptime uptime;
  ASSERT_OK(system_.ReadUptime(uptime));
  EXPECT_DOUBLE_EQ(uptime.seconds, 86400.5);
}

TEST_F(HostTest, Memory) {
  MemoryInfo memory;
  ASSERT_OK(system_.ReadMemory(memory));
  EXPECT_THAT(memory.total, Optional(263921664 * kKib));
  EXPECT_THAT(memory.available, Optional(180000000 * kKib));
  EXPECT_THAT(memory.slab_reclaimable, Optional(4096000 * kKib));
  EXPECT_THAT(memory.swap_free, Optional(8380412 * kKib));
  EXPECT_THAT(memory.committed, Optional(52428800 * kKib));
  VmStat vm;
  ASSERT_OK(system_.ReadVmStat(vm));
  EXPECT_THAT(vm.swapped_out, Optional(2048u));
  EXPECT_THAT(vm.faults, Optional(3000000000u));
  EXPECT_THAT(vm.major_faults, Optional(45000u));
  EXPECT_THAT(vm.oom_kills, Optional(3u));
}

TEST_F(HostTest, WholeDisksOnly) {
  std::vector<DiskStat> disks;
  ASSERT_OK(system_.ReadDisks(disks));
  std::vector<std::string> names;
  for (const DiskStat& disk : disks) names.push_back(disk.name);
  ASSERT_THAT(names, ElementsAre("nvme0n1", "sda", "sdaa", "dm-0"));
  EXPECT_EQ(disks[0].read_bytes, uint64_t{40000000} * 512);
  EXPECT_EQ(disks[0].write_bytes, uint64_t{128000000} * 512);
  EXPECT_EQ(disks[0].in_flight, 3u);
  EXPECT_EQ(disks[0].io_time_ms, 500000u);
  EXPECT_EQ(disks[0].writes_merged, 64000u);

  std::optional<uint64_t> bytes;
  ASSERT_OK(FindDiskSize(files_, "nvme0n1", bytes));
  EXPECT_THAT(bytes, Optional(uint64_t{7501476528} * 512));
  ASSERT_OK(FindDiskSize(files_, "cciss/c0d0", bytes));
  EXPECT_THAT(bytes, Optional(uint64_t{2000} * 512));
  ASSERT_OK(FindDiskSize(files_, "dm-0", bytes));
  EXPECT_FALSE(bytes.has_value());
}

std::vector<std::string> queried;

int FakeStatVfs(const char* path, struct statvfs* out) {
  queried.emplace_back(path);
  std::string_view mount = std::string_view(path).substr(kRoot.size());
  if (mount == "/boot/efi") return errno = EACCES, -1;
  *out = {};
  out->f_frsize = 4096;
  out->f_blocks = 1000;
  out->f_bfree = 400;
  out->f_bavail = 350;
  if (mount == "/") out->f_files = 500, out->f_ffree = 300;
  if (mount == "/opt") out->f_blocks = 0;
  if (mount == "/dev/shm") out->f_bavail = ~0ull - 5;
  return 0;
}

TEST_F(HostTest, FileSystemsThatCouldHangAreNotQueried) {
  queried.clear();
  FileSystemReader reader(files_, FakeStatVfs);
  std::vector<FileSystem> list;
  ASSERT_OK(reader.Read(list));
  EXPECT_THAT(queried, ElementsAre(kRoot + "/", kRoot + "/boot/efi", kRoot + "/dev/shm", kRoot + "/data disk",
                                   kRoot + "/opt"));
  std::vector<std::string> mounts;
  for (const FileSystem& entry : list) mounts.push_back(entry.mount.mount_point);
  ASSERT_THAT(mounts, ElementsAre("/", "/boot/efi", "/dev/shm", "/data disk", "/home", "/home/scratch",
                                  "/mnt/model", "/net", "/lustre", "/opt", "/odd"));
  const FileSystem& root = list[0];
  EXPECT_EQ(root.answer, FileSystem::Answer::kOk);
  EXPECT_EQ(root.size_bytes, 4096000u);
  EXPECT_EQ(root.free_bytes, 400u * 4096);
  EXPECT_EQ(root.available_bytes, 350u * 4096);
  EXPECT_THAT(root.inodes_free, Optional(300u));
  EXPECT_FALSE(root.mount.read_only);
  EXPECT_EQ(list[1].answer, FileSystem::Answer::kFailed);
  EXPECT_EQ(list[1].error, Code::kPermissionDenied);
  EXPECT_EQ(list[2].available_bytes, 0u);  // Wrapped around in the answer.
  EXPECT_FALSE(list[2].inodes.has_value());
  EXPECT_TRUE(list[3].mount.read_only);
  EXPECT_EQ(list[3].mount.root, "/");
  for (size_t i : {4u, 5u, 6u, 7u, 8u, 10u}) EXPECT_EQ(list[i].answer, FileSystem::Answer::kNotQueried) << i;
  EXPECT_EQ(list[9].answer, FileSystem::Answer::kFailed);
  EXPECT_EQ(list[9].error, Code::kDataLoss);
}

TEST_F(HostTest, Network) {
  std::vector<NetDevice> devices;
  ASSERT_OK(system_.ReadNetDevices(devices));
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[1].name, "eth0");
  EXPECT_EQ(devices[1].receive.bytes, 123456789012u);
  EXPECT_EQ(devices[1].receive.dropped, 2u);
  EXPECT_EQ(devices[1].transmit.bytes, 987654321098u);
  EXPECT_EQ(devices[1].transmit.errors, 3u);
  EXPECT_EQ(devices[2].transmit.dropped, 5u);
  NetProtocols protocols;
  ASSERT_OK(system_.ReadNetProtocols(protocols));
  EXPECT_THAT(protocols.tcp_segments_retransmitted, Optional(1234u));
  EXPECT_THAT(protocols.tcp_established, Optional(55u));
  SocketCounts sockets;
  ASSERT_OK(system_.ReadSockets(sockets));
  EXPECT_THAT(sockets.tcp_in_use, Optional(60u));
  EXPECT_THAT(sockets.tcp_time_wait, Optional(20u));
  EXPECT_THAT(sockets.tcp6_in_use, Optional(12u));
  EXPECT_THAT(sockets.udp6_in_use, Optional(4u));
}

TEST_F(HostTest, PressureAndKernelNumbers) {
  PressureStall pressure;
  ASSERT_OK(system_.ReadPressure(PressureResource::kCpu, pressure));
  EXPECT_DOUBLE_EQ(pressure.some->percent_60s, 2.25);
  EXPECT_EQ(pressure.some->total_us, 8590572u);
  EXPECT_EQ(pressure.full->total_us, 0u);
  ASSERT_OK(system_.ReadPressure(PressureResource::kIo, pressure));
  EXPECT_EQ(pressure.full->total_us, 66000001u);
  ASSERT_OK(system_.ReadPressure(PressureResource::kMemory, pressure));
  ASSERT_OK(system_.ReadPressure(PressureResource::kIrq, pressure));
  EXPECT_FALSE(pressure.some.has_value());
  EXPECT_EQ(pressure.full->total_us, 4567u);
  FileHandles handles;
  ASSERT_OK(system_.ReadFileHandles(handles));
  EXPECT_EQ(handles.used, 12345u);
  EXPECT_EQ(handles.limit, 9223372036854775807u);
  uint64_t bits = 0;
  ASSERT_OK(system_.ReadEntropy(bits));
  EXPECT_EQ(bits, 256u);
}

TEST_F(HostTest, Interfaces) {
  NetInterfaceReader reader(files_);
  std::vector<NetInterface> list;
  ASSERT_OK(reader.Read(list));
  ASSERT_EQ(list.size(), 5u);  // bonding_masters is a file.
  EXPECT_EQ(list[0].name, "lo");
  EXPECT_FALSE(list[0].up.has_value());
  EXPECT_EQ(list[1].name, "ib0");
  EXPECT_THAT(list[1].speed_bytes_per_s, Optional(50'000'000'000u));
  EXPECT_EQ(list[2].name, "eth0");
  EXPECT_THAT(list[2].up, Optional(true));
  EXPECT_EQ(list[3].name, "eth1");
  EXPECT_THAT(list[3].up, Optional(false));
  EXPECT_FALSE(list[3].speed_bytes_per_s.has_value());
}

TEST_F(HostTest, RdmaPorts) {
  RdmaReader reader(files_);
  std::vector<RdmaPort> ports;
  ASSERT_OK(reader.Read(RdmaDetail::kAll, ports));
  ASSERT_EQ(ports.size(), 2u);
  const RdmaPort& port = ports[0];
  EXPECT_EQ(port.device, "mlx5_0");
  EXPECT_EQ(port.port, 1u);
  EXPECT_THAT(port.state, Optional(4u));
  EXPECT_THAT(port.speed_bytes_per_s, Optional(50'000'000'000u));
  EXPECT_EQ(port.link_layer, LinkLayer::kInfiniband);
  EXPECT_EQ(port.firmware, "28.39.1002");
  EXPECT_EQ(port.node_guid, "b83f:d203:00aa:bb00");
  EXPECT_THAT(port.numa_node, Optional(1u));
  EXPECT_THAT(port.counters.receive_bytes, Optional(4'000'000'000u));
  EXPECT_THAT(port.counters.transmit_bytes, Optional(8'000'000'000u));
  EXPECT_THAT(port.counters.transmit_wait, Optional(555u));
  EXPECT_THAT(port.counters.buffer_overruns, Optional(10u));
  EXPECT_THAT(port.counters.ecn_marked, Optional(27u));
  const RdmaPort& efa = ports[1];
  EXPECT_EQ(efa.device, "rdmap0s6");
  EXPECT_THAT(efa.state, Optional(1u));
  EXPECT_THAT(efa.speed_bytes_per_s, Optional(312'500'000u));
  EXPECT_EQ(efa.link_layer, LinkLayer::kUnknown);
  EXPECT_FALSE(efa.numa_node.has_value());
  EXPECT_THAT(efa.counters.receive_bytes, Optional(700u));  // Bytes, not words.
  EXPECT_THAT(efa.counters.transmit_bytes, Optional(800u));
  EXPECT_FALSE(efa.counters.receive_packets.has_value());

  ports[0].state = 99;
  ASSERT_OK(reader.Read(RdmaDetail::kData, ports));
  EXPECT_THAT(ports[0].state, Optional(99u));
}

TEST_F(HostTest, ProcessorsAndNodes) {
  CpuTopology topology;
  ASSERT_OK(ReadCpuTopology(files_, topology));
  EXPECT_THAT(topology.online, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(topology.cores, Optional(4u));
  std::vector<std::optional<uint64_t>> hertz;
  ASSERT_OK(ReadCpuFrequencies(files_, topology.online, hertz));
  EXPECT_THAT(hertz[3], Optional(2'003'000'000u));
  EXPECT_FALSE(hertz[5].has_value());

  NameList names;
  std::vector<NumaNode> nodes;
  ASSERT_OK(ReadNumaNodes(files_, names, nodes));
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[1].number, 1u);
  EXPECT_THAT(nodes[1].memory.free, Optional(40000000 * kKib));
  EXPECT_THAT(nodes[0].memory.used, Optional(71960832 * kKib));
  EXPECT_THAT(nodes[1].allocations.foreign, Optional(21u));
  EXPECT_THAT(nodes[0].allocations.other, Optional(10010u));

  std::vector<HugePages> huge;
  ASSERT_OK(ReadHugePages(files_, names, huge));
  ASSERT_EQ(huge.size(), 2u);
  EXPECT_EQ(huge[0].page_bytes, 2u << 20);
  EXPECT_THAT(huge[0].free, Optional(480u));
  EXPECT_EQ(huge[1].page_bytes, 1u << 30);

  std::vector<MemoryController> controllers;
  ASSERT_OK(ReadMemoryControllers(files_, names, controllers));
  ASSERT_EQ(controllers.size(), 2u);
  EXPECT_THAT(controllers[0].correctable, Optional(17u));
  EXPECT_THAT(controllers[1].uncorrectable, Optional(1u));
}

TEST_F(HostTest, Temperatures) {
  std::vector<TemperatureReading> list;
  TemperatureReader reader(files_);
  ASSERT_OK(reader.Read(list));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].chip, "coretemp");
  EXPECT_EQ(list[0].sensor, "Package id 0");
  EXPECT_THAT(list[0].millidegrees, Optional(54000));
  EXPECT_EQ(list[0].device, "");
  EXPECT_EQ(list[2].device, "nvme0");
  EXPECT_THAT(list[2].millidegrees, Optional(-5150));
  EXPECT_EQ(list[3].sensor, "temp1");
}

TEST(EnergyGain, Wraps) {
  EXPECT_THAT(EnergyGain(10, 25, 100), Optional(15u));
  EXPECT_THAT(EnergyGain(90, 5, 100), Optional(15u));
  EXPECT_EQ(EnergyGain(90, 5, 0), std::nullopt);
  EXPECT_EQ(EnergyGain(101, 5, 100), std::nullopt);
  EXPECT_THAT(EnergyGain(UINT64_MAX - 1, 1, UINT64_MAX), Optional(2u));
}

// A root of its own whose files change between reads.
class ChangingRoot : public testing::Test {
 protected:
  ChangingRoot() {
    std::string pattern = testing::TempDir() + "gpulens_host_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~ChangingRoot() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(ChangingRoot, EnergyGoesOnOverAWrapAndStartsAgainAfterAReset) {
  const std::string zone = "sys/class/powercap/intel-rapl:1/";
  Write(zone + "name", "package-1\n");
  Write(zone + "max_energy_range_uj", "1000\n");
  Write(zone + "energy_uj", "900\n");
  auto files = HostFiles::Open(root_);
  EnergyReader reader(*files);
  std::vector<EnergyZone> zones;
  ASSERT_OK(reader.Read(zones));
  ASSERT_EQ(zones.size(), 1u);
  EXPECT_EQ(zones[0].name, "package-1");
  EXPECT_EQ(zones[0].package, 1u);
  EXPECT_THAT(zones[0].energy_uj, Optional(900u));
  Write(zone + "energy_uj", "50\n");
  ASSERT_OK(reader.Read(zones));
  EXPECT_THAT(zones[0].energy_uj, Optional(1050u));
  Write(zone + "energy_uj", "60\n");
  ASSERT_OK(reader.Read(zones));
  EXPECT_THAT(zones[0].energy_uj, Optional(1060u));
  zones[0].range_uj = 0;
  Write(zone + "energy_uj", "7\n");
  ASSERT_OK(reader.Read(zones));
  EXPECT_THAT(zones[0].energy_uj, Optional(7u));
  std::filesystem::remove(root_ / (zone + "energy_uj"));
  EXPECT_EQ(reader.Read(zones).code, Code::kUnavailable);
  EXPECT_FALSE(zones[0].energy_uj.has_value());
}

TEST_F(HostTest, EnergyZones) {
  EnergyReader reader(files_);
  std::vector<EnergyZone> zones;
  ASSERT_OK(reader.Read(zones));
  ASSERT_EQ(zones.size(), 3u);  // Without its mmio duplicate.
  EXPECT_EQ(zones[0].zone, "intel-rapl:0");
  EXPECT_EQ(zones[2].zone, "intel-rapl:0:0");
  EXPECT_EQ(zones[2].name, "dram");
  EXPECT_EQ(zones[2].package, 0u);
  EXPECT_EQ(zones[1].package, 1u);
}

TEST_F(ChangingRoot, AFileThatIsReplacedOrGoneIsNoticed) {
  Write("proc/uptime", "1.00 1.00\n");
  auto files = HostFiles::Open(root_);
  KeptFile file("proc/uptime");
  std::string_view text;
  ASSERT_OK(files->Read(file, text));
  ASSERT_TRUE(static_cast<bool>(file.fd));
  // A descriptor that fails (here: one of a directory) is opened again.
  file.fd.reset(::open(root_.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_OK(files->Read(file, text));
  EXPECT_EQ(text, "1.00 1.00\n");
  KeptFile folder("proc");
  EXPECT_EQ(files->Read(folder, text).code, Code::kIo);
  EXPECT_FALSE(static_cast<bool>(folder.fd));
  Write("big", std::string(5 << 20, 'x'));
  EXPECT_EQ(files->Read("big", text).code, Code::kExhausted);
  files->Shrink();
  ASSERT_OK(files->Read("proc/uptime", text));
  EXPECT_EQ(text, "1.00 1.00\n");
}

TEST_F(ChangingRoot, AnotherRootPrefersWhatTheFirstProcessSees) {
  Write("proc/1/net/dev", "a|b\nc|d\n  eth7: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
  Write("proc/1/mountinfo", "27 1 259:2 / / rw - ext4 /dev/sdz1 rw\n");
  auto files = HostFiles::Open(root_);
  std::vector<NetDevice> devices;
  ASSERT_OK(SystemReader(*files).ReadNetDevices(devices));
  EXPECT_EQ(devices.at(0).name, "eth7");
  std::vector<FileSystem> list;
  ASSERT_OK(FileSystemReader(*files).Read(list));
  EXPECT_EQ(list.at(0).mount.device, "/dev/sdz1");
  EXPECT_EQ(list.at(0).answer, FileSystem::Answer::kOk);  // The real statvfs of this folder.
}

TEST_F(ChangingRoot, ListingIsBounded) {
  for (int i = 0; i < 20; ++i) Write("d/f" + std::to_string(i), "");
  auto files = HostFiles::Open(root_);
  NameList names;
  EXPECT_EQ(files->List("d", "", names, 10).code, Code::kExhausted);
  ASSERT_OK(files->List("d", "f", names, 20));
  EXPECT_EQ(names.size(), 20u);
  EXPECT_EQ(names[2], "f2");
  EXPECT_EQ(names[19], "f19");
  uint64_t count = 0;
  ASSERT_OK(files->Count("d", count));
  EXPECT_EQ(count, 20u);
  EXPECT_EQ(files->Count("d", count, 5).code, Code::kExhausted);
  EXPECT_EQ(files->Count("e", count).code, Code::kUnavailable);
}

TEST_F(HostTest, OneProcess) {
  ProcessReader reader(files_), same(files_, 4321);
  for (ProcessReader* one : {&reader, &same}) {
    ProcessStat stat;
    ASSERT_OK(one->ReadStat(stat));
    EXPECT_EQ(stat.state, 'S');
    EXPECT_EQ(stat.user_ticks, 4200u);
    EXPECT_EQ(stat.system_ticks, 1300u);
    EXPECT_EQ(stat.major_faults, 70u);
    EXPECT_EQ(stat.threads, 17u);
    EXPECT_EQ(stat.start_ticks, 3600u);
    EXPECT_EQ(stat.virtual_bytes, 734003200u);
    EXPECT_EQ(stat.resident_pages, 12800u);
  }
  ProcessMemory memory;
  ASSERT_OK(reader.ReadMemory(memory));
  EXPECT_THAT(memory.proportional, Optional(40960 * kKib));
  ProcessReader::Descriptors descriptors;
  ASSERT_OK(reader.ReadDescriptors(descriptors));
  EXPECT_EQ(descriptors.open, 3u);  // Four, less the one that lists them.
  EXPECT_THAT(descriptors.limit, Optional(1024u));
  ProcessStat stat;
  EXPECT_EQ(ProcessReader(files_, 5).ReadStat(stat).code, Code::kUnavailable);

  NameList names;
  ProcessCounts counts;
  ASSERT_OK(ReadProcessCounts(files_, names, counts));
  EXPECT_EQ(counts.sleeping, 3u);
  EXPECT_EQ(counts.running, 1u);
  EXPECT_EQ(counts.blocked, 1u);
  EXPECT_EQ(counts.zombie, 1u);
  EXPECT_EQ(counts.stopped, 2u);
  EXPECT_EQ(counts.idle, 1u);
  EXPECT_EQ(counts.other, 1u);
}

TEST_F(HostTest, CgroupLimits) {
  CgroupLimits limits;
  ASSERT_OK(ReadCgroupLimits(files_, limits));
  EXPECT_EQ(limits.path, "/system.slice/gpulens.service");
  EXPECT_THAT(limits.cpus, Optional(4.0));  // Of the slice above: our own has none.
  EXPECT_THAT(limits.memory_bytes, Optional(512u << 20));
}

TEST_F(ChangingRoot, CgroupFromOutsideTheNamespaceAndHybrid) {
  Write("proc/self/cgroup", "4:memory:/x\n0::/../other\n");
  Write("sys/fs/cgroup/unified/cgroup.controllers", "");
  Write("sys/fs/cgroup/unified/memory.max", "5\n");
  auto files = HostFiles::Open(root_);
  CgroupLimits limits;
  ASSERT_OK(ReadCgroupLimits(*files, limits));
  EXPECT_THAT(limits.memory_bytes, Optional(5u));
  EXPECT_FALSE(limits.cpus.has_value());
  Write("proc/self/cgroup", "0::/gone\n");
  ASSERT_OK(ReadCgroupLimits(*files, limits));
  EXPECT_THAT(limits.memory_bytes, Optional(5u));
}

TEST_F(HostTest, Identity) {
  MachineIdentity machine;
  ASSERT_OK(ReadMachineIdentity(files_, machine));
  EXPECT_EQ(machine.architecture, "x86_64");
  EXPECT_EQ(machine.kernel_release, "6.8.0-45-generic");
  EXPECT_EQ(machine.os_version, "24.04");
  EXPECT_EQ(machine.cpu.model, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(machine.vendor, "Supermicro");
  EXPECT_EQ(machine.container, "");
}

TEST_F(ChangingRoot, IdentityAndContainers) {
  Write("proc/sys/kernel/osrelease", "6.1.0\n");
  auto files = HostFiles::Open(root_);
  auto read = [&] {
    MachineIdentity machine;
    EXPECT_TRUE(ReadMachineIdentity(*files, machine).ok());
    return machine;
  };
  EXPECT_NE(read().architecture, "");  // Of this machine: the file is younger than the kernel.
  Write("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\nflags : fpu hypervisor\n");
  EXPECT_EQ(read().cpu.part, "0xd4f");
  Write("usr/lib/os-release", "ID='fedora'\nVERSION_ID=40\nPRETTY_NAME=\"a \\\"b\\\"\"\n");
  EXPECT_EQ(read().os_version, "40");
  Write("etc/os-release", "garbage\n");
  EXPECT_EQ(read().os_version, "40");
  Write("sys/fs/cgroup/cgroup.type", "domain\n");
  EXPECT_EQ(read().container, "unknown");
  Write("run/systemd/container", "lxc\n");
  EXPECT_EQ(read().container, "lxc");
  Write(".dockerenv", "");
  EXPECT_EQ(read().container, "docker");
  Write("run/.containerenv", "");
  EXPECT_EQ(read().container, "podman");
  Write("var/run/secrets/kubernetes.io/serviceaccount/token", "");
  EXPECT_EQ(read().container, "kubernetes");
}

// Everything that is read each tick. False at the first call that fails although `must` is set.
struct Everything {
  explicit Everything(HostFiles& files)
      : proc(files), interfaces(files), rdma(files), self(files), mounts(files, FakeOk) {}
  static int FakeOk(const char*, struct statvfs* out) {
    *out = {};
    out->f_frsize = 1;
    out->f_blocks = 1;
    return 0;
  }
  bool Read() {
    bool ok = proc.ReadCpuTimes(cpu).ok() && proc.ReadLoadAverage(load).ok() && proc.ReadUptime(uptime).ok();
    ok = ok && proc.ReadMemory(memory).ok() && proc.ReadVmStat(vm).ok() && proc.ReadDisks(disks).ok();
    ok = ok && proc.ReadNetDevices(devices).ok() && proc.ReadNetProtocols(protocols).ok();
    ok = ok && proc.ReadSockets(sockets).ok() && proc.ReadFileHandles(handles).ok();
    ok = ok && proc.ReadPressure(PressureResource::kCpu, pressure).ok() && self.ReadStat(stat).ok();
    ok = ok && interfaces.Read(interface_list).ok() && self.ReadMemory(own_memory).ok();
    return ok && self.ReadDescriptors(descriptors).ok() && mounts.Read(file_systems).ok();
  }

  SystemReader proc;
  NetInterfaceReader interfaces;
  RdmaReader rdma;
  ProcessReader self;
  FileSystemReader mounts;
  CpuTimes cpu;
  LoadAverage load;
  SystemUptime uptime;
  MemoryInfo memory;
  VmStat vm;
  std::vector<DiskStat> disks;
  std::vector<NetDevice> devices;
  NetProtocols protocols;
  SocketCounts sockets;
  FileHandles handles;
  PressureStall pressure;
  ProcessStat stat;
  ProcessMemory own_memory;
  ProcessReader::Descriptors descriptors;
  std::vector<NetInterface> interface_list;
  std::vector<RdmaPort> ports;
  std::vector<FileSystem> file_systems;
};

TEST_F(HostTest, SteadyReadsAllocateNothing) {
  Everything all(files_);
  NameList names;
  std::vector<NumaNode> nodes;
  EnergyReader energy(files_);
  std::vector<EnergyZone> zones;
  ProcessCounts counts;
  auto read = [&] {
    return all.Read() && all.rdma.Read(RdmaDetail::kData, all.ports).ok() &&
           all.rdma.Read(RdmaDetail::kAll, all.ports).ok() && energy.Read(zones).ok() &&
           ReadNumaNodes(files_, names, nodes).ok() && ReadProcessCounts(files_, names, counts).ok();
  };
  ASSERT_TRUE(read());
  ASSERT_TRUE(read());
  uint64_t before = ThreadAllocations();
  bool ok = read() && read() && read();
  uint64_t counted = ThreadAllocations() - before;
  EXPECT_TRUE(ok);
  EXPECT_EQ(counted, 0u);
}

uint64_t BusyAndIdle(const CpuModeTicks& t) {
  return t.user + t.nice + t.system + t.idle + t.iowait.value_or(0) + t.irq.value_or(0) +
         t.softirq.value_or(0) + t.steal.value_or(0);
}

TEST(HostReal, ThisMachineIsPlausible) {
  auto files = HostFiles::Open("/");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->root(), "");
  EXPECT_EQ(files->net(), "proc/net");
  SystemReader proc(*files);
  CpuTimes cpu;
  Status status = proc.ReadCpuTimes(cpu);
  if (status.code == Code::kUnavailable) GTEST_SKIP() << "no /proc here: " << status.detail;
  ASSERT_OK(std::move(status));
  uint64_t before = BusyAndIdle(cpu.total);
  // Burns processor time until the kernel has counted it: ticks are 10 ms long.
  uint64_t after = before;
  for (int i = 0; i < 1'000'000 && after <= before; ++i) {
    ASSERT_OK(proc.ReadCpuTimes(cpu));
    after = BusyAndIdle(cpu.total);
  }
  EXPECT_GT(after, before);
  EXPECT_FALSE(cpu.cpus.empty());
  MemoryInfo memory;
  ASSERT_OK(proc.ReadMemory(memory));
  EXPECT_GT(*memory.total, 16u << 20);
  EXPECT_LE(*memory.available, *memory.total);
  SystemUptime uptime;
  ASSERT_OK(proc.ReadUptime(uptime));
  EXPECT_GT(uptime.seconds, 0);
  LoadAverage load;
  ASSERT_OK(proc.ReadLoadAverage(load));
  std::vector<NetDevice> devices;
  ASSERT_OK(proc.ReadNetDevices(devices));
  ProcessStat stat;
  ProcessReader self(*files);
  ASSERT_OK(self.ReadStat(stat));
  EXPECT_EQ(stat.state, 'R');
  EXPECT_GE(stat.threads, 1u);
  EXPECT_GT(stat.resident_pages, 10u);
  ProcessReader::Descriptors before_open, after_open;
  ASSERT_OK(self.ReadDescriptors(before_open));
  UniqueFd one(::dup(2));
  ASSERT_OK(self.ReadDescriptors(after_open));
  EXPECT_EQ(after_open.open, before_open.open + 1);
  CpuTopology topology;
  ASSERT_OK(ReadCpuTopology(*files, topology));
  EXPECT_EQ(topology.online.size(), cpu.cpus.size());
  MachineIdentity machine;
  ASSERT_OK(ReadMachineIdentity(*files, machine));
  EXPECT_FALSE(machine.kernel_release.empty());
  EXPECT_EQ(ClockTicksPerSecond(), 100u);
  NameList names;
  ProcessCounts counts;
  ASSERT_OK(ReadProcessCounts(*files, names, counts));
  EXPECT_GE(counts.running, 1u);
  EXPECT_EQ(ReadProcessCounts(*files, names, counts, 0).code,
            names.size() >= 256 ? Code::kExhausted : Code::kOk);
}

TEST(HostReal, SteadyReadsAllocateNothing) {
  auto files = HostFiles::Open("/");
  ASSERT_TRUE(files.ok());
  Everything all(*files);
  if (!all.Read()) GTEST_SKIP() << "this machine lacks one of the files (PSI, or /sys/class/net)";
  ASSERT_TRUE(all.Read());
  uint64_t before = ThreadAllocations();
  bool ok = all.Read();
  uint64_t counted = ThreadAllocations() - before;
  EXPECT_TRUE(ok);
  EXPECT_EQ(counted, 0u);
}

// Files that this machine has must be parsed; missing and forbidden ones are reported as such.
TEST(HostReal, EveryFileOfThisMachineIsParsed) {
  auto files = HostFiles::Open("/");
  ASSERT_TRUE(files.ok());
  auto expect_fine = [](std::string_view what, const Status& status) {
    bool fine = status.ok() || status.code == Code::kUnavailable || status.code == Code::kPermissionDenied;
    EXPECT_TRUE(fine) << what << ": " << status.detail;
  };
  NameList names;
  CgroupLimits cgroup;
  expect_fine("cgroup", ReadCgroupLimits(*files, cgroup));
  std::vector<NumaNode> nodes;
  expect_fine("numa", ReadNumaNodes(*files, names, nodes));
  std::vector<HugePages> pages;
  expect_fine("hugepages", ReadHugePages(*files, names, pages));
  std::vector<MemoryController> controllers;
  expect_fine("edac", ReadMemoryControllers(*files, names, controllers));
  std::vector<TemperatureReading> temperatures;
  expect_fine("hwmon", TemperatureReader(*files).Read(temperatures));
  std::vector<EnergyZone> zones;
  expect_fine("rapl", EnergyReader(*files).Read(zones));
  std::vector<RdmaPort> ports;
  expect_fine("rdma", RdmaReader(*files).Read(RdmaDetail::kAll, ports));
  std::vector<NetInterface> interfaces;
  expect_fine("interfaces", NetInterfaceReader(*files).Read(interfaces));
  std::vector<std::optional<uint64_t>> hertz;
  expect_fine("frequency", ReadCpuFrequencies(*files, {0}, hertz));
  std::vector<FileSystem> file_systems;
  expect_fine("mounts", FileSystemReader(*files).Read(file_systems));
  PressureStall pressure;
  SystemReader proc(*files);
  for (auto resource :
       {PressureResource::kCpu, PressureResource::kMemory, PressureResource::kIo, PressureResource::kIrq}) {
    expect_fine("pressure", proc.ReadPressure(resource, pressure));
  }
  uint64_t bits = 0;
  expect_fine("entropy", proc.ReadEntropy(bits));
}

TEST(HostReal, TimeSync) {
  TimeSync sync;
  Status status = ReadTimeSync(sync);
  if (!status) GTEST_SKIP() << status.detail;
  EXPECT_LT(std::abs(sync.offset_ns), 1'000'000'000);
}

}  // namespace
}  // namespace gpulens
