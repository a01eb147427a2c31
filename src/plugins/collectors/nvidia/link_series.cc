#include "plugins/collectors/nvidia/link_series.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/pci_address.h"

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::LinkField;
using nvml::Tier;

constexpr std::string_view kIndex = "gpu.interconnect.link_index", kError = "gpu.interconnect.error_type";

// The kinds of errors. Where the board has a total of its own, it is newer than the sum over links.
struct ErrorRow {
  LinkField field;
  std::string_view name;
  bool c2c = false;
  Field total = Field::kCount;
};
constexpr ErrorRow kErrors[] = {
    {LinkField::kCrcFlit, "crc_flit", false, Field::kNvlinkCrcFlit},
    {LinkField::kCrcData, "crc_data", false, Field::kNvlinkCrcData},
    {LinkField::kReplay, "replay", false, Field::kNvlinkReplay},
    {LinkField::kRecovery, "recovery", false, Field::kNvlinkRecovery},
    {LinkField::kEccData, "ecc_data", false, Field::kNvlinkEccData},
    {LinkField::kMalformed, "malformed"},
    {LinkField::kOverrun, "overrun"},
    {LinkField::kReceive, "receive"},
    {LinkField::kRemote, "remote"},
    {LinkField::kGeneral, "general"},
    {LinkField::kIntegrity, "integrity"},
    {LinkField::kDiscard, "discard"},
    {LinkField::kEffective, "effective"},
    {LinkField::kSymbol, "symbol"},
    {LinkField::kInterrupt, "interrupt", true},
    {LinkField::kReplay, "replay", true},
    {LinkField::kReplayBackToBack, "replay_back_to_back", true},
};

bool IsC2c(size_t number) noexcept { return number >= nvml::LinkOfC2c(0); }
std::string_view TypeOf(size_t number) noexcept { return IsC2c(number) ? "c2c" : "nvlink"; }
int64_t IndexOf(size_t number) noexcept {
  return static_cast<int64_t>(number - (IsC2c(number) ? nvml::LinkOfC2c(0) : nvml::LinkOfNvlink(0)));
}
const FieldReading& At(const GpuRun& run, size_t number, LinkField field) noexcept {
  return run.gpu.links[number - 1][static_cast<size_t>(field)];
}

std::string BusIdOf(int64_t packed) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(packed >> 16 & 0xFFFFFFFF),
                static_cast<unsigned>(packed >> 8 & 0xFF), static_cast<unsigned>(packed & 0xFF));
  return text;
}

std::string_view RemoteOf(int64_t type) noexcept {
  switch (type) {
    case 0: return "gpu";
    case 1: return "cpu";
    case 2: return "switch";
    default: return "unknown";
  }
}

}  // namespace

void LinkSeries::Update(const GpuRun& run) {
  static_assert(kTotals == std::size(kErrors));
  if (links_.size() < run.gpu.links.size()) links_.resize(run.gpu.links.size());
  UpdateTotals(run);
  UpdateC2c(run);
  for (size_t number = 1; number <= run.gpu.links.size(); ++number) {
    Link& link = links_[number - 1];
    UpdateErrors(run, number, link);
    if (!each_) continue;
    UpdateFields(run, number, link);
    UpdateInfo(run, number, link);
    UpdateFec(run, number, link);
  }
}

void LinkSeries::UpdateTotals(const GpuRun& run) {
  for (size_t i = 0; i < std::size(kErrors); ++i) {
    const ErrorRow& row = kErrors[i];
    uint64_t sum = 0;
    bool any = false;
    if (const FieldReading* total = row.total == Field::kCount ? nullptr : run.Fresh(row.total)) {
      sum = static_cast<uint64_t>(total->raw);
      any = true;
    } else if (totals_[i] && row.total != Field::kCount && run.gpu[row.total].boot_ns != 0) {
      continue;  // A total that is late is not replaced by a sum of another moment.
    } else {
      for (size_t number = 1; number <= run.gpu.links.size(); ++number) {
        if (IsC2c(number) != row.c2c) continue;
        const FieldReading& reading = At(run, number, row.field);
        any |= run.Fresh(reading, Tier::kSlow) != nullptr;
        // A link that is down keeps its last count, so that the sum never falls.
        if (reading.boot_ns != 0) sum += static_cast<uint64_t>(reading.raw);
      }
    }
    if (!any) continue;
    if (!totals_[i]) {
      totals_[i] = run.table().Declare(kGpuInterconnectErrors, run.entity,
                                       {{kLinkType, row.c2c ? "c2c" : "nvlink"}, {kError, row.name}});
    }
    run.out.Set(totals_[i], sum);
  }
}

void LinkSeries::UpdateC2c(const GpuRun& run) {
  int64_t active = 0, all = 0;
  for (size_t number = nvml::LinkOfC2c(0); number <= run.gpu.links.size(); ++number) {
    const FieldReading* state = run.Fresh(At(run, number, LinkField::kActive), Tier::kMedium);
    if (!state) continue;
    ++all;
    active += state->raw == 1;
  }
  if (all == 0) return;
  SetLinkCounts(run, "c2c", active, all, c2c_active_, c2c_inactive_);
}

void LinkSeries::SetLinkCounts(const GpuRun& run, std::string_view type, int64_t active, int64_t all,
                               Series& active_series, Series& inactive_series) {
  auto set = [&](Series& series, std::string_view state, int64_t count) {
    if (!series) {
      series = run.table().Declare(kGpuInterconnectLinks, run.entity,
                                   {{kLinkType, type}, {"gpu.interconnect.state", state}});
    }
    run.out.Set(series, count);
  };
  set(active_series, "active", active);
  set(inactive_series, "inactive", all - active);
}

void LinkSeries::UpdateErrors(const GpuRun& run, size_t number, Link& link) {
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(number) == row.c2c && At(run, number, row.field).raw != 0) link.errors = true;
  }
  if (!each_ && !link.errors) return;
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(number) != row.c2c) continue;
    const FieldReading* reading = run.Fresh(At(run, number, row.field), Tier::kSlow);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      series.series =
          run.table().Declare(kGpuInterconnectLinkErrors, run.entity,
                              {{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}, {kError, row.name}});
    }
    series.Write(run, *reading);
  }
}

void LinkSeries::UpdateFields(const GpuRun& run, size_t number, Link& link) {
  for (const LinkRow& row : kLinkRows) {
    const FieldReading* reading = run.Fresh(At(run, number, row.field), row.tier);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      AttributeSet::Attribute extra[] = {
          {kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}, {row.key, row.value}};
      series.series = run.table().Declare(
          *row.metric, run.entity,
          AttributeSet(std::span<const AttributeSet::Attribute>(extra, row.key.empty() ? 2 : 3)));
    }
    if (row.metric == &kGpuInterconnectLinkSpeed) {
      run.out.Set(series.series, static_cast<double>(reading->raw) * 1e6);
    } else if (row.metric == &kGpuInterconnectLinkBitErrorRate) {
      run.out.Set(series.series, nvml::BitErrorRate(static_cast<uint64_t>(reading->raw)));
    } else {
      series.Write(run, *reading);
    }
  }
}

void LinkSeries::UpdateInfo(const GpuRun& run, size_t number, Link& link) {
  constexpr std::array kFields = {LinkField::kVersion, LinkField::kRemoteType, LinkField::kRemotePci,
                                  LinkField::kRemoteLink};
  std::array<int64_t, kFields.size()> now;
  bool any = false;
  for (size_t i = 0; i < kFields.size(); ++i) {
    const FieldReading* reading = run.Fresh(At(run, number, kFields[i]), Tier::kSlow);
    now[i] = reading ? reading->raw : -1;
    any |= reading != nullptr;
  }
  if (!any) return;
  if (!link.info || now != link.remote) {
    run.table().Retire(link.info);
    link.remote = now;
    std::string version = std::to_string(now[0]), bus = BusIdOf(now[2]), far = std::to_string(now[3]);
    std::vector<AttributeSet::Attribute> extra = {{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}};
    if (now[0] >= 0) extra.push_back({"gpu.interconnect.version", std::string_view(version)});
    if (now[1] >= 0) extra.push_back({"gpu.interconnect.remote.type", RemoteOf(now[1])});
    if (now[2] >= 0) extra.push_back({"gpu.interconnect.remote.pci_bus_id", std::string_view(bus)});
    if (now[3] >= 0) extra.push_back({"gpu.interconnect.remote.link_index", std::string_view(far)});
    link.info = run.table().Declare(kGpuInterconnectLinkInfo, run.entity, AttributeSet(extra));
  }
  run.out.Set(link.info, 1);
}

// Blocks by how many of their symbols were corrected: bin n counts those with n, the last one those with
// more, too.
void LinkSeries::UpdateFec(const GpuRun& run, size_t number, Link& link) {
  auto bin = [&](size_t i) -> const FieldReading& {
    return At(run, number, static_cast<LinkField>(static_cast<size_t>(LinkField::kFec0) + i));
  };
  for (size_t i = 0; i < nvml::kFecBins; ++i) {
    if (!run.Fresh(bin(i), Tier::kSlow)) return;
  }
  if (!link.fec) {
    Ref<Shape> shape = MakeRef<Shape>();
    shape->has_sum = false;
    for (size_t i = 0; i + 1 < nvml::kFecBins; ++i) shape->bounds.push_back(static_cast<double>(i));
    link.fec = run.table().Declare(kGpuInterconnectLinkFecCorrected, run.entity,
                                   AttributeSet({{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}}),
                                   SeriesTable::Form{.shape = shape});
  }
  std::span<Cell> cells = run.out.Cells(link.fec);
  double sum = 0;
  for (size_t i = 0; i < cells.size() && i < nvml::kFecBins; ++i) {
    sum += static_cast<double>(bin(i).raw);
    cells[i].d = sum;
  }
}

void AerSeries::Update(const std::string& root, const nvml::Gpu& gpu, const EntityRef& entity,
                       FrameWriter& out) {
  if (entity != entity_) *this = AerSeries();
  if (!entity) return;
  if (!entity_) {
    entity_ = entity;
    if (auto address = ParsePciAddress(gpu.Fact("pci_bus_id")))
      device_ = std::make_unique<pci_aer::Device>(root, address->ToString());
  }
  if (!device_) return;
  int64_t now = out.begun_at().boot_ns;
  if (read_ns_ != 0 && now - read_ns_ < kPeriodNs) {
    for (Series series : series_) {
      if (series) out.Keep(series);
    }
    return;
  }
  read_ns_ = now;
  auto counts = device_->Read();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (!counts[i]) continue;
    if (!series_[i]) {
      series_[i] = out.table().Declare(
          kGpuPcieAerErrors, entity,
          {{"gpu.pcie.aer.severity", pci_aer::SeverityName(static_cast<pci_aer::Severity>(i))}});
    }
    out.Set(series_[i], *counts[i]);
  }
}

}  // namespace gpulens::nvidia
