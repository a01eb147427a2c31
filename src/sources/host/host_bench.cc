// How long one steady reading takes: all files of the second, and each of the slow ones.
#include <benchmark/benchmark.h>

#include "sources/host/devices.h"
#include "sources/host/process.h"
#include "sources/host/system.h"

namespace gpulens {
namespace {

const std::string kFakeRoot = GPULENS_SOURCE_DIR "/src/sources/host/testdata/root";

// range(0): 0 reads this machine, 1 the fake root.
HostFiles OpenRoot(const benchmark::State& state) {
  return *HostFiles::Open(state.range(0) == 0 ? "/" : kFakeRoot);
}

void BM_SteadyRead(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  SystemReader proc(files);
  RdmaReader rdma(files);
  EnergyReader energy(files);
  ProcessReader self(files);
  CpuTimes cpu;
  LoadAverage load;
  SystemUptime uptime;
  MemoryInfo memory;
  VmStat vm;
  std::vector<DiskStat> disks;
  std::vector<NetDevice> devices;
  NetProtocols protocols;
  SocketCounts sockets;
  PressureStall pressure[4];
  FileHandles handles;
  std::vector<RdmaPort> ports;
  std::vector<EnergyZone> zones;
  ProcessStat stat;
  for (auto _ : state) {
    bool ok = proc.ReadCpuTimes(cpu).ok() && proc.ReadLoadAverage(load).ok() && proc.ReadMemory(memory).ok();
    ok = ok && proc.ReadVmStat(vm).ok() && proc.ReadDisks(disks).ok() && proc.ReadUptime(uptime).ok();
    ok = ok && proc.ReadNetDevices(devices).ok() && proc.ReadNetProtocols(protocols).ok();
    ok = ok && proc.ReadSockets(sockets).ok() && proc.ReadFileHandles(handles).ok() &&
         self.ReadStat(stat).ok();
    if (!ok) state.SkipWithError("a file of every machine is missing");
    for (size_t i = 0; i < 4; ++i) {
      benchmark::DoNotOptimize(proc.ReadPressure(static_cast<PressureResource>(i), pressure[i]).code);
    }
    benchmark::DoNotOptimize(rdma.Read(RdmaDetail::kData, ports).code);
    benchmark::DoNotOptimize(energy.Read(zones).code);
  }
}
BENCHMARK(BM_SteadyRead)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

template <class Out, Status (SystemReader::*kRead)(Out&)>
void BM_One(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  SystemReader proc(files);
  Out out{};
  for (auto _ : state) benchmark::DoNotOptimize((proc.*kRead)(out).code);
}
BENCHMARK(BM_One<CpuTimes, &SystemReader::ReadCpuTimes>)->Name("BM_CpuTimes")->Arg(0);
BENCHMARK(BM_One<MemoryInfo, &SystemReader::ReadMemory>)->Name("BM_Memory")->Arg(0);
BENCHMARK(BM_One<VmStat, &SystemReader::ReadVmStat>)->Name("BM_VmStat")->Arg(0);
BENCHMARK(BM_One<NetProtocols, &SystemReader::ReadNetProtocols>)->Name("BM_NetProtocols")->Arg(0);
BENCHMARK(BM_One<std::vector<NetDevice>, &SystemReader::ReadNetDevices>)->Name("BM_NetDevices")->Arg(0);

void BM_FileSystems(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  FileSystemReader reader(files);
  std::vector<FileSystem> out;
  for (auto _ : state) benchmark::DoNotOptimize(reader.Read(out).code);
}
BENCHMARK(BM_FileSystems)->Arg(0)->Unit(benchmark::kMicrosecond);

void BM_ProcessCounts(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  NameList names;
  ProcessCounts out;
  for (auto _ : state) benchmark::DoNotOptimize(ReadProcessCounts(files, names, out).code);
  state.counters["names"] = static_cast<double>(names.size());
}
BENCHMARK(BM_ProcessCounts)->Arg(0)->Unit(benchmark::kMicrosecond);

void BM_OwnMemory(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  ProcessReader self(files);
  ProcessMemory out;
  for (auto _ : state) benchmark::DoNotOptimize(self.ReadMemory(out).code);
}
BENCHMARK(BM_OwnMemory)->Arg(0)->Unit(benchmark::kMicrosecond);

void BM_RdmaAll(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  RdmaReader reader(files);
  std::vector<RdmaPort> out;
  for (auto _ : state) benchmark::DoNotOptimize(reader.Read(RdmaDetail::kAll, out).code);
}
BENCHMARK(BM_RdmaAll)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_NetInterfaces(benchmark::State& state) {
  HostFiles files = OpenRoot(state);
  NetInterfaceReader reader(files);
  std::vector<NetInterface> out;
  for (auto _ : state) benchmark::DoNotOptimize(reader.Read(out).code);
}
BENCHMARK(BM_NetInterfaces)->Arg(0)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens
