#include "quality/gpu_overlap.h"

#include <algorithm>
#include <unordered_map>

namespace gpulens {
namespace {

constexpr std::string_view kUuid = "gpu.uuid", kVendor = "gpu.vendor", kMig = "gpu.mig.instance_id";
constexpr std::string_view kSource = "gpu.interconnect.source";
// One published, one being read by a slow sink, for each of a few sources.
constexpr size_t kPooledFrames = 8;

// The key of a reading, from any collector; empty for what is of no GPU.
std::string ReadingOf(const SeriesInfo& info) {
  if (!info.desc || info.desc->naming != Naming::kOtel) return {};
  const bool of_gpu = info.attributes.Has(kUuid);
  if (!of_gpu && !info.attributes.Has(kVendor)) return {};
  std::string reading(info.desc->name);
  auto add = [&](std::string_view key) {
    if (!info.attributes.Has(key)) return;
    reading += '\x1f';
    reading += key;
    reading += '=';
    reading += info.attributes.Text(key);
  };
  add(of_gpu ? kUuid : kVendor);
  add(kMig);
  if (info.desc->kind == Kind::kInfo) return reading;
  for (std::string_view key : info.desc->keys) {
    if (key != kSource && key != kMig && key != kVendor) add(key);
  }
  return reading;
}

}  // namespace

bool GpuOverlap::PlanFits(const Snapshot& snapshot) const noexcept {
  if (planned_.size() != snapshot.frames.size()) return false;
  for (size_t i = 0; i < planned_.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    if (planned_[i] != (entry.frame->layout->id() << 1 | (entry.precedence == Precedence::kNative)))
      return false;
  }
  return true;
}

template <class Visit>
void GpuOverlap::ForEachFrame(Visit visit) const {
  for (std::span<const Repeat> rest = repeats_; !rest.empty();) {
    auto end = std::ranges::find_if(
        rest, [&](const Repeat& repeat) { return repeat.page.frame != rest[0].page.frame; });
    auto count = static_cast<size_t>(end - rest.begin());
    visit(rest.first(count));
    rest = rest.subspan(count);
  }
}

void GpuOverlap::Plan(const Snapshot& snapshot,
                      const std::function<void(std::string_view, uint64_t)>& dropped) {
  planned_.clear();
  repeats_.clear();
  std::unordered_map<std::string, std::vector<Place>> of_pages;
  auto each = [&](Precedence precedence, auto&& visit) {
    for (uint32_t i = 0; i < snapshot.frames.size(); ++i) {
      if (snapshot.frames[i].precedence != precedence) continue;
      const Layout& layout = *snapshot.frames[i].frame->layout;
      for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
        std::string reading = ReadingOf(layout[slot]);
        if (!reading.empty()) visit(std::move(reading), Place{i, slot});
      }
    }
  };
  for (const SnapshotEntry& entry : snapshot.frames) {
    planned_.push_back(entry.frame->layout->id() << 1 | (entry.precedence == Precedence::kNative));
  }
  each(Precedence::kPassThrough,
       [&](std::string reading, Place place) { of_pages[std::move(reading)].push_back(place); });
  if (of_pages.empty()) return;
  each(Precedence::kNative, [&](const std::string& reading, Place native) {
    auto found = of_pages.find(reading);
    if (found == of_pages.end()) return;
    for (Place page : found->second) repeats_.push_back({page, native});
  });
  std::sort(repeats_.begin(), repeats_.end(), [](const Repeat& a, const Repeat& b) {
    return a.page.frame != b.page.frame ? a.page.frame < b.page.frame : a.page.slot < b.page.slot;
  });
  ForEachFrame([&](std::span<const Repeat> repeats) {
    std::string_view source = snapshot.frames[repeats[0].page.frame].source;
    auto known =
        std::find_if(reported_.begin(), reported_.end(), [&](const auto& t) { return t.first == source; });
    if (known == reported_.end()) known = reported_.insert(reported_.end(), {std::string(source), 0});
    if (repeats.size() > known->second) dropped(source, repeats.size() - known->second);
    known->second = repeats.size();
  });
}

Ref<Frame> GpuOverlap::Copy(const Frame& frame) {
  Ref<Frame> copy;
  for (Ref<Frame>& pooled : pool_) {
    if (pooled.unique()) copy = pooled;
  }
  if (!copy) {
    copy = MakeRef<Frame>();
    if (pool_.size() < kPooledFrames) pool_.push_back(copy);
  }
  *copy = frame;
  return copy;
}

void GpuOverlap::Hide(Snapshot& snapshot, std::span<const Repeat> repeats) {
  SnapshotEntry& entry = snapshot.frames[repeats[0].page.frame];
  Ref<Frame> copy;
  for (const Repeat& repeat : repeats) {
    bool reported =
        snapshot.frames[repeat.native.frame].frame->quality[repeat.native.slot] != Quality::kAbsent;
    if (!reported || entry.frame->quality[repeat.page.slot] == Quality::kAbsent) continue;
    if (!copy) copy = Copy(*entry.frame);
    copy->quality[repeat.page.slot] = Quality::kAbsent;
  }
  if (!copy) return;
  entry.frame = copy;
  entry.source = copy->source;
}

void GpuOverlap::Apply(Snapshot& snapshot, const std::function<void(std::string_view, uint64_t)>& dropped) {
  bool any = std::any_of(snapshot.frames.begin(), snapshot.frames.end(),
                         [](const auto& entry) { return entry.precedence == Precedence::kPassThrough; });
  if (!any) return;
  if (!PlanFits(snapshot)) Plan(snapshot, dropped);
  ForEachFrame([&](std::span<const Repeat> repeats) { Hide(snapshot, repeats); });
}

}  // namespace gpulens
