#include "plugins/collectors/nccl/diagnosis_feed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "catalog/events.h"
#include "catalog/nccl.h"
#include "plugins/collectors/nccl/rank_table.h"

namespace gpulens {
namespace {

using collectives::Batch;
using collectives::Fault;
using collectives::FaultChange;
using collectives::FaultKind;
using collectives::Function;
using collectives::Measured;
using collectives::Member;
using collectives::Process;
using collectives::ProcessState;
using collectives::ProxyWait;

// Ranks of files of which nothing comes any more.
constexpr Duration kForgetAfter = std::chrono::minutes(10);

}  // namespace

DiagnosisFeed::Rank& DiagnosisFeed::RankOf(uint64_t communicator, int32_t rank) {
  std::unique_ptr<Rank>& made = ranks_[{communicator, rank}];
  if (!made) {
    made = std::make_unique<Rank>(communicator);
    made->member.hash = communicator;
    made->member.rank = rank;
  }
  return *made;
}

void DiagnosisFeed::TakePage(const JobPageView& view, const Process& process, Instant now) {
  for (const job_page::CommunicatorCopy& copy : view.page.communicators) {
    const job_page::CommunicatorIdentity& who = *copy.identity;
    if (who.ranks < 2) continue;
    Rank& rank = RankOf(who.hash, who.rank);
    rank.page = view.owner.id;
    rank.process = process;
    if (!who.device_id.empty()) rank.process.gpu = who.device_id;
    rank.seen = now;
    rank.ended = view.ended;
    rank.member.ranks = who.ranks;
    rank.member.name = who.name;
    rank.member.closed = copy.closed;
    rank.member.progress.clear();
    for (size_t i = 0; i < static_cast<size_t>(Function::kCount); ++i) {
      const job_page::ProgressCopy& progress = copy.functions[i];
      if (progress.enqueued == 0) continue;
      collectives::Progress& out = rank.member.progress.emplace_back();
      out.function = static_cast<Function>(i);
      out.enqueued = progress.enqueued;
      out.started = progress.started;
      out.done = progress.done;
      out.idle_ns = progress.changed_boot_ns == 0
                        ? 0
                        : std::max<int64_t>(now.boot_ns - static_cast<int64_t>(progress.changed_boot_ns), 0);
    }
  }
  TakeLinks(view);
  for (const job_page::RecordCopy& record : view.records) {
    if (!record.communicator || record.timing == job_page::Timing::kNone || record.communicator->ranks < 2)
      continue;
    const auto found = ranks_.find({record.communicator->hash, record.communicator->rank});
    if (found == ranks_.end()) continue;
    Rank& rank = *found->second;
    rank.sampler.Add(Measured{.function = record.function,
                              .algorithm = record.algorithm,
                              .protocol = record.protocol,
                              .sequence = record.sequence,
                              .bytes = record.bytes,
                              .duration_ns = record.duration_ns(),
                              .ended_ns = static_cast<int64_t>(record.ended_boot_ns)},
                     rank.member.samples);
  }
}

void DiagnosisFeed::TakeLinks(const JobPageView& view) {
  using job_page::StepWait;
  // In the order of what explains most: data that the network has and does not deliver is a link's fault, and
  // all else is a consequence of it.
  constexpr std::pair<StepWait, ProxyWait> kWaits[] = {{StepWait::kSend, ProxyWait::kSend},
                                                       {StepWait::kCredit, ProxyWait::kPeerCredit},
                                                       {StepWait::kReceive, ProxyWait::kReceive},
                                                       {StepWait::kGpu, ProxyWait::kGpu}};
  for (const job_page::LinkCopy& link : view.page.links) {
    const auto found = ranks_.find({link.communicator->hash, link.communicator->rank});
    if (found == ranks_.end() || found->second->page != view.owner.id) continue;
    Rank& rank = *found->second;
    const auto [at, added] = rank.sent.try_emplace(link.peer, Rank::Sent{link.sent, link.send_ns});
    const Rank::Sent before = std::exchange(at->second, {link.sent, link.send_ns});
    // Another place in the page begins with other numbers.
    if (link.sent > before.steps && link.send_ns >= before.ns)
      rank.member.links.push_back({link.peer, (link.send_ns - before.ns) / (link.sent - before.steps)});
    for (collectives::Progress& progress : rank.member.progress) {
      if (progress.enqueued <= progress.done) continue;
      // A send waits for whom it sends to, a receive for whom it receives from.
      const bool sends = progress.function != Function::kReceive,
                 receives = progress.function != Function::kSend;
      for (const auto& [step, wait] : kWaits) {
        if (wait == progress.wait) break;
        if (link.waiting[static_cast<size_t>(step)] == 0) continue;
        if (wait == ProxyWait::kReceive ? !receives : wait != ProxyWait::kGpu && !sends) continue;
        progress.wait = wait;
        progress.peer = wait == ProxyWait::kGpu ? -1 : link.peer;
        break;
      }
    }
  }
}

void DiagnosisFeed::TakeRecord(const nccl_files::InspectorRecord& record, Instant now) {
  using nccl_files::TimingSource;
  if (record.point_to_point || record.communicator == 0 || record.ranks < 2 || record.sequence < 0 ||
      !(record.duration_us >= 0) || record.function == Function::kOther)
    return;
  if (record.timing != TimingSource::kKernelGpu && record.timing != TimingSource::kKernelCpu) return;
  Rank& rank = RankOf(record.communicator, record.rank);
  if (rank.page != 0) return;
  rank.seen = now;
  rank.member.ranks = record.ranks;
  rank.member.name = record.communicator_name;
  rank.process.host = record.host;
  rank.process.pid = record.pid;
  rank.sampler.Add(
      Measured{.function = record.function,
               .sequence = static_cast<uint64_t>(record.sequence),
               .bytes = static_cast<uint64_t>(std::max<int64_t>(record.bytes, 0)),
               .duration_ns = static_cast<uint64_t>(record.duration_us * 1000),
               .ended_ns = record.dumped_unix_us >= 0 ? record.dumped_unix_us * 1000 : now.unix_ns},
      rank.member.samples);
}

void DiagnosisFeed::TakeMember(Member member, const Process& process) {
  const auto known = ranks_.find({member.hash, member.rank});
  if (known != ranks_.end() && known->second->page != 0) return;
  others_.emplace_back(std::move(member), process);
}

Batch DiagnosisFeed::Make(Instant now) {
  Batch batch;
  batch.sender = sender_;
  batch.number = ++number_;
  batch.made_boot_ns = now.boot_ns;
  // Files and RAS do not name the job; the pages of the same communicator do. Ranks of one communicator must
  // not seem to be of two jobs: it would be two communicators.
  std::map<uint64_t, std::string> jobs;
  for (const auto& [key, rank] : ranks_) {
    if (rank->process.job.empty()) continue;
    const auto [at, added] = jobs.try_emplace(key.first, rank->process.job);
    if (!added && at->second != rank->process.job) at->second.clear();
  }
  const auto add = [&](Member member, Process process) {
    if (process.job.empty()) {
      if (const auto job = jobs.find(member.hash); job != jobs.end()) process.job = job->second;
    }
    auto at = std::ranges::find(batch.processes, process);
    if (at == batch.processes.end()) at = batch.processes.insert(at, process);
    member.process = static_cast<uint32_t>(at - batch.processes.begin());
    batch.members.push_back(std::move(member));
  };
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    Rank& rank = *at->second;
    if (rank.page != 0 || !rank.member.samples.empty()) {
      if (rank.ended) rank.process.state = ProcessState::kGone;
      add(rank.member, rank.process);
    }
    rank.member.samples.clear();
    rank.member.links.clear();
    const bool over = rank.ended || now - rank.seen > kForgetAfter;
    at = over ? ranks_.erase(at) : std::next(at);
  }
  for (auto& [member, process] : others_) add(std::move(member), process);
  others_.clear();
  return batch;
}

DiagnosisSeries::Place& DiagnosisSeries::PlaceOf(uint64_t communicator, int32_t rank, std::string_view name,
                                                 const Process* process) {
  Place& place = places_[{communicator, rank}];
  if (!place.entity) {
    const std::string hash = CommunicatorText(communicator);
    std::vector<AttributeSet::Attribute> attributes = {{"nccl.communicator", std::string_view(hash)}};
    if (!name.empty()) attributes.push_back({"nccl.communicator.name", name});
    if (rank >= 0) attributes.push_back({"nccl.rank", int64_t{rank}});
    if (process && !process->host.empty())
      attributes.push_back({"nccl.host", std::string_view(process->host)});
    if (simulated_.contains(communicator)) attributes.push_back({"simulated", true});
    place.entity = MakeRef<Entity>(rank >= 0 ? "nccl.rank" : "nccl.communicator",
                                   AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
  }
  place.seen = run_;
  return place;
}

void DiagnosisSeries::Write(const collectives::Diagnosis& diagnosis, FrameWriter& out) {
  ++run_;
  const auto full = [&](uint64_t communicator, int32_t rank) {
    return places_.size() >= kMostPlaces && !places_.contains({communicator, rank});
  };
  diagnosis.ForEachRank([&](const collectives::RankState& state) {
    if (full(state.communicator, state.rank)) return;
    Place& place = PlaceOf(state.communicator, state.rank, state.communicator_name, state.process);
    if (std::isfinite(state.lateness_s))
      out.DeclareAndSet(place.lateness, kNcclRankLateness, place.entity, {}, state.lateness_s);
    if (std::isfinite(state.lost_time_s))
      out.DeclareAndSet(place.lost, kNcclRankLostTime, place.entity, {}, state.lost_time_s);
    out.DeclareAndSet(place.straggler, kNcclRankStraggler, place.entity, {}, int64_t{state.slow});
  });
  diagnosis.ForEachCommunicator([&](const collectives::CommunicatorState& state) {
    if (full(state.communicator, -1)) return;
    Place& place = PlaceOf(state.communicator, -1, state.name, nullptr);
    if (state.pending_s > 0)
      out.DeclareAndSet(place.pending, kNcclCommunicatorPendingAge, place.entity, {}, state.pending_s);
    else if (place.pending) out.Clear(place.pending);
    out.DeclareAndSet(place.hung, kNcclCommunicatorHung, place.entity, {}, int64_t{state.hung});
    out.DeclareAndSet(place.missing, kNcclCommunicatorRanksMissing, place.entity, {}, int64_t{state.missing});
    out.DeclareAndSet(place.ranks, kNcclCommunicatorRanks, place.entity, {}, int64_t{state.ranks});
  });
  std::erase_if(places_, [&](const auto& place) {
    if (place.second.seen == run_) return false;
    out.table().Retire(place.second.entity);
    return true;
  });
}

void DiagnosisSeries::Report(const std::vector<FaultChange>& changes, Instant now, EventQueue* queue) const {
  if (!queue) return;
  for (const FaultChange& change : changes) {
    const Fault& fault = change.fault;
    const bool cleared = change.kind == FaultChange::Kind::kCleared;
    Event event;
    event.at = now;
    event.name = fault.kind == FaultKind::kHang       ? kEventNcclHang.name
                 : fault.kind == FaultKind::kSlowRank ? kEventNcclStraggler.name
                                                      : kEventNcclLinkSlow.name;
    std::string ranks, hosts, gpus, jobs;
    const auto list = [](std::string& to, const std::string& word) {
      if (word.empty() || to.size() > 256) return;
      if (to.find(word) == std::string::npos) to += (to.empty() ? "" : ",") + word;
    };
    for (const collectives::Culprit& culprit : fault.culprits) {
      if (culprit.rank >= 0 && ranks.size() < 256)
        ranks += (ranks.empty() ? "" : ",") + std::to_string(culprit.rank);
      list(hosts, culprit.process.host);
      list(gpus, culprit.process.gpu);
      list(jobs, culprit.process.job);
    }
    const std::string hash = CommunicatorText(fault.communicator);
    std::vector<AttributeSet::Attribute> attributes = {
        {"nccl.change", std::string_view(cleared                                      ? "cleared"
                                         : change.kind == FaultChange::Kind::kChanged ? "changed"
                                                                                      : "raised")},
        {"nccl.communicator", std::string_view(hash)},
        {"nccl.cause", collectives::NameOf(fault.cause)},
        {"nccl.scope", collectives::NameOf(fault.scope)},
        {"nccl.confidence", fault.confidence},
        {"nccl.ranks.affected", int64_t{fault.affected_ranks}},
        {"event.source", "nccl"},
    };
    const auto text = [&](std::string_view key, std::string_view value) {
      if (!value.empty()) attributes.push_back({key, value});
    };
    text("nccl.communicator.name", fault.communicator_name);
    text("nccl.rank", ranks);
    text("nccl.host", hosts);
    text("nccl.gpu", gpus);
    text("nccl.job", jobs);
    if (simulated_.contains(fault.communicator)) attributes.push_back({"simulated", true});
    if (fault.kind == FaultKind::kHang) text("nccl.hang.kind", collectives::NameOf(fault.hang));
    event.attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
    event.body = fault.evidence;
    if (cleared) event.body.insert(0, "It is over: ");
    else if (change.kind == FaultChange::Kind::kChanged) event.body.insert(0, "More is known: ");
    if (cleared) event.severity = EventSeverity::kInfo;
    queue->Report(std::move(event));
  }
}

}  // namespace gpulens
