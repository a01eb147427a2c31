#include "core/frame_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gpulens {
namespace {

constexpr size_t kExemplarsMax = 1000;
constexpr double kInt64End = 9223372036854775808.0;  // 2^63, the least double above every int64

}  // namespace

std::string_view AbsenceName(Absence absence) noexcept {
  switch (absence) {
    case Absence::kPresent: return "";
    case Absence::kNotRead: return "not_read";
    case Absence::kTooOld: return "too_old";
    default: break;
  }
  auto result = static_cast<uint8_t>(absence) - static_cast<uint8_t>(Absence::kRejected);
  return ValidationName(static_cast<Validation>(result));
}

void FrameWriter::Begin(Instant now) noexcept {
  begun_at_ = read_at_ = now;
  dated_ = false;
  ++run_;
  rejected_now_ = 0;
  exemplars_.clear();
}

void FrameWriter::Grow() {
  if (slots_.size() < table_.slots()) slots_.resize(table_.slots());
  if (cells_.size() < table_.cells()) cells_.resize(table_.cells());
}

// Makes room for the series and clears what a former series left in its slot.
bool FrameWriter::Admit(Series series) noexcept {
  if (!table_.Live(series)) return ++counts_.invalid, false;
  if (series.slot >= slots_.size()) Grow();
  Slot& slot = slots_[series.slot];
  if (slot.generation != series.generation) {
    slot = Slot{.generation = series.generation};
    memories_.erase(series.slot);
  }
  return true;
}

void FrameWriter::Stamp(Slot& slot) noexcept {
  slot.run = run_;
  slot.ok_at_ns = read_at().boot_ns;
  slot.dated = dated_;
}

void FrameWriter::Accept(uint32_t index, const SeriesInfo& info, double value) noexcept {
  Slot& slot = slots_[index];
  if (info.desc->kind == Kind::kCounter) {
    Cell before = cells_[info.first_cell];
    double last = info.desc->number == Number::kInt ? static_cast<double>(before.i) : before.d;
    bool fell = slot.counted && value < last;
    slot.counted = true;
    if (fell || info.start_unix_ns == 0) table_.Restart(index, read_at().unix_ns);
  }
  Stamp(slot);
  slot.last = Validation::kAccepted;
  ++counts_.accepted;
}

void FrameWriter::Set(Series series, double value) noexcept {
  if (!Admit(series)) return;
  const SeriesInfo& info = table_.InfoAt(series.slot);
  bool as_int = info.desc->number == Number::kInt;
  // Also false for NaN.
  if (as_int && !(value >= -kInt64End && value < kInt64End)) {
    return RejectValue(series, Validation::kOutOfRange, value);
  }
  ValidatorState* memory = NeedsMemory(*info.desc) ? &memories_[series.slot] : nullptr;
  Validation result = Validate(*info.desc, value, read_at().boot_ns, memory);
  if (result != Validation::kAccepted) return RejectValue(series, result, value);
  uint32_t cell = info.first_cell;
  Accept(series.slot, info, value);
  if (as_int) cells_[cell].i = static_cast<int64_t>(value);
  else cells_[cell].d = value;
}

void FrameWriter::SetInt(Series series, int64_t value) noexcept {
  if (!Admit(series)) return;
  const SeriesInfo& info = table_.InfoAt(series.slot);
  if (info.desc->number != Number::kInt) return Set(series, static_cast<double>(value));
  ValidatorState* memory = NeedsMemory(*info.desc) ? &memories_[series.slot] : nullptr;
  Validation result = Validate(*info.desc, static_cast<double>(value), read_at().boot_ns, memory);
  if (result != Validation::kAccepted) return RejectValue(series, result, static_cast<double>(value));
  uint32_t cell = info.first_cell;
  Accept(series.slot, info, static_cast<double>(value));
  cells_[cell].i = value;
}

std::span<Cell> FrameWriter::Cells(Series series) noexcept {
  if (!Admit(series)) return {};
  const SeriesInfo& info = table_.InfoAt(series.slot);
  Stamp(slots_[series.slot]);
  ++counts_.accepted;
  return {cells_.data() + info.first_cell, info.cells()};
}

void FrameWriter::Reject(Series series, Validation why) noexcept {
  RejectValue(series, why, std::numeric_limits<double>::quiet_NaN());
}

void FrameWriter::RejectValue(Series series, Validation why, double value) noexcept {
  ++counts_.rejected[static_cast<size_t>(why)];
  if (!Admit(series)) return;
  Slot& slot = slots_[series.slot];
  if (std::isnan(value)) {
    if (auto fresh = SetInThisRun(series.slot)) value = fresh->value;
  }
  if (rejected_now_ < kRejectionsKept) rejections_[rejected_now_++] = {series, why, value};
  slot.last = why;
  if (slot.run != run_) return;
  // The value of this run has replaced the last good one.
  slot.run = 0;
  slot.ok_at_ns = 0;
}

std::optional<FrameWriter::Fresh> FrameWriter::SetInThisRun(uint32_t slot) const noexcept {
  if (slot >= slots_.size() || slots_[slot].run != run_ || run_ == 0) return std::nullopt;
  const SeriesInfo& info = table_.InfoAt(slot);
  if (!table_.Live(Series{slot, slots_[slot].generation}) || info.shape) return std::nullopt;
  Cell cell = cells_[info.first_cell];
  return Fresh{info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d,
               slots_[slot].ok_at_ns};
}

Absence FrameWriter::WhyAbsent(const Slot& slot) const noexcept {
  if (slot.last != Validation::kAccepted) return RejectedAs(slot.last);
  return slot.ok_at_ns == 0 ? Absence::kNotRead : Absence::kTooOld;
}

void FrameWriter::Keep(Series series) noexcept {
  if (!Admit(series)) return;
  Slot& slot = slots_[series.slot];
  if (slot.ok_at_ns == 0) return;
  Stamp(slot);
  ++counts_.accepted;
}

void FrameWriter::Clear(Series series) noexcept {
  if (!Admit(series)) return;
  Slot& slot = slots_[series.slot];
  slot.run = 0;
  slot.ok_at_ns = 0;
  slot.last = Validation::kAccepted;
}

void FrameWriter::Attach(Series series, Exemplar exemplar) {
  if (exemplars_.size() >= kExemplarsMax || !Admit(series)) return;
  exemplar.cell += table_.InfoAt(series.slot).first_cell;
  exemplars_.push_back(std::move(exemplar));
}

void FrameWriter::FillQuality(Frame& frame) noexcept {
  frame.quality.resize(slots_.size());
  frame.absence.resize(slots_.size());
  frame.age_ms.clear();
  oldest_ns_ = 0;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    frame.absence[i] = Absence::kPresent;
    if (slot.run == run_ && slot.run != 0) {
      frame.quality[i] = Quality::kOk;
      if (!slot.dated) continue;
      const int64_t age = begun_at_.boot_ns - slot.ok_at_ns;
      if (age > kOldestDated.count()) {
        frame.quality[i] = Quality::kAbsent;
        frame.absence[i] = Absence::kTooOld;
      } else if (age > 0) {
        FillAged(frame, i, age, age <= ttl_.count());
        // Sources have whole milliseconds: rounding keeps the exported time stable.
        constexpr int64_t kNsOfMs = 1'000'000;
        const int64_t reported_ms = (begun_at_.unix_ns - age + kNsOfMs / 2) / kNsOfMs;
        frame.age_ms[i] =
            static_cast<uint32_t>(std::max<int64_t>(begun_at_.unix_ns / kNsOfMs - reported_ms, 0));
      }
      continue;
    }
    // A source may date this reading after its last one.
    int64_t age = std::max<int64_t>(0, read_at_.boot_ns - slot.ok_at_ns);
    bool known = slot.ok_at_ns != 0 && age <= ttl_.count();
    frame.quality[i] = Quality::kAbsent;
    if (known) FillAged(frame, i, age, false);
    else frame.absence[i] = WhyAbsent(slot);
  }
}

void FrameWriter::FillAged(Frame& frame, uint32_t slot, int64_t age_ns, bool fresh) noexcept {
  frame.quality[slot] = fresh ? Quality::kOk : Quality::kStale;
  if (frame.age_ms.empty()) frame.age_ms.resize(slots_.size());
  frame.age_ms[slot] = static_cast<uint32_t>(age_ns / 1'000'000);
  oldest_ns_ = std::max(oldest_ns_, age_ns);
  counts_.stale += !fresh;
}

Ref<const Frame> FrameWriter::Finish() {
  Grow();
  // Values of retired series must not appear under the new layout.
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (!table_.Live(Series{i, slots_[i].generation})) slots_[i] = Slot{.generation = slots_[i].generation};
  }
  Ref<Frame> frame = pool_.Take();
  if (frame->source.empty()) frame->source = source_;
  frame->layout = table_.Freeze();
  frame->run = run_;
  frame->read_at = begun_at_;
  frame->cells.resize(cells_.size());
  if (!cells_.empty()) std::memcpy(frame->cells.data(), cells_.data(), cells_.size() * sizeof(Cell));
  FillQuality(*frame);
  std::ranges::sort(exemplars_, [](const Exemplar& a, const Exemplar& b) { return a.cell < b.cell; });
  frame->exemplars.assign(exemplars_.begin(), exemplars_.end());
  return frame;
}

}  // namespace gpulens
