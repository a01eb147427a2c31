// A profiler plugin that writes each call into a buffer, with its own handles by number: what it gets must
// not depend on whether another plugin is before it. Versions 1, 4 and 7.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern "C" {
EXPORT char nccl_event_log[1 << 20];
EXPORT int nccl_event_log_mask = 0xFFF;  // the events that it wants
EXPORT int nccl_event_log_result = 0;    // of init
}
namespace {

int* mask_of_nccl;
uintptr_t handles;

template <class... Arguments>
void Write(const char* format, Arguments... arguments) {
  const size_t length = strlen(nccl_event_log);
  snprintf(nccl_event_log + length, sizeof nccl_event_log - length, format, arguments...);
}

template <int kVersion>
int Start(void* context, void** handle, void* descriptor) {
  *mask_of_nccl = nccl_event_log_mask;
  const auto* bytes = static_cast<const unsigned char*>(descriptor);
  uint64_t type = bytes[0], parent, group = 0;
  if (kVersion >= 5) memcpy(&type, bytes, sizeof type);
  memcpy(&parent, bytes + 8, sizeof parent);
  if (kVersion >= 5 && type == 2) memcpy(&group, bytes + 104, sizeof group);
  if (kVersion >= 5 && type == 4) memcpy(&group, bytes + 64, sizeof group);
  *handle = reinterpret_cast<void*>(++handles);
  Write("start context %lu type %lu parent %lu group %lu handle %lu\n", reinterpret_cast<uintptr_t>(context),
        type, parent, group, handles);
  return 0;
}
int Stop(void* handle) {
  Write("stop %lu\n", reinterpret_cast<uintptr_t>(handle));
  return 0;
}
int Record(void* handle, int state, void* arguments) {
  uint64_t value = 0;
  if (arguments) memcpy(&value, arguments, sizeof value);
  Write("record %lu state %d value %lu\n", reinterpret_cast<uintptr_t>(handle), state, value);
  return 0;
}
int Finalize(void* context) {
  Write("finalize %lu\n", reinterpret_cast<uintptr_t>(context));
  return 0;
}
int Init(void** context, int* mask) {
  *context = reinterpret_cast<void*>(uintptr_t{77});
  *mask = nccl_event_log_mask;
  mask_of_nccl = mask;
  handles = 0;
  Write("init mask %d\n", nccl_event_log_mask);
  return nccl_event_log_result;
}
int Init4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, void*) {
  Write("%s %lu %d %d %d ", name, hash, nodes, ranks, rank);
  return Init(context, mask);
}
int Init7(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank, void*) {
  Write("%s %lu %d %d %d ", name, hash, nodes, ranks, rank);
  return Init(context, mask);
}

struct Table {
  const char* name;
  void *init, *start, *stop, *record, *finalize;
};

}  // namespace

extern "C" {
EXPORT Table ncclProfiler_v1 = {"log",       (void*)Init,   (void*)Start<1>,
                                (void*)Stop, (void*)Record, (void*)Finalize};
EXPORT Table ncclProfiler_v4 = {"log",       (void*)Init4,  (void*)Start<4>,
                                (void*)Stop, (void*)Record, (void*)Finalize};
EXPORT Table ncclProfiler_v7 = {"log",       (void*)Init7,  (void*)Start<7>,
                                (void*)Stop, (void*)Record, (void*)Finalize};
}
