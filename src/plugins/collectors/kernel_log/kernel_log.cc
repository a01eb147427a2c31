// What the kernel says: XIDs, SXids, RAS, PCIe errors, OOM kills and the like, reported as events.

#include "base/log.h"
#include "base/result.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/collectors/kernel_log/event_maker.h"
#include "plugins/collectors/kernel_log/log_choice.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

// How the desk knows this collector.
constexpr std::string_view kWatcher = "kernel_log";

class KernelLog final : public Collector {
 public:
  KernelLog(ChosenLog log, Env& env)
      : log_(std::move(log)), env_(env), maker_(env.events, log_.source, env.root) {
    visit_ = [this](Instant at, std::string_view text) {
      if (auto notice = notices_.Read(text)) maker_.Take(*notice, text, at);
    };
    Watch(true);
    Log(LogLevel::kDebug, "kernel_log", "reading", "reading " + log_.place);
  }
  ~KernelLog() override { Watch(false); }

  Status Collect(FrameWriter& out) override {
    if (!lost_) lost_ = out.table().Declare(kSelfKernelLogLost, {});
    Status status = log_.reader->Read(env_.clock->Now(), visit_);
    Watch(status.ok());
    if (!status) return status;
    out.Set(lost_, log_.reader->lost());
    maker_.WriteCounters(out);
    return Ok();
  }

 private:
  void Watch(bool works) {
    if (env_.events && works != watches_) env_.events->Watches(kWatcher, works);
    watches_ = works;
  }

  ChosenLog log_;
  Env& env_;
  EventMaker maker_;
  kernel_log::NoticeReader notices_;
  kernel_log::Visit visit_;
  Series lost_;
  bool watches_ = false;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  ASSIGN_OR_RETURN(ChosenLog log, ChooseLog(config, env));
  return std::unique_ptr<Collector>(std::make_unique<KernelLog>(std::move(log), env));
}

std::vector<Finding> Probe(const Config& config, Env& env) { return ProbeLog(config, env); }

constexpr std::string_view kSources[] = {"auto", "kmsg", "journald", "file"};
constexpr std::string_view kSince[] = {"now", "boot"};
constexpr OptionSpec kOptions[] = {
    {.key = "source",
     .fallback = "auto",
     .help = "Source of kernel messages; auto uses the first that can be read.",
     .allowed = kSources},
    {.key = "path", .fallback = {}, .help = "With source: file, the file to follow."},
    {.key = "since",
     .fallback = "now",
     .help = "boot: report messages from before the agent started as events, too.",
     .allowed = kSince},
};

constexpr const MetricDesc* kMetrics[] = {&kSelfKernelLogLost, &kNvswitchSxidErrors};

}  // namespace

extern const CollectorSpec kernel_log_collector;
const CollectorSpec kernel_log_collector{.name = "kernel_log",
                                         .help = "Events from the messages of the kernel: XIDs, OOM kills.",
                                         .period = std::chrono::seconds(1),
                                         .ttl = std::chrono::seconds(10),
                                         .options = kOptions,
                                         .metrics = kMetrics,
                                         .create = &Create,
                                         .probe = &Probe,
                                         .check = &CheckLog};

}  // namespace gpulens
