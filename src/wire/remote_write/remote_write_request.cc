#include "wire/remote_write/remote_write_request.h"

#include <algorithm>
#include <array>
#include <bit>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {
namespace {

using namespace remote_write;

constexpr size_t kVarintMost = 10;
// Tags of length-delimited fields below 16, and of numbers.
constexpr char TagOf(uint32_t field, uint32_t wire) noexcept { return static_cast<char>(field << 3 | wire); }
constexpr uint32_t kVarint = 0, kDelimited = 2;

char* PutVarint(char* at, uint64_t value) noexcept {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}

constexpr size_t VarintSize(uint64_t value) noexcept {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

char* PutBytes(char* at, std::string_view bytes) noexcept {
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

}  // namespace

void RemoteWriteSymbols::Clear() noexcept {
  numbers_.clear();
  texts_.clear();
  ++plan_;
}

void RemoteWriteSymbols::Add(RemoteWriteLayout& layout) {
  if (layout.plan == plan_) return;
  layout.plan = plan_;
  layout.global.resize(layout.symbols.size());
  for (uint32_t i = 0; i < layout.symbols.size(); ++i) {
    auto [at, added] =
        numbers_.try_emplace(std::string(layout.Symbol(i)), static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back(&at->first);
    layout.global[i] = at->second;
  }
}

std::optional<uint32_t> RemoteWriteSymbols::Find(const std::string& text) const {
  auto at = numbers_.find(text);
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
}

void RemoteWriteRequest::Begin(RemoteWriteVersion version) {
  version_ = version;
  body_.clear();
  table_.clear();
  samples_ = 0;
  used_ = 0;
  others_.clear();
  // Numbers of rounds long past could come again.
  if (++round_ == 0) locals_.clear(), round_ = 1;
  if (version_ != RemoteWriteVersion::k2) return;
  // The first symbol is the empty one.
  table_ += TagOf(kSymbols, kDelimited);
  table_ += '\0';
  used_ = 1;
}

char* RemoteWriteRequest::AppendFields(std::string_view fields, uint32_t samples) {
  body_ += fields;
  samples_ += samples;
  return body_.data() + body_.size() - fields.size();
}

void RemoteWriteRequest::AppendSeries(const RemoteWriteLayout& layout, const RemoteWriteLine& line,
                                      std::string_view data) {
  if (version_ == RemoteWriteVersion::k1) AppendSeries1(layout, line, data);
  else AppendSeries2(layout, line, data);
  ++samples_;
}

void RemoteWriteRequest::AppendSeries1(const RemoteWriteLayout& layout, const RemoteWriteLine& line,
                                       std::string_view data) {
  scratch_.clear();
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; i += 2) {
    protozero::pbf_writer series(scratch_), label(series, kLabels);
    const std::string_view name = layout.Symbol(layout.refs[i]), value = layout.Symbol(layout.refs[i + 1]);
    label.add_string(kLabelName, name.data(), name.size());
    label.add_string(kLabelValue, value.data(), value.size());
  }
  scratch_ += data;
  protozero::pbf_writer(body_).add_message(kTimeSeries1, scratch_);
}

uint32_t RemoteWriteRequest::LocalOf(uint32_t global) {
  Local& local = locals_[global];
  if (local.round == round_) return local.number;
  const std::string_view text = symbols_.Text(global);
  local.round = round_;
  if (text.empty()) return local.number = 0;
  if (!others_.empty()) {
    // A layout that was added since may have it, too.
    auto other = others_.find(std::string(text));
    if (other != others_.end()) return local.number = other->second;
  }
  protozero::pbf_writer(table_).add_string(kSymbols, text.data(), text.size());
  return local.number = used_++;
}

uint32_t RemoteWriteRequest::NumberOf(const RemoteWriteLayout& layout, uint32_t symbol) {
  if (locals_.size() < symbols_.size()) locals_.resize(symbols_.size());
  return LocalOf(layout.global[symbol]);
}

uint32_t RemoteWriteRequest::SymbolOf(const std::string& text) {
  if (text.empty()) return 0;
  if (auto known = symbols_.Find(text)) {
    if (locals_.size() < symbols_.size()) locals_.resize(symbols_.size());
    return LocalOf(*known);
  }
  auto [at, added] = others_.try_emplace(text, used_);
  if (!added) return at->second;
  protozero::pbf_writer(table_).add_string(kSymbols, text);
  return used_++;
}

void RemoteWriteRequest::AppendSeries2(const RemoteWriteLayout& layout, const RemoteWriteLine& line,
                                       std::string_view data) {
  if (locals_.size() < symbols_.size()) locals_.resize(symbols_.size());
  const RemoteWriteFamily& family = layout.families[line.family];
  const size_t most = line.refs * kVarintMost + 3 * (1 + kVarintMost);
  if (scratch_.size() < most) scratch_.resize(most);
  char* const refs = scratch_.data();
  char* end = refs;
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; ++i)
    end = PutVarint(end, LocalOf(layout.global[layout.refs[i]]));
  char* const about = end;
  auto put_number = [&end](uint32_t field, uint64_t value) {
    if (value == 0) return;
    *end++ = TagOf(field, kVarint);
    end = PutVarint(end, value);
  };
  put_number(kType2, static_cast<uint64_t>(family.type));
  put_number(kHelpRef, LocalOf(layout.global[family.help]));
  put_number(kUnitRef, LocalOf(layout.global[family.unit]));

  const std::string_view ref_bytes(refs, static_cast<size_t>(about - refs));
  const std::string_view about_bytes(about, static_cast<size_t>(end - about));
  const size_t size = 1 + VarintSize(ref_bytes.size()) + ref_bytes.size() + data.size() + 1 +
                      VarintSize(about_bytes.size()) + about_bytes.size();
  const size_t before = body_.size();
  body_.resize(before + 1 + VarintSize(size) + size);
  char* at = body_.data() + before;
  *at++ = TagOf(kTimeSeries2, kDelimited);
  at = PutVarint(at, size);
  *at++ = TagOf(kLabelRefs, kDelimited);
  at = PutBytes(PutVarint(at, ref_bytes.size()), ref_bytes);
  at = PutBytes(at, data);
  *at++ = TagOf(kMetadata2, kDelimited);
  PutBytes(PutVarint(at, about_bytes.size()), about_bytes);
}

std::string_view RemoteWriteRequest::Finish() {
  if (version_ == RemoteWriteVersion::k1) return body_;
  // Some receivers want the table before what refers to it.
  table_ += body_;
  return table_;
}

namespace {

using namespace remote_write;

// Those that make an exemplar useful come before all others.
constexpr std::array<std::string_view, 2> kFirstLabels = {"trace_id", "span_id"};

uint64_t PrintOf(const Exemplar& exemplar) noexcept {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
  uint64_t print = exemplar.attributes.hash();
  for (uint64_t part : {std::bit_cast<uint64_t>(exemplar.value), static_cast<uint64_t>(exemplar.unix_ns)})
    print = std::rotl((print ^ part) * kSpread, 29);
  return print | 1;  // 0: none was sent
}

size_t LettersOf(std::string_view text) noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void FindNewExemplars(const Frame& frame, const ExemplarSeries& series, SentExemplar& sent,
                      std::vector<NewExemplar>& out) {
  auto before = [](const Exemplar& one, uint32_t cell) { return one.cell < cell; };
  const auto first = std::lower_bound(frame.exemplars.begin(), frame.exemplars.end(), series.cell, before);
  const auto last = std::lower_bound(first, frame.exemplars.end(), series.cell + series.cells, before);
  const size_t begin = out.size();
  for (auto at = first; at != last; ++at) {
    const bool timed = at->unix_ns > 0;
    if (series.cells > 1 && !timed) continue;
    const int64_t ms = timed ? MsOf(at->unix_ns) : series.sample_ms;
    if (ms <= sent.ms || ms > series.sample_ms + kExemplarAheadMs || PrintOf(*at) == sent.print) continue;
    out.push_back({series.line, ms, at->value * series.scale, &*at});
  }
  const auto added = out.begin() + static_cast<std::ptrdiff_t>(begin);
  // Not stable_sort: clang 19 refuses what libstdc++ 12 makes of it.
  std::sort(added, out.end(), [](const NewExemplar& a, const NewExemplar& b) {
    return a.ms != b.ms ? a.ms < b.ms : a.exemplar < b.exemplar;
  });
  out.erase(std::unique(added, out.end(), [](const auto& a, const auto& b) { return a.ms == b.ms; }),
            out.end());
  if (out.size() > begin) sent = {out.back().ms, PrintOf(*out.back().exemplar)};
}

RemoteWriteLabels ExemplarLabels(const AttributeSet& attributes) {
  RemoteWriteLabels labels;
  size_t letters = 0;
  auto is_first = [](std::string_view key) { return std::ranges::count(kFirstLabels, key) != 0; };
  for (bool first : {true, false}) {
    for (auto [key, value] : attributes) {
      if (is_first(key) != first) continue;
      std::string name = RemoteWriteLabelName(key), text;
      AppendValue(text, value);
      const bool known = std::ranges::any_of(labels, [&](const auto& one) { return one.first == name; });
      if (name.empty() || text.empty() || known) continue;
      const size_t more = LettersOf(name) + LettersOf(text);
      if (letters + more > kMostExemplarLetters) continue;
      letters += more;
      labels.emplace_back(std::move(name), std::move(text));
    }
  }
  std::ranges::sort(labels);
  return labels;
}

void AppendExemplar(const NewExemplar& exemplar, RemoteWriteVersion version, RemoteWriteRequest& request,
                    std::string& series) {
  const bool first = version == RemoteWriteVersion::k1;
  protozero::pbf_writer fields(series), out(fields, first ? kExemplars1 : kExemplars2);
  const RemoteWriteLabels labels = ExemplarLabels(exemplar.exemplar->attributes);
  std::vector<uint32_t> refs;
  for (const auto& [name, value] : labels) {
    if (first) {
      protozero::pbf_writer label(out, kExemplarLabels);
      label.add_string(kLabelName, name);
      label.add_string(kLabelValue, value);
    } else {
      refs.push_back(request.SymbolOf(name));
      refs.push_back(request.SymbolOf(value));
    }
  }
  if (!refs.empty()) out.add_packed_uint32(kExemplarLabels, refs.begin(), refs.end());
  out.add_double(kExemplarValue, AsReading(exemplar.value));
  out.add_int64(kExemplarTimestamp, exemplar.ms);
}

namespace {

using namespace remote_write;

// A field as it stands in a message; one of another type is not that field, and must not be read as it.
constexpr uint32_t Bytes(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t Varint(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}
constexpr uint32_t Fixed64(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed64);
}

class Downgrade {
 public:
  explicit Downgrade(std::string& out) : out_(out) {}

  bool Request(std::string_view bytes) {
    // The symbols may stand behind what refers to them.
    protozero::pbf_reader symbols(bytes.data(), bytes.size());
    while (symbols.next(kSymbols, protozero::pbf_wire_type::length_delimited))
      symbols_.push_back(symbols.get_view());
    protozero::pbf_reader all(bytes.data(), bytes.size());
    while (all.next()) {
      if (all.tag_and_type() == Bytes(kTimeSeries2)) {
        if (!Series(all.get_message())) return false;
      } else if (all.tag_and_type() == Bytes(kSymbols)) {
        all.skip();
      } else {
        return false;
      }
    }
    return true;
  }

 private:
  bool Series(protozero::pbf_reader series) {
    body_.clear();
    while (series.next()) {
      switch (series.tag_and_type()) {
        case Bytes(kLabelRefs):
          if (!Labels(series.get_packed_uint32(), body_, kLabels)) return false;
          break;
        case Bytes(kSamples): Sample(series.get_message()); break;
        case Bytes(kHistograms): return false;
        case Bytes(kExemplars2):
          if (!Exemplar(series.get_message())) return false;
          break;
        default: series.skip();
      }
    }
    protozero::pbf_writer(out_).add_message(kTimeSeries1, body_);
    return true;
  }

  // The labels of a series, or of an exemplar: their fields have the same form.
  template <class Refs>
  bool Labels(const Refs& refs, std::string& message, uint32_t field) {
    for (auto at = refs.begin(); at != refs.end(); ++at) {
      const uint32_t name = *at;
      if (++at == refs.end() || name >= symbols_.size() || *at >= symbols_.size()) return false;
      protozero::pbf_writer out(message), label(out, field);
      label.add_string(kLabelName, symbols_[name]);
      label.add_string(kLabelValue, symbols_[*at]);
    }
    return true;
  }

  bool Exemplar(protozero::pbf_reader exemplar) {
    std::string labels;
    double value = 0;
    int64_t ms = 0;
    while (exemplar.next()) {
      switch (exemplar.tag_and_type()) {
        case Bytes(kExemplarLabels):
          if (!Labels(exemplar.get_packed_uint32(), labels, kExemplarLabels)) return false;
          break;
        case Fixed64(kExemplarValue): value = exemplar.get_double(); break;
        case Varint(kExemplarTimestamp): ms = exemplar.get_int64(); break;
        default: exemplar.skip();
      }
    }
    protozero::pbf_writer one(labels);
    one.add_double(kExemplarValue, value);
    one.add_int64(kExemplarTimestamp, ms);
    protozero::pbf_writer(body_).add_message(kExemplars1, labels);
    return true;
  }

  void Sample(protozero::pbf_reader sample) {
    double value = 0;
    int64_t ms = 0;
    while (sample.next()) {
      switch (sample.tag_and_type()) {
        case Fixed64(kValue): value = sample.get_double(); break;
        case Varint(kTimestamp): ms = sample.get_int64(); break;
        default: sample.skip();
      }
    }
    protozero::pbf_writer out(body_), told(out, kSamples);
    told.add_double(kValue, value);
    told.add_int64(kTimestamp, ms);
  }

  std::string& out_;
  std::string body_;
  std::vector<protozero::data_view> symbols_;
};

}  // namespace

bool ToRemoteWrite1(std::string_view request, std::string& out) {
  out.clear();
  try {
    if (Downgrade(out).Request(request)) return true;
  } catch (const protozero::exception&) {
    return out.clear(), false;
  }
  return out.clear(), false;
}

}  // namespace gpulens
