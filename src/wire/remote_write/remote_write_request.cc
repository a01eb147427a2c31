#include "wire/remote_write/remote_write_request.h"

#include <snappy-c.h>
#include <algorithm>
#include <array>
#include <bit>
#include <protozero/pbf_writer.hpp>

#include "wire/otlp/proto_cursor.h"
#include "wire/per_layout.h"
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
    AppendLabel(scratch_, kLabels, layout.Symbol(layout.refs[i]), layout.Symbol(layout.refs[i + 1]));
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

// Labels that make an exemplar useful come before all others.
constexpr std::array<std::string_view, 2> kFirstLabels = {"trace_id", "span_id"};

uint64_t PrintOf(const Exemplar& exemplar) noexcept {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
  uint64_t print = exemplar.attributes.hash();
  for (uint64_t part : {std::bit_cast<uint64_t>(exemplar.value), static_cast<uint64_t>(exemplar.unix_ns)})
    print = std::rotl((print ^ part) * kSpread, 29);
  return print | 1;  // 0: none was sent
}

}  // namespace

void FindNewExemplars(const Frame& frame, const ExemplarSeries& series, SentExemplar& sent,
                      std::vector<NewExemplar>& out) {
  const size_t begin = out.size();
  for (const Exemplar& one : ExemplarsOf(frame, series.cell, series.cells)) {
    const bool timed = one.unix_ns > 0;
    if (series.cells > 1 && !timed) continue;
    const int64_t ms = timed ? MsOf(one.unix_ns) : series.sample_ms;
    if (ms <= sent.ms || ms > series.sample_ms + kExemplarAheadMs || PrintOf(one) == sent.print) continue;
    out.push_back({series.line, ms, one.value * series.scale, &one});
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
      const size_t more = Characters(name) + Characters(text);
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
  std::string message;
  protozero::pbf_writer out(message);
  std::vector<uint32_t> refs;
  for (const auto& [name, value] : ExemplarLabels(exemplar.exemplar->attributes)) {
    if (first) AppendLabel(message, kExemplarLabels, name, value);
    else refs.insert(refs.end(), {request.SymbolOf(name), request.SymbolOf(value)});
  }
  if (!refs.empty()) out.add_packed_uint32(kExemplarLabels, refs.begin(), refs.end());
  out.add_double(kExemplarValue, AsReading(exemplar.value));
  out.add_int64(kExemplarTimestamp, exemplar.ms);
  protozero::pbf_writer(series).add_message(first ? kExemplars1 : kExemplars2, message);
}

void SnappyPack(std::string_view bytes, std::string& out) {
  size_t size = snappy_max_compressed_length(bytes.size());
  out.resize(size);
  if (snappy_compress(bytes.data(), bytes.size(), out.data(), &size) != SNAPPY_OK) size = 0;
  out.resize(size);
}

size_t SnappyLength(std::string_view block) noexcept {
  size_t size = 0;
  return snappy_uncompressed_length(block.data(), block.size(), &size) == SNAPPY_OK ? size : 0;
}

bool SnappyUnpack(std::string_view block, size_t limit, std::string& out) {
  out.clear();
  size_t size = 0;
  // The length comes first, whatever follows: the block is validated before memory is allocated.
  if (snappy_uncompressed_length(block.data(), block.size(), &size) != SNAPPY_OK || size > limit ||
      snappy_validate_compressed_buffer(block.data(), block.size()) != SNAPPY_OK)
    return false;
  out.resize(size);
  if (snappy_uncompress(block.data(), block.size(), out.data(), &size) == SNAPPY_OK) return true;
  out.clear();
  return false;
}

}  // namespace gpulens
