// The functions of gpulens/c.h by which a job reports what it does. Also compiled into libgpulens-job.so, so
// it needs the C library alone.
#include <gpulens/c.h>
#include <string.h>

#include "sdk/job/job_core.h"

namespace gpulens::job_core {
namespace {

static_assert(sizeof(gpulens_data_wait) >= sizeof(Wait) && sizeof(gpulens_collective) >= sizeof(Call));
static_assert(GPULENS_PHASE_IDLE == static_cast<int>(job_page::Phase::kIdle) &&
              GPULENS_PHASE_IDLE + 1 == static_cast<int>(job_page::Phase::kCount));
static_assert(GPULENS_BARRIER == static_cast<int>(job_page::Function::kBarrier) &&
              GPULENS_BARRIER + 1 == static_cast<int>(job_page::Function::kCount));

}  // namespace
}  // namespace gpulens::job_core

using namespace gpulens::job_core;  // of a source, after its includes

uint64_t gpulens_phase_begin(int phase) {
  if (phase < 0) return 0;
  return BeginPhase(static_cast<gpulens::job_page::Phase>(phase));
}
void gpulens_phase_end(uint64_t token) { EndPhase(token); }

void gpulens_data_wait_begin(gpulens_data_wait* wait) {
  if (!wait) return;
  Wait own;
  BeginWait(own);
  ::memcpy(wait, &own, sizeof own);
}
void gpulens_data_wait_end(gpulens_data_wait* wait, int got_batch) {
  if (!wait) return;
  Wait own;
  ::memcpy(&own, wait, sizeof own);
  EndWait(own, got_batch != 0);
  ::memcpy(wait, &own, sizeof own);
}

uint64_t gpulens_communicator_open(uint64_t hash, int rank, int ranks, const char* name) {
  return OpenCommunicator(hash, rank, ranks, name);
}
void gpulens_communicator_close(uint64_t communicator) { CloseCommunicator(communicator); }

void gpulens_collective_begin(gpulens_collective* call, uint64_t communicator, int function, uint64_t bytes,
                              int root, int asynchronous) {
  if (!call) return;
  CallOf of;
  if (function > 0 && function < static_cast<int>(gpulens::job_page::Function::kCount))
    of.function = static_cast<gpulens::job_page::Function>(function);
  of.bytes = bytes;
  of.peer_or_root = root;
  of.asynchronous = asynchronous != 0;
  Call own;
  BeginCall(own, communicator, of);
  ::memcpy(call, &own, sizeof own);
}
void gpulens_collective_end(gpulens_collective* call, int measured) {
  if (!call) return;
  Call own;
  ::memcpy(&own, call, sizeof own);
  EndCall(own, measured != 0);
  ::memcpy(call, &own, sizeof own);
}

void gpulens_job_library(const char* name) { SetLibrary(name); }
void gpulens_job_trouble(const char* why) {
  CountLoss(gpulens::job_page::Loss::kError);
  SetTrouble(why);
}
int gpulens_job_status(void) {
  switch (CurrentState()) {
    case State::kOpen: return GPULENS_OK;
    case State::kOff: return GPULENS_PERMISSION_DENIED;
    case State::kFailed: return GPULENS_EXHAUSTED;
    case State::kNotTried:
    case State::kNoAgent: break;
  }
  return GPULENS_UNAVAILABLE;
}
