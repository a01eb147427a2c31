#include "agent/run/banner.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "agent/plugin_tables.h"
#include "base/log.h"
#include "base/version.h"

namespace gpulens {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(2);
// Those whose devices the banner lists.
constexpr std::string_view kGpuCollectors[] = {"nvidia", "amd", "gaudi"};

std::string Uptime(Duration d) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " m " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400)
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " m";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds / 3600 % 24) + " h";
}

// Shown as a URL when it serves this machine, so that a terminal makes it a link.
std::string FirstOf(const std::vector<std::string>& addresses) {
  return addresses.empty() ? "" : addresses.front();
}

}  // namespace

Banner::Banner(Env& env, const Config& config, const Pipeline& pipeline, Options options)
    : env_(env), config_(config), pipeline_(pipeline), options_(std::move(options)) {}

// What the probe of a collector says it found: "8 NVIDIA H100". Empty: nothing but that it works.
std::string Banner::Found(const Pipeline::InstanceView& view) const {
  if (!view.spec->probe) return {};
  for (const Finding& finding : view.spec->probe(PartOf(*view.spec, config_), env_)) {
    if (finding.kind == Finding::kFound && finding.subject == view.spec->name) return finding.what;
  }
  return {};
}

Banner::Summary Banner::Summarize() const {
  Summary summary;
  auto add = [](std::string& list, std::string_view name) {
    list.append(list.empty() ? "" : ", ").append(name);
  };
  for (const Pipeline::InstanceView& view : pipeline_.instances()) {
    summary.series += view.stats.series;
    add(view.stats.up ? summary.found : summary.absent, view.name);
  }
  return summary;
}

std::string Banner::Text(std::string_view up) const {
  utsname machine{};
  ::uname(&machine);
  std::string text = "gpulens " + std::string(Version()) + " (" + std::string(Revision()) + ") on " +
                     machine.nodename + ", ready after " + std::string(up) + ".";
  if (env_.demo) text += " SIMULATED GPUs: no GPU is read.";
  if (!options_.config_file.empty()) text += " Configuration: " + options_.config_file;
  text += "\n";
  const Summary summary = Summarize();
  for (const Pipeline::InstanceView& view : pipeline_.instances()) {
    const bool gpus =
        view.stats.up && std::ranges::find(kGpuCollectors, view.name) != std::end(kGpuCollectors);
    if (!gpus) continue;
    if (const std::string what = Found(view); !what.empty()) text += "  " + view.name + ": " + what + "\n";
  }
  text += "  found    " + summary.found + ": " + std::to_string(summary.series) + " series\n";
  if (!summary.absent.empty()) text += "  absent   " + summary.absent + "; see gpulens doctor\n";
  const std::string websocket = FirstOf(config_.Group("websocket").Texts("listen"));
  text += "  serving  http://" + FirstOf(config_.Group("http").Texts("listen")) + "/metrics";
  if (!websocket.empty()) text += "   ws://" + websocket;
  return text + "\n";
}

void Banner::AfterTick() {
  if (printed_.load(std::memory_order_relaxed)) return;
  Duration up = env_.clock->Now() - options_.started;
  auto views = pipeline_.instances();
  bool answered = std::all_of(views.begin(), views.end(), [](const auto& view) { return view.answered; });
  if (!answered && up < kTimeout) return;
  if (printed_.exchange(true)) return;
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(up).count();
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) {
    const Summary summary = Summarize();
    if (!summary.absent.empty())
      Log(LogLevel::kInfo, "agent", "absent",
          "not on this machine, or not readable: " + summary.absent + ". See gpulens doctor.");
    Log(LogLevel::kInfo, "agent", "ready",
        "gpulens " + std::string(Version()) + " serves " + std::to_string(summary.series) +
            " series at http://" + FirstOf(config_.Group("http").Texts("listen")) + "/ after " +
            std::to_string(ms) + " ms.");
    return;
  }
  ::dprintf(STDERR_FILENO, "%s", Text(std::to_string(ms) + " ms").c_str());
}

void Banner::Farewell() const {
  std::string text = "stopped. Up " + Uptime(env_.clock->Now() - options_.started) + ", " +
                     std::to_string(pipeline_.ticks()) + " ticks.";
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) return Log(LogLevel::kInfo, "agent", "stopped", text);
  ::dprintf(STDERR_FILENO, "  %s\n", text.c_str());
}

}  // namespace gpulens
