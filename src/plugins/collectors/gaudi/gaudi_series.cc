#include "plugins/collectors/gaudi/gaudi_series.h"

#include <cmath>
#include <iterator>
#include <vector>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

using hl_smi::Card;
using hl_smi::Port;

struct FieldRow {
  std::optional<double> Card::* field;
  const MetricDesc* metric;
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
};
// The source tells base units already.
constexpr FieldRow kRows[] = {
    {&Card::utilization, &kGpuUtilization, "gpu.task.type", "compute"},
    {&Card::memory_total_bytes, &kGpuMemoryTotal},
    {&Card::memory_used_bytes, &kGpuMemoryUsed},
    {&Card::memory_free_bytes, &kGpuMemoryFree},
    {&Card::power_draw_watts, &kGpuPowerDraw},
    {&Card::power_max_watts, &kGpuPowerLimit, "gpu.power.limit_type", "max"},
    {&Card::temperature_celsius, &kGpuTemperature, "gpu.temperature.sensor", "edge"},
    {&Card::clock_soc_mhz, &kGpuClockFrequency, "gpu.clock.type", "soc"},
    {&Card::clock_soc_limit_mhz, &kGpuClockLimit, "gpu.clock.type", "soc", "gpu.clock.limit_type",
     "locked_max"},
    {&Card::ecc_volatile, &kGpuEccErrors, "gpu.ecc.count_type", "volatile", "gpu.ecc.error_type",
     "uncorrectable"},
    {&Card::ecc_aggregate, &kGpuEccErrors, "gpu.ecc.count_type", "aggregate", "gpu.ecc.error_type",
     "uncorrectable"},
    {&Card::rows_replaced, &kGpuRowRemapCount, "gpu.row_remap.state", "replaced"},
    {&Card::rows_pending, &kGpuRowRemapPending, "gpu.row_remap.state", "pending"},
};

const Port* Find(const std::vector<Port>& ports, int number) {
  for (const Port& port : ports) {
    if (port.port == number) return &port;
  }
  return nullptr;
}

}  // namespace

void GaudiSeries::Retire(SeriesTable& table) {
  if (entity_) table.Retire(entity_);
  uint64_t kept = seen;
  *this = GaudiSeries();
  seen = kept;
}

bool GaudiSeries::SameCard(const Card& card) const noexcept {
  return card.key == known_.key && card.index == known_.index && card.name == known_.name &&
         card.uuid == known_.uuid && card.bus_id == known_.bus_id;
}

void GaudiSeries::Declare(const Card& card, SeriesTable& table) {
  static_assert(std::size(kRows) <= kFields);
  std::vector<AttributeSet::Attribute> own;
  if (card.index) own.push_back({"gpu.index", int64_t{*card.index}});
  if (!card.uuid.empty()) own.push_back({"gpu.uuid", std::string_view(card.uuid)});
  if (!card.name.empty()) own.push_back({"gpu.model", std::string_view(card.name)});
  // Where nothing else tells cards apart.
  if (card.uuid.empty() && !card.index) own.push_back({"gpu.pci.bus_id", std::string_view(card.bus_id)});
  known_ = card;
  std::vector<AttributeSet::Attribute> facts = {{"gpu.vendor", std::string_view("gaudi")}};
  if (!card.bus_id.empty()) facts.push_back({"gpu.pci.bus_id", std::string_view(card.bus_id)});
  if (!card.serial.empty()) facts.push_back({"gpu.serial", std::string_view(card.serial)});
  entity_ = MakeRef<Entity>("gpu", AttributeSet(std::span<const AttributeSet::Attribute>(own)), EntityRef{},
                            AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
  std::vector<AttributeSet::Attribute> info = {{"gpu.vendor", std::string_view("intel")}};
  if (!card.bus_id.empty()) info.push_back({"gpu.pci.bus_id", std::string_view(card.bus_id)});
  info_ = table.Declare(kGpuInfo, entity_, AttributeSet(std::span<const AttributeSet::Attribute>(info)));
}

void GaudiSeries::Update(const hl_smi::CardReading& reading, Instant at, FrameWriter& out) {
  if (entity_ && !SameCard(reading.card)) Retire(out.table());
  if (!entity_) Declare(reading.card, out.table());
  out.ReadAt(at);
  out.Set(info_, 1);
  UpdateNumbers(reading.card, out);
  UpdateShares(reading.card, out);
  UpdatePorts(reading, out);
  out.ReadAt(at);
}

void GaudiSeries::UpdateNumbers(const Card& card, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const FieldRow& row = kRows[i];
    const std::optional<double>& value = card.*row.field;
    if (!value) continue;
    if (!fields_[i]) {
      std::vector<AttributeSet::Attribute> extra;
      if (!row.key.empty()) extra.push_back({row.key, row.value});
      if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
      fields_[i] = out.table().Declare(*row.metric, entity_,
                                       AttributeSet(std::span<const AttributeSet::Attribute>(extra)));
    }
    if (std::isnan(*value)) out.Reject(fields_[i], Validation::kSentinel);
    else out.Set(fields_[i], *value);
  }
}

void GaudiSeries::UpdateShares(const Card& card, FrameWriter& out) {
  auto known = [](const std::optional<double>& value) { return value && !std::isnan(*value); };
  if (known(card.power_draw_watts) && card.power_max_watts && *card.power_max_watts > 0) {
    if (!power_share_) power_share_ = out.table().Declare(kGpuPowerUtilization, entity_);
    out.Set(power_share_, *card.power_draw_watts / *card.power_max_watts);
  }
  if (known(card.memory_used_bytes) && card.memory_total_bytes && *card.memory_total_bytes > 0) {
    if (!memory_percent_) memory_percent_ = out.table().Declare(kGpuMemoryUsedPercent, entity_);
    out.Set(memory_percent_, 100 * *card.memory_used_bytes / *card.memory_total_bytes);
  }
}

void GaudiSeries::UpdatePorts(const hl_smi::CardReading& reading, FrameWriter& out) {
  const hl_smi::PortsReading &now = reading.ports, &before = reading.ports_before;
  if (now.ports.empty() || now.at == ports_reported_) return;
  ports_reported_ = now.at;
  out.ReadAt(now.at);
  double seconds = static_cast<double>((now.at - before.at).count()) * 1e-9;
  for (const Port& port : now.ports) {
    PortSeries& series = ports_[port.port];
    const Port* last = before.ports.empty() || seconds <= 0 ? nullptr : Find(before.ports, port.port);
    auto update = [&](std::string_view direction, std::optional<uint64_t> Port::* bytes, Series& total,
                      Series& rate) {
      if (!(port.*bytes)) return;
      auto declare = [&](const MetricDesc& metric) {
        return out.table().Declare(metric, entity_,
                                   {{"gpu.interconnect.direction", direction},
                                    {"gpu.interconnect.type", "roce"},
                                    {"gpu.interconnect.link_index", int64_t{port.port}}});
      };
      if (!total) total = declare(kGpuInterconnectIo);
      out.Set(total, *(port.*bytes));
      // A count that fell began anew: no rate for this span.
      if (!last || !(last->*bytes) || *(last->*bytes) > *(port.*bytes)) return;
      if (!rate) rate = declare(kGpuInterconnectThroughput);
      out.Set(rate, static_cast<double>(*(port.*bytes) - *(last->*bytes)) / seconds);
    };
    update("receive", &Port::received, series.received, series.received_rate);
    update("transmit", &Port::transmitted, series.transmitted, series.transmitted_rate);
  }
}

}  // namespace gpulens
