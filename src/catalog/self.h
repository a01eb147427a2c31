// What the agent says about itself: build, configuration, its processes, collectors, ticks, drivers.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSelfBuildInfo =
    row::Essential(row::Info("gpulens.build.info", "1, with version and build of the agent.",
                             row::kKeys<"version", "revision", "compiler", "build_type">));
inline constexpr MetricDesc kSelfStartTime = row::Gauge("gpulens.start.time", "s", "When the agent started.");
inline constexpr MetricDesc kSelfReady = row::Essential(
    row::Flag("gpulens.ready", "1 once every collector of the first configuration has run or failed."));
inline constexpr MetricDesc kSelfConfigReloads = row::Counter(
    "gpulens.config.reloads", "{reload}", "Configuration reloads by result.", row::kKeys<"result">);
inline constexpr MetricDesc kSelfConfigLastReloadSuccess =
    row::Essential(row::Flag("gpulens.config.last_reload.success", "1 when the last reload was applied."));
inline constexpr MetricDesc kSelfConfigLastReloadTime =
    row::Gauge("gpulens.config.last_reload.time", "s", "When configuration was last applied.");
inline constexpr MetricDesc kSelfLogMessages = row::Counter(
    "gpulens.log.messages", "{message}", "Log messages by level.", row::kKeys<"level", "result">);
inline constexpr MetricDesc kSelfTextReplaced =
    row::Counter("gpulens.text.replaced", "By",
                 "Bytes of external names, attributes and events that were not UTF-8 and are replaced.");
inline constexpr MetricDesc kSelfSimulated =
    row::Essential(row::Flag("gpulens.simulated", "1 when the agent runs with simulated GPUs."));
inline constexpr MetricDesc kSelfMemoryLimit = row::Standard(
    row::Gauge("gpulens.memory.limit", "By",
               "limits.memory: above it, further series of pages and programs are refused. 0: none."));
inline constexpr MetricDesc kTargetInfo = row::Essential(
    row::Info("target.info", "1, with the resource attributes, as the OTel to Prometheus rules require.",
              row::kKeys<"service.name", "service.version", "service.instance.id", "host.name", "host.id",
                         "k8s.cluster.name", "k8s.node.name">));

inline constexpr MetricDesc kSelfProcessMemory =
    row::UpDown("gpulens.process.memory", "By", "Memory of each process of the agent.",
                row::kKeys<"process", "gpulens.memory.type">);
inline constexpr MetricDesc kSelfProcessCpuTime = row::Counter(
    "gpulens.process.cpu.time", "s", "CPU time of each process of the agent.", row::kKeys<"process">);
inline constexpr MetricDesc kSelfProcessThreads = row::UpDown(
    "gpulens.process.threads", "{thread}", "Threads of each process of the agent.", row::kKeys<"process">);
inline constexpr MetricDesc kSelfOverheadCpu = row::Standard(row::Gauge(
    "gpulens.overhead.cpu", "1", "CPU used by all processes of the agent as a share of one core."));
inline constexpr MetricDesc kProcessCpuTime =
    row::Essential(row::Counter("process.cpu.time", "s", "CPU time of the agent."));
inline constexpr MetricDesc kProcessMemoryUsage =
    row::Essential(row::UpDown("process.memory.usage", "By", "Resident memory of the agent."));
inline constexpr MetricDesc kProcessMemoryVirtual =
    row::UpDown("process.memory.virtual", "By", "Virtual memory of the agent.");
inline constexpr MetricDesc kProcessUnixFileDescriptorCount = row::Standard(row::UpDown(
    "process.unix.file_descriptor.count", "{file_descriptor}", "Open file descriptors of the agent."));
inline constexpr MetricDesc kProcessUnixFileDescriptorLimit = row::UpDown(
    "process.unix.file_descriptor.limit", "{file_descriptor}", "File descriptors the agent may open.");
inline constexpr MetricDesc kProcessStartTime =
    row::Standard(row::Gauge("process.start.time", "s", "When the agent process started."));

inline constexpr MetricDesc kSelfCollectorUp = row::Standard(row::Flag(
    "gpulens.collector.up", "1 when the last run of the collector succeeded.", row::kKeys<"collector">));
inline constexpr MetricDesc kSelfCollectorDuration =
    row::Gauge("gpulens.collector.duration", "s", "How long the last run took.", row::kKeys<"collector">);
inline constexpr MetricDesc kSelfCollectorRuns = row::Counter(
    "gpulens.collector.runs", "{run}", "Runs of the collector by result.", row::kKeys<"collector", "result">);
inline constexpr MetricDesc kSelfCollectorErrors =
    row::Counter("gpulens.collector.errors", "{error}", "Errors of the collector by code.",
                 row::kKeys<"collector", "code">);
inline constexpr MetricDesc kSelfCollectorLastSuccessTime =
    row::Gauge("gpulens.collector.last_success.time", "s", "When the collector last succeeded.",
               row::kKeys<"collector">);
inline constexpr MetricDesc kSelfCollectorInterval = row::Gauge(
    "gpulens.collector.interval", "s", "How often the collector should run.", row::kKeys<"collector">);

inline constexpr MetricDesc kSelfSamples =
    row::Counter("gpulens.samples", "{sample}", "Readings by verdict of the quality rules.",
                 row::kKeys<"collector", "result", "reason">);
inline constexpr MetricDesc kSelfSampleAge =
    row::Gauge("gpulens.sample.age", "s", "Age of the oldest value that the collector has on the page.",
               row::kKeys<"collector">);
inline constexpr MetricDesc kSelfSeries =
    row::UpDown("gpulens.series", "{series}", "Series that the collector has.", row::kKeys<"collector">);
inline constexpr MetricDesc kSelfSeriesLimit =
    row::Gauge("gpulens.series.limit", "{series}", "Most series allowed.", row::kKeys<"limit">);
inline constexpr MetricDesc kSelfSeriesRefused = row::Counter(
    "gpulens.series.refused", "{series}", "Series refused, by reason.", row::kKeys<"collector", "reason">);
inline constexpr MetricDesc kSelfTickDuration =
    row::Gauge("gpulens.tick.duration", "s", "How long the last tick took from start to snapshot.");
inline constexpr MetricDesc kSelfTickLate =
    row::Counter("gpulens.tick.late", "{tick}", "Ticks that began more than half an interval late.");

inline constexpr MetricDesc kSelfAnalyzerDuration = row::Gauge(
    "gpulens.analyzer.duration", "s", "How long the last run of the analyzer took.", row::kKeys<"analyzer">);
inline constexpr MetricDesc kSelfAnalyzerErrors = row::Counter(
    "gpulens.analyzer.errors", "{error}", "Errors of the analyzer by code.", row::kKeys<"analyzer", "code">);

inline constexpr MetricDesc kSelfEnricherUp =
    row::Flag("gpulens.enricher.up", "1 when the enricher has current data.", row::kKeys<"enricher">);
inline constexpr MetricDesc kSelfEnricherMissing = row::Gauge(
    "gpulens.enricher.missing", "{entity}",
    "What the enricher could not resolve: sources without access, unknown ids.", row::kKeys<"enricher">);
inline constexpr MetricDesc kSelfEnricherErrors = row::Counter(
    "gpulens.enricher.errors", "{error}", "Errors of the enricher by code.", row::kKeys<"enricher", "code">);

inline constexpr MetricDesc kSelfDriverUp = row::Essential(
    row::Flag("gpulens.reader.up", "1 while the reader process runs and answers.", row::kKeys<"reader">));
inline constexpr MetricDesc kSelfDriverStarts =
    row::Counter("gpulens.reader.starts", "{start}", "Starts of the reader process by reason.",
                 row::kKeys<"reader", "reason">);
inline constexpr MetricDesc kSelfDriverHeartbeatAge =
    row::Gauge("gpulens.reader.heartbeat.age", "s", "Time since the last message of the reader process.",
               row::kKeys<"reader">);
inline constexpr MetricDesc kSelfDriverCallDuration =
    row::Gauge("gpulens.reader.call.duration", "s", "Longest call of the driver library in the last run.",
               row::kKeys<"reader">);
inline constexpr MetricDesc kSelfDriverCallsHung = row::Standard(row::UpDown(
    "gpulens.reader.calls.hung", "{call}", "Calls past their deadline now.", row::kKeys<"reader">));
inline constexpr MetricDesc kSelfDriverDevices = row::UpDown(
    "gpulens.reader.devices", "{device}",
    "Devices read, left out after faults, or unread without a thread; watched: those that report events.",
    row::kKeys<"reader", "state">);
inline constexpr MetricDesc kSelfDriverFiles =
    row::UpDown("gpulens.reader.files", "{file}", "Open files of the reader process.", row::kKeys<"reader">);
inline constexpr MetricDesc kSelfDriverFields = row::UpDown(
    "gpulens.reader.fields", "{field}", "Fields by answer of the library.", row::kKeys<"reader", "status">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kSelfRows[] = {
    &kSelfBuildInfo,
    &kSelfStartTime,
    &kSelfReady,
    &kSelfConfigReloads,
    &kSelfConfigLastReloadSuccess,
    &kSelfConfigLastReloadTime,
    &kSelfLogMessages,
    &kSelfTextReplaced,
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
    &kSelfEnricherUp,
    &kSelfEnricherErrors,
    &kSelfEnricherMissing,
    &kSelfDriverUp,
    &kSelfDriverStarts,
    &kSelfDriverHeartbeatAge,
    &kSelfDriverCallDuration,
    &kSelfDriverCallsHung,
    &kSelfDriverDevices,
    &kSelfDriverFiles,
    &kSelfDriverFields,
};

}  // namespace gpulens
