#include "sources/nvml/simulated/fault_list.h"

#include <algorithm>
#include <optional>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kSeenNs = 10'000'000'000;

Status WrongHeal() {
  return {Code::kInvalidArgument, "expected: heal, heal gpu=N (all of one GPU) or heal id=N (see status)"};
}

}  // namespace

Result<std::string> FaultList::Fail(std::string_view words, int64_t now_ns, size_t gpus) {
  ASSIGN_OR_RETURN(LiveFault fault, ParseFaultOrder(words, now_ns));
  if (gpus > 0 && fault.gpu >= static_cast<int>(gpus))
    return Status{Code::kInvalidArgument, "gpu=" + std::to_string(fault.gpu) +
                                              ": the simulated machine has GPUs 0 to " +
                                              std::to_string(gpus - 1)};
  Prune(now_ns);
  if (faults_.size() == kMaxLiveFaults)
    return Status{Code::kExhausted,
                  std::to_string(kMaxLiveFaults) +
                      " faults are the maximum: heal some; counts that stay end with the agent"};
  fault.id = next_id_++;
  faults_.push_back(fault);
  return DescribeFault(fault, now_ns);
}

Result<std::string> FaultList::Heal(std::string_view words, int64_t now_ns) {
  std::string_view value = Trim(words);
  std::string_view key = TakeUntil(value, '=');
  std::optional<uint32_t> number = ParseInt<uint32_t>(value);
  if (!key.empty() && (!number || (key != "gpu" && key != "id"))) return WrongHeal();
  size_t healed = 0;
  for (LiveFault& fault : faults_) {
    bool meant = key.empty() || (key == "id" ? fault.id == *number : fault.gpu == static_cast<int>(*number));
    if (!meant || now_ns >= fault.to_ns) continue;
    // One that has not begun never was.
    if (now_ns < fault.from_ns) fault.from_ns = now_ns;
    fault.to_ns = now_ns;
    if (fault.from_ns == now_ns) fault.id = 0;
    ++healed;
  }
  std::erase_if(faults_, [](const LiveFault& fault) { return fault.id == 0; });
  Prune(now_ns);
  if (healed == 0 && !key.empty())
    return Status{Code::kInvalidArgument, "no such fault; see: gpulens fake nvml status"};
  return std::to_string(healed) + (healed == 1 ? " fault was healed" : " faults were healed");
}

std::string FaultList::Describe(int64_t now_ns) const {
  std::string out;
  for (const LiveFault& fault : faults_) {
    if (now_ns >= fault.to_ns && !FaultLeavesCount(fault)) continue;
    out += (out.empty() ? "" : ";") + DescribeFault(fault, now_ns);
  }
  return out.empty() ? "no faults" : out;
}

void FaultList::Prune(int64_t now_ns) {
  std::erase_if(faults_, [&](const LiveFault& fault) {
    int64_t over_ns = fault.mode == FaultMode::kXid ? fault.from_ns : fault.to_ns;
    return !FaultLeavesCount(fault) && over_ns < now_ns - kSeenNs;
  });
}

}  // namespace gpulens::nvml
