// A simulated training job of any number of ranks, with faults: what each host would report of it, and
// whether the diagnosis names the culprit. Time is simulated; equal seeds give equal worlds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/diagnosis.h"
#include "collectives/sampler.h"

namespace gpulens::collectives {

// Fast, and good enough for jitter.
class WorldRandom {
 public:
  explicit WorldRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

struct WorldFault {
  enum class Kind : uint8_t {
    kNone,
    kSlowRank,
    kSlowHost,
    kSlowLink,        // from `rank` to the next one
    kNotArrived,      // `rank` never calls the next collective
    kGpuQueue,        // `rank` calls it, and its GPU does not start it
    kLinkStops,       // from `rank` to the next one
    kCrash,           // the process of `rank` ends
    kHostDown,        // the host of `rank` is silent
    kOtherCollective  // `rank` calls another one
  } kind = Kind::kNone;
  int rank = 0;
  double share = 0;        // of the step, or of the duration of the communication
  double probability = 1;  // of each step
  double at_s = 0;         // when it begins
};

struct WorldOptions {
  int hosts = 8, gpus = 8;
  double step_s = 0.25;
  int collectives = 1;  // a step
  bool groups = false;  // the GPUs of a host have a communicator of their own before that of all
  double jitter_s = 0.0015, jitter_sigma = 0.8;   // log-normal
  double static_share = 0.002;                    // of the step: deviation of what a rank always needs
  double outlier_rate = 0.0005, outlier_s = 0.2;  // of a step; at most 0.8 of it
  int jittery_hosts = 0;                          // with twice the jitter
  double communication_s = 0.008, communication_sigma = 0.01;
  double record_loss = 0, batch_loss = 0, duplicates = 0;
  bool clocks_differ = true;
  double rate = 10;       // of samples
  double report_s = 0.5;  // how often a host reports
  uint64_t seed = 1, hash = 0x1234;
  std::string job = "job-1", prefix = "node-";
  std::vector<WorldFault> faults;
};

class World {
 public:
  explicit World(WorldOptions options) : options_(std::move(options)), random_(options_.seed) {
    for (double& value : jitter_)
      value = options_.jitter_s * std::exp(options_.jitter_sigma * random_.Normal());
    const int ranks = options_.hosts * options_.gpus;
    ranks_.reserve(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      ranks_.push_back(
          {Sampler(options_.hash, options_.rate), Sampler(GroupHash(r / options_.gpus), options_.rate)});
      ranks_.back().own_s = options_.step_s * options_.static_share * random_.Normal() / options_.collectives;
      ranks_.back().gpu_clock = 1 + (options_.clocks_differ ? 50e-6 * random_.Normal() : 0);
    }
    hosts_.resize(static_cast<size_t>(options_.hosts));
    group_end_s_.resize(hosts_.size());
    for (Host& host : hosts_) {
      host.phase_s = options_.report_s * random_.Uniform();
      host.offset_ns = options_.clocks_differ ? static_cast<int64_t>(600e9 * random_.Uniform()) : 0;
      host.sender = random_.Next();
    }
    for (int h = 0; h < options_.jittery_hosts; ++h) hosts_[static_cast<size_t>(h)].jitter = 2;
    Begin(0);
  }

  static constexpr int64_t kStartNs = 1'000'000'000'000;
  double now_s() const { return now_s_; }
  Instant now() const { return {kStartNs + static_cast<int64_t>(now_s_ * 1e9), 0}; }
  uint64_t records() const { return records_; }
  const WorldOptions& options() const { return options_; }
  std::string HostName(int host) const { return options_.prefix + std::to_string(host); }

  // Simulates a quarter of a second, and passes what hosts report in it.
  void Step(const std::function<void(const Batch&, Instant)>& report) {
    constexpr double kTick = 0.25;
    const double until = now_s_ + kTick;
    while (!hung_ && end_s_ <= until) {
      Finish();
      Begin(end_s_);
    }
    for (int h = 0; h < options_.hosts; ++h) {
      Host& host = hosts_[static_cast<size_t>(h)];
      const double at =
          std::ceil((now_s_ - host.phase_s) / options_.report_s) * options_.report_s + host.phase_s;
      if (at >= until || IsDown(h, at)) continue;
      const Batch batch = Report(h, at);
      if (random_.Uniform() < options_.batch_loss) continue;
      const Instant when{kStartNs + static_cast<int64_t>(until * 1e9), 0};
      report(batch, when);
      if (random_.Uniform() < options_.duplicates) report(batch, when);
    }
    now_s_ = until;
  }

  // Runs until `until_s`, and advances the diagnosis.
  void Run(Diagnosis& diagnosis, double until_s,
           const std::function<void(const FaultChange&)>& changed = {}) {
    while (now_s_ < until_s) {
      Step([&](const Batch& batch, Instant now) { diagnosis.Add(batch, now); });
      diagnosis.Advance(now());
      for (const FaultChange& change : diagnosis.TakeChanges()) {
        if (changed) changed(change);
      }
    }
  }

 private:
  struct Rank {
    Sampler all, group;
    double own_s = 0, gpu_clock = 1;
    double arrival_s = 0, group_arrival_s = 0;
    std::vector<Sample> all_samples = {}, group_samples = {};
  };
  struct Host {
    double phase_s = 0, jitter = 1;
    int64_t offset_ns = 0;
    uint64_t sender = 0, batches = 0;
  };

  uint64_t GroupHash(int host) const { return options_.hash + 0x1000 + static_cast<uint64_t>(host); }

  bool IsDown(int host, double at) const {
    return std::ranges::any_of(options_.faults, [&](const WorldFault& fault) {
      return fault.kind == WorldFault::Kind::kHostDown && fault.at_s <= at &&
             fault.rank / options_.gpus == host;
    });
  }
  static bool Hangs(WorldFault::Kind kind) { return kind >= WorldFault::Kind::kNotArrived; }

  double Extra(int rank, double at) {
    double extra = 0;
    for (const WorldFault& fault : options_.faults) {
      if (at < fault.at_s) continue;
      const bool mine = fault.kind == WorldFault::Kind::kSlowRank
                            ? fault.rank == rank
                            : fault.kind == WorldFault::Kind::kSlowHost &&
                                  fault.rank / options_.gpus == rank / options_.gpus;
      if (mine && (fault.probability >= 1 || random_.Uniform() < fault.probability))
        extra += fault.share * options_.step_s / options_.collectives;
    }
    return extra;
  }

  void Begin(double start) {
    double latest = 0;
    const double compute = options_.step_s / options_.collectives - options_.communication_s;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const size_t host = r / static_cast<size_t>(options_.gpus);
      const uint64_t draw = random_.Next();
      double arrival =
          start + compute + ranks_[r].own_s + hosts_[host].jitter * jitter_[draw % jitter_.size()];
      if (static_cast<double>(draw >> 32) < options_.outlier_rate / options_.collectives * 0x1p32)
        arrival += std::min(options_.outlier_s, 0.8 * options_.step_s) * random_.Uniform();
      if (!options_.faults.empty()) arrival += Extra(static_cast<int>(r), start);
      ranks_[r].arrival_s = arrival;
      latest = std::max(latest, arrival);
    }
    if (options_.groups) {
      latest = 0;
      for (size_t first = 0; first < ranks_.size(); first += static_cast<size_t>(options_.gpus)) {
        double group = 0;
        for (size_t r = first; r < first + static_cast<size_t>(options_.gpus); ++r) {
          ranks_[r].group_arrival_s = ranks_[r].arrival_s;
          group = std::max(group, ranks_[r].arrival_s);
        }
        group += 0.0003 * std::exp(options_.communication_sigma * random_.Normal());
        group_end_s_[first / static_cast<size_t>(options_.gpus)] = group;
        for (size_t r = first; r < first + static_cast<size_t>(options_.gpus); ++r) {
          ranks_[r].arrival_s = group + 0.0002 * random_.Uniform();
          latest = std::max(latest, ranks_[r].arrival_s);
        }
      }
    }
    double communication =
        options_.communication_s * std::exp(options_.communication_sigma * random_.Normal());
    for (const WorldFault& fault : options_.faults) {
      if (start < fault.at_s) continue;
      if (fault.kind == WorldFault::Kind::kSlowLink) {
        communication *= 1 + fault.share;
        slow_link_ = fault.rank;
      }
      if (Hangs(fault.kind)) hung_ = true, hang_ = fault;
    }
    end_s_ = latest + communication;
  }

  void Finish() {
    const int64_t ended = kStartNs + static_cast<int64_t>(end_s_ * 1e9);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      if (options_.groups) {
        const double group_end = group_end_s_[r / static_cast<size_t>(options_.gpus)];
        Record(rank.group, rank.group_samples, rank, Function::kAllGather, group_end - rank.group_arrival_s,
               ended, 1 << 20);
      }
      Record(rank.all, rank.all_samples, rank, Function::kAllReduce, end_s_ - rank.arrival_s, ended,
             64 << 20);
    }
    ++done_;
    done_at_s_ = end_s_;
  }

  void Record(Sampler& sampler, std::vector<Sample>& out, const Rank& rank, Function function,
              double duration, int64_t ended, uint64_t bytes) {
    ++records_;
    if (options_.record_loss > 0 && random_.Uniform() < options_.record_loss) return;
    Measured measured;
    measured.function = function;
    measured.algorithm = Algorithm::kRing;
    measured.protocol = Protocol::kSimple;
    measured.sequence = done_;
    measured.bytes = bytes;
    measured.duration_ns = static_cast<uint64_t>(std::max(duration, 1e-6) * 1e9 * rank.gpu_clock);
    measured.ended_ns = ended;
    sampler.Add(measured, out);
  }

  Progress ProgressAt(int rank, double at) const {
    Progress progress;
    progress.function = Function::kAllReduce;
    progress.bytes = 64 << 20;
    progress.enqueued = progress.started = progress.done = done_;
    double moved = done_at_s_;
    const double arrival = ranks_[static_cast<size_t>(rank)].arrival_s;
    if (arrival <= at) {
      ++progress.enqueued;
      ++progress.started;
      moved = arrival;
    }
    if (hung_) {
      const bool mine = hang_.rank == rank;
      if (hang_.kind == WorldFault::Kind::kLinkStops) {
        progress.wait = mine ? ProxyWait::kSend : ProxyWait::kReceive;
        const int all = static_cast<int>(ranks_.size());
        progress.peer = (rank + (mine ? 1 : all - 1)) % all;
      } else if (mine && hang_.kind == WorldFault::Kind::kGpuQueue) {
        progress.started = progress.done;
      } else if (mine) {
        progress.enqueued = progress.started = progress.done = done_;
        moved = done_at_s_;
      }
    }
    progress.idle_ns = static_cast<int64_t>(std::max(at - moved, 0.0) * 1e9);
    return progress;
  }

  static void MoveUntil(std::vector<Sample>& from, int64_t until_ns, int64_t offset_ns,
                        std::vector<Sample>& to) {
    size_t count = 0;
    while (count < from.size() && from[count].ended_ns <= until_ns) {
      to.push_back(from[count++]);
      to.back().ended_ns += offset_ns;
    }
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
  }

  Batch Report(int h, double at) {
    Host& host = hosts_[static_cast<size_t>(h)];
    Batch batch;
    batch.sender = host.sender;
    batch.number = ++host.batches;
    const int64_t until = kStartNs + static_cast<int64_t>(at * 1e9);
    batch.made_boot_ns = until + host.offset_ns;
    for (int g = 0; g < options_.gpus; ++g) {
      const int r = h * options_.gpus + g;
      Rank& rank = ranks_[static_cast<size_t>(r)];
      Process process;
      process.host = HostName(h);
      process.gpu = "GPU-" + std::to_string(h) + "-" + std::to_string(g);
      process.job = options_.job;
      process.pod = "worker-" + std::to_string(h);
      process.pid = 1000 + g;
      process.state = ProcessState::kRuns;
      if (hung_ && hang_.kind == WorldFault::Kind::kCrash && hang_.rank == r)
        process.state = ProcessState::kGone;
      batch.processes.push_back(process);
      Member member;
      member.process = static_cast<uint32_t>(g);
      member.hash = options_.hash;
      member.ranks = static_cast<int32_t>(ranks_.size());
      member.rank = r;
      member.name = "all";
      member.progress.push_back(ProgressAt(r, at));
      if (hung_ && hang_.kind == WorldFault::Kind::kOtherCollective && hang_.rank == r) {
        Progress other = member.progress.front();
        other.function = Function::kBroadcast;
        other.enqueued = other.started = 1;
        other.done = 0;
        member.progress.push_back(other);
      }
      if (slow_link_ >= 0 && measure_links_) {
        const int all = static_cast<int>(ranks_.size());
        member.links.push_back(
            {(r + 1) % all, r == slow_link_ ? uint64_t{900'000} : 100'000 + random_.Next() % 20'000});
      }
      MoveUntil(rank.all_samples, until, host.offset_ns, member.samples);
      batch.members.push_back(std::move(member));
      if (!options_.groups) continue;
      Member group;
      group.process = static_cast<uint32_t>(g);
      group.hash = GroupHash(h);
      group.ranks = options_.gpus;
      group.rank = g;
      group.name = "group";
      MoveUntil(rank.group_samples, until, host.offset_ns, group.samples);
      batch.members.push_back(std::move(group));
    }
    return batch;
  }

 public:
  void MeasureLinks() { measure_links_ = true; }

 private:
  const WorldOptions options_;
  WorldRandom random_;
  std::array<double, 65'536> jitter_;
  std::vector<Rank> ranks_;
  std::vector<Host> hosts_;
  std::vector<double> group_end_s_;
  double now_s_ = 0, end_s_ = 0, done_at_s_ = 0;
  uint64_t done_ = 0, records_ = 0;
  int slow_link_ = -1;
  bool hung_ = false, measure_links_ = false;
  WorldFault hang_;
};

}  // namespace gpulens::collectives
