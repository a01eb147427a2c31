#include "plugins/collectors/amd/amd_series.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/parse.h"
#include "quality/raw_rule.h"

namespace gpulens::amd {
namespace {

using driver::DeviceState;
using driver::ReadStatus;

// The last ones are shown from when they were first seen on.
constexpr size_t kStatesShown = 5;
constexpr std::pair<DeviceState, std::string_view> kStates[] = {
    {DeviceState::kOk, "ok"},
    {DeviceState::kHung, "hung"},
    {DeviceState::kLost, "lost"},
    {DeviceState::kResetRequired, "reset_required"},
    {DeviceState::kNoPermission, "no_permission"},
    {DeviceState::kFailed, "failed"},
    {DeviceState::kLeftOut, "left_out"},
    {DeviceState::kUnread, "unread"},
};

// Facts of the driver that gpu.info shows as attributes.
constexpr std::pair<std::string_view, std::string_view> kInfoFacts[] = {
    {"architecture", "gpu.architecture"},
    {"pci_bus_id", "gpu.pci.bus_id"},
    {"numa_node", "gpu.numa_node"},
    {"vbios", "gpu.vbios.version"},
};

using Attributes = std::vector<AttributeSet::Attribute>;

AttributeSet SetOf(const Attributes& attributes) {
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

int64_t NumberIn(const driver::Device& device, std::string_view fact, int64_t fallback) {
  return ParseInt<int64_t>(device.Fact(fact)).value_or(fallback);
}

}  // namespace

void AmdSeries::Retire(SeriesTable& table) {
  for (auto& [pid, process] : processes_) table.Retire(process.entity);
  if (part_ && part_ != board_) table.Retire(part_);
  if (board_ && first_) table.Retire(board_);
  *this = AmdSeries(options_);
}

void AmdSeries::Declare(const driver::Device& device, const EntityRef& board, SeriesTable& table) {
  first_ = NumberIn(device, "partition", 0) == 0;
  identity_version_ = device.identity_version;
  compute_units_ = static_cast<double>(NumberIn(device, "compute_units", 0));
  if (first_) {
    DeclareBoard(device, table);
  } else {
    board_ = board;
  }
  part_ = board_;
  if (NumberIn(device, "partitions", 1) > 1) {
    Attributes own = {{"gpu.partition.id", NumberIn(device, "partition", 0)}};
    if (options_.simulated) own.push_back({"simulated", true});
    part_ = MakeRef<Entity>("gpu.partition", SetOf(own), board_);
  }
  sample_age_ = table.Declare(kGpuSampleAge, home());
  for (size_t i = 0; i < kStatesShown; ++i) {
    states_[i] = table.Declare(kGpuState, home(), {{"gpu.state", kStates[i].second}});
  }
}

void AmdSeries::DeclareBoard(const driver::Device& device, SeriesTable& table) {
  Attributes own = {{"gpu.index", NumberIn(device, "gpu", device.index)}};
  if (!device.Fact("uuid").empty()) own.push_back({"gpu.uuid", device.Fact("uuid")});
  if (!device.Fact("name").empty()) own.push_back({"gpu.model", device.Fact("name")});
  if (options_.simulated) own.push_back({"simulated", true});
  Attributes facts = {{"gpu.vendor", std::string_view("amd")}};
  if (!device.Fact("pci_bus_id").empty()) facts.push_back({"gpu.pci.bus_id", device.Fact("pci_bus_id")});
  board_ = MakeRef<Entity>("gpu", SetOf(own), EntityRef{}, SetOf(facts));
  Attributes info = {{"gpu.vendor", std::string_view("amd")}};
  for (auto [fact, key] : kInfoFacts) {
    if (!device.Fact(fact).empty()) info.push_back({key, device.Fact(fact)});
  }
  if (options_.serial && !device.Fact("serial").empty())
    info.push_back({"gpu.serial", device.Fact("serial")});
  info_ = table.Declare(kGpuInfo, board_, SetOf(info));
}

void AmdSeries::Update(const driver::Device& device, const EntityRef& board, const FieldMaxAge& max_age,
                       FrameWriter& out) {
  bool changed = home() && !device.facts.empty() && device.identity_version != identity_version_;
  // The board began a new identity: its partitions follow.
  if (changed || (home() && !first_ && board != board_)) Retire(out.table());
  // Not opened yet: which GPU has this number is not known. One that cannot be opened has its number and
  // state.
  const bool opening =
      device.state == DeviceState::kStarting || (device.state == DeviceState::kOk && device.facts.empty());
  if (!home() && opening) return;
  if (!home()) {
    if (NumberIn(device, "partition", 0) != 0 && !board) return;
    Declare(device, board, out.table());
  }
  device_ = &device;
  max_age_ = &max_age;
  now_ = out.read_at();
  ++update_;
  UpdateState(out);
  UpdateRows(out);
  UpdateMemory(out);
  UpdateModes(out);
  if (first_) {
    UpdatePower(out);
    UpdateFan(out);
    UpdateLinks(out);
    UpdateThrottling(out);
    UpdateHealth(out);
  }
  UpdateProcesses(out);
  out.ReadAt(now_);
}

void AmdSeries::UpdateState(FrameWriter& out) {
  if (first_) out.Set(info_, 1);
  // Between two reader processes the state is not known: it grows old as the readings do.
  for (size_t i = 0; i < std::size(kStates) && device_->state != DeviceState::kStarting; ++i) {
    const bool is = device_->state == kStates[i].first;
    if (is && !states_[i])
      states_[i] = out.table().Declare(kGpuState, home(), {{"gpu.state", kStates[i].second}});
    if (states_[i]) out.Set(states_[i], is ? 1 : 0);
  }
  if (device_->last_read_boot_ns != 0) {
    out.Set(sample_age_, static_cast<double>(now_.boot_ns - device_->last_read_boot_ns) * 1e-9);
  }
}

const AmdSeries::Reading* AmdSeries::Fresh(Field field, unsigned copy, FrameWriter& out) const {
  const Reading& reading = At(field, copy);
  if (reading.status != ReadStatus::kOk || reading.boot_ns == 0) return nullptr;
  // A GPU that no longer answers has no slow readings that still hold.
  if (now_.boot_ns - device_->last_read_boot_ns > max_age_->ns[static_cast<size_t>(driver::Tier::kFast)])
    return nullptr;
  int64_t age = now_.boot_ns - reading.boot_ns;
  driver::Tier tier = amdsmi::AmdsmiVendor().fields[amdsmi::SlotOf(field)].tier;
  if (age > max_age_->ns[static_cast<size_t>(tier)]) return nullptr;
  out.ReadAt(now_ + Duration(-age));
  return &reading;
}

const AmdSeries::Reading* AmdSeries::Known(Field field, const MetricDesc& metric, FrameWriter& out) const {
  const Reading* reading = Fresh(field, out);
  return reading && !SaysNothing(metric, reading->raw) ? reading : nullptr;
}

Series AmdSeries::DeclareRow(const Row& row, unsigned copy, SeriesTable& table) const {
  Attributes extra;
  if (!row.key.empty()) extra.push_back({row.key, row.value});
  if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
  if (row.copy_key == "gpu.ecc.memory_block") {
    extra.push_back({row.copy_key, amdsmi::kEccBlocks[copy]});
  } else if (!row.copy_key.empty()) {
    extra.push_back({row.copy_key, int64_t{copy}});
  }
  return table.Declare(*row.metric, row.scope == Scope::kBoard ? board_ : part_, SetOf(extra));
}

bool AmdSeries::Skips(const Row& row, unsigned copy) const {
  if (row.scope == Scope::kBoard && !first_) return true;
  if (row.detail && !options_.engines) return true;
  // The library has room for eight links; a board has fewer. Where it tells which, the others are none.
  bool link = row.field == Field::kXgmiRead || row.field == Field::kXgmiWrite;
  if (link && !At(Field::kXgmiLink, copy).boot_ns) {
    for (unsigned i = 0; i < kLinks; ++i) {
      if (At(Field::kXgmiLink, i).boot_ns) return true;
    }
  }
  return false;
}

void AmdSeries::UpdateRows(FrameWriter& out) {
  bool agree = ErrorsAgree(out);
  size_t place = 0;
  for (const Row& row : kRows) {
    unsigned copies = amdsmi::CopiesOf(row.field);
    for (unsigned copy = 0; copy < copies; ++copy, ++place) {
      if (Skips(row, copy)) continue;
      const Reading* reading = Fresh(row.field, copy, out);
      if (!reading) continue;
      if (!rows_[place]) rows_[place] = DeclareRow(row, copy, out.table());
      if (row.metric == &kGpuEccErrors && !agree) {
        out.Reject(rows_[place], Validation::kInconsistent);
      } else if (SaysNothing(*row.metric, reading->raw)) {
        out.Reject(rows_[place], Validation::kSentinel);
      } else if (row.per == 1) {
        out.Set(rows_[place], reading->raw);
      } else {
        out.Set(rows_[place], static_cast<double>(reading->raw) / row.per);
      }
    }
  }
}

// The blocks are read before their total, so their sum can never be more.
bool AmdSeries::ErrorsAgree(FrameWriter& out) const {
  constexpr std::pair<Field, Field> kPairs[] = {{Field::kEccCorrectable, Field::kEccTotalCorrectable},
                                                {Field::kEccUncorrectable, Field::kEccTotalUncorrectable},
                                                {Field::kEccDeferred, Field::kEccTotalDeferred}};
  bool agree = true;
  for (auto [blocks, total] : kPairs) {
    const Reading* all = Fresh(total, out);
    if (!all) continue;
    uint64_t sum = 0;
    for (unsigned i = 0; i < amdsmi::CopiesOf(blocks); ++i) {
      const Reading* block = Fresh(blocks, i, out);
      if (block) sum += static_cast<uint64_t>(block->raw);
    }
    agree = agree && sum <= static_cast<uint64_t>(all->raw);
  }
  return agree;
}

void AmdSeries::UpdateMemory(FrameWriter& out) {
  const Reading* total = Known(Field::kVramTotal, kGpuMemoryTotal, out);
  const Reading* used = Fresh(Field::kVramUsed, out);
  if (!used) return;
  Ensure(used_, kGpuMemoryUsed, part_, {}, out);
  if (SaysNothing(kGpuMemoryUsed, used->raw)) return out.Reject(used_, Validation::kSentinel);
  if (total && used->raw > total->raw) return out.Reject(used_, Validation::kInconsistent);
  out.Set(used_, used->raw);
  if (!total || total->raw == 0) return;
  Ensure(free_, kGpuMemoryFree, part_, {}, out);
  Ensure(percent_, kGpuMemoryUsedPercent, part_, {}, out);
  out.Set(free_, total->raw - used->raw);
  out.Set(percent_, 100 * static_cast<double>(used->raw) / static_cast<double>(total->raw));
}

// Boards since MI300 tell the power of the moment, earlier ones a mean: the draw is what there is.
void AmdSeries::UpdatePower(FrameWriter& out) {
  const Reading* cap = Known(Field::kPowerCap, kGpuPowerLimit, out);
  const Reading* average = Known(Field::kPowerAverage, kGpuPowerDraw, out);
  const Reading* current = Known(Field::kPowerCurrent, kGpuPowerDraw, out);
  const Reading* draw = current ? current : average;
  if (average && current) {
    Ensure(average_, kGpuPowerAverage, board_, {}, out);
    out.Set(average_, static_cast<double>(average->raw));
  }
  if (!draw) return;
  Ensure(power_, kGpuPowerDraw, board_, {}, out);
  out.Set(power_, static_cast<double>(draw->raw));
  if (!cap || cap->raw == 0) return;
  Ensure(power_share_, kGpuPowerUtilization, board_, {}, out);
  out.Set(power_share_, static_cast<double>(draw->raw) * 1e6 / static_cast<double>(cap->raw));
}

void AmdSeries::UpdateFan(FrameWriter& out) {
  const Reading* speed = Fresh(Field::kFanSpeed, out);
  const Reading* max = Fresh(Field::kFanSpeedMax, out);
  if (!speed || !max || max->raw <= 0) return;
  Ensure(fan_, kGpuFanSpeed, board_, {}, out);
  out.Set(fan_, static_cast<double>(speed->raw) / static_cast<double>(max->raw));
}

}  // namespace gpulens::amd
