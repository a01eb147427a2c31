#include "wire/otlp/otlp_batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {
namespace {

void AppendTag(std::string& out, uint32_t number) {
  AppendVarint(out, number << 3 | static_cast<uint32_t>(WireType::kBytes));
}

}  // namespace

OtlpBatch::OtlpBatch(OtlpSignal signal, Limits limits, Emit emit)
    : signal_(signal), limits_(limits), emit_(std::move(emit)) {}

void OtlpBatch::Add(const OtlpScan& scan, OtlpEnricher* enricher) {
  CHECK(scan.signal == signal_);
  scan_ = &scan;
  enricher_ = enricher;
  next_removed_ = 0;
  ProtoCursor cursor(scan.request);
  ProtoField field;
  for (size_t i = 0; cursor.Next(field);) {
    if (field.number != otlp::kResourceList) out_ += field.whole;
    else AddResource(field, scan.resources[i++]);
  }
  if (MustCut()) Cut();
  scan_ = nullptr;
  enricher_ = nullptr;
}

void OtlpBatch::Flush() {
  if (!out_.empty()) Cut();
}

void OtlpBatch::AddResource(const ProtoField& list, const OtlpScan::Resource& scanned) {
  if (scanned.removed) return;
  own_ = scanned.own && enricher_;
  new_resource_.clear();
  if (enricher_) ReadResource(list.bytes);
  const bool small = scanned.items <= limits_.items && list.whole.size() <= limits_.bytes;
  if (!scanned.whole || own_ || !small) {
    WalkScopes(list);
    return;
  }
  const bool fits =
      items_ + scanned.items <= limits_.items && out_.size() + list.whole.size() <= limits_.bytes;
  if (!fits && !out_.empty()) Cut();
  CopyWhole(list);
  items_ += scanned.items;
}

// Finds the Resource, who it is, and how it is sent.
void OtlpBatch::ReadResource(std::string_view list) {
  identity_ = {};
  keys_.clear();
  resource_ = {};
  resource_field_ = nullptr;
  ProtoCursor cursor(list);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != otlp::kResource) continue;
    resource_ = field.bytes;
    resource_field_ = field.whole.data();
    ProtoCursor inner(field.bytes);
    for (ProtoField pair; inner.Next(pair);) {
      if (pair.number != otlp::kResourceAttributes) continue;
      keys_.push_back(KeyOf(pair.bytes));
      TakeIdentity(pair.bytes, identity_);
    }
  }
  Choose(enricher_->OfResource(identity_));
  if (extra_.empty()) return;
  AppendTag(new_resource_, otlp::kResource);
  const size_t size = SplicedSize(resource_, otlp::kResourceAttributes);
  AppendVarint(new_resource_, size);
  out_.swap(new_resource_);
  AppendSpliced(0, resource_, otlp::kResourceAttributes);
  out_.swap(new_resource_);
}

void OtlpBatch::CopyWhole(const ProtoField& list) {
  if (new_resource_.empty()) {
    out_ += list.whole;
    return;
  }
  std::string_view before, after = list.bytes;
  if (resource_field_) {
    const char* const end = resource_.data() + resource_.size();
    before = {list.bytes.data(), static_cast<size_t>(resource_field_ - list.bytes.data())};
    after = {end, static_cast<size_t>(list.bytes.data() + list.bytes.size() - end)};
  }
  AppendTag(out_, otlp::kResourceList);
  AppendVarint(out_, before.size() + new_resource_.size() + after.size());
  out_ += before;
  out_ += new_resource_;
  out_ += after;
}

// Enters a message and calls `walk(field)` for each field that leads to items. A message without such a field
// is written as it is.
template <class Walk>
void OtlpBatch::WalkLevel(size_t level, const ProtoField& message, Walk&& walk) {
  path_[level] = {message.number, message.bytes, 0};
  bool any = false;
  ProtoCursor cursor(message.bytes);
  for (ProtoField field; cursor.Next(field);) {
    if (!IsWalked(level, field.number)) continue;
    any = true;
    walk(field);
  }
  if (!any) Open(level);
  CloseFrom(level);
}

void OtlpBatch::WalkScopes(const ProtoField& list) {
  WalkLevel(kResource, list, [this](const ProtoField& scope) {
    if (TakeRemoved(scope)) return;
    WalkLevel(kScope, scope, [this](const ProtoField& item) {
      if (TakeRemoved(item)) return;
      if (signal_ == OtlpSignal::kMetrics) WalkMetric(item);
      else WriteItem(kScope, otlp::ItemShape(signal_), item);
    });
  });
}

void OtlpBatch::WalkMetric(const ProtoField& metric) {
  WalkLevel(kMetric, metric, [this](const ProtoField& data) {
    WalkLevel(kData, data, [&](const ProtoField& point) {
      if (!TakeRemoved(point)) WriteItem(kData, otlp::PointShape(data.number), point);
    });
  });
}

void OtlpBatch::WriteItem(size_t below, OtlpMessage shape, const ProtoField& item) {
  if (MustCut()) Cut();
  Open(below);
  ++items_;
  if (!own_) {
    out_ += item.whole;
    return;
  }
  const uint32_t attributes = otlp::FieldsOf(shape).attributes;
  OtlpIdentity identity;
  keys_.clear();
  ProtoCursor cursor(item.bytes);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != attributes) continue;
    const std::string_view usual = otlp::UsualPair(field.bytes);
    keys_.push_back(usual.empty() ? KeyOf(field.bytes) : usual);
    if (IsIdentityKey(keys_.back())) TakeIdentity(field.bytes, identity);
  }
  Choose(identity == OtlpIdentity{} ? nullptr : enricher_->OfItem(identity_, identity));
  if (extra_.empty()) out_ += item.whole;
  else AppendSpliced(item.number, item.bytes, attributes);
}

bool OtlpBatch::TakeRemoved(const ProtoField& message) {
  const auto at = static_cast<size_t>(message.whole.data() - scan_->request.data());
  if (next_removed_ == scan_->removed.size() || scan_->removed[next_removed_] != at) return false;
  ++next_removed_;
  return true;
}

void OtlpBatch::Open(size_t level) {
  Step& step = path_[level];
  if (step.length_at != 0) return;
  if (level > 0) Open(level - 1);
  step.length_at = otlp::Nesting(out_).Open(step.number);
  WriteHead(level);
}

void OtlpBatch::CloseFrom(size_t level) {
  for (size_t i = level; i < kLevels; ++i) {
    Step& step = path_[i];
    if (step.length_at == 0) continue;
    CHECK(out_.size() - step.length_at <= otlp::Nesting::kMost);
    otlp::Nesting(out_).Close(step.length_at);
    step.length_at = 0;
  }
}

// Writes the fields that are not walked.
void OtlpBatch::WriteHead(size_t level) {
  const bool own_resource = level == kResource && !new_resource_.empty();
  if (own_resource && !resource_field_) out_ += new_resource_;
  ProtoCursor cursor(path_[level].bytes);
  for (ProtoField field; cursor.Next(field);) {
    if (IsWalked(level, field.number)) continue;
    if (own_resource && field.whole.data() == resource_field_) out_ += new_resource_;
    else out_ += field.whole;
  }
}

void OtlpBatch::Cut() {
  CloseFrom(kResource);
  const size_t size = out_.size();
  emit_(std::exchange(out_, {}), std::exchange(items_, 0));
  out_.reserve(std::min(size, limits_.bytes));
}

void OtlpBatch::Choose(const OtlpAddition* addition) {
  extra_.clear();
  replaced_.clear();
  extra_bytes_ = 0;
  for (size_t i = 0; addition && i < addition->size(); ++i) {
    const std::string_view key = addition->key(i);
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
      if (!addition->replaces(i)) continue;
      replaced_.push_back(key);
    }
    extra_.push_back(addition->field(i));
    extra_bytes_ += extra_.back().size();
  }
}

// The size of what AppendSpliced writes of its content; what is replaced is left out in kept_.
size_t OtlpBatch::SplicedSize(std::string_view message, uint32_t attributes) {
  const size_t added = extra_bytes_ + extra_.size();  // each with a tag of one byte
  if (replaced_.empty()) return message.size() + added;
  kept_.clear();
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    const bool out = field.number == attributes &&
                     std::find(replaced_.begin(), replaced_.end(), KeyOf(field.bytes)) != replaced_.end();
    if (!out) kept_ += field.whole;
  }
  return kept_.size() + added;
}

// Number 0: the content alone, whose length was written.
void OtlpBatch::AppendSpliced(uint32_t number, std::string_view message, uint32_t attributes) {
  const size_t size = SplicedSize(message, attributes);
  if (number != 0) {
    AppendTag(out_, number);
    AppendVarint(out_, size);
  }
  out_ += replaced_.empty() ? message : std::string_view(kept_);
  for (std::string_view field : extra_) {
    out_ += static_cast<char>(attributes << 3 | static_cast<uint32_t>(WireType::kBytes));
    out_ += field;
  }
}

void OtlpAddition::Add(const AttributeSet& attributes, bool replaces) {
  std::string encoded;
  for (const auto& [key, value] : attributes) {
    bool known = false;
    for (size_t i = 0; i < size() && !known; ++i) known = this->key(i) == key;
    if (known) continue;
    encoded.clear();
    otlp::AppendAttribute(encoded, 1, key, value);
    bytes_ += key;
    bytes_.append(encoded, 1);  // a tag of one byte, which is another in each message
    ends_.push_back({static_cast<uint32_t>(key.size()), static_cast<uint32_t>(bytes_.size()), replaces});
  }
}

}  // namespace gpulens
