#include "names/facts.h"

#include <algorithm>

#include "catalog/gpu.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

// By what a GPU is found again; empty for series that belong to none.
std::string GpuKey(const AttributeSet& attributes) {
  if (std::string uuid = attributes.Text("gpu.uuid"); !uuid.empty()) return uuid;
  std::string index = attributes.Text("gpu.index");
  return index.empty() ? index : "#" + index;
}

std::string SliceKey(const AttributeSet& attributes) {
  std::string instance = attributes.Text("gpu.mig.instance_id");
  if (instance.empty()) return instance;
  return GpuKey(attributes) + "/" + instance + "/" + attributes.Text("gpu.mig.compute_instance_id");
}

// Also under its GPU instance alone: what is measured there has no compute instance.
void AddSlice(const AttributeSet& attributes, std::map<std::string, AttributeSet>& slices) {
  slices.emplace(SliceKey(attributes), attributes);
  slices.emplace(GpuKey(attributes) + "/" + attributes.Text("gpu.mig.instance_id") + "/", attributes);
}

std::string TextIn(const std::map<std::string, AttributeSet>& sets, const std::string& key,
                   std::string_view attribute) {
  auto found = key.empty() ? sets.end() : sets.find(key);
  return found == sets.end() ? std::string() : found->second.Text(attribute);
}

// Host and port of a page's address, as they are asked: the URL without its path.
AttributeSet ServerOf(std::string_view url) {
  const bool tls = url.starts_with("https://");
  size_t begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  std::string_view host = url.substr(begin + 3);
  host = host.substr(0, host.find('/'));
  std::string_view port = tls ? "443" : "80";
  // In an address of version 6 colons stand within brackets.
  size_t colon = host.rfind(':'), bracket = host.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return AttributeSet({{"server.address", host}, {"server.port", port}});
}

// Whether the series is one that `rival` speaks of.
bool Fits(const Rival& rival, const SeriesInfo& info) {
  if (std::find(rival.metrics.begin(), rival.metrics.end(), info.desc) == rival.metrics.end()) return false;
  return rival.key.empty() || info.attributes.Text(rival.key) == rival.value;
}

}  // namespace

void TickFacts::Watch(std::span<const Rival> rivals) {
  for (const Rival& rival : rivals) {
    if (std::find(watched_.begin(), watched_.end(), &rival) == watched_.end()) watched_.push_back(&rival);
  }
}

std::string TickFacts::KeyOf(const Rival& rival, const AttributeSet& attributes) {
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(&rival));
  for (std::string_view attribute : rival.same) {
    key += '\0';
    key += attributes.Text(attribute);
  }
  return key;
}

void TickFacts::AddRivals(const SeriesInfo& info, Known& known) const {
  for (const Rival* rival : watched_) {
    if (Fits(*rival, info)) known.rivals.insert(KeyOf(*rival, info.attributes));
  }
}

bool TickFacts::HasRival(const SeriesInfo& series, const Rival& rival) const {
  return !Fits(rival, series) && known_.rivals.contains(KeyOf(rival, series.attributes));
}

// The first to speak of a GPU is heard. An index that two GPUs have (of two vendors) names neither.
void TickFacts::AddGpu(const SeriesInfo& info, Known& known) {
  const AttributeSet& attributes = info.attributes;
  std::string uuid = attributes.Text("gpu.uuid"), index = attributes.Text("gpu.index");
  if (!uuid.empty()) known.gpus.emplace(uuid, attributes);
  if (index.empty()) return;
  auto [at, added] = known.gpus.emplace("#" + index, attributes);
  if (!added && at->second.Text("gpu.uuid") != uuid) at->second = AttributeSet();
}

bool TickFacts::Look(const Snapshot& snapshot) {
  Known known;
  known.resource = snapshot.resource;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Layout& layout = *entry.frame->layout;
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& info = layout[slot];
      if (!info.desc) continue;
      AddRivals(info, known);
      if (info.desc == &kGpuInfo) AddGpu(info, known);
      else if (info.desc == &kGpuMigInfo) AddSlice(info.attributes, known.slices);
      else if (info.desc == &kGpuDriverInfo)
        known.drivers.emplace(info.attributes.Text("gpu.vendor"), info.attributes);
      else if (info.desc == &kSelfScrapeInfo)
        known.servers.emplace(info.attributes.Text("target"), ServerOf(info.attributes.Text("url")));
    }
  }
  if (known == known_) return false;
  known_ = std::move(known);
  return true;
}

std::string TickFacts::Text(const SeriesInfo& series, std::string_view attribute) const {
  if (series.attributes.Has(attribute)) return series.attributes.Text(attribute);
  if (attribute.starts_with("server.")) {
    return TextIn(known_.servers, series.attributes.Text("target"), attribute);
  }
  std::string gpu = GpuKey(series.attributes);
  std::string text = TextIn(known_.slices, SliceKey(series.attributes), attribute);
  if (text.empty()) text = TextIn(known_.gpus, gpu, attribute);
  if (text.empty() && !gpu.empty()) {
    std::string vendor = TextIn(known_.gpus, gpu, "gpu.vendor");
    // Where one driver is here, a GPU of unknown vendor is its GPU.
    if (vendor.empty() && known_.drivers.size() == 1) vendor = known_.drivers.begin()->first;
    text = TextIn(known_.drivers, vendor, attribute);
  }
  return text.empty() ? known_.resource.Text(attribute) : text;
}

}  // namespace gpulens
