#include "instruments/instrument_registry.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <new>
#include <type_traits>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "instruments/cells.h"

namespace gpulens::instruments {
namespace {

using internal::Handle;
using internal::kInert;
using Texts = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMostName = 255, kMostUnit = 63;

bool IsLetter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsName(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kMostName && IsLetter(name.front()) &&
         std::ranges::all_of(name, [](char c) {
           return IsLetter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/' || c == ':';
         });
}
bool IsUnit(std::string_view unit) noexcept {
  return unit.size() <= kMostUnit && std::ranges::all_of(unit, [](char c) { return c > ' ' && c < 0x7f; });
}
bool Ascend(const std::vector<double>& bounds) noexcept {
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (!std::isfinite(bounds[i]) || (i > 0 && !(bounds[i] > bounds[i - 1]))) return false;
  }
  return bounds.size() <= kMostBounds;
}

uint32_t GaugesOfPage() noexcept {
  return static_cast<uint32_t>((PageBytes() - kGaugesAt) / sizeof(GaugeCell));
}

bool MayMerge(InstrumentKind kind, WorkerMerge workers) noexcept {
  if (workers == WorkerMerge::kDefault) return true;
  if (kind == InstrumentKind::kGauge) return workers != WorkerMerge::kAll;
  return kind == InstrumentKind::kUpDownCounter &&
         (workers == WorkerMerge::kSum || workers == WorkerMerge::kAll);
}

std::string TextOf(const std::variant<std::string_view, int64_t, double, bool>& value) {
  return std::visit(
      [](const auto& one) -> std::string {
        using Type = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Type, std::string_view>) return std::string(one);
        else if constexpr (std::is_same_v<Type, bool>) return one ? "true" : "false";
        else {
          char text[32];
          return {text, std::to_chars(text, text + sizeof text, one).ptr};
        }
      },
      value);
}

// By key; the last of equal keys counts.
Texts TextsOf(const Texts& under, std::span<const Attribute> attributes) {
  std::map<std::string, std::string> sorted(under.begin(), under.end());
  for (const Attribute& one : attributes) sorted[std::string(one.key)] = TextOf(one.value);
  return {sorted.begin(), sorted.end()};
}

}  // namespace

std::string KeyOf(const Texts& attributes) {
  std::string key;
  for (const auto& [name, value] : attributes) {
    for (const std::string* text : {&name, &value}) {
      key += std::to_string(text->size());
      key += ':';
      key += *text;
    }
  }
  return key;
}

namespace {

// Never destroyed, as the registries. The cells' lock is taken inside of ours, and so at a fork:
// handlers that were added last go first.
struct SampleSources {
  SampleSources() {
    CellStore::Instance();
    CHECK(::pthread_atfork([] { Instance().mutex.lock(); }, [] { Instance().mutex.unlock(); },
                           [] { Instance().mutex.unlock(); }) == 0);
  }
  static SampleSources& Instance() {
    static Immortal<SampleSources> sources;
    return *sources;
  }
  std::mutex mutex;  // guards what follows
  std::vector<std::pair<uint64_t, SampleSource*>> all;
};

}  // namespace

InstrumentRegistry& InstrumentRegistry::Instance() noexcept {
  static Immortal<InstrumentRegistry> registry;
  return *registry;
}

// The cells' lock is taken inside of ours, and so at a fork: handlers that were added last go first.
InstrumentRegistry::InstrumentRegistry() {
  CellStore::Instance();
  CHECK(::pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild) == 0);
}

void InstrumentRegistry::BeforeFork() noexcept { Instance().mutex_.lock(); }
void InstrumentRegistry::AfterForkInParent() noexcept { Instance().mutex_.unlock(); }
void InstrumentRegistry::AfterForkInChild() noexcept {
  InstrumentRegistry& registry = Instance();
  for (uint32_t i = 0; i < registry.gauge_pages_.size(); ++i) {
    // Pages of the file are the parent's.
    if (registry.file_) MapGauges(registry.gauge_pages_[i]);
    ClearGauges(registry.gauge_pages_[i], i * GaugesOfPage());
  }
  registry.file_ = nullptr;
  if (registry.create_) registry.to_share_ = true;
  for (InstrumentFamily& family : registry.families_) {
    for (SeriesOf& series : family.series) series.reported = 0;
  }
  registry.mutex_.unlock();
}

uint64_t InstrumentRegistry::NewRegistry() {
  std::lock_guard lock(mutex_);
  limits_[++registries_] = kSeriesLimit;
  return registries_;
}

void InstrumentRegistry::EndRegistry(uint64_t registry) {
  std::lock_guard lock(mutex_);
  limits_.erase(registry);
  std::erase_if(by_name_, [registry](const auto& entry) { return entry.first.first == registry; });
}

void InstrumentRegistry::LimitSeries(uint64_t registry, size_t limit) {
  std::lock_guard lock(mutex_);
  if (auto found = limits_.find(registry); found != limits_.end()) found->second = std::max<size_t>(limit, 1);
}

// A program that makes the same mistake for ever fills no memory.
Handle InstrumentRegistry::Refuse(Code code, std::string detail) {
  constexpr size_t kMostRefusals = 1'000;
  const auto same = std::ranges::find(refusals_, detail, &Status::detail);
  size_t place = static_cast<size_t>(same - refusals_.begin());
  if (same == refusals_.end()) {
    if (refusals_.size() == kMostRefusals) place = kMostRefusals - 1;
    else refusals_.push_back({code, std::move(detail)});
  }
  return {kInert, static_cast<uint32_t>(place)};
}

uint32_t InstrumentRegistry::AddSeries(InstrumentFamily& family, Texts attributes) {
  const uint32_t number = static_cast<uint32_t>(family.series.size());
  SeriesOf& series = family.series.emplace_back();
  family.by_key.emplace(KeyOf(attributes), number);
  series.attributes = std::move(attributes);
  series.start_unix_ns = RealClock().Now().unix_ns;
  CellStore& store = CellStore::Instance();
  const uint32_t buckets = static_cast<uint32_t>(family.form.bounds.size()) + 1;
  switch (family.kind) {
    case InstrumentKind::kGauge: series.cell = AddGauge(); break;
    case InstrumentKind::kHistogram:
      series.cell = buckets == 1
                        ? store.Allocate({{kExponentialCells, CellMeaning::kExponential}})
                        : store.Allocate({{buckets, CellMeaning::kInteger}, {1, CellMeaning::kDouble}});
      break;
    default:
      series.cell = store.Allocate({{1, family.integer ? CellMeaning::kInteger : CellMeaning::kDouble}});
      break;
  }
  if (file_ && family.registry == shared_) LogSeries(family, series);
  return number;
}

std::byte* InstrumentRegistry::MapGauges(std::byte* at) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
  void* made = ::mmap(at, PageBytes(), PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(made != MAP_FAILED);
  return static_cast<std::byte*>(made);
}

GaugeCell& InstrumentRegistry::GaugeOf(uint32_t number) const noexcept {
  const uint32_t of_page = GaugesOfPage();
  std::byte* page = gauge_pages_[number / of_page];
  return *std::launder(reinterpret_cast<GaugeCell*>(page + kGaugesAt) + number % of_page);
}

// A page of gauges that are not set.
void InstrumentRegistry::ClearGauges(std::byte* page, uint32_t first) noexcept {
  ::new (page) ExtentHead{
      .kind = ExtentKind::kGauges, .count = GaugesOfPage(), .bytes = PageBytes(), .refers = first, .used = 0};
  auto* gauges = reinterpret_cast<GaugeCell*>(page + kGaugesAt);
  for (uint32_t i = 0; i < GaugesOfPage(); ++i)
    ::new (gauges + i) GaugeCell{.value = kNotMeasured, .set_ns = 0};
}

uint32_t InstrumentRegistry::AddGauge() {
  if (gauges_ == gauge_pages_.size() * GaugesOfPage()) {
    std::byte* page = MapGauges(nullptr);
    ClearGauges(page, gauges_);
    if (file_ && !file_->Share(page, PageBytes())) LogFull();
    gauge_pages_.push_back(page);
  }
  return gauges_++;
}

Handle InstrumentRegistry::Make(InstrumentFamily wanted) {
  std::lock_guard lock(mutex_);
  const std::string quoted = "\"" + wanted.name + "\"";
  if (!IsName(wanted.name))
    return Refuse(Code::kInvalidArgument,
                  quoted + " is not a valid name: a letter, then letters, digits and . - / _ :, at most 255");
  if (!IsUnit(wanted.unit))
    return Refuse(
        Code::kInvalidArgument,
        quoted + ": \"" + wanted.unit + "\" is not a valid unit: at most 63 ASCII characters without spaces");
  if (!Ascend(wanted.form.bounds))
    return Refuse(Code::kInvalidArgument,
                  quoted + ": bounds must be finite and ascend, and be at most 1,024");
  if (!MayMerge(wanted.kind, wanted.workers))
    return Refuse(Code::kInvalidArgument,
                  quoted +
                      ": workers merge a gauge as each, sum, max, min or latest, a sum that falls as sum or "
                      "all, and other instruments always by their sum");
  auto [at, added] = by_name_.emplace(std::pair(wanted.registry, wanted.name), families_.size());
  if (added) {
    InstrumentFamily& family = families_.emplace_back(std::move(wanted));
    if (file_ && family.registry == shared_) LogFamily(at->second);
    AddSeries(family, {});
  } else {
    const InstrumentFamily& known = families_[at->second];
    if (known.kind != wanted.kind || known.integer != wanted.integer || known.unit != wanted.unit ||
        known.form.bounds != wanted.form.bounds)
      return Refuse(Code::kInvalidArgument,
                    quoted + " is taken by an instrument of another kind, unit or bounds");
    if (wanted.workers != WorkerMerge::kDefault && wanted.workers != known.workers)
      return Refuse(Code::kInvalidArgument,
                    quoted + " is taken by an instrument that workers merge otherwise");
  }
  return {families_[at->second].series.front().cell, at->second};
}

Handle InstrumentRegistry::Bind(Handle handle, std::span<const Attribute> attributes) {
  if (handle.cell == kInert) return handle;
  std::lock_guard lock(mutex_);
  InstrumentFamily& family = families_[handle.family];
  const auto bound = std::ranges::find(family.series, handle.cell, &SeriesOf::cell);
  Texts texts = TextsOf(bound->attributes, attributes);
  auto known = family.by_key.find(KeyOf(texts));
  if (known == family.by_key.end()) {
    const auto limit = limits_.find(family.registry);
    if (limit != limits_.end() && family.series.size() > limit->second) {
      texts = {{kOverflow, "true"}};
      known = family.by_key.find(KeyOf(texts));
    }
  }
  const uint32_t number = known != family.by_key.end() ? known->second : AddSeries(family, std::move(texts));
  return {family.series[number].cell, handle.family};
}

Status InstrumentRegistry::StatusOf(Handle handle) const {
  if (handle.cell != kInert) return Ok();
  std::lock_guard lock(mutex_);
  return refusals_[handle.family];
}

const InstrumentFamily* InstrumentRegistry::FamilyOf(Handle handle) const {
  if (handle.cell == kInert) return nullptr;
  std::lock_guard lock(mutex_);
  return &families_[handle.family];
}

SeriesFacts InstrumentRegistry::FactsOf(Handle handle) const {
  if (handle.cell == kInert) return {};
  std::lock_guard lock(mutex_);
  const InstrumentFamily& family = families_[handle.family];
  const auto bound = std::ranges::find(family.series, handle.cell, &SeriesOf::cell);
  return {family.registry,    family.name,    family.unit,      family.description,
          family.form.bounds, family.workers, bound->attributes};
}

std::atomic<double>* InstrumentRegistry::GaugeAt(Handle handle) {
  static GaugeCell nobodys{.value = kNotMeasured, .set_ns = 0};
  if (handle.cell == kInert) return &nobodys.value;
  std::lock_guard lock(mutex_);
  return &GaugeOf(handle.cell).value;
}

bool InstrumentRegistry::ReadSeries(const InstrumentFamily& family, SeriesOf& series, Sample& out) const {
  const CellStore& store = CellStore::Instance();
  switch (family.kind) {
    case InstrumentKind::kGauge:
      out.value = GaugeOf(series.cell).value.load(kRelaxed);
      return !std::isnan(out.value);
    case InstrumentKind::kHistogram: {
      const uint32_t buckets = static_cast<uint32_t>(family.form.bounds.size()) + 1;
      if (buckets == 1) {
        const ExponentialCounts whole = store.Window(series.cell);
        out.exponential = true;
        out.scale = whole.buckets.scale();
        out.offset = whole.buckets.offset();
        out.counts.assign(whole.buckets.counts().begin(), whole.buckets.counts().end());
        out.zeros = out.count = whole.zeros;
        out.sum = whole.sum;
      } else {
        out.bounds = family.form.bounds;
        for (uint32_t i = 0; i < buckets; ++i) out.counts.push_back(store.Integer(series.cell + i));
        out.sum = store.Double(series.cell + buckets);
      }
      for (uint64_t count : out.counts) out.count += count;
      return true;
    }
    case InstrumentKind::kCounter:
    case InstrumentKind::kUpDownCounter: break;
  }
  if (family.integer) {
    const auto whole = static_cast<int64_t>(store.Integer(series.cell));
    out.value = static_cast<double>(whole);
  } else {
    out.value = store.Double(series.cell);
    if (family.kind == InstrumentKind::kCounter)
      out.value = series.reported = std::max(series.reported, out.value);
  }
  return true;
}

std::vector<Sample> InstrumentRegistry::Read(uint64_t registry) {
  std::lock_guard lock(mutex_);
  std::vector<Sample> all;
  const int64_t forked = CellStore::Instance().forked_unix_ns();
  for (InstrumentFamily& family : families_) {
    if (family.registry != registry) continue;
    for (size_t i = 0; i < family.series.size(); ++i) {
      SeriesOf& series = family.series[i];
      Sample sample;
      sample.name = family.name;
      sample.unit = family.unit;
      sample.description = family.description;
      sample.kind = family.kind;
      sample.integer = family.integer;
      sample.attributes = series.attributes;
      sample.start_unix_ns = std::max(series.start_unix_ns, forked);
      if (!ReadSeries(family, series, sample)) continue;
      const bool untouched = sample.count == 0 && !(sample.value != 0 && !std::isnan(sample.value));
      if (i == 0 && family.series.size() > 1 && family.kind != InstrumentKind::kGauge && untouched) continue;
      all.push_back(std::move(sample));
    }
  }
  return all;
}

// What the file has no room for is exported by this process alone.
void InstrumentRegistry::LogFull() const {
  Log(LogLevel::kWarn, "sdk", "worker_file_full",
      "cannot enlarge the file that workers share: their page lacks series of this process");
}

void InstrumentRegistry::LogFamily(uint32_t number) {
  const InstrumentFamily& family = families_[number];
  RecordWriter record;
  record.Put(WorkerRecord::kFamily);
  record.Put(number);
  record.PutFamily({family.kind, family.integer, family.workers, family.name, family.unit, family.description,
                    family.form.bounds});
  if (!file_->Log(record.bytes())) LogFull();
}

void InstrumentRegistry::LogSeries(const InstrumentFamily& family, const SeriesOf& series) {
  RecordWriter record;
  record.Put(WorkerRecord::kSeries);
  record.Put(static_cast<uint32_t>(by_name_.at({family.registry, family.name})));
  record.Put(series.cell);
  record.Put(std::max(series.start_unix_ns, CellStore::Instance().forked_unix_ns()));
  record.PutAttributes(series.attributes);
  if (!file_->Log(record.bytes())) LogFull();
}

Status InstrumentRegistry::Share(uint64_t registry, CreateFile create) {
  std::lock_guard lock(mutex_);
  shared_ = registry;
  create_ = std::move(create);
  return ShareLocked();
}

void InstrumentRegistry::ShareAgain() noexcept {
  if (!to_share_.load(kRelaxed)) return;
  std::lock_guard lock(mutex_);
  if (!to_share_) return;
  const Status shared = ShareLocked();
  if (!shared)
    Log(LogLevel::kWarn, "sdk", "worker_file",
        shared.detail + ": the page of the workers lacks what this process counts");
}

Status InstrumentRegistry::ShareLocked() {
  to_share_ = false;
  if (file_) return Ok();
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerFile> made, create_());
  file_ = made.release();
  for (uint32_t i = 0; i < families_.size(); ++i) {
    if (families_[i].registry != shared_) continue;
    LogFamily(i);
    for (const SeriesOf& series : families_[i].series) LogSeries(families_[i], series);
  }
  for (std::byte* page : gauge_pages_) {
    if (!file_->Share(page, PageBytes())) LogFull();
  }
  CellStore::Instance().UseFile(*file_);
  return Ok();
}

std::unique_lock<std::mutex> LockSources() { return std::unique_lock(SampleSources::Instance().mutex); }

void AddSource(uint64_t registry, SampleSource& source) {
  SampleSources::Instance().all.emplace_back(registry, &source);
}

void ReportSources(uint64_t registry, std::vector<Sample>& out) {
  const auto lock = LockSources();
  for (const auto& [id, source] : SampleSources::Instance().all) {
    if (id == registry) source->Report(out);
  }
}

}  // namespace gpulens::instruments
