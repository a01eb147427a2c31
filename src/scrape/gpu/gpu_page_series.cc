#include "scrape/gpu/gpu_page_series.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/parse.h"
#include "base/pci_address.h"
#include "catalog/gpu.h"
#include "scrape/page_cells.h"

namespace gpulens::gpu_page {
namespace {

constexpr std::string_view kSource = "gpu.interconnect.source";
constexpr std::string_view kTotal = "_total";

// Calls `call` with both sides of each pair of "a=b,c=d".
template <class Call>
void ForEachPair(std::string_view pairs, const Call& call) {
  while (!pairs.empty()) {
    std::string_view second = TakeUntil(pairs, ',');
    const std::string_view first = TakeUntil(second, '=');
    call(first, second);
  }
}

void AppendAttribute(std::string& out, char before, std::string_view key, const AttributeSet::Value& value) {
  out += before;
  out.append(key) += '=';
  AppendValue(out, value);
}

// A reading is identified by metric, entity and attributes, whichever counter it is from.
void AppendIdentity(std::string& out, const MetricDesc& metric, const Entity* entity) {
  out = metric.name;
  for (; entity; entity = entity->parent.get()) {
    for (auto [key, value] : entity->attributes) AppendAttribute(out, '\x1f', key, value);
  }
}

void AppendExtra(std::string& out, const AttributeSet& extra, bool with_source) {
  for (auto [key, value] : extra) {
    if (key != kSource || with_source) AppendAttribute(out, '\x1e', key, value);
  }
}

// The generation of a link with this speed in GT/s per lane; 0: not a speed of PCIe.
double GenerationOf(double speed) noexcept {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64, 128};
  for (size_t i = 0; i < std::size(kSpeeds); ++i) {
    if (speed == kSpeeds[i]) return static_cast<double>(i + 1);
  }
  return 0;
}

std::vector<RowMatch> MatchesOf(const Exporter& exporter, const ExpositionFamily& family) {
  std::string name = family.name;
  if (!exporter.optional_prefix.empty() && name.starts_with(exporter.optional_prefix))
    name.erase(0, exporter.optional_prefix.size());
  std::vector<RowMatch> matches;
  auto match = [&] {
    for (uint32_t order = 0; const PageRow& row : exporter.rows) {
      std::string_view number;
      if (Matches(row.family, name, &number) || Matches(row.renamed, name, &number))
        matches.push_back({&row, order, std::string(number)});
      ++order;
    }
  };
  match();
  // OpenMetrics names the family of a counter without the ending of its samples.
  if (matches.empty() && family.type == ExpositionType::kCounter) {
    name += kTotal;
    match();
  }
  return matches;
}

char Lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Converts a PCI address to the kernel's form, "0000:1b:00.0"; DCGM writes "00000000:1B:00.0". Other texts
// stay.
std::string KernelAddress(std::string_view text) {
  if (auto parsed = ParsePciAddress(text)) return parsed->ToString();
  std::string address(text);
  std::transform(address.begin(), address.end(), address.begin(), Lower);
  return address;
}

std::string KeyOf(std::string_view type, std::span<const AttributeSet::Attribute> attributes,
                  const Entity* parent) {
  std::string key(type);
  for (const auto& attribute : attributes) AppendAttribute(key, '\x1f', attribute.key, attribute.value);
  if (!parent) return key;
  for (auto [name, value] : parent->attributes) AppendAttribute(key, '\x1e', name, value);
  return key;
}

}  // namespace

bool IsBlank(double raw) noexcept {
  constexpr double kInt64Blank = 9223372036854775792.0, kDoubleBlank = 140737488355328.0;
  constexpr double kInt32Blank = 2147483632.0, kKinds = 3, kAllBits = 4294967295.0;
  return raw >= kInt64Blank || (raw >= kInt32Blank && raw <= kInt32Blank + kKinds) ||
         (raw >= kDoubleBlank && raw <= kDoubleBlank + kKinds) || raw == kAllBits;
}

GpuPageSeries::GpuPageSeries(const ParsedPage& page, const Exporter* exporter,
                             std::vector<std::pair<std::string, std::string>> more)
    : page_(page), exporter_(exporter), entities_(exporter ? exporter->labels : nullptr, std::move(more)) {}

bool GpuPageSeries::Reads(const ExpositionFamily& family) const {
  return exporter_ && !MatchesOf(*exporter_, family).empty();
}

DetectedExporter DetectExporter(const ParsedPage& page) {
  DetectedExporter best;
  for (const Exporter* exporter : AllExporters()) {
    size_t known = 0;
    for (const ExpositionFamily& family : page.families())
      known += family.alive && !MatchesOf(*exporter, family).empty();
    if (known > best.families) best = {exporter, known};
  }
  return best;
}

Status GpuPageSeries::Write(bool complete, FrameWriter& out) {
  if (!followed_ || page_.generation() != generation_) {
    if (!exporter_ && (exporter_ = DetectExporter(page_).exporter)) entities_.SetLabels(exporter_->labels);
    if (!exporter_) return {Code::kDataLoss, "has no family of a known GPU exporter"};
    Follow(out.table());
    followed_ = true;
    generation_ = page_.generation();
  }
  SampleTimes times(page_, out);
  for (const Live& live : live_) {
    const uint32_t slots[] = {live.slot, live.slot2};
    const std::span<const uint32_t> read(slots, !live.row ? 0u : live.slot2 == kNone ? 1u : 2u);
    times.Next(read);
    if (!live.row) {
      for (Series series : live.held->series) out.Set(series, 1);
      continue;
    }
    if (!complete && !std::ranges::all_of(read, [this](uint32_t slot) { return page_.seen(slot); })) continue;
    double raw = 0;
    for (uint32_t slot : read) raw += page_.values()[slot];
    SetReading(*live.row, raw, *live.held, out);
  }
  if (live_.empty()) return {Code::kDataLoss, "has no reading of a GPU under a known name"};
  return Ok();
}

void GpuPageSeries::SetReading(const PageRow& row, double raw, const Held& held, FrameWriter& out) {
  Series series = held.series.front();
  if (IsBlank(raw)) return out.Reject(series, Validation::kSentinel);
  if (out.RejectSentinel(series, raw)) return;
  switch (row.convert) {
    case RowConversion::kValue:
    case RowConversion::kSum: return out.Set(series, raw * row.times / row.per);
    case RowConversion::kNotZero:
      if (raw != 0) out.Set(series, raw);
      return;
    case RowConversion::kBit:
      if (!(raw >= 0)) return out.Reject(series, Validation::kOutOfRange);
      return out.Set(series, (static_cast<uint64_t>(raw) & row.bit) != 0 ? 1 : 0);
    case RowConversion::kPcieSpeed: return out.Set(series, GenerationOf(raw));
    case RowConversion::kPcieGeneration:
      return out.Set(series, raw > 7 ? GenerationOf(raw) : raw == 5 ? 0 : raw);
    case RowConversion::kStates: break;
  }
  if (!(raw >= 0) || raw != std::floor(raw) || raw >= static_cast<double>(held.series.size()))
    return out.Reject(series, Validation::kOutOfRange);
  for (size_t i = 0; i < held.series.size(); ++i)
    out.Set(held.series[i], raw == static_cast<double>(i) ? 1 : 0);
}

void GpuPageSeries::Follow(SeriesTable& table) {
  candidates_.clear();
  Gather();
  DropWholes();
  PickWinners();
  Reconcile(table);
  entities_.DropUnused();
  std::vector<Candidate>().swap(candidates_);
}

void GpuPageSeries::Gather() {
  const std::span<const ExpositionFamily> families = page_.families();
  std::vector<std::vector<RowMatch>> matches(families.size());
  unknown_ = 0;
  for (size_t i = 0; i < families.size(); ++i) {
    if (!families[i].alive) continue;
    matches[i] = MatchesOf(*exporter_, families[i]);
    unknown_ += matches[i].empty() && !FindIgnored(*exporter_, families[i].name);
  }
  std::vector<uint32_t> ids;
  page_.Series(ids);
  for (uint32_t id : ids) {
    const std::vector<RowMatch>& of_family = matches[page_.family_of(id)];
    if (!of_family.empty()) GatherSeries(id, of_family);
  }
}

void GpuPageSeries::GatherSeries(uint32_t id, const std::vector<RowMatch>& matches) {
  page_.Labels(id, labels_);
  page_.Cells(id, cells_);
  const PageCell* value = FindCell(cells_, SampleRole::kValue);
  if (!value) return;
  SeriesSubject subject = entities_.SubjectOf(labels_);
  if (!subject.taken) return;
  if (subject.whole) AddFacts(subject);
  for (const RowMatch& match : matches) AddCandidate(match, subject, value->slot);
}

AttributeSet GpuPageSeries::Extra(const RowMatch& match) const {
  const PageRow& row = *match.row;
  std::vector<AttributeSet::Attribute> attributes;
  ForEachPair(row.attributes,
              [&](std::string_view key, std::string_view value) { attributes.push_back({key, value}); });
  auto add = [&](std::string_view key, std::string_view text) {
    if (auto number = ParseInt<int64_t>(text)) attributes.push_back({key, *number});
    else attributes.push_back({key, text});
  };
  if (!row.number.empty()) add(row.number, match.number);
  if (!row.label.empty()) add(row.label_key, LabelOf(labels_, row.label));
  return AttributeSet(attributes);
}

void GpuPageSeries::AddCandidate(const RowMatch& match, const SeriesSubject& subject, uint32_t slot) {
  const PageRow& row = *match.row;
  if (!row.label.empty() && LabelOf(labels_, row.label).empty()) return;
  if (!row.without.empty() && !LabelOf(labels_, row.without).empty()) return;
  if (!row.has.empty() && LabelOf(labels_, row.has) != row.is) {
    // Letter case differs between versions of an exporter.
    std::string upper(LabelOf(labels_, row.has));
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (upper != row.is && "GPU_CLOCK_TYPE_" + upper != row.is) return;
  }
  Candidate candidate;
  candidate.row = &row;
  candidate.metric = row.metric;
  candidate.of_part = subject.part && row.scope == RowScope::kPart;
  if (candidate.of_part && row.part_metric) candidate.metric = row.part_metric;
  if (row.scope == RowScope::kSwitch) candidate.entity = entities_.SwitchOf(labels_);
  else if (row.scope != RowScope::kHost) candidate.entity = candidate.of_part ? subject.part : subject.whole;
  if (!candidate.entity && row.scope != RowScope::kHost) return;
  if (row.scope == RowScope::kGpu && !subject.first_part) return;
  candidate.extra = Extra(match);
  candidate.gpu = std::string(candidate.metric->name) + '\x1f' + std::string(subject.gpu);
  AppendIdentity(candidate.group, *candidate.metric, candidate.entity.get());
  candidate.name = candidate.group;
  AppendExtra(candidate.group, candidate.extra, false);
  AppendExtra(candidate.name, candidate.extra, true);
  uint64_t clock = ParseInt<uint16_t>(LabelOf(labels_, "clock_index")).value_or(0);
  uint64_t part = subject.part ? 0x8000u | (subject.part_number & 0x7FFFu) : 0;
  candidate.rank = uint64_t{match.order} << 32 | part << 16 | clock;
  candidate.slot = slot;
  candidates_.push_back(std::move(candidate));
}

void GpuPageSeries::AddFacts(const SeriesSubject& subject) {
  const AttributeSet::Attribute vendor = {"gpu.vendor", exporter_->vendor};
  const std::span<const AttributeSet::Attribute> first(&vendor, 1);
  const PageLabels& labels = *exporter_->labels;
  AddFact(kGpuInfo, subject.whole, entities_.Pick(labels_, labels.info, first));
  AttributeSet driver = entities_.Pick(labels_, labels.driver, first);
  if (driver.Has("gpu.driver.version")) AddFact(kGpuDriverInfo, {}, std::move(driver));
  std::string_view profile = LabelOf(labels_, labels.profile);
  if (subject.part && !labels.profile.empty() && !profile.empty()) {
    AddFact(kGpuMigInfo, subject.part, AttributeSet({{"gpu.mig.profile", profile}}));
  }
}

// Facts repeat on every line. Of lines that differ, the one with the most attributes is used, and of several
// the one whose text sorts first, as the order of lines also depends on earlier pages.
void GpuPageSeries::AddFact(const MetricDesc& metric, EntityRef entity, AttributeSet extra) {
  Candidate candidate;
  candidate.metric = &metric;
  candidate.entity = std::move(entity);
  candidate.extra = std::move(extra);
  AppendIdentity(candidate.group, metric, candidate.entity.get());
  candidate.name = candidate.group;
  AppendExtra(candidate.name, candidate.extra, true);
  candidate.rank = ~uint64_t{candidate.extra.size()};
  candidates_.push_back(std::move(candidate));
}

// A share of a split GPU is exported for its instances or for the whole: with both it would count twice.
void GpuPageSeries::DropWholes() {
  std::set<std::string> split;
  for (const Candidate& candidate : candidates_) {
    if (candidate.of_part && !candidate.row->part_metric) split.insert(candidate.gpu);
  }
  if (split.empty()) return;
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    bool whole = candidate.row && candidate.row->scope == RowScope::kPart && !candidate.of_part;
    return whole && split.contains(candidate.gpu);
  });
}

void GpuPageSeries::PickWinners() {
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.group, a.rank, a.name, a.slot) < std::tie(b.group, b.rank, b.name, b.slot);
  });
  std::vector<Candidate> winners;
  // Half a sum would be wrong.
  auto drop_half = [&winners] {
    if (winners.empty() || !winners.back().row || winners.back().row->convert != RowConversion::kSum) return;
    if (winners.back().slot2 == kNone) winners.pop_back();
  };
  for (Candidate& candidate : candidates_) {
    if (winners.empty() || winners.back().group != candidate.group) {
      drop_half();
      winners.push_back(std::move(candidate));
    } else if (Candidate& winner = winners.back();
               candidate.row && candidate.row->convert == RowConversion::kSum) {
      if (winner.row != candidate.row && winner.slot2 == kNone) winner.slot2 = candidate.slot;
    }
  }
  drop_half();
  candidates_ = std::move(winners);
}

void GpuPageSeries::Reconcile(SeriesTable& table) {
  ++round_;
  for (const Candidate& candidate : candidates_) {
    auto at = held_.find(candidate.name);
    if (at != held_.end()) at->second.used = round_;
  }
  std::erase_if(held_, [&](const auto& held) {
    if (held.second.used == round_) return false;
    for (Series series : held.second.series) table.Retire(series);
    return true;
  });
  live_.clear();
  for (const Candidate& candidate : candidates_) {
    Held& held = held_[candidate.name];
    held.used = round_;
    if (held.series.empty()) {
      bool states = candidate.row && candidate.row->convert == RowConversion::kStates;
      std::string_view rest = states ? candidate.row->states : std::string_view{};
      do {
        AttributeSet extra = candidate.extra;
        if (states) extra = AttributeSet({{candidate.metric->name, TakeUntil(rest, ',')}}).OverlaidOn(extra);
        held.series.push_back(table.Declare(*candidate.metric, candidate.entity, extra));
      } while (!rest.empty());
    }
    // Above the limit of series: declared again when the page changes.
    if (!held.series.front()) {
      held_.erase(candidate.name);
      continue;
    }
    live_.push_back({candidate.row, candidate.slot, candidate.slot2, &held});
  }
  live_.shrink_to_fit();
}

std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept {
  for (const PageLabel& label : labels) {
    if (EqualsIgnoringCase(label.name, name)) return label.value;
  }
  return {};
}

static std::string_view FirstOf(const std::vector<PageLabel>& labels, std::string_view names) noexcept {
  while (!names.empty()) {
    std::string_view value = LabelOf(labels, TakeUntil(names, ' '));
    if (!value.empty()) return value;
  }
  return {};
}

std::string_view PageEntities::PartOf(const std::vector<PageLabel>& labels) const noexcept {
  bool whole = false;
  ForEachPair(labels_->whole, [&](std::string_view name, std::string_view value) {
    whole = whole || EqualsIgnoringCase(LabelOf(labels, name), value);
  });
  if (whole) return {};
  return FirstOf(labels, labels_->part);
}

EntityRef PageEntities::FindOrMake(std::string_view type, std::vector<AttributeSet::Attribute> attributes,
                                   EntityRef parent) {
  for (const auto& [key, value] : more_) attributes.push_back({key, std::string_view(value)});
  std::string key = KeyOf(type, attributes, parent.get());
  auto at = kept_.find(key);
  if (at == kept_.end()) {
    AttributeSet set(attributes);
    at = kept_.emplace(std::move(key), Kept{MakeRef<Entity>(std::string(type), set, std::move(parent)), 0})
             .first;
  }
  at->second.used = round_;
  return at->second.entity;
}

void PageEntities::AddWorkload(const std::vector<PageLabel>& labels,
                               std::vector<AttributeSet::Attribute>& attributes) const {
  auto add = [&](std::string_view key, std::string_view names) {
    std::string_view value = FirstOf(labels, names);
    if (!value.empty()) attributes.push_back({key, value});
  };
  add("k8s.pod.name", "pod pod_name kube_pod");
  add("k8s.namespace.name", "namespace pod_namespace kube_namespace");
  add("k8s.container.name", "container container_name kube_container");
  add("k8s.pod.uid", "pod_uid pod_uuid");
}

SeriesSubject PageEntities::SubjectOf(const std::vector<PageLabel>& labels) {
  SeriesSubject subject;
  ForEachPair(labels_->only, [&](std::string_view name, std::string_view value) {
    std::string_view have = LabelOf(labels, name);
    if (!have.empty() && have != value) subject.taken = false;
  });
  std::string_view index = FirstOf(labels, labels_->index), uuid = FirstOf(labels, labels_->uuid);
  std::string_view bus = FirstOf(labels, labels_->bus), model = FirstOf(labels, labels_->model);
  std::string_view part = PartOf(labels);
  if (!part.empty() && labels_->parts == PartReadings::kOwn) subject.taken = false;
  std::vector<AttributeSet::Attribute> attributes;
  auto number = ParseInt<int64_t>(index);
  if (number && *number >= 0) attributes.push_back({"gpu.index", *number});
  if (!uuid.empty()) attributes.push_back({"gpu.uuid", uuid});
  // Elsewhere the address is a fact of gpu.info; here it alone identifies a GPU.
  const std::string address = KernelAddress(bus);
  if (attributes.empty() && !bus.empty()) attributes.push_back({"gpu.pci.bus_id", std::string_view(address)});
  if (attributes.empty() || !subject.taken) return subject;
  subject.gpu = !uuid.empty() ? uuid : number ? index : bus;
  if (!model.empty()) attributes.push_back({"gpu.model", model});
  if (part.empty()) {
    AddWorkload(labels, attributes);
    subject.whole = FindOrMake("gpu", std::move(attributes), {});
    return subject;
  }
  bool mig = labels_->part_key == "gpu.mig.instance_id";
  subject.whole = FindOrMake("gpu", std::move(attributes), {});
  subject.first_part = labels_->parts != PartReadings::kFirstOnly || part == labels_->first_part;
  std::vector<AttributeSet::Attribute> own;
  subject.part_number = ParseInt<uint16_t>(part).value_or(0);
  if (auto id = ParseInt<int64_t>(part)) own.push_back({labels_->part_key, *id});
  else own.push_back({labels_->part_key, part});
  if (mig) own.push_back({"gpu.mig.enabled", true});
  AddWorkload(labels, own);
  subject.part = FindOrMake(mig ? "mig" : "partition", std::move(own), subject.whole);
  return subject;
}

EntityRef PageEntities::SwitchOf(const std::vector<PageLabel>& labels) {
  std::string_view id = LabelOf(labels, "nvswitch");
  if (id.empty()) return {};
  return FindOrMake("nvswitch", {{"nvswitch.id", id}}, {});
}

AttributeSet PageEntities::Pick(const std::vector<PageLabel>& labels, std::string_view pairs,
                                std::span<const AttributeSet::Attribute> first) const {
  std::vector<AttributeSet::Attribute> attributes(first.begin(), first.end());
  std::string address;
  ForEachPair(pairs, [&](std::string_view name, std::string_view key) {
    std::string_view value = LabelOf(labels, name);
    bool present = std::ranges::any_of(attributes, [&](const auto& a) { return a.key == key; });
    if (value.empty() || present) return;
    if (key != "gpu.pci.bus_id") attributes.push_back({key, value});
    else attributes.push_back({key, std::string_view(address = KernelAddress(value))});
  });
  return AttributeSet(attributes);
}

void PageEntities::DropUnused() {
  std::erase_if(kept_, [this](const auto& item) { return item.second.used != round_; });
  ++round_;
}

}  // namespace gpulens::gpu_page
