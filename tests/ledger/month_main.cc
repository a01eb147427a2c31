// Writes the ledger of one simulated month of a node with eight GPUs: what docs/ledger.md shows, and what the
// tests of reports read. Usage: ledger_month FILE [DAYS]. Prints, as JSON, what the world knows by itself:
// the growth of each energy counter, the time that passed, and the prices in force.
//
// November 2026, in UTC. GPUs 0 to 3: an engine with tensor parallelism, whose load follows the day. GPU 4:
// another engine. GPU 5: a notebook that holds a GPU and mostly waits. GPUs 6 and 7: a training job until the
// 20th, then nothing. The agent is down for two hours on the 12th and the machine is rebooted on the 15th;
// GPU 6 fails on the 22nd for six hours. The price falls on the 16th.

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/parse.h"
#include "ledger/ledger.h"
#include "store/ledger/ledger_file.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMonthUnix = 1'793'491'200;  // 2026-11-01T00:00:00Z
constexpr int64_t kDay = 86'400;
constexpr int kGpus = 8;
constexpr int64_t kStep = 10;  // seconds between readings
constexpr double kIdleWatts = 75, kBusyWatts = 620;

// How busy a service is that people use in the day: 0.15 to 0.95.
double DayLoad(int64_t second) {
  const double hour = static_cast<double>(second % kDay) / 3600;
  return 0.55 - 0.4 * std::cos((hour - 4) / 24 * 6.283185307179586);
}

class Month {
 public:
  Month(std::string path, int64_t days) : path_(std::move(path)), seconds_(days * kDay) {}

  int Run() {
    Result<std::unique_ptr<LedgerFile>> file = LedgerFile::Open({.path = path_});
    if (!file) return Fail(file.error());
    file_ = std::move(*file);
    Start("boot-1");
    for (int64_t second = 0; second <= seconds_; second += kStep) {
      Advance(second);
      // The agent is down, for two hours; then the machine is rebooted, which takes four minutes.
      if (second == 12 * kDay + 10 * 3600) Stop(second);
      if (second == 12 * kDay + 12 * 3600) Start("boot-1");
      if (second == 15 * kDay) Stop(second);
      if (second == 15 * kDay + 240) {
        counters_.fill(0);
        boot_second_ = second;
        Start("boot-2");
      }
      if (!ledger_) continue;
      Read(second);
      if (Status status = Write(ledger_->Close(At(second)), second); !status.ok()) return Fail(status);
    }
    Stop(seconds_);
    Print();
    return status_;
  }

 private:
  int Fail(const Status& status) {
    std::fprintf(stderr, "ledger_month: %s\n", status.detail.c_str());
    return 1;
  }

  Instant At(int64_t second) const {
    return {(second - boot_second_ + 100) * kSecond, (kMonthUnix + second) * kSecond};
  }

  static Rates RatesOf(int64_t unix_ns) {
    const bool cheaper = unix_ns >= (kMonthUnix + 15 * kDay) * kSecond;
    return {.pico_per_gpu_hour = cheaper ? 2'190'000'000'000 : 2'490'000'000'000,
            .pico_per_kwh = 120'000'000'000,
            .pue_milli = 1300,
            .mg_per_kwh = 381'000};
  }

  void Start(std::string boot_id) {
    Ledger::Options options;
    options.boot_to_unix_ns = At(0).unix_ns - At(0).boot_ns;
    options.engine_wait = std::chrono::seconds(20);
    options.boot_id = boot_id;
    options.idle_watts = kIdleWatts;
    ledger_ =
        std::make_unique<Ledger>(options, [](std::string_view, int64_t unix_ns) { return RatesOf(unix_ns); });
    Result<std::optional<LedgerState>> state = file_->ReadState();
    if (!state) status_ = Fail(state.error());
    else if (*state) ledger_->Restore(**state, At(now_), boot_id);
    boot_id_ = std::move(boot_id);
  }

  void Stop(int64_t second) {
    if (!ledger_) return;
    if (Status status = Write(ledger_->Finish(At(second)), second); !status.ok()) status_ = Fail(status);
    ledger_.reset();
  }

  Status Write(const Ledger::Closed& closed, int64_t second) {
    residual_ |= closed.residual_uj | closed.residual_ms | closed.residual_pico;
    if (closed.entries.empty()) return Ok();
    return file_->Write(closed.entries, ledger_->state(), At(second));
  }

  // Share of the time that a GPU works.
  double Load(int gpu, int64_t second) const {
    if (gpu < 4) return DayLoad(second);
    if (gpu == 4) return 0.6 * DayLoad(second + 3 * 3600);
    if (gpu == 5) return second % 7200 < 300 ? 0.4 : 0;
    if (second >= 20 * kDay) return 0;
    return second % 3600 < 120 ? 0 : 0.97;  // a checkpoint each hour
  }
  bool Failed(int gpu, int64_t second) const {
    return gpu == 6 && second >= 22 * kDay && second < 22 * kDay + 6 * 3600;
  }

  void Advance(int64_t second) {
    now_ = second;
    if (second == 0) return;
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      const double watts = kIdleWatts + (kBusyWatts - kIdleWatts) * Load(gpu, second);
      counters_[static_cast<size_t>(gpu)] += std::llround(watts * kStep * 1e3) * 1000;  // whole millijoules
    }
    const double chat = DayLoad(second) * kStep;
    chat_.prompt += 9000 * chat;
    chat_.cached += 3000 * chat;
    chat_.generated += 2400 * chat;
    const double code = 0.6 * DayLoad(second + 3 * 3600) * kStep;
    code_.prompt += 5000 * code;
    code_.generated += 900 * code;
  }

  void Read(int64_t second) {
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      GpuReading reading;
      reading.gpu = "GPU-0000000" + std::to_string(gpu);
      reading.model = "NVIDIA H100 80GB HBM3";
      const int64_t counter = counters_[static_cast<size_t>(gpu)];
      Note(gpu, counter, second);
      const double load = Load(gpu, second);
      reading.at_ns = At(second).boot_ns;
      reading.energy_uj = counter;
      reading.energy_source = EnergySource::kCounter;
      reading.power_watts = kIdleWatts + (kBusyWatts - kIdleWatts) * load;
      reading.utilization = load;
      reading.users_known = true;
      reading.available = !Failed(gpu, second);
      if (!reading.available) reading.unavailable_cause = Cause::kHardware;
      Owner owner;
      if (gpu < 5) {
        owner.process = gpu < 4 ? "vllm" : "sglang";
        owner.name_space = owner.tenant = gpu < 4 ? "search" : "code";
        owner.pod = gpu < 4 ? "chat-0" : "coder-0";
        owner.engine = gpu < 4 ? "chat" : "coder";
      } else if (gpu == 5) {
        owner.process = "python3";
        owner.name_space = owner.tenant = "research";
        owner.pod = "notebook-ada";
      } else {
        owner.process = "python3";
        owner.job = "4711";
        owner.tenant = "training";
      }
      if (gpu < 6 || second < 20 * kDay) {
        reading.allocated = owner;
        reading.allocated.process = reading.allocated.engine = "";
        reading.users.push_back({.pid = 4000 + gpu,
                                 .start_ticks = 77,
                                 .slice = {},
                                 .owner = owner,
                                 .memory_bytes = int64_t{60} << 30,
                                 .utilization = load});
      }
      ledger_->Observe(std::move(reading));
    }
    ledger_->Observe(PageOf("chat", "llama-3.3-70b", chat_, second));
    ledger_->Observe(PageOf("coder", "qwen3-coder-30b", code_, second));
  }

  struct Tokens {
    double prompt = 0, cached = 0, generated = 0;
  };
  EngineReading PageOf(std::string engine, std::string model, const Tokens& tokens, int64_t second) const {
    EngineReading page{.engine = std::move(engine), .at_ns = At(second).boot_ns, .work = {}};
    EngineWork work;
    work.model = std::move(model);
    work.prompt_tokens = std::floor(tokens.prompt);
    work.cached_tokens = std::floor(tokens.cached);
    work.generated_tokens = std::floor(tokens.generated);
    work.prefill_seconds = (tokens.prompt - tokens.cached) * 40e-6;
    work.decode_seconds = tokens.generated * 650e-6;
    work.running = 12;
    work.waiting = 0;
    page.work.push_back(std::move(work));
    return page;
  }

  // What the counters grew by, also while the agent was down; what a reboot hid is not known.
  void Note(int gpu, int64_t counter, int64_t second) {
    auto& known = known_[static_cast<size_t>(gpu)];
    if (known.first && counter >= known.last) known.grown += counter - known.last;
    known.first = true;
    known.last = counter;
    last_second_ = second;
  }

  void Print() const {
    std::printf("{\"gpus\": [");
    for (size_t gpu = 0; gpu < kGpus; ++gpu) {
      std::printf("%s{\"gpu\": \"GPU-0000000%zu\", \"energy_uj\": %lld}", gpu ? ", " : "", gpu,
                  static_cast<long long>(known_[gpu].grown));
    }
    std::printf("], \"time_ms\": %lld, \"residual\": %lld}\n",
                static_cast<long long>(last_second_ * 1000 * kGpus), static_cast<long long>(residual_));
  }

  const std::string path_;
  const int64_t seconds_;
  std::unique_ptr<LedgerFile> file_;
  std::unique_ptr<Ledger> ledger_;
  std::string boot_id_;
  int64_t now_ = 0, boot_second_ = 0, last_second_ = 0;
  int status_ = 0;
  int64_t residual_ = 0;
  std::array<int64_t, kGpus> counters_{};
  struct Known {
    bool first = false;
    int64_t last = 0, grown = 0;
  };
  std::array<Known, kGpus> known_;
  Tokens chat_, code_;
};

}  // namespace
}  // namespace gpulens::ledger

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: ledger_month FILE [DAYS]\n");
    return 2;
  }
  const auto days = gpulens::ParseInt<int64_t>(argc > 2 ? argv[2] : "30");
  if (!days || *days < 1 || *days > 31) return 2;
  return gpulens::ledger::Month(argv[1], *days).Run();
}
