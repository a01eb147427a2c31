#include "plugins/collectors/probes/probe_host.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "job_page/job_page.h"

namespace gpulens::probes {
namespace {

constexpr size_t kMostKeptNotes = 256;

std::string Percent(uint64_t ppm) {
  const std::string whole = std::to_string(ppm / 10'000);
  std::string rest = std::to_string(ppm % 10'000);
  rest.insert(0, 4 - rest.size(), '0');
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return whole + (rest.empty() ? "" : "." + rest) + " %";
}

std::string RoundedSeconds(int64_t ns) { return std::to_string((ns + 500'000'000) / 1'000'000'000) + " s"; }

std::string Bounded(std::string_view text) { return std::string(text.substr(0, kMostTextBytes)); }

void CountWord(std::map<std::string, uint64_t>& counts, std::string_view reason) {
  if (auto at = counts.find(std::string(reason)); at != counts.end()) ++at->second;
  else if (counts.size() < kMostCounters) counts.emplace(reason, 1);
}

std::vector<WordCount> WordsOf(const std::map<std::string, uint64_t>& counts) {
  std::vector<WordCount> out;
  for (const auto& [reason, count] : counts) out.push_back({.probe = {}, .reason = reason, .count = count});
  return out;
}

}  // namespace

std::vector<std::string> DefaultSwitchFiles() {
  return {std::begin(job_page::kSwitchFiles), std::end(job_page::kSwitchFiles)};
}

ProbeHost::ProbeHost(ProbeBackend& backend, ProbeHostOptions options, std::vector<std::string> switch_files)
    : backend_(backend),
      options_(std::move(options)),
      switch_files_(std::move(switch_files)),
      ability_(OpenBackend()) {}

Ability ProbeHost::OpenBackend() {
  return backend_.Open({.thread_budget_ppm = options_.thread_budget_ppm,
                        .host_budget_ppm = options_.host_budget_ppm,
                        .allow_seccomp = options_.allow_seccomp_targets,
                        .deny = options_.deny});
}

void ProbeHost::Note(std::string_view change, std::string_view reason, int64_t pid, uint32_t user,
                     std::string_view sentence) {
  notes_.push_back({.number = ++last_note_,
                    .change = std::string(change),
                    .reason = std::string(reason),
                    .pid = pid,
                    .user = user,
                    .sentence = Bounded(sentence)});
  if (notes_.size() > kMostKeptNotes) notes_.pop_front();
}

std::vector<ProbeNote> ProbeHost::NotesSince(uint64_t number) const {
  std::vector<ProbeNote> out;
  for (const ProbeNote& note : notes_) {
    if (note.number > number && out.size() < kMostNotes) out.push_back(note);
  }
  return out;
}

void ProbeHost::Remove(int64_t pid, std::string_view reason, std::string_view sentence, uint32_t user,
                       bool there) {
  const auto at = targets_.find(pid);
  if (at == targets_.end()) return;
  if (there) backend_.Detach(pid);
  std::erase_if(round_.processes, [&](const ProcessCounts& one) { return one.root == pid; });
  targets_.erase(at);
  CountWord(detached_, reason);
  Note("detached", reason, pid, user, sentence);
}

void ProbeHost::DetachAll(std::string_view reason, std::string_view sentence, Instant) {
  // First what matters, then what is reported.
  if (!targets_.empty() || backend_.links() != 0) backend_.DetachAll();
  while (!targets_.empty()) Remove(targets_.begin()->first, reason, sentence, 0, false);
}

void ProbeHost::Reload(ProbeHostOptions options, Instant now) {
  DetachAll("reload", "the configuration was read again", now);
  options_ = std::move(options);
  ability_ = OpenBackend();
  refused_starts_.clear();
  scan_at_ns_ = 0;
}

void ProbeHost::LookAtSwitch(Instant now) {
  std::string file;
  for (const std::string& one : switch_files_) {
    if (::access(one.c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
      file = one;
      break;
    }
  }
  if (file == off_file_) return;
  const bool was_off = !off_file_.empty();
  off_file_ = file;
  off_reason_.clear();
  if (file.empty()) return Note("switched_on", "", 0, 0, "probes may be attached again");
  DetachAll("switched_off", file + " is there", now);
  // What it is does not matter, so it may be anything; a pipe is not read.
  struct stat facts{};
  if (::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) {
    if (const Result<std::string> text = ReadFile(file, 4096)) {
      std::string_view rest = *text;
      off_reason_ = Bounded(Printable(Trim(TakeUntil(rest, '\n')).substr(0, kMostTextBytes / 4)));
    }
  }
  if (!was_off) Note("switched_off", "", 0, 0, file + (off_reason_.empty() ? "" : ": " + off_reason_));
}

void ProbeHost::Tick(Instant now) {
  LookAtSwitch(now);
  if (agent_seen_ns_ != 0 && now.boot_ns - agent_seen_ns_ > kAgentSilence.count()) {
    agent_seen_ns_ = 0;
    DetachAll("agent_silent", "the agent was silent for 3 s", now);
  }
  if (attached()) TakeRound(now);
  std::vector<int64_t> over;
  for (const auto& [pid, target] : targets_) {
    if (target.until_boot_ns != 0 && now.boot_ns >= target.until_boot_ns) over.push_back(pid);
  }
  for (const int64_t pid : over)
    Remove(pid, "expired", "its time is over", targets_.at(pid).shown.requested_by, true);
  AttachConfigured(now);
}

void ProbeHost::TakeRound(Instant now) {
  round_.targets.clear();
  round_.processes.clear();
  round_.changes.clear();
  backend_.Tick(now, round_);
  for (const ProbeBackend::Change& change : round_.changes) {
    const auto at = targets_.find(change.pid);
    if (at == targets_.end()) continue;
    if (change.change == "detached") CountWord(detached_, "budget");
    Note(change.change, "budget", change.pid, at->second.shown.requested_by, change.sentence);
  }
  std::vector<int64_t> ended;
  for (const ProbeBackend::Reading& reading : round_.targets) {
    const auto at = targets_.find(reading.pid);
    if (at == targets_.end()) continue;
    AttachedTarget& shown = at->second.shown;
    shown.measuring = reading.measuring;
    shown.timed_one_in = reading.timed_one_in;
    shown.share_ppm = reading.share_ppm;
    if (reading.ended) ended.push_back(reading.pid);
  }
  for (const int64_t pid : ended)
    Remove(pid, "ended", "the process ended", targets_.at(pid).shown.requested_by, true);
}

bool ProbeHost::IsConfigured(const ListedTarget& target) const {
  if (std::ranges::count(options_.executables, backend_.ProgramOf(target.pid)) != 0) return true;
  for (const std::string& user : options_.users) {
    if (user == std::to_string(target.user)) return true;
    std::array<char, 4096> room{};
    passwd entry{}, *found = nullptr;
    if (::getpwuid_r(target.user, &entry, room.data(), room.size(), &found) == 0 && found &&
        user == found->pw_name)
      return true;
  }
  const std::string cgroup = backend_.CgroupOf(target.pid);
  return std::ranges::any_of(options_.cgroups, [&](const std::string& one) {
    return cgroup.starts_with(one) &&
           (cgroup.size() == one.size() || one.ends_with('/') || cgroup[one.size()] == '/');
  });
}

void ProbeHost::AttachConfigured(Instant now) {
  if (options_.probes == 0 || agent_seen_ns_ == 0 || !off_file_.empty() || !ability_.reason.empty()) return;
  if (now.boot_ns < scan_at_ns_) return;
  scan_at_ns_ = now.boot_ns + kScanPeriod.count();
  Result<std::vector<ListedTarget>> listed = backend_.List(0);
  if (!listed) return;
  std::map<int64_t, uint64_t> still;
  for (const ListedTarget& target : *listed) {
    if (targets_.contains(target.pid) || targets_.size() >= kMostTargets || !IsConfigured(target)) continue;
    // A refusal holds for the life of the process: what it depends on does not change.
    if (refused_starts_.contains(target.pid)) {
      still[target.pid] = 1;
      continue;
    }
    ProbeRequest request;
    request.verb = RequestVerb::kAttach;
    request.pid = target.pid;
    request.probes = options_.probes;
    const ProbeReply reply = Attach(request, {.user = ::geteuid(), .privileged = true}, now);
    if (reply.refusal.empty()) targets_.at(target.pid).shown.by_configuration = true;
    else still[target.pid] = 1;
  }
  refused_starts_ = std::move(still);
}

ProbeReply ProbeHost::Refuse(std::string_view reason, std::string sentence, std::string row, int64_t pid,
                             const ProbePeer& peer) {
  CountWord(refused_, reason);
  Note("refused", reason, pid, peer.user, sentence);
  ProbeReply reply;
  reply.refusal = reason;
  reply.sentence = Bounded(sentence);
  reply.row = Bounded(row);
  return reply;
}

ProbeReply ProbeHost::Attach(const ProbeRequest& request, const ProbePeer& peer, Instant now) {
  const auto refuse = [&](std::string_view reason, std::string sentence, std::string row = {}) {
    return Refuse(reason, std::move(sentence), std::move(row), request.pid, peer);
  };
  LookAtSwitch(now);
  if (!off_file_.empty())
    return refuse("switched_off", "probes are switched off: " + off_file_ + " is there");
  if (!ability_.reason.empty()) return refuse(ability_.reason, ability_.sentence);
  if (agent_seen_ns_ == 0 || now.boot_ns - agent_seen_ns_ > kAgentSilence.count())
    return refuse("no_agent",
                  "no agent reads the counts: set collectors.probes.enabled, and start gpulens agent");
  if (options_.thread_budget_ppm == 0 || options_.host_budget_ppm == 0)
    return refuse("configuration", "the probe host could not read its configuration, or its budget is 0");
  const std::optional<uint32_t> user = backend_.UserOf(request.pid);
  if (!user) return refuse("no_process", "there is no process " + std::to_string(request.pid));
  if (!peer.privileged && !(options_.owners_may_attach && peer.user == *user)) {
    return refuse("not_permitted",
                  peer.user == *user
                      ? "only root and holders of CAP_PERFMON may attach; users may, to their own "
                        "processes, with collectors.probes.owners_may_attach"
                      : "the process belongs to another user");
  }
  if (targets_.contains(request.pid)) return refuse("attached", "it has probes already");
  if (targets_.size() >= kMostTargets)
    return refuse("too_many", std::to_string(kMostTargets) + " processes have probes already");
  uint64_t budget = options_.thread_budget_ppm;
  if (request.budget_ppm != 0) {
    if (request.budget_ppm > budget)
      return refuse("budget", "the configuration allows " + Percent(budget) + " at most");
    budget = request.budget_ppm;
  }
  ProbeBackend::Outcome outcome =
      backend_.Attach({.pid = request.pid, .probes = request.probes, .thread_budget_ppm = budget}, now);
  if (!outcome.refusal.empty())
    return refuse(outcome.refusal, std::move(outcome.sentence), std::move(outcome.row));
  Target& target = targets_[request.pid];
  target.shown.pid = request.pid;
  target.shown.user = *user;
  target.shown.requested_by = peer.user;
  target.shown.probes = outcome.probes;
  target.shown.budget_ppm = budget;
  target.shown.trouble = Bounded(outcome.trouble);
  if (request.for_ns > 0) target.until_boot_ns = now.boot_ns + request.for_ns;
  const std::string names = ProbeNames(outcome.probes);
  Note("attached", "", request.pid, peer.user,
       names + (request.for_ns > 0 ? " for " + RoundedSeconds(request.for_ns) : ""));
  ProbeReply reply;
  reply.sentence = Bounded(outcome.trouble);
  return reply;
}

ProbeReply ProbeHost::Detach(const ProbeRequest& request, const ProbePeer& peer, Instant now) {
  const auto may = [&](const Target& target) {
    return peer.privileged || peer.user == target.shown.user || peer.user == target.shown.requested_by;
  };
  ProbeReply reply;
  if (request.pid == 0 && peer.privileged) {
    DetachAll("request", "user " + std::to_string(peer.user) + " requested it", now);
    return reply;
  }
  std::vector<int64_t> pids;
  bool found = false;
  for (const auto& [pid, target] : targets_) {
    if (request.pid != 0 && pid != request.pid) continue;
    found = true;
    if (may(target)) pids.push_back(pid);
  }
  if (request.pid != 0 && !found) {
    reply.refusal = "not_attached";
    reply.sentence = "process " + std::to_string(request.pid) + " has no probes";
    return reply;
  }
  if (found && pids.empty()) {
    reply.refusal = "not_permitted";
    reply.sentence = "they were attached by another user";
    return reply;
  }
  for (const int64_t pid : pids) Remove(pid, "request", "it was requested", peer.user, true);
  return reply;
}

ProbeReply ProbeHost::Switch(const ProbeRequest& request, const ProbePeer& peer, Instant now) {
  ProbeReply reply;
  if (!peer.privileged) {
    reply.refusal = "not_permitted";
    reply.sentence = "only root and holders of CAP_PERFMON may switch probes off and on";
    return reply;
  }
  if (switch_files_.empty()) return reply;
  const std::string& file = switch_files_.front();
  if (request.switch_off) {
    // Detached first: a file system that is full must not keep probes attached.
    DetachAll("switched_off", "user " + std::to_string(peer.user) + " switched probes off", now);
    const std::string text = request.reason.empty() ? "" : request.reason + "\n";
    if (Status written = WriteFileAtomically(file, text, {.mode = 0644, .sync = false}); !written) {
      reply.refusal = "not_written";
      reply.sentence = Bounded(written.detail);
    }
  } else {
    static_cast<void>(::unlink(file.c_str()));
    for (const std::string& one : switch_files_) {
      if (::access(one.c_str(), F_OK) != 0) continue;
      reply.refusal = "switched_off";
      reply.sentence = one + " is still there";
    }
  }
  LookAtSwitch(now);
  return reply;
}

ProbeReply ProbeHost::Handle(const ProbeRequest& request, const ProbePeer& peer, Instant now) {
  ProbeReply reply;
  switch (request.verb) {
    case RequestVerb::kFrame:
      if (!peer.privileged) {
        reply.refusal = "not_permitted";
        reply.sentence = "only an agent of root or of the probe host's user may hold probes";
        return reply;
      }
      agent_seen_ns_ = now.boot_ns;
      reply.status = MakeStatus(now, true);
      reply.status.notes = NotesSince(request.seen_notes);
      return reply;
    case RequestVerb::kStatus:
      LookAtSwitch(now);
      reply.status = MakeStatus(now, true);
      if (!peer.privileged) {
        std::erase_if(reply.status.targets, [&](const AttachedTarget& target) {
          return target.user != peer.user && target.requested_by != peer.user;
        });
        std::erase_if(reply.status.processes, [&](const ProcessCounts& process) {
          return std::ranges::none_of(
              reply.status.targets, [&](const AttachedTarget& target) { return target.pid == process.root; });
        });
      }
      return reply;
    case RequestVerb::kList: {
      LookAtSwitch(now);
      Result<std::vector<ListedTarget>> listed = backend_.List(request.pid);
      if (!listed) {
        reply.refusal = "cannot_list";
        reply.sentence = Bounded(listed.error().detail);
      } else {
        reply.targets = *std::move(listed);
      }
      if (!peer.privileged)
        std::erase_if(reply.targets, [&](const ListedTarget& one) { return one.user != peer.user; });
      if (reply.targets.size() > kMostListed) reply.targets.resize(kMostListed);
      for (ListedTarget& target : reply.targets) {
        target.attached = targets_.contains(target.pid);
        if (target.points.size() > kMostPoints) target.points.resize(kMostPoints);
      }
      break;
    }
    case RequestVerb::kAttach: reply = Attach(request, peer, now); break;
    case RequestVerb::kDetach: reply = Detach(request, peer, now); break;
    case RequestVerb::kSwitch: reply = Switch(request, peer, now); break;
    case RequestVerb::kCount: break;
  }
  reply.status = MakeStatus(now, false);
  if (!peer.privileged) reply.status.targets.clear();
  return reply;
}

HostStatus ProbeHost::MakeStatus(Instant now, bool with_counts) const {
  HostStatus out;
  out.pid = ::getpid();
  out.mechanism = ability_.mechanism;
  out.reason = ability_.reason;
  out.sentence = Bounded(ability_.sentence);
  out.switched_off = !off_file_.empty();
  out.switch_file = Bounded(off_file_);
  out.switch_reason = off_reason_;
  out.links = backend_.links();
  out.thread_budget_ppm = options_.thread_budget_ppm;
  out.host_budget_ppm = options_.host_budget_ppm;
  if (agent_seen_ns_ != 0)
    out.agent_age_ns = static_cast<uint64_t>(std::max<int64_t>(now.boot_ns - agent_seen_ns_, 1));
  out.entry_cost_ns = ability_.entry_cost_ns;
  out.pair_cost_ns = ability_.pair_cost_ns;
  for (const auto& [pid, target] : targets_) {
    AttachedTarget shown = target.shown;
    if (target.until_boot_ns != 0)
      shown.left_ns = static_cast<uint64_t>(std::max<int64_t>(target.until_boot_ns - now.boot_ns, 1));
    out.targets.push_back(std::move(shown));
  }
  if (with_counts) out.processes = round_.processes;
  if (out.processes.size() > kMostProcesses) out.processes.resize(kMostProcesses);
  out.events = round_.events;
  out.cost_ns = round_.cost_ns;
  out.lost = round_.lost;
  out.detached = WordsOf(detached_);
  out.refused = WordsOf(refused_);
  return out;
}

}  // namespace gpulens::probes
