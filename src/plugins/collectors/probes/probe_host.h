// The probe host: attaches probes to processes for those who may request it, and removes them when the time
// is over, the budget is exceeded, the agent is silent or probes are switched off.
//
// A pure object over a ProbeBackend and a time that is passed in; probe_process.h runs it. Used by one
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plugins/collectors/probes/probe_backend.h"
#include "plugins/collectors/probes/probe_protocol.h"

namespace gpulens::probes {

struct ProbeHostOptions {
  uint64_t thread_budget_ppm = 2000;  // of the hottest thread
  uint64_t host_budget_ppm = 10'000;  // of one CPU, all targets together
  bool owners_may_attach = false;     // a user to own processes
  bool allow_seccomp_targets = false;
  std::vector<bpf::MachineRefusal> deny;  // machines on which nothing is attached
  // Attached without a request, where any of the lists names the process.
  uint8_t probes = 0;
  std::vector<std::string> users, cgroups, executables;

  friend bool operator==(const ProbeHostOptions&, const ProbeHostOptions&) = default;
};

// Files whose existence switches probes off; the first is made by `gpulens probe kill-switch on`.
std::vector<std::string> DefaultSwitchFiles();

// Who is at the other end of the socket, as the kernel reports it.
struct ProbePeer {
  uint32_t user = 0;
  bool privileged = false;  // root, has CAP_PERFMON, or is the user of this process
};

class ProbeHost {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(250);
  static constexpr Duration kAgentSilence = std::chrono::seconds(3);
  static constexpr Duration kScanPeriod = std::chrono::seconds(5);

  // `user_name`: the name of a user's number, for the option `users`; may be empty.
  ProbeHost(ProbeBackend& backend, ProbeHostOptions options, std::vector<std::string> switch_files);

  ProbeReply Handle(const ProbeRequest& request, const ProbePeer& peer, Instant now);
  // Each kTick while anything is attached, else when it suits: reads counts, looks at the switch, at the end
  // of times and at the agent.
  void Tick(Instant now);
  // Detaches everything, as a new configuration may forbid it.
  void Reload(ProbeHostOptions options, Instant now);
  void DetachAll(std::string_view reason, std::string_view sentence, Instant now);

  bool attached() const noexcept { return !targets_.empty(); }
  // Whether Tick has to run each kTick.
  bool busy() const noexcept { return attached() || (options_.probes != 0 && agent_seen_ns_ != 0); }
  // Until the next Tick, while busy().
  Duration wait() const { return std::min(kTick, backend_.wait()); }
  const Ability& ability() const noexcept { return ability_; }
  // Notes since `number`, for the process's own log.
  std::vector<ProbeNote> NotesSince(uint64_t number) const;

 private:
  struct Target {
    AttachedTarget shown;
    int64_t until_boot_ns = 0;  // 0: not limited
  };

  // Removes it from the backend, too, unless it is gone there.
  void Remove(int64_t pid, std::string_view reason, std::string_view sentence, uint32_t user, bool there);
  void Note(std::string_view change, std::string_view reason, int64_t pid, uint32_t user,
            std::string_view sentence);
  void LookAtSwitch(Instant now);
  void TakeRound(Instant now);
  void AttachConfigured(Instant now);
  bool IsConfigured(const ListedTarget& target) const;
  ProbeReply Attach(const ProbeRequest& request, const ProbePeer& peer, Instant now);
  ProbeReply Refuse(std::string_view reason, std::string sentence, std::string row, int64_t pid,
                    const ProbePeer& peer);
  ProbeReply Detach(const ProbeRequest& request, const ProbePeer& peer, Instant now);
  ProbeReply Switch(const ProbeRequest& request, const ProbePeer& peer, Instant now);
  HostStatus MakeStatus(Instant now, bool with_counts) const;
  Ability OpenBackend();

  ProbeBackend& backend_;
  ProbeHostOptions options_;
  const std::vector<std::string> switch_files_;
  Ability ability_;
  std::map<int64_t, Target> targets_;
  std::map<std::string, uint64_t> detached_, refused_;
  ProbeBackend::Round round_;  // the last
  std::deque<ProbeNote> notes_;
  uint64_t last_note_ = 0;
  int64_t agent_seen_ns_ = 0;  // 0: there is none
  int64_t scan_at_ns_ = 0;
  std::map<int64_t, uint64_t> refused_starts_;  // of processes that the configuration named
  std::string off_file_, off_reason_;
};

}  // namespace gpulens::probes
