#include "sdk/job/job_core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "base/version.h"
#include "job_page/job_page_writer.h"

namespace gpulens::job_core {
namespace {

using job_page::Page;

constexpr uint64_t kRetryNs = 10'000'000'000;
constexpr size_t kDepth = 64;

// Held for some tens of nanoseconds; a thread that does not get it soon gives up.
class ShortLock {
 public:
  bool TryLock() noexcept {
    for (int tries = 0; tries < 2000; ++tries) {
      if (held_.exchange(1, std::memory_order_acquire) == 0) return true;
      // The holder may have no processor.
      if (tries >= 100) ::sched_yield();
    }
    return false;
  }
  void Unlock() noexcept { held_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> held_{0};
};

struct OpenPhase {
  uint64_t token;
  uint32_t phase;
};

struct Group {
  // Even: free. Increases with each use and each end, so that a handle of an earlier use is recognised.
  std::atomic<uint32_t> use;
  std::atomic<uint64_t> place;  // slot + 1 | generation << 32 in the page; 0: not in the page
  uint64_t hash;
  int32_t rank, ranks;
  char name[64];
  std::atomic<uint64_t> next[job_page::kFunctions];  // sequence number of the next call
};

struct Process {
  job_page::OwnPage own;
  std::atomic<uint32_t> epoch{1};
  std::atomic<uint64_t> retry_ns{0};  // when to look for an agent again
  std::atomic<uint32_t> state{static_cast<uint32_t>(State::kNotTried)};
  std::atomic<bool> follows_forks{false};

  ShortLock phase_lock;  // guards the three below and the writing of phases in the page
  OpenPhase open[kDepth] = {};
  size_t depth = 0;
  uint32_t next_token = 0;

  ShortLock group_lock;  // guards taking and freeing of groups, and their way into the page
  Group groups[job_page::kCommunicators] = {};

  char library[32] = {};
};
constinit Process process;
// Waits of this thread that are open.
constinit thread_local uint32_t waits = 0;

void ForgetAfterFork() noexcept {
  process.epoch.fetch_add(1, std::memory_order_relaxed);
  process.phase_lock.Unlock();
  process.group_lock.Unlock();
  process.depth = 0;
  for (Group& group : process.groups) {
    const uint32_t use = group.use.load(std::memory_order_relaxed);
    group.use.store((use + 1) & ~1U, std::memory_order_relaxed);
    group.place.store(0, std::memory_order_relaxed);
  }
  waits = 0;
  process.retry_ns.store(0, std::memory_order_relaxed);
  if (process.state.load(std::memory_order_relaxed) != static_cast<uint32_t>(State::kOff))
    process.state.store(static_cast<uint32_t>(State::kNotTried), std::memory_order_relaxed);
}

uint64_t CoarseNow() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Whether it is worth making a page: an agent has made its socket, or someone named a folder.
bool AnyReader() noexcept {
  const char* folder = ::secure_getenv(job_page::kFolderVariable);
  if (folder && folder[0] != '\0') return true;
  const char* socket = ::secure_getenv(job_page::kSocketVariable);
  return ::access(socket ? socket : job_page::kDefaultSocket, F_OK) == 0;
}

uint64_t Packed(job_page::CommunicatorSlot place) noexcept {
  if (place.slot < 0) return 0;
  return (static_cast<uint64_t>(place.slot) + 1) | static_cast<uint64_t>(place.generation) << 32;
}
job_page::CommunicatorSlot Unpacked(uint64_t place) noexcept {
  return {static_cast<int32_t>(place & 0xFFFFFFFF) - 1, static_cast<uint32_t>(place >> 32)};
}

// With the lock of the groups.
void PutIntoPage(Page& page, Group& group) noexcept {
  job_page::CommunicatorStart start;
  start.hash = group.hash;
  start.rank = group.rank, start.ranks = group.ranks;
  start.name = group.name;
  start.boot_ns = process.own.Now();
  group.place.store(Packed(job_page::OpenCommunicator(page, start)), std::memory_order_release);
}

Page* LookForAgent() noexcept {
  auto state = static_cast<State>(process.state.load(std::memory_order_relaxed));
  if (state == State::kOff || state == State::kFailed) return nullptr;
  const uint64_t now = CoarseNow();
  uint64_t retry = process.retry_ns.load(std::memory_order_relaxed);
  if (now < retry || !process.retry_ns.compare_exchange_strong(retry, now + kRetryNs)) return nullptr;
  const auto is = [](State next) {
    process.state.store(static_cast<uint32_t>(next), std::memory_order_relaxed);
    return nullptr;
  };
  if (state == State::kNotTried && job_page::SwitchedOff()) return is(State::kOff);
  if (!AnyReader()) return is(State::kNoAgent);
  // Before the page's own handler is, so that the child has no page when it forgets the rest.
  if (!process.follows_forks.exchange(true)) ::pthread_atfork(nullptr, nullptr, ForgetAfterFork);
  Page* page = process.own.Open({job_page::Writer::kProgram, Version().data(), job_page::Level::kTime});
  if (!page) return is(State::kFailed);
  job_page::CopyText(page->header.library_version, process.library);
  page->header.actual_level.store(static_cast<uint32_t>(job_page::Level::kTime), std::memory_order_relaxed);
  if (process.group_lock.TryLock()) {
    for (Group& group : process.groups) {
      if (group.use.load(std::memory_order_relaxed) % 2 == 1) PutIntoPage(*page, group);
    }
    process.group_lock.Unlock();
  }
  is(State::kOpen);
  return page;
}

// The page while something is to be recorded, else null.
Page* Active() noexcept {
  Page* page = process.own.page();
  if (!page) [[unlikely]]
    page = LookForAgent();
  if (!page || page->header.wanted_level.load(std::memory_order_relaxed) ==
                   static_cast<uint32_t>(job_page::Level::kOff))
    return nullptr;
  return page;
}

void Touch(Page& page, uint64_t now) noexcept {
  page.header.last_event_boot_ns.store(now, std::memory_order_relaxed);
  process.own.HandOverIfDue(now);
}

// With the lock of the phases.
void PublishPhase(Page& page, uint32_t phase, uint64_t now) noexcept {
  job_page::WritePhase(page, static_cast<job_page::Phase>(phase), now);
  Touch(page, now);
}

uint64_t PushPhase(Page& page, job_page::Phase phase, uint64_t now) noexcept {
  if (!process.phase_lock.TryLock()) return job_page::CountLoss(page, job_page::Loss::kError), 0;
  uint64_t token = 0;
  if (process.depth < kDepth) {
    process.next_token = process.next_token + 1 == 0 ? 1 : process.next_token + 1;
    token = static_cast<uint64_t>(process.epoch.load(std::memory_order_relaxed)) << 32 | process.next_token;
    process.open[process.depth++] = {token, static_cast<uint32_t>(phase)};
    PublishPhase(page, static_cast<uint32_t>(phase), now);
  } else {
    job_page::CountLoss(page, job_page::Loss::kNoHandle);
  }
  process.phase_lock.Unlock();
  return token;
}

void PopPhase(Page& page, uint64_t token, uint64_t now) noexcept {
  // Not given up: the phase would stay open for ever. The holder is a thread of this process that runs on.
  while (!process.phase_lock.TryLock()) {
  }
  for (size_t at = process.depth; at-- > 0;) {
    if (process.open[at].token != token) continue;
    for (size_t i = at; i + 1 < process.depth; ++i) process.open[i] = process.open[i + 1];
    --process.depth;
    break;
  }
  PublishPhase(page, process.depth > 0 ? process.open[process.depth - 1].phase : 0, now);
  process.phase_lock.Unlock();
}

bool OfThisProcess(uint64_t token) noexcept {
  return token != 0 && token >> 32 == process.epoch.load(std::memory_order_relaxed);
}

Group* GroupOf(uint64_t handle) noexcept {
  const uint64_t at = (handle & 0xFFFFFFFF) - 1;
  if (at >= job_page::kCommunicators) return nullptr;
  Group& group = process.groups[at];
  return group.use.load(std::memory_order_acquire) == handle >> 32 ? &group : nullptr;
}

__attribute__((destructor)) void RemoveFileAtEnd() { process.own.RemoveFile(); }

}  // namespace

uint64_t BeginPhase(job_page::Phase phase) noexcept {
  Page* page = Active();
  if (!page || phase >= job_page::Phase::kCount) return 0;
  return PushPhase(*page, phase, process.own.Now());
}

void EndPhase(uint64_t token) noexcept {
  Page* page = OfThisProcess(token) ? process.own.page() : nullptr;
  if (page) PopPhase(*page, token, process.own.Now());
}

void BeginWait(Wait& wait) noexcept {
  wait = {};
  Page* page = Active();
  if (!page) return;
  wait.epoch = process.epoch.load(std::memory_order_relaxed);
  if (waits++ > 0) return;
  wait.counted = 1;
  wait.begun_boot_ns = process.own.Now();
  uint64_t none = 0;
  page->data_loading.open_since_boot_ns.compare_exchange_strong(none, wait.begun_boot_ns,
                                                                std::memory_order_relaxed);
  wait.phase = PushPhase(*page, job_page::Phase::kDataLoading, wait.begun_boot_ns);
}

void EndWait(Wait& wait, bool got_batch) noexcept {
  if (wait.epoch == 0 || wait.epoch != process.epoch.load(std::memory_order_relaxed)) return;
  if (waits > 0) --waits;
  Page* page = process.own.page();
  if (wait.counted != 0 && page) {
    const uint64_t now = process.own.Now();
    if (got_batch) {
      page->data_loading.wait.Add(now > wait.begun_boot_ns ? now - wait.begun_boot_ns : 0);
      page->data_loading.batches.fetch_add(1, std::memory_order_relaxed);
    }
    uint64_t mine = wait.begun_boot_ns;
    page->data_loading.open_since_boot_ns.compare_exchange_strong(mine, 0, std::memory_order_relaxed);
    if (wait.phase != 0) PopPhase(*page, wait.phase, now);
    Touch(*page, now);
  }
  wait = {};
}

uint64_t OpenCommunicator(uint64_t hash, int32_t rank, int32_t ranks, const char* name) noexcept {
  Page* page = Active();
  if (static_cast<State>(process.state.load(std::memory_order_relaxed)) == State::kOff) return 0;
  if (!process.group_lock.TryLock()) return 0;
  uint64_t handle = 0;
  for (size_t at = 0; at < job_page::kCommunicators && handle == 0; ++at) {
    Group& group = process.groups[at];
    const uint32_t use = group.use.load(std::memory_order_relaxed);
    if (use % 2 == 1) continue;
    group.hash = hash, group.rank = rank, group.ranks = ranks;
    job_page::CopyText(group.name, name);
    for (auto& next : group.next) next.store(0, std::memory_order_relaxed);
    group.place.store(0, std::memory_order_relaxed);
    group.use.store(use + 1, std::memory_order_release);
    handle = (at + 1) | static_cast<uint64_t>(use + 1) << 32;
    if (Page* of_process = process.own.page()) PutIntoPage(*of_process, group);
  }
  process.group_lock.Unlock();
  if (handle == 0 && page) job_page::CountLoss(*page, job_page::Loss::kNoCommunicator);
  return handle;
}

void CloseCommunicator(uint64_t communicator) noexcept {
  Group* group = GroupOf(communicator);
  if (!group) return;
  while (!process.group_lock.TryLock()) {
  }
  if (GroupOf(communicator) == group) {
    const uint64_t place = group->place.load(std::memory_order_relaxed);
    if (Page* page = place != 0 ? process.own.page() : nullptr)
      job_page::CloseCommunicator(*page, Unpacked(place));
    group->use.fetch_add(1, std::memory_order_release);
  }
  process.group_lock.Unlock();
}

void BeginCall(Call& call, uint64_t communicator, const CallOf& of) noexcept {
  call = {};
  Page* page = Active();
  Group* group = GroupOf(communicator);
  if (!group || of.function >= job_page::Function::kCount) {
    if (page) job_page::CountLoss(*page, job_page::Loss::kNoCommunicator);
    return;
  }
  call.function = static_cast<uint8_t>(of.function);
  call.sequence = group->next[call.function].fetch_add(1, std::memory_order_relaxed);
  if (!page) return;
  call.begun = 1;
  call.epoch = process.epoch.load(std::memory_order_relaxed);
  call.communicator = communicator;
  call.datatype = static_cast<uint8_t>(of.datatype);
  call.bytes = of.bytes;
  call.peer_or_root = of.peer_or_root;
  call.begun_boot_ns = process.own.Now();
  const auto place = Unpacked(group->place.load(std::memory_order_acquire));
  if (place.slot >= 0) {
    job_page::FunctionProgress& progress =
        page->communicators[static_cast<size_t>(place.slot)].functions[call.function];
    progress.operations.fetch_add(1, std::memory_order_relaxed);
    progress.bytes.fetch_add(of.bytes, std::memory_order_relaxed);
    progress.changed_boot_ns.store(call.begun_boot_ns, std::memory_order_relaxed);
    job_page::RaiseTo(progress.enqueued, call.sequence + 1);
    job_page::RaiseTo(progress.started, call.sequence + 1);
  }
  Touch(*page, call.begun_boot_ns);
  if (!of.asynchronous) call.phase = PushPhase(*page, job_page::Phase::kNcclCollective, call.begun_boot_ns);
}

void EndCall(Call& call, bool measured) noexcept {
  Page* page = process.own.page();
  if (call.begun == 0 || !page || call.epoch != process.epoch.load(std::memory_order_relaxed)) return;
  const uint64_t now = process.own.Now();
  if (call.phase != 0) PopPhase(*page, call.phase, now);
  Group* group = GroupOf(call.communicator);
  job_page::RecordValues values;
  if (group) values.place = Unpacked(group->place.load(std::memory_order_acquire));
  if (values.place.slot >= 0) {
    job_page::FunctionProgress& progress =
        page->communicators[static_cast<size_t>(values.place.slot)].functions[call.function];
    progress.changed_boot_ns.store(now, std::memory_order_relaxed);
    job_page::RaiseTo(progress.done, call.sequence + 1);
  }
  if (page->header.wanted_level.load(std::memory_order_relaxed) >=
      static_cast<uint32_t>(job_page::Level::kTime)) {
    values.function = static_cast<job_page::Function>(call.function);
    values.datatype = static_cast<job_page::Datatype>(call.datatype);
    values.timing = measured ? job_page::Timing::kHost : job_page::Timing::kNone;
    values.peer_or_root = call.peer_or_root;
    values.sequence = call.sequence;
    values.bytes = call.bytes;
    values.enqueued_boot_ns = call.begun_boot_ns;
    values.start_ns = measured ? call.begun_boot_ns : 0;
    values.end_ns = measured ? now : 0;
    values.ended_boot_ns = now;
    job_page::WriteRecord(*page, values);
  }
  Touch(*page, now);
  call = {};
}

void SetLibrary(const char* text) noexcept {
  job_page::CopyText(process.library, text);
  if (Page* page = process.own.page()) job_page::CopyText(page->header.library_version, process.library);
}

void SetTrouble(const char* text) noexcept {
  if (Page* page = Active()) job_page::SetTrouble(*page, text);
}

void CountLoss(job_page::Loss loss) noexcept {
  if (Page* page = Active(); page && loss < job_page::Loss::kCount) job_page::CountLoss(*page, loss);
}

State CurrentState() noexcept {
  static_cast<void>(Active());
  return static_cast<State>(process.state.load(std::memory_order_relaxed));
}

job_page::Page* PageForTest() noexcept { return process.own.page(); }

}  // namespace gpulens::job_core
