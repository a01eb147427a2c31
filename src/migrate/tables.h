// What the metrics of other exporters are called here: the name sets of src/names, and a table for each
// exporter (tables/*.tsv) of the names that no set has. Static storage; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "names/naming.h"

namespace gpulens::migrate {

// A name of theirs and what is here instead. `name` may end or contain a star where `native` is empty.
struct TableRow {
  std::string_view name;
  std::string_view native;  // empty: not available, `note` has the reason or what to write by hand
  std::string_view
      where;  // "key=value,…": which series of the native metric; an empty value: without the key
  std::string_view factor;  // theirs = ours times this: "100", "1/1048576"; empty: the same unit
  std::string_view labels;  // "theirs=key,…": which attribute their label is; "-": there is none
  std::string_view note;
};

struct Exporter {
  std::string_view name;                       // as --from has it
  std::string_view title;                      // as its project calls it
  std::span<const std::string_view> prefixes;  // names that begin so are its own
  std::span<const std::string_view> namings;   // name sets with its names
  std::span<const TableRow> rows;
  std::string_view elsewhere;  // what to do with its metrics that gpulens lacks
  bool has_page = true;        // false: a library whose names are no metrics
  // Name sets of exporters that are used along with it, whose names its dashboards have, too.
  std::span<const std::string_view> along = {};
};

std::span<const Exporter> AllExporters() noexcept;
// Null for an unknown name.
const Exporter* FindExporter(std::string_view name) noexcept;

// What becomes of a metric of theirs.
struct Successor {
  enum Kind : unsigned char {
    kOther,    // not of that exporter
    kServed,   // under the same name by the name set `names`
    kMapped,   // under the name `metric`
    kMissing,  // `note` has the reason
  };
  Kind kind = kOther;
  std::string_view names;                // the name set that has it
  std::string metric;                    // its name on the page, with the suffix of a sample
  const MetricDesc* native = nullptr;    // kMapped, and kServed by native names
  const TableRow* row = nullptr;         // kMapped
  std::vector<const NamingRow*> served;  // kServed by another name set
  std::string note;
};

// Finds what a metric of the exporter, as its page and its queries call it, becomes.
Successor FindSuccessor(const Exporter& exporter, std::string_view metric);

struct Pair {
  std::string_view key, value;
};
// "a=b,c=d" as pairs.
std::vector<Pair> PairsOf(std::string_view text);
// The label that an attribute is on a page; "-" and "instance" stay.
std::string LabelOf(std::string_view attribute);

}  // namespace gpulens::migrate
