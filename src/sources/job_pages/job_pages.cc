#include "sources/job_pages/job_pages.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "net/blocking/listening_socket.h"

namespace gpulens {
namespace {

using job_page::Hello;
using job_page::JobPageReader;
using job_page::PageCopy;
using job_page::PhaseEdgeCopy;
using job_page::RecordCopy;

constexpr std::string_view kFilePrefix = "gpulens-job-";
constexpr size_t kNamesOfFolder = 4096;  // that are looked at
constexpr size_t kRecordsKept = 16'384, kEdgesKept = 4'096;
constexpr size_t kGreetings = 64;  // connections without a Hello
// Between two readings of a page: as few as its ring allows.
constexpr Duration kLeastPause = std::chrono::milliseconds(20), kFirstPause = std::chrono::milliseconds(250),
                   kLongestPause = std::chrono::seconds(1);
constexpr size_t kManyRecords = job_page::kRecords / 8, kFewRecords = job_page::kRecords / 32;
constexpr Duration kFreshFor = std::chrono::milliseconds(50);  // a visit does not read again
constexpr Duration kScanEvery = std::chrono::seconds(2), kHelloWithin = std::chrono::seconds(5),
                   kSocketAgainAfter = std::chrono::seconds(10);
// A page that ended waits so long for feeds that do not visit.
constexpr Duration kEndKept = std::chrono::minutes(1);
constexpr int kMostPollMs = 250;

// Field 22 of /proc/PID/stat; 0: unknown.
uint64_t StartTicksOf(const std::string& root, int32_t pid) {
  std::string text;
  if (!ReadFile((root + "/proc/" + std::to_string(pid) + "/stat").c_str(), text, 4096).ok()) return 0;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::string_view rest = std::string_view(text).substr(name_end + 1);
  TakeUntil(rest, ' ');
  for (int field = 3; field < 22; ++field) TakeUntil(rest, ' ');
  return ParseInt<uint64_t>(TakeUntil(rest, ' ')).value_or(0);
}

// The pid in "gpulens-job-<uid>-<pid>-<writer>"; 0: another name.
int32_t PidOfName(std::string_view name) {
  name.remove_prefix(kFilePrefix.size());
  TakeUntil(name, '-');
  return ParseInt<int32_t>(TakeUntil(name, '-')).value_or(0);
}

}  // namespace

struct JobPages::State {
  // Newest items, each with a position that only grows.
  template <class Item>
  struct ItemLog {
    std::vector<Item> items;
    uint64_t first = 0;  // position of items[0]

    uint64_t end() const { return first + items.size(); }
    void Add(const std::vector<Item>& more, size_t most) {
      items.insert(items.end(), more.begin(), more.end());
      if (items.size() > most) DropBefore(end() - most);
    }
    void DropBefore(uint64_t position) {
      if (position <= first) return;
      const auto count = static_cast<size_t>(std::min<uint64_t>(position - first, items.size()));
      items.erase(items.begin(), items.begin() + static_cast<ptrdiff_t>(count));
      first += count;
    }
    // What comes from `cursor` on, which is moved to the end; adds what is gone to `missed`.
    std::span<const Item> Take(uint64_t& cursor, uint64_t& missed) const {
      if (cursor < first) missed += first - std::exchange(cursor, first);
      const auto skip = static_cast<size_t>(cursor - first);
      cursor = end();
      return std::span(items).subspan(skip);
    }
  };

  struct Cursor {
    uint64_t records = 0, edges = 0, missed = 0;
    bool saw_end = false;
  };

  struct Entry {
    explicit Entry(JobPageReader from) : reader(std::move(from)) {}

    JobPageOwner owner;
    JobPageReader reader;
    UniqueFd connection;  // of a page by socket
    dev_t device = 0;
    ino_t inode = 0;
    PageCopy copy;
    ItemLog<RecordCopy> records;
    ItemLog<PhaseEdgeCopy> edges;
    Instant opened, read_at;
    Duration pause = kFirstPause;
    bool readable = false;  // once a reading succeeded
    bool ended = false;
    Instant ended_at;
    std::map<const JobPages::Feed*, Cursor> cursors;
  };

  struct Greeting {
    UniqueFd connection;
    Instant since;
  };

  explicit State(const Clock& from) : clock(from) {}

  const Clock& clock;
  std::mutex starting;  // guards `thread`
  std::thread thread;
  UniqueFd stop;

  mutable std::mutex mutex;  // guards what follows
  Options options;
  std::vector<const Feed*> feeds;
  std::vector<std::unique_ptr<Entry>> entries;
  uint64_t last_id = 0;
  Counts counts;

  // Of the thread alone.
  Options running;
  UniqueFd listening;
  std::vector<Greeting> greetings;
  Instant next_socket, next_scan;

  void Run();
  void OpenSocket(Instant now);
  void Accept(Instant now);
  void Greet(Instant now);
  std::optional<Status> TakeHello(int connection, UniqueFd& page, uid_t& uid, pid_t& pid);
  Status TakePage(UniqueFd file, UniqueFd connection, uid_t uid, pid_t pid, Instant now);
  void ScanFolders(Instant now);
  void OpenFile(const std::string& path, std::string_view name, Instant now);
  // With the lock.
  Status Admit(int64_t uid) const;
  Entry* FindEntry(const struct stat& info) const;
  void AddEntry(std::unique_ptr<Entry> entry, Instant now);
  void ReadEntry(Entry& entry, Instant now);
  void End(Entry& entry, Instant now);
  void DropEnded(Instant now);
};

Status JobPages::State::Admit(int64_t uid) const {
  const auto lives = [](const auto& entry) { return !entry->ended; };
  const auto of_user = [&](const auto& entry) { return !entry->ended && entry->owner.uid == uid; };
  if (std::cmp_greater_equal(std::ranges::count_if(entries, lives), options.pages))
    return {Code::kExhausted, "there are too many job pages"};
  if (std::cmp_greater_equal(std::ranges::count_if(entries, of_user), options.pages_of_user))
    return {Code::kExhausted, "user " + std::to_string(uid) + " has too many job pages"};
  return Ok();
}

// The page that is this file and goes on, or null.
JobPages::State::Entry* JobPages::State::FindEntry(const struct stat& info) const {
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) {
    return !entry->ended && entry->device == info.st_dev && entry->inode == info.st_ino;
  });
  return found == entries.end() ? nullptr : found->get();
}

void JobPages::State::AddEntry(std::unique_ptr<Entry> entry, Instant now) {
  entry->owner.id = ++last_id;
  entry->opened = now;
  for (const Feed* feed : feeds) entry->cursors[feed] = {};
  entries.push_back(std::move(entry));
  ReadEntry(*entries.back(), now);
}

void JobPages::State::End(Entry& entry, Instant now) {
  if (entry.ended) return;
  entry.ended = true;
  entry.ended_at = now;
  entry.connection.reset();
}

void JobPages::State::ReadEntry(Entry& entry, Instant now) {
  if (entry.ended) return;
  const Status read = entry.reader.Read(now, entry.copy);
  entry.read_at = now;
  if (!read) {
    if (read.code == Code::kUnavailable && now - entry.opened < kHelloWithin) return;
    ++counts.unreadable;
    Log(LogLevel::kInfo, "job_pages", "unreadable", read.detail, "uid " + std::to_string(entry.owner.uid));
    return End(entry, now);
  }
  entry.readable = true;
  entry.records.Add(entry.copy.records, kRecordsKept);
  const size_t got = entry.copy.records.size();
  if (entry.copy.phases) entry.edges.Add(entry.copy.phases->edges, kEdgesKept);
  if (got > kManyRecords) entry.pause = std::max(entry.pause / 2, kLeastPause);
  if (got < kFewRecords) entry.pause = std::min(entry.pause * 2, kLongestPause);
}

void JobPages::State::DropEnded(Instant now) {
  std::erase_if(entries, [&](const std::unique_ptr<Entry>& entry) {
    if (!entry->ended) return false;
    const bool seen =
        std::ranges::all_of(entry->cursors, [](const auto& cursor) { return cursor.second.saw_end; });
    return seen || !entry->readable || now - entry->ended_at > kEndKept;
  });
}

void JobPages::State::OpenSocket(Instant now) {
  if (running.socket.empty() || listening || now.boot_ns < next_socket.boot_ns) return;
  next_socket = now + kSocketAgainAfter;
  const auto open = [&]() -> Status {
    RETURN_IF_ERROR(MakeFoldersAbove(running.socket));
    ASSIGN_OR_RETURN(listening, OpenPacketSocket(running.socket));
    return Ok();
  };
  Status status = open();
  if (status) Log(LogLevel::kInfo, "job_pages", "listening", "listening for jobs at " + running.socket);
  std::lock_guard lock(mutex);
  if (!status && counts.socket.ok())
    Log(LogLevel::kWarn, "job_pages", "no_socket", "jobs cannot hand over pages: " + status.detail);
  counts.socket = std::move(status);
}

void JobPages::State::Accept(Instant now) {
  while (true) {
    UniqueFd connection(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) return;
    std::lock_guard lock(mutex);
    ++counts.connections;
    if (greetings.size() >= kGreetings) ++counts.refused;
    else greetings.push_back({std::move(connection), now});
  }
}

// Nothing while the packet has not come; else whether it is a Hello with one descriptor.
std::optional<Status> JobPages::State::TakeHello(int connection, UniqueFd& page, uid_t& uid, pid_t& pid) {
  std::array<char, sizeof(Hello) + 1> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 4)> control{};
  iovec into{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  size_t descriptors = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); got >= 0 && part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(part) + at, sizeof fd);
      page.reset(fd);
      ++descriptors;
    }
  }
  Hello hello{};
  if (got != ssize_t{sizeof hello} || descriptors != 1 || (message.msg_flags & MSG_CTRUNC) != 0)
    return Status{Code::kDataLoss, "it sent no greeting with one descriptor"};
  std::memcpy(&hello, bytes.data(), sizeof hello);
  if (hello.magic != job_page::kMagic) return Status{Code::kDataLoss, "it sent no greeting"};
  if (hello.layout != job_page::kLayout)
    return Status{Code::kDataLoss, "its page has layout " + std::to_string(hello.layout)};
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return ErrnoStatus("SO_PEERCRED", errno);
  uid = peer.uid;
  pid = peer.pid;
  return Ok();
}

// With the lock. A page that was a file until now stays the same page.
Status JobPages::State::TakePage(UniqueFd file, UniqueFd connection, uid_t uid, pid_t pid, Instant now) {
  ASSIGN_OR_RETURN(auto reader, JobPageReader::FromDescriptor(std::move(file)));
  struct stat info{};
  if (::fstat(reader.fd(), &info) != 0) return ErrnoStatus("stat a job page", errno);
  Entry* known = FindEntry(info);
  if (known && (known->owner.by_socket || known->owner.uid != uid)) known = nullptr;
  std::unique_ptr<Entry> made;
  if (!known) {
    RETURN_IF_ERROR(Admit(uid));
    made = std::make_unique<Entry>(std::move(reader));
  }
  Entry& entry = known ? *known : *made;
  entry.owner.pid = pid;
  entry.owner.start_ticks = pid > 0 ? StartTicksOf(running.root, pid) : 0;
  entry.owner.uid = uid;
  entry.owner.by_socket = true;
  entry.owner.file.clear();
  entry.connection = std::move(connection);
  entry.device = info.st_dev;
  entry.inode = info.st_ino;
  if (made) AddEntry(std::move(made), now);
  return Ok();
}

void JobPages::State::Greet(Instant now) {
  std::erase_if(greetings, [&](Greeting& greeting) {
    UniqueFd page;
    uid_t uid = 0;
    pid_t pid = 0;
    std::optional<Status> hello = TakeHello(greeting.connection.get(), page, uid, pid);
    if (!hello) {
      if (now - greeting.since < kHelloWithin) return false;
      hello = Status{Code::kTimeout, "it sent no greeting in time"};
    }
    std::lock_guard lock(mutex);
    Status status = *std::move(hello);
    if (status) status = TakePage(std::move(page), std::move(greeting.connection), uid, pid, now);
    if (status) return true;
    ++counts.refused;
    Log(LogLevel::kInfo, "job_pages", "refused", "a connection was refused: " + status.detail,
        "uid " + std::to_string(uid));
    return true;
  });
}

void JobPages::State::OpenFile(const std::string& path, std::string_view name, Instant now) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  std::lock_guard lock(mutex);
  if (FindEntry(info)) return;
  auto reader = JobPageReader::FromPath(path);
  if (!reader || ::fstat(reader->fd(), &info) != 0) return;
  // Its process takes the lock before it writes the page. What none holds is the rest of a process that
  // ended, and keeps memory.
  if (!reader->WriterHoldsLock()) {
    PageCopy copy;
    if (reader->Read(now, copy).ok()) ::unlink(path.c_str());
    return;
  }
  if (!Admit(info.st_uid)) {
    ++counts.refused;
    return;
  }
  auto entry = std::make_unique<Entry>(*std::move(reader));
  entry->owner.uid = info.st_uid;
  entry->owner.file = path;
  entry->device = info.st_dev;
  entry->inode = info.st_ino;
  AddEntry(std::move(entry), now);
  Entry& added = *entries.back();
  // The number in the name is one of the writer's namespace, and its own statement: it is believed when that
  // process of this machine has the same user and start.
  const int32_t pid = PidOfName(name);
  if (pid <= 0 || !added.readable || added.copy.start_ticks == 0) return;
  const std::string process = running.root + "/proc/" + std::to_string(pid);
  struct stat owner{};
  if (::stat(process.c_str(), &owner) != 0 || owner.st_uid != info.st_uid) return;
  if (StartTicksOf(running.root, pid) != added.copy.start_ticks) return;
  added.owner.pid = pid;
  added.owner.start_ticks = added.copy.start_ticks;
}

void JobPages::State::ScanFolders(Instant now) {
  if (now.boot_ns < next_scan.boot_ns) return;
  next_scan = now + kScanEvery;
  for (const std::string& folder : running.folders) {
    size_t seen = 0;
    std::vector<std::string> names;
    const Status listed = ForEachName(folder, [&](std::string_view name) {
      if (name.starts_with(kFilePrefix)) names.emplace_back(name);
      return ++seen < kNamesOfFolder;
    });
    if (!listed) Log(LogLevel::kInfo, "job_pages", "no_folder", listed.detail, folder);
    for (const std::string& name : names) OpenFile(folder + "/" + name, name, now);
  }
  std::lock_guard lock(mutex);
  for (const auto& entry : entries) {
    if (entry->ended || entry->owner.by_socket || entry->reader.WriterHoldsLock()) continue;
    ReadEntry(*entry, now);
    End(*entry, now);
    struct stat info{};
    const std::string& path = entry->owner.file;
    if (::lstat(path.c_str(), &info) == 0 && info.st_dev == entry->device && info.st_ino == entry->inode)
      ::unlink(path.c_str());
  }
}

void JobPages::State::Run() {
  next_socket = next_scan = {};
  while (true) {
    Instant now = clock.Now();
    OpenSocket(now);
    ScanFolders(now);
    std::vector<pollfd> polled{{stop.get(), POLLIN, 0}, {listening ? listening.get() : -1, POLLIN, 0}};
    for (const Greeting& greeting : greetings) polled.push_back({greeting.connection.get(), POLLIN, 0});
    const size_t greeted = polled.size();
    std::vector<uint64_t> ids;
    int wait_ms = kMostPollMs;
    {
      std::lock_guard lock(mutex);
      for (const auto& entry : entries) {
        if (entry->ended) continue;
        const auto due =
            std::chrono::duration_cast<std::chrono::milliseconds>(entry->read_at + entry->pause - now);
        wait_ms = std::clamp(static_cast<int>(due.count()), 1, wait_ms);
        if (!entry->connection) continue;
        polled.push_back({entry->connection.get(), POLLIN, 0});
        ids.push_back(entry->owner.id);
      }
    }
    if (::poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    now = clock.Now();
    {
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (polled[greeted + i].revents == 0) continue;
        const auto entry =
            std::ranges::find_if(entries, [&](const auto& one) { return one->owner.id == ids[i]; });
        if (entry == entries.end()) continue;
        // Its end, or bytes that no writer sends: either way it is the last reading.
        ReadEntry(**entry, now);
        End(**entry, now);
      }
      for (const auto& entry : entries) {
        if (!entry->ended && now - entry->read_at >= entry->pause) ReadEntry(*entry, now);
      }
      DropEnded(now);
    }
    if (polled[1].revents != 0) Accept(now);
    Greet(now);
  }
}

JobPages::JobPages(const Clock& clock) : state_(std::make_unique<State>(clock)) {}

JobPages::~JobPages() = default;

void JobPages::Configure(Options options) {
  std::lock_guard lock(state_->mutex);
  state_->options = std::move(options);
}

std::unique_ptr<JobPages::Feed> JobPages::Subscribe(std::string_view name) {
  return std::unique_ptr<Feed>(new Feed(*this, std::string(name)));
}

JobPages::Feed::Feed(JobPages& pages, std::string name) : pages_(pages), name_(std::move(name)) {
  State& state = *pages_.state_;
  std::lock_guard start(state.starting);
  {
    std::lock_guard lock(state.mutex);
    for (const auto& entry : state.entries)
      entry->cursors[this] = {entry->records.first, entry->edges.first, 0, false};
    state.feeds.push_back(this);
    if (!state.thread.joinable()) state.running = state.options;
  }
  if (state.thread.joinable()) return;
  state.stop.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Status started =
      state.stop ? StartThread(state.thread, [&state] { state.Run(); }) : ErrnoStatus("eventfd", errno);
  if (started) return;
  Log(LogLevel::kWarn, "job_pages", "no_thread", "jobs cannot hand over pages: " + started.detail, name_);
  std::lock_guard lock(state.mutex);
  state.counts.socket = std::move(started);
}

JobPages::Feed::~Feed() {
  State& state = *pages_.state_;
  std::lock_guard start(state.starting);
  {
    std::lock_guard lock(state.mutex);
    std::erase(state.feeds, this);
    for (const auto& entry : state.entries) entry->cursors.erase(this);
    if (!state.feeds.empty()) return;
  }
  if (state.thread.joinable()) {
    ::eventfd_write(state.stop.get(), 1);
    state.thread.join();
  }
  state.greetings.clear();
  if (state.listening) {
    ::unlink(state.running.socket.c_str());
    state.listening.reset();
  }
  std::lock_guard lock(state.mutex);
  // Simulated pages are added once: they wait for the next feed.
  std::erase_if(state.entries, [](const auto& entry) { return !entry->owner.simulated; });
}

void JobPages::Feed::Visit(const std::function<void(const JobPageView&)>& visit) {
  State& state = *pages_.state_;
  const Instant now = state.clock.Now();
  std::lock_guard lock(state.mutex);
  for (const auto& entry : state.entries) {
    if (now - entry->read_at >= kFreshFor) state.ReadEntry(*entry, now);
    if (!entry->readable) continue;
    State::Cursor& cursor = entry->cursors[this];
    if (cursor.saw_end) continue;
    JobPageView view{
        .owner = entry->owner, .page = entry->copy, .records = {}, .edges = {}, .read_at = entry->read_at};
    view.records = entry->records.Take(cursor.records, cursor.missed);
    view.edges = entry->edges.Take(cursor.edges, cursor.missed);
    view.missed = cursor.missed;
    view.ended = cursor.saw_end = entry->ended;
    visit(view);
    uint64_t records = cursor.records, edges = cursor.edges;
    for (const auto& [feed, other] : entry->cursors) {
      records = std::min(records, other.records);
      edges = std::min(edges, other.edges);
    }
    entry->records.DropBefore(records);
    entry->edges.DropBefore(edges);
  }
  state.DropEnded(now);
}

Status JobPages::SetLevel(uint64_t id, job_page::Level level) {
  std::lock_guard lock(state_->mutex);
  for (const auto& entry : state_->entries) {
    if (entry->owner.id == id && !entry->ended) return entry->reader.SetWantedLevel(level);
  }
  return {Code::kUnavailable, "the job page is gone"};
}

Result<uint64_t> JobPages::AddSimulated(UniqueFd page, int32_t pid) {
  ASSIGN_OR_RETURN(JobPageReader reader, JobPageReader::FromDescriptor(std::move(page)));
  auto entry = std::make_unique<State::Entry>(std::move(reader));
  entry->owner.pid = pid;
  entry->owner.by_socket = entry->owner.simulated = true;
  std::lock_guard lock(state_->mutex);
  state_->AddEntry(std::move(entry), state_->clock.Now());
  return state_->last_id;
}

void JobPages::EndSimulated(uint64_t id) {
  std::lock_guard lock(state_->mutex);
  const Instant now = state_->clock.Now();
  for (const auto& entry : state_->entries) {
    if (entry->owner.id != id || entry->ended) continue;
    state_->ReadEntry(*entry, now);
    state_->End(*entry, now);
  }
  // Without feeds none sees its end.
  state_->DropEnded(now);
}

JobPages::Counts JobPages::counts() const {
  std::lock_guard lock(state_->mutex);
  Counts counts = state_->counts;
  counts.pages = static_cast<size_t>(
      std::ranges::count_if(state_->entries, [](const auto& entry) { return !entry->ended; }));
  return counts;
}

}  // namespace gpulens
