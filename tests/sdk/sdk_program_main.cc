// A program with instruments, for end-to-end tests: runs the command of each line of its standard input and
// answers with a line.
#include <gpulens/gpulens.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/parse.h"

namespace {

using namespace gpulens;

constexpr int kThreads = 8, kCounts = 1'000'000;

const Counter jobs("jobs", {.unit = "{job}", .description = "Jobs done."});
const Histogram latency("job.duration", {.unit = "s"});
const Gauge depth("queue.depth");

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string Reported(const Status& status) {
  return status.ok() ? "ok" : std::string(CodeName(status.code)) + " " + status.detail;
}

// From 8 threads a million each.
void Count() {
  const Counter many = jobs.Bind({{"kind", "many"}});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&many] {
      for (int i = 0; i < kCounts; ++i) many.Add();
      for (int i = 1; i <= 1'000; ++i) latency.Record(i * 1e-3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  depth.Set(17);
}

// In a child: it counts, sends, and ends as a program does.
std::string Fork(Exporter* exporter) {
  const pid_t child = ::fork();
  if (child == 0) {
    jobs.Bind({{"kind", "child"}}).Add(5);
    const bool sent = exporter == nullptr || exporter->Flush(std::chrono::seconds(20)).ok();
    ::_exit(sent ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return std::to_string(child) + (WIFEXITED(status) && WEXITSTATUS(status) == 0 ? " ok" : " failed");
}

// Records one training step with fixed numbers, and the other metrics of a training job.
std::string Train(std::optional<TrainingMonitor>& kept) {
  auto monitor = TrainingMonitor::Create({.num_params = 70e9,
                                          .tokens_per_step = 4096,
                                          .gpu_count = 8,
                                          .peak_flops_per_gpu = 989e12,
                                          .max_norm = 1.0});
  if (!monitor) return Reported(monitor.status());
  kept = *std::move(monitor);
  kept->RecordDataWait(0.2);
  kept->RecordGradient(4.0, 1);
  kept->RecordGradient(0.5, 0);
  kept->RecordCheckpointSave(0.5, 1 << 30);
  kept->RecordCheckpointRestore(0.3);
  kept->RecordStep(1.0, 2.5);
  return "ok";
}

// As the first of three ranks, the last of which is slow.
std::string Ranks(std::optional<TrainingMonitor>& training) {
  if (!training) return "no training";
  constexpr double kBusy[] = {1.0, 0.9, 1.4};
  training->RecordRanks(kBusy);
  return "ok";
}

// Returns the energy since the last call: validity, joules, half-width, seconds, vendor, devices, reason.
std::string Drawn() {
  static EnergyMonitor monitor;
  static std::optional<EnergyWindow> window;
  std::string out = "begun";
  if (window) {
    const EnergyResult drawn = window->result(std::chrono::seconds(2));
    char text[160];
    std::snprintf(text, sizeof text, "%s %.6f %.6f %.6f %s %u ",
                  std::string(EnergyValidityName(drawn.validity)).c_str(), drawn.energy_joules,
                  drawn.uncertainty_joules, std::chrono::duration<double>(drawn.duration).count(),
                  std::string(EnergyVendorName(drawn.vendor)).c_str(), drawn.devices);
    out = text + drawn.reason;
  }
  window.emplace(monitor.Window());
  return out;
}

}  // namespace

int main() {
  std::optional<TrainingMonitor> training;
  std::vector<Exporter> exporters;
  const auto keep = [&](Result<Exporter> made) {
    if (!made) return Reported(made.status());
    exporters.push_back(*std::move(made));
    return "ok " + exporters.back().address();
  };
  char bytes[512];
  while (std::fgets(bytes, sizeof bytes, stdin)) {
    std::string_view rest = Trim(bytes);
    const std::string_view word = TakeUntil(rest, ' ');
    if (word == "agent") Print(keep(ExportToAgent({.socket = std::string(rest)})));
    else if (word == "otlp") Print(keep(ExportOtlp({.endpoint = std::string(rest)})));
    else if (word == "expose") Print(keep(Expose({.listen = std::string(rest)})));
    else if (word == "train") Print(Train(training));
    else if (word == "ranks") Print(Ranks(training));
    else if (word == "count") Count(), Print("ok");
    else if (word == "flush")
      Print(exporters.empty() ? "none" : Reported(exporters.back().Flush(std::chrono::seconds(20))));
    else if (word == "fork") Print(Fork(exporters.empty() ? nullptr : &exporters.back()));
    else if (word == "drawn") Print(Drawn());
    else if (word == "exit") std::exit(0);
    else Print("what?");
  }
  return 0;
}
