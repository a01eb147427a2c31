// A writer of job pages for tests: a file in memory, mapped, with what a well-behaved writer puts into it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/fd.h"
#include "job_page/job_page.h"

namespace gpulens::job_page {

class TestPage {
 public:
  // Makes a file in memory, or writes to the file `fd`.
  explicit TestPage(Writer writer = Writer::kNcclPlugin, uint64_t opened_boot_ns = 1'000'000'000,
                    UniqueFd fd = {})
      : fd_(fd ? std::move(fd) : UniqueFd(::memfd_create("gpulens-job", MFD_CLOEXEC | MFD_ALLOW_SEALING))) {
    CHECK(::ftruncate(fd_.get(), sizeof(Page)) == 0);
    void* at = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    CHECK(at != MAP_FAILED);
    page_ = static_cast<Page*>(at);
    static_cast<void>(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    Header& header = page_->header;
    header.layout = kLayout;
    header.writer = static_cast<uint32_t>(writer);
    header.size = sizeof(Page);
    header.pid = ::getpid();
    header.user = ::getuid();
    header.opened_boot_ns = opened_boot_ns;
    header.magic = kMagic;
  }
  TestPage(const TestPage&) = delete;
  ~TestPage() { ::munmap(page_, sizeof(Page)); }

  Page& page() { return *page_; }
  UniqueFd Descriptor() const { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }
  int fd() const { return fd_.get(); }

  template <size_t kSize>
  static void Put(char (&to)[kSize], std::string_view text) {
    std::memset(to, 0, kSize);
    text.copy(to, kSize - 1);
  }

  Communicator& AddCommunicator(uint32_t slot, uint64_t hash, int32_t rank, int32_t ranks,
                                std::string_view name = {}) {
    Communicator& made = page_->communicators[slot];
    const uint32_t generation = made.generation;
    made.generation = generation + 1;
    made.closed = 0;
    made.hash = hash;
    made.rank = rank;
    made.ranks = ranks;
    made.nodes = 1;
    made.device = rank;
    made.opened_boot_ns = page_->header.opened_boot_ns;
    Put(made.name, name);
    made.generation = generation + 2;
    return made;
  }

  // A collective that took `took_ns` on its device and ended at `ended_boot_ns`.
  void AddRecord(uint32_t slot, Function function, uint64_t sequence, uint64_t bytes, uint64_t took_ns,
                 uint64_t ended_boot_ns) {
    const uint64_t at = page_->header.next_record++;
    Record& record = page_->records[at & (kRecords - 1)];
    record.ticket = 0;
    record.communicator = slot;
    record.generation = page_->communicators[slot].generation;
    record.function = function;
    record.timing = Timing::kDevice;
    record.peer_or_root = -1;
    record.sequence = sequence;
    record.bytes = bytes;
    record.start_ns = 7'000'000'000'000;
    record.end_ns = record.start_ns + took_ns;
    record.enqueued_boot_ns = ended_boot_ns > took_ns ? ended_boot_ns - took_ns : 1;
    record.ended_boot_ns = ended_boot_ns;
    record.ticket = at + 1;
    FunctionProgress& progress = page_->communicators[slot].functions[static_cast<size_t>(function)];
    progress.enqueued = progress.started = progress.done = sequence + 1;
    progress.changed_boot_ns = ended_boot_ns;
    progress.operations++;
    progress.bytes += bytes;
    page_->collective_duration[static_cast<size_t>(function)].Add(took_ns);
    page_->header.last_event_boot_ns = ended_boot_ns;
  }

 private:
  UniqueFd fd_;
  Page* page_ = nullptr;
};

}  // namespace gpulens::job_page
