#include "agent/demo/demo_jobs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/result.h"
#include "base/version.h"
#include "collectives/sampler.h"
#include "job_page/job_page_reader.h"
#include "job_page/job_page_writer.h"

namespace gpulens::demo {

// What is simulated of one workload.
class DemoJobs::Part {
 public:
  virtual ~Part() = default;
  virtual void Advance(Instant now) = 0;
};

namespace {

using job_page::Function;
using job_page::Phase;
using job_page::Writer;

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;
// Of a step of a training at its full load; loading data and the optimizer do not depend on the load.
constexpr int64_t kLoadsNs = 45 * kMs, kComputesNs = 520 * kMs, kOptimizesNs = 60 * kMs;
constexpr size_t kAllReduces = 8;  // of a step
constexpr int64_t kAllReduceNs = 11 * kMs, kGapNs = kMs;
constexpr uint64_t kAllReduceBytes = 256u << 20, kEngineBytes = 128u << 10;
constexpr int64_t kPauseNs = 10 * kSecond;  // of the agent: a step that lasts longer is not gone through
constexpr int64_t kCountEveryNs = kSecond / 2;
// A page that is older than its counts may be, so that they are possible: they count since the boot.
constexpr uint64_t kSinceBootNs = kSecond;

// 0 to 1, the same for the same numbers in every process.
double Random(uint64_t seed, uint64_t a, uint64_t b) {
  const uint64_t mixed = MixWords(seed ^ (a + 1) * 0x9E3779B97F4A7C15u, (b + 1) * 0xD1B54A32D192ED03u);
  return static_cast<double>(mixed >> 11) / static_cast<double>(uint64_t{1} << 53);
}

int64_t ShareOf(double share, int64_t of) { return static_cast<int64_t>(share * static_cast<double>(of)); }

uint64_t ToCount(int64_t ns) { return static_cast<uint64_t>(std::max<int64_t>(ns, 0)); }

std::string BusAddress(unsigned gpu) {  // of the simulated library
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", (0x1A + 0x11 * gpu) & 0xFF);
  return text;
}

// Durations with a median and a spread, as shares of the buckets of a histogram.
class Durations {
 public:
  Durations(double median_ns, double sigma) {
    const auto below = [&](double ns) {
      return 0.5 * std::erfc(-std::log(ns / median_ns) / sigma / 1.4142135623731);
    };
    double before = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      const double bound = i + 1 == shares_.size() ? 1e12 : job_page::BucketBound(i);
      const double share = below(bound) - before;
      before += share;
      if (share > 1e-6) shares_[i] = share;
      mean_ns_ += shares_[i] * MiddleOf(i);
    }
  }

  double mean_ns() const noexcept { return mean_ns_; }
  // Writes `total` of them in place of what was there, which must not be more.
  void Write(job_page::Histogram& out, double total) const {
    uint64_t count = 0;
    double sum = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] <= 0) continue;
      const auto here = static_cast<uint64_t>(total * shares_[i]);
      out.buckets[i].store(here, std::memory_order_relaxed);
      count += here;
      sum += static_cast<double>(here) * MiddleOf(i);
    }
    out.sum_ns.store(static_cast<uint64_t>(sum), std::memory_order_relaxed);
    out.count.store(count, std::memory_order_relaxed);
  }

 private:
  static double MiddleOf(size_t bucket) { return 0.91 * std::exp2(6 + static_cast<double>(bucket + 1) / 4); }

  std::array<double, job_page::kBuckets> shares_{};
  double mean_ns_ = 0;
};

// The job page of a simulated process.
class SimulatedPage {
 public:
  static std::unique_ptr<SimulatedPage> Make(JobPages& pages, Writer writer, unsigned pid,
                                             uint64_t opened_boot_ns, job_page::Level level) {
    std::unique_ptr<SimulatedPage> made(new SimulatedPage(pages));
    if (Status status = made->Open(writer, pid, opened_boot_ns, level); !status) {
      Log(LogLevel::kWarn, "demo", "no_page", "a job is not simulated: " + status.detail);
      return nullptr;
    }
    return made;
  }
  ~SimulatedPage() {
    if (id_ != 0) pages_.EndSimulated(id_);
    if (page_) ::munmap(page_, sizeof(job_page::Page));
  }
  SimulatedPage(const SimulatedPage&) = delete;
  SimulatedPage& operator=(const SimulatedPage&) = delete;

  job_page::Page* operator->() const noexcept { return page_; }
  job_page::Page& operator*() const noexcept { return *page_; }

  // Hands it to the agent, if it has not got it yet: when it has what was counted before, since counts from 0
  // on would be of this moment.
  void Show() {
    if (!file_) return;
    const auto id = pages_.AddSimulated(std::move(file_), static_cast<int32_t>(page_->header.pid));
    if (id) id_ = *id;
    else Log(LogLevel::kWarn, "demo", "no_page", "a job is not simulated: " + id.error().detail);
  }

  // As a job that marks its phases.
  void Mark(Phase phase, int64_t at_ns) { job_page::WritePhase(*page_, phase, ToCount(at_ns)); }

 private:
  explicit SimulatedPage(JobPages& pages) : pages_(pages) {}
  Status Open(Writer writer, unsigned pid, uint64_t opened_boot_ns, job_page::Level level) {
    UniqueFd file(::memfd_create("gpulens-demo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ::ftruncate(file.get(), sizeof(job_page::Page)) != 0 ||
        ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
      return ErrnoStatus("memfd_create", errno);
    void* at = ::mmap(nullptr, sizeof(job_page::Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return ErrnoStatus("mmap", errno);
    page_ = static_cast<job_page::Page*>(at);
    job_page::Header& header = page_->header;
    header.layout = job_page::kLayout;
    header.writer = static_cast<uint32_t>(writer);
    header.size = sizeof(job_page::Page);
    header.pid = static_cast<int32_t>(pid);
    header.opened_boot_ns = opened_boot_ns;
    job_page::CopyText(header.writer_version, std::string(Version()).c_str());
    header.wanted_level = header.actual_level = static_cast<uint32_t>(level);
    header.magic = job_page::kMagic;
    file_ = std::move(file);
    return Ok();
  }

  JobPages& pages_;
  UniqueFd file_;  // until the agent has it
  job_page::Page* page_ = nullptr;
  uint64_t id_ = 0;
};

using SimulatedPages = std::vector<std::unique_ptr<SimulatedPage>>;

// A page for each process of a workload, which has one for each GPU; none if one cannot be made.
SimulatedPages MakePages(JobPages& pages, const Workload& work, Writer writer, uint64_t opened_boot_ns,
                         job_page::Level level) {
  SimulatedPages made;
  for (size_t i = 0; i < work.gpus.size(); ++i) {
    auto page =
        SimulatedPage::Make(pages, writer, work.pid + static_cast<unsigned>(i), opened_boot_ns, level);
    if (!page) return {};
    made.push_back(std::move(page));
  }
  return made;
}

// Pages of the CUDA injection library in the processes of a workload. What they count follows from the load
// since the boot, and in a training from the steps in addition.
class LaunchPages final : public DemoJobs::Part {
 public:
  LaunchPages(const DemoNode& node, size_t workload, JobPages& pages)
      : node_(node),
        workload_(workload),
        pages_(pages),
        work_(node.scenario().workloads[workload]),
        kernel_(0.8e9 * work_.busy / work_.inside.launches, 0.6) {}

  void Advance(Instant now) override {
    if (now.boot_ns - counted_ns_ < kCountEveryNs) return;
    counted_ns_ = now.boot_ns;
    const EngineTime time = node_.TimeOf(workload_, now.boot_ns);
    if (time.level < 0) return made_.clear();
    if (made_.empty()) {
      made_ = MakePages(pages_, work_, Writer::kCudaInjection, kSinceBootNs, job_page::Level::kTime);
      for (size_t i = 0; i < made_.size(); ++i)
        job_page::CopyText((*made_[i])->devices[0].device_id, BusAddress(work_.gpus[i]).c_str());
    }
    const double calls =
        time.Sum([&](int level) { return work_.inside.launches * std::min(level, 100) / 100.0; });
    // In a hang nothing is launched.
    if (before_ > 0 && work_.inside.hang.At(now.boot_ns)) held_ += std::max(0.0, calls - before_);
    before_ = calls;
    most_ = std::max(most_, calls - held_);
    for (const auto& page : made_) {
      job_page::CudaDevice& device = (*page)->devices[0];
      // Of a hundred launches two are graphs.
      const double graphs = most_ * 0.02, kernels = most_ - graphs;
      device.launches[0].store(static_cast<uint64_t>(kernels));
      device.launches[static_cast<size_t>(job_page::Launch::kGraph)].store(static_cast<uint64_t>(graphs));
      enqueue_.Write(device.enqueue[0], kernels);
      enqueue_of_graphs_.Write(device.enqueue[static_cast<size_t>(job_page::Launch::kGraph)], graphs);
      delay_.Write(device.queue_delay, kernels);
      kernel_.Write(device.kernel, kernels);
      sync_.Write(device.sync_wait, most_ * 0.004);
      device.busy_ns.store(device.kernel.sum_ns.load());
      (*page)->header.last_event_boot_ns.store(ToCount(now.boot_ns));
      page->Show();
    }
  }

 private:
  const DemoNode& node_;
  const size_t workload_;
  JobPages& pages_;
  const Workload& work_;
  const Durations kernel_;
  const Durations enqueue_{4'200, 0.35}, enqueue_of_graphs_{19'000, 0.4}, delay_{14'000, 0.8},
      sync_{1'600'000, 0.7};
  SimulatedPages made_;
  int64_t counted_ns_ = 0;
  double most_ = 0, before_ = 0, held_ = 0;  // launches: counted, by the load at the last time, not made
};

// Ranks of an engine that works on several GPUs: their collectives are counted and not timed.
class EngineRanks final : public DemoJobs::Part {
 public:
  EngineRanks(const DemoNode& node, size_t workload, JobPages& pages)
      : node_(node), workload_(workload), pages_(pages), work_(node.scenario().workloads[workload]) {}

  void Advance(Instant now) override {
    const EngineTime time = node_.TimeOf(workload_, now.boot_ns);
    if (time.level < 0) return made_.clear();
    const std::string name = work_.name + "-tp";
    if (made_.empty()) {
      made_ = MakePages(pages_, work_, Writer::kNcclPlugin, kSinceBootNs, job_page::Level::kCount);
      for (size_t i = 0; i < made_.size(); ++i) {
        const std::string device = BusAddress(work_.gpus[i]);
        job_page::OpenCommunicator(**made_[i], {.hash = StableHash(name),
                                                .rank = static_cast<int32_t>(i),
                                                .ranks = static_cast<int32_t>(work_.gpus.size()),
                                                .nodes = 1,
                                                .device = 0,
                                                .name = name.c_str(),
                                                .device_id = device.c_str(),
                                                .boot_ns = kSinceBootNs});
      }
    }
    most_ = std::max(most_, static_cast<uint64_t>(time.Sum([&](int level) {
                       return work_.inside.collectives * std::min(level, 100) / 100.0;
                     })));
    for (const auto& page : made_) {
      job_page::FunctionProgress& progress =
          (*page)->communicators[0].functions[static_cast<size_t>(Function::kAllReduce)];
      if (progress.done.load() != most_) {
        for (auto* count : {&progress.enqueued, &progress.started, &progress.done, &progress.operations})
          count->store(most_);
        progress.bytes.store(most_ * kEngineBytes);
        progress.changed_boot_ns.store(ToCount(now.boot_ns));
      }
      page->Show();
    }
  }

 private:
  const DemoNode& node_;
  const size_t workload_;
  JobPages& pages_;
  const Workload& work_;
  SimulatedPages made_;
  uint64_t most_ = 0;
};

// A training: in each step every rank loads data and computes, all of them reduce their gradients, and each
// updates its parameters. A rank that is late computes longer; one that hangs does not come for a while.
class Training final : public DemoJobs::Part {
 public:
  Training(const DemoNode& node, size_t workload, JobPages& pages, collectives::BatchQueue* batches)
      : node_(node),
        workload_(workload),
        pages_(pages),
        batches_(batches),
        work_(node.scenario().workloads[workload]),
        inside_(work_.inside),
        here_(static_cast<int>(work_.gpus.size())),
        seed_(StableHash(work_.name)) {}

  void Advance(Instant now) override {
    const int level = node_.TimeOf(workload_, now.boot_ns).level;
    if (level < 0) return Stop();
    if (made_.empty() && !Start(now)) return;
    if (now.boot_ns - step_.over_ns > kPauseNs) Begin(now.boot_ns, level);
    while (Next(now.boot_ns, level)) {
    }
    Arrive(now.boot_ns);
    if (batches_ && now.boot_ns - sent_ns_ >= kCountEveryNs) Send(now);
  }

 private:
  struct Step {
    int64_t begin_ns = 0, computes_ns = 0, over_ns = 0;
    bool pauses = false;                                   // it is a checkpoint
    std::array<std::vector<int64_t>, kAllReduces> arrive;  // of each rank
    std::array<int64_t, kAllReduces> end_ns{};
  };

  bool IsHere(int rank) const noexcept { return rank >= inside_.first && rank < inside_.first + here_; }
  SimulatedPage& PageOf(int rank) { return *made_[static_cast<size_t>(rank - inside_.first)]; }

  bool Start(Instant now) {
    ++run_;
    // As NCCL draws another one for each communicator.
    hash_ = MixWords(seed_, ToCount(now.boot_ns)) | 1;
    sequence_ = 0;
    made_ = MakePages(pages_, work_, Writer::kProgram, ToCount(now.boot_ns), job_page::Level::kTime);
    if (made_.empty()) return Stop(), false;
    for (int rank = inside_.first; rank < inside_.first + here_; ++rank) {
      SimulatedPage& page = PageOf(rank);
      const std::string device = BusAddress(work_.gpus[static_cast<size_t>(rank - inside_.first)]);
      const auto place = job_page::OpenCommunicator(*page, {.hash = hash_,
                                                            .rank = rank,
                                                            .ranks = inside_.ranks,
                                                            .nodes = (inside_.ranks + here_ - 1) / here_,
                                                            .device = 0,
                                                            .name = work_.name.c_str(),
                                                            .device_id = device.c_str(),
                                                            .boot_ns = ToCount(now.boot_ns)});
      slot_ = place.slot;
      generation_ = place.generation;
      page.Show();
    }
    others_.clear();
    for (int rank = 0; rank < inside_.ranks; ++rank) {
      if (!IsHere(rank)) others_.push_back({rank, collectives::Sampler(hash_), {}});
    }
    Begin(now.boot_ns, node_.TimeOf(workload_, now.boot_ns).level);
    return true;
  }

  void Stop() {
    made_.clear();
    others_.clear();
  }

  // Lays out the step that begins then.
  void Begin(int64_t at_ns, int level) {
    ++number_;
    step_.begin_ns = at_ns;
    step_.pauses = level <= 0;
    event_ = 0;
    for (const auto& page : made_) page->Mark(step_.pauses ? Phase::kCheckpoint : Phase::kDataLoading, at_ns);
    if (step_.pauses) {
      step_.over_ns = at_ns;
      return;
    }
    for (const auto& page : made_) (*page)->data_loading.open_since_boot_ns.store(ToCount(at_ns));
    const double stretch = 100.0 / std::clamp(level, 20, 100);
    step_.computes_ns = at_ns + ShareOf(0.7 + 0.6 * Random(seed_, number_, 999), kLoadsNs);
    const int64_t computes = ShareOf(stretch, kComputesNs);
    int64_t after = step_.computes_ns + computes;
    for (size_t k = 0; k < kAllReduces; ++k) {
      step_.arrive[k].resize(static_cast<size_t>(inside_.ranks));
      int64_t last = 0;
      for (int rank = 0; rank < inside_.ranks; ++rank) {
        int64_t arrives = after + kGapNs +
                          ShareOf(Random(seed_, number_ * kAllReduces + k, static_cast<uint64_t>(rank)), kMs);
        if (rank == inside_.late.rank && inside_.late.At(at_ns))
          arrives += ShareOf(inside_.late.by / static_cast<double>(kAllReduces), computes);
        if (rank == inside_.hang.rank && inside_.hang.At(arrives))
          arrives = std::max(arrives, inside_.hang.EndOf(arrives));
        step_.arrive[k][static_cast<size_t>(rank)] = arrives;
        last = std::max(last, arrives);
      }
      after = step_.end_ns[k] = last + ShareOf(0.95 + 0.1 * Random(seed_, number_, k), kAllReduceNs);
    }
    step_.over_ns = after + kOptimizesNs;
  }

  // Writes what comes next, if it has come. Events of a step: 0: it computes; then the end of each
  // all-reduce; the last: it is over.
  bool Next(int64_t now_ns, int level) {
    if (step_.pauses) {
      if (level <= 0) return false;
      Begin(now_ns, level);
      return true;
    }
    if (event_ == 0) {
      if (step_.computes_ns > now_ns) return false;
      for (const auto& page : made_) {
        page->Mark(Phase::kGpuCompute, step_.computes_ns);
        (*page)->data_loading.open_since_boot_ns.store(0);
        (*page)->data_loading.wait.Add(ToCount(step_.computes_ns - step_.begin_ns));
        (*page)->data_loading.batches.fetch_add(1);
      }
    } else if (event_ <= kAllReduces) {
      if (step_.end_ns[event_ - 1] > now_ns) return false;
      EndAllReduce(event_ - 1);
    } else {
      if (step_.over_ns > now_ns) return false;
      Begin(step_.over_ns, level);
      return true;
    }
    ++event_;
    return true;
  }

  void EndAllReduce(size_t k) {
    const int64_t end = step_.end_ns[k];
    Arrive(end);
    for (int rank = inside_.first; rank < inside_.first + here_; ++rank) {
      SimulatedPage& page = PageOf(rank);
      const int64_t arrived = step_.arrive[k][static_cast<size_t>(rank)];
      job_page::RecordValues record;
      record.place = {slot_, generation_};
      record.function = Function::kAllReduce;
      record.datatype = job_page::Datatype::kBfloat16;
      record.algorithm = job_page::Algorithm::kRing;
      record.protocol = job_page::Protocol::kSimple;
      record.timing = job_page::Timing::kDevice;
      record.sequence = sequence_;
      record.bytes = kAllReduceBytes;
      record.enqueued_boot_ns = record.start_ns = ToCount(arrived);
      record.end_ns = record.ended_boot_ns = ToCount(end);
      job_page::WriteRecord(*page, record);
      job_page::FunctionProgress& progress = ProgressOf(page);
      progress.done.store(sequence_ + 1);
      progress.changed_boot_ns.store(ToCount(end));
      page->header.last_event_boot_ns.store(ToCount(end));
      if (k + 1 == kAllReduces) page.Mark(Phase::kOptimizerStep, end);
    }
    for (Other& other : others_) {
      const int64_t arrived = step_.arrive[k][static_cast<size_t>(other.rank)];
      other.sampler.Add({.function = Function::kAllReduce,
                         .algorithm = job_page::Algorithm::kRing,
                         .protocol = job_page::Protocol::kSimple,
                         .sequence = sequence_,
                         .bytes = kAllReduceBytes,
                         .duration_ns = ToCount(end - arrived),
                         .ended_ns = end},
                        other.samples);
    }
    changed_ns_ = end;
    ++sequence_;
  }

  job_page::FunctionProgress& ProgressOf(SimulatedPage& page) const {
    return page->communicators[slot_].functions[static_cast<size_t>(Function::kAllReduce)];
  }
  // Of the all-reduce that is not done: whether the rank is in it.
  bool IsIn(int rank, int64_t now_ns) const {
    return !step_.pauses && event_ >= 1 && event_ <= kAllReduces &&
           step_.arrive[event_ - 1][static_cast<size_t>(rank)] <= now_ns;
  }

  // Ranks of this node come to the all-reduce.
  void Arrive(int64_t now_ns) {
    for (int rank = inside_.first; rank < inside_.first + here_; ++rank) {
      job_page::FunctionProgress& progress = ProgressOf(PageOf(rank));
      if (!IsIn(rank, now_ns) || progress.enqueued.load() > sequence_) continue;
      const int64_t at = step_.arrive[event_ - 1][static_cast<size_t>(rank)];
      PageOf(rank).Mark(Phase::kNcclCollective, at);
      for (auto* count : {&progress.enqueued, &progress.started, &progress.operations})
        count->store(sequence_ + 1);
      progress.bytes.store((sequence_ + 1) * kAllReduceBytes);
      progress.changed_boot_ns.store(ToCount(at));
    }
  }

  void Send(Instant now) {
    sent_ns_ = now.boot_ns;
    collectives::Batch batch;
    batch.sender = seed_ + run_;
    batch.number = ++batch_;
    batch.made_boot_ns = now.boot_ns;
    for (Other& other : others_) {
      const bool in = IsIn(other.rank, now.boot_ns);
      collectives::Process& process = batch.processes.emplace_back();
      process.host = "demo-node-" + std::to_string(other.rank / here_ + 1);
      process.gpu = BusAddress(static_cast<unsigned>(other.rank % here_));
      process.pid = 31'000 + other.rank;
      process.state = collectives::ProcessState::kRuns;
      process.phase = step_.pauses  ? Phase::kCheckpoint
                      : event_ == 0 ? Phase::kDataLoading
                      : in          ? Phase::kNcclCollective
                                    : Phase::kGpuCompute;
      collectives::Member& member = batch.members.emplace_back();
      member.process = static_cast<uint32_t>(batch.processes.size() - 1);
      member.hash = hash_;
      member.ranks = inside_.ranks;
      member.rank = other.rank;
      member.name = work_.name;
      member.samples = std::exchange(other.samples, {});
      const int64_t changed = in ? step_.arrive[event_ - 1][static_cast<size_t>(other.rank)] : changed_ns_;
      member.progress.push_back({.function = Function::kAllReduce,
                                 .enqueued = sequence_ + (in ? 1 : 0),
                                 .started = sequence_ + (in ? 1 : 0),
                                 .done = sequence_,
                                 .bytes = kAllReduceBytes,
                                 .idle_ns = std::max<int64_t>(now.boot_ns - changed, 0)});
    }
    if (!others_.empty()) static_cast<void>(batches_->Put(std::move(batch), others_.size() * 640));
  }

  struct Other {
    int rank;
    collectives::Sampler sampler;
    std::vector<collectives::Sample> samples;
  };

  const DemoNode& node_;
  const size_t workload_;
  JobPages& pages_;
  collectives::BatchQueue* const batches_;
  const Workload& work_;
  const InsideWork& inside_;
  const int here_;
  const uint64_t seed_;
  SimulatedPages made_;  // of the ranks of this node
  std::vector<Other> others_;
  int32_t slot_ = 0;  // of the communicator, in each page
  uint32_t generation_ = 0;
  uint64_t hash_ = 0, run_ = 0, number_ = 0, batch_ = 0;
  uint64_t sequence_ = 0;  // of the all-reduce that is not done
  Step step_;
  size_t event_ = 0;
  int64_t changed_ns_ = 0, sent_ns_ = 0;
};

}  // namespace

DemoJobs::DemoJobs(const DemoNode& node, JobPages& pages, collectives::BatchQueue* batches) {
  const std::vector<Workload>& workloads = node.scenario().workloads;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const InsideWork& inside = workloads[i].inside;
    if (inside.launches > 0) parts_.push_back(std::make_unique<LaunchPages>(node, i, pages));
    if (inside.collectives > 0) parts_.push_back(std::make_unique<EngineRanks>(node, i, pages));
    if (inside.ranks > 0) parts_.push_back(std::make_unique<Training>(node, i, pages, batches));
  }
}

DemoJobs::~DemoJobs() = default;

void DemoJobs::Advance(Instant now) {
  for (const auto& part : parts_) part->Advance(now);
}

}  // namespace gpulens::demo
