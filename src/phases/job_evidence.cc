#include "phases/job_evidence.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gpulens::phases {
namespace {

constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

int64_t Signed(uint64_t ns) noexcept {
  return static_cast<int64_t>(std::min<uint64_t>(ns, static_cast<uint64_t>(kOpen)));
}

uint64_t Growth(uint64_t before, uint64_t now) noexcept { return now > before ? now - before : 0; }

}  // namespace

JobEvidence::Sums JobEvidence::SumsOf(const job_page::PageCopy& page) {
  Sums sums;
  if (page.data_loading) sums.wait_ns = page.data_loading->wait.sum_ns;
  for (const job_page::CudaDeviceCopy& device : page.devices) {
    for (uint64_t launches : device.launches) sums.launches += launches;
    sums.sync_ns += device.sync_wait.sum_ns;
    sums.kernels += device.kernel.count;
    if (device.device < sums.busy_ns.size()) sums.busy_ns[device.device] = device.busy_ns;
  }
  return sums;
}

void JobEvidence::ReadCollectives(const job_page::PageCopy& page, Records records) {
  for (const job_page::RecordCopy& record : records) {
    if (record.timing == job_page::Timing::kNone || record.ended_boot_ns == 0) continue;
    const auto duration = Signed(record.duration_ns());
    // Times of the device are on another clock: it ended about when the writer saw it end.
    const bool host = record.timing != job_page::Timing::kDevice;
    const int64_t end = Signed(host ? record.end_ns : record.ended_boot_ns);
    collectives_.emplace_back(end - duration, end);
    ended_ns_ += duration;
  }
  for (const job_page::CommunicatorCopy& communicator : page.communicators) {
    if (communicator.closed) continue;
    for (const job_page::ProgressCopy& progress : communicator.functions) {
      if (progress.started > progress.done)
        collectives_.emplace_back(Signed(progress.changed_boot_ns), kOpen);
    }
  }
}

void JobEvidence::Read(const job_page::PageCopy& page, Records records, Edges edges) {
  const auto writer = static_cast<size_t>(page.writer);
  if (writer >= pages_.size()) return;
  PageState& state = pages_[writer];
  if (state.read) return;
  state.read = true;
  state.opened_ns = Signed(page.opened_boot_ns);
  state.now = SumsOf(page);
  state.open_since_ns = page.data_loading ? Signed(page.data_loading->open_since_boot_ns) : 0;
  if (state.now.kernels > 0) kernel_times_ = true;
  ReadCollectives(page, records);
  if (page.phases) {
    marks_ = true;
    for (const job_page::PhaseEdgeCopy& edge : edges)
      marks_read_.emplace_back(edge.phase, Signed(edge.boot_ns));
    // Also where the ring has lost edges.
    marks_read_.emplace_back(page.phases->current, Signed(page.phases->since_boot_ns));
  }
}

// The time with a collective in this stretch.
int64_t JobEvidence::MergeCollectives(int64_t from_ns, int64_t to_ns) {
  for (Span& span : collectives_)
    span = {std::clamp(span.first, from_ns, to_ns), std::clamp(span.second, from_ns, to_ns)};
  std::sort(collectives_.begin(), collectives_.end());
  int64_t sum = 0, end = from_ns;
  for (auto [begin, until] : collectives_) {
    sum += std::max<int64_t>(0, until - std::max(begin, end));
    end = std::max(end, until);
  }
  return sum;
}

void JobEvidence::GiveWaits(PageState& page, const Sums& growth, int64_t now_ns, ProcessPhases& phases) {
  // Of a wait that was open at the last read, a part was given as an interval.
  int64_t ended = Signed(growth.wait_ns);
  if (page.counted_ns > 0 && page.open_since_ns != page.counted_since_ns) {
    ended -= page.counted_ns;
    page.counted_ns = 0;
  }
  if (page.open_since_ns > 0) {
    const int64_t from = std::max(page.open_since_ns, phases.settled_ns());
    phases.Interval(Evidence::kDataWait, from, now_ns);
    if (page.counted_since_ns != page.open_since_ns) page.counted_ns = 0;
    page.counted_since_ns = page.open_since_ns;
    page.counted_ns += std::max<int64_t>(0, now_ns - from);
  }
  phases.Amount(Evidence::kDataWait, Phase::kDataLoading, ended);
}

void JobEvidence::GiveDevice(const Sums& growth, int64_t now_ns, ProcessPhases& phases) {
  const int64_t from = phases.settled_ns(), stretch = now_ns - from;
  const int64_t collective = MergeCollectives(from, now_ns);
  if (!kernel_times_) {
    for (auto [begin, end] : collectives_) phases.Interval(Evidence::kCollective, begin, end);
    // Launches alone have no duration.
    if (growth.launches > 0) phases.Interval(Evidence::kDevice, from, now_ns);
    else phases.Amount(Evidence::kDevice, Phase::kGpuCompute, Signed(growth.sync_ns));
    return;
  }
  // Kernels of collectives are among those of the device, and like them known when they have ended. The least
  // that collectives must overlap with others, as all have to fit into the stretch, is not exposed.
  const int64_t busy = Signed(*std::max_element(growth.busy_ns.begin(), growth.busy_ns.end()));
  const int64_t own = std::max<int64_t>(0, busy - ended_ns_);
  const int64_t exposed = std::clamp<int64_t>(stretch - own, 0, collective);
  phases.Amount(Evidence::kExposed, Phase::kNcclCollective, exposed);
  phases.Amount(Evidence::kDevice, Phase::kGpuCompute, own);
}

void JobEvidence::Give(int64_t now_ns, ProcessPhases& phases) {
  for (auto [phase, at] : marks_read_) phases.Mark(phase, at);
  marks_read_.clear();
  Sums all;
  for (PageState& page : pages_) {
    if (!std::exchange(page.read, false)) continue;
    if (!page.known && page.opened_ns < phases.settled_ns()) page.before = page.now;
    page.known = true;
    Sums growth;
    growth.wait_ns = Growth(page.before.wait_ns, page.now.wait_ns);
    growth.launches = Growth(page.before.launches, page.now.launches);
    growth.sync_ns = Growth(page.before.sync_ns, page.now.sync_ns);
    for (size_t i = 0; i < growth.busy_ns.size(); ++i)
      growth.busy_ns[i] = Growth(page.before.busy_ns[i], page.now.busy_ns[i]);
    page.before = page.now;
    GiveWaits(page, growth, now_ns, phases);
    all.launches += growth.launches;
    all.sync_ns += growth.sync_ns;
    for (size_t i = 0; i < all.busy_ns.size(); ++i) all.busy_ns[i] += growth.busy_ns[i];
  }
  GiveDevice(all, now_ns, phases);
  collectives_.clear();
  ended_ns_ = 0;
}

}  // namespace gpulens::phases
