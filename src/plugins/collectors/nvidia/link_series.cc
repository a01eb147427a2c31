#include "plugins/collectors/nvidia/link_series.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::LinkField;
using nvml::Tier;

constexpr std::string_view kType = "gpu.interconnect.type", kIndex = "gpu.interconnect.link_index",
                           kError = "gpu.interconnect.error_type";

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

// Everything else that is a number of one link.
struct LinkRow {
  LinkField field;
  const MetricDesc* metric;
  Tier tier;
  std::string_view key = {}, value = {};
};
constexpr LinkRow kRows[] = {
    {LinkField::kActive, &kGpuInterconnectLinkActive, Tier::kMedium},
    {LinkField::kTxBytes, &kGpuInterconnectIo, Tier::kMedium, "gpu.interconnect.direction", "transmit"},
    {LinkField::kRxBytes, &kGpuInterconnectIo, Tier::kMedium, "gpu.interconnect.direction", "receive"},
    {LinkField::kTxPackets, &kGpuInterconnectPackets, Tier::kSlow, "gpu.interconnect.direction", "transmit"},
    {LinkField::kRxPackets, &kGpuInterconnectPackets, Tier::kSlow, "gpu.interconnect.direction", "receive"},
    {LinkField::kSpeed, &kGpuInterconnectLinkSpeed, Tier::kSlow},
    {LinkField::kLowPower, &kGpuInterconnectLinkLowPower, Tier::kSlow},
    {LinkField::kRecoverySuccess, &kGpuInterconnectLinkRecoveries, Tier::kSlow, "gpu.interconnect.result",
     "success"},
    {LinkField::kRecoveryFailure, &kGpuInterconnectLinkRecoveries, Tier::kSlow, "gpu.interconnect.result",
     "failure"},
    {LinkField::kBerRaw, &kGpuInterconnectLinkBitErrorRate, Tier::kSlow, "gpu.interconnect.ber_type", "raw"},
    {LinkField::kBerEffective, &kGpuInterconnectLinkBitErrorRate, Tier::kSlow, "gpu.interconnect.ber_type",
     "effective"},
    {LinkField::kBerSymbol, &kGpuInterconnectLinkBitErrorRate, Tier::kSlow, "gpu.interconnect.ber_type",
     "symbol"},
};

bool IsC2c(size_t part) noexcept { return part >= nvml::PartOfC2c(0); }
std::string_view TypeOf(size_t part) noexcept { return IsC2c(part) ? "c2c" : "nvlink"; }
int64_t IndexOf(size_t part) noexcept {
  return static_cast<int64_t>(part - (IsC2c(part) ? nvml::PartOfC2c(0) : nvml::PartOfNvlink(0)));
}
const FieldReading& At(const GpuRun& run, size_t part, LinkField field) noexcept {
  return run.gpu.links[part - 1][static_cast<size_t>(field)];
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
  for (size_t part = 1; part <= run.gpu.links.size(); ++part) {
    Link& link = links_[part - 1];
    UpdateErrors(run, part, link);
    if (!each_) continue;
    UpdateFields(run, part, link);
    UpdateInfo(run, part, link);
    UpdateFec(run, part, link);
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
      for (size_t part = 1; part <= run.gpu.links.size(); ++part) {
        if (IsC2c(part) != row.c2c) continue;
        const FieldReading& reading = At(run, part, row.field);
        any |= run.Fresh(reading, Tier::kSlow) != nullptr;
        // A link that is down keeps its last count, so that the sum never falls.
        if (reading.boot_ns != 0) sum += static_cast<uint64_t>(reading.raw);
      }
    }
    if (!any) continue;
    if (!totals_[i]) {
      totals_[i] = run.out.table().Declare(kGpuInterconnectErrors, run.entity,
                                           {{kType, row.c2c ? "c2c" : "nvlink"}, {kError, row.name}});
    }
    run.out.Set(totals_[i], sum);
  }
}

void LinkSeries::UpdateC2c(const GpuRun& run) {
  int64_t active = 0, all = 0;
  for (size_t part = nvml::PartOfC2c(0); part <= run.gpu.links.size(); ++part) {
    const FieldReading* state = run.Fresh(At(run, part, LinkField::kActive), Tier::kMedium);
    if (!state) continue;
    ++all;
    active += state->raw == 1;
  }
  if (all == 0) return;
  if (!c2c_active_) {
    auto declare = [&](std::string_view state) {
      return run.out.table().Declare(kGpuInterconnectLinks, run.entity,
                                     {{kType, "c2c"}, {"gpu.interconnect.state", state}});
    };
    c2c_active_ = declare("active");
    c2c_inactive_ = declare("inactive");
  }
  run.out.Set(c2c_active_, active);
  run.out.Set(c2c_inactive_, all - active);
}

void LinkSeries::UpdateErrors(const GpuRun& run, size_t part, Link& link) {
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(part) == row.c2c && At(run, part, row.field).raw != 0) link.errors = true;
  }
  if (!each_ && !link.errors) return;
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(part) != row.c2c) continue;
    const FieldReading* reading = run.Fresh(At(run, part, row.field), Tier::kSlow);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      series.series =
          run.out.table().Declare(kGpuInterconnectLinkErrors, run.entity,
                                  {{kType, TypeOf(part)}, {kIndex, IndexOf(part)}, {kError, row.name}});
    }
    series.Write(run, *reading);
  }
}

void LinkSeries::UpdateFields(const GpuRun& run, size_t part, Link& link) {
  for (const LinkRow& row : kRows) {
    const FieldReading* reading = run.Fresh(At(run, part, row.field), row.tier);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      AttributeSet::Attribute extra[] = {
          {kType, TypeOf(part)}, {kIndex, IndexOf(part)}, {row.key, row.value}};
      series.series = run.out.table().Declare(
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

void LinkSeries::UpdateInfo(const GpuRun& run, size_t part, Link& link) {
  constexpr std::array kFields = {LinkField::kVersion, LinkField::kRemoteType, LinkField::kRemotePci,
                                  LinkField::kRemoteLink};
  std::array<int64_t, kFields.size()> now;
  bool any = false;
  for (size_t i = 0; i < kFields.size(); ++i) {
    const FieldReading* reading = run.Fresh(At(run, part, kFields[i]), Tier::kSlow);
    now[i] = reading ? reading->raw : -1;
    any |= reading != nullptr;
  }
  if (!any) return;
  if (!link.info || now != link.remote) {
    run.out.table().Retire(link.info);
    link.remote = now;
    std::string version = std::to_string(now[0]), bus = BusIdOf(now[2]), far = std::to_string(now[3]);
    std::vector<AttributeSet::Attribute> extra = {{kType, TypeOf(part)}, {kIndex, IndexOf(part)}};
    if (now[0] >= 0) extra.push_back({"gpu.interconnect.version", std::string_view(version)});
    if (now[1] >= 0) extra.push_back({"gpu.interconnect.remote.type", RemoteOf(now[1])});
    if (now[2] >= 0) extra.push_back({"gpu.interconnect.remote.pci_bus_id", std::string_view(bus)});
    if (now[3] >= 0) extra.push_back({"gpu.interconnect.remote.link_index", std::string_view(far)});
    link.info = run.out.table().Declare(kGpuInterconnectLinkInfo, run.entity,
                                        AttributeSet(std::span<const AttributeSet::Attribute>(extra)));
  }
  run.out.Set(link.info, 1);
}

// Blocks by how many of their symbols were corrected: bin n counts those with n, the last one those with
// more, too.
void LinkSeries::UpdateFec(const GpuRun& run, size_t part, Link& link) {
  auto bin = [&](size_t i) -> const FieldReading& {
    return At(run, part, static_cast<LinkField>(static_cast<size_t>(LinkField::kFec0) + i));
  };
  for (size_t i = 0; i < nvml::kFecBins; ++i) {
    if (!run.Fresh(bin(i), Tier::kSlow)) return;
  }
  if (!link.fec) {
    Ref<Shape> shape = MakeRef<Shape>();
    shape->has_sum = false;
    for (size_t i = 0; i + 1 < nvml::kFecBins; ++i) shape->bounds.push_back(static_cast<double>(i));
    link.fec = run.out.table().Declare(kGpuInterconnectLinkFecCorrected, run.entity,
                                       AttributeSet({{kType, TypeOf(part)}, {kIndex, IndexOf(part)}}),
                                       SeriesTable::Form{.shape = shape});
  }
  std::span<Cell> cells = run.out.Cells(link.fec);
  double sum = 0;
  for (size_t i = 0; i < cells.size() && i < nvml::kFecBins; ++i) {
    sum += static_cast<double>(bin(i).raw);
    cells[i].d = sum;
  }
}

}  // namespace gpulens
