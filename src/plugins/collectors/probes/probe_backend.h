// What the probe host needs of the kernel: the implementation over BPF is bpf_backend.cc, a fake is in
// probe_fake_testing.h. Used by one thread. No function waits for longer than attaching takes (some 20 ms).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "plugins/collectors/probes/probe_protocol.h"
#include "sources/bpf/capability.h"

namespace gpulens::probes {

// Whether probes work on this machine. `reason` is a code for people and programs:
//   no_rights       CAP_BPF or CAP_PERFMON is missing
//   no_btf          the kernel has no description of its types
//   no_uprobes      the kernel is built without them
//   lockdown        the kernel is locked down for confidentiality
//   denied          a row of the configuration's `deny` names this machine
//   refused         something else, in the sentence
struct Ability {
  std::string mechanism;  // session, multi, pmu; empty: none works
  std::string reason, sentence;
  double entry_cost_ns = 0, pair_cost_ns = 0;  // of one call, measured; 0: unknown
};

class ProbeBackend {
 public:
  virtual ~ProbeBackend() = default;

  struct Limits {
    uint64_t thread_budget_ppm = 0, host_budget_ppm = 0;
    bool allow_seccomp = false;
    std::vector<bpf::MachineRefusal> deny;
  };
  // Tries what works, and measures it. Again after a change of the limits; nothing is attached then.
  virtual Ability Open(const Limits& limits) = 0;

  // Processes that use a GPU's library, and which of its functions can be probed; `pid` 0: all.
  virtual Result<std::vector<ListedTarget>> List(int64_t pid) = 0;
  // The user of a process; none: it is not there, or cannot be known.
  virtual std::optional<uint32_t> UserOf(int64_t pid) const = 0;
  // Its cgroup below the root ("/kubepods/…"), and the file name of its program; empty: unknown.
  virtual std::string CgroupOf(int64_t pid) const = 0;
  virtual std::string ProgramOf(int64_t pid) const = 0;

  struct Order {
    int64_t pid = 0;
    uint8_t probes = 0;
    uint64_t thread_budget_ppm = 0;  // of this target, not above that of Limits
  };
  struct Outcome {
    std::string refusal, sentence, row;  // empty: attached
    uint8_t probes = 0;                  // those that were attached
    std::string trouble;                 // what works only in part
  };
  virtual Outcome Attach(const Order& order, Instant now) = 0;
  virtual void Detach(int64_t pid) = 0;
  virtual void DetachAll() = 0;
  // Links of the kernel that are open.
  virtual size_t links() const = 0;

  // How a target is measured.
  struct Reading {
    int64_t pid = 0;
    Measuring measuring = Measuring::kExact;
    uint64_t timed_one_in = 1, share_ppm = 0;
    bool ended = false;  // the process is gone, and all that it forked
  };
  // The governor has changed something of a target.
  struct Change {
    int64_t pid = 0;
    std::string change;  // detached, limited, attached
    std::string sentence;
  };
  struct Round {
    std::vector<Reading> targets;
    std::vector<ProcessCounts> processes;
    std::vector<Change> changes;
    // Totals since Open: events that probes ran for, and nanoseconds that they took, by probe; events that
    // are in no count, by reason.
    std::vector<WordCount> events, cost_ns, lost;
  };
  // Reads the counts, and lets the governor decide; four times a second while anything is attached.
  virtual void Tick(Instant now, Round& out) = 0;
  // When Tick should be called next: 250 ms, or less where something ends before.
  virtual Duration wait() const { return std::chrono::milliseconds(250); }
};

}  // namespace gpulens::probes
