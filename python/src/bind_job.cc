// Native part of gpulens.job: what a program reports of itself to the agent of its machine.
#include <gpulens/job.h>

#include <optional>
#include <string>

#include <nanobind/stl/optional.h>

#include "sdk/job/job_core.h"
#include "src/values.h"

namespace gpulens::python {

void BindJob(nb::module_& m) {
  nb::class_<job_core::Wait> wait(m, "JobWait", "A wait for a batch that has begun.");
  RefusesPickle(wait, "it belongs to the thread that began it");
  nb::class_<job_core::Call> call(m, "JobCall", "A call of a collective that has begun.");
  RefusesPickle(call, "it belongs to the process that began it");
  m.def(
      "job_phase_begin", [](int phase) { return job_core::BeginPhase(static_cast<job_page::Phase>(phase)); },
      "phase"_a, "Begins a phase by its number and returns what ends it.");
  m.def("job_phase_end", &job_core::EndPhase, "token"_a);
  m.def("job_wait_begin", [] {
    job_core::Wait begun;
    job_core::BeginWait(begun);
    return begun;
  });
  m.def("job_wait_end", &job_core::EndWait, "wait"_a, "got_batch"_a);
  m.def(
      "job_communicator_open",
      [](uint64_t hash, int rank, int ranks, const std::string& name) {
        return job_core::OpenCommunicator(hash, rank, ranks, name.c_str());
      },
      "hash"_a, "rank"_a, "ranks"_a, "name"_a);
  m.def("job_communicator_close", &job_core::CloseCommunicator, "communicator"_a);
  m.def(
      "job_call_begin",
      [](uint64_t communicator, int function, uint64_t size_bytes, int root) {
        job_core::CallOf of;
        of.function = static_cast<job_page::Function>(function);
        of.bytes = size_bytes;
        of.peer_or_root = root;
        job_core::Call begun;
        job_core::BeginCall(begun, communicator, of);
        return begun;
      },
      "communicator"_a, "function"_a, "size_bytes"_a, "root"_a);
  m.def("job_call_end", &job_core::EndCall, "call"_a, "measured"_a);
  m.def(
      "job_reason",
      []() -> std::optional<std::string> {
        const Status status = JobStatus();
        return status.ok() ? std::nullopt : std::optional(status.detail);
      },
      "Reason why nothing is reported; None when it is.");
}

}  // namespace gpulens::python
