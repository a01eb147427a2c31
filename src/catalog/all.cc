#include "catalog/all.h"

#include <algorithm>
#include <iterator>

#include "catalog/gpu.h"
#include "catalog/gpu_health.h"
#include "catalog/host_cpu_memory.h"
#include "catalog/host_io.h"
#include "catalog/self.h"
#include "catalog/self_io.h"

namespace gpulens {
namespace {

constexpr const MetricDesc* kAll[] = {
    // gpu.h
    &kGpuUtilization,
    &kGpuMemoryUtilization,
    &kGpuEncodeUtilization,
    &kGpuDecodeUtilization,
    &kGpuPowerUtilization,
    &kGpuMemoryTotal,
    &kGpuMemoryUsed,
    &kGpuMemoryFree,
    &kGpuMemoryReserved,
    &kGpuMemoryUsedPercent,
    &kGpuMemoryUnifiedUsed,
    &kGpuMemoryUnifiedTotal,
    &kGpuPowerDraw,
    &kGpuPowerInstant,
    &kGpuPowerLimit,
    &kGpuEnergyConsumption,
    &kGpuTemperature,
    &kGpuFanSpeed,
    &kGpuClockFrequency,
    &kGpuClockIdle,
    &kGpuPowerState,
    &kGpuPcieThroughput,
    &kGpuPcieIo,
    &kGpuPcieLinkGenCurrent,
    &kGpuPcieLinkGenMax,
    &kGpuPcieLinkWidthCurrent,
    &kGpuPcieLinkWidthMax,
    &kGpuInterconnectThroughput,
    &kGpuInterconnectLinks,
    &kGpuUtilizationMax,
    &kGpuUtilizationMin,
    &kGpuUtilizationAvg,
    // gpu_health.h
    &kGpuInfo,
    &kGpuDriverInfo,
    &kGpuDevices,
    &kGpuState,
    &kGpuSampleAge,
    &kGpuPersistenceEnabled,
    &kGpuMigMode,
    &kGpuThrottleReason,
    &kGpuThrottleMask,
    &kGpuEccMode,
    &kGpuEccErrors,
    &kGpuRetiredPages,
    &kGpuRetiredPagesPending,
    &kGpuRowRemapCount,
    &kGpuRowRemapPending,
    &kGpuRowRemapFailed,
    &kGpuRowRemapResetPending,
    &kGpuXidErrors,
    &kGpuPcieReplayCount,
    &kGpuProcesses,
    &kGpuProcessMemoryUsed,
    &kGpuProcessMemoryPeak,
    // host_cpu_memory.h
    &kSystemCpuTime,
    &kSystemCpuUtilization,
    &kSystemCpuLogicalCount,
    &kSystemCpuPhysicalCount,
    &kSystemCpuFrequency,
    &kSystemCpuLoadAverage1m,
    &kSystemCpuLoadAverage5m,
    &kSystemCpuLoadAverage15m,
    &kHostCpuEnergy,
    &kHostMemoryUtilization,
    &kSystemMemoryUsage,
    &kSystemMemoryUtilization,
    &kSystemMemoryLimit,
    &kSystemMemoryLinuxAvailable,
    &kSystemMemoryLinuxShared,
    &kSystemMemoryLinuxSlabUsage,
    &kHostMemoryOomKills,
    &kHostMemoryHugepages,
    &kHostMemoryCommitted,
    &kHostMemoryDirty,
    &kHostMemoryHardwareErrors,
    &kHostMemoryEnergy,
    &kSystemPagingUsage,
    &kSystemPagingUtilization,
    &kSystemPagingOperations,
    &kSystemPagingFaults,
    &kHostNumaMemoryUsage,
    &kHostNumaMemoryAllocations,
    &kHostPressureTime,
    &kHostPressureShare,
    &kSystemProcessCount,
    &kSystemProcessCreated,
    &kSystemUptime,
    &kHostContextSwitches,
    &kHostInterrupts,
    &kHostFileDescriptors,
    &kHostEntropy,
    &kHostTimeOffset,
    &kHostTimeSynchronized,
    &kHostTemperature,
    &kHostInfo,
    // host_io.h
    &kSystemDiskIo,
    &kSystemDiskOperations,
    &kSystemDiskIoTime,
    &kSystemDiskOperationTime,
    &kSystemDiskMerged,
    &kSystemDiskLimit,
    &kHostDiskPendingOperations,
    &kSystemFilesystemUsage,
    &kSystemFilesystemUtilization,
    &kSystemFilesystemLimit,
    &kHostFilesystemInodes,
    &kHostFilesystemUnreachable,
    &kSystemNetworkIo,
    &kSystemNetworkPacketCount,
    &kSystemNetworkPacketDropped,
    &kSystemNetworkErrors,
    &kSystemNetworkConnectionCount,
    &kHostNetworkUp,
    &kHostNetworkSpeed,
    &kHostNetworkTcpRetransmits,
    &kHostRdmaIo,
    &kHostRdmaPackets,
    &kHostRdmaErrors,
    &kHostRdmaWait,
    &kHostRdmaPortActive,
    &kHostRdmaPortSpeed,
    &kHostRdmaPortInfo,
    // self.h
    &kSelfBuildInfo,
    &kSelfStartTime,
    &kSelfReady,
    &kSelfConfigReloads,
    &kSelfConfigLastReloadSuccess,
    &kSelfConfigLastReloadTime,
    &kSelfConfigInfo,
    &kSelfLogMessages,
    &kSelfInstrumentInvalid,
    &kSelfSimulated,
    &kSelfMemoryLimit,
    &kTargetInfo,
    &kSelfProcessMemory,
    &kSelfProcessCpuTime,
    &kSelfProcessThreads,
    &kSelfOverheadCpu,
    &kProcessCpuTime,
    &kProcessMemoryUsage,
    &kProcessMemoryVirtual,
    &kProcessUnixFileDescriptorCount,
    &kProcessUnixFileDescriptorLimit,
    &kProcessStartTime,
    &kSelfCollectorUp,
    &kSelfCollectorDuration,
    &kSelfCollectorRuns,
    &kSelfCollectorErrors,
    &kSelfCollectorLastSuccessTime,
    &kSelfCollectorInterval,
    &kSelfSamples,
    &kSelfSampleAge,
    &kSelfSeries,
    &kSelfSeriesLimit,
    &kSelfSeriesRefused,
    &kSelfTickDuration,
    &kSelfTickLate,
    &kSelfAnalyzerDuration,
    &kSelfAnalyzerErrors,
    &kSelfDriverUp,
    &kSelfDriverStarts,
    &kSelfDriverHeartbeatAge,
    &kSelfDriverCallDuration,
    &kSelfDriverCallsHung,
    &kSelfDriverDevices,
    &kSelfDriverFields,
    // self_io.h
    &kSelfScrapeUp,
    &kSelfScrapeDuration,
    &kSelfScrapeSamples,
    &kSelfScrapeSize,
    &kSelfScrapeErrors,
    &kSelfScrapeParseErrors,
    &kSelfScrapeFamiliesUnknown,
    &kSelfScrapeInfo,
    &kSelfSinkUp,
    &kSelfSinkQueueLength,
    &kSelfSinkQueueCapacity,
    &kSelfSinkDropped,
    &kSelfSinkDelivered,
    &kSelfSinkRejected,
    &kSelfSinkRequests,
    &kSelfSinkRetries,
    &kSelfSinkSent,
    &kSelfSinkDuration,
    &kSelfSinkLastSuccessTime,
    &kSelfSinkDiskQueueSize,
    &kSelfSinkDiskQueueLimit,
    &kSelfSinkDiskQueueOldestAge,
    &kSelfHttpRequests,
    &kSelfHttpDuration,
    &kSelfHttpResponseSize,
    &kSelfHttpConnections,
    &kSelfHttpRefused,
    &kSelfWebsocketFrames,
    &kSelfWebsocketDisconnects,
};

struct Exception {
  const MetricDesc* metric;
  MetricFacts facts;
};
// Rows that are not both stable and on by default.
constexpr Exception kExceptions[] = {
    {&kSystemCpuFrequency, {Stability::kStable, true}},
    {&kHostPressureTime, {Stability::kDevelopment, false}},  // OTel has no name for pressure yet
    {&kHostPressureShare, {Stability::kDevelopment, true}},
    {&kHostEntropy, {Stability::kStable, true}},
};

}  // namespace

std::span<const MetricDesc* const> AllMetrics() noexcept { return kAll; }

const MetricDesc* FindMetric(std::string_view name) noexcept {
  auto found = std::ranges::find(kAll, name, &MetricDesc::name);
  return found == std::end(kAll) ? nullptr : *found;
}

MetricFacts FactsOf(const MetricDesc& metric) noexcept {
  auto found = std::ranges::find(kExceptions, &metric, &Exception::metric);
  return found == std::end(kExceptions) ? MetricFacts{} : found->facts;
}

std::string_view KindName(Kind kind) noexcept {
  switch (kind) {
    case Kind::kGauge: return "gauge";
    case Kind::kCounter: return "counter";
    case Kind::kUpDownCounter: return "updowncounter";
    case Kind::kHistogram: return "histogram";
    case Kind::kGaugeHistogram: return "gaugehistogram";
    case Kind::kSummary: return "summary";
    case Kind::kInfo: return "info";
    case Kind::kStateSet: return "stateset";
    case Kind::kUnknown: return "unknown";
  }
  return "unknown";
}

}  // namespace gpulens
