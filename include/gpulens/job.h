// What a program reports of itself while it runs: its phases, its waits for data, its collectives.
//
//   { gpulens::PhaseScope phase(gpulens::JobPhase::kOptimizerStep); optimizer.Step(); }
//   gpulens::JobCommunicator world(hash, rank, ranks, "world");
//   { auto call = world.Collective(gpulens::CollectiveFunction::kAllReduce, bytes); AllReduce(…); }
//
// The agent of this machine reads it out of memory that this process shares with it, and derives phases, slow
// ranks and hangs: docs/training-inside.md. Nothing needs to be started. All is noexcept and thread-safe, but
// not for signal handlers; a scope takes some 100 ns, without locks that others could hold for long, system
// calls or allocation. Without an agent nothing is kept and nothing is written: a scope takes some ns. After
// fork() the child reports for itself. GPULENS_PROBES=off in the environment turns it off.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// More may be added.
enum class JobPhase : uint8_t {
  kUnknown,
  kDataLoading,
  kGpuCompute,
  kNcclCollective,
  kOptimizerStep,
  kCheckpoint,
  kPrefill,
  kDecode,
  kQueued,
  kIdle,
};
// "optimizer_step"; static storage.
std::string_view JobPhaseName(JobPhase phase) noexcept;
std::optional<JobPhase> ParseJobPhase(std::string_view name) noexcept;

enum class CollectiveFunction : uint8_t {
  kOther,
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
  kAllGatherV,
  kBarrier,
};
// "all_reduce"; static storage.
std::string_view CollectiveFunctionName(CollectiveFunction function) noexcept;
std::optional<CollectiveFunction> ParseCollectiveFunction(std::string_view name) noexcept;

// The process is in this phase for the lifetime of the scope. Scopes nest, also those of several threads: the
// phase is that of the scope that began last. Ends in the thread and process that began it.
class [[nodiscard]] PhaseScope {
 public:
  explicit PhaseScope(JobPhase phase) noexcept;
  PhaseScope(PhaseScope&& other) noexcept : token_(other.token_) { other.token_ = 0; }
  PhaseScope& operator=(PhaseScope&&) = delete;
  ~PhaseScope();

 private:
  uint64_t token_;
};

// The program waits for its next batch for the lifetime of the scope. A scope inside another one of the same
// thread is part of it.
class [[nodiscard]] DataWaitScope {
 public:
  DataWaitScope() noexcept;
  DataWaitScope(DataWaitScope&& other) noexcept;
  DataWaitScope& operator=(DataWaitScope&&) = delete;
  ~DataWaitScope();
  // There was no batch left: the wait is not recorded.
  void Discard() noexcept { got_batch_ = false; }

 private:
  uint64_t state_[3];
  bool got_batch_ = true;
};

// A call of a collective that returns when it is complete on this rank; the lifetime of the scope is its
// time. An exception that ends the scope leaves the call counted and not measured.
class [[nodiscard]] CollectiveScope {
 public:
  CollectiveScope(CollectiveScope&& other) noexcept;
  CollectiveScope& operator=(CollectiveScope&&) = delete;
  ~CollectiveScope();

 private:
  friend class JobCommunicator;
  CollectiveScope() noexcept = default;
  uint64_t state_[8] = {};
  int exceptions_ = 0;
};

// A group of ranks that communicate; closed at the end of its life, which must be after that of its scopes.
// Calls of one function are joined across ranks by their order, so all ranks must report all of them.
class JobCommunicator {
 public:
  // `hash` identifies it and is equal on all ranks; `name` is shown. At most 64 may be open in a process;
  // calls of others are dropped and counted.
  JobCommunicator(uint64_t hash, int rank, int ranks, std::string_view name = {}) noexcept;
  JobCommunicator(JobCommunicator&& other) noexcept : handle_(other.handle_) { other.handle_ = 0; }
  JobCommunicator& operator=(JobCommunicator&&) = delete;
  ~JobCommunicator();

  // `bytes`: the message of this rank. `root`: of broadcast, reduce, gather and scatter, a rank in this
  // communicator; the other rank of send and receive; -1: none.
  CollectiveScope Collective(CollectiveFunction function, uint64_t bytes, int root = -1) noexcept;

 private:
  uint64_t handle_;
};

// Ok once the agent has this process's page; otherwise why it has none: no agent, or turned off.
Status JobStatus();

}  // namespace gpulens
