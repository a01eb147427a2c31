#include "plugins/collectors/nccl/inspector_pages.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "catalog/nccl.h"
#include "plugins/collectors/nccl/rank_table.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {
namespace {

constexpr size_t kLongestLabel = 128;
constexpr double kLongestMicroseconds = 86'400e6;

enum class Quantity : uint8_t { kDuration, kBandwidth, kBusBandwidth };
struct PageFamily {
  std::string_view name;
  Quantity quantity;
};
constexpr PageFamily kPageFamilies[] = {
    {"nccl_bus_bandwidth_gbs", Quantity::kBusBandwidth},
    {"nccl_p2p_bus_bandwidth_gbs", Quantity::kBusBandwidth},
    {"nccl_algorithm_bandwidth_gbs", Quantity::kBandwidth},  // NCCL 2.29.7 to 2.30.2
    {"nccl_collective_exec_time_microseconds", Quantity::kDuration},
    {"nccl_p2p_exec_time_microseconds", Quantity::kDuration},
};

std::string TextOfLabel(std::string_view value) {
  return value == "unknown" ? std::string() : Printable(value.substr(0, kLongestLabel));
}

int32_t CountOfLabel(std::string_view value) {
  const auto number = ParseInt<int32_t>(value);
  return number && *number >= 0 ? *number : -1;
}

// NCCL 2.29.7 has other names for some.
void TakeLabel(const LabelView& label, InspectorMeans& out) {
  const std::string_view name = label.name;
  if (name == "collective" || name == "p2p_operation") out.operation = TextOfLabel(label.value);
  else if (name == "comm_id") out.communicator = TextOfLabel(label.value);
  else if (name == "comm_name") out.communicator_name = TextOfLabel(label.value);
  else if (name == "message_size") out.message_size = TextOfLabel(label.value);
  else if (name == "node" || name == "hostname") out.host = TextOfLabel(label.value);
  else if (name == "slurm_job_id") out.slurm_job = TextOfLabel(label.value);
  else if (name == "rank" || name == "comm_rank") out.rank = CountOfLabel(label.value);
  else if (name == "nranks" || name == "n_ranks") out.ranks = CountOfLabel(label.value);
  else if (name == "n_nodes") out.nodes = CountOfLabel(label.value);
  else if (name == "algo_proto") {
    const size_t cut = std::min(label.value.rfind('_'), label.value.size());
    out.algorithm = TextOfLabel(label.value.substr(0, cut));
    if (cut < label.value.size()) out.protocol = TextOfLabel(label.value.substr(cut + 1));
  }
}

void SetQuantity(Quantity quantity, double value, InspectorMeans& out) {
  // Inspector writes 0 where it has no value.
  if (!(value > 0) || !std::isfinite(value)) return;
  switch (quantity) {
    case Quantity::kDuration:
      if (value <= kLongestMicroseconds) out.duration_s = value * 1e-6;
      return;
    case Quantity::kBandwidth: out.bandwidth = value * 1e9; return;
    case Quantity::kBusBandwidth: out.bus_bandwidth = value * 1e9; return;
  }
}

class PageHandler final : public ExpositionHandler {
 public:
  explicit PageHandler(InspectorPageContent& out) : out_(out) {}
  void OnFamily(uint32_t, const ExpositionFamily&) override {}
  void OnSample(const SampleView& sample) override {
    const auto family = std::ranges::find(kPageFamilies, sample.name, &PageFamily::name);
    if (family == std::end(kPageFamilies)) return;
    InspectorMeans means;
    for (const LabelView& label : sample.labels) TakeLabel(label, means);
    if (means.operation.empty()) {
      ++out_.invalid;
      return;
    }
    // The two samples of a kind follow each other.
    auto known = std::find_if(out_.means.rbegin(), out_.means.rend(),
                              [&](const InspectorMeans& other) { return other.IsSameKind(means); });
    if (known == out_.means.rend()) {
      if (out_.means.size() >= InspectorPageContent::kMost) {
        ++out_.not_taken;
        return;
      }
      out_.means.push_back(std::move(means));
      known = out_.means.rbegin();
    }
    SetQuantity(family->quantity, sample.value, *known);
  }

 private:
  InspectorPageContent& out_;
};

}  // namespace

bool InspectorMeans::IsSameKind(const InspectorMeans& other) const {
  const auto key = [](const InspectorMeans& of) {
    return std::tie(of.operation, of.communicator, of.communicator_name, of.message_size, of.algorithm,
                    of.protocol, of.host, of.slurm_job, of.rank, of.ranks, of.nodes);
  };
  return key(*this) == key(other);
}

Result<InspectorPageContent> ParseInspectorPage(std::string_view page) {
  constexpr ExpositionLimits kLimits{.page_bytes = nccl_files::kLongestPage,
                                     .line_bytes = 16 << 10,
                                     .labels = 64,
                                     .name_bytes = 256,
                                     .value_bytes = 4 << 10,
                                     .samples = 8192,
                                     .families = 64};
  InspectorPageContent content;
  PageHandler handler(content);
  const auto report = ParseExposition(page, ExpositionFormat::kText004, kLimits, handler);
  if (!report) return report.error();
  content.invalid += report->bad_lines;
  // Its bus bandwidth is the algorithm's by a factor.
  for (InspectorMeans& means : content.means) {
    const double factor = BusFactor(nccl_files::FunctionOfName(means.operation), means.ranks);
    if (std::isnan(means.bandwidth) && factor > 0) means.bandwidth = means.bus_bandwidth / factor;
  }
  return content;
}

void InspectorPages::Set(Kind& kind, FrameWriter& out) {
  const auto set = [&](Series& series, const MetricDesc& desc, double value) {
    if (std::isfinite(value)) {
      out.DeclareAndSet(series, desc, kind.entity,
                        {{"nccl.collective.type", std::string_view(kind.means.operation)}}, value);
    } else if (series) {
      out.table().Retire(series);
      series = {};
    }
  };
  set(kind.duration, kNcclCollectiveLastDuration, kind.means.duration_s);
  set(kind.bandwidth, kNcclCollectiveBandwidth, kind.means.bandwidth);
  set(kind.bus_bandwidth, kNcclCollectiveBusBandwidth, kind.means.bus_bandwidth);
}

void InspectorPages::Take(const nccl_files::InspectorPage& page, FrameWriter& out) {
  InspectorPageContent content;
  if (auto parsed = ParseInspectorPage(page.text)) content = *std::move(parsed);
  else ++invalid_;
  invalid_ += content.invalid;
  not_taken_ += content.not_taken;
  for (Kind& kind : kinds_) kind.is_on_page = kind.path != page.path;
  for (InspectorMeans& means : content.means) {
    auto known = std::ranges::find_if(kinds_, [&](const Kind& kind) {
      return kind.gpu_uuid == page.gpu_uuid && kind.means.IsSameKind(means);
    });
    if (known == kinds_.end()) {
      if (kinds_.size() >= kMostKinds) {
        ++not_taken_;
        continue;
      }
      known = kinds_.emplace(known);
      known->gpu_uuid = page.gpu_uuid;
      std::vector<AttributeSet::Attribute> attributes;
      const auto text = [&](std::string_view key, const std::string& value) {
        if (!value.empty()) attributes.push_back({key, std::string_view(value)});
      };
      const std::string uuid = "GPU-" + std::string(page.gpu_uuid);
      text("gpu.uuid", uuid);
      text("nccl.communicator", means.communicator);
      text("nccl.communicator.name", means.communicator_name);
      text("nccl.message_size", means.message_size);
      text("nccl.algorithm", means.algorithm);
      text("nccl.protocol", means.protocol);
      text("nccl.host", means.host);
      text("slurm.job.id", means.slurm_job);
      if (means.rank >= 0) attributes.push_back({"nccl.rank", int64_t{means.rank}});
      if (means.ranks >= 0) attributes.push_back({"nccl.ranks", int64_t{means.ranks}});
      if (means.nodes >= 0) attributes.push_back({"nccl.nodes", int64_t{means.nodes}});
      known->entity =
          MakeRef<Entity>("nccl.gpu", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
    }
    known->path = page.path;
    known->means = std::move(means);
    known->is_on_page = true;
    Set(*known, out);
  }
  std::erase_if(kinds_, [&](const Kind& kind) {
    if (!kind.is_on_page) out.table().Retire(kind.entity);
    return !kind.is_on_page;
  });
}

void InspectorPages::Keep(FrameWriter& out) {
  for (const Kind& kind : kinds_) {
    for (const Series series : {kind.duration, kind.bandwidth, kind.bus_bandwidth}) {
      if (series) out.Keep(series);
    }
  }
}

}  // namespace gpulens
