// What one host reports about the collectives of its ranks: plain values, the input of Diagnosis and the
// content of a message between agents (batch_codec.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job_page/job_page.h"

namespace gpulens::collectives {

using job_page::Algorithm;
using job_page::Function;
using job_page::Phase;
using job_page::Protocol;

inline constexpr size_t kFunctions = job_page::kFunctions;

enum class ProcessState : uint8_t {
  kUnknown,
  kRuns,
  kStopped,  // by a signal or a debugger
  kGone,     // it ended without closing its communicators
  kCount,
};

// What the network proxy of a rank waits for in the collective that is not done.
enum class ProxyWait : uint8_t { kUnknown, kGpu, kPeerCredit, kSend, kReceive, kCount };

// Why a rank is slow or a collective hangs, as far as a reading of another source shows it.
enum class Cause : uint8_t {
  kUnknown,
  kGpuClock,    // the clock of its GPU is held down
  kGpuEcc,      // memory errors of its GPU
  kNvlink,      // errors of its GPU's links to other GPUs
  kNic,         // a network card of its host lost its link
  kPcie,        // errors or a loss of the bus between GPU and host, or fewer lanes than there are
  kHostCpu,     // programs of its host wait for a processor
  kDataWait,    // it loads data
  kGpuError,    // another error of its GPU, an XID of NVIDIA's driver
  kHostMemory,  // the kernel ended programs of its host for lack of memory
  kCount,
};
inline constexpr size_t kCauses = static_cast<size_t>(Cause::kCount);

// What another source noticed about a GPU or a host. Texts are printable UTF-8, at most 128 bytes.
struct Hint {
  std::string host;
  std::string gpu;  // as in Process; empty: the whole host
  Cause cause = Cause::kUnknown;
  bool lasts = false;  // a state that held when it was seen last; else something that happened once
  int64_t age_ns = 0;  // since it happened or was seen last, when the batch was made
  std::string what;    // "XID 79: GPU no longer answers on PCIe", "its clock is held down by heat"

  friend bool operator==(const Hint&, const Hint&) = default;
};

// The process behind a rank. Texts are printable UTF-8, at most 128 bytes; empty: unknown.
struct Process {
  std::string host;
  std::string gpu;       // uuid, or PCI address "0000:1a:00.0"
  std::string job, pod;  // identity of the job, of the pod
  int64_t pid = 0;       // on its host
  ProcessState state = ProcessState::kUnknown;
  Phase phase = Phase::kUnknown;  // that the job marks now

  friend bool operator==(const Process&, const Process&) = default;
};

// One collective of one rank that ended. A sender may leave collectives out (sampler.h): the totals have them
// nevertheless. All ranks of a communicator must leave out the same.
struct Sample {
  Function function = Function::kOther;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  uint64_t sequence = 0;     // as NCCL counts: per communicator and function, equal on all ranks
  uint64_t bytes = 0;        // message size
  uint64_t duration_ns = 0;  // on the clock of its own GPU: from the arrival of this rank to the end
  // Of all measured collectives of this function in this communicator up to this one, itself included.
  uint64_t total_ns = 0, total_count = 0;
  int64_t ended_ns = 0;  // on any clock of the host that runs evenly

  friend bool operator==(const Sample&, const Sample&) = default;
};

// How far a rank is in one function. Highest sequence number + 1; 0: none yet.
struct Progress {
  Function function = Function::kOther;
  uint64_t enqueued = 0, started = 0, done = 0;
  uint64_t bytes = 0;   // of the first one that is not done; 0: unknown
  int64_t idle_ns = 0;  // since one of the numbers changed, when the batch was made
  ProxyWait wait = ProxyWait::kUnknown;
  int32_t peer = -1;  // the rank for which the proxy, a send or a receive waits; -1: unknown

  friend bool operator==(const Progress&, const Progress&) = default;
};

// Mean time that the network took for a step from this rank to a peer, without the wait for either of them.
// Only while steps are measured.
struct LinkDelay {
  int32_t peer = 0;
  uint64_t delay_ns = 0;

  friend bool operator==(const LinkDelay&, const LinkDelay&) = default;
};

// One rank of one communicator.
struct Member {
  uint32_t process = 0;  // index in Batch::processes
  uint64_t hash = 0;     // of the communicator, equal on all ranks
  int32_t ranks = 0, rank = 0;
  bool closed = false;  // the communicator was destroyed in an orderly way
  std::string name;     // of the communicator; empty: unnamed
  std::vector<Progress> progress;
  std::vector<Sample> samples;  // sequence numbers of a function rise
  std::vector<LinkDelay> links;

  friend bool operator==(const Member&, const Member&) = default;
};

struct Batch {
  uint64_t sender = 0;  // drawn when the agent started
  uint64_t number = 0;  // counts the sender's batches; a batch that comes twice has the same number
  int64_t made_boot_ns = 0;
  std::vector<Process> processes;
  std::vector<Member> members;
  std::vector<Hint> hints;

  friend bool operator==(const Batch&, const Batch&) = default;
};

}  // namespace gpulens::collectives
