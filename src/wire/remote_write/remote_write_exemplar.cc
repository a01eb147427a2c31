#include "wire/remote_write/remote_write_exemplar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <protozero/pbf_writer.hpp>

namespace gpulens {
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

}  // namespace gpulens
