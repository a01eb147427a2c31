#include <gpulens/job.h>

#include <array>
#include <bit>
#include <exception>
#include <string>

#include "sdk/job/job_core.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(job_page::Phase::kCount)> kPhaseNames{
    "unknown",    "data_loading", "gpu_compute", "nccl_collective", "optimizer_step",
    "checkpoint", "prefill",      "decode",      "queued",          "idle"};
constexpr std::array<std::string_view, static_cast<size_t>(job_page::Function::kCount)> kFunctionNames{
    "other",  "all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all",
    "gather", "scatter",    "send",      "receive",    "all_gather_v",   "barrier"};
// Public headers include none of ours, so these are declared twice. One that is added has to be added to
// both.
static_assert(static_cast<int>(JobPhase::kIdle) == static_cast<int>(job_page::Phase::kIdle) &&
              static_cast<int>(JobPhase::kIdle) + 1 == static_cast<int>(job_page::Phase::kCount));
static_assert(static_cast<int>(CollectiveFunction::kBarrier) ==
                  static_cast<int>(job_page::Function::kBarrier) &&
              static_cast<int>(CollectiveFunction::kBarrier) + 1 ==
                  static_cast<int>(job_page::Function::kCount));
static_assert(!kPhaseNames.back().empty() && !kFunctionNames.back().empty());

template <class Enum, size_t kSize>
std::optional<Enum> ParseOf(const std::array<std::string_view, kSize>& names,
                            std::string_view name) noexcept {
  for (size_t i = 0; i < kSize; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}
template <size_t kSize>
std::string_view NameOf(const std::array<std::string_view, kSize>& names, size_t at) noexcept {
  return at < kSize ? names[at] : names[0];
}

using WaitWords = std::array<uint64_t, 3>;
using CallWords = std::array<uint64_t, 8>;
static_assert(sizeof(job_core::Wait) <= sizeof(WaitWords) && sizeof(job_core::Call) <= sizeof(CallWords));

// The public classes keep these as words, since public headers include none of ours.
template <class T>
T Load(const uint64_t* words) noexcept {
  T value;
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}
template <class T>
void Store(uint64_t* words, const T& value) noexcept {
  __builtin_memcpy(words, &value, sizeof value);
}

}  // namespace

std::string_view JobPhaseName(JobPhase phase) noexcept {
  return NameOf(kPhaseNames, static_cast<size_t>(phase));
}
std::optional<JobPhase> ParseJobPhase(std::string_view name) noexcept {
  return ParseOf<JobPhase>(kPhaseNames, name);
}
std::string_view CollectiveFunctionName(CollectiveFunction function) noexcept {
  return NameOf(kFunctionNames, static_cast<size_t>(function));
}
std::optional<CollectiveFunction> ParseCollectiveFunction(std::string_view name) noexcept {
  return ParseOf<CollectiveFunction>(kFunctionNames, name);
}

PhaseScope::PhaseScope(JobPhase phase) noexcept
    : token_(job_core::BeginPhase(static_cast<job_page::Phase>(phase))) {}
PhaseScope::~PhaseScope() { job_core::EndPhase(token_); }

DataWaitScope::DataWaitScope() noexcept {
  job_core::Wait wait;
  job_core::BeginWait(wait);
  Store(state_, wait);
}
DataWaitScope::DataWaitScope(DataWaitScope&& other) noexcept : got_batch_(other.got_batch_) {
  Store(state_, Load<WaitWords>(other.state_));
  Store(other.state_, WaitWords{});
}
DataWaitScope::~DataWaitScope() {
  auto wait = Load<job_core::Wait>(state_);
  job_core::EndWait(wait, got_batch_);
}

CollectiveScope::CollectiveScope(CollectiveScope&& other) noexcept : exceptions_(other.exceptions_) {
  Store(state_, Load<CallWords>(other.state_));
  Store(other.state_, CallWords{});
}
CollectiveScope::~CollectiveScope() {
  auto call = Load<job_core::Call>(state_);
  job_core::EndCall(call, std::uncaught_exceptions() <= exceptions_);
}

JobCommunicator::JobCommunicator(uint64_t hash, int rank, int ranks, std::string_view name) noexcept {
  char text[64];
  const size_t size = name.size() < sizeof text ? name.size() : sizeof text - 1;
  for (size_t i = 0; i < size; ++i) text[i] = name[i];
  text[size] = '\0';
  handle_ = job_core::OpenCommunicator(hash, rank, ranks, text);
}
JobCommunicator::~JobCommunicator() { job_core::CloseCommunicator(handle_); }

CollectiveScope JobCommunicator::Collective(CollectiveFunction function, uint64_t bytes, int root) noexcept {
  CollectiveScope scope;
  scope.exceptions_ = std::uncaught_exceptions();
  job_core::CallOf of;
  of.function = static_cast<job_page::Function>(function);
  of.bytes = bytes;
  of.peer_or_root = root;
  job_core::Call call;
  job_core::BeginCall(call, handle_, of);
  Store(scope.state_, call);
  return scope;
}

Status JobStatus() {
  switch (job_core::CurrentState()) {
    case job_core::State::kOpen: return Ok();
    case job_core::State::kOff:
      return {Code::kUnavailable, "turned off by GPULENS_PROBES=off or a file probes.off"};
    case job_core::State::kNotTried:
    case job_core::State::kNoAgent:
      return {Code::kUnavailable, "no agent has made its socket (GPULENS_JOB_SOCKET, /run/gpulens/job.sock)"};
    case job_core::State::kFailed: break;
  }
  return {Code::kExhausted, "the memory that is shared with the agent could not be made"};
}

}  // namespace gpulens
