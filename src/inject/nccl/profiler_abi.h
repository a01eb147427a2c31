// What NCCL passes to profiler plugins, versions 1 to 7 of its interface, as the libraries' debug data has
// it. Own declarations: names are ours where NCCL's do not matter, offsets are held by static_assert and
// compared with the official libraries by tests/inject/nccl_layouts.py. Members that no version of ours reads
// are left out where their place is not needed. Nothing beyond sizeof is read, since forks append to these
// structs.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace gpulens::nccl_abi {

// Bits of a descriptor's type and of the event mask.
enum EventBit : uint64_t {
  kGroup = 1u << 0,
  kCollective = 1u << 1,
  kPeer = 1u << 2,  // send or receive
  kProxyOp = 1u << 3,
  kProxyStep = 1u << 4,
  kProxyControl = 1u << 5,
  kKernelChannel = 1u << 6,
  kNetPlugin = 1u << 7,
  kGroupApi = 1u << 8,
  kCollectiveApi = 1u << 9,
  kPeerApi = 1u << 10,
  kKernelLaunch = 1u << 11,
  kCopyCollective = 1u << 12,
  kCopySync = 1u << 13,
  kCopyBatch = 1u << 14,
  kKernelPhase = 1u << 15,
};
inline constexpr uint64_t kKnownEvents = 0xFFFF;

// States of recordEventState that are read.
enum StateNumber : int {
  kSendGpuWait = 8,
  kSendWait = 9,
  kReceiveWait = 10,
  kReceiveFlushWait = 11,
  kReceiveGpuWait = 12,
  kSendPeerWait = 20,
  kKernelChannelStop = 22,
};

// ---- parts of the union at offset 24, equal in several versions
struct ProxyOpPart {
  pid_t pid;
  uint8_t channel;
  int peer, steps, chunk_size, is_send;
};
struct ProxyStepPart {
  int step;
};
struct ChannelPart3 {
  uint8_t channel;
};
struct ChannelPart4 {
  uint8_t channel;
  uint64_t timer;
};
struct CollectiveApiPart {  // 5 and later
  const char* function;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};
struct PeerApiPart {  // 5 and later
  const char* function;
  size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
struct PeerPart23 {
  const char* name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct PeerPart4 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct PeerPart5 : PeerPart4 {
  alignas(8) void* group;
};
struct CollectivePart4 {
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};

// ---- descriptors
struct Descriptor1 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      uint64_t communicator;
      uint64_t sequence;
      uint8_t function;
      const void* send_buffer;
      void* receive_buffer;
      size_t count;
      int root;
      uint8_t datatype;
      uint32_t op;
      size_t traffic_bytes;
      uint8_t channels, warps, algorithm, protocol;
      int is_collnet, is_nvls;
    } collective;
    struct {
      const char* name;
      uint64_t communicator;
      uint8_t function;
      void* buffer;
      uint8_t datatype;
      size_t count;
      int peer;
    } peer;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
  };
};

struct Descriptor2 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      uint64_t communicator;
      uint64_t sequence;
      const char* function;
      const void* send_buffer;
      void* receive_buffer;
      size_t count;
      int root;
      const char* datatype;
      size_t traffic_bytes;
      uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    PeerPart23 peer;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
  };
};

struct Descriptor3 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      uint64_t communicator;
      uint64_t sequence;
      const char* function;
      const void* send_buffer;
      void* receive_buffer;
      size_t count;
      int root;
      const char* datatype;
      uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    PeerPart23 peer;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
    ChannelPart3 kernel_channel;
  };
};

struct Descriptor4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    CollectivePart4 collective;
    PeerPart4 peer;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
    ChannelPart4 kernel_channel;
  };
};

struct CollectivePart5 : CollectivePart4 {
  void* group;
};
struct Descriptor5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    CollectivePart5 collective;
    PeerPart5 peer;
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
    ChannelPart4 kernel_channel;
    CollectiveApiPart collective_api;
    PeerApiPart peer_api;
  };
};

// Version 6 adds what the copy engines do, which is not read: these parts are as large as the others.
using Descriptor6 = Descriptor5;

struct CollectivePart7 : CollectivePart5 {
  const char* kernel_variant;
  bool is_symmetric;
  uint64_t user_tag;
};
struct Descriptor7 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    CollectivePart7 collective;
    PeerPart5 peer;  // and a tag of the user
    ProxyOpPart proxy_op;
    ProxyStepPart proxy_step;
    ChannelPart4 kernel_channel;
    CollectiveApiPart collective_api;
    PeerApiPart peer_api;
  };
};

// ---- arguments of recordEventState
struct StateArguments1 {  // 1 to 3
  union {
    struct {
      size_t transferred;
      int steps;
    } proxy_op;
    int appended;
  };
};
struct StateArguments4 {  // 4 and later
  union {
    size_t transferred;
    int appended;
    void* data;
    uint64_t timer;
  };
};

using LogFunction = void (*)(int level, unsigned long flags, const char* file, int line, const char* format,
                             ...);

// ---- tables of functions: each 48 bytes
template <class Descriptor, class StateArguments, class... Init>
struct Table {
  const char* name;
  int (*init)(void** context, Init...);
  int (*start)(void* context, void** handle, Descriptor* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};
using Table1 = Table<Descriptor1, StateArguments1, int*>;
using Table2 = Table<Descriptor2, StateArguments1, int*>;
using Table3 = Table<Descriptor3, StateArguments1, int*>;
using Table4 = Table<Descriptor4, StateArguments4, int*, const char*, uint64_t, int, int, int, LogFunction>;
template <class Descriptor>
using TableFrom5 =
    Table<Descriptor, StateArguments4, uint64_t, int*, const char*, int, int, int, LogFunction>;
using Table5 = TableFrom5<Descriptor5>;
using Table6 = TableFrom5<Descriptor6>;
using Table7 = TableFrom5<Descriptor7>;

static_assert(sizeof(Table1) == 48 && sizeof(Table4) == 48 && sizeof(Table7) == 48);
static_assert(offsetof(Table7, init) == 8 && offsetof(Table7, start) == 16 && offsetof(Table7, stop) == 24 &&
              offsetof(Table7, record) == 32 && offsetof(Table7, finalize) == 40);

static_assert(sizeof(Descriptor1) == 120 && sizeof(Descriptor2) == 128 && sizeof(Descriptor3) == 120 &&
              sizeof(Descriptor4) == 104 && sizeof(Descriptor5) == 112 && sizeof(Descriptor7) == 136);
static_assert(sizeof(StateArguments1) == 16 && sizeof(StateArguments4) == 8);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // parts that extend another one
#define GPULENS_AT(type, member, offset) static_assert(offsetof(type, member) == (offset))
GPULENS_AT(Descriptor1, type, 0);
GPULENS_AT(Descriptor1, parent, 8);
GPULENS_AT(Descriptor1, rank, 16);
GPULENS_AT(Descriptor1, collective.name, 24);
GPULENS_AT(Descriptor1, collective.communicator, 32);
GPULENS_AT(Descriptor1, collective.sequence, 40);
GPULENS_AT(Descriptor1, collective.function, 48);
GPULENS_AT(Descriptor1, collective.send_buffer, 56);
GPULENS_AT(Descriptor1, collective.receive_buffer, 64);
GPULENS_AT(Descriptor1, collective.count, 72);
GPULENS_AT(Descriptor1, collective.root, 80);
GPULENS_AT(Descriptor1, collective.datatype, 84);
GPULENS_AT(Descriptor1, collective.op, 88);
GPULENS_AT(Descriptor1, collective.traffic_bytes, 96);
GPULENS_AT(Descriptor1, collective.channels, 104);
GPULENS_AT(Descriptor1, collective.warps, 105);
GPULENS_AT(Descriptor1, collective.algorithm, 106);
GPULENS_AT(Descriptor1, collective.protocol, 107);
GPULENS_AT(Descriptor1, collective.is_collnet, 108);
GPULENS_AT(Descriptor1, collective.is_nvls, 112);
GPULENS_AT(Descriptor1, peer.name, 24);
GPULENS_AT(Descriptor1, peer.communicator, 32);
GPULENS_AT(Descriptor1, peer.function, 40);
GPULENS_AT(Descriptor1, peer.buffer, 48);
GPULENS_AT(Descriptor1, peer.datatype, 56);
GPULENS_AT(Descriptor1, peer.count, 64);
GPULENS_AT(Descriptor1, peer.peer, 72);
GPULENS_AT(Descriptor1, proxy_op.pid, 24);
GPULENS_AT(Descriptor1, proxy_op.channel, 28);
GPULENS_AT(Descriptor1, proxy_op.peer, 32);
GPULENS_AT(Descriptor1, proxy_op.steps, 36);
GPULENS_AT(Descriptor1, proxy_op.chunk_size, 40);
GPULENS_AT(Descriptor1, proxy_op.is_send, 44);
GPULENS_AT(Descriptor1, proxy_step.step, 24);
GPULENS_AT(Descriptor2, collective.name, 24);
GPULENS_AT(Descriptor2, collective.communicator, 32);
GPULENS_AT(Descriptor2, collective.sequence, 40);
GPULENS_AT(Descriptor2, collective.function, 48);
GPULENS_AT(Descriptor2, collective.count, 72);
GPULENS_AT(Descriptor2, collective.root, 80);
GPULENS_AT(Descriptor2, collective.datatype, 88);
GPULENS_AT(Descriptor2, collective.traffic_bytes, 96);
GPULENS_AT(Descriptor2, collective.channels, 104);
GPULENS_AT(Descriptor2, collective.warps, 105);
GPULENS_AT(Descriptor2, collective.algorithm, 112);
GPULENS_AT(Descriptor2, collective.protocol, 120);
GPULENS_AT(Descriptor2, peer.communicator, 32);
GPULENS_AT(Descriptor2, peer.function, 40);
GPULENS_AT(Descriptor2, peer.buffer, 48);
GPULENS_AT(Descriptor2, peer.datatype, 56);
GPULENS_AT(Descriptor2, peer.count, 64);
GPULENS_AT(Descriptor2, peer.peer, 72);
GPULENS_AT(Descriptor2, proxy_op.pid, 24);
GPULENS_AT(Descriptor3, collective.sequence, 40);
GPULENS_AT(Descriptor3, collective.function, 48);
GPULENS_AT(Descriptor3, collective.count, 72);
GPULENS_AT(Descriptor3, collective.root, 80);
GPULENS_AT(Descriptor3, collective.datatype, 88);
GPULENS_AT(Descriptor3, collective.channels, 96);
GPULENS_AT(Descriptor3, collective.warps, 97);
GPULENS_AT(Descriptor3, collective.algorithm, 104);
GPULENS_AT(Descriptor3, collective.protocol, 112);
GPULENS_AT(Descriptor3, kernel_channel.channel, 24);
GPULENS_AT(Descriptor4, parent, 8);
GPULENS_AT(Descriptor4, rank, 16);
GPULENS_AT(Descriptor4, collective.sequence, 24);
GPULENS_AT(Descriptor4, collective.function, 32);
GPULENS_AT(Descriptor4, collective.send_buffer, 40);
GPULENS_AT(Descriptor4, collective.receive_buffer, 48);
GPULENS_AT(Descriptor4, collective.count, 56);
GPULENS_AT(Descriptor4, collective.root, 64);
GPULENS_AT(Descriptor4, collective.datatype, 72);
GPULENS_AT(Descriptor4, collective.channels, 80);
GPULENS_AT(Descriptor4, collective.warps, 81);
GPULENS_AT(Descriptor4, collective.algorithm, 88);
GPULENS_AT(Descriptor4, collective.protocol, 96);
GPULENS_AT(Descriptor4, peer.function, 24);
GPULENS_AT(Descriptor4, peer.buffer, 32);
GPULENS_AT(Descriptor4, peer.datatype, 40);
GPULENS_AT(Descriptor4, peer.count, 48);
GPULENS_AT(Descriptor4, peer.peer, 56);
GPULENS_AT(Descriptor4, peer.channels, 60);
GPULENS_AT(Descriptor4, kernel_channel.channel, 24);
GPULENS_AT(Descriptor4, kernel_channel.timer, 32);
GPULENS_AT(Descriptor5, parent, 8);
GPULENS_AT(Descriptor5, rank, 16);
GPULENS_AT(Descriptor5, collective.sequence, 24);
GPULENS_AT(Descriptor5, collective.function, 32);
GPULENS_AT(Descriptor5, collective.count, 56);
GPULENS_AT(Descriptor5, collective.protocol, 96);
GPULENS_AT(Descriptor5, collective.group, 104);
GPULENS_AT(Descriptor5, peer.channels, 60);
GPULENS_AT(Descriptor5, peer.group, 64);
GPULENS_AT(Descriptor5, kernel_channel.timer, 32);
GPULENS_AT(Descriptor5, collective_api.function, 24);
GPULENS_AT(Descriptor5, collective_api.count, 32);
GPULENS_AT(Descriptor5, collective_api.datatype, 40);
GPULENS_AT(Descriptor5, collective_api.root, 48);
GPULENS_AT(Descriptor5, collective_api.stream, 56);
GPULENS_AT(Descriptor5, collective_api.graph_captured, 64);
GPULENS_AT(Descriptor5, peer_api.function, 24);
GPULENS_AT(Descriptor5, peer_api.count, 32);
GPULENS_AT(Descriptor5, peer_api.datatype, 40);
GPULENS_AT(Descriptor5, peer_api.stream, 48);
GPULENS_AT(Descriptor5, peer_api.graph_captured, 56);
GPULENS_AT(Descriptor7, collective.group, 104);
GPULENS_AT(Descriptor7, collective.kernel_variant, 112);
GPULENS_AT(Descriptor7, collective.is_symmetric, 120);
GPULENS_AT(Descriptor7, collective.user_tag, 128);
GPULENS_AT(Descriptor7, peer.group, 64);
GPULENS_AT(StateArguments1, proxy_op.steps, 8);
#undef GPULENS_AT
#pragma GCC diagnostic pop

}  // namespace gpulens::nccl_abi
