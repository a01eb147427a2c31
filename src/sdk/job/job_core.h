// The process's job page (job_page/job_page.h) as the SDK writes it: phases, waits for batches, collectives.
//
// Used by gpulens/job.h, by the C functions and, compiled alone, by libgpulens-job.so, which programs in any
// language load. So it needs the C library alone at run time. Functions never fail, wait, allocate or throw,
// and any thread may call them; not signal handlers. What cannot be kept is dropped and counted in the page.
//
// There is one page a process. It is made at the first call that finds a running agent, or the folder of
// $GPULENS_JOB_FOLDER, and is handed to the next agent within 5 s of calls when that one ended; without both,
// a call costs some ns and looks again after 10 s. With GPULENS_PROBES=off it is never made. The child of a
// fork has none of it, and makes its own at its first call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job_page/job_page.h"

namespace gpulens::job_core {

// Ends what was begun. `epoch` counts forks: a child does not end what its parent began. All zero: nothing
// was begun.
struct Wait {
  uint64_t begun_boot_ns, phase;
  uint32_t epoch;
  uint32_t counted;  // 1 for the outermost wait of a thread, which is the one that is recorded
};

// One call. Sequence numbers are counted per communicator and function, also while nothing is recorded, so
// that they are equal on all ranks.
struct Call {
  uint64_t begun_boot_ns, phase, communicator, sequence, bytes;
  uint32_t epoch;
  int32_t peer_or_root;
  uint8_t function, datatype, begun, reserved[5];
};
struct CallOf {
  job_page::Function function = job_page::Function::kOther;
  job_page::Datatype datatype = job_page::Datatype::kUnknown;
  uint64_t bytes = 0;         // message size of this rank
  int32_t peer_or_root = -1;  // rank in the communicator; -1: none
  // The call does not wait: End is called where the program waits, and the call is no phase.
  bool asynchronous = false;
};

// Where the page is, for Status texts.
enum class State : uint8_t { kNotTried, kOff, kNoAgent, kOpen, kFailed };

// Begins a phase, which is the process's until it ends or another one begins; phases nest across threads, up
// to 64. 0: not recorded. `token` may be 0.
uint64_t BeginPhase(job_page::Phase phase) noexcept;
void EndPhase(uint64_t token) noexcept;

// A wait of the training loop for its next batch, which is the phase data_loading, too. Begin and end belong
// to one thread. `got_batch` false: it is not recorded, as there was none left.
void BeginWait(Wait& wait) noexcept;
void EndWait(Wait& wait, bool got_batch) noexcept;

// Returns 0 where there are kCommunicators already. `hash` is equal on all ranks. `name` may be null.
uint64_t OpenCommunicator(uint64_t hash, int32_t rank, int32_t ranks, const char* name) noexcept;
void CloseCommunicator(uint64_t communicator) noexcept;
void BeginCall(Call& call, uint64_t communicator, const CallOf& of) noexcept;
// `measured`: now is when the collective ended on this rank; otherwise the call is counted only.
void EndCall(Call& call, bool measured) noexcept;

// The framework and its version, such as "torch 2.4.0"; shown with the page.
void SetLibrary(const char* text) noexcept;
// Why less is measured than was wanted; shown by the agent.
void SetTrouble(const char* text) noexcept;
void CountLoss(job_page::Loss loss) noexcept;
State CurrentState() noexcept;

// For tests: the page, or null.
job_page::Page* PageForTest() noexcept;

}  // namespace gpulens::job_core
