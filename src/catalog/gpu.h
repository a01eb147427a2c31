// Rows of gpu.def: metrics of GPUs.
#pragma once

#include "catalog/row.h"

namespace gpulens {

namespace row {
// Keys of a metric of a MIG instance, and of a process on a GPU.
template <KeyText... keys>
inline constexpr std::string_view kMigKeys[] = {"gpu.mig.instance_id", "gpu.mig.compute_instance_id",
                                                keys.view()...};
template <KeyText... keys>
inline constexpr std::string_view kProcessKeys[] = {"process.pid", "process.executable.name", "process.owner",
                                                    keys.view()...};
}  // namespace row

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/gpu.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kGpuRows[] = {
#include "catalog/gpu.def"
};
#undef METRIC

}  // namespace gpulens
