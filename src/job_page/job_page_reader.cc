#include "job_page/job_page_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/files.h"
#include "base/pci_address.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::job_page {
namespace {

// Writers read the clock a little before the reader does; more is another clock.
constexpr uint64_t kClockSlack = 1'000'000'000;
// An incomplete record is waited for: its writer was interrupted, or has ended within it.
constexpr int64_t kWaitForRecordNs = 1'000'000'000;
// The ticket while a record is written.
constexpr uint64_t kWriting = ~uint64_t{0};
// Additions in flight while a histogram is copied; more is no histogram.
constexpr uint64_t kInFlight = 1024;
// Kernels and operations that may run at the same time.
constexpr uint64_t kParallel = 4096;
constexpr uint64_t kMostBytes = uint64_t{1} << 60;        // of all operations of a function
constexpr uint64_t kMostRecordBytes = uint64_t{1} << 48;  // of one
constexpr uint64_t kMostSequence = uint64_t{1} << 62;
constexpr size_t kMostName = 1024;
constexpr int32_t kMostDevices = 1024;

template <class T>
T Load(const std::atomic<T>& value) noexcept {
  return value.load(std::memory_order_relaxed);
}

// Reads a part of the page, of which `into` is the counterpart in memory.
template <class T>
Status ReadPart(int fd, const Page& page, T& into) {
  const auto offset =
      static_cast<size_t>(reinterpret_cast<const char*>(&into) - reinterpret_cast<const char*>(&page));
  auto* to = reinterpret_cast<char*>(&into);
  for (size_t done = 0; done < sizeof(T);) {
    const ssize_t got = ::pread(fd, to + done, sizeof(T) - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read a job page", errno);
    if (got == 0) return {Code::kDataLoss, "the job page was cut"};
    done += static_cast<size_t>(got);
  }
  return Ok();
}

// Whether any byte of a part was ever written. A part that was not takes no memory and is not read.
template <class T>
bool HasData(int fd, const Page& page, const T& part) {
  const auto offset =
      static_cast<off_t>(reinterpret_cast<const char*>(&part) - reinterpret_cast<const char*>(&page));
  const off_t data = ::lseek(fd, offset, SEEK_DATA);
  if (data < 0) return errno != ENXIO;
  return data < offset + static_cast<off_t>(sizeof(T));
}

template <size_t kSize>
std::string TextOf(const char (&text)[kSize]) {
  const std::string_view all(text, kSize);
  return Printable(all.substr(0, all.find('\0')));
}

template <size_t kSize>
std::string DeviceIdOf(const char (&text)[kSize]) {
  const std::string_view all(text, kSize);
  const auto address = ParsePciAddress(all.substr(0, all.find('\0')));
  return address ? address->ToString() : std::string();
}

template <class Enum>
Enum Known(uint8_t raw, uint8_t count, Enum other) noexcept {
  return raw < count ? static_cast<Enum>(raw) : other;
}

// The thread's copy of a page that is being checked. 1.8 MB.
Page& Room() {
  thread_local const auto room = std::make_unique<Page>();
  return *room;
}

}  // namespace

double BucketBound(size_t bucket) noexcept {
  if (bucket + 1 >= kBuckets) return std::numeric_limits<double>::infinity();
  return std::exp2(kFirstDoubling + static_cast<double>(bucket + 1) / 4);
}

// What was believed of one page so far.
struct JobPageReader::State {
  struct Slot {
    std::shared_ptr<const CommunicatorIdentity> identity, previous;
    std::array<ProgressCopy, kFunctions> functions;
  };

  uint64_t now = 0, age = 0;  // of this Read
  bool opened = false;
  uint64_t opened_boot_ns = 0;
  uint64_t rejected = 0, unread = 0;
  uint64_t next_record = 0, next_edge = 0;
  int64_t waits_since = 0;  // for the record next_record; 0: it does not
  std::array<uint64_t, kLosses> lost{};
  uint64_t last_event = 0;
  std::array<Slot, kCommunicators> slots;
  struct LastLink {
    uint64_t key = 0, sent = 0, send_ns = 0;
  };
  std::array<LastLink, kLinks> links;
  bool any_link = false;
  std::array<HistogramCopy, kFunctions> durations;
  std::vector<CudaDeviceCopy> devices;
  std::optional<PhasesCopy> phases;
  std::optional<DataLoadingCopy> data_loading;

  Status Open(const Header& header, Instant at);
  void Count(uint64_t raw, uint64_t most, uint64_t& last);
  void Time(uint64_t raw, uint64_t& last);
  void Copy(const Histogram& raw, HistogramCopy& last);
  void ReadHeader(const Header& header, PageCopy& out);
  void ReadCommunicators(const Page& page, PageCopy& out);
  std::shared_ptr<const CommunicatorIdentity> Identify(const Communicator& raw, uint32_t slot);
  void ReadProgress(const FunctionProgress& raw, ProgressCopy& last);
  void ReadRecords(const Page& page, uint64_t begun_before, uint64_t begun_after, PageCopy& out);
  bool ReadRecord(const Record& raw, RecordCopy& out) const;
  void ReadLinks(const Page& page, PageCopy& out);
  void ReadDevices(const Page& page);
  void ReadPhases(const Phases& raw);
  void ReadDataLoading(const DataLoading& raw);
};

Status JobPageReader::State::Open(const Header& header, Instant at) {
  if (!opened) {
    opened_boot_ns = header.opened_boot_ns;
    opened = true;
  }
  if (header.opened_boot_ns != opened_boot_ns) ++rejected;
  now = static_cast<uint64_t>(std::max<int64_t>(at.boot_ns, 0));
  if (opened_boot_ns > now + kClockSlack)
    return {Code::kDataLoss, "the clock of the job page is ahead: its program runs in a time namespace"};
  age = now - std::min(now, opened_boot_ns) + kClockSlack;
  return Ok();
}

// A count that only grows.
void JobPageReader::State::Count(uint64_t raw, uint64_t most, uint64_t& last) {
  if (raw < last || raw > most) ++rejected;
  else last = raw;
}

void JobPageReader::State::Time(uint64_t raw, uint64_t& last) {
  if (raw > now + kClockSlack) ++rejected;
  else last = raw;
}

void JobPageReader::State::Copy(const Histogram& raw, HistogramCopy& last) {
  const uint64_t count = Load(raw.count), sum = Load(raw.sum_ns);
  HistogramCopy copy;
  copy.sum_ns = sum;
  bool good = sum >= last.sum_ns && sum / kParallel <= age;
  size_t lowest = kBuckets, highest = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    const uint64_t here = Load(raw.buckets[i]);
    good = good && here >= last.buckets[i] && here <= age;
    copy.buckets[i] = here;
    copy.count += here;
    if (here == 0) continue;
    lowest = std::min(lowest, i);
    highest = i;
  }
  // A writer adds to the bucket, then to the sum, then to the count, and the copy may fall in between.
  const bool settled = count == copy.count;
  good = good && std::max(count, copy.count) - std::min(count, copy.count) <= kInFlight;
  if (good && copy.count > 0) {
    const double mean = static_cast<double>(sum) / static_cast<double>(copy.count);
    const double low = lowest == 0 ? 0 : BucketBound(lowest - 1);
    const bool fits = mean >= low / 2 && mean <= 2 * BucketBound(highest) &&
                      (highest == 0 || BucketBound(highest - 1) <= static_cast<double>(age));
    if (!fits && !settled) return;
    good = fits;
  }
  if (good) last = copy;
  else ++rejected;
}

void JobPageReader::State::ReadHeader(const Header& header, PageCopy& out) {
  out.writer = header.writer <= static_cast<uint32_t>(Writer::kProgram) ? static_cast<Writer>(header.writer)
                                                                        : Writer::kNone;
  out.pid = std::max(header.pid, 0);
  out.user = header.user;
  out.start_ticks = header.start_ticks;
  out.opened_boot_ns = opened_boot_ns;
  out.writer_version = TextOf(header.writer_version);
  out.library_version = TextOf(header.library_version);
  out.job = TextOf(header.job);
  out.trouble = TextOf(header.trouble);
  const auto level = [&](uint32_t raw) {
    if (raw <= static_cast<uint32_t>(Level::kProfile)) return static_cast<Level>(raw);
    ++rejected;
    return Level::kOff;
  };
  out.wanted = level(Load(header.wanted_level));
  out.actual = level(Load(header.actual_level));
  Time(Load(header.last_event_boot_ns), last_event);
  out.last_event_boot_ns = last_event;
  for (size_t i = 0; i < kLosses; ++i) Count(Load(header.lost[i]), age, lost[i]);
}

std::shared_ptr<const CommunicatorIdentity> JobPageReader::State::Identify(const Communicator& raw,
                                                                           uint32_t slot) {
  const uint32_t generation = Load(raw.generation);
  if (raw.ranks < 1 || raw.ranks > kMostRanks || raw.rank < 0 || raw.rank >= raw.ranks || raw.nodes < 0 ||
      raw.nodes > raw.ranks || raw.device < -1 || raw.device >= kMostDevices)
    return nullptr;
  auto made = std::make_shared<CommunicatorIdentity>();
  made->slot = slot;
  made->generation = generation;
  made->hash = raw.hash;
  made->rank = raw.rank;
  made->ranks = raw.ranks;
  made->nodes = raw.nodes;
  made->device = raw.device;
  Time(raw.opened_boot_ns, made->opened_boot_ns);
  made->name = TextOf(raw.name);
  made->device_id = DeviceIdOf(raw.device_id);
  return made;
}

void JobPageReader::State::ReadProgress(const FunctionProgress& raw, ProgressCopy& last) {
  const uint64_t most = std::min(age, kMostSequence);
  uint64_t done = last.done, started = last.started, enqueued = last.enqueued;
  Count(Load(raw.done), most, done);
  Count(Load(raw.started), most, started);
  Count(Load(raw.enqueued), most, enqueued);
  // Copied at slightly different times, and not all of them are measured at each level.
  last.done = done;
  last.started = std::max(started, done);
  last.enqueued = std::max(enqueued, last.started);
  Time(Load(raw.changed_boot_ns), last.changed_boot_ns);
  Count(Load(raw.operations), age, last.operations);
  Count(Load(raw.bytes), kMostBytes, last.bytes);
}

void JobPageReader::State::ReadCommunicators(const Page& page, PageCopy& out) {
  for (uint32_t i = 0; i < kCommunicators; ++i) {
    const Communicator& raw = page.communicators[i];
    const uint32_t generation = Load(raw.generation);
    Slot& slot = slots[i];
    // Odd: being written, and read next time.
    if (generation == 0 || generation % 2 != 0) continue;
    if (!slot.identity || slot.identity->generation != generation) {
      if (slot.identity && generation < slot.identity->generation) {
        ++rejected;
        continue;
      }
      auto identity = Identify(raw, i);
      if (!identity) {
        ++rejected;
        continue;
      }
      slot.previous = std::move(slot.identity);
      slot.identity = std::move(identity);
      slot.functions = {};
    }
    for (size_t f = 0; f < kFunctions; ++f) ReadProgress(raw.functions[f], slot.functions[f]);
    out.communicators.push_back({slot.identity, Load(raw.closed) != 0, slot.functions});
  }
}

bool JobPageReader::State::ReadRecord(const Record& raw, RecordCopy& out) const {
  if (raw.communicator >= kCommunicators || raw.sequence > kMostSequence || raw.bytes > kMostRecordBytes ||
      raw.peer_or_root < -1 || raw.peer_or_root >= kMostRanks ||
      static_cast<uint8_t>(raw.timing) >= static_cast<uint8_t>(Timing::kCount))
    return false;
  const uint64_t latest = now + kClockSlack;
  if (raw.enqueued_boot_ns > latest || raw.ended_boot_ns > latest) return false;
  if (raw.timing != Timing::kNone) {
    if (raw.end_ns < raw.start_ns || raw.end_ns - raw.start_ns > age) return false;
    if (raw.timing != Timing::kDevice && raw.end_ns > latest) return false;
  }
  const Slot& slot = slots[raw.communicator];
  for (const auto& identity : {slot.identity, slot.previous}) {
    if (identity && identity->generation == raw.generation) out.communicator = identity;
  }
  if (out.communicator && raw.peer_or_root >= out.communicator->ranks) return false;
  out.function =
      Known(static_cast<uint8_t>(raw.function), static_cast<uint8_t>(Function::kCount), Function::kOther);
  out.datatype =
      Known(static_cast<uint8_t>(raw.datatype), static_cast<uint8_t>(Datatype::kCount), Datatype::kUnknown);
  out.algorithm =
      Known(static_cast<uint8_t>(raw.algorithm), static_cast<uint8_t>(Algorithm::kCount), Algorithm::kOther);
  out.protocol =
      Known(static_cast<uint8_t>(raw.protocol), static_cast<uint8_t>(Protocol::kCount), Protocol::kOther);
  out.timing = raw.timing;
  out.graph_captured = (raw.flags & kGraphCaptured) != 0;
  out.channels = raw.channels;
  out.peer_or_root = raw.peer_or_root;
  out.sequence = raw.sequence;
  out.bytes = raw.bytes;
  out.enqueued_boot_ns = raw.enqueued_boot_ns;
  if (raw.timing != Timing::kNone) {
    out.start_ns = raw.start_ns;
    out.end_ns = raw.end_ns;
  }
  out.ended_boot_ns = raw.ended_boot_ns;
  return true;
}

// `begun_before` and `begun_after`: how many records were begun when the copy of the ring began and ended.
void JobPageReader::State::ReadRecords(const Page& page, uint64_t begun_before, uint64_t begun_after,
                                       PageCopy& out) {
  if (begun_before < next_record || begun_after < begun_before || begun_after > age) {
    ++rejected;
    return;
  }
  if (begun_before - next_record > kRecords) {
    unread += begun_before - next_record - kRecords;
    next_record = begun_before - kRecords;
    waits_since = 0;
  }
  for (; next_record < begun_before; ++next_record) {
    const Record& raw = page.records[next_record & (kRecords - 1)];
    const uint64_t ticket = Load(raw.ticket);
    // The writer may have come round to this slot while it was copied.
    if (begun_after > next_record + kRecords || (ticket > next_record + 1 && ticket != kWriting)) {
      ++unread;
    } else if (ticket != next_record + 1) {
      const auto boot = static_cast<int64_t>(now);
      if (waits_since == 0) waits_since = boot;
      if (boot - waits_since < kWaitForRecordNs && begun_before - next_record < kRecords / 2) return;
      ++unread;
    } else {
      RecordCopy copy;
      if (ReadRecord(raw, copy)) out.records.push_back(std::move(copy));
      else ++rejected;
    }
    waits_since = 0;
  }
}

void JobPageReader::State::ReadLinks(const Page& page, PageCopy& out) {
  for (size_t i = 1; i < kLinks; ++i) {
    const Link& raw = page.links[i];
    const uint64_t key = Load(raw.key);
    if (key == 0) continue;
    any_link = true;
    const auto slot = static_cast<size_t>(key >> 22 & (kCommunicators - 1));
    const auto peer = static_cast<int32_t>(key & (kMostRanks - 1));
    const auto& who = slots[slot].identity;
    // Of a communicator that is over, as its place is used again when it is needed.
    if (!who || LinkKey(who->slot, who->generation, static_cast<uint32_t>(peer)) != key) continue;
    LastLink& last = links[i];
    if (last.key != key) last = {key, 0, 0};
    Count(Load(raw.sent), age, last.sent);
    Count(Load(raw.send_ns), age * kParallel, last.send_ns);
    if (peer >= who->ranks || peer == who->rank) {
      ++rejected;
      continue;
    }
    LinkCopy& copy = out.links.emplace_back(LinkCopy{who, peer, last.sent, last.send_ns, {}});
    for (size_t wait = 0; wait < copy.waiting.size(); ++wait) {
      const uint32_t waiting = Load(raw.waiting[wait]);
      if (waiting <= kParallel) copy.waiting[wait] = waiting;
      else ++rejected;
    }
  }
}

void JobPageReader::State::ReadDevices(const Page& page) {
  for (uint32_t i = 0; i < kDevices; ++i) {
    const CudaDevice& raw = page.devices[i];
    uint64_t any =
        Load(raw.busy_ns) | Load(raw.queue_delay.count) | Load(raw.kernel.count) | Load(raw.sync_wait.count);
    for (size_t kind = 0; kind < 4; ++kind) any |= Load(raw.launches[kind]) | Load(raw.enqueue[kind].count);
    if (any == 0) continue;
    auto known = std::ranges::find(devices, i, &CudaDeviceCopy::device);
    if (known == devices.end()) {
      devices.emplace_back().device = i;
      known = devices.end() - 1;
    }
    known->device_id = DeviceIdOf(raw.device_id);
    for (size_t kind = 0; kind < 4; ++kind) {
      Count(Load(raw.launches[kind]), age, known->launches[kind]);
      Copy(raw.enqueue[kind], known->enqueue[kind]);
    }
    Copy(raw.queue_delay, known->queue_delay);
    Copy(raw.kernel, known->kernel);
    Copy(raw.sync_wait, known->sync_wait);
    Copy(raw.graph, known->graph);
    Copy(raw.graph_kernel, known->graph_kernel);
    Count(Load(raw.busy_ns), age * kParallel, known->busy_ns);
  }
}

void JobPageReader::State::ReadPhases(const Phases& raw) {
  if (Load(raw.marked) != 1) return;
  if (!phases) phases.emplace();
  const uint32_t current = Load(raw.current);
  if (current < static_cast<uint32_t>(Phase::kCount)) phases->current = static_cast<Phase>(current);
  else ++rejected;
  Time(Load(raw.since_boot_ns), phases->since_boot_ns);
  Count(Load(raw.transitions), age, phases->transitions);
  for (size_t i = 0; i < kPhases; ++i) Count(Load(raw.total_ns[i]), age, phases->total_ns[i]);
  phases->edges.clear();
  const uint64_t begun = Load(raw.next_edge);
  if (begun < next_edge || begun > age) {
    ++rejected;
    return;
  }
  if (begun - next_edge > kPhaseEdges) {
    unread += begun - next_edge - kPhaseEdges;
    next_edge = begun - kPhaseEdges;
  }
  for (; next_edge < begun; ++next_edge) {
    const PhaseEdge& edge = raw.edges[next_edge & (kPhaseEdges - 1)];
    const uint64_t ticket = Load(edge.ticket);
    const bool writing = ticket < next_edge + 1 || ticket == kWriting;
    if (writing && begun - next_edge < kPhaseEdges / 2) return;
    if (ticket != next_edge + 1) ++unread;
    else if (edge.phase >= static_cast<uint32_t>(Phase::kCount) || edge.boot_ns > now + kClockSlack)
      ++rejected;
    else phases->edges.push_back({edge.boot_ns, static_cast<Phase>(edge.phase)});
  }
}

void JobPageReader::State::ReadDataLoading(const DataLoading& raw) {
  if (!data_loading) {
    if ((Load(raw.wait.count) | Load(raw.batches) | Load(raw.open_since_boot_ns)) == 0) return;
    data_loading.emplace();
  }
  Copy(raw.wait, data_loading->wait);
  Time(Load(raw.open_since_boot_ns), data_loading->open_since_boot_ns);
  Count(Load(raw.batches), age, data_loading->batches);
}

JobPageReader::JobPageReader(UniqueFd fd, bool sealed)
    : fd_(std::move(fd)), sealed_(sealed), state_(std::make_unique<State>()) {}
JobPageReader::JobPageReader(JobPageReader&&) noexcept = default;
JobPageReader& JobPageReader::operator=(JobPageReader&&) noexcept = default;
JobPageReader::~JobPageReader() = default;

Result<JobPageReader> JobPageReader::FromDescriptor(UniqueFd fd) {
  // The first call on it, since it is answered for files in memory alone and never waits for a file system.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return Status{Code::kInvalidArgument, "the descriptor is not that of a file in memory"};
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || (flags & (O_PATH | O_APPEND)) != 0)
    return Status{Code::kInvalidArgument, "the descriptor cannot be read and written in place"};
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat a job page", errno);
  if (!S_ISREG(info.st_mode) || info.st_size != off_t{sizeof(Page)})
    return Status{Code::kInvalidArgument, "the file in memory has not the size of a job page"};
  return JobPageReader(std::move(fd), (seals & F_SEAL_SHRINK) != 0);
}

Result<JobPageReader> JobPageReader::FromPath(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), O_RDWR | kFlags));
  if (!fd && (errno == EACCES || errno == EPERM || errno == EROFS))
    fd.reset(::open(path.c_str(), O_RDONLY | kFlags));
  if (!fd) return ErrnoStatus("open " + path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return Status{Code::kInvalidArgument, path + " is not a regular file"};
  if (info.st_size == 0) return Status{Code::kUnavailable, path + " is not written yet"};
  if (info.st_size != off_t{sizeof(Page)})
    return Status{Code::kInvalidArgument, path + " has not the size of a job page"};
  return JobPageReader(std::move(fd), false);
}

Status JobPageReader::Read(Instant now, PageCopy& out) {
  out.communicators.clear();
  out.records.clear();
  out.links.clear();
  Page& page = Room();
  const int fd = fd_.get();
  State& state = *state_;
  RETURN_IF_ERROR(ReadPart(fd, page, page.header));
  if (Load(page.header.magic) == 0) return {Code::kUnavailable, "the job page is not written yet"};
  if (Load(page.header.magic) != kMagic) return {Code::kDataLoss, "it is no job page"};
  if (page.header.layout != kLayout || page.header.size != sizeof(Page))
    return {Code::kDataLoss, "the job page has layout " + std::to_string(page.header.layout) +
                                 "; this version reads layout " + std::to_string(kLayout)};
  RETURN_IF_ERROR(state.Open(page.header, now));
  state.ReadHeader(page.header, out);
  const uint64_t begun = Load(page.header.next_record);

  // The room has the records of another page until they are read.
  const bool has_records = begun != state.next_record && HasData(fd, page, page.records);
  uint64_t begun_after = begun;
  if (has_records) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.records));
    // Whatever was begun meanwhile may have overwritten what was copied.
    RETURN_IF_ERROR(ReadPart(fd, page, page.header.next_record));
    begun_after = Load(page.header.next_record);
  }
  // After the ring, so that the communicator of each record is there.
  RETURN_IF_ERROR(ReadPart(fd, page, page.communicators));
  state.ReadCommunicators(page, out);
  if (has_records) state.ReadRecords(page, begun, begun_after, out);
  if (out.actual == Level::kLink || state.any_link) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.links));
    state.ReadLinks(page, out);
  }
  const uint64_t read = state.next_record;
  // Refused on a page that may only be read: its writer then overwrites, and that is counted.
  const ssize_t put = ::pwrite(fd, &read, sizeof read, offsetof(Header, read_records));
  static_cast<void>(put);

  if (HasData(fd, page, page.collective_duration)) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.collective_duration));
    for (size_t i = 0; i < kFunctions; ++i) state.Copy(page.collective_duration[i], state.durations[i]);
  }
  if (HasData(fd, page, page.devices)) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.devices));
    state.ReadDevices(page);
  }
  if (HasData(fd, page, page.phases)) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.phases));
    state.ReadPhases(page.phases);
  }
  if (HasData(fd, page, page.data_loading)) {
    RETURN_IF_ERROR(ReadPart(fd, page, page.data_loading));
    state.ReadDataLoading(page.data_loading);
  }
  out.collective_duration = state.durations;
  out.devices = state.devices;
  out.phases = state.phases;
  out.data_loading = state.data_loading;
  out.rejected = state.rejected;
  out.lost = state.lost;
  out.lost[static_cast<size_t>(Loss::kRingFull)] = state.unread;
  return Ok();
}

Status JobPageReader::ReadKernels(KernelsCopy& out) {
  out = {};
  Page& page = Room();
  if (!HasData(fd_.get(), page, page.kernels)) return Ok();
  RETURN_IF_ERROR(ReadPart(fd_.get(), page, page.kernels));
  const Kernels& raw = page.kernels;
  const uint64_t age = state_->age;
  const auto fits = [&](uint64_t count, uint64_t total_ns) {
    return count <= age && total_ns / kParallel <= age;
  };
  if (fits(Load(raw.other_count), Load(raw.other_ns))) {
    out.other_count = Load(raw.other_count);
    out.other_ns = Load(raw.other_ns);
  } else {
    ++state_->rejected;
  }
  for (const Kernel& kernel : raw.kernels) {
    const uint32_t begin = kernel.name_at, end = Load(kernel.name_end);
    if (Load(kernel.key) == 0 || end == 0) continue;
    const uint64_t count = Load(kernel.count), total_ns = Load(kernel.total_ns);
    if (begin > end || end > sizeof raw.names || !fits(count, total_ns) || kernel.device < -1 ||
        kernel.device >= kMostDevices) {
      ++state_->rejected;
      continue;
    }
    if (count == 0) continue;
    const std::string_view name(raw.names + begin, std::min<size_t>(end - begin, kMostName));
    out.kernels.push_back({Printable(name), kernel.device, count, total_ns});
  }
  return Ok();
}

bool JobPageReader::WriterHoldsLock() const noexcept {
  if (::flock(fd_.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd_.get(), LOCK_UN);
  return false;
}

Status JobPageReader::SetWantedLevel(Level level) {
  const auto value = static_cast<uint32_t>(level);
  const ssize_t put = ::pwrite(fd_.get(), &value, sizeof value, offsetof(Header, wanted_level));
  if (put == sizeof value) return Ok();
  return ErrnoStatus("write a job page", put < 0 ? errno : EIO);
}

}  // namespace gpulens::job_page
