#include "agent/run/banner.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "agent/plugin_tables.h"
#include "base/log.h"
#include "base/version.h"

namespace gpulens {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string Period(Duration period) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(period).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

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

std::string Banner::Found(const Pipeline::InstanceView& view) const {
  std::string what(view.spec->help);
  if (view.spec->probe) {
    for (const Finding& finding :
         view.spec->probe(config_.Group("collectors").Group(view.spec->name), env_)) {
      bool main = finding.kind == Finding::kFound && finding.subject == view.spec->name;
      if (main && !finding.what.empty()) what = finding.what;
    }
  }
  std::string line = Padded(view.name, 10) + Padded(what, 56);
  return line + std::to_string(view.stats.series) + " series  every " + Period(view.period) + "\n";
}

std::string Banner::Text() const {
  utsname machine{};
  ::uname(&machine);
  std::string text = "gpulens " + std::string(Version()) + " (" + std::string(Revision()) + ") on " +
                     machine.nodename + ", Linux " + std::string(machine.release).substr(0, 12) + ", " +
                     std::to_string(std::thread::hardware_concurrency()) + " CPUs";
  if (!options_.config_file.empty()) text += "          config " + options_.config_file;
  if (env_.demo) text += "          SIMULATED GPUs: no GPU is read";
  text += "\n";
  std::string lead = "  found     ", away;
  for (const Pipeline::InstanceView& view : pipeline_.instances()) {
    if (view.stats.up) {
      text += lead + Found(view);
      lead = "            ";
    } else {
      away += (away.empty() ? "" : "  ·  ") + view.name + ": " +
              (view.answered ? view.stats.last.detail : "has not answered yet");
    }
  }
  if (!away.empty()) text += "  not here  " + away + "     (gpulens doctor)\n";
  std::string http = FirstOf(config_.Group("http").Texts("listen"));
  std::string websocket = FirstOf(config_.Group("websocket").Texts("listen"));
  text += "  look at   http://" + http + "/   /metrics   /json   /health";
  if (!websocket.empty()) text += "        ws://" + websocket;
  text += "\n            gpulens doctor                            in another terminal\n";
  return text;
}

void Banner::AfterTick() {
  if (printed_.load(std::memory_order_relaxed)) return;
  Duration up = env_.clock->Now() - options_.started;
  auto views = pipeline_.instances();
  bool answered = std::all_of(views.begin(), views.end(), [](const auto& view) { return view.answered; });
  if (!answered && up < kPatience) return;
  if (printed_.exchange(true)) return;
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(up).count();
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) {
    uint64_t series = 0;
    for (const auto& view : views) series += view.stats.series;
    Log(LogLevel::kInfo, "agent", "ready",
        "gpulens " + std::string(Version()) + " serves " + std::to_string(series) + " series at http://" +
            FirstOf(config_.Group("http").Texts("listen")) + "/ after " + std::to_string(ms) + " ms.");
    return;
  }
  std::string text = Text() + "ready in " + std::to_string(ms) + " ms\n";
  ::dprintf(STDERR_FILENO, "%s", text.c_str());
}

void Banner::Farewell() const {
  std::string text = "stopped. Up " + Uptime(env_.clock->Now() - options_.started) + ", " +
                     std::to_string(pipeline_.ticks()) + " ticks.";
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) return Log(LogLevel::kInfo, "agent", "stopped", text);
  ::dprintf(STDERR_FILENO, "  %s\n", text.c_str());
}

}  // namespace gpulens
