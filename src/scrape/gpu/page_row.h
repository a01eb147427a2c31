// What a family on the page of somebody's GPU exporter means in native words: tables are made of these rows.
// Static storage.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "core/metric_desc.h"

namespace gpulens::gpu_page {

// Whose number it is when the page splits a GPU (MIG instances, AMD partitions) and gives it for each part.
enum class Scope : uint8_t {
  kGpu,   // of the whole GPU, repeated for each part: shown once, on the GPU
  kPart,  // of the part
  kHost,  // of no GPU
  kSwitch,
};

// How a number becomes ours, besides `times` and `per`.
enum class Take : uint8_t {
  kValue,
  kNotZero,         // 0 says "none so far": absent
  kBit,             // 1 when the number has the bit `bit`, else 0
  kStates,          // the number is the place of a word in `states`
  kPcieSpeed,       // GT/s per lane
  kPcieGeneration,  // GT/s per lane above 7, else the generation; 5 may be both and is not believed
  kSum,             // added to the other rows of the same series
};

struct PageRow {
  // As it stands on the page; '#' stands for a whole number.
  std::string_view family;
  std::string_view renamed = {};  // its other name, in other versions
  const MetricDesc* metric = nullptr;
  double times = 1, per = 1;
  std::string_view attributes = {};  // "key=value,key=value"
  std::string_view number = {};      // the attribute key of what '#' stood for
  // A label that becomes an attribute. The row is only for series that have it.
  std::string_view label = {}, label_key = {};
  std::string_view without = {};       // the row is only for series without this label
  std::string_view has = {}, is = {};  // ... and only where this label has this value
  Scope scope = Scope::kGpu;
  const MetricDesc* part_metric = nullptr;  // for a part, where that has a name of its own
  Take take = Take::kValue;
  uint64_t bit = 0;
  std::string_view states = {};  // "none,reset,reboot": counted from 0
};

// Families that are known and have no native name, each with its reason.
struct IgnoredFamilies {
  std::string_view prefix;  // all names that begin so
  std::string_view reason;
};

// Which labels tell what a series is about. Names are compared without regard to case; the first that is
// there and not empty counts.
using LabelPair = std::pair<std::string_view, std::string_view>;

// What an exporter says for the parts of a GPU about a number of the whole (Scope::kGpu).
enum class Parts : uint8_t {
  kRepeat,     // the number of the whole, for each part
  kFirstOnly,  // the number of the whole for one part, 0 for the others
  kOwn,        // a number of the part: contained in the whole, hence left out
};

struct PageLabels {
  std::span<const std::string_view> index, uuid, model, bus, part;
  std::string_view part_key = {};         // attribute of a part: gpu.mig.instance_id
  std::string_view profile = {};          // label of a part's profile, for gpu.mig.info
  std::span<const LabelPair> whole = {};  // {label, value}: with one of these nothing is split
  Parts parts = Parts::kRepeat;
  std::string_view first_part = {};                   // kFirstOnly: which one
  std::span<const LabelPair> only = {};               // {label, value}: with another value it is not taken
  std::span<const LabelPair> info = {}, driver = {};  // {label, attribute} of gpu.info and gpu.driver.info
};

struct Exporter {
  std::string_view name, vendor;
  std::span<const std::span<const PageRow>> rows;  // the earlier row wins when two make the same series
  std::span<const IgnoredFamilies> ignored;
  const PageLabels* labels = nullptr;
  std::string_view optional_prefix = {};  // that families may have by configuration
};

// Where a family stands in an exporter's tables.
bool Matches(std::string_view pattern, std::string_view family, std::string_view* number = nullptr) noexcept;
// Null: nothing is known about it, or it has rows.
const IgnoredFamilies* FindIgnored(const Exporter& exporter, std::string_view family) noexcept;

// All that there are: dcgm, amd, habana, xpum.
std::span<const Exporter* const> AllExporters() noexcept;
const Exporter* FindExporter(std::string_view name) noexcept;

}  // namespace gpulens::gpu_page
