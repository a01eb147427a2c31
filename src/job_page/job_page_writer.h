// The writers' side of the job page: making it, handing it to the agent, and writing communicators and
// records. For libraries inside jobs (src/inject) and for the SDK. Needs the C library alone (glibc 2.17),
// neither allocates nor throws, and compiles with and without exceptions.
//
//     constinit OwnPage own;                        // of static storage, one a library
//     if (!SwitchedOff()) own.Open({Writer::kNcclPlugin, "0.1.0", Level::kTime});
//     if (Page* page = own.page()) …                // in every event again: null after fork, and where it
//     failed
//
// Open makes system calls and belongs in the initialisation of a library. Everything else may be called from
// any thread and never waits; it makes no system call, but HandOverIfDue a few in five seconds.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "job_page/job_page.h"

// Hidden: a job may load several libraries with this code, and each has its own page.
#pragma GCC visibility push(hidden)
namespace gpulens::job_page {

// Whether the environment or a file turns all measuring off. For the time when a library is loaded.
inline bool SwitchedOff() noexcept {
  const char* text = ::secure_getenv(kSwitchVariable);
  if (text && ::strcmp(text, "off") == 0) return true;
  for (const char* file : kSwitchFiles) {
    if (::access(file, F_OK) == 0) return true;
  }
  return false;
}

// CLOCK_BOOTTIME. Kernels before 5.3 give it by a system call only: there it is CLOCK_MONOTONIC and a
// difference measured once, which is wrong by the time that the machine was suspended since.
class BootClock {
 public:
  uint64_t Now() const noexcept { return Read(clock_) + difference_ns_; }
  // Before the first Now().
  void Choose() noexcept {
    utsname system{};
    unsigned major = 0, minor = 0;
    if (::uname(&system) != 0) return;
    const char* at = system.release;
    while (*at >= '0' && *at <= '9') major = major * 10 + static_cast<unsigned>(*at++ - '0');
    if (*at == '.') ++at;
    while (*at >= '0' && *at <= '9') minor = minor * 10 + static_cast<unsigned>(*at++ - '0');
    if (major > 5 || (major == 5 && minor >= 3)) return;
    difference_ns_ = Read(CLOCK_BOOTTIME) - Read(CLOCK_MONOTONIC);
    clock_ = CLOCK_MONOTONIC;
  }

 private:
  static uint64_t Read(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }
  clockid_t clock_ = CLOCK_BOOTTIME;
  uint64_t difference_ns_ = 0;
};

// Copies text with its end, shortened to fit. `text` may be null.
template <size_t kSize>
void CopyText(char (&to)[kSize], const char* text) noexcept {
  size_t at = 0;
  for (; text && text[at] != '\0' && at + 1 < kSize; ++at) to[at] = text[at];
  to[at] = '\0';
}

struct OwnPageOptions {
  Writer writer = Writer::kNone;
  const char* writer_version = "";
  Level wanted = Level::kTime;  // until the agent writes another one
};

// The page of one library in one process. An object of static storage that is never destroyed.
class OwnPage {
 public:
  constexpr OwnPage() noexcept = default;
  OwnPage(const OwnPage&) = delete;
  OwnPage& operator=(const OwnPage&) = delete;

  // Makes the page and hands it over, unless that was done in this process; in a child that was forked
  // afterwards it makes a new one. Returns page(). Never waits for the agent; a call during another thread's
  // call waits up to a second for it.
  Page* Open(const OwnPageOptions& options) noexcept;
  // Null: not opened, not possible (see failure()), or this is a forked child.
  Page* page() const noexcept { return page_.load(std::memory_order_acquire); }
  // errno of what made the page impossible, 0 if nothing did.
  int failure() const noexcept { return failure_; }
  // Whether an agent got the page by its socket; else it is a file.
  bool handed_over() const noexcept { return socket_ >= 0; }
  uint64_t Now() const noexcept { return clock_.Now(); }
  // Of the process that opened the page, without a system call.
  int32_t pid() const noexcept { return pid_; }
  // Hands the page to the next agent if the one that had it ended, or to the first one that listens if the
  // page is a file in memory, which is then removed. For each event, `now`: Now(). It compares a time; once
  // in five seconds it makes a few system calls, of which none waits. Keeps errno.
  void HandOverIfDue(uint64_t now) noexcept {
    uint64_t due = due_ns_.load(std::memory_order_relaxed);
    if (now < due) [[likely]]
      return;
    if (due_ns_.compare_exchange_strong(due, now + kHandOverEveryNs, std::memory_order_relaxed))
      HandOverAgain();
  }
  // Removes the page's file, if it is one; the page stays usable. At the end of the process.
  void RemoveFile() noexcept {
    if (path_[0] != '\0') ::unlink(path_);
    path_[0] = '\0';
  }

 private:
  static constexpr uint64_t kHandOverEveryNs = 5'000'000'000;
  enum State : uint32_t { kClosed, kOpening, kOpened };
  struct Identity {
    uint64_t device, inode;
  };

  static int Fallocate(int file, size_t begin, size_t end) noexcept {
    return ::syscall(SYS_fallocate, file, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) == 0
               ? 0
               : errno;
  }
  // Takes memory for the parts that this writer writes, all of it now: a page of memory that cannot be had
  // later would end the job by SIGBUS.
  static int Reserve(int file, Writer writer) noexcept;
  static Page* Map(int file) noexcept {
    void* at = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? nullptr : static_cast<Page*>(at);
  }
  static bool IdentityOf(int file, Identity& out) noexcept {
    // As a system call, since fstat has another symbol in each glibc.
    struct StatBuffer {
      unsigned long device, inode, rest[30];
    } buffer;
    if (::syscall(SYS_fstat, file, &buffer) != 0) return false;
    out = {buffer.device, buffer.inode};
    return true;
  }
  static uint64_t StartTicks() noexcept;
  static const char* JobName() noexcept;
  static void Describe(Page& page, const OwnPageOptions& options, uint64_t now) noexcept;
  static void CopySocketPath(char (&to)[sizeof(sockaddr_un::sun_path)]) noexcept;
  int MakeMemoryFile() noexcept;
  bool HandOver(int file) noexcept;
  [[gnu::cold]] void HandOverAgain() noexcept;
  int MakeFile(Writer writer) noexcept;
  int Make(const OwnPageOptions& options) noexcept;
  void Keep(int descriptor) noexcept {
    if (!IdentityOf(descriptor, kept_identity_)) kept_identity_ = {0, 0};
    kept_ = descriptor;
  }
  // The program may have closed our descriptor and use its number for something else.
  static bool IsStill(int descriptor, const Identity& identity) noexcept {
    Identity now{};
    return descriptor >= 0 && IdentityOf(descriptor, now) && now.device == identity.device &&
           now.inode == identity.inode;
  }
  // In the child of a fork: the page belongs to the parent, and so does the connection.
  void Forget() noexcept {
    page_.store(nullptr, std::memory_order_release);
    if (IsStill(kept_, kept_identity_)) ::close(kept_);
    if (IsStill(memory_, memory_identity_)) ::close(memory_);
    kept_ = socket_ = memory_ = -1;
    checks_.store(0, std::memory_order_relaxed);
    path_[0] = '\0';
    state_.store(kClosed, std::memory_order_release);
  }
  static void ForgetAll() noexcept;

  std::atomic<Page*> page_{nullptr};
  std::atomic<uint32_t> state_{kClosed};
  int failure_ = 0;
  int32_t pid_ = 0;
  int socket_ = -1;
  int kept_ = -1;  // the connection, or the file with its lock
  Identity kept_identity_{};
  int memory_ = -1;  // the page's memory, where it can be handed over
  Identity memory_identity_{};
  Writer writer_ = Writer::kNone;
  std::atomic<uint32_t> checks_{0};  // 1 during HandOverAgain
  std::atomic<uint64_t> due_ns_{0};  // of HandOverAgain
  BootClock clock_;
  OwnPage* next_ = nullptr;  // of those that Forget in a child
  bool listed_ = false;
  char path_[256] = {};
  // Empty: none. The environment is read at the start only, since the program may change it at any time.
  char socket_path_[sizeof(sockaddr_un::sun_path)] = {};
};

inline constinit std::atomic<OwnPage*> own_pages{nullptr};

inline void OwnPage::ForgetAll() noexcept {
  for (OwnPage* at = own_pages.load(std::memory_order_acquire); at; at = at->next_) at->Forget();
}

inline int OwnPage::Reserve(int file, Writer writer) noexcept {
  struct Part {
    size_t begin, end;
  };
  constexpr Part kCollectives{offsetof(Page, communicators), offsetof(Page, devices)};
  constexpr Part kCuda{offsetof(Page, devices), offsetof(Page, phases)};
  constexpr Part kMarks{offsetof(Page, phases), offsetof(Page, records)};
  constexpr Part kRing{offsetof(Page, records), sizeof(Page)};
  int error = Fallocate(file, 0, sizeof(Header));
  const auto add = [&](Part part) {
    if (error == 0) error = Fallocate(file, part.begin, part.end);
  };
  if (writer != Writer::kCudaInjection) add(kCollectives), add(kRing);
  if (writer == Writer::kCudaInjection) add(kCuda);
  if (writer == Writer::kProgram) add(kMarks);
  return error;
}

inline uint64_t OwnPage::StartTicks() noexcept {
  char text[1024];
  const int file = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (got <= 0) return 0;
  text[got] = '\0';
  const char* at = ::strrchr(text, ')');  // the name may hold blanks and brackets
  for (int field = 2; at && field < 22; ++field) {
    at = ::strchr(at, ' ');
    if (at) ++at;
  }
  uint64_t ticks = 0;
  for (; at && *at >= '0' && *at <= '9'; ++at) ticks = ticks * 10 + static_cast<uint64_t>(*at - '0');
  return ticks;
}

// What is equal on all hosts of a job. Null: nothing is.
inline const char* OwnPage::JobName() noexcept {
  for (const char* variable : kJobVariables) {
    const char* text = ::secure_getenv(variable);
    // Of torchrun without an id of its own.
    if (text && text[0] != '\0' && ::strcmp(text, "none") != 0) return text;
  }
  return nullptr;
}

inline void OwnPage::Describe(Page& page, const OwnPageOptions& options, uint64_t now) noexcept {
  Header& header = page.header;
  header.layout = kLayout;
  header.writer = static_cast<uint32_t>(options.writer);
  header.size = sizeof(Page);
  header.pid = ::getpid();
  header.user = ::getuid();
  header.start_ticks = StartTicks();
  header.opened_boot_ns = now;
  CopyText(header.writer_version, options.writer_version);
  CopyText(header.job, JobName());
  header.wanted_level.store(static_cast<uint32_t>(options.wanted), std::memory_order_relaxed);
  header.magic.store(kMagic, std::memory_order_release);
}

inline int OwnPage::MakeMemoryFile() noexcept {
  constexpr unsigned kCloseOnExec = 1, kAllowSealing = 2;
  return static_cast<int>(::syscall(SYS_memfd_create, "gpulens-job", kCloseOnExec | kAllowSealing));
}

inline void OwnPage::CopySocketPath(char (&to)[sizeof(sockaddr_un::sun_path)]) noexcept {
  const char* path = ::secure_getenv(kSocketVariable);
  if (!path) path = kDefaultSocket;
  to[0] = '\0';
  if (::strlen(path) < sizeof to) CopyText(to, path);
}

inline bool OwnPage::HandOver(int file) noexcept {
  if (socket_path_[0] == '\0') return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(sizeof address.sun_path == sizeof socket_path_);
  ::memcpy(address.sun_path, socket_path_, sizeof socket_path_);
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return false;
  Hello hello{kMagic, kLayout, static_cast<uint32_t>(writer_)};
  iovec bytes{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  ::memcpy(CMSG_DATA(rights), &file, sizeof file);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
    ::close(connection);
    return false;
  }
  socket_ = connection;
  Keep(connection);
  return true;
}

// A file that a dead process left is replaced; where a living one of another process namespace holds the name
// (by flock), the next of a few names is taken.
inline int OwnPage::MakeFile(Writer writer) noexcept {
  const char* folder = ::secure_getenv(kFolderVariable);
  if (!folder || folder[0] == '\0') folder = kDefaultFolder;
  for (unsigned number = 1; number <= 8; ++number) {
    char end[16] = "";
    if (number > 1) ::snprintf(end, sizeof end, "-%u", number);
    const int length = ::snprintf(path_, sizeof path_, "%s/gpulens-job-%u-%d-%u%s", folder, ::getuid(),
                                  ::getpid(), static_cast<unsigned>(writer), end);
    if (length < 0 || static_cast<size_t>(length) >= sizeof path_) return errno = ENAMETOOLONG, -1;
    const int old = ::open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (old >= 0) {
      const bool dead = ::flock(old, LOCK_EX | LOCK_NB) == 0;
      if (dead) ::unlink(path_);
      ::close(old);
      if (!dead) continue;
    }
    const int file = ::open(path_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0) {
      ::flock(file, LOCK_EX | LOCK_NB);
      return file;
    }
    if (errno != EEXIST) return -1;
  }
  return errno = EEXIST, -1;
}

// Returns 0, or why there is no page.
inline int OwnPage::Make(const OwnPageOptions& options) noexcept {
  clock_.Choose();
  pid_ = ::getpid();
  writer_ = options.writer;
  CopySocketPath(socket_path_);
  due_ns_.store(clock_.Now() + kHandOverEveryNs, std::memory_order_relaxed);
  const auto fill = [&](int file) -> Page* {
    if (::ftruncate(file, sizeof(Page)) != 0) return nullptr;
    if (const int error = Reserve(file, options.writer); error != 0) return errno = error, nullptr;
    Page* page = Map(file);
    if (page) Describe(*page, options, clock_.Now());
    return page;
  };
  Page* page = nullptr;
  int file = MakeMemoryFile();
  if (file >= 0) {
    constexpr int kAddSeals = 1033, kShrink = 2, kGrow = 4;  // F_ADD_SEALS: newer than the oldest glibc
    page = fill(file);
    const bool taken = page && ::fcntl(file, kAddSeals, kShrink | kGrow) == 0 && HandOver(file);
    if (taken && IdentityOf(file, memory_identity_)) memory_ = file;
    else ::close(file);
    if (page && !taken) ::munmap(page, sizeof(Page)), page = nullptr;
  }
  if (!page) {
    file = MakeFile(options.writer);
    if (file < 0) {
      const int error = errno;
      path_[0] = '\0';
      return error;
    }
    page = fill(file);
    if (!page) {
      const int error = errno;
      RemoveFile();
      ::close(file);
      return error;
    }
    Keep(file);
    // The agent takes files in memory alone, and those have seals.
    constexpr int kGetSeals = 1034;
    if (::fcntl(file, kGetSeals) >= 0 && IdentityOf(file, memory_identity_)) memory_ = file;
  }
  page_.store(page, std::memory_order_release);
  return 0;
}

inline void OwnPage::HandOverAgain() noexcept {
  if (memory_ < 0 || socket_path_[0] == '\0' || state_.load(std::memory_order_acquire) != kOpened ||
      checks_.exchange(1, std::memory_order_acquire) != 0)
    return;
  const int before = errno;
  bool connected = false;
  if (socket_ >= 0) {
    if (IsStill(socket_, kept_identity_)) {
      char byte;
      const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      connected = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
      if (!connected) ::close(socket_);
    }
    if (!connected) kept_ = socket_ = -1;
  }
  if (!connected && IsStill(memory_, memory_identity_) && HandOver(memory_)) RemoveFile();
  errno = before;
  checks_.store(0, std::memory_order_release);
}

inline Page* OwnPage::Open(const OwnPageOptions& options) noexcept {
  uint32_t state = kClosed;
  if (!state_.compare_exchange_strong(state, kOpening, std::memory_order_acq_rel)) {
    timespec pause{0, 1'000'000};
    for (int tries = 0; tries < 1000 && state_.load(std::memory_order_acquire) == kOpening; ++tries)
      ::nanosleep(&pause, nullptr);
    return page();
  }
  const int before = errno;
  if (!listed_) {
    listed_ = true;
    OwnPage* first = own_pages.load(std::memory_order_relaxed);
    do next_ = first;
    while (!own_pages.compare_exchange_weak(first, this, std::memory_order_acq_rel));
    if (!first) ::pthread_atfork(nullptr, nullptr, ForgetAll);
  }
  failure_ = Make(options);
  state_.store(kOpened, std::memory_order_release);
  errno = before;
  return page();
}

// ---- What several writers do with a page.

inline void CountLoss(Page& page, Loss loss, uint64_t count = 1) noexcept {
  page.header.lost[static_cast<size_t>(loss)].fetch_add(count, std::memory_order_relaxed);
}

// Sets `to` to `value` if that is more.
inline void RaiseTo(std::atomic<uint64_t>& to, uint64_t value) noexcept {
  uint64_t now = to.load(std::memory_order_relaxed);
  while (now < value && !to.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

// The place of a communicator in the page. -1: none was free.
struct CommunicatorSlot {
  int32_t slot = -1;
  uint32_t generation = 0;
};
struct CommunicatorStart {
  uint64_t hash = 0;
  int32_t rank = 0, ranks = 0, nodes = 0;
  int32_t device = -1;
  const char* name = nullptr;
  const char* device_id = nullptr;
  uint64_t boot_ns = 0;
};

// Takes a slot that was never used, else the one that was closed and opened longest ago. Counts
// Loss::kNoCommunicator when there is none.
inline CommunicatorSlot OpenCommunicator(Page& page, const CommunicatorStart& start) noexcept {
  for (int tries = 0; tries < 8; ++tries) {
    Communicator* best = nullptr;
    uint32_t seen = 0;
    uint64_t oldest = 0;
    for (Communicator& at : page.communicators) {
      const uint32_t generation = at.generation.load(std::memory_order_acquire);
      if (generation == 0) {
        best = &at, seen = 0;
        break;
      }
      if (generation % 2 != 0 || at.closed.load(std::memory_order_relaxed) == 0) continue;
      const uint64_t opened = __atomic_load_n(&at.opened_boot_ns, __ATOMIC_RELAXED);
      if (!best || opened < oldest) best = &at, seen = generation, oldest = opened;
    }
    if (!best) break;
    if (!best->generation.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel)) continue;
    std::atomic_thread_fence(std::memory_order_release);
    best->closed.store(0, std::memory_order_relaxed);
    best->hash = start.hash;
    best->rank = start.rank, best->ranks = start.ranks, best->nodes = start.nodes;
    best->device = start.device;
    __atomic_store_n(&best->opened_boot_ns, start.boot_ns, __ATOMIC_RELAXED);
    CopyText(best->name, start.name);
    CopyText(best->device_id, start.device_id);
    for (FunctionProgress& function : best->functions) {
      for (auto* value : {&function.enqueued, &function.started, &function.done, &function.changed_boot_ns,
                          &function.operations, &function.bytes})
        value->store(0, std::memory_order_relaxed);
    }
    best->generation.store(seen + 2, std::memory_order_release);
    return {static_cast<int32_t>(best - page.communicators), seen + 2};
  }
  CountLoss(page, Loss::kNoCommunicator);
  return {};
}
inline void CloseCommunicator(Page& page, CommunicatorSlot place) noexcept {
  if (place.slot < 0) return;
  Communicator& at = page.communicators[place.slot];
  if (at.generation.load(std::memory_order_relaxed) == place.generation)
    at.closed.store(1, std::memory_order_release);
}

// The contents of a Record.
struct RecordValues {
  CommunicatorSlot place;
  Function function = Function::kOther;
  Datatype datatype = Datatype::kUnknown;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  Timing timing = Timing::kNone;
  uint8_t flags = 0;
  uint16_t channels = 0;
  int32_t peer_or_root = -1;
  uint64_t sequence = 0, bytes = 0, enqueued_boot_ns = 0, start_ns = 0, end_ns = 0, ended_boot_ns = 0;
};

// Appends to the ring and to the histogram of durations. The latest record replaces the oldest; when the
// agent has not read that one, Loss::kRingFull counts it. Records without a slot go into the histogram alone.
inline void WriteRecord(Page& page, const RecordValues& values) noexcept {
  if (values.timing != Timing::kNone && values.end_ns >= values.start_ns)
    page.collective_duration[static_cast<size_t>(values.function)].Add(values.end_ns - values.start_ns);
  if (values.place.slot < 0) return;
  constexpr uint64_t kWriting = ~uint64_t{0};
  const uint64_t position = page.header.next_record.fetch_add(1, std::memory_order_relaxed);
  const uint64_t unread = position - page.header.read_records.load(std::memory_order_relaxed);
  if (unread >= kRecords && unread < kWriting / 2) CountLoss(page, Loss::kRingFull);
  Record& record = page.records[position % kRecords];
  uint64_t ticket = record.ticket.load(std::memory_order_relaxed);
  // A thread that writes here since a whole round, or has overtaken us by one.
  if (ticket == kWriting || ticket > position ||
      !record.ticket.compare_exchange_strong(ticket, kWriting, std::memory_order_acq_rel))
    return CountLoss(page, Loss::kRingFull);
  std::atomic_thread_fence(std::memory_order_release);
  struct Fields {
    uint32_t communicator, generation;
    uint8_t function, datatype, algorithm, protocol, timing, flags;
    uint16_t channels;
    int32_t peer_or_root;
    uint32_t reserved;
    uint64_t sequence, bytes, enqueued_boot_ns, start_ns, end_ns, ended_boot_ns;
  };
  static_assert(sizeof(Fields) == sizeof(Record) - sizeof(record.ticket) &&
                offsetof(Record, communicator) == 8 &&
                offsetof(Record, sequence) - 8 == offsetof(Fields, sequence));
  const Fields fields{static_cast<uint32_t>(values.place.slot),
                      values.place.generation,
                      static_cast<uint8_t>(values.function),
                      static_cast<uint8_t>(values.datatype),
                      static_cast<uint8_t>(values.algorithm),
                      static_cast<uint8_t>(values.protocol),
                      static_cast<uint8_t>(values.timing),
                      values.flags,
                      values.channels,
                      values.peer_or_root,
                      0,
                      values.sequence,
                      values.bytes,
                      values.enqueued_boot_ns,
                      values.start_ns,
                      values.end_ns,
                      values.ended_boot_ns};
  // Whole words by atomic stores, since the reader may read at the same time; whether it got a whole record
  // it knows by the ticket.
  uint64_t words[sizeof(Fields) / 8];
  ::memcpy(words, &fields, sizeof fields);
  auto* to = reinterpret_cast<uint64_t*>(&record.communicator);
  for (size_t i = 0; i < sizeof(Fields) / 8; ++i) __atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
  record.ticket.store(position + 1, std::memory_order_release);
}

// Notes that the job is in another phase from `now` on. One thread at a time; the reader may see any moment
// in between.
inline void WritePhase(Page& page, Phase to, uint64_t now) noexcept {
  const auto phase = static_cast<uint32_t>(to);
  Phases& phases = page.phases;
  const uint32_t before = phases.current.load(std::memory_order_relaxed);
  phases.marked.store(1, std::memory_order_relaxed);
  if (before == phase) return;
  const uint64_t since = phases.since_boot_ns.load(std::memory_order_relaxed);
  phases.current.store(phase, std::memory_order_relaxed);
  phases.since_boot_ns.store(now, std::memory_order_relaxed);
  if (since != 0 && now > since) phases.total_ns[before].fetch_add(now - since, std::memory_order_relaxed);
  const uint64_t position = phases.next_edge.load(std::memory_order_relaxed);
  PhaseEdge& edge = phases.edges[position % kPhaseEdges];
  edge.ticket.store(~uint64_t{0}, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  __atomic_store_n(&edge.boot_ns, now, __ATOMIC_RELAXED);
  __atomic_store_n(&edge.phase, phase, __ATOMIC_RELAXED);
  edge.ticket.store(position + 1, std::memory_order_release);
  phases.next_edge.store(position + 1, std::memory_order_release);
  phases.transitions.fetch_add(1, std::memory_order_release);
}

// Explains why the writer measures less than was wanted. `text` may be null.
inline void SetTrouble(Page& page, const char* text) noexcept {
  size_t at = 0;
  for (; text && text[at] != '\0' && at + 1 < sizeof page.header.trouble; ++at)
    __atomic_store_n(page.header.trouble + at, text[at], __ATOMIC_RELAXED);
  __atomic_store_n(page.header.trouble + at, '\0', __ATOMIC_RELAXED);
}

}  // namespace gpulens::job_page
#pragma GCC visibility pop
