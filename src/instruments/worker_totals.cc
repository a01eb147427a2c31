#include "instruments/worker_totals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "instruments/instrument_registry.h"

namespace gpulens::instruments {
namespace {

// The coarsest buckets that a file may have.
constexpr int kLeastScale = kFinest - kMostCoarse;

std::string KeyOfFamily(const WorkerFamily& family) {
  RecordWriter key;
  WorkerFamily same = family;
  same.description.clear();
  // Names first, so that the order is that of names.
  key.PutText("");
  key.PutFamily(same);
  return family.name + key.bytes();
}

bool OfRunningOnly(const WorkerFamily& family) noexcept {
  return family.kind == InstrumentKind::kGauge ||
         (family.kind == InstrumentKind::kUpDownCounter && family.workers != WorkerMerge::kAll);
}

bool OfEach(const WorkerFamily& family) noexcept {
  return family.kind == InstrumentKind::kGauge &&
         (family.workers == WorkerMerge::kDefault || family.workers == WorkerMerge::kEach);
}

}  // namespace

// A worker's file, within its bounds.
struct WorkerTotals::View {
  struct Array {
    const CounterCell *cells, *move;
    uint32_t count;
  };
  struct Gauges {
    const GaugeCell* cells;
    uint64_t first;
    uint32_t count;
  };
  uint64_t pid = 0;
  bool ended = false;
  std::vector<std::string_view> logs;
  std::vector<Array> arrays;
  std::vector<Gauges> gauges;

  bool Open(const std::byte* file, size_t bytes);
};

bool WorkerTotals::View::Open(const std::byte* file, size_t bytes) {
  if (bytes < sizeof(WorkerHead)) return false;
  const auto* head = reinterpret_cast<const WorkerHead*>(file);
  if (head->magic.load(std::memory_order_acquire) != kWorkerMagic) return false;
  pid = head->pid;
  const uint64_t end = std::min<uint64_t>(head->end.load(std::memory_order_acquire), bytes);
  std::vector<std::pair<uint64_t, Array>> found;
  std::set<uint64_t> replaced;
  for (uint64_t at = PageBytes(); at + kCellsAt <= end;) {
    const auto* extent = reinterpret_cast<const ExtentHead*>(file + at);
    if (extent->bytes > end - at || extent->bytes < PageBytes() || extent->bytes % PageBytes() != 0)
      return false;
    const std::byte* body = reinterpret_cast<const std::byte*>(extent);
    switch (extent->kind) {
      case ExtentKind::kLog: {
        const uint64_t used = extent->used.load(std::memory_order_acquire);
        if (used > extent->bytes - sizeof(ExtentHead)) return false;
        logs.emplace_back(reinterpret_cast<const char*>(body + sizeof(ExtentHead)), used);
        break;
      }
      case ExtentKind::kCells: {
        if (extent->bytes < kCellsAt || extent->count > (extent->bytes - kCellsAt) / sizeof(CounterCell))
          return false;
        const auto* cells = reinterpret_cast<const CounterCell*>(body + kCellsAt);
        found.push_back({at, {cells, cells - WindowMove::kCells, extent->count}});
        if (extent->refers != 0) replaced.insert(extent->refers);
        break;
      }
      case ExtentKind::kGauges:
        if (extent->count > (extent->bytes - kGaugesAt) / sizeof(GaugeCell)) return false;
        gauges.push_back(
            {reinterpret_cast<const GaugeCell*>(body + kGaugesAt), extent->refers, extent->count});
        break;
      default: return false;
    }
    at += extent->bytes;
  }
  for (const auto& [at, array] : found) {
    if (!replaced.contains(at)) arrays.push_back(array);
  }
  return true;
}

WorkerTotals::Family& WorkerTotals::FamilyOf(WorkerFamily family) {
  std::string key = KeyOfFamily(family);
  auto [at, added] = families_.try_emplace(key);
  if (added) {
    at->second.of = std::move(family);
    at->second.key = std::move(key);
  }
  return at->second;
}

WorkerTotals::Total& WorkerTotals::TotalOf(Family& family,
                                           std::vector<std::pair<std::string, std::string>> attributes,
                                           int64_t start) {
  std::string key = KeyOf(attributes);
  if (named_) {
    const auto named = named_->find(family.key);
    if (named != named_->end() && !named->second.contains(key)) {
      attributes = {{kOverflow, "true"}};
      key = KeyOf(attributes);
    }
  }
  auto [at, added] = family.series.try_emplace(std::move(key));
  Total& total = at->second;
  if (added) total.attributes = std::move(attributes);
  total.start_unix_ns = std::min(total.start_unix_ns, start);
  return total;
}

bool WorkerTotals::AddWorker(const std::byte* file, size_t bytes, bool ended) {
  View view;
  if (!view.Open(file, bytes)) return false;
  view.ended = ended;
  std::map<uint32_t, Family*> families;
  for (const std::string_view log : view.logs) {
    RecordReader records(log);
    while (!records.at_end()) {
      const std::string text = records.TakeText();
      RecordReader record(text);
      const auto kind = record.Take<WorkerRecord>();
      const uint32_t number = record.Take<uint32_t>();
      if (kind == WorkerRecord::kFamily) {
        WorkerFamily family = record.TakeFamily();
        if (!record.ok() || family.bounds.size() > kMostBounds) return false;
        families[number] = &FamilyOf(std::move(family));
      } else {
        const uint32_t cell = record.Take<uint32_t>();
        const int64_t start = record.Take<int64_t>();
        auto attributes = record.TakeAttributes();
        const auto family = families.find(number);
        if (!record.ok() || family == families.end()) return false;
        if (ended && OfRunningOnly(family->second->of)) continue;
        AddSeries(view, *family->second, std::move(attributes), start, cell);
      }
    }
  }
  return true;
}

void WorkerTotals::AddSeries(const View& view, Family& family,
                             std::vector<std::pair<std::string, std::string>> attributes, int64_t start,
                             uint32_t cell) {
  if (family.of.kind == InstrumentKind::kGauge) {
    const auto page = std::ranges::find_if(view.gauges, [cell](const View::Gauges& one) {
      return cell >= one.first && cell - one.first < one.count;
    });
    if (page == view.gauges.end()) return;
    const GaugeCell& gauge = page->cells[cell - page->first];
    const uint64_t set_ns = gauge.set_ns.load(kRelaxed);
    const double value = gauge.value.load(kRelaxed);
    if (std::isnan(value)) return;
    if (OfEach(family.of)) {
      attributes.emplace_back("process.pid", std::to_string(view.pid));
      std::ranges::sort(attributes);
    }
    Total& total = TotalOf(family, std::move(attributes), start);
    const bool first = std::isnan(total.gauge);
    switch (family.of.workers) {
      case WorkerMerge::kMax: total.gauge = first ? value : std::max(total.gauge, value); break;
      case WorkerMerge::kMin: total.gauge = first ? value : std::min(total.gauge, value); break;
      case WorkerMerge::kSum:
        total.sum.Add(value);
        total.gauge = total.sum.value();
        break;
      default:
        if (!first && std::tie(set_ns, value) < std::tie(total.set_ns, total.gauge)) break;
        total.gauge = value;
        total.set_ns = set_ns;
        break;
    }
    return;
  }
  Total& total = TotalOf(family, std::move(attributes), start);
  const size_t buckets = family.of.bounds.size() + 1;
  for (const View::Array& array : view.arrays) {
    const auto has = [&](size_t count) { return cell < array.count && count <= array.count - cell; };
    const auto number = [&](size_t i) { return array.cells[cell + i].load(kRelaxed); };
    if (family.of.kind != InstrumentKind::kHistogram) {
      if (!has(1)) continue;
      if (family.of.integer) total.integer += number(0);
      else total.sum.Add(std::bit_cast<double>(number(0)));
    } else if (buckets == 1) {
      if (!has(kExponentialCells)) continue;
      ExponentialCounts counts{.buckets = std::move(total.buckets), .sum = 0, .zeros = total.zeros};
      ReadForeignWindow(array.cells, cell, array.move, counts);
      total.buckets = std::move(counts.buckets);
      total.zeros = counts.zeros;
      total.sum.Add(std::bit_cast<double>(number(kSumCell)));
    } else if (has(buckets + 1)) {
      total.counts.resize(buckets);
      for (size_t i = 0; i < buckets; ++i) total.counts[i] += number(i);
      total.sum.Add(std::bit_cast<double>(number(buckets)));
    }
  }
}

void WorkerTotals::Encode(RecordWriter& out) const {
  out.Put(static_cast<uint32_t>(families_.size()));
  for (const auto& [key, family] : families_) {
    out.PutFamily(family.of);
    out.Put(static_cast<uint32_t>(family.series.size()));
    for (const auto& [of_attributes, total] : family.series) {
      out.PutAttributes(total.attributes);
      out.Put(total.start_unix_ns);
      out.Put(total.integer);
      out.PutAll(total.sum.parts());
      out.PutAll(total.counts);
      out.Put(total.zeros);
      out.Put(static_cast<int32_t>(total.buckets.scale()));
      out.Put(total.buckets.offset());
      out.PutAll(std::vector(total.buckets.counts().begin(), total.buckets.counts().end()));
    }
  }
}

bool WorkerTotals::AddEncoded(RecordReader& in) {
  const uint32_t families = in.Take<uint32_t>();
  for (uint32_t i = 0; i < families && in.ok(); ++i) {
    WorkerFamily read = in.TakeFamily();
    const uint32_t series = in.Take<uint32_t>();
    if (!in.ok() || read.bounds.size() > kMostBounds) return false;
    Family& family = FamilyOf(std::move(read));
    for (uint32_t s = 0; s < series && in.ok(); ++s) {
      auto attributes = in.TakeAttributes();
      const int64_t start = in.Take<int64_t>();
      Total& total = TotalOf(family, std::move(attributes), start);
      total.integer += in.Take<uint64_t>();
      for (double part : in.TakeAll<double>()) total.sum.Add(part);
      const std::vector<uint64_t> counts = in.TakeAll<uint64_t>();
      if (counts.size() > family.of.bounds.size() + 1) return false;
      total.counts.resize(std::max(total.counts.size(), counts.size()));
      for (size_t b = 0; b < counts.size(); ++b) total.counts[b] += counts[b];
      total.zeros += in.Take<uint64_t>();
      const int32_t scale = in.Take<int32_t>(), offset = in.Take<int32_t>();
      const std::vector<uint64_t> window = in.TakeAll<uint64_t>();
      if (scale > kFinest || scale < kLeastScale || std::abs(int64_t{offset}) > kMostOffset ||
          window.size() > kWindow)
        return false;
      total.buckets.Add(scale, offset, window);
    }
  }
  return in.ok();
}

NamedSeriesOf WorkerTotals::Named() const {
  NamedSeriesOf named;
  for (const auto& [key, family] : families_) {
    if (family.series.size() <= kSeriesLimit + 1 || OfEach(family.of)) continue;
    std::vector<std::pair<int64_t, std::string_view>> oldest;
    for (const auto& [of_attributes, total] : family.series)
      oldest.emplace_back(total.start_unix_ns, of_attributes);
    std::ranges::sort(oldest);
    oldest.resize(kSeriesLimit);
    for (const auto& [start, of_attributes] : oldest) named[key].emplace(of_attributes);
  }
  return named;
}

bool WorkerTotals::Report(const Family& family, const Total& total, Sample& out) {
  out.name = family.of.name;
  out.unit = family.of.unit;
  out.description = family.of.description;
  out.kind = family.of.kind;
  out.integer = family.of.integer;
  out.attributes = total.attributes;
  out.start_unix_ns = total.start_unix_ns;
  switch (family.of.kind) {
    case InstrumentKind::kGauge: out.value = total.gauge; return !std::isnan(out.value);
    case InstrumentKind::kHistogram:
      out.sum = total.sum.value();
      out.exponential = family.of.bounds.empty();
      if (out.exponential) {
        out.scale = total.buckets.scale();
        out.offset = total.buckets.offset();
        out.counts.assign(total.buckets.counts().begin(), total.buckets.counts().end());
        out.zeros = out.count = total.zeros;
      } else {
        out.bounds = family.of.bounds;
        out.counts = total.counts;
        out.counts.resize(out.bounds.size() + 1);
      }
      for (uint64_t count : out.counts) out.count += count;
      return true;
    case InstrumentKind::kCounter:
    case InstrumentKind::kUpDownCounter: break;
  }
  out.value =
      family.of.integer ? static_cast<double>(static_cast<int64_t>(total.integer)) : total.sum.value();
  return true;
}

std::vector<Sample> WorkerTotals::Samples() const {
  std::vector<Sample> all;
  for (const auto& [key, family] : families_) {
    for (const auto& [of_attributes, total] : family.series) {
      Sample sample;
      if (!Report(family, total, sample)) continue;
      const bool untouched = sample.count == 0 && !(sample.value != 0 && !std::isnan(sample.value));
      if (total.attributes.empty() && family.series.size() > 1 && family.of.kind != InstrumentKind::kGauge &&
          untouched)
        continue;
      all.push_back(std::move(sample));
    }
  }
  return all;
}

}  // namespace gpulens::instruments
