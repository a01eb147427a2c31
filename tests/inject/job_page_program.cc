// A job that writes a page (src/job_page/job_page.h) as its standard input commands: for tests of what reads
// pages.
//
//   job_page_program [WRITER]         nccl | cuda | program (default)
//
// One command a line; after each it prints "BOOT_NS COMMAND", so that a test knows when it happened, and
// "error COMMAND" for what it does not understand. It ends with the end of its input. The page goes to the
// socket of GPULENS_JOB_SOCKET, else of /run/gpulens/job.sock; where none listens, into GPULENS_JOB_FOLDER.
//
// clang-format off
//   open                                        makes the page and hands it over; prints "page socket" or "page PATH"
//   sleep MS
//   phase NAME                                  the phase that begins: data_loading, gpu_compute, nccl_collective, optimizer_step,
//                                               checkpoint, prefill, decode, queued, idle, unknown
//   wait MS                                     waits for a batch
//   waits COUNT US                              had COUNT waits; does not wait
//   wait_begin / wait_end
//   device SLOT ID                              as "device 0 0000:1a:00.0"
//   launches SLOT TYPE COUNT FIRST_NS LAST_NS   kernel | cooperative | graph; the times rise evenly
//   kernels SLOT COUNT NS [DELAY_NS]            kernels that ran
//   sync SLOT MS                                waits for the device
//   communicator SLOT HASH RANK RANKS [NAME [DEVICE_ID]]
//   close_communicator SLOT
//   enqueue SLOT FUNCTION BYTES                 all_reduce, broadcast, all_gather, reduce_scatter, …
//   start SLOT FUNCTION / done SLOT FUNCTION
//   collective SLOT FUNCTION MS BYTES           enqueued, started, MS later done, with a record of the host's times
//   records SLOT FUNCTION COUNT US BYTES        had COUNT collectives with durations of the device; does not wait
//   sent SLOT PEER COUNT US                     sent COUNT steps of the network to a rank, of one communicator
//   wait_level LEVEL MS                         waits until the agent wants that level, and obeys it
//   lost REASON COUNT                           number of Loss
//   level LEVEL                                 actual: 0 … 3
//   trouble TEXT
// clang-format on
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "job_page/job_page.h"

namespace {

using namespace gpulens::job_page;

uint64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void Sleep(double ms) {
  const auto ns = static_cast<int64_t>(ms * 1e6);
  timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR) {
  }
}

template <class Number>
size_t IndexIn(const Number& names, std::string_view name) {
  size_t at = 0;
  for (std::string_view there : names) {
    if (there == name) return at;
    ++at;
  }
  return SIZE_MAX;
}

constexpr std::string_view kPhaseNames[] = {
    "unknown",    "data_loading", "gpu_compute", "nccl_collective", "optimizer_step",
    "checkpoint", "prefill",      "decode",      "queued",          "idle"};
constexpr std::string_view kFunctionNames[] = {
    "other",  "all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all",
    "gather", "scatter",    "send",      "receive",    "all_gather_v",   "barrier"};
constexpr std::string_view kLaunchNames[] = {"kernel", "cooperative", "graph"};

uint64_t StartTicks() {
  FILE* file = fopen("/proc/self/stat", "r");
  if (!file) return 0;
  char text[1024] = {};
  const size_t size = fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  text[size] = 0;
  const char* at = strrchr(text, ')');
  for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');
  return at ? strtoull(at + 1, nullptr, 10) : 0;
}

class Job {
 public:
  explicit Job(Writer writer) : writer_(writer) {}

  bool Run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "open") return Open();
    if (command == "sleep") {
      double ms = 0;
      if (words >> ms) Sleep(ms);
      return true;
    }
    if (!page_) return false;
    page_->header.last_event_boot_ns = Now();
    if (command == "phase") return BeginPhase(words);
    if (command == "wait" || command == "wait_begin" || command == "wait_end" || command == "waits")
      return Wait(command, words);
    if (command == "device" || command == "launches" || command == "kernels" || command == "sync")
      return Cuda(command, words);
    if (command == "lost") {
      size_t reason = kLosses;
      uint64_t count = 0;
      if (!(words >> reason >> count) || reason >= kLosses) return false;
      page_->header.lost[reason] += count;
      return true;
    }
    if (command == "level") {
      uint32_t level = 0;
      words >> level;
      page_->header.actual_level = level;
      return true;
    }
    if (command == "wait_level") {
      uint32_t level = 0;
      int ms = 0;
      if (!(words >> level >> ms)) return false;
      for (; ms > 0 && page_->header.wanted_level != level; ms -= 20) Sleep(20);
      page_->header.actual_level = page_->header.wanted_level.load();
      return page_->header.wanted_level == level;
    }
    if (command == "trouble") {
      std::string text;
      std::getline(words >> std::ws, text);
      snprintf(page_->header.trouble, sizeof(page_->header.trouble), "%s", text.c_str());
      return true;
    }
    return Collective(command, words);
  }

 private:
  bool Open() {
    if (page_) return false;
    const int fd = memfd_create("gpulens-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof(Page)) != 0) return false;
    int place = fd;
    std::string path;
    if (!Send(fd)) {
      const char* folder = getenv(kFolderVariable);
      path = std::string(folder ? folder : kDefaultFolder) + "/gpulens-job-" + std::to_string(getuid()) +
             "-" + std::to_string(getpid()) + "-" + std::to_string(static_cast<uint32_t>(writer_));
      place = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      // As writers do: the lock ends with the process.
      if (place < 0 || flock(place, LOCK_EX | LOCK_NB) != 0 || ftruncate(place, sizeof(Page)) != 0)
        return false;
    }
    void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, place, 0);
    if (memory == MAP_FAILED) return false;
    page_ = static_cast<Page*>(memory);  // zeros are a page without contents
    Header& header = page_->header;
    header.layout = kLayout;
    header.writer = static_cast<uint32_t>(writer_);
    header.size = sizeof(Page);
    header.pid = getpid();
    header.user = getuid();
    header.start_ticks = StartTicks();
    header.opened_boot_ns = Now();
    snprintf(header.writer_version, sizeof(header.writer_version), "test");
    header.wanted_level = static_cast<uint32_t>(Level::kTime);
    header.actual_level = static_cast<uint32_t>(Level::kTime);
    for (Communicator& communicator : page_->communicators) communicator.device = -1;
    header.magic.store(kMagic, std::memory_order_release);
    printf("page %s\n", path.empty() ? "socket" : path.c_str());
    return true;
  }

  bool Send(int fd) {
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    const char* path = getenv(kSocketVariable);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path ? path : kDefaultSocket);
    socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0 || connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return false;
    Hello hello{kMagic, kLayout, static_cast<uint32_t>(writer_)};
    iovec part{&hello, sizeof(hello)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
    return sendmsg(socket_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(hello));
  }

  bool BeginPhase(std::istringstream& words) {
    std::string name;
    words >> name;
    const size_t phase = IndexIn(kPhaseNames, name);
    if (phase >= kPhases) return false;
    Phases& phases = page_->phases;
    const uint64_t now = Now();
    if (phases.marked) phases.total_ns[phases.current] += now - phases.since_boot_ns;
    phases.current = static_cast<uint32_t>(phase);
    phases.since_boot_ns = now;
    phases.transitions += phases.marked ? 1 : 0;
    phases.marked = 1;
    const uint64_t at = phases.next_edge++;
    PhaseEdge& edge = phases.edges[at % kPhaseEdges];
    edge.ticket.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    edge.boot_ns = now;
    edge.phase = static_cast<uint32_t>(phase);
    edge.ticket.store(at + 1, std::memory_order_release);
    return true;
  }

  bool Wait(const std::string& command, std::istringstream& words) {
    DataLoading& loading = page_->data_loading;
    if (command == "waits") {
      uint64_t count = 0;
      double us = 0;
      if (!(words >> count >> us)) return false;
      for (uint64_t i = 0; i < count; ++i) loading.wait.Add(static_cast<uint64_t>(us * 1e3));
      loading.batches += count;
      return true;
    }
    if (command != "wait_end") loading.open_since_boot_ns = Now();
    double ms = 0;
    if (command == "wait" && words >> ms) Sleep(ms);
    if (command == "wait_begin") return true;
    const uint64_t since = loading.open_since_boot_ns;
    if (since == 0) return false;
    loading.wait.Add(Now() - since);
    loading.open_since_boot_ns = 0;
    loading.batches += 1;
    return true;
  }

  bool Cuda(const std::string& command, std::istringstream& words) {
    size_t slot = kDevices;
    if (!(words >> slot) || slot >= kDevices) return false;
    CudaDevice& device = page_->devices[slot];
    if (command == "device") {
      std::string id;
      words >> id;
      snprintf(device.device_id, sizeof(device.device_id), "%s", id.c_str());
      return true;
    }
    if (command == "sync") {
      double ms = 0;
      words >> ms;
      const uint64_t begin = Now();
      Sleep(ms);
      device.sync_wait.Add(Now() - begin);
      return true;
    }
    if (command == "kernels") {
      uint64_t count = 0, ns = 0, delay = 0;
      if (!(words >> count >> ns)) return false;
      words >> delay;
      for (uint64_t i = 0; i < count; ++i) {
        device.kernel.Add(ns);
        device.queue_delay.Add(delay);
        device.busy_ns += ns;
      }
      return true;
    }
    std::string type;
    uint64_t count = 0, first = 0, last = 0;
    if (!(words >> type >> count >> first >> last)) return false;
    const size_t launch = IndexIn(kLaunchNames, type);
    if (launch >= static_cast<size_t>(Launch::kCount) || last < first) return false;
    for (uint64_t i = 0; i < count; ++i) {
      device.launches[launch] += 1;
      device.enqueue[launch].Add(count > 1 ? first + (last - first) * i / (count - 1) : first);
    }
    return true;
  }

  bool Collective(const std::string& command, std::istringstream& words) {
    size_t slot = kCommunicators;
    if (!(words >> slot) || slot >= kCommunicators) return false;
    Communicator& communicator = page_->communicators[slot];
    if (command == "communicator") return OpenCommunicator(communicator, words);
    if (command == "close_communicator") {
      communicator.closed = 1;
      return true;
    }
    if (command == "sent") {
      uint32_t peer = 0;
      uint64_t count = 0;
      double us = 0;
      if (!(words >> peer >> count >> us) || peer + 1 >= kLinks) return false;
      Link& link = page_->links[peer + 1];
      link.key = LinkKey(static_cast<uint32_t>(slot), communicator.generation, peer);
      link.sent += count;
      link.send_ns += static_cast<uint64_t>(static_cast<double>(count) * us * 1e3);
      return true;
    }
    std::string name;
    words >> name;
    const size_t function = IndexIn(kFunctionNames, name);
    if (function >= kFunctions) return false;
    FunctionProgress& progress = communicator.functions[function];
    if (command == "enqueue") {
      uint64_t bytes = 0;
      words >> bytes;
      Enqueue(progress, bytes);
      return true;
    }
    if (command == "start" || command == "done") {
      (command == "start" ? progress.started : progress.done) += 1;
      progress.changed_boot_ns = Now();
      return true;
    }
    if (command == "collective") {
      double ms = 0;
      uint64_t bytes = 0;
      if (!(words >> ms >> bytes)) return false;
      Enqueue(progress, bytes);
      const uint64_t begin = Now();
      progress.started = progress.enqueued.load();
      progress.changed_boot_ns = begin;
      Sleep(ms);
      const uint64_t end = Now();
      Add(slot, function, bytes, progress.enqueued - 1, Timing::kHost, begin, end, end);
      progress.done = progress.enqueued.load();
      progress.changed_boot_ns = end;
      return true;
    }
    if (command == "records") {
      uint64_t count = 0, bytes = 0;
      double us = 0;
      if (!(words >> count >> us >> bytes)) return false;
      for (uint64_t i = 0; i < count; ++i) {
        Enqueue(progress, bytes);
        const uint64_t now = Now();
        progress.started = progress.enqueued.load();
        progress.done = progress.enqueued.load();
        progress.changed_boot_ns = now;
        device_clock_ += 1'000'000'000;
        Add(slot, function, bytes, progress.enqueued - 1, Timing::kDevice, device_clock_,
            device_clock_ + static_cast<uint64_t>(us * 1e3), now);
      }
      return true;
    }
    return false;
  }

  bool OpenCommunicator(Communicator& communicator, std::istringstream& words) {
    std::string hash, name, id;
    int rank = 0, ranks = 0;
    if (!(words >> hash >> rank >> ranks)) return false;
    words >> name >> id;
    const uint32_t generation = communicator.generation;
    communicator.generation.store(generation + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    communicator.closed = 0;
    communicator.hash = strtoull(hash.c_str(), nullptr, 0);
    communicator.rank = rank;
    communicator.ranks = ranks;
    communicator.nodes = 1;
    communicator.device = 0;
    communicator.opened_boot_ns = Now();
    snprintf(communicator.name, sizeof(communicator.name), "%s", name.c_str());
    snprintf(communicator.device_id, sizeof(communicator.device_id), "%s", id.c_str());
    for (FunctionProgress& progress : communicator.functions) {
      progress.enqueued = progress.started = progress.done = 0;
      progress.operations = progress.bytes = 0;
    }
    communicator.generation.store(generation + 2, std::memory_order_release);
    return true;
  }

  static void Enqueue(FunctionProgress& progress, uint64_t bytes) {
    progress.enqueued += 1;
    progress.operations += 1;
    progress.bytes += bytes;
    progress.changed_boot_ns = Now();
  }

  void Add(size_t slot, size_t function, uint64_t bytes, uint64_t sequence, Timing timing, uint64_t begin,
           uint64_t end, uint64_t ended) {
    const uint64_t at = page_->header.next_record++;
    Record& record = page_->records[at % kRecords];
    record.ticket.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    record.communicator = static_cast<uint32_t>(slot);
    record.generation = page_->communicators[slot].generation;
    record.function = static_cast<Function>(function);
    record.datatype = Datatype::kBfloat16;
    record.algorithm = Algorithm::kRing;
    record.protocol = Protocol::kSimple;
    record.timing = timing;
    record.flags = 0;
    record.channels = 1;
    record.peer_or_root = -1;
    record.sequence = sequence;
    record.bytes = bytes;
    record.enqueued_boot_ns = ended - (end - begin);
    record.start_ns = begin;
    record.end_ns = end;
    record.ended_boot_ns = ended;
    record.ticket.store(at + 1, std::memory_order_release);
    page_->collective_duration[function].Add(end - begin);
  }

  const Writer writer_;
  Page* page_ = nullptr;
  int socket_ = -1;
  uint64_t device_clock_ = 1'000'000'000'000;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view writer = argc > 1 ? argv[1] : "program";
  Job job(writer == "nccl"   ? Writer::kNcclPlugin
          : writer == "cuda" ? Writer::kCudaInjection
                             : Writer::kProgram);
  char line[1024];
  while (fgets(line, sizeof(line), stdin)) {
    std::string text(line);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.empty()) continue;
    if (job.Run(text)) printf("%llu %s\n", static_cast<unsigned long long>(Now()), text.c_str());
    else printf("error %s\n", text.c_str());
    fflush(stdout);
  }
  return 0;
}
