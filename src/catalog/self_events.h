// What the agent says about events, the kernel log and its stores.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSelfEvents =
    row::Counter("gpulens.events", "{event}", "Events by name.", row::kKeys<"event">);
inline constexpr MetricDesc kSelfEventsDropped = row::Standard(row::Counter(
    "gpulens.events.dropped", "{event}", "Events dropped or joined, by reason.", row::kKeys<"reason">));
inline constexpr MetricDesc kSelfKernelLogLost = row::Essential(row::Counter(
    "gpulens.kernel_log.lost", "{record}", "Kernel log records overwritten before they could be read."));
inline constexpr MetricDesc kSelfStoreSize =
    row::UpDown("gpulens.store.size", "By", "Size of a store on disk.", row::kKeys<"store">);
inline constexpr MetricDesc kSelfStoreWrites =
    row::Counter("gpulens.store.writes", "{row}", "Rows written to a store.", row::kKeys<"store", "result">);

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kSelfEventsRows[] = {
    &kSelfEvents, &kSelfEventsDropped, &kSelfKernelLogLost, &kSelfStoreSize, &kSelfStoreWrites,
};

}  // namespace gpulens
