#include "plugins/collectors/nccl/ras_feed.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/result.h"
#include "catalog/events.h"
#include "catalog/nccl.h"
#include "plugins/collectors/nccl/rank_table.h"

namespace gpulens {
namespace {

using job_page::Function;
using nccl_ras::RasCommunicator;
using nccl_ras::RasMissingRank;
using nccl_ras::RasRank;

constexpr std::string_view kDefaultRas = "127.0.0.1:28028";
// A communicator that is in no state any more was destroyed.
constexpr Duration kRasForgetAfter = std::chrono::minutes(5);

}  // namespace

Result<Endpoint> RasAddress(const std::string& text) {
  std::string address = text;
  if (address == "auto") {
    const char* given = ::getenv("NCCL_RAS_ADDR");
    address = given && *given ? given : kDefaultRas;
  }
  return ParseListenAddress(address);
}

void RasFeed::Take(const nccl_ras::RasReport& report, Instant now) {
  taken_ = now;
  suspicious_ = false;
  for (const RasCommunicator& state : report.communicators) {
    Communicator& communicator = communicators_[state.hash];
    for (const RasRank& rank : state.ranks) {
      const auto before = std::ranges::find(communicator.state.ranks, rank.rank, &RasRank::rank);
      const bool same = before != communicator.state.ranks.end() && before->counts == rank.counts;
      if (!same || !communicator.changed.contains(rank.rank)) communicator.changed[rank.rank] = now;
      const auto differs = [&](const RasRank& other) {
        return other.has_counts && other.counts != rank.counts;
      };
      suspicious_ = suspicious_ || (rank.has_counts && std::ranges::any_of(state.ranks, differs));
    }
    suspicious_ = suspicious_ || !state.missing.empty();
    communicator.in_error = std::ranges::count_if(state.ranks, &RasRank::error);
    communicator.state = state;
    communicator.seen = now;
  }
}

void RasFeed::Feed(DiagnosisFeed& feed, Instant now, Duration max_age) const {
  if (taken_.boot_ns == 0 || now - taken_ > max_age) return;
  for (const auto& [hash, communicator] : communicators_) {
    if (communicator.seen != taken_) continue;
    const RasCommunicator& state = communicator.state;
    // A collective that a rank has not called is not done on any.
    std::array<uint64_t, job_page::kFunctions> least{};
    least.fill(UINT64_MAX);
    for (const RasRank& rank : state.ranks) {
      for (size_t i = 0; i < least.size() && rank.has_counts; ++i)
        least[i] = std::min(least[i], rank.counts[i]);
    }
    for (const RasRank& rank : state.ranks) {
      collectives::Member member;
      member.hash = hash;
      member.rank = rank.rank;
      member.ranks = state.size;
      member.closed = rank.closing;
      const auto changed = communicator.changed.find(rank.rank);
      for (size_t i = 0; i < static_cast<size_t>(Function::kCount) && rank.has_counts; ++i) {
        // Sends and receives are not called by all ranks.
        const auto function = static_cast<Function>(i);
        if (rank.counts[i] == 0 || function == Function::kSend || function == Function::kReceive) continue;
        collectives::Progress& progress = member.progress.emplace_back();
        progress.function = function;
        progress.enqueued = rank.counts[i];
        progress.started = progress.done = std::min(least[i], rank.counts[i]);
        if (changed != communicator.changed.end()) progress.idle_ns = (now - changed->second).count();
      }
      collectives::Process process;
      process.host = rank.host;
      process.pid = rank.pid;
      process.state = collectives::ProcessState::kRuns;
      feed.TakeMember(std::move(member), process);
    }
    for (const RasMissingRank& rank : state.missing) {
      collectives::Member member;
      member.hash = hash;
      member.rank = rank.rank;
      member.ranks = state.size;
      collectives::Process process;
      process.host = rank.host;
      process.pid = rank.pid;
      if (rank.dead) process.state = collectives::ProcessState::kGone;
      feed.TakeMember(std::move(member), process);
    }
  }
}

void RasFeed::Write(FrameWriter& out) {
  const Instant now = out.begun_at();
  for (auto at = communicators_.begin(); at != communicators_.end();) {
    Communicator& communicator = at->second;
    if (now - communicator.seen > kRasForgetAfter) {
      if (communicator.entity) out.table().Retire(communicator.entity);
      at = communicators_.erase(at);
      continue;
    }
    if (!communicator.entity) {
      const std::string hash = CommunicatorText(at->first);
      communicator.entity =
          MakeRef<Entity>("nccl.communicator", AttributeSet({{"nccl.communicator", std::string_view(hash)}}));
    }
    out.DeclareAndSet(communicator.errors, kNcclCommunicatorErrors, communicator.entity, {},
                      communicator.in_error);
    ++at;
  }
}

void RasFeed::Report(const nccl_ras::RasEvent& event, Instant now, EventQueue* queue) {
  if (!queue || !event.name.starts_with("PEER_")) return;
  Event out;
  out.at = now;
  out.name = kEventNcclPeer.name;
  const std::string change = event.name.substr(5);
  std::vector<AttributeSet::Attribute> attributes = {{"nccl.change", std::string_view(change)},
                                                     {"event.source", "nccl_ras"}};
  if (!event.host.empty()) attributes.push_back({"nccl.host", std::string_view(event.host)});
  if (event.pid > 0) attributes.push_back({"process.pid", int64_t{event.pid}});
  out.attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
  out.body = "NCCL's RAS reports " + event.name + " of process " + std::to_string(event.pid) + " on " +
             event.host + (event.details.empty() ? "" : ": " + event.details);
  if (change != "DEAD") out.severity = EventSeverity::kWarning;
  queue->Report(std::move(out));
}

}  // namespace gpulens
