#include "wire/remote_write/series_batch.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/hash.h"

namespace gpulens::remote_write {

using namespace remote_write;

namespace {

// Bytes that a field costs beside its text, at most: a tag and a length, or a reference and a symbol's head.
constexpr size_t kPerText = 12, kPerSeries = 64;
// What is collected before it is written, so that a request of OTLP never needs more memory than this.
constexpr size_t kMostData = size_t{4} << 20, kMostTexts = size_t{8} << 20, kMostRefs = size_t{1} << 20;
constexpr uint64_t kMostCost = uint64_t{16} << 20;

size_t CostOf(const Labels& labels) noexcept {
  size_t cost = 0;
  for (const Label& label : labels) cost += label.name.size() + label.value.size() + 2 * kPerText;
  return cost;
}

}  // namespace

void SeriesBatch::Begin(RemoteWriteVersion version, const Take& take) {
  version_ = version;
  take_ = &take;
  bytes_ = 0;
  Clear();
}

void SeriesBatch::Clear() {
  layout_.text.clear();
  layout_.symbols.clear();
  layout_.refs.clear();
  layout_.lines.clear();
  layout_.families.clear();
  parts_.clear();
  exemplars_.clear();
  data_.clear();
  metadata_.clear();
  metadata_ends_.clear();
  in_request_ = 0;
  cost_ = 0;
  open_ = false;
  // Slots of rounds long past could count as filled.
  if (++round_ == 0) slots_.clear(), round_ = 1;
}

bool SeriesBatch::full() const noexcept {
  return data_.size() > kMostData || layout_.text.size() > kMostTexts || layout_.refs.size() > kMostRefs ||
         metadata_.size() > kMostData || cost_ > kMostCost;
}

uint32_t SeriesBatch::Intern(std::string_view text) {
  if (slots_.size() < 2 * (layout_.symbols.size() + 1)) Grow();
  const uint64_t hash = HashBytes(text, 0, ProcessHashKey());
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.round != round_) {
      slot = {hash, round_, static_cast<uint32_t>(layout_.symbols.size())};
      layout_.symbols.push_back(
          {static_cast<uint32_t>(layout_.text.size()), static_cast<uint32_t>(text.size())});
      layout_.text += text;
      return slot.symbol;
    }
    if (slot.hash == hash && layout_.Symbol(slot.symbol) == text) return slot.symbol;
  }
}

void SeriesBatch::Grow() {
  std::vector<Slot> before(std::max<size_t>(1024, 2 * slots_.size()));
  before.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.round != round_) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].round == round_) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

size_t SeriesBatch::AppendRefs(const Labels& labels) {
  const size_t first = layout_.refs.size();
  for (const Label& label : labels) {
    layout_.refs.push_back(Intern(label.name));
    layout_.refs.push_back(Intern(label.value));
  }
  return first;
}

uint32_t SeriesBatch::FamilyOf(const About& about) {
  const uint32_t help = Intern(about.help), unit = Intern(about.unit);
  if (!layout_.families.empty()) {
    const RemoteWriteFamily& last = layout_.families.back();
    if (last.type == about.type && last.help == help && last.unit == unit)
      return static_cast<uint32_t>(layout_.families.size() - 1);
  }
  layout_.families.push_back({.help = help, .unit = unit, .type = about.type});
  return static_cast<uint32_t>(layout_.families.size() - 1);
}

bool SeriesBatch::Add(const About& about, const Labels& labels, std::string_view data, uint32_t samples) {
  size_t cost = CostOf(labels) + data.size() + kPerSeries;
  if (version_ == RemoteWriteVersion::k2) cost += about.help.size() + about.unit.size();
  if (cost > limits_.bytes) return false;
  cost_ += cost;
  // Requests of 1.0 have no place for it.
  const uint32_t family = version_ == RemoteWriteVersion::k2 ? FamilyOf(about) : FamilyOf({});
  const auto first = static_cast<uint32_t>(AppendRefs(labels));
  const auto refs = static_cast<uint32_t>(layout_.refs.size() - first);
  if (!layout_.lines.empty()) {
    // The same series as before: one more sample of it.
    const RemoteWriteLine& last = layout_.lines.back();
    Part& part = parts_.back();
    const auto begin = layout_.refs.begin();
    if (last.family == family && last.refs == refs && part.samples + samples <= limits_.samples &&
        part.cost + data.size() <= limits_.bytes &&
        std::equal(begin + last.first_ref, begin + last.first_ref + refs, begin + first)) {
      layout_.refs.resize(first);
      data_ += data;
      part.data_end = data_.size();
      part.cost += data.size();
      part.samples += samples;
      return true;
    }
  }
  layout_.lines.push_back({.family = family, .first_ref = first, .refs = refs});
  data_ += data;
  parts_.push_back({data_.size(), cost, samples, static_cast<uint32_t>(exemplars_.size())});
  return true;
}

bool SeriesBatch::AddExemplar(const Labels& labels, double value, int64_t ms) {
  const size_t cost = CostOf(labels) + kPerSeries;
  Part& part = parts_.back();
  if (part.cost + cost > limits_.bytes) return false;
  const size_t first = AppendRefs(labels);
  exemplars_.push_back(
      {value, ms, static_cast<uint32_t>(first), static_cast<uint32_t>(layout_.refs.size() - first)});
  part.cost += cost;
  cost_ += cost;
  part.exemplars_end = static_cast<uint32_t>(exemplars_.size());
  return true;
}

bool SeriesBatch::AddMetadata(std::string_view message) {
  if (message.size() + kPerText > limits_.bytes) return false;
  protozero::pbf_writer(metadata_).add_message(kMetadata1, message.data(), message.size());
  metadata_ends_.push_back(metadata_.size());
  return true;
}

void SeriesBatch::WriteExemplar(const Exemplar& exemplar) {
  message_.clear();
  protozero::pbf_writer writer(message_);
  const auto* refs = layout_.refs.data() + exemplar.first_ref;
  if (version_ == RemoteWriteVersion::k1) {
    for (uint32_t i = 0; i < exemplar.refs; i += 2)
      AppendLabel(message_, kExemplarLabels, layout_.Symbol(refs[i]), layout_.Symbol(refs[i + 1]));
  } else if (exemplar.refs != 0) {
    protozero::packed_field_uint32 packed(writer, kExemplarLabels);
    for (uint32_t i = 0; i < exemplar.refs; ++i) packed.add_element(request_.NumberOf(layout_, refs[i]));
  }
  writer.add_double(kExemplarValue, exemplar.value);
  writer.add_int64(kExemplarTimestamp, exemplar.ms);
  const uint32_t field = remote_write::NumbersOf(version_).exemplars;
  protozero::pbf_writer(series_).add_message(field, message_);
}

Status SeriesBatch::Hand() {
  if (!open_) return Ok();
  open_ = false;
  const std::string_view request = request_.Finish();
  bytes_ += request.size();
  return (*take_)(request, std::exchange(in_request_, 0));
}

Status SeriesBatch::Drain() {
  symbols_.Clear();
  symbols_.Add(layout_);
  const auto make_room = [this](size_t cost, uint32_t samples) {
    const bool fits = request_.bytes() + cost <= limits_.bytes && in_request_ + samples <= limits_.samples;
    if (open_ && !fits)
      if (Status handed = Hand(); !handed.ok()) return handed;
    if (!open_) request_.Begin(version_);
    open_ = true;
    return Ok();
  };
  Status status;
  size_t begin = 0;
  uint32_t exemplar = 0;
  for (size_t i = 0; i < parts_.size() && status.ok(); ++i) {
    const Part& part = parts_[i];
    status = make_room(part.cost, part.samples);
    if (!status.ok()) break;
    std::string_view data = std::string_view(data_).substr(begin, part.data_end - begin);
    if (exemplar != part.exemplars_end) {
      series_ = data;
      for (; exemplar < part.exemplars_end; ++exemplar) WriteExemplar(exemplars_[exemplar]);
      data = series_;
    }
    request_.AppendSeries(layout_, layout_.lines[i], data);
    in_request_ += part.samples;
    begin = part.data_end;
  }
  begin = 0;
  for (size_t i = 0; i < metadata_ends_.size() && status.ok(); begin = metadata_ends_[i++]) {
    const std::string_view field = std::string_view(metadata_).substr(begin, metadata_ends_[i] - begin);
    status = make_room(field.size(), 0);
    if (status.ok()) request_.AppendFields(field, 0);
  }
  if (status.ok()) status = Hand();
  Clear();
  return status;
}

}  // namespace gpulens::remote_write
