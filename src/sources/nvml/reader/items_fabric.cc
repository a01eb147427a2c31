// The NVLink fabric and confidential computing.
#include <cstring>

#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {
namespace {

using F = Field;

int QueryFabric(const ItemContext& in, FabricInfoV3& out) {
  const Symbols& fn = in.caller.fn();
  int code = kFunctionNotFound;
  // Newest first. Version 2 is shorter: the last member then stays as it is.
  for (unsigned version : {StructVersion(sizeof(FabricInfoV3), 3), StructVersion(kFabricInfoV2Size, 2)}) {
    out.version = version;
    code = in.caller.Do(Call::kFabricInfoV, fn.FabricInfoV, in.identity.device, &out);
    if (code != kArgumentVersionMismatch && code != kInvalidArgument) break;
  }
  if (code != kFunctionNotFound && code != kArgumentVersionMismatch && code != kInvalidArgument) return code;
  FabricInfoV1 old{};
  code = in.caller.Do(Call::kFabricInfo, fn.FabricInfo, in.identity.device, &old);
  if (code != kSuccess) return code;
  std::memcpy(out.cluster_uuid, old.cluster_uuid, sizeof out.cluster_uuid);
  out.status = old.status;
  out.clique = old.clique;
  out.state = old.state;
  out.health = 0;  // This version does not tell: each condition reads "not supported".
  return code;
}

uint64_t BigEndian(const unsigned char* bytes) noexcept {
  uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out = out << 8 | bytes[i];
  return out;
}

// All but the state mean something only once the registration is complete.
int ReadFabric(const ItemContext& in) {
  FabricInfoV3 out{};
  int code = QueryFabric(in, out);
  if (code != kSuccess) return code;
  ReadStatus status = out.state == kFabricCompleted ? ReadStatus::kOk : ReadStatus::kNotFound;
  in.Emit(F::kFabricState, out.state);
  in.Emit(F::kFabricStatus, status, out.status);
  in.Emit(F::kFabricHealth, status, out.health);
  in.Emit(F::kFabricClique, status, out.clique);
  in.Emit(F::kFabricClusterHigh, status, static_cast<int64_t>(BigEndian(out.cluster_uuid)));
  in.Emit(F::kFabricClusterLow, status, static_cast<int64_t>(BigEndian(out.cluster_uuid + 8)));
  return code;
}

int ReadConfidentialState(const ItemContext& in) {
  ConfComputeState out{};
  int code = in.caller.Do(Call::kConfComputeState, in.caller.fn().ConfComputeState, &out);
  if (code != kSuccess) return code;
  in.Emit(F::kConfidentialEnabled, out.feature != 0);
  in.Emit(F::kConfidentialDevMode, out.dev_tools != 0);
  return code;
}

int ReadConfidentialReady(const ItemContext& in) {
  unsigned ready = 0;
  int code = in.caller.Do(Call::kConfComputeReady, in.caller.fn().ConfComputeReady, &ready);
  if (code == kSuccess) in.Emit(F::kConfidentialReady, ready != 0);
  return code;
}

int ReadConfidentialMemory(const ItemContext& in) {
  ConfComputeMemory out{};
  int code =
      in.caller.Do(Call::kConfComputeMemory, in.caller.fn().ConfComputeMemory, in.identity.device, &out);
  if (code != kSuccess) return code;
  in.Emit(F::kConfidentialProtected, static_cast<int64_t>(out.protected_kib));
  in.Emit(F::kConfidentialUnprotected, static_cast<int64_t>(out.unprotected_kib));
  return code;
}

constexpr MoreItem kFabricItems[] = {
    {Tier::kMedium,
     {F::kFabricState, F::kFabricStatus, F::kFabricHealth, F::kFabricClique, F::kFabricClusterHigh,
      F::kFabricClusterLow},
     &ReadFabric},
    {Tier::kSlow, {F::kConfidentialEnabled, F::kConfidentialDevMode, kEndOfFields}, &ReadConfidentialState},
    {Tier::kSlow, {F::kConfidentialReady, kEndOfFields}, &ReadConfidentialReady},
    {Tier::kSlow,
     {F::kConfidentialProtected, F::kConfidentialUnprotected, kEndOfFields},
     &ReadConfidentialMemory},
};

}  // namespace

std::span<const MoreItem> FabricItems() noexcept { return kFabricItems; }

}  // namespace gpulens::nvml
