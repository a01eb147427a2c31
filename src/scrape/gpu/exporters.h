// Tables of GPU exporters: what the families of their pages mean as native metrics. Static storage.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "catalog/gpu.h"

namespace gpulens::gpu_page {

// The entity of a number on a page that splits a GPU into parts (MIG instances, AMD partitions).
enum class RowScope : uint8_t {
  kGpu,   // of the whole GPU, repeated for each part: exported once
  kPart,  // of the part
  kHost,  // of no GPU
  kSwitch,
};

// How a number is converted, besides `times` and `per`.
enum class RowConversion : uint8_t {
  kValue,
  kNotZero,         // 0 means "none so far": absent
  kBit,             // 1 when the number has the bit `bit`, else 0
  kStates,          // the number is the index of a word in `states`
  kPcieSpeed,       // GT/s per lane
  kPcieGeneration,  // GT/s per lane above 7, else the generation; 5 may be both and is rejected
  kSum,             // added to the other rows of the same series
};

struct PageRow {
  // As on the page; '#' matches an integer.
  std::string_view family;
  std::string_view renamed = {};  // its other name, in other versions
  const MetricDesc* metric = nullptr;
  double times = 1, per = 1;
  std::string_view attributes = {};  // "key=value,key=value"
  std::string_view number = {};      // attribute key of the number in the place of '#'
  // A label that becomes an attribute; the row is only for series that have it.
  std::string_view label = {}, label_key = {};
  std::string_view without = {};       // the row is only for series without this label
  std::string_view has = {}, is = {};  // ... and only where this label has this value
  RowScope scope = RowScope::kGpu;
  const MetricDesc* part_metric = nullptr;  // for a part, where that has a name of its own
  RowConversion convert = RowConversion::kValue;
  uint64_t bit = 0;
  std::string_view states = {};  // "none,reset,reboot": counted from 0
};

// Families without a native name, with the reason.
struct IgnoredFamilies {
  std::string_view prefix;  // of the names
  std::string_view reason;
};

// How an exporter repeats a number of the whole (RowScope::kGpu) for the parts of a GPU.
enum class PartReadings : uint8_t {
  kRepeat,     // the number of the whole, for each part
  kFirstOnly,  // the number of the whole for one part, 0 for the others
  kOwn,        // a number of the part: contained in the whole, hence left out
};

// Labels that identify the subject of a series. Names are compared without regard to case; the first that is
// not empty counts.
struct PageLabels {
  std::string_view index = {}, uuid = {}, model = {}, bus = {}, part = {};  // names, separated by blanks
  std::string_view part_key = {};  // attribute of a part: gpu.mig.instance_id
  std::string_view profile = {};   // label of a part's profile, for gpu.mig.info
  std::string_view whole = {};     // "label=value,…": with one of these the GPU is not split
  PartReadings parts = PartReadings::kRepeat;
  std::string_view first_part = {};         // kFirstOnly: which one
  std::string_view only = {};               // "label=value,…": series with another value are left out
  std::string_view info = {}, driver = {};  // "label=attribute,…" of gpu.info and gpu.driver.info
};

struct Exporter {
  std::string_view name, vendor;
  std::span<const PageRow> rows;  // the earlier row wins where two make one series
  std::span<const IgnoredFamilies> ignored;
  const PageLabels* labels = nullptr;
  std::string_view optional_prefix = {};  // that the exporter's configuration may add to families
};

// Whether a family matches a row's name; `number` gets the digits in the place of '#'.
bool Matches(std::string_view pattern, std::string_view family, std::string_view* number = nullptr) noexcept;
// Null: unknown, or it has rows.
const IgnoredFamilies* FindIgnored(const Exporter& exporter, std::string_view family) noexcept;

// dcgm, amd, habana, xpum.
std::span<const Exporter* const> AllExporters() noexcept;
const Exporter* FindExporter(std::string_view name) noexcept;

// Metrics of every page, besides the rows of its table.
inline constexpr const MetricDesc* kCommonMetrics[] = {
    &kGpuInfo, &kGpuEnergyEstimate, &kGpuEnergyEstimateError, &kGpuDriverInfo, &kGpuMigInfo};

}  // namespace gpulens::gpu_page
