#include "wire/exposition/page_reply.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/exposition/exposition_page_reader.h"
#include "wire/packing.h"

namespace gpulens {

namespace exposition_internal {

// Reads a reply from its start. After the first fault it gives zeros and empty texts.
class ReplyCursor {
 public:
  explicit ReplyCursor(std::string_view all, size_t at = 0) : all_(all), at_(at) {}

  bool ok() const noexcept { return why_ == nullptr; }
  const char* why() const noexcept { return why_; }
  size_t at() const noexcept { return at_; }
  bool at_end() const noexcept { return at_ == all_.size(); }
  void Refuse(const char* why) noexcept {
    if (why_ == nullptr) why_ = why;
  }

  std::string_view Bytes(size_t size) noexcept {
    if (!ok() || size > all_.size() - at_) {
      Refuse("it ends too early");
      return {};
    }
    const std::string_view bytes = all_.substr(at_, size);
    at_ += size;
    return bytes;
  }
  template <class T>
  T Number() noexcept {
    T value{};
    const std::string_view bytes = Bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // A number below `end`.
  template <class T>
  T Below(uint64_t end, const char* why) noexcept {
    const T value = Number<T>();
    if (value < end) return value;
    Refuse(why);
    return 0;
  }
  // Valid UTF-8 unless `any_bytes`.
  std::string_view Text(size_t most, bool any_bytes = false) noexcept {
    const size_t size = Below<uint32_t>(most + 1, "a text is too long");
    const std::string_view text = Bytes(size);
    if (!any_bytes && !IsUtf8(text)) Refuse("a text is not UTF-8");
    return text;
  }

 private:
  const std::string_view all_;
  size_t at_;
  const char* why_ = nullptr;
};

}  // namespace exposition_internal

namespace {

using exposition_internal::LabelPrint;
using exposition_internal::ReplyCursor;

constexpr size_t kFaults = 6, kTypes = 8, kRoles = 8;
constexpr size_t kLongestDetail = 512;
constexpr uint32_t kNoPlace = UINT32_MAX;

enum ReplyFlag : uint8_t { kHasShape = 1, kHasTimes = 2, kIsTruncated = 4, kOpenEnd = 8, kManyFamilies = 16 };
enum FamilyFlag : uint8_t { kIsTyped = 1, kIsInferred = 2, kNameKnown = 4, kHasSuffix = 8 };
enum CellFlag : uint8_t { kCellSeen = 1, kCellTimed = 2 };

template <class T>
void Put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutText(std::string& out, std::string_view text) {
  Put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

template <class LabelRange>
void PutLabels(std::string& out, const LabelRange& labels) {
  Put(out, static_cast<uint32_t>(labels.size()));
  for (const auto& label : labels) {
    PutText(out, label.name);
    PutText(out, label.value);
  }
}

uint8_t Flag(bool is, uint8_t flag) noexcept { return is ? flag : uint8_t{0}; }

void PutReport(const ExpositionReport& report, std::span<const ParsedPage::BadExample> examples,
               std::string& out) {
  for (size_t count : {report.samples, report.bad_lines, report.samples_over_limit, report.duplicates,
                       report.type_conflicts})
    Put(out, static_cast<uint64_t>(count));
  Put(out, report.by_error);
  Put(out, static_cast<uint32_t>(examples.size()));
  for (const ParsedPage::BadExample& example : examples) {
    Put(out, static_cast<uint64_t>(example.line));
    Put(out, static_cast<uint8_t>(example.error));
    PutText(out, example.excerpt);
  }
}

// Bytes that were checked before.
void CopyCheckedLabels(std::string_view bytes, size_t at, std::vector<PageLabel>& out) {
  ReplyCursor in(bytes, at);
  out.clear();
  for (uint32_t left = in.Number<uint32_t>(); left > 0; --left) {
    const std::string_view name = in.Text(SIZE_MAX - 1, true), value = in.Text(SIZE_MAX - 1, true);
    out.push_back({std::string(name), std::string(value)});
  }
}

struct SeriesKey {
  LabelPrint print;
  uint32_t family = 0;
  bool operator==(const SeriesKey&) const = default;
};
struct SeriesKeyHash {
  size_t operator()(const SeriesKey& key) const noexcept { return key.print.a ^ key.family; }
};

// Names come from outside: with a hash that is known, a page could make each of them equal.
struct NameHash {
  size_t operator()(std::string_view name) const noexcept { return HashBytes(name, 0, ProcessHashKey()); }
};

bool SameFamily(const ExpositionFamily& a, const ExpositionFamily& b) {
  return std::tie(a.type, a.typed, a.inferred, a.suffixed, a.name, a.help, a.unit) ==
         std::tie(b.type, b.typed, b.inferred, b.suffixed, b.name, b.help, b.unit);
}

std::tuple<SampleRole, double> OrderOf(const PageCell& cell) { return {cell.role, cell.bound}; }

}  // namespace

Status PageReading::status() const {
  if (fault == PageFault::kNone) return Ok();
  const bool lost = fault == PageFault::kNotGzip || fault == PageFault::kCut;
  return {lost ? Code::kDataLoss : Code::kExhausted, detail};
}

PageReading ReadPage(const PageBody& body, size_t most, std::string& unpacked, ScrapedPage& page) {
  std::string_view text = body.bytes;
  if (body.gzip) {
    if (Status status = Gunzip(text, most, unpacked); !status) {
      const bool large = status.code == Code::kExhausted;
      return {large ? PageFault::kTooLarge : PageFault::kNotGzip, std::move(status.detail), 0};
    }
    text = unpacked;
  }
  PageReading reading{.fault = PageFault::kNone, .detail = {}, .page_bytes = text.size()};
  Status status = page.Update(text, body.format);
  if (status) return reading;
  const ExpositionReport& report = page.report();
  reading.detail = std::move(status.detail);
  // Of a page above a limit nothing was read: half a page would pass for the whole.
  if (status.code != Code::kExhausted) reading.fault = PageFault::kCut;
  else if (report.too_many_families) reading.fault = PageFault::kFamilies;
  else if (report.samples_over_limit > 0) reading.fault = PageFault::kSamples;
  else reading.fault = PageFault::kTooLarge;
  return reading;
}

size_t MostReplyBytes(const ExpositionLimits& limits) noexcept {
  // Each text of the page is sent once; what is added to it is less than it, or belongs to a sample.
  constexpr size_t kPerSample = 96, kRest = 64u << 10;
  return 2 * limits.page_bytes + kPerSample * limits.samples + kRest;
}

PageEncoder::PageEncoder(const ScrapedPage& page, const ExpositionLimits& limits)
    : page_(page), most_bytes_(MostReplyBytes(limits)) {}

void PageEncoder::Encode(const PageReading& reading, std::string& out) {
  out.clear();
  const ExpositionReport& report = page_.report();
  const bool shape = reading.read() && (!sent_ || page_.generation() != generation_);
  Put(out, static_cast<uint8_t>(reading.fault));
  Put(out, static_cast<uint8_t>(Flag(shape, kHasShape) |
                                Flag(reading.read() && page_.has_timestamps(), kHasTimes) |
                                Flag(report.truncated, kIsTruncated) | Flag(report.open_end, kOpenEnd) |
                                Flag(report.too_many_families, kManyFamilies)));
  PutText(out, std::string_view(reading.detail).substr(0, kLongestDetail));
  Put(out, static_cast<uint64_t>(reading.page_bytes));
  PutReport(report, page_.bad_examples(), out);
  if (!reading.read()) return;
  if (shape) AddShape(out);
  AddNumbers(out);
  if (out.size() <= most_bytes_) return;
  // What is kept from the page before a cut one is sent, too.
  sent_ = false;
  Encode(
      {PageFault::kTooLarge, "the series of this and the last page are too many bytes", reading.page_bytes},
      out);
}

void PageEncoder::AddShape(std::string& out) {
  sent_ = true;
  generation_ = page_.generation();
  const std::span<const ExpositionFamily> families = page_.families();
  std::vector<uint32_t> index(families.size());
  uint32_t alive = 0;
  for (size_t i = 0; i < families.size(); ++i) {
    if (families[i].alive) index[i] = alive++;
  }
  Put(out, alive);
  for (const ExpositionFamily& family : families) {
    if (!family.alive) continue;
    Put(out, static_cast<uint8_t>(family.type));
    Put(out, static_cast<uint8_t>(Flag(family.typed, kIsTyped) | Flag(family.inferred, kIsInferred) |
                                  Flag(family.suffixed.has_value(), kNameKnown) |
                                  Flag(family.suffixed.value_or(false), kHasSuffix)));
    PutText(out, family.name);
    PutText(out, family.help);
    PutText(out, family.unit);
  }
  // New series come last, in the order in which the page has them.
  page_.Series(series_);
  std::vector<uint32_t> fresh(page_.appeared().begin(), page_.appeared().end());
  std::vector<uint32_t> sorted = fresh;
  std::ranges::sort(sorted);
  std::erase_if(series_, [&](uint32_t id) { return std::ranges::binary_search(sorted, id); });
  series_.insert(series_.end(), fresh.begin(), fresh.end());
  slots_.clear();
  Put(out, static_cast<uint32_t>(series_.size()));
  for (uint32_t id : series_) AddSeries(id, index, out);
}

void PageEncoder::AddSeries(uint32_t id, const std::vector<uint32_t>& families, std::string& out) {
  page_.Labels(id, labels_);
  page_.Cells(id, cells_);
  Put(out, families[page_.family_of(id)]);
  PutLabels(out, labels_);
  Put(out, static_cast<uint32_t>(cells_.size()));
  for (const PageCell& cell : cells_) {
    slots_.push_back(cell.slot);
    Put(out, static_cast<uint8_t>(cell.role));
    if (BoundLabel(cell.role).empty()) continue;
    Put(out, cell.bound);
    PutText(out, page_.BoundText(cell.slot));
  }
}

void PageEncoder::AddNumbers(std::string& out) const {
  const std::span<const double> values = page_.values();
  Put(out, static_cast<uint32_t>(slots_.size()));
  for (uint32_t slot : slots_) Put(out, values[slot]);
  const bool timed = page_.has_timestamps();
  for (uint32_t slot : slots_)
    Put(out, static_cast<uint8_t>(Flag(page_.seen(slot), kCellSeen) |
                                  Flag(timed && page_.timestamp_ms(slot).has_value(), kCellTimed)));
  if (timed) {
    for (uint32_t slot : slots_) Put(out, page_.timestamp_ms(slot).value_or(0));
  }
  const std::span<const PageExemplar> exemplars = page_.exemplars();
  Put(out, static_cast<uint32_t>(exemplars.size()));
  if (exemplars.empty()) return;
  std::vector<uint32_t> cell_of(values.size(), 0);
  for (size_t i = 0; i < slots_.size(); ++i) cell_of[slots_[i]] = static_cast<uint32_t>(i);
  std::vector<PageLabel> labels;
  for (const PageExemplar& exemplar : exemplars) {
    page_.ExemplarLabels(exemplar, labels);
    Put(out, cell_of[exemplar.slot]);
    Put(out, exemplar.value);
    Put(out, static_cast<uint8_t>(exemplar.timestamp_ms.has_value()));
    Put(out, exemplar.timestamp_ms.value_or(0));
    PutLabels(out, labels);
  }
}

// A reply that is being checked.
struct DecodedPage::Draft {
  PageReading reading;
  ExpositionReport report;
  std::vector<BadExample> bad_examples;
  bool has_shape = false, timed = false;
  std::string_view shape;  // the labels and bounds below lie in it
  std::vector<ExpositionFamily> families;
  std::vector<Entry> series;  // `family`: in `families`
  std::vector<Cell> cells;
  std::string_view values, states, timestamps;  // numbers as they came
  std::vector<PageExemplar> exemplars;          // `slot`: in the cells of the shape
  std::string exemplar_text;
};

// Reads and checks; changes nothing but the draft.
class DecodedPage::Decoder {
 public:
  Decoder(std::string_view reply, const ExpositionLimits& limits, Draft& draft)
      : in_(reply), reply_(reply), limits_(limits), draft_(draft) {}

  // `cells`: of the present shape. Null: all is well; else what is wrong.
  const char* Run(size_t cells) {
    if (reply_.size() > MostReplyBytes(limits_)) return "it is too long";
    Head();
    if (in_.ok() && draft_.reading.read()) {
      if (draft_.has_shape) Shape();
      Numbers(draft_.has_shape ? draft_.cells.size() : cells);
      Exemplars();
    }
    if (in_.ok() && !in_.at_end()) in_.Refuse("bytes follow its end");
    return in_.why();
  }

 private:
  void Head() {
    draft_.reading.fault = static_cast<PageFault>(in_.Below<uint8_t>(kFaults, "there is no such fault"));
    const auto flags = in_.Below<uint8_t>(2 * kManyFamilies, "there is no such flag");
    draft_.has_shape = (flags & kHasShape) != 0;
    draft_.timed = (flags & kHasTimes) != 0;
    draft_.report.truncated = (flags & kIsTruncated) != 0;
    draft_.report.open_end = (flags & kOpenEnd) != 0;
    draft_.report.too_many_families = (flags & kManyFamilies) != 0;
    draft_.reading.detail = in_.Text(kLongestDetail, true);
    draft_.reading.page_bytes = in_.Number<uint64_t>();
    ExpositionReport& report = draft_.report;
    for (size_t* count : {&report.samples, &report.bad_lines, &report.samples_over_limit, &report.duplicates,
                          &report.type_conflicts})
      *count = in_.Number<uint64_t>();
    report.by_error = in_.Number<decltype(report.by_error)>();
    const auto examples = in_.Below<uint32_t>(kBadExamples + 1, "too many bad lines are shown");
    for (uint32_t i = 0; in_.ok() && i < examples; ++i) {
      const size_t line = in_.Number<uint64_t>();
      const auto error = static_cast<LineError>(in_.Below<uint8_t>(kLineErrors, "there is no such error"));
      draft_.bad_examples.push_back(
          {line, error, std::string(in_.Text(exposition_internal::kExcerptBytes, true))});
    }
  }

  void Shape() {
    const size_t start = in_.at();
    Families();
    const auto count = in_.Below<uint32_t>(limits_.samples + 1, "too many series");
    std::unordered_set<SeriesKey, SeriesKeyHash> keys;
    for (uint32_t i = 0; in_.ok() && i < count; ++i) {
      Series(start);
      if (!in_.ok()) return;
      const Entry& entry = draft_.series.back();
      if (!keys.insert({{entry.print[0], entry.print[1]}, entry.family}).second)
        in_.Refuse("a series is there twice");
    }
    draft_.shape = reply_.substr(start, in_.at() - start);
  }

  void Families() {
    // Until what vanished is swept, twice as many may be in use.
    const auto count = in_.Below<uint32_t>(2 * limits_.families + 1, "too many families");
    std::unordered_set<std::string_view, NameHash> names;
    for (uint32_t i = 0; in_.ok() && i < count; ++i) {
      ExpositionFamily family;
      family.type = static_cast<ExpositionType>(in_.Below<uint8_t>(kTypes, "there is no such type"));
      const auto flags = in_.Below<uint8_t>(2 * kHasSuffix, "there is no such flag of a family");
      family.typed = (flags & kIsTyped) != 0;
      family.inferred = (flags & kIsInferred) != 0;
      if ((flags & kNameKnown) != 0) family.suffixed = (flags & kHasSuffix) != 0;
      family.alive = true;
      const std::string_view name = in_.Text(limits_.name_bytes);
      family.name = name;
      family.help = in_.Text(limits_.value_bytes);
      family.unit = in_.Text(limits_.value_bytes);
      if (name.empty() || !names.insert(name).second) in_.Refuse("a family has no name of its own");
      draft_.families.push_back(std::move(family));
    }
  }

  // Reads labels, which are different and without `without`, into labels_.
  void Labels() {
    const auto count = in_.Below<uint32_t>(limits_.labels + 1, "too many labels");
    labels_.clear();
    for (uint32_t i = 0; in_.ok() && i < count; ++i) {
      const std::string_view name = in_.Text(limits_.name_bytes), value = in_.Text(limits_.value_bytes);
      if (name.empty() || name == "__name__" || HasLabel(name)) in_.Refuse("a label has no name of its own");
      labels_.push_back({name, value});
    }
  }

  bool HasLabel(std::string_view name) const {
    return std::ranges::any_of(labels_, [&](const LabelView& label) { return label.name == name; });
  }

  void Series(size_t start) {
    Entry entry;
    entry.alive = true;
    entry.family = in_.Below<uint32_t>(draft_.families.size(), "there is no such family");
    entry.labels_at = static_cast<uint32_t>(in_.at() - start);
    Labels();
    const LabelPrint print = exposition_internal::PrintLabels(labels_, labels_.size(), ProcessHashKey());
    entry.print[0] = print.a;
    entry.print[1] = print.b;
    entry.first = static_cast<uint32_t>(draft_.cells.size());
    entry.cells = in_.Below<uint32_t>(limits_.samples - draft_.cells.size() + 1, "too many samples");
    if (entry.cells == 0) in_.Refuse("a series has no sample");
    for (uint32_t i = 0; in_.ok() && i < entry.cells; ++i) {
      Cell cell = ReadCell(start);
      if (i > 0 && OrderOf(draft_.cells.back().cell) >= OrderOf(cell.cell))
        in_.Refuse("samples of a series are not in order");
      draft_.cells.push_back(cell);
    }
    draft_.series.push_back(entry);
  }

  Cell ReadCell(size_t start) {
    Cell cell;
    cell.cell.role = static_cast<SampleRole>(in_.Below<uint8_t>(kRoles, "there is no such role"));
    const std::string_view label = BoundLabel(cell.cell.role);
    if (label.empty()) return cell;
    // Two labels of one name would make the agent's own page invalid.
    if (HasLabel(label)) in_.Refuse("a bound is there twice");
    cell.cell.bound = in_.Number<double>();
    cell.bound_at = static_cast<uint32_t>(in_.at() - start);
    double bound = 0;
    const std::string_view text = in_.Text(kMaxNumberBytes);
    if (!exposition_internal::ReadBound(text, bound) || bound != cell.cell.bound)
      in_.Refuse("a bound is not its text");
    return cell;
  }

  void Numbers(size_t cells) {
    if (in_.Number<uint32_t>() != cells) in_.Refuse("the numbers do not fit the shape");
    draft_.values = in_.Bytes(cells * sizeof(double));
    draft_.states = in_.Bytes(cells);
    if (draft_.timed) draft_.timestamps = in_.Bytes(cells * sizeof(int64_t));
    cells_ = cells;
  }

  void Exemplars() {
    const auto count = in_.Below<uint32_t>(cells_ + 1, "too many exemplars");
    for (uint32_t i = 0; in_.ok() && i < count; ++i) {
      PageExemplar exemplar;
      exemplar.slot = in_.Below<uint32_t>(cells_, "an exemplar of no sample");
      exemplar.value = in_.Number<double>();
      const bool timed = in_.Below<uint8_t>(2, "a bit is more than a bit") != 0;
      const auto time = in_.Number<int64_t>();
      if (timed) exemplar.timestamp_ms = time;
      const size_t at = in_.at();
      Labels();
      const std::string_view bytes = reply_.substr(at, in_.at() - at);
      exemplar.text_offset = static_cast<uint32_t>(draft_.exemplar_text.size());
      exemplar.text_length = static_cast<uint32_t>(bytes.size());
      draft_.exemplar_text += bytes;
      draft_.exemplars.push_back(exemplar);
    }
  }

  ReplyCursor in_;
  const std::string_view reply_;
  const ExpositionLimits& limits_;
  Draft& draft_;
  std::vector<LabelView> labels_;
  size_t cells_ = 0;
};

DecodedPage::DecodedPage(const ExpositionLimits& limits, bool honor_timestamps)
    : limits_(limits), honors_timestamps_(honor_timestamps) {}
DecodedPage::~DecodedPage() = default;

Result<PageReading> DecodedPage::Update(std::string_view reply) {
  Draft draft;
  if (const char* why = Decoder(reply, limits_, draft).Run(cells_.size()))
    return Status{Code::kDataLoss, std::string("the reply is not valid: ") + why};
  ForgetChanges();
  report_ = draft.report;
  bad_examples_ = std::move(draft.bad_examples);
  current_ = draft.reading.read();
  exemplars_.clear();
  if (!current_) return std::move(draft.reading);
  if (draft.has_shape) TakeShape(draft);
  TakeNumbers(draft);
  return std::move(draft.reading);
}

void DecodedPage::ForgetChanges() {
  appeared_.clear();
  vanished_.clear();
  reshaped_.clear();
}

std::vector<bool> DecodedPage::TakeFamilies(std::vector<ExpositionFamily>& now,
                                            std::vector<uint32_t>& index) {
  std::unordered_map<std::string_view, uint32_t, NameHash> known;
  for (uint32_t i = 0; i < families_.size(); ++i) {
    if (families_[i].alive) known.emplace(families_[i].name, i);
  }
  std::vector<bool> goes_on(families_.size(), false), used(families_.size(), false);
  bool changed = false;
  index.assign(now.size(), kNoPlace);
  for (size_t i = 0; i < now.size(); ++i) {
    const auto old = known.find(now[i].name);
    if (old == known.end()) continue;
    ExpositionFamily& family = families_[index[i] = old->second];
    used[old->second] = true;
    goes_on[old->second] =
        family.type == now[i].type && family.typed == now[i].typed && family.inferred == now[i].inferred;
    if (SameFamily(family, now[i])) continue;
    changed = true;
    // Its name stays where it is: `known` refers to it.
    family.help = std::move(now[i].help);
    family.unit = std::move(now[i].unit);
    std::tie(family.type, family.typed, family.inferred, family.suffixed) =
        std::tie(now[i].type, now[i].typed, now[i].inferred, now[i].suffixed);
  }
  uint32_t place = 0;
  for (uint32_t i = 0; i < used.size(); ++i) {
    if (used[i] || !families_[i].alive) continue;
    changed = true;
    families_[i] = {};
  }
  for (size_t i = 0; i < now.size(); ++i) {
    if (index[i] != kNoPlace) continue;
    changed = true;
    while (place < families_.size() && families_[place].alive) ++place;
    if (place == families_.size()) families_.emplace_back();
    families_[place] = std::move(now[i]);
    index[i] = place;
  }
  if (changed) ++generation_;
  return goes_on;
}

bool DecodedPage::TakeCells(std::span<Cell> now, std::span<const Cell> old) {
  bool same = now.size() == old.size();
  size_t at = 0;
  for (Cell& cell : now) {
    while (at < old.size() && OrderOf(old[at].cell) < OrderOf(cell.cell)) ++at;
    if (at < old.size() && OrderOf(old[at].cell) == OrderOf(cell.cell)) {
      cell.cell.slot = old[at].cell.slot;
      continue;
    }
    same = false;
    if (free_slots_.empty()) {
      cell.cell.slot = static_cast<uint32_t>(values_.size());
      values_.push_back(0);
    } else {
      cell.cell.slot = free_slots_.back();
      free_slots_.pop_back();
    }
  }
  return same;
}

void DecodedPage::TakeShape(Draft& draft) {
  free_ids_.insert(free_ids_.end(), freed_ids_.begin(), freed_ids_.end());
  free_slots_.insert(free_slots_.end(), freed_slots_.begin(), freed_slots_.end());
  freed_ids_.clear();
  freed_slots_.clear();
  std::vector<uint32_t> index;
  const std::vector<bool> goes_on = TakeFamilies(draft.families, index);
  std::unordered_map<SeriesKey, uint32_t, SeriesKeyHash> known;
  for (uint32_t id = 0; id < series_.size(); ++id) {
    const Entry& entry = series_[id];
    if (entry.alive && goes_on[entry.family])
      known.emplace(SeriesKey{{entry.print[0], entry.print[1]}, entry.family}, id);
  }
  // Places of the present shape that end up in no series of the new one.
  std::vector<Entry> before = series_;
  for (Entry& entry : series_) entry.alive = false;
  for (Entry& entry : draft.series) {
    entry.family = index[entry.family];
    const std::span<Cell> cells(draft.cells.data() + entry.first, entry.cells);
    const auto old = known.find({{entry.print[0], entry.print[1]}, entry.family});
    if (old != known.end()) {
      const Entry& was = before[old->second];
      if (!TakeCells(cells, std::span(cells_).subspan(was.first, was.cells)))
        reshaped_.push_back(old->second);
      series_[old->second] = entry;
      continue;
    }
    TakeCells(cells, {});
    uint32_t id = static_cast<uint32_t>(series_.size());
    if (free_ids_.empty()) {
      series_.emplace_back();
    } else {
      id = free_ids_.back();
      free_ids_.pop_back();
    }
    series_[id] = entry;
    appeared_.push_back(id);
  }
  std::vector<bool> used(values_.size(), false);
  for (const Cell& cell : draft.cells) used[cell.cell.slot] = true;
  for (const Cell& cell : cells_) {
    if (!used[cell.cell.slot]) freed_slots_.push_back(cell.cell.slot);
  }
  for (uint32_t id = 0; id < before.size(); ++id) {
    if (!before[id].alive || series_[id].alive) continue;
    vanished_.push_back(id);
    freed_ids_.push_back(id);
  }
  if (!appeared_.empty() || !vanished_.empty() || !reshaped_.empty()) ++generation_;
  cells_ = std::move(draft.cells);
  shape_ = draft.shape;
  cell_of_.assign(values_.size(), 0);
  for (uint32_t i = 0; i < cells_.size(); ++i) cell_of_[cells_[i].cell.slot] = i;
}

void DecodedPage::TakeNumbers(const Draft& draft) {
  timed_ = draft.timed && honors_timestamps_;
  states_.assign(values_.size(), 0);
  if (timed_) timestamps_.resize(values_.size());
  for (size_t i = 0; i < cells_.size(); ++i) {
    const uint32_t slot = cells_[i].cell.slot;
    std::memcpy(&values_[slot], draft.values.data() + i * sizeof(double), sizeof(double));
    states_[slot] = static_cast<uint8_t>(draft.states[i]);
    if (timed_)
      std::memcpy(&timestamps_[slot], draft.timestamps.data() + i * sizeof(int64_t), sizeof(int64_t));
  }
  exemplars_ = draft.exemplars;
  for (PageExemplar& exemplar : exemplars_) exemplar.slot = cells_[exemplar.slot].cell.slot;
  exemplar_text_ = draft.exemplar_text;
}

bool DecodedPage::seen(uint32_t slot) const noexcept {
  return current_ && slot < states_.size() && (states_[slot] & kCellSeen) != 0;
}

std::optional<int64_t> DecodedPage::timestamp_ms(uint32_t slot) const noexcept {
  if (!timed_ || slot >= states_.size() || (states_[slot] & kCellTimed) == 0) return {};
  return timestamps_[slot];
}

void DecodedPage::ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const {
  CopyCheckedLabels(exemplar_text_, exemplar.text_offset, out);
}

void DecodedPage::Labels(uint32_t series, std::vector<PageLabel>& out) const {
  CopyCheckedLabels(shape_, series_[series].labels_at, out);
}

void DecodedPage::Cells(uint32_t series, std::vector<PageCell>& out) const {
  out.clear();
  const Entry& entry = series_[series];
  for (uint32_t i = 0; i < entry.cells; ++i) out.push_back(cells_[entry.first + i].cell);
}

std::string DecodedPage::BoundText(uint32_t slot) const {
  const Cell& cell = cells_[cell_of_[slot]];
  if (cell.bound_at == 0) return {};
  ReplyCursor in(shape_, cell.bound_at);
  return std::string(in.Text(kMaxNumberBytes, true));
}

void DecodedPage::Series(std::vector<uint32_t>& out) const {
  out.clear();
  for (uint32_t id = 0; id < series_.size(); ++id) {
    if (series_[id].alive) out.push_back(id);
  }
}

}  // namespace gpulens
