// What of a snapshot is told, and in which words: settled anew when layouts or the resource change.
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/result.h"
#include "wire/remote_write/remote_write.h"

namespace gpulens {

using namespace remote_write;

const RemoteWrite::Layouts& RemoteWrite::TextOf(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) {
    const bool arena = options_.version == RemoteWriteVersion::k1;
    return std::make_shared<RemoteWriteLayout>(NameRemoteWrite(
        one, namer_, {arena, !arena && options_.native_histograms, labels_, options_.target_up}));
  });
}

bool RemoteWrite::PlanFits(const Snapshot& snapshot) const noexcept {
  if (!resource_ || plan_.size() != snapshot.frames.size() || !(*resource_ == snapshot.resource))
    return false;
  for (size_t i = 0; i < plan_.size(); ++i) {
    if (plan_[i].layout != snapshot.frames[i].frame->layout->id()) return false;
  }
  return true;
}

void RemoteWrite::Plan(const Snapshot& snapshot) {
  if (!resource_ || !(*resource_ == snapshot.resource)) {
    resource_ = snapshot.resource;
    labels_ = options_.labels ? options_.labels(*resource_) : RemoteWriteLabels();
    texts_ = {};
  }
  if (namer_.Refresh(snapshot)) texts_ = {};
  plan_.clear();
  ++plan_number_;
  ForgetFormer(snapshot.closed_at);
  symbols_.Clear();
  reported_keys_.clear();
  reported_keys_known_ = false;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Ref<const Layout>& layout = entry.frame->layout;
    plan_.push_back({layout->id(), TextOf(layout), {}});
    symbols_.Add(*plan_.back().text);
  }
  DropDuplicates(snapshot);
  PlanMetadata();
}

// Equal for equal series, whichever layouts they are of, until the next plan.
std::string RemoteWrite::KeyOf(const RemoteWriteLayout& text, const RemoteWriteLine& line) const {
  std::string key;
  key.reserve(4 * line.refs);
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; ++i) {
    const uint32_t symbol = text.global[text.refs[i]];
    key.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  }
  return key;
}

// Of equal series the native one is told, and of equals the earlier: a receiver refuses a request that gives
// one series two values. Only names that two frames have are looked at.
void RemoteWrite::DropDuplicates(const Snapshot& snapshot) {
  duplicates_ = 0;
  std::vector<uint32_t> frames_with(symbols_.size()), last(symbols_.size(), UINT32_MAX);
  for (uint32_t i = 0; i < plan_.size(); ++i) {
    const RemoteWriteLayout& text = *plan_[i].text;
    for (const RemoteWriteLine& line : text.lines) {
      const uint32_t name = text.global[line.name];
      if (std::exchange(last[name], i) != i) ++frames_with[name];
    }
  }
  std::unordered_set<std::string> seen;
  for (Precedence precedence : {Precedence::kNative, Precedence::kPassThrough}) {
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (snapshot.frames[i].precedence != precedence) continue;
      const RemoteWriteLayout& text = *plan_[i].text;
      for (size_t l = 0; l < text.lines.size(); ++l) {
        const RemoteWriteLine& line = text.lines[l];
        if (frames_with[text.global[line.name]] < 2 || seen.insert(KeyOf(text, line)).second) continue;
        plan_[i].dropped.resize(text.lines.size());
        plan_[i].dropped[l] = 1;
        ++duplicates_;
      }
    }
  }
}

void RemoteWrite::PlanMetadata() {
  std::string fields, body;
  std::vector<size_t> ends;
  std::unordered_set<std::string_view> told;
  for (const Planned& planned : plan_) {
    if (options_.version != RemoteWriteVersion::k1) break;
    const RemoteWriteLayout& text = *planned.text;
    for (const RemoteWriteFamily& family : text.families) {
      const std::string_view name = text.Symbol(family.name), help = text.Symbol(family.help),
                             unit = text.Symbol(family.unit);
      if (!told.insert(name).second) continue;
      body.clear();
      protozero::pbf_writer one(body);
      if (family.type != Type::kUnknown) one.add_enum(kType1, static_cast<int32_t>(family.type));
      one.add_string(kFamilyName, name.data(), name.size());
      if (!help.empty()) one.add_string(kHelp, help.data(), help.size());
      if (!unit.empty()) one.add_string(kUnit, unit.data(), unit.size());
      protozero::pbf_writer(fields).add_message(kMetadata1, body);
      ends.push_back(fields.size());
    }
  }
  if (fields == metadata_) return;
  metadata_ = std::move(fields);
  metadata_ends_ = std::move(ends);
  metadata_boot_ns_.reset();
}

Status RemoteWrite::ReportMetadata(Instant now) {
  const bool due =
      !metadata_boot_ns_ || now.boot_ns - *metadata_boot_ns_ >= options_.metadata_interval.count();
  if (!due || metadata_.empty()) return Ok();
  size_t begin = 0, end = 0;
  for (size_t next : metadata_ends_) {
    if (end != begin && next - begin > options_.max_bytes) {
      RETURN_IF_ERROR((*take_)(std::string_view(metadata_).substr(begin, end - begin), 0));
      begin = end;
    }
    end = next;
  }
  RETURN_IF_ERROR((*take_)(std::string_view(metadata_).substr(begin), 0));
  metadata_boot_ns_ = now.boot_ns;
  return Ok();
}

bool RemoteWrite::ReportedElsewhere(const std::string& key) {
  if (!std::exchange(reported_keys_known_, true)) {
    for (const Planned& planned : plan_) {
      for (size_t l = 0; l < planned.text->lines.size(); ++l) {
        if (!planned.IsDropped(l)) reported_keys_.insert(KeyOf(*planned.text, planned.text->lines[l]));
      }
    }
  }
  return reported_keys_.contains(key);
}

}  // namespace gpulens
