#include "inject/nccl/profiler.h"

#include <link.h>

#include <cstring>

#include "inject/nccl/profiler_abi.h"
#include "job_page/dynamic_loader.h"

#ifndef GPULENS_VERSION
#define GPULENS_VERSION "unknown"
#endif

namespace gpulens::nccl_plugin {
namespace {

using namespace job_page;

constinit OwnPage own_page;
[[gnu::destructor]] void RemovePageFile() { own_page.RemoveFile(); }

constexpr char kLevelVariable[] = "GPULENS_NCCL_LEVEL";
constexpr uint64_t kNever = ~uint64_t{0};
// An operation whose number of kernels is not known has ended when nothing has happened to it for so long.
constexpr uint64_t kSettledNs = 20'000'000;
// The oldest operation in flight is given up after this time when there is no room for another one.
constexpr uint64_t kAbandonedNs = 60'000'000'000;
// Versions 1 and 2 have no events of kernels, and within a node none of the network: nothing more will come.
constexpr uint64_t kUnseenNs = 1'000'000'000;

// The event mask of one NCCL in the process: all its communicators have the same one. Written in calls of
// that NCCL alone, which is mapped then.
struct Library {
  std::atomic<int*> mask;
  std::atomic<int> version;
  std::atomic<int> written;     // what was written last
  std::atomic<uint32_t> level;  // that it was written for
  std::atomic<uint32_t> extra;  // events that another plugin wants
  std::atomic<uint32_t> users;  // contexts
};
constexpr size_t kLibraries = 16;
constinit Library libraries[kLibraries];

struct Context {
  std::atomic<uint32_t> used;
  std::atomic<Library*> library;
  int version = 0;
  bool timer_is_ns = false;
  // The slot; for versions 1 to 3 it is taken when the first event names the communicator.
  std::atomic<uint32_t> place_state;  // kNoPlace, kTakingPlace, kHasPlace
  std::atomic<int32_t> slot;
  std::atomic<uint32_t> generation;
  std::atomic<uint64_t> peers[kFunctions];  // operations without a sequence number of NCCL
};
enum : uint32_t { kNoPlace, kTakingPlace, kHasPlace };
// Two for each slot of the page: those beyond share one context for each version, without a slot.
constexpr size_t kContexts = 2 * kCommunicators;
constexpr int kVersions = 7;
constinit Context contexts[kContexts + kVersions + 1];

bool IsShared(const Context& context) noexcept {
  return &context - contexts >= static_cast<ptrdiff_t>(kContexts);
}

// ---- handles

enum class Kind : uint64_t { kNone, kContainer, kOperation, kChannel, kProxyOp, kStep };

// Bits 0-3 kind, 4-11 channel, 12-23 number of the operation, 24-63 its generation. Of kContainer: 4-11
// datatype, 12 captured in a graph. Of kProxyOp and kStep: 4-11 link. Of kStep: 12-23 number of the step,
// 24-63 its generation.
struct Handle {
  Kind kind;
  uint8_t channel;
  uint32_t at;
  uint64_t generation;

  void* Pack() const noexcept {
    return reinterpret_cast<void*>(static_cast<uint64_t>(kind) | uint64_t{channel} << 4 | uint64_t{at} << 12 |
                                   generation << 24);
  }
  static Handle Unpack(const void* packed) noexcept {
    const auto bits = reinterpret_cast<uint64_t>(packed);
    return {static_cast<Kind>(bits & 15), static_cast<uint8_t>(bits >> 4),
            static_cast<uint32_t>(bits >> 12 & 4095), bits >> 24};
  }
};
static_assert(kOperations == 4096 && sizeof(void*) == 8);

// `state`: bits 0-15 pins, 16 used, 17 finished, 24-63 generation. A thread pins an operation while it works
// on it; the one that takes the last pin of a finished operation frees it.
constexpr uint64_t kPins = 0xFFFF, kUsed = 1u << 16, kFinished = 1u << 17;
constexpr int kGenerationShift = 24;

enum Flag : uint32_t {
  kEnqueued = 1,       // stopEvent of the operation came
  kStale = 2,          // a timer of a kernel is wrong
  kNoTimer = 4,        // times of kernels are the host's
  kSawProxy = 8,       // a proxy operation began
  kCountedQuiet = 16,  // in `quiet_operations`
};

struct alignas(64) Operation {
  std::atomic<uint64_t> state;
  std::atomic<uint64_t> begun, ended;  // channels, as bits
  std::atomic<uint64_t> first_begin, last_begin, last_end;
  std::atomic<uint64_t> proxy_begin, proxy_end;
  std::atomic<uint64_t> active_boot_ns;
  std::atomic<uint32_t> proxies;  // in flight
  std::atomic<uint32_t> flags;
  uint32_t context = 0;
  bool has_kernels = false;  // the interface has events of kernels
  // All bytes are 0 at first, so that the table takes no place in the file and no memory before it is used.
  alignas(RecordValues) unsigned char value_bytes[sizeof(RecordValues)] = {};
  RecordValues& values() noexcept { return *reinterpret_cast<RecordValues*>(value_bytes); }
  const RecordValues& values() const noexcept { return *reinterpret_cast<const RecordValues*>(value_bytes); }
};
constinit Operation operations[kOperations];
constinit std::atomic<uint32_t> next_operation, next_swept;
// Operations that look ended, although how many kernels they have is not known.
constinit std::atomic<int32_t> quiet_operations;

void LowerTo(std::atomic<uint64_t>& to, uint64_t value) noexcept {
  uint64_t now = to.load(std::memory_order_relaxed);
  while (value < now && !to.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

// A step of the network. The next one in the same place replaces it, should its end never come.
struct Step {
  std::atomic<uint64_t> generation, since_ns, key;  // key: of the link
  std::atomic<uint32_t> wait;                       // StepWait + 1; 0: it waits for nothing that is known
  std::atomic<uint32_t> link;
};
constexpr size_t kSteps = 4096;
constinit Step steps[kSteps];
constinit std::atomic<uint64_t> next_step;
// When the level kLink was last put in force, and whether it is that of the environment.
constinit std::atomic<uint64_t> links_since_ns;
constinit std::atomic<bool> links_always;
// Longer than an agent wants it: it has ended.
constinit std::atomic<uint64_t> longest_links_ns{60'000'000'000};

class Pin {
 public:
  // Null when the operation of the handle has ended.
  explicit Pin(const Handle& handle) noexcept : Pin(operations[handle.at], handle.generation) {}
  Pin(Operation& operation, uint64_t generation) noexcept {
    uint64_t state = operation.state.load(std::memory_order_relaxed);
    do {
      if (state >> kGenerationShift != generation || (state & kUsed) == 0 || (state & kFinished) != 0 ||
          (state & kPins) == kPins)
        return;
    } while (!operation.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                                    std::memory_order_relaxed));
    operation_ = &operation;
  }
  // Takes over the pin with which an operation is made.
  struct Made {};
  Pin(Operation* operation, Made) noexcept : operation_(operation) {}
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin() {
    if (!operation_) return;
    uint64_t state = operation_->state.load(std::memory_order_relaxed), next;
    do {
      const bool last = (state & kPins) == 1 && (state & kFinished) != 0;
      next = last ? state >> kGenerationShift << kGenerationShift : state - 1;
    } while (!operation_->state.compare_exchange_weak(state, next, std::memory_order_acq_rel,
                                                      std::memory_order_relaxed));
  }
  explicit operator bool() const noexcept { return operation_ != nullptr; }
  Operation* operator->() const noexcept { return operation_; }
  Operation& operator*() const noexcept { return *operation_; }
  // True for the one caller that ends the operation.
  bool Finish() noexcept {
    return (operation_->state.fetch_or(kFinished, std::memory_order_acq_rel) & kFinished) == 0;
  }

 private:
  Operation* operation_ = nullptr;
};

// ---- levels

// What the agent wrote, which may be anything.
uint32_t WantedLevel(const Page& page) noexcept {
  const uint32_t level = page.header.wanted_level.load(std::memory_order_relaxed);
  return level <= static_cast<uint32_t>(Level::kLink) ? level : static_cast<uint32_t>(Level::kOff);
}

uint32_t MaskOf(int version, uint32_t level) noexcept {
  using namespace nccl_abi;
  constexpr uint64_t kCounted = kCollective | kPeer;
  // Without any event it would not be noticed that the level is raised again.
  uint64_t mask = kGroup;
  if (level == static_cast<uint32_t>(Level::kCount)) mask = kCounted;
  if (level >= static_cast<uint32_t>(Level::kTime))
    mask = kCounted | (version >= 3 ? kKernelChannel : kProxyOp);
  if (level >= static_cast<uint32_t>(Level::kLink)) mask |= kProxyOp | kProxyStep;
  return static_cast<uint32_t>(mask);
}

// The level that a mask that another part of NCCL has set amounts to.
Level LevelOf(uint64_t mask) noexcept {
  using namespace nccl_abi;
  if ((mask & (kCollective | kPeer)) == 0) return Level::kOff;
  return (mask & (kKernelChannel | kProxyOp)) != 0 ? Level::kTime : Level::kCount;
}

// Writes the mask that the level needs, unless it was changed elsewhere: NCCL's RAS can do so for a whole
// job.
void ApplyLevel(Page& page, Library& library, uint32_t level) noexcept {
  int* mask = library.mask.load(std::memory_order_relaxed);
  if (!mask) return;
  if (level == static_cast<uint32_t>(Level::kLink))
    links_since_ns.store(own_page.Now(), std::memory_order_relaxed);
  const int version = library.version.load(std::memory_order_relaxed);
  const int next = static_cast<int>(MaskOf(version, level) | library.extra.load(std::memory_order_relaxed));
  int expected = library.written.load(std::memory_order_relaxed);
  library.level.store(level, std::memory_order_relaxed);
  if (__atomic_compare_exchange_n(mask, &expected, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    library.written.store(next, std::memory_order_relaxed);
    page.header.actual_level.store(level, std::memory_order_relaxed);
    return;
  }
  page.header.actual_level.store(static_cast<uint32_t>(LevelOf(static_cast<uint32_t>(expected))),
                                 std::memory_order_relaxed);
  SetTrouble(page, "the event mask was set by another part of NCCL (RAS): the level is its own");
}

// Held while a communicator is made or ended, for a few instructions. A forked child may find it taken for
// ever, so that it is waited for by turns that end.
constinit std::atomic<uint32_t> libraries_busy{0};
class LibrariesLock {
 public:
  LibrariesLock() noexcept {
    for (int turn = 0; turn < 100'000; ++turn) {
      if (libraries_busy.exchange(1, std::memory_order_acquire) == 0) return;
      ::sched_yield();
    }
  }
  ~LibrariesLock() { libraries_busy.store(0, std::memory_order_release); }
  LibrariesLock(const LibrariesLock&) = delete;
  LibrariesLock& operator=(const LibrariesLock&) = delete;
};

// Null: more than kLibraries.
Library* EnterLibrary(const CommunicatorInfo& info) noexcept {
  const LibrariesLock lock;
  Library* free = nullptr;
  for (Library& library : libraries) {
    int* mask = library.mask.load(std::memory_order_relaxed);
    if (mask == info.mask) {
      library.users.fetch_add(1, std::memory_order_relaxed);
      return &library;
    }
    if (!mask && !free) free = &library;
  }
  if (!free) return nullptr;
  free->users.store(1, std::memory_order_relaxed);
  free->extra.store(0, std::memory_order_relaxed);
  free->version.store(info.version, std::memory_order_relaxed);
  free->mask.store(info.mask, std::memory_order_release);
  return free;
}

void LeaveLibrary(Library* library) noexcept {
  if (!library) return;
  const LibrariesLock lock;
  if (library->users.fetch_sub(1, std::memory_order_relaxed) == 1)
    library->mask.store(nullptr, std::memory_order_release);
}

// ---- progress and records

FunctionProgress* ProgressOf(Page& page, CommunicatorSlot place, Function function) noexcept {
  if (place.slot < 0) return nullptr;
  Communicator& communicator = page.communicators[place.slot];
  if (communicator.generation.load(std::memory_order_relaxed) != place.generation) return nullptr;
  return &communicator.functions[static_cast<size_t>(function)];
}

void Advance(Page& page, const RecordValues& values, std::atomic<uint64_t> FunctionProgress::* stage,
             uint64_t now) noexcept {
  page.header.last_event_boot_ns.store(now, std::memory_order_relaxed);
  FunctionProgress* progress = ProgressOf(page, values.place, values.function);
  if (!progress) return;
  RaiseTo(progress->*stage, values.sequence + 1);
  progress->changed_boot_ns.store(now, std::memory_order_relaxed);
}

int Bits(uint64_t bits) noexcept { return std::popcount(bits); }

// What is known of an operation when it ends.
RecordValues ResultOf(const Operation& operation, uint64_t now) noexcept {
  RecordValues values = operation.values();
  const uint32_t flags = operation.flags.load(std::memory_order_relaxed);
  const uint64_t begun = operation.begun.load(std::memory_order_relaxed);
  values.ended_boot_ns = now;
  if (begun != 0 && (flags & kStale) == 0) {
    values.timing = (flags & kNoTimer) != 0 ? Timing::kHost : Timing::kDevice;
    values.start_ns = operation.first_begin.load(std::memory_order_relaxed);
    values.end_ns = operation.last_end.load(std::memory_order_relaxed);
  } else if (begun == 0 && (flags & kSawProxy) != 0) {
    values.timing = Timing::kProxy;
    values.start_ns = operation.proxy_begin.load(std::memory_order_relaxed);
    values.end_ns = operation.proxy_end.load(std::memory_order_relaxed);
  }
  if (begun != 0) values.channels = static_cast<uint16_t>(Bits(begun));
  return values;
}

void FinishOperation(Page& page, Pin& pin, uint64_t now) noexcept {
  if (!pin.Finish()) return;
  const uint32_t flags = pin->flags.load(std::memory_order_relaxed);
  if ((flags & kStale) != 0) CountLoss(page, Loss::kStaleTimer);
  if ((flags & kCountedQuiet) != 0) quiet_operations.fetch_sub(1, std::memory_order_relaxed);
  WriteRecord(page, ResultOf(*pin, now));
}

bool IsQuiet(const Operation& operation) noexcept {
  const uint64_t ended = operation.ended.load(std::memory_order_relaxed);
  return (operation.flags.load(std::memory_order_relaxed) & kEnqueued) != 0 &&
         operation.begun.load(std::memory_order_relaxed) == ended &&
         operation.proxies.load(std::memory_order_relaxed) == 0 &&
         (ended != 0 || (operation.flags.load(std::memory_order_relaxed) & kSawProxy) != 0);
}

// After a kernel, a proxy operation or the enqueueing of an operation ended.
void Settle(Page& page, Pin& pin) noexcept {
  const int ended = Bits(pin->ended.load(std::memory_order_relaxed));
  const int expected = pin->values().channels;
  if (expected != 0 && ended >= expected) {
    const uint64_t now = own_page.Now();
    Advance(page, pin->values(), &FunctionProgress::done, now);
    return FinishOperation(page, pin, now);
  }
  // How many kernels a collective has is known: it is waited for. Else all that began have ended.
  const bool exact = expected != 0 && pin->values().function != Function::kSend &&
                     pin->values().function != Function::kReceive &&
                     pin->begun.load(std::memory_order_relaxed) != 0;
  if (exact || !IsQuiet(*pin)) return;
  const uint64_t now = own_page.Now();
  pin->active_boot_ns.store(now, std::memory_order_relaxed);
  Advance(page, pin->values(), &FunctionProgress::done, now);
  if ((pin->flags.fetch_or(kCountedQuiet, std::memory_order_relaxed) & kCountedQuiet) == 0)
    quiet_operations.fetch_add(1, std::memory_order_relaxed);
}

// Ends a few of the quiet operations.
void Sweep(Page& page, uint64_t now) noexcept {
  if (quiet_operations.load(std::memory_order_relaxed) <= 0) return;
  uint32_t at = next_swept.fetch_add(8, std::memory_order_relaxed);
  for (int i = 0; i < 8; ++i, ++at) {
    Operation& operation = operations[at % kOperations];
    Pin pin(operation, operation.state.load(std::memory_order_relaxed) >> kGenerationShift);
    if (!pin || (pin->flags.load(std::memory_order_relaxed) & kCountedQuiet) == 0 || !IsQuiet(*pin)) continue;
    if (now - pin->active_boot_ns.load(std::memory_order_relaxed) > kSettledNs)
      FinishOperation(page, pin, now);
  }
}

// Gives up an operation whose end never came.
void Abandon(Page& page, Pin& pin, uint64_t now) noexcept {
  if (IsQuiet(*pin)) return FinishOperation(page, pin, now);
  if (!pin.Finish()) return;
  if ((pin->flags.load(std::memory_order_relaxed) & kCountedQuiet) != 0)
    quiet_operations.fetch_sub(1, std::memory_order_relaxed);
  if (pin->begun.load(std::memory_order_relaxed) != 0) return CountLoss(page, Loss::kDropped);
  RecordValues values = pin->values();
  values.ended_boot_ns = now;
  WriteRecord(page, values);
}

// Null: none is free.
Operation* TakeOperation(Page& page, uint64_t now, uint64_t& generation) noexcept {
  for (int tries = 0; tries < 16; ++tries) {
    Operation& operation = operations[next_operation.fetch_add(1, std::memory_order_relaxed) % kOperations];
    uint64_t state = operation.state.load(std::memory_order_relaxed);
    if ((state & kUsed) != 0) {
      const uint64_t age = now - operation.active_boot_ns.load(std::memory_order_relaxed);
      if (age < kUnseenNs) continue;
      if (Pin pin(operation, state >> kGenerationShift); pin) {
        const bool unseen =
            !pin->has_kernels && (pin->flags.load(std::memory_order_relaxed) & kSawProxy) == 0;
        if (!unseen && age < kAbandonedNs) continue;
        if (!unseen) CountLoss(page, Loss::kNoHandle);
        Abandon(page, pin, now);
      }
      state = operation.state.load(std::memory_order_relaxed);
      if ((state & kUsed) != 0) continue;
    }
    generation = ((state >> kGenerationShift) + 1) & (kNever >> kGenerationShift);
    if (operation.state.compare_exchange_strong(state, generation << kGenerationShift | kUsed | kFinished | 1,
                                                std::memory_order_acquire, std::memory_order_relaxed))
      return &operation;
  }
  CountLoss(page, Loss::kNoHandle);
  return nullptr;
}

CommunicatorSlot PlaceOf(Page& page, Context& context, const Event& event, uint64_t now) noexcept {
  uint32_t state = context.place_state.load(std::memory_order_acquire);
  if (state == kNoPlace && event.communicator != 0 &&
      context.place_state.compare_exchange_strong(state, kTakingPlace, std::memory_order_acq_rel)) {
    const CommunicatorSlot place = OpenCommunicator(
        page,
        {.hash = event.communicator, .rank = event.rank, .name = event.communicator_name, .boot_ns = now});
    context.slot.store(place.slot, std::memory_order_relaxed);
    context.generation.store(place.generation, std::memory_order_relaxed);
    context.place_state.store(kHasPlace, std::memory_order_release);
    return place;
  }
  if (state != kHasPlace) return {};
  return {context.slot.load(std::memory_order_relaxed), context.generation.load(std::memory_order_relaxed)};
}

constexpr uint8_t kDatatypeSizes[] = {0, 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(sizeof kDatatypeSizes == static_cast<size_t>(Datatype::kCount));

// NCCL counts the elements of these as bytes, with the datatype int8.
bool CountsBytes(Function function) noexcept {
  return function == Function::kAllGather || function == Function::kAllGatherV ||
         function == Function::kBroadcast;
}

// Ends the level kLink that an agent has put in force and cannot end, since it was killed.
void LimitLinks(Page& page, uint64_t now) noexcept {
  if (links_always.load(std::memory_order_relaxed) ||
      now - links_since_ns.load(std::memory_order_relaxed) < longest_links_ns.load(std::memory_order_relaxed))
    return;
  auto level = static_cast<uint32_t>(Level::kLink);
  page.header.wanted_level.compare_exchange_strong(level, static_cast<uint32_t>(Level::kTime));
}

void* BeginOperation(Page& page, Context& context, const Event& event, uint32_t level) noexcept {
  if (level == static_cast<uint32_t>(Level::kOff)) return nullptr;
  const uint64_t now = own_page.Now();
  own_page.HandOverIfDue(now);
  if (level == static_cast<uint32_t>(Level::kLink)) LimitLinks(page, now);
  Sweep(page, now);
  RecordValues values;
  values.place = PlaceOf(page, context, event, now);
  values.function = event.function;
  values.datatype = event.datatype;
  values.algorithm = event.algorithm;
  values.protocol = event.protocol;
  values.channels = event.channels;
  values.peer_or_root = event.peer_or_root;
  values.bytes = event.count * kDatatypeSizes[static_cast<size_t>(event.datatype)];
  values.enqueued_boot_ns = values.ended_boot_ns = now;
  if (CountsBytes(event.function) && event.datatype == Datatype::kInt8) values.datatype = Datatype::kUnknown;
  const Handle parent = Handle::Unpack(event.parent);
  if (parent.kind == Kind::kContainer) {
    if (parent.channel != 0) values.datatype = static_cast<Datatype>(parent.channel);
    if ((parent.at & 1) != 0) values.flags |= kGraphCaptured;
  }
  values.sequence =
      event.type == nccl_abi::kPeer
          ? context.peers[static_cast<size_t>(event.function)].fetch_add(1, std::memory_order_relaxed)
          : event.sequence;
  Advance(page, values, &FunctionProgress::enqueued, now);
  if (FunctionProgress* progress = ProgressOf(page, values.place, values.function)) {
    progress->operations.fetch_add(1, std::memory_order_relaxed);
    progress->bytes.fetch_add(values.bytes, std::memory_order_relaxed);
  }
  if (level == static_cast<uint32_t>(Level::kCount)) return WriteRecord(page, values), nullptr;
  uint64_t generation = 0;
  Operation* operation = TakeOperation(page, now, generation);
  if (!operation) return nullptr;
  // No other thread can pin it before it is no longer marked as finished.
  for (auto* value : {&operation->begun, &operation->ended, &operation->last_begin, &operation->last_end,
                      &operation->proxy_begin, &operation->proxy_end})
    value->store(0, std::memory_order_relaxed);
  operation->first_begin.store(kNever, std::memory_order_relaxed);
  operation->active_boot_ns.store(now, std::memory_order_relaxed);
  operation->proxies.store(0, std::memory_order_relaxed);
  operation->flags.store(0, std::memory_order_relaxed);
  operation->context = static_cast<uint32_t>(&context - contexts);
  operation->has_kernels = context.version >= 3;
  operation->values() = values;
  operation->state.store(generation << kGenerationShift | kUsed, std::memory_order_release);
  return Handle{Kind::kOperation, 0, static_cast<uint32_t>(operation - operations), generation}.Pack();
}

void* BeginChannel(Page& page, const Context& context, const Event& event) noexcept {
  const Handle parent = Handle::Unpack(event.parent);
  if (parent.kind != Kind::kOperation || event.channel >= 64) return nullptr;
  Pin pin(parent);
  if (!pin) return nullptr;
  uint64_t begin = event.timer;
  if (!event.has_timer || !context.timer_is_ns) {
    pin->flags.fetch_or(kNoTimer, std::memory_order_relaxed);
    begin = own_page.Now();
  } else if (begin == 0) {
    pin->flags.fetch_or(kStale, std::memory_order_relaxed);
  }
  LowerTo(pin->first_begin, begin);
  RaiseTo(pin->last_begin, begin);
  if (pin->begun.fetch_or(uint64_t{1} << event.channel, std::memory_order_acq_rel) == 0) {
    const uint64_t now = own_page.Now();
    pin->active_boot_ns.store(now, std::memory_order_relaxed);
    Advance(page, pin->values(), &FunctionProgress::started, now);
  }
  return Handle{Kind::kChannel, event.channel, parent.at, parent.generation}.Pack();
}

// Whether a link may be replaced.
bool IsOver(const Page& page, uint64_t key) noexcept {
  const Communicator& communicator = page.communicators[key >> 22 & (kCommunicators - 1)];
  return communicator.generation.load(std::memory_order_relaxed) != static_cast<uint32_t>(key >> 28) ||
         communicator.closed.load(std::memory_order_relaxed) != 0;
}

// The number of the link in the page; 0: there is no room, or the peer is not known.
uint8_t LinkTo(Page& page, CommunicatorSlot place, int32_t peer) noexcept {
  if (place.slot < 0 || peer < 0 || peer >= kMostRanks) return 0;
  const uint64_t key =
      LinkKey(static_cast<uint32_t>(place.slot), place.generation, static_cast<uint32_t>(peer));
  const uint64_t first = (key * 0x9E3779B97F4A7C15) >> 56;
  for (const bool replaces : {false, true}) {
    for (uint64_t i = 0; i < 16; ++i) {
      const auto at = static_cast<uint8_t>(first + i);
      if (at == 0) continue;
      Link& link = page.links[at];
      uint64_t held = link.key.load(std::memory_order_acquire);
      if (held == key) return at;
      if (held != 0 && !(replaces && IsOver(page, held))) continue;
      if (link.key.compare_exchange_strong(held, key, std::memory_order_acq_rel)) {
        for (auto& waiting : link.waiting) waiting.store(0, std::memory_order_relaxed);
        return at;
      }
      if (held == key) return at;
    }
  }
  CountLoss(page, Loss::kNoHandle);
  return 0;
}

// The step's link in the page. Null: another one has its place.
Link* LinkOf(Page& page, const Step& step) noexcept {
  Link& link = page.links[step.link.load(std::memory_order_relaxed) % kLinks];
  return link.key.load(std::memory_order_relaxed) == step.key.load(std::memory_order_relaxed) ? &link
                                                                                              : nullptr;
}

// Sets what a step waits for, StepWait + 1 or 0, and returns what it waited for.
uint32_t SetWait(Page& page, Step& step, uint32_t wait) noexcept {
  const uint32_t before = step.wait.exchange(wait, std::memory_order_relaxed);
  Link* link = LinkOf(page, step);
  if (!link) return before;
  if (before != 0) link->waiting[before - 1].fetch_sub(1, std::memory_order_relaxed);
  if (wait != 0) link->waiting[wait - 1].fetch_add(1, std::memory_order_relaxed);
  return before;
}

void* BeginStep(Page& page, const Event& event) noexcept {
  const Handle parent = Handle::Unpack(event.parent);
  if (parent.kind != Kind::kProxyOp || parent.channel == 0) return nullptr;
  const uint64_t number = next_step.fetch_add(1, std::memory_order_relaxed);
  const uint64_t generation = (number / kSteps + 1) & (kNever >> kGenerationShift);
  Step& step = steps[number % kSteps];
  SetWait(page, step, 0);
  step.link.store(parent.channel, std::memory_order_relaxed);
  step.key.store(page.links[parent.channel].key.load(std::memory_order_relaxed), std::memory_order_relaxed);
  step.generation.store(generation, std::memory_order_release);
  return Handle{Kind::kStep, parent.channel, static_cast<uint32_t>(number % kSteps), generation}.Pack();
}

// Null: another one has its place.
Step* StepOf(const Handle& handle) noexcept {
  Step& step = steps[handle.at];
  return step.generation.load(std::memory_order_acquire) == handle.generation ? &step : nullptr;
}

void RecordStep(Page& page, const Handle& handle, int state) noexcept {
  uint32_t wait = 0;
  const auto is = [&](StepWait value) { wait = static_cast<uint32_t>(value) + 1; };
  switch (state) {
    case nccl_abi::kSendGpuWait:
    case nccl_abi::kReceiveGpuWait: is(StepWait::kGpu); break;
    case nccl_abi::kSendPeerWait: is(StepWait::kCredit); break;
    case nccl_abi::kSendWait: is(StepWait::kSend); break;
    case nccl_abi::kReceiveWait: is(StepWait::kReceive); break;
    case nccl_abi::kReceiveFlushWait: break;
    default: return;
  }
  Step* step = StepOf(handle);
  if (!step || step->wait.load(std::memory_order_relaxed) == wait) return;
  if (state == nccl_abi::kSendWait) step->since_ns.store(own_page.Now(), std::memory_order_relaxed);
  SetWait(page, *step, wait);
}

void EndStep(Page& page, const Handle& handle) noexcept {
  Step* step = StepOf(handle);
  if (!step || SetWait(page, *step, 0) != static_cast<uint32_t>(StepWait::kSend) + 1) return;
  Link* link = LinkOf(page, *step);
  if (!link) return;
  link->send_ns.fetch_add(own_page.Now() - step->since_ns.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
  link->sent.fetch_add(1, std::memory_order_relaxed);
}

void* BeginProxyOp(Page& page, const Event& event, uint32_t level) noexcept {
  const Handle parent = Handle::Unpack(event.parent);
  // Of another process, where a proxy works for it: its handles mean something else here.
  if (parent.kind != Kind::kOperation || event.pid != own_page.pid()) return nullptr;
  Pin pin(parent);
  if (!pin) return nullptr;
  const uint64_t now = own_page.Now();
  pin->active_boot_ns.store(now, std::memory_order_relaxed);
  pin->proxies.fetch_add(1, std::memory_order_relaxed);
  uint64_t none = 0;
  pin->proxy_begin.compare_exchange_strong(none, now, std::memory_order_relaxed);
  pin->flags.fetch_or(kSawProxy, std::memory_order_relaxed);
  const uint8_t link = level >= static_cast<uint32_t>(Level::kLink)
                           ? LinkTo(page, pin->values().place, event.peer_or_root)
                           : uint8_t{0};
  return Handle{Kind::kProxyOp, link, parent.at, parent.generation}.Pack();
}

// ---- what is known of the NCCL that calls

struct ObjectSearch {
  uintptr_t address;
  char name[256];
};
int VisitObject(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<ObjectSearch*>(data);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD ||
        search.address - (object->dlpi_addr + segment.p_vaddr) >= segment.p_memsz)
      continue;
    CopyText(search.name, object->dlpi_name);
    return 1;
  }
  return 0;
}

void DescribeLibrary(Page& page, int version, const char* path) noexcept {
  int number = 0;
  if (path[0] != '\0') {
    if (void* library = LoadedLibrary(path)) {
      auto* get = FunctionOf<int(int*)>(library, "ncclGetVersion");
      if (!get || get(&number) != 0) number = 0;
      ::dlclose(library);
    }
  }
  char text[32];
  if (number >= 10000)
    ::snprintf(text, sizeof text, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
  else ::snprintf(text, sizeof text, "profiler interface %d", version);
  CopyText(page.header.library_version, text);
}

// The device of the calling thread, for which NCCL makes the communicator.
void DescribeDevice(CommunicatorStart& start, char (&id)[32]) noexcept {
  void* cuda = LoadedLibrary("libcuda.so.1");
  if (!cuda) return;
  auto* get_device = FunctionOf<int(int*)>(cuda, "cuCtxGetDevice");
  auto* get_id = FunctionOf<int(char*, int, int)>(cuda, "cuDeviceGetPCIBusId");
  int device = -1;
  if (get_device && get_device(&device) == 0 && device >= 0) {
    start.device = device;
    if (get_id && get_id(id, static_cast<int>(sizeof id), device) == 0) {
      id[sizeof id - 1] = '\0';
      for (char& c : id) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      start.device_id = id;
    }
  }
  ::dlclose(cuda);
}

Level LevelOfEnvironment() noexcept {
  const char* text = ::secure_getenv(kLevelVariable);
  if (!text) return Level::kTime;
  if (::strcmp(text, "off") == 0) return Level::kOff;
  if (::strcmp(text, "count") == 0) return Level::kCount;
  return ::strcmp(text, "link") == 0 ? Level::kLink : Level::kTime;
}

Context& TakeContext(int version) noexcept {
  for (size_t i = 0; i < kContexts; ++i) {
    uint32_t used = 0;
    if (contexts[i].used.compare_exchange_strong(used, 1, std::memory_order_acq_rel)) return contexts[i];
  }
  return contexts[kContexts + static_cast<size_t>(version)];
}

}  // namespace

void* OpenContext(const CommunicatorInfo& info) noexcept {
  const int before = errno;
  Context& context = TakeContext(info.version);
  Library* library = info.mask && !IsShared(context) ? EnterLibrary(info) : nullptr;
  context.version = info.version;
  context.library.store(library, std::memory_order_release);
  Page* page =
      SwitchedOff() ? nullptr : own_page.Open({Writer::kNcclPlugin, GPULENS_VERSION, LevelOfEnvironment()});
  if (!page) {
    context.place_state.store(kTakingPlace, std::memory_order_release);
    if (info.mask) __atomic_store_n(info.mask, 0, __ATOMIC_RELAXED);
    errno = before;
    return &context;
  }
  ObjectSearch search{reinterpret_cast<uintptr_t>(info.caller), {}};
  if (info.caller) ::dl_iterate_phdr(VisitObject, &search);
  // RCCL's timer counts at a rate that is not documented.
  context.timer_is_ns = ::strstr(search.name, "rccl") == nullptr;
  if (page->header.library_version[0] == '\0') DescribeLibrary(*page, info.version, search.name);
  const uint32_t level = WantedLevel(*page);
  links_always.store(LevelOfEnvironment() == Level::kLink, std::memory_order_relaxed);
  if (level == static_cast<uint32_t>(Level::kLink))
    links_since_ns.store(own_page.Now(), std::memory_order_relaxed);
  // Whatever is in it, as every plugin does in init; NCCL restores what its RAS has set.
  const uint32_t extra = library ? library->extra.load(std::memory_order_relaxed) : 0;
  const int mask = static_cast<int>(MaskOf(info.version, level) | extra);
  if (info.mask) __atomic_store_n(info.mask, mask, __ATOMIC_RELAXED);
  page->header.actual_level.store(level, std::memory_order_relaxed);
  if (library) {
    library->written.store(mask, std::memory_order_relaxed);
    library->level.store(level, std::memory_order_relaxed);
  } else if (!IsShared(context)) {
    CountLoss(*page, Loss::kError);
  }
  for (auto& peers : context.peers) peers.store(0, std::memory_order_relaxed);
  if (IsShared(context)) {
    CountLoss(*page, Loss::kNoCommunicator);
    context.place_state.store(kTakingPlace, std::memory_order_release);
  } else if (info.version < 4) {
    context.place_state.store(kNoPlace, std::memory_order_release);
  } else {
    CommunicatorStart start{.hash = info.hash,
                            .rank = info.rank,
                            .ranks = info.ranks,
                            .nodes = info.nodes,
                            .name = info.name,
                            .boot_ns = own_page.Now()};
    char id[32] = {};
    DescribeDevice(start, id);
    const CommunicatorSlot place = OpenCommunicator(*page, start);
    context.slot.store(place.slot, std::memory_order_relaxed);
    context.generation.store(place.generation, std::memory_order_relaxed);
    context.place_state.store(kHasPlace, std::memory_order_release);
  }
  errno = before;
  return &context;
}

void* BeginEvent(void* opaque, const Event& event) noexcept {
  Page* page = own_page.page();
  if (!opaque || !page) return nullptr;
  auto& context = *static_cast<Context*>(opaque);
  Library* library = context.library.load(std::memory_order_relaxed);
  const uint32_t level = WantedLevel(*page);
  if (library && library->level.load(std::memory_order_relaxed) != level) ApplyLevel(*page, *library, level);
  switch (event.type) {
    using namespace nccl_abi;
    case kCollective:
    case kPeer: return BeginOperation(*page, context, event, level);
    case kKernelChannel: return BeginChannel(*page, context, event);
    case kProxyOp: return BeginProxyOp(*page, event, level);
    case kProxyStep: return BeginStep(*page, event);
    // NCCL counts operations of a captured graph only where these have a handle.
    case kGroup:
      // All that comes at this level.
      if (level == static_cast<uint32_t>(Level::kOff)) own_page.HandOverIfDue(own_page.Now());
      [[fallthrough]];
    case kGroupApi:
    case kCollectiveApi:
    case kPeerApi:
      return Handle{Kind::kContainer, static_cast<uint8_t>(event.datatype), event.graph_captured ? 1u : 0u, 0}
          .Pack();
    default:
      if ((event.type & (event.type - 1)) != 0 || (event.type & kKnownEvents) == 0)
        CountLoss(*page, Loss::kUnknownEvent);
      return nullptr;
  }
}

void RecordState(void* packed, int state, uint64_t value) noexcept {
  Page* page = own_page.page();
  const Handle handle = Handle::Unpack(packed);
  if (!page) return;
  if (handle.kind == Kind::kStep) return RecordStep(*page, handle, state);
  if (handle.kind != Kind::kChannel || state != nccl_abi::kKernelChannelStop || value == 0) return;
  Pin pin(handle);
  if (!pin || (pin->flags.load(std::memory_order_relaxed) & kNoTimer) != 0) return;
  // Twice: the first is right.
  if ((pin->ended.load(std::memory_order_relaxed) >> handle.channel & 1) != 0) return;
  if (value < pin->first_begin.load(std::memory_order_relaxed))
    pin->flags.fetch_or(kStale, std::memory_order_relaxed);
  RaiseTo(pin->last_end, value);
}

void EndEvent(void* packed) noexcept {
  Page* page = own_page.page();
  const Handle handle = Handle::Unpack(packed);
  if (!page || handle.kind <= Kind::kContainer || handle.kind > Kind::kStep) return;
  if (handle.kind == Kind::kStep) return EndStep(*page, handle);
  Pin pin(handle);
  if (!pin) return;
  if (handle.kind == Kind::kOperation) {
    if ((pin->flags.fetch_or(kEnqueued, std::memory_order_acq_rel) & kEnqueued) != 0) return;
  } else if (handle.kind == Kind::kChannel) {
    if ((pin->flags.load(std::memory_order_relaxed) & kNoTimer) != 0) RaiseTo(pin->last_end, own_page.Now());
    const uint64_t bit = uint64_t{1} << handle.channel;
    if ((pin->ended.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) return;
    if (pin->last_end.load(std::memory_order_relaxed) < pin->last_begin.load(std::memory_order_relaxed) &&
        Bits(pin->ended.load(std::memory_order_relaxed)) >= pin->values().channels)
      pin->flags.fetch_or(kStale, std::memory_order_relaxed);
  } else {
    uint32_t proxies = pin->proxies.load(std::memory_order_relaxed);
    do {
      if (proxies == 0) return;
    } while (!pin->proxies.compare_exchange_weak(proxies, proxies - 1, std::memory_order_acq_rel));
    RaiseTo(pin->proxy_end, own_page.Now());
  }
  Settle(*page, pin);
}

void CloseContext(void* opaque) noexcept {
  if (!opaque) return;
  auto& context = *static_cast<Context*>(opaque);
  if (Page* page = own_page.page()) {
    const uint64_t now = own_page.Now();
    const auto number = static_cast<uint32_t>(&context - contexts);
    for (Operation& operation : operations) {
      Pin pin(operation, operation.state.load(std::memory_order_relaxed) >> kGenerationShift);
      if (pin && pin->context == number && !IsShared(context)) Abandon(*page, pin, now);
    }
    if (context.place_state.load(std::memory_order_acquire) == kHasPlace)
      CloseCommunicator(*page, {context.slot.load(std::memory_order_relaxed),
                                context.generation.load(std::memory_order_relaxed)});
  }
  if (IsShared(context)) return;
  context.place_state.store(kTakingPlace, std::memory_order_release);
  LeaveLibrary(context.library.exchange(nullptr, std::memory_order_acq_rel));
  context.used.store(0, std::memory_order_release);
}

void SetExtraMask(void* opaque, uint64_t mask) noexcept {
  if (!opaque) return;
  Library* library = static_cast<Context*>(opaque)->library.load(std::memory_order_relaxed);
  if (!library || library->extra.load(std::memory_order_relaxed) == mask) return;
  library->extra.store(static_cast<uint32_t>(mask), std::memory_order_relaxed);
  if (Page* page = own_page.page()) {
    ApplyLevel(*page, *library, WantedLevel(*page));
  } else if (int* to = library->mask.load(std::memory_order_relaxed)) {
    __atomic_store_n(to, static_cast<int>(mask), __ATOMIC_RELAXED);
  }
}

void Explain(const char* text) noexcept {
  if (Page* page = own_page.page()) SetTrouble(*page, text);
}

Page* CurrentPage() noexcept { return own_page.page(); }

void SetLongestLinks(uint64_t ns) noexcept { longest_links_ns.store(ns, std::memory_order_relaxed); }

}  // namespace gpulens::nccl_plugin
