// Bytes to every parser of this folder: the first byte chooses which, the rest is its text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sources/host/parse/devices.h"
#include "sources/host/parse/process.h"
#include "sources/host/parse/scan.h"
#include "sources/host/parse/system.h"

namespace gpulens {
namespace {

using FuzzParser = Status (*)(std::string_view);

// The output stays between inputs, as it does between the reads of a running agent.
template <class Out, Status (*kParse)(std::string_view, Out&)>
Status Plain(std::string_view text) {
  static Out out{};
  return kParse(text, out);
}

template <class Out, Status (*kParse)(std::string_view, std::string_view, Out&)>
Status Named(std::string_view text) {
  static Out out{};
  return kParse("file", text, out);
}

Status Mounts(std::string_view text) {
  static MountTable out;
  Status status = ParseMounts(text, out);
  CHECK(out.count <= out.slots.size());
  if (!status) return status;
  for (const MountEntry& mount : out.mounts()) CHECK(mount.mount_point.starts_with('/'));
  return status;
}

Status Memory(std::string_view text) {
  static MemoryInfo out;
  Status status = ParseMemoryInfo(text, out);
  if (status) CHECK(*out.free <= *out.total);
  return status;
}

// The order is part of the seeds: new ones go to the end, and a removed one leaves ParseScalar in its place.
constexpr FuzzParser kParsers[] = {
    Plain<CpuTimes, ParseCpuTimes>,
    Plain<LoadAverage, ParseLoadAverage>,
    Plain<SystemUptime, ParseUptime>,
    Named<PressureStall, ParsePressure>,
    Named<std::vector<uint32_t>, ParseCpuList>,
    Memory,
    Plain<VmStat, ParseVmStat>,
    Plain<NodeMemory, ParseNodeMemory>,
    Plain<NodeAllocations, ParseNodeAllocations>,
    Plain<std::vector<DiskStat>, ParseDiskStats>,
    Mounts,
    Plain<std::vector<NetDevice>, ParseNetDevices>,
    Plain<NetProtocols, ParseSnmp>,
    Named<uint64_t, ParseScalar>,
    Plain<SocketCounts, ParseSockstat>,
    Plain<SocketCounts, ParseSockstat6>,
    Named<uint64_t, ParseRdmaRate>,
    Named<uint64_t, ParseRdmaState>,
    Plain<ProcessStat, ParseProcessStat>,
    Plain<char, ParseProcessState>,
    Plain<ProcessMemory, ParseSmapsRollup>,
    Plain<std::optional<uint64_t>, ParseOpenFileLimit>,
    Plain<std::string, ParseCgroupPath>,
    Plain<CgroupCpuMax, ParseCgroupCpuMax>,
    Named<std::optional<uint64_t>, ParseCgroupLimit>,
    Named<uint64_t, ParseScalar>,
    Named<uint64_t, ParseScalar>,
    Named<uint64_t, ParseScalar>,
    Named<uint64_t, ParseScalar>,
    Plain<std::string, ParseOsVersion>,
    Plain<CpuInfo, ParseCpuInfo>,
    Named<uint64_t, ParseScalar>,
};

}  // namespace
}  // namespace gpulens

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  gpulens::Status status = gpulens::kParsers[data[0] % std::size(gpulens::kParsers)](text);
  // A refusal has one of these codes and a short reason.
  bool known = status.ok() || status.code == gpulens::Code::kDataLoss ||
               status.code == gpulens::Code::kExhausted || status.code == gpulens::Code::kUnavailable;
  CHECK(known);
  CHECK(status.ok() == status.detail.empty());
  CHECK(status.detail.size() < 512);
  return 0;
}
