#include "wire/split/remote_write_splitter.h"

#include <algorithm>

#include "base/hash.h"
#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {

using split::SplitRouter;
using namespace remote_write;

namespace {

constexpr std::string_view kNoSymbol = "a reference to a symbol that does not exist";
constexpr std::string_view kOddRefs = "the label references of a series are not pairs";

void AppendTag(std::string& out, uint32_t number, WireType wire) {
  AppendVarint(out, number << 3 | static_cast<uint32_t>(wire));
}

void AppendMessage(std::string& out, uint32_t number, std::string_view content) {
  AppendTag(out, number, WireType::kBytes);
  AppendVarint(out, content.size());
  out += content;
}

}  // namespace

bool RemoteWriteSplitter::IsMessage(const ProtoField& field) {
  return field.wire == WireType::kBytes ||
         router_.Fail(Code::kDataLoss, "a field has a wire type other than that of remote write");
}

// Calls `take(ref)` for each reference of a repeated field, packed or not, while it returns true.
template <class Take>
bool RemoteWriteSplitter::ForEachRef(const ProtoField& refs, Take&& take) {
  if (refs.wire == WireType::kVarint) return take(refs.value);
  if (!IsMessage(refs)) return false;
  ProtoCursor cursor(refs.bytes);
  for (uint64_t ref = 0; !cursor.at_end();) {
    if (!cursor.Varint(ref)) return router_.FailMalformed();
    if (!take(ref)) return false;
  }
  return true;
}

Status RemoteWriteSplitter::Split(RemoteWriteVersion version, std::string_view request, const SplitRule& rule,
                                  std::vector<SplitPart>& out, uint32_t& left_out) {
  version_ = version;
  rule_ = &rule;
  metadata_ = false;
  symbols_.clear();
  series_.clear();
  plan_.clear();
  others_.clear();
  bool good = router_.Begin(rule, request, out) && Plan(request);
  if (good && series_.empty() && metadata_) {
    router_.DropFrom(0);
    good = router_.Route(0, 0, plan_.emplace_back());
  }
  if (good && router_.parts() != 0) {
    const bool whole = std::ranges::all_of(plan_, [](uint32_t part) { return part == 0; });
    if (whole) router_.part(0).body = request;
    else Write();
  }
  return router_.Finish(left_out);
}

bool RemoteWriteSplitter::Plan(std::string_view request) {
  const bool first = version_ == RemoteWriteVersion::k1;
  const uint32_t series = first ? uint32_t{kTimeSeries1} : uint32_t{kTimeSeries2};
  if (!first && !ReadSymbols(request)) return false;
  return router_.ForEachField(request, [&](const ProtoField& field) {
    if (field.number == series) return PlanSeries(field);
    return (!first && field.number == kSymbols) || AddOther(field);
  });
}

// Symbols may follow the series that refer to them.
bool RemoteWriteSplitter::ReadSymbols(std::string_view request) {
  return router_.ForEachField(request, [&](const ProtoField& field) {
    if (field.number != kSymbols) return true;
    if (!IsMessage(field) || !router_.HasRoom(symbols_.size(), "symbols")) return false;
    symbols_.push_back(field.bytes);
    return true;
  });
}

bool RemoteWriteSplitter::AddOther(const ProtoField& field) {
  metadata_ = metadata_ || (version_ == RemoteWriteVersion::k1 && field.number == kMetadata1);
  if (!others_.empty()) {
    Other& last = others_.back();
    if (last.whole.data() + last.whole.size() == field.whole.data()) {
      last.whole = {last.whole.data(), last.whole.size() + field.whole.size()};
      return true;
    }
    if (!router_.HasRoom(others_.size(), "fields between series")) return false;
  }
  others_.push_back({field.whole, series_.size()});
  return true;
}

bool RemoteWriteSplitter::PlanSeries(const ProtoField& series) {
  if (!IsMessage(series) || !router_.HasRoom(series_.size(), "series")) return false;
  router_.DropFrom(0);
  uint32_t items = 0;
  uint64_t hash = 0;
  const bool all_alike = rule_->by.empty() && rule_->where.empty() && rule_->hash == SplitHash::kNone;
  if (!Count(series.bytes, items) || (!all_alike && !ReadLabels(series.bytes, hash))) return false;
  uint32_t part = SplitRouter::kNoPart;
  if (router_.Choose(true) == SplitRouter::Choice::kLeaveOut) router_.LeaveOut(items);
  else if (!router_.Route(hash, items, part)) return false;
  series_.push_back(series.whole);
  plan_.push_back(part);
  return true;
}

bool RemoteWriteSplitter::Count(std::string_view series, uint32_t& items) {
  const uint32_t histograms =
      version_ == RemoteWriteVersion::k1 ? uint32_t{kHistograms1} : uint32_t{kHistograms};
  return router_.ForEachField(series, [&](const ProtoField& field) {
    items += field.wire == WireType::kBytes && (field.number == kSamples || field.number == histograms);
    return true;
  });
}

bool RemoteWriteSplitter::ReadLabels(std::string_view series, uint64_t& hash) {
  uint64_t sum = 0;
  half_ = false;
  const bool read = router_.ForEachField(series, [&](const ProtoField& field) {
    if (field.number != kLabels) return true;
    if (version_ == RemoteWriteVersion::k2) return ReadRefs(field, sum);
    return IsMessage(field) && ReadLabel(field.bytes, sum);
  });
  if (!read) return false;
  if (half_) return router_.Fail(Code::kDataLoss, kOddRefs);
  if (rule_->hash != SplitHash::kNone) hash = MixBits(sum);
  return true;
}

bool RemoteWriteSplitter::ReadLabel(std::string_view label, uint64_t& sum) {
  std::string_view name, value;
  const bool read = router_.ForEachField(label, [&](const ProtoField& field) {
    if (field.number != kLabelName && field.number != kLabelValue) return true;
    (field.number == kLabelName ? name : value) = field.bytes;
    return IsMessage(field);
  });
  if (read) TakeLabel(name, value, sum);
  return read;
}

bool RemoteWriteSplitter::ReadRefs(const ProtoField& refs, uint64_t& sum) {
  return ForEachRef(refs, [&](uint64_t ref) {
    if (ref >= symbols_.size()) return router_.Fail(Code::kDataLoss, kNoSymbol);
    if (half_) TakeLabel(name_, symbols_[ref], sum);
    else name_ = symbols_[ref];
    half_ = !half_;
    return true;
  });
}

void RemoteWriteSplitter::TakeLabel(std::string_view name, std::string_view value, uint64_t& sum) {
  if (value.empty()) return;
  const bool hashed = rule_->hash == SplitHash::kSeries ||
                      (rule_->hash != SplitHash::kNone && (name == "job" || name == "instance"));
  if (hashed) sum += PairHash(name, value);
  router_.TakeLabel(name, value);
}

bool RemoteWriteSplitter::Write() {
  GroupByPart();
  writers_.assign(symbols_.size(), 0);
  numbers_.resize(symbols_.size());
  for (uint32_t part = 0; part < router_.parts(); ++part)
    if (!WritePart(part, begins_[part], begins_[part + 1])) return false;
  return true;
}

// Counting sort, which keeps the order of the series of a part.
void RemoteWriteSplitter::GroupByPart() {
  begins_.assign(router_.parts() + 2, 0);
  for (uint32_t part : plan_)
    if (part != SplitRouter::kNoPart) ++begins_[part + 2];
  for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  order_.resize(begins_.back());
  for (uint32_t i = 0; i < plan_.size(); ++i)
    if (plan_[i] != SplitRouter::kNoPart) order_[begins_[plan_[i] + 1]++] = i;
}

bool RemoteWriteSplitter::WritePart(uint32_t part, size_t begin, size_t end) {
  const bool second = version_ == RemoteWriteVersion::k2;
  part_ = part;
  next_number_ = 0;
  rest_.clear();
  if (second) {
    // The specification requires the empty text as symbol 0.
    std::string empty;
    AppendMessage(empty, kSymbols, {});
    if (!router_.Append(part, empty)) return false;
    next_number_ = 1;
  }
  // Symbols come first in a part of 2.0 but are known only after its series were written.
  const auto append = [&](std::string_view bytes) {
    if (!router_.Spend(bytes.size())) return false;
    (second ? rest_ : router_.part(part).body) += bytes;
    return true;
  };
  auto other = others_.begin();
  for (size_t at = begin; at <= end; ++at) {
    const size_t before = at < end ? order_[at] : series_.size();
    for (; other != others_.end() && other->series <= before; ++other)
      if (!append(other->whole)) return false;
    if (at == end) break;
    if (!second) {
      if (!append(series_[order_[at]])) return false;
      continue;
    }
    ProtoField field;
    ProtoCursor cursor(series_[order_[at]]);
    cursor.Next(field);
    series_out_.clear();
    if (!Rewrite(Shape::kSeries, field.bytes, series_out_)) return false;
    message_out_.clear();
    AppendMessage(message_out_, kTimeSeries2, series_out_);
    if (!append(message_out_)) return false;
  }
  router_.part(part).body += rest_;
  return true;
}

bool RemoteWriteSplitter::Rewrite(Shape shape, std::string_view message, std::string& out) {
  return router_.ForEachField(message, [&](const ProtoField& field) {
    const bool labels = shape != Shape::kMetadata && field.number == kLabelRefs;
    const bool text = shape == Shape::kMetadata && (field.number == kHelpRef || field.number == kUnitRef);
    const bool exemplar = shape == Shape::kSeries && field.number == kExemplars2;
    const bool metadata = shape == Shape::kSeries && field.number == kMetadata2;
    if (labels || text) return RewriteRefs(field, out);
    if (exemplar || metadata) {
      message_out_.clear();
      if (!IsMessage(field)) return false;
      if (!Rewrite(exemplar ? Shape::kExemplar : Shape::kMetadata, field.bytes, message_out_)) return false;
      AppendMessage(out, field.number, message_out_);
    } else {
      out += field.whole;
    }
    return true;
  });
}

bool RemoteWriteSplitter::RewriteRefs(const ProtoField& field, std::string& out) {
  refs_out_.clear();
  const bool read = ForEachRef(field, [&](uint64_t ref) {
    uint64_t number = 0;
    if (!Remap(ref, number)) return false;
    AppendVarint(refs_out_, number);
    return true;
  });
  if (read && field.wire == WireType::kBytes) {
    AppendMessage(out, field.number, refs_out_);
  } else if (read) {
    AppendTag(out, field.number, WireType::kVarint);
    out += refs_out_;
  }
  return read;
}

bool RemoteWriteSplitter::Remap(uint64_t symbol, uint64_t& out) {
  if (symbol >= symbols_.size()) return router_.Fail(Code::kDataLoss, kNoSymbol);
  if (writers_[symbol] != part_ + 1) {
    writers_[symbol] = part_ + 1;
    numbers_[symbol] = 0;
    if (!symbols_[symbol].empty()) {
      numbers_[symbol] = next_number_++;
      symbol_out_.clear();
      AppendMessage(symbol_out_, kSymbols, symbols_[symbol]);
      if (!router_.Append(part_, symbol_out_)) return false;
    }
  }
  out = numbers_[symbol];
  return true;
}

}  // namespace gpulens
