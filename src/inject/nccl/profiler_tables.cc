// The tables that NCCL looks for, one a version of its interface. NCCL takes the newest that it knows.
#include <stdlib.h>

#include "inject/nccl/chain.h"
#include "inject/nccl/nccl_names.h"
#include "inject/nccl/profiler.h"
#include "inject/nccl/profiler_abi.h"

namespace gpulens::nccl_plugin {
namespace {

using namespace nccl_abi;

template <int kVersion>
struct VersionOf;
#define GPULENS_VERSION_OF(n, arguments)  \
  template <>                             \
  struct VersionOf<n> {                   \
    using Descriptor = Descriptor##n;     \
    using StateArguments = arguments;     \
    using TableType = nccl_abi::Table##n; \
  }
GPULENS_VERSION_OF(1, StateArguments1);
GPULENS_VERSION_OF(2, StateArguments1);
GPULENS_VERSION_OF(3, StateArguments1);
GPULENS_VERSION_OF(4, StateArguments4);
GPULENS_VERSION_OF(5, StateArguments4);
GPULENS_VERSION_OF(6, StateArguments4);
GPULENS_VERSION_OF(7, StateArguments4);
#undef GPULENS_VERSION_OF

template <int kVersion>
void ReadCollective(const typename VersionOf<kVersion>::Descriptor& from, Event& to) noexcept {
  const auto& part = from.collective;
  to.sequence = part.sequence;
  to.count = part.count;
  to.peer_or_root = part.root;
  to.channels = part.channels;
  if constexpr (kVersion == 1) {
    to.function = FunctionOfNumber(part.function);
    to.datatype = DatatypeOfNumber(part.datatype);
    to.algorithm = AlgorithmOfNumber(part.algorithm);
    to.protocol = ProtocolOfNumber(part.protocol);
  } else {
    to.function = FunctionOf(part.function);
    to.datatype = DatatypeOf(part.datatype);
    to.algorithm = AlgorithmOf(part.algorithm);
    to.protocol = ProtocolOf(part.protocol);
  }
  if constexpr (kVersion < 4) to.communicator = part.communicator, to.communicator_name = part.name;
}

template <int kVersion>
void ReadPeer(const typename VersionOf<kVersion>::Descriptor& from, Event& to) noexcept {
  const auto& part = from.peer;
  to.count = part.count;
  to.peer_or_root = part.peer;
  if constexpr (kVersion == 1) {
    to.function = FunctionOfNumber(part.function);
    to.datatype = DatatypeOfNumber(part.datatype);
  } else {
    to.function = FunctionOf(part.function);
    to.datatype = DatatypeOf(part.datatype);
  }
  if constexpr (kVersion < 4) to.communicator = part.communicator, to.communicator_name = part.name;
  if constexpr (kVersion >= 4) to.channels = part.channels;
}

template <int kVersion>
Event Read(const typename VersionOf<kVersion>::Descriptor& from, void* parent) noexcept {
  Event to;
  to.type = from.type;
  to.parent = parent;
  to.rank = from.rank;
  switch (to.type) {
    case kCollective: ReadCollective<kVersion>(from, to); break;
    case kPeer: ReadPeer<kVersion>(from, to); break;
    case kProxyOp: to.pid = from.proxy_op.pid, to.peer_or_root = from.proxy_op.peer; break;
    case kKernelChannel:
      if constexpr (kVersion >= 3) to.channel = from.kernel_channel.channel;
      if constexpr (kVersion >= 4) to.timer = from.kernel_channel.timer, to.has_timer = true;
      break;
    case kCollectiveApi:
      if constexpr (kVersion >= 5) {
        to.datatype = DatatypeOf(from.collective_api.datatype);
        to.graph_captured = from.collective_api.graph_captured;
      }
      break;
    case kPeerApi:
      if constexpr (kVersion >= 5) {
        to.datatype = DatatypeOf(from.peer_api.datatype);
        to.graph_captured = from.peer_api.graph_captured;
      }
      break;
    default: break;
  }
  return to;
}

// The functions of one version, alone or with another plugin behind.
template <int kVersion>
class Plugin {
  using Descriptor = typename VersionOf<kVersion>::Descriptor;
  using StateArguments = typename VersionOf<kVersion>::StateArguments;
  using TableType = typename VersionOf<kVersion>::TableType;

 public:
  // `arguments` are those of the other plugin's init, in its order, but its mask.
  template <class CallOther>
  static int Init(void** context, const CommunicatorInfo& info, CallOther call_other) noexcept {
    if (!context) return 0;
    void* own = OpenContext(info);
    *context = own;
    auto* table = static_cast<TableType*>(ChainedTable(kVersion));
    if (!table || !table->init || !table->start || !table->stop || !table->record) return 0;
    ChainedContext* both = TakeChainedContext();
    if (!both) return 0;
    both->own = own;
    if (call_other(*table, &both->other, &both->mask) != 0) {
      ReleaseChainedContext(both);
      Explain("the plugin in GPULENS_NCCL_CHAIN refused to start");
      return 0;
    }
    other_table.store(table, std::memory_order_release);
    SetExtraMask(own, static_cast<uint32_t>(__atomic_load_n(&both->mask, __ATOMIC_RELAXED)));
    *context = both;
    return 0;
  }

  static int Start(void* context, void** handle, Descriptor* descriptor) noexcept {
    if (!handle) return 0;
    *handle = nullptr;
    if (!context || !descriptor) return 0;
    TableType* table = other_table.load(std::memory_order_acquire);
    if (!table) [[likely]] {
      *handle = BeginEvent(context, Read<kVersion>(*descriptor, descriptor->parent));
      return 0;
    }
    if (!IsChainedContext(context)) {
      *handle = JoinHandles(
          BeginEvent(context, Read<kVersion>(*descriptor, SplitHandle(descriptor->parent).own)), nullptr);
      return 0;
    }
    auto& both = *static_cast<ChainedContext*>(context);
    const auto mask = static_cast<uint32_t>(__atomic_load_n(&both.mask, __ATOMIC_RELAXED));
    SetExtraMask(both.own, mask);
    // Where the parent is of another process its handle means nothing here.
    const bool foreign = descriptor->type == kProxyOp && descriptor->proxy_op.pid != both.pid;
    const HandlePair parent = foreign ? HandlePair{} : SplitHandle(descriptor->parent);
    void* own = BeginEvent(both.own, Read<kVersion>(*descriptor, parent.own));
    void* other = nullptr;
    if ((descriptor->type & mask) != 0) {
      Descriptor copy = *descriptor;
      if (!foreign) copy.parent = parent.other;
      if constexpr (kVersion >= 5) {
        if (copy.type == kCollective) copy.collective.group = SplitHandle(copy.collective.group).other;
        if (copy.type == kPeer) copy.peer.group = SplitHandle(copy.peer.group).other;
      }
      table->start(both.other, &other, &copy);
    }
    *handle = JoinHandles(own, other);
    return 0;
  }

  static int Stop(void* handle) noexcept {
    TableType* table = other_table.load(std::memory_order_acquire);
    if (!table) [[likely]] {
      EndEvent(handle);
      return 0;
    }
    const HandlePair pair = EndHandle(handle);
    EndEvent(pair.own);
    if (pair.other) table->stop(pair.other);
    return 0;
  }

  static int Record(void* handle, int state, StateArguments* arguments) noexcept {
    uint64_t value = 0;
    if constexpr (kVersion >= 4) {
      if (arguments) value = arguments->timer;
    }
    TableType* table = other_table.load(std::memory_order_acquire);
    if (!table) [[likely]] {
      RecordState(handle, state, value);
      return 0;
    }
    const HandlePair pair = SplitHandle(handle);
    RecordState(pair.own, state, value);
    if (pair.other) table->record(pair.other, state, arguments);
    return 0;
  }

  static int Finalize(void* context) noexcept {
    TableType* table = other_table.load(std::memory_order_acquire);
    if (!table || !IsChainedContext(context)) return CloseContext(context), 0;
    auto& both = *static_cast<ChainedContext*>(context);
    CloseContext(both.own);
    if (both.other && table->finalize) table->finalize(both.other);
    ReleaseChainedContext(&both);
    return 0;
  }

 private:
  // Of the plugin behind, once one was started for this version.
  static constinit std::atomic<TableType*> other_table;
};
template <int kVersion>
constinit std::atomic<typename VersionOf<kVersion>::TableType*> Plugin<kVersion>::other_table{nullptr};

template <int kVersion>
int InitBefore4(void** context, int* mask) noexcept {
  return Plugin<kVersion>::Init(
      context, {.version = kVersion, .mask = mask, .caller = mask},
      [](auto& other, void** to, int* its_mask) { return other.init(to, its_mask); });
}

int Init4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
          LogFunction log) noexcept {
  return Plugin<4>::Init(context, {4, mask, name, hash, nodes, ranks, rank, mask},
                         [&](auto& other, void** to, int* its_mask) {
                           return other.init(to, its_mask, name, hash, nodes, ranks, rank, log);
                         });
}

template <int kVersion>
int InitFrom5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
              LogFunction log) noexcept {
  return Plugin<kVersion>::Init(context, {kVersion, mask, name, hash, nodes, ranks, rank, mask},
                                [&](auto& other, void** to, int* its_mask) {
                                  return other.init(to, hash, its_mask, name, nodes, ranks, rank, log);
                                });
}

template <int kVersion, class Init>
constexpr typename VersionOf<kVersion>::TableType MakeTable(Init init) noexcept {
  using P = Plugin<kVersion>;
  return {"gpulens", init, P::Start, P::Stop, P::Record, P::Finalize};
}

}  // namespace
}  // namespace gpulens::nccl_plugin

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): NCCL's names.
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table1 ncclProfiler_v1 =
    gpulens::nccl_plugin::MakeTable<1>(gpulens::nccl_plugin::InitBefore4<1>);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table2 ncclProfiler_v2 =
    gpulens::nccl_plugin::MakeTable<2>(gpulens::nccl_plugin::InitBefore4<2>);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table3 ncclProfiler_v3 =
    gpulens::nccl_plugin::MakeTable<3>(gpulens::nccl_plugin::InitBefore4<3>);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table4 ncclProfiler_v4 =
    gpulens::nccl_plugin::MakeTable<4>(gpulens::nccl_plugin::Init4);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table5 ncclProfiler_v5 =
    gpulens::nccl_plugin::MakeTable<5>(gpulens::nccl_plugin::InitFrom5<5>);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table6 ncclProfiler_v6 =
    gpulens::nccl_plugin::MakeTable<6>(gpulens::nccl_plugin::InitFrom5<6>);
[[gnu::visibility("default")]] constinit gpulens::nccl_abi::Table7 ncclProfiler_v7 =
    gpulens::nccl_plugin::MakeTable<7>(gpulens::nccl_plugin::InitFrom5<7>);
// NOLINTEND(readability-identifier-naming)
}  // extern "C"
