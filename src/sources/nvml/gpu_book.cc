#include "sources/nvml/gpu_book.h"

#include <algorithm>

namespace gpulens::nvml {
namespace {

// The library's return codes that a GPU's state follows.
constexpr int32_t kNoPermissionCode = 4, kLostCode = 15, kResetCode = 16, kGoneCode = 28;

Status NotCounted() { return {Code::kDataLoss, "driver message: a GPU it did not count"}; }

GpuState StateOf(int32_t code) noexcept {
  switch (code) {
    case 0: return GpuState::kOk;
    case kNoPermissionCode: return GpuState::kNoPermission;
    case kLostCode:
    case kGoneCode: return GpuState::kLost;
    case kResetCode: return GpuState::kResetRequired;
    default: return GpuState::kFailed;
  }
}

bool Before(const PartKey& a, const PartKey& b) noexcept {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.id != b.id ? a.id < b.id : a.sub < b.sub;
}

Part* FindPart(GpuParts& parts, const PartKey& key) noexcept {
  auto found =
      std::find_if(parts.list.begin(), parts.list.end(), [&](const Part& part) { return part.key == key; });
  return found == parts.list.end() ? nullptr : &*found;
}

bool SameFacts(const Gpu& gpu, const EntityReport& report) {
  if (gpu.facts.size() != report.fact_count) return false;
  for (size_t i = 0; i < report.fact_count; ++i) {
    if (gpu.facts[i].first != report.facts[i].key || gpu.facts[i].second != report.facts[i].value)
      return false;
  }
  return true;
}

}  // namespace

uint64_t GpuBook::Begin(Instant now, Duration retry_left_out) {
  uint64_t left_out = 0;
  for (size_t i = 0; i < kMaxGpus; ++i) {
    Memory& memory = memory_[i];
    memory.hung = false;
    bool rested = now.boot_ns - memory.last_hang_ns >= retry_left_out.count();
    if (memory.hangs >= 2 && rested) memory.hangs = 1;  // One more chance.
    memory.left_out = memory.hangs >= 2;
    if (memory.left_out) left_out |= uint64_t{1} << i;
  }
  for (Gpu& gpu : gpus_) {
    SetState(gpu, memory_[gpu.index].left_out ? GpuState::kLeftOut : GpuState::kStarting, 0);
  }
  Count();
  return left_out;
}

void GpuBook::Expect(uint32_t count) {
  for (auto i = static_cast<uint32_t>(gpus_.size()); i < count; ++i) {
    gpus_.emplace_back().index = i;
    if (memory_[i].left_out) gpus_.back().state = GpuState::kLeftOut;
  }
  for (Gpu& gpu : gpus_) {
    gpu.counted = gpu.index < count;
    // Fewer than before: the driver has lost it altogether.
    if (gpu.index >= count) SetState(gpu, GpuState::kLost, kLostCode);
  }
  Count();
}

Status GpuBook::Take(const EntityReport& report) {
  Gpu* gpu = Find(report.entity);
  if (!gpu) return NotCounted();
  if (report.code == 0 && !SameFacts(*gpu, report)) {
    gpu->facts.clear();
    for (size_t i = 0; i < report.fact_count; ++i) {
      gpu->facts.emplace_back(report.facts[i].key, report.facts[i].value);
    }
    ++gpu->identity_version;
    gpu->fields = {};  // They may be another GPU's.
    gpu->links.clear();
    gpu->processes.clear();
    gpu->processes_boot_ns = gpu->last_read_boot_ns = 0;
    gpu->parts = {};
  }
  if (report.code == 0) ++gpu->opened;
  memory_[gpu->index].left_out = false;
  SetState(*gpu, StateOf(report.code), report.code);
  Count();
  return Status{};
}

Status GpuBook::Take(const ReadingsReport& report, Instant now) {
  for (size_t i = 0; i < report.readings.size(); ++i) {
    Reading reading = report.readings[i];
    Gpu* gpu = Find(reading.entity);
    if (!gpu) return NotCounted();
    if (reading.part > gpu->links.size()) gpu->links.resize(reading.part);
    FieldReading& field =
        reading.part == 0 ? gpu->fields[reading.field] : gpu->links[reading.part - 1u][reading.field];
    field.status = reading.status;
    if (reading.status == ReadStatus::kGpuLost) SetState(*gpu, GpuState::kLost, kLostCode);
    if (reading.status == ReadStatus::kResetRequired) SetState(*gpu, GpuState::kResetRequired, kResetCode);
    if (reading.status != ReadStatus::kOk) continue;
    field.boot_ns = std::min(reading.boot_ns, now.boot_ns);
    field.raw = reading.raw;
    gpu->last_read_boot_ns = std::max(gpu->last_read_boot_ns, field.boot_ns);
    bool over = gpu->state == GpuState::kHung || gpu->state == GpuState::kResetRequired;
    if (over) SetState(*gpu, GpuState::kOk, 0);
  }
  return Status{};
}

Status GpuBook::Take(const ProcessesReport& report, Instant now) {
  Gpu* gpu = Find(report.entity);
  if (!gpu) return NotCounted();
  gpu->processes_boot_ns = std::min(report.boot_ns, now.boot_ns);
  gpu->processes.resize(report.processes.size());
  for (size_t i = 0; i < report.processes.size(); ++i) gpu->processes[i] = report.processes[i];
  return Status{};
}

Status GpuBook::Take(const PartsReport& report) {
  Gpu* gpu = Find(report.entity);
  if (!gpu) return NotCounted();
  GpuParts& parts = gpu->parts;
  if (report.kind == PartKind::kMig) parts.mig_max = report.max;
  else parts.vgpu_host = true;
  auto listed = [&](const PartKey& key) {
    for (size_t i = 0; i < report.keys.size(); ++i) {
      if (report.keys[i] == key) return true;
    }
    return false;
  };
  std::erase_if(parts.list,
                [&](const Part& part) { return part.key.kind == report.kind && !listed(part.key); });
  for (size_t i = 0; i < report.keys.size(); ++i) {
    PartKey key = report.keys[i];
    auto after = std::find_if(parts.list.begin(), parts.list.end(),
                              [&](const Part& part) { return !Before(part.key, key); });
    if (after != parts.list.end() && after->key == key) continue;
    parts.list.insert(after, Part{})->key = key;
  }
  return Status{};
}

Status GpuBook::Take(const PartReport& report) {
  Gpu* gpu = Find(report.entity);
  if (!gpu) return NotCounted();
  Part* part = FindPart(gpu->parts, report.key);
  if (!part) return Status{};  // Its list was lost on the way; it is said again.
  bool same = part->facts.size() == report.fact_count;
  for (size_t i = 0; same && i < report.fact_count; ++i) {
    same = part->facts[i].first == report.facts[i].key && part->facts[i].second == report.facts[i].value;
  }
  if (same) return Status{};
  part->facts.clear();
  for (size_t i = 0; i < report.fact_count; ++i)
    part->facts.emplace_back(report.facts[i].key, report.facts[i].value);
  part->values = {};  // They may be another instance's that had the same number.
  return Status{};
}

Status GpuBook::Take(const PartReadingsReport& report, Instant now) {
  for (size_t i = 0; i < report.readings.size(); ++i) {
    PartReading reading = report.readings[i];
    Gpu* gpu = Find(reading.entity);
    if (!gpu) return NotCounted();
    PartValues* values = nullptr;
    if (reading.key.kind == PartKind::kWhole) values = &gpu->parts.whole;
    else if (Part* part = FindPart(gpu->parts, reading.key)) values = &part->values;
    if (!values) continue;
    PartValue& value = (*values)[reading.field];
    value.status = reading.status;
    if (reading.status != ReadStatus::kOk) continue;
    value.boot_ns = std::min(reading.boot_ns, now.boot_ns);
    value.value = reading.value;
  }
  return Status{};
}

Status GpuBook::Take(const ProcessSharesReport& report, Instant now) {
  Gpu* gpu = Find(report.entity);
  if (!gpu) return NotCounted();
  gpu->parts.shares_boot_ns = std::min(report.boot_ns, now.boot_ns);
  gpu->parts.shares.resize(report.shares.size());
  for (size_t i = 0; i < report.shares.size(); ++i) gpu->parts.shares[i] = report.shares[i];
  return Status{};
}

bool GpuBook::AnyLost() const noexcept {
  return std::any_of(gpus_.begin(), gpus_.end(),
                     [](const Gpu& gpu) { return gpu.counted && gpu.state == GpuState::kLost; });
}

void GpuBook::SetState(Gpu& gpu, GpuState state, int32_t code) {
  gpu.state = state;
  gpu.code = code;
  if (state == GpuState::kHung) return;
  gpu.hung_call = Call::kNone;
  gpu.hung_since_boot_ns = 0;
  memory_[gpu.index].hung = false;
}

void GpuBook::Count() noexcept {
  used_ = left_out_ = 0;
  for (const Gpu& gpu : gpus_) ++(gpu.state == GpuState::kLeftOut ? left_out_ : used_);
}

GpuBook::Hangs GpuBook::CheckCalls(const CallPage& page, Deadlines deadlines, Instant now) {
  Hangs out;
  size_t read = 0, hung = 0;
  for (Gpu& gpu : gpus_) {
    if (gpu.state == GpuState::kLeftOut) continue;
    CallSlot::View slot = page.gpus[gpu.index].Read();
    out.started += CheckCall(gpu, slot, IsSlowCall(slot.call) ? deadlines.slow : deadlines.usual, now);
    hung += gpu.state == GpuState::kHung;
    read += gpu.state == GpuState::kOk || gpu.state == GpuState::kHung || gpu.state == GpuState::kStarting;
  }
  out.all = read > 0 && hung == read;
  return out;
}

bool GpuBook::CheckCall(Gpu& gpu, CallSlot::View slot, Duration deadline, Instant now) {
  Memory& memory = memory_[gpu.index];
  bool beyond = slot.call != Call::kNone && now.boot_ns - slot.since_boot_ns > deadline.count();
  if (!beyond) {
    // It came back: its next reading or identity says how it is.
    if (memory.hung) SetState(gpu, gpu.facts.empty() ? GpuState::kStarting : GpuState::kOk, 0);
    return false;
  }
  SetState(gpu, GpuState::kHung, 0);
  if (memory.hung) return false;
  memory.hung = true;
  memory.last_hang_ns = now.boot_ns;
  ++memory.hangs;
  ++gpu.hangs;
  gpu.hung_call = slot.call;
  gpu.hung_since_boot_ns = slot.since_boot_ns;
  return true;
}

std::string GpuBook::HungCall() const {
  for (const Gpu& gpu : gpus_) {
    if (gpu.state == GpuState::kHung) {
      return std::string(CallName(gpu.hung_call)) + " on GPU " + std::to_string(gpu.index);
    }
  }
  return "no call";
}

uint32_t GpuBook::DueForRetry(Instant now, Duration retry_left_out) const noexcept {
  for (const Gpu& gpu : gpus_) {
    bool rested = now.boot_ns - memory_[gpu.index].last_hang_ns >= retry_left_out.count();
    if (gpu.state == GpuState::kLeftOut && rested) return gpu.index;
  }
  return kMaxGpus;
}

void GpuBook::Retry(uint32_t index) {
  Gpu* gpu = Find(index);
  if (!gpu) return;
  memory_[index].hangs = 1;
  memory_[index].left_out = false;
  SetState(*gpu, GpuState::kStarting, 0);
  Count();
}

}  // namespace gpulens::nvml
