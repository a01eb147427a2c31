// Collector of the containers that hold a GPU, a share or a slice of one, to join other series with. The data
// is the enricher kubernetes's; the series of a shared GPU itself can only list its holders.

#include <unordered_map>
#include <utility>

#include "catalog/kubernetes.h"
#include "plugins/gpu_pod_table.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr std::string_view kNoEnricher = "no pods are known: the kubernetes enricher does not run here";

class GpuPods final : public Collector {
 public:
  explicit GpuPods(const GpuPodTable& board) : board_(board) {}

  Status Collect(FrameWriter& out) override {
    auto list = board_.Get();
    if (list != list_) Update(std::move(list), out);
    for (const auto& [hash, holding] : holdings_) out.Set(holding.series, 1);
    return list_ ? Ok() : Status{Code::kUnavailable, std::string(kNoEnricher)};
  }

 private:
  struct Holding {
    EntityRef entity;
    Series series;
    uint64_t round = 0;
  };

  void Update(std::shared_ptr<const GpuPodTable::List> list, FrameWriter& out) {
    list_ = std::move(list);
    ++round_;
    for (size_t i = 0; list_ && i < list_->size(); ++i) {
      const AttributeSet& set = (*list_)[i];
      Holding& holding = holdings_[set.hash()];
      if (!holding.entity) {
        holding.entity = MakeRef<Entity>("gpu.pod", set);
        holding.series = out.table().Declare(kGpuPodInfo, holding.entity);
      }
      holding.round = round_;
    }
    std::erase_if(holdings_, [&](const auto& entry) {
      const bool gone = entry.second.round != round_;
      if (gone) out.table().Retire(entry.second.entity);
      return gone;
    });
  }

  const GpuPodTable& board_;
  std::shared_ptr<const GpuPodTable::List> list_;   // as it was last written
  std::unordered_map<uint64_t, Holding> holdings_;  // by the hash of their attributes
  uint64_t round_ = 0;
};

Result<std::unique_ptr<Collector>> Create(const Config&, Env& env) {
  if (!env.gpu_pods || !env.gpu_pods->Get()) return Status{Code::kUnavailable, std::string(kNoEnricher)};
  return std::unique_ptr<Collector>(std::make_unique<GpuPods>(*env.gpu_pods));
}

std::vector<Finding> Probe(const Config&, Env& env) {
  auto list = env.gpu_pods ? env.gpu_pods->Get() : nullptr;
  Finding finding;
  finding.subject = "gpu_pods";
  if (list) {
    finding.what = std::to_string(list->size()) + " holdings of GPUs by pods";
  } else {
    finding.kind = Finding::kNotHere;
    finding.why = kNoEnricher;
  }
  return {finding};
}

}  // namespace

extern const CollectorSpec gpu_pods_collector;
const CollectorSpec gpu_pods_collector{.name = "gpu_pods",
                                       .help = "Which pods hold which GPUs, shares and slices, to join with.",
                                       .period = seconds(5),
                                       .ttl = seconds(15),
                                       .metrics = kGpuPodRows,
                                       .create = &Create,
                                       .probe = &Probe};

}  // namespace gpulens
