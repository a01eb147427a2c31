#include "plugins/collectors/nccl/slowest_rule.h"

#include <algorithm>
#include <utility>

namespace gpulens {

void SlowestRule::Add(const nccl_files::InspectorRecord& record, Instant now) {
  if (!(record.duration_us >= 0) || record.point_to_point) return;
  const bool numbered = record.sequence >= 0;
  const Key key{record.communicator, record.operation, record.sequence, numbered ? 0 : record.bytes};
  if (waiting_.size() >= options_.operations && !waiting_.contains(key)) return;
  Waiting& operation = waiting_[key];
  if (operation.parts.empty()) operation.since = now;
  operation.ranks = std::max(operation.ranks, record.ranks);
  operation.touched = true;
  const auto known = std::ranges::find(operation.parts, record.rank, &Part::rank);
  if (known == operation.parts.end()) operation.parts.push_back({record.rank, record.duration_us});
  else known->duration_us = numbered ? record.duration_us : std::max(known->duration_us, record.duration_us);
}

void SlowestRule::Evaluate(Instant now,
                           const std::function<void(uint64_t, int32_t, const std::string&, bool)>& found) {
  std::vector<double> sorted;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const Key& key = at->first;
    Waiting& operation = at->second;
    if (std::exchange(operation.touched, false) && !operation.parts.empty()) {
      sorted.clear();
      for (const Part& part : operation.parts) sorted.push_back(part.duration_us);
      // The lower one of two in the middle: of two ranks, the faster.
      const auto middle = sorted.begin() + static_cast<ptrdiff_t>((sorted.size() - 1) / 2);
      std::ranges::nth_element(sorted, middle);
      for (const Part& part : operation.parts) {
        const double more = part.duration_us - *middle;
        const bool slowest = more > options_.threshold_us ||
                             (more >= options_.least_us && part.duration_us > options_.ratio * *middle);
        found(std::get<0>(key), part.rank, std::get<1>(key), slowest);
      }
    }
    const bool whole = operation.ranks > 0 && operation.parts.size() >= static_cast<size_t>(operation.ranks);
    const bool over = whole || std::get<2>(key) < 0 || now - operation.since > options_.wait;
    at = over ? waiting_.erase(at) : std::next(at);
  }
}

}  // namespace gpulens
