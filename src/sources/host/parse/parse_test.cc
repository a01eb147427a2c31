// The corners of the parsers that the fake root and the folder of bad inputs of sources/host do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sources/host/parse/devices.h"
#include "sources/host/parse/process.h"
#include "sources/host/parse/scan.h"
#include "sources/host/parse/system.h"

namespace gpulens {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

std::string Repeat(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Scan, FieldsAndNumbers) {
  std::string_view rest = " \t a  bc ";
  EXPECT_EQ(NextField(rest), "a");
  EXPECT_EQ(NextField(rest), "bc");
  EXPECT_EQ(NextField(rest), "");
  EXPECT_EQ(ParseDecimal("12.50"), 12.5);
  for (std::string_view bad :
       {"", ".5", "-1", "+1", "1e5", "nan", "inf", "0x1", "1.2.3", "9999999999999999999"}) {
    EXPECT_EQ(ParseDecimal(bad), std::nullopt) << bad;
  }
  uint64_t product = 0;
  EXPECT_TRUE(Scale(1 << 20, 4, product));
  EXPECT_EQ(product, 4u << 20);
  EXPECT_FALSE(Scale(UINT64_MAX, 2, product));
}

TEST(Scan, AMessageIsShortAndPrintable) {
  Status status = BadText("proc/x", "not a number", std::string(500, '\x01'));
  EXPECT_EQ(status.code, Code::kDataLoss);
  EXPECT_THAT(status.detail, HasSubstr("proc/x: not a number: \"\\x01"));
  EXPECT_LT(status.detail.size(), 300u);
}

TEST(Scan, ScalarsWithAndWithoutNewline) {
  uint64_t value = 0;
  EXPECT_TRUE(ParseScalar("f", "18446744073709551615\n", value));
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_TRUE(ParseScalar("f", "7", value));
  for (std::string_view bad : {"", "\n", "7\n\n", " 7", "7 ", "0x7", "+7"})
    EXPECT_FALSE(ParseScalar("f", bad, value));
}

TEST(CpuTimes, OldKernelsHaveFewerModesAndListsShrink) {
  CpuTimes cpu;
  ASSERT_TRUE(ParseCpuTimes("cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4\ncpu3 1 2 3 4\n", cpu));
  EXPECT_EQ(cpu.total.softirq, 7u);
  EXPECT_FALSE(cpu.total.steal.has_value());
  EXPECT_FALSE(cpu.context_switches.has_value());
  ASSERT_EQ(cpu.cpus.size(), 2u);
  EXPECT_EQ(cpu.cpus[1].number, 3u);
  ASSERT_TRUE(ParseCpuTimes("cpu  1 2 3 4 5\ncpu0 1 2 3 4\n", cpu));
  EXPECT_FALSE(cpu.total.softirq.has_value());
  EXPECT_EQ(cpu.cpus.size(), 1u);
  // Later modes that this program does not know do no harm; a bad known one does.
  EXPECT_TRUE(ParseCpuTimes("cpu  1 2 3 4 5 6 7 8 9 10 11 12\n", cpu));
  EXPECT_FALSE(ParseCpuTimes("cpu  1 2 3 4 5 6 7 8 9 x\n", cpu));
  EXPECT_EQ(ParseCpuTimes("cpu  1 2 3 4\n" + Repeat("cpu1 1 2 3 4\n", 8193), cpu).code, Code::kExhausted);
}

TEST(CpuTimes, ThousandsOfInterrupts) {
  CpuTimes cpu;
  ASSERT_TRUE(ParseCpuTimes("cpu  1 2 3 4\nintr 99" + Repeat(" 0", 50'000) + "\n", cpu));
  EXPECT_THAT(cpu.interrupts, Optional(99u));
}

TEST(CpuList, Forms) {
  std::vector<uint32_t> list;
  ASSERT_TRUE(ParseCpuList("f", "0-2,8,10-11\n", list));
  EXPECT_THAT(list, ElementsAre(0, 1, 2, 8, 10, 11));
  ASSERT_TRUE(ParseCpuList("f", "\n", list));
  EXPECT_TRUE(list.empty());
  ASSERT_TRUE(ParseCpuList("f", "0-8190", list));
  for (std::string_view bad : {"a", "1-2-3", "3-", "-", "1,,2", "4294967295-0"}) {
    EXPECT_EQ(ParseCpuList("f", bad, list).code, Code::kDataLoss) << bad;
  }
  EXPECT_EQ(ParseCpuList("f", "0-4294967295", list).code, Code::kExhausted);
  EXPECT_EQ(ParseCpuList("f", "0-8000,0-8000", list).code, Code::kExhausted);
}

TEST(Memory, FieldsThatTheKernelOmitsAreAbsent) {
  MemoryInfo memory;
  ASSERT_TRUE(ParseMemoryInfo("MemTotal: 10 kB\nMemFree: 5 kB\nSwapTotal: 0 kB\n", memory));
  EXPECT_FALSE(memory.available.has_value());
  EXPECT_THAT(memory.swap_total, Optional(0u));
  EXPECT_FALSE(ParseMemoryInfo("MemTotal: 10 kB extra\nMemFree: 5 kB\n", memory));
  EXPECT_FALSE(ParseMemoryInfo("MemTotal: 0 kB\nMemFree: 0 kB\n", memory));
  NodeMemory node;
  EXPECT_FALSE(ParseNodeMemory("Node x MemTotal: 1 kB\n", node));
}

std::vector<std::string> DiskNames(const std::string& text) {
  std::vector<DiskStat> disks;
  EXPECT_TRUE(ParseDiskStats(text, disks));
  std::vector<std::string> names;
  for (const DiskStat& disk : disks) names.push_back(disk.name);
  return names;
}

TEST(DiskStats, DistinguishesPartitionsFromDisks) {
  auto disk = [](const char* name) { return std::string("8 0 ") + name + " 1 2 3 4 5 6 7 8 9 10 11\n"; };
  EXPECT_THAT(DiskNames(disk("mmcblk0") + disk("mmcblk0p1") + disk("md1") + disk("md12") + disk("md12p3")),
              ElementsAre("mmcblk0", "md1", "md12"));
  // A virtual disk may be called like a partition.
  EXPECT_THAT(DiskNames(disk("xvda1") + disk("vda") + disk("vda1") + disk("vdb")),
              ElementsAre("xvda1", "vda", "vdb"));
  EXPECT_THAT(DiskNames(disk("loop0") + disk("loop0p1") + disk("ram0") + disk("fd0") + disk("nvme1c1n1") +
                        disk("nvme1n1") + disk("nvme1n1p1") + disk("rbd0") + disk("srx") + disk("loop")),
              ElementsAre("nvme1n1", "rbd0", "srx", "loop"));
}

TEST(DiskStats, TooManyDevices) {
  std::string text;
  for (int i = 0; i < 4097; ++i) text += "8 0 d" + std::to_string(i) + "x 1 2 3 4 5 6 7 8 9 10 11\n";
  std::vector<DiskStat> disks;
  EXPECT_EQ(ParseDiskStats(text, disks).code, Code::kExhausted);
}

TEST(Mounts, OneRowPerFileSystem) {
  MountTable table;
  ASSERT_TRUE(
      ParseMounts("1 0 0:9 / / rw - overlay overlay ro,x\n"
                  "2 1 8:1 /a /x rw - ext4 /dev/sda1 rw\n"
                  "3 1 8:1 / /y rw - ext4 /dev/sda1 rw\n"
                  "4 1 0:31 /home /home rw - btrfs /dev/sdb rw\n"
                  "5 1 0:32 /root /root rw - btrfs /dev/sdb rw\n"
                  "6 1 0:40 / /tmp rw - tmpfs tmpfs rw\n"
                  "7 1 0:41 / /run/user/0 rw - tmpfs tmpfs rw\n"
                  "8 1 0:42 / /n rw master:1 propagate_from:2 unbindable - nfs h:/x rw\n"
                  "9 1 0:42 / /n2 rw - nfs h:/x rw\n",
                  table));
  std::vector<std::string> points;
  for (const MountEntry& mount : table.mounts()) points.push_back(mount.mount_point);
  EXPECT_THAT(points, ElementsAre("/", "/y", "/home", "/tmp", "/n"));
  EXPECT_TRUE(table.slots[0].read_only);
  EXPECT_EQ(table.slots[4].mount_class, MountClass::kRemote);
}

TEST(Mounts, BelowARemoteMountIsRemote) {
  MountTable table;
  ASSERT_TRUE(ParseMounts(
      "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /n rw - nfs h:/ rw\n3 2 8:2 / /n/l rw - xfs /dev/b rw\n"
      "4 1 8:3 / /nl rw - xfs /dev/c rw\n",
      table));
  ASSERT_EQ(table.count, 4u);
  EXPECT_EQ(table.slots[0].mount_class, MountClass::kLocal);
  EXPECT_EQ(table.slots[2].mount_class, MountClass::kRemote);
  EXPECT_EQ(table.slots[3].mount_class, MountClass::kLocal);
  // A root that is remote takes everything along.
  ASSERT_TRUE(ParseMounts("1 0 0:5 / / rw - nfs h:/ rw\n3 2 8:2 / /l rw - xfs /dev/b rw\n", table));
  EXPECT_EQ(table.slots[1].mount_class, MountClass::kRemote);
}

TEST(Mounts, Limits) {
  std::string text;
  for (int i = 0; i < 1025; ++i) {
    text += "1 0 8:" + std::to_string(i) + " / /m" + std::to_string(i) + " rw - ext4 x rw\n";
  }
  MountTable table;
  EXPECT_EQ(ParseMounts(text, table).code, Code::kExhausted);
  // Many mounts of containers are passed over and cost no slot.
  EXPECT_TRUE(ParseMounts(Repeat("1 0 0:9 / /var/o rw - overlay overlay rw\n", 20'000), table));
  EXPECT_EQ(table.count, 0u);
  EXPECT_EQ(ParseMounts(Repeat("1 0 0:9 / /var/o rw - overlay overlay rw\n", 65'537), table).code,
            Code::kExhausted);
  for (std::string_view escape : {"\\04", "\\999", "\\", "\\400"}) {
    EXPECT_FALSE(ParseMounts("1 0 8:1 / /" + std::string(escape) + " rw - ext4 x rw\n", table)) << escape;
  }
}

TEST(Network, ProtocolsOfLaterKernels) {
  NetProtocols protocols;
  protocols.tcp_segments_retransmitted = 5;
  ASSERT_TRUE(ParseSnmp("Foo: A\nFoo: -1\nTcp: MaxConn New CurrEstab\nTcp: -1 -2 7\n", protocols));
  EXPECT_THAT(protocols.tcp_established, Optional(7u));
  EXPECT_FALSE(protocols.tcp_segments_retransmitted.has_value());
}

TEST(Network, Rates) {
  uint64_t value = 0;
  ASSERT_TRUE(ParseRdmaRate("f", "14 Gb/sec (4X FDR10)\n", value));
  EXPECT_EQ(value, 1'750'000'000u);
  for (std::string_view bad : {"", "400", "400 Mb/sec", "1e3 Gb/sec", "99999999 Gb/sec"}) {
    EXPECT_FALSE(ParseRdmaRate("f", bad, value)) << bad;
  }
  EXPECT_FALSE(ParseRdmaState("f", "4", value));
}

TEST(Process, NamesMayHoldAnything) {
  ProcessStat stat;
  char state = 0;
  const std::string tail = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 10 11 12\n";
  ASSERT_TRUE(ParseProcessStat("7 (a) R) \n(b)" + tail, stat));
  EXPECT_EQ(stat.state, 'S');
  EXPECT_EQ(stat.threads, 9u);
  ASSERT_TRUE(ParseProcessState("7 (a) R) (b)" + tail, state));
  EXPECT_EQ(state, 'S');
  for (std::string_view bad : {"", "x (a) S\n", "7 a S\n", "7 (a) SS\n", "7 (a)\n", "7 (a) S"}) {
    EXPECT_EQ(ParseProcessState(bad, state).code, Code::kDataLoss) << bad;
  }
}

TEST(Process, UnlimitedIsAbsent) {
  std::optional<uint64_t> limit = 5;
  ASSERT_TRUE(ParseOpenFileLimit(
      "Max open files            unlimited            unlimited            files\n", limit));
  EXPECT_FALSE(limit.has_value());
  ASSERT_TRUE(ParseCgroupLimit("memory.max", "max\n", limit));
  EXPECT_FALSE(limit.has_value());
  CgroupCpuMax cpu;
  ASSERT_TRUE(ParseCgroupCpuMax("max 100000\n", cpu));
  EXPECT_FALSE(cpu.quota_us.has_value());
  EXPECT_EQ(cpu.period_us, 100000u);
}

TEST(Identity, VendorsTextIsMadeSafe) {
  EXPECT_EQ(CleanText("  a\x1b[31m \n"), "a\\x1b[31m");
  EXPECT_LE(CleanText(std::string(5000, 'x')).size(), 64u);
  std::string version;
  ASSERT_TRUE(ParseOsVersion("ID=\"\"\nVERSION_ID='1'\n", version));
  EXPECT_EQ(version, "1");
  ASSERT_TRUE(ParseOsVersion("VERSION_ID=\"a \\\"b\\\"\"\n", version));
  EXPECT_EQ(version, "a \"b\"");
  EXPECT_EQ(ParseOsVersion("no equals sign\n", version).code, Code::kDataLoss);
  CpuInfo cpu;
  EXPECT_EQ(ParseCpuInfo("\n\n", cpu).code, Code::kDataLoss);
  ASSERT_TRUE(ParseCpuInfo("\nmodel name : A\n\nmodel name : B\n", cpu));
  EXPECT_EQ(cpu.model, "A");
}

}  // namespace
}  // namespace gpulens
