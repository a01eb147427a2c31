// job_page_dump FILE: prints a job page as JSON, byte for byte as the writer left it. For tests and for
// sessions on machines without the agent; what checks pages is job_page_reader.h.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "job_page/job_page.h"

namespace {

using namespace gpulens::job_page;

const char* between = "";

void Number(const char* name, uint64_t value) {
  std::printf("%s\"%s\":%" PRIu64, between, name, value);
  between = ",";
}
void Text(const char* name, const char* value, size_t size) {
  std::printf("%s\"%s\":\"", between, name);
  for (size_t i = 0; i < size && value[i] != '\0'; ++i) {
    const auto letter = static_cast<unsigned char>(value[i]);
    if (letter < 0x20 || letter == '"' || letter == '\\' || letter > 0x7e) std::printf("\\u%04x", letter);
    else std::putchar(letter);
  }
  std::printf("\"");
  between = ",";
}
void Begin(const char* name, char bracket) {
  if (name) std::printf("%s\"%s\":%c", between, name, bracket);
  else std::printf("%s%c", between, bracket);
  between = "";
}
void End(char bracket) {
  std::putchar(bracket);
  between = ",";
}
void Write(const char* name, const Histogram& histogram) {
  Begin(name, '{');
  Number("count", histogram.count);
  Number("sum_ns", histogram.sum_ns);
  Begin("buckets", '[');
  for (const auto& bucket : histogram.buckets) {
    std::printf("%s%" PRIu64, between, bucket.load());
    between = ",";
  }
  End(']');
  End('}');
}

void WriteCollectives(const Page& page) {
  Begin("communicators", '[');
  for (const Communicator& at : page.communicators) {
    if (at.generation == 0) continue;
    Begin(nullptr, '{');
    Number("generation", at.generation), Number("closed", at.closed), Number("hash", at.hash);
    Number("rank", static_cast<uint64_t>(at.rank)), Number("ranks", static_cast<uint64_t>(at.ranks));
    Text("name", at.name, sizeof at.name), Text("device_id", at.device_id, sizeof at.device_id);
    Begin("functions", '[');
    for (size_t i = 0; i < kFunctions; ++i) {
      const FunctionProgress& progress = at.functions[i];
      if (progress.enqueued == 0 && progress.operations == 0) continue;
      Begin(nullptr, '{');
      Number("function", i), Number("enqueued", progress.enqueued), Number("started", progress.started);
      Number("done", progress.done), Number("operations", progress.operations),
          Number("bytes", progress.bytes);
      End('}');
    }
    End(']');
    End('}');
  }
  End(']');
  Begin("records", '[');
  for (size_t i = 0; i < kRecords; ++i) {
    const Record& at = page.records[i];
    if (at.ticket == 0 || at.ticket == ~uint64_t{0}) continue;
    Begin(nullptr, '{');
    Number("ticket", at.ticket), Number("communicator", at.communicator);
    Number("function", static_cast<uint64_t>(at.function)),
        Number("timing", static_cast<uint64_t>(at.timing));
    Number("sequence", at.sequence), Number("bytes", at.bytes),
        Number("enqueued_boot_ns", at.enqueued_boot_ns);
    Number("start_ns", at.start_ns), Number("end_ns", at.end_ns), Number("ended_boot_ns", at.ended_boot_ns);
    End('}');
  }
  End(']');
  Begin("links", '[');
  for (const Link& at : page.links) {
    const uint64_t key = at.key;
    if (key == 0) continue;
    Begin(nullptr, '{');
    Number("communicator", key >> 22 & (kCommunicators - 1));
    Number("peer", key & (kMostRanks - 1));
    Number("sent", at.sent), Number("send_ns", at.send_ns);
    constexpr const char* kWaits[] = {"gpu", "credit", "send", "receive"};
    for (size_t wait = 0; wait < std::size(kWaits); ++wait) Number(kWaits[wait], at.waiting[wait]);
    End('}');
  }
  End(']');
}

void WriteCuda(const Page& page) {
  Begin("devices", '[');
  for (size_t i = 0; i < kDevices; ++i) {
    const CudaDevice& at = page.devices[i];
    uint64_t any = at.busy_ns + at.sync_wait.count;
    for (const auto& launches : at.launches) any += launches;
    if (any == 0) continue;
    Begin(nullptr, '{');
    Number("device", i);
    Text("device_id", at.device_id, sizeof at.device_id);
    constexpr const char* kTypes[] = {"kernel", "cooperative", "graph"};
    Begin("launches", '{');
    for (size_t type = 0; type < 3; ++type) Number(kTypes[type], at.launches[type]);
    End('}');
    Begin("enqueue", '{');
    for (size_t type = 0; type < 3; ++type) Write(kTypes[type], at.enqueue[type]);
    End('}');
    Write("queue_delay", at.queue_delay), Write("kernel", at.kernel), Write("sync_wait", at.sync_wait);
    Write("graph", at.graph), Write("graph_kernel", at.graph_kernel);
    Number("busy_ns", at.busy_ns);
    End('}');
  }
  End(']');
  Begin("kernels", '[');
  for (const Kernel& at : page.kernels.kernels) {
    const uint32_t end = at.name_end;
    if (at.key == 0 || end == 0 || end > sizeof page.kernels.names || at.name_at >= end) continue;
    Begin(nullptr, '{');
    Text("name", page.kernels.names + at.name_at, end - at.name_at);
    Number("count", at.count), Number("total_ns", at.total_ns),
        Number("device", static_cast<uint64_t>(at.device));
    End('}');
  }
  End(']');
  Number("other_kernels", page.kernels.other_count);
}

void WriteMarks(const Page& page) {
  Begin("phases", '{');
  Number("current", page.phases.current), Number("transitions", page.phases.transitions);
  Begin("total_ns", '[');
  for (size_t i = 0; i < static_cast<size_t>(Phase::kCount); ++i) {
    std::printf("%s%" PRIu64, between, page.phases.total_ns[i].load());
    between = ",";
  }
  End(']');
  End('}');
  Begin("data_loading", '{');
  Number("batches", page.data_loading.batches), Number("open_since", page.data_loading.open_since_boot_ns);
  Write("wait", page.data_loading.wait);
  End('}');
}

void Dump(const Page& page) {
  Begin(nullptr, '{');
  const Header& header = page.header;
  Number("layout", header.layout), Number("writer", header.writer),
      Number("pid", static_cast<uint64_t>(header.pid));
  Text("library_version", header.library_version, sizeof header.library_version);
  Text("trouble", header.trouble, sizeof header.trouble);
  Number("wanted_level", header.wanted_level), Number("actual_level", header.actual_level);
  Number("opened_boot_ns", header.opened_boot_ns), Number("last_event_boot_ns", header.last_event_boot_ns);
  Number("next_record", header.next_record);
  constexpr const char* kNames[] = {"ring_full",     "no_handle", "no_communicator", "stale_timer",
                                    "unknown_event", "no_device", "error",           "dropped"};
  Begin("lost", '{');
  for (size_t i = 0; i < static_cast<size_t>(Loss::kCount); ++i) Number(kNames[i], header.lost[i]);
  End('}');
  if (header.writer == static_cast<uint32_t>(Writer::kCudaInjection)) WriteCuda(page);
  else WriteCollectives(page);
  if (header.writer == static_cast<uint32_t>(Writer::kProgram)) WriteMarks(page);
  End('}');
  std::putchar('\n');
}

}  // namespace

int main(int count, char** arguments) {
  const int file = count == 2 ? ::open(arguments[1], O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return std::fprintf(stderr, "job_page_dump FILE\n"), 2;
  if (::lseek(file, 0, SEEK_END) < static_cast<off_t>(sizeof(Page)))
    return std::fprintf(stderr, "no page\n"), 1;
  void* at = ::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return std::perror("mmap"), 1;
  const auto& page = *static_cast<const Page*>(at);
  if (page.header.magic != kMagic || page.header.size != sizeof(Page))
    return std::fprintf(stderr, "no page of this layout\n"), 1;
  Dump(page);
  return 0;
}
