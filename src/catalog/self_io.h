// What the agent says about what goes in and out: scrapes, sinks, HTTP and WebSocket.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSelfScrapeUp = row::Essential(
    row::Flag("gpulens.scrape.up", "1 when the last scrape of the target succeeded.", row::kKeys<"target">));
inline constexpr MetricDesc kSelfScrapeDuration =
    row::Gauge("gpulens.scrape.duration", "s", "How long the last scrape took.", row::kKeys<"target">);
inline constexpr MetricDesc kSelfScrapeSamples =
    row::UpDown("gpulens.scrape.samples", "{sample}", "Samples on the last page.", row::kKeys<"target">);
inline constexpr MetricDesc kSelfScrapeSize =
    row::UpDown("gpulens.scrape.size", "By", "Size of the last page, uncompressed.", row::kKeys<"target">);
inline constexpr MetricDesc kSelfScrapeErrors = row::Standard(row::Counter(
    "gpulens.scrape.errors", "{error}", "Failed scrapes by reason.", row::kKeys<"target", "reason">));
inline constexpr MetricDesc kSelfScrapeParseErrors = row::Standard(row::Counter(
    "gpulens.scrape.parse.errors", "{line}", "Lines that could not be read.", row::kKeys<"target">));
inline constexpr MetricDesc kSelfScrapeFamiliesUnknown =
    row::UpDown("gpulens.scrape.families.unknown", "{family}", "Families that no engine table knows.",
                row::kKeys<"target">);
inline constexpr MetricDesc kSelfScrapeSeriesFolded =
    row::UpDown("gpulens.scrape.series.folded", "{series}",
                "Series of the last page that were combined into another one.", row::kKeys<"target">);
inline constexpr MetricDesc kSelfScrapeSeriesDropped = row::Standard(
    row::UpDown("gpulens.scrape.series.dropped", "{series}",
                "Series of the last page that are not passed on.", row::kKeys<"target", "reason">));
inline constexpr MetricDesc kSelfScrapeInfo =
    row::Info("gpulens.scrape.info", "1 per target, with its address.", row::kKeys<"target", "url">);

inline constexpr MetricDesc kSelfPageSeriesDropped = row::UpDown(
    "gpulens.page.series.dropped", "{series}",
    "Series that the last page at /metrics leaves out: their family has another type there, an equal "
    "series comes first, or escaping gives their family another one's name.",
    row::kKeys<"reason">);

inline constexpr MetricDesc kSelfSinkUp =
    row::Standard(row::Flag("gpulens.sink.up", "1 when the last delivery succeeded.", row::kKeys<"sink">));
inline constexpr MetricDesc kSelfSinkQueueLength =
    row::UpDown("gpulens.sink.queue.length", "{item}",
                "Snapshots, or batches of events, that wait for the sink.", row::kKeys<"sink", "queue">);
inline constexpr MetricDesc kSelfSinkQueueCapacity =
    row::Gauge("gpulens.sink.queue.capacity", "{item}", "Snapshots, or batches of events, that may wait.",
               row::kKeys<"sink", "queue">);
inline constexpr MetricDesc kSelfSinkDropped = row::Standard(
    row::Counter("gpulens.sink.dropped", "{item}", "Snapshots, or batches of events, dropped by reason.",
                 row::kKeys<"sink", "queue", "reason">));
inline constexpr MetricDesc kSelfSinkDelivered = row::Counter(
    "gpulens.sink.delivered", "{point}", "Points delivered and acknowledged.", row::kKeys<"sink", "signal">);
inline constexpr MetricDesc kSelfSinkRejected = row::Standard(
    row::Counter("gpulens.sink.rejected", "{point}", "Points the peer refused in a partial success.",
                 row::kKeys<"sink", "signal">));
inline constexpr MetricDesc kSelfSinkFiltered = row::Counter(
    "gpulens.sink.filtered", "{point}",
    "Points that the sink is configured not to send: sources, signals, where.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkUntranslated =
    row::Counter("gpulens.sink.untranslated", "{point}",
                 "Received points that the sink's format cannot hold.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkRequests =
    row::Counter("gpulens.sink.requests", "{request}", "Requests by answer: HTTP or gRPC status, or error.",
                 row::kKeys<"sink", "code">);
inline constexpr MetricDesc kSelfSinkRetries =
    row::Counter("gpulens.sink.retries", "{retry}", "Requests sent again.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkSent =
    row::Counter("gpulens.sink.sent", "By", "Bytes sent, compressed.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkDuration =
    row::Gauge("gpulens.sink.duration", "s", "How long the last delivery took.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkLastSuccessTime =
    row::Gauge("gpulens.sink.last_success.time", "s", "When the sink last delivered.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkDiskQueueSize = row::Standard(
    row::UpDown("gpulens.sink.disk_queue.size", "By", "Size of the disk queue.", row::kKeys<"sink">));
inline constexpr MetricDesc kSelfSinkDiskQueueLimit =
    row::Gauge("gpulens.sink.disk_queue.limit", "By", "Size the disk queue may reach.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkDiskQueueOldestAge =
    row::Standard(row::Gauge("gpulens.sink.disk_queue.oldest.age", "s",
                             "Age of the oldest request in the disk queue.", row::kKeys<"sink">));

inline constexpr MetricDesc kSelfSinkDiskQueueUnusable = row::Standard(
    row::Flag("gpulens.sink.disk_queue.unusable",
              "1 when the folder of the disk queue cannot be used: queued data is kept in memory.",
              row::kKeys<"sink">));

inline constexpr MetricDesc kSelfSinkDiskQueueLeftoverLength =
    row::UpDown("gpulens.sink.disk_queue.leftover.length", "{request}",
                "Requests on disk that wait for a sink that is not configured.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkDiskQueueLeftoverSize = row::UpDown(
    "gpulens.sink.disk_queue.leftover.size", "By",
    "Size of the requests on disk that wait for a sink that is not configured.", row::kKeys<"sink">);

inline constexpr MetricDesc kSelfSinkRollupGroups = row::UpDown(
    "gpulens.sink.rollup.groups", "{group}", "Groups of the sink's roll-ups.", row::kKeys<"sink">);
inline constexpr MetricDesc kSelfSinkRollupSeries = row::UpDown(
    "gpulens.sink.rollup.series", "{series}",
    "Series in a group of a roll-up, once for each rule, and series that are not sent themselves.",
    row::kKeys<"sink", "result">);
inline constexpr MetricDesc kSelfSinkRollupRefused = row::UpDown(
    "gpulens.sink.rollup.refused", "{series}",
    "Series that a roll-up matches but that are sent unchanged, by reason.", row::kKeys<"sink", "reason">);
inline constexpr MetricDesc kSelfSinkRollupIntervals =
    row::Counter("gpulens.sink.rollup.intervals", "{interval}",
                 "Intervals of the sink's roll-ups that ended.", row::kKeys<"sink">);

inline constexpr MetricDesc kSelfReceiverRequests =
    row::Standard(row::Counter("gpulens.receiver.requests", "{request}", "Requests received by answer.",
                               row::kKeys<"receiver", "signal", "code">));
inline constexpr MetricDesc kSelfReceiverPoints = row::Standard(row::Counter(
    "gpulens.receiver.points", "{point}", "Points received.", row::kKeys<"receiver", "signal", "result">));
inline constexpr MetricDesc kSelfReceiverReceived =
    row::Counter("gpulens.receiver.received", "By", "Bytes received, compressed.", row::kKeys<"receiver">);

inline constexpr MetricDesc kSelfPrograms = row::Standard(
    row::UpDown("gpulens.programs", "{program}", "Programs of this machine whose metrics are exported."));
inline constexpr MetricDesc kSelfProgramsPoints = row::Counter(
    "gpulens.programs.points", "{point}", "Points that programs sent, by result.", row::kKeys<"result">);

inline constexpr MetricDesc kSelfHttpConnections =
    row::UpDown("gpulens.http.connections", "{connection}", "Open connections.", row::kKeys<"listener">);
inline constexpr MetricDesc kSelfHttpRefused =
    row::Counter("gpulens.http.refused", "{connection}", "Connections and requests refused.",
                 row::kKeys<"listener", "reason">);

// All rows of this header, in the order in which people should read them: those of scraped targets, then the
// others.
inline constexpr const MetricDesc* kSelfScrapeRows[] = {
    &kSelfScrapeUp,
    &kSelfScrapeDuration,
    &kSelfScrapeSamples,
    &kSelfScrapeSize,
    &kSelfScrapeErrors,
    &kSelfScrapeParseErrors,
    &kSelfScrapeFamiliesUnknown,
    &kSelfScrapeSeriesFolded,
    &kSelfScrapeSeriesDropped,
    &kSelfScrapeInfo,
};
inline constexpr const MetricDesc* kSelfIoRows[] = {
    &kSelfPageSeriesDropped,
    &kSelfSinkUp,
    &kSelfSinkQueueLength,
    &kSelfSinkQueueCapacity,
    &kSelfSinkDropped,
    &kSelfSinkDelivered,
    &kSelfSinkRejected,
    &kSelfSinkFiltered,
    &kSelfSinkUntranslated,
    &kSelfSinkRequests,
    &kSelfSinkRetries,
    &kSelfSinkSent,
    &kSelfSinkDuration,
    &kSelfSinkLastSuccessTime,
    &kSelfSinkDiskQueueSize,
    &kSelfSinkDiskQueueLimit,
    &kSelfSinkDiskQueueOldestAge,
    &kSelfSinkDiskQueueUnusable,
    &kSelfSinkDiskQueueLeftoverLength,
    &kSelfSinkDiskQueueLeftoverSize,
    &kSelfSinkRollupGroups,
    &kSelfSinkRollupSeries,
    &kSelfSinkRollupRefused,
    &kSelfSinkRollupIntervals,
    &kSelfReceiverRequests,
    &kSelfReceiverPoints,
    &kSelfReceiverReceived,
    &kSelfPrograms,
    &kSelfProgramsPoints,
    &kSelfHttpConnections,
    &kSelfHttpRefused,
};

}  // namespace gpulens
