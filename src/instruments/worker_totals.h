// Sum of the counts of several processes, with those of ended ones, in the same numbers whichever process
// adds them up.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/registry.h>

#include "instruments/exact_sum.h"
#include "instruments/worker_file.h"

namespace gpulens::instruments {

// Series of instruments of which there are too many: only these have names, and the others are one. By the
// instrument's key.
using NamedSeriesOf = std::map<std::string, std::set<std::string>>;

// Plain value. Not thread-safe.
class WorkerTotals {
 public:
  // `named`: from Named() of a larger sum, or null. It must outlive the object.
  explicit WorkerTotals(const NamedSeriesOf* named = nullptr) noexcept : named_(named) {}

  // Adds a worker's file as it was mapped. `ended`: its gauges no longer count, nor what it had in flight.
  // False: the bytes are not such a file.
  bool AddWorker(const std::byte* file, size_t bytes, bool ended);
  // Adds what Encode has written. False: other bytes; a part may have been added.
  bool AddEncoded(RecordReader& in);
  void Encode(RecordWriter& out) const;

  // The names to keep where an instrument has more series than kSeriesLimit: the oldest, so that a name that
  // was kept once is kept for ever. Empty where none has.
  NamedSeriesOf Named() const;
  // As Registry::Snapshot.
  std::vector<Sample> Samples() const;

 private:
  struct Total {
    std::vector<std::pair<std::string, std::string>> attributes;
    int64_t start_unix_ns = INT64_MAX;
    uint64_t integer = 0;
    ExactSum sum;
    std::vector<uint64_t> counts;
    uint64_t zeros = 0;
    ExponentialSum buckets;
    double gauge = kNotMeasured;
    uint64_t set_ns = 0;
  };
  struct Family {
    WorkerFamily of;
    std::string key;
    std::map<std::string, Total> series;
  };
  struct View;
  Family& FamilyOf(WorkerFamily family);
  Total& TotalOf(Family& family, std::vector<std::pair<std::string, std::string>> attributes, int64_t start);
  void AddSeries(const View& view, Family& family,
                 std::vector<std::pair<std::string, std::string>> attributes, int64_t start, uint32_t cell);
  static bool Report(const Family& family, const Total& total, Sample& out);

  const NamedSeriesOf* named_;
  std::map<std::string, Family> families_;
};

}  // namespace gpulens::instruments
