// The collector of a Slurm cluster. The programs run on a thread of their own, with a timeout, so that a
// controller that hangs blocks nothing else.

#include <optional>
#include <string>

#include "base/process.h"
#include "base/workers.h"
#include "catalog/slurm.h"
#include "plugins/collectors/slurm/cluster.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// Of a run's time: what was read is turned into values.
constexpr Duration kReserve = std::chrono::milliseconds(300);
constexpr size_t kMostOutput = size_t{256} << 20;

class SlurmCollector final : public Collector {
 public:
  SlurmCollector(const Config& config, const Clock& clock)
      : series_(config.Text("cluster_name")),
        background_([this](Instant deadline) { reading_ = reader_->Read(deadline); }) {
    slurm::Programs::Options programs{config.Text("programs"), config.Time("call_timeout"), kMostOutput,
                                      background_.stop_fd()};
    reader_.emplace(std::move(programs), config.Time("window"), clock);
    static_cast<void>(background_.Start());
  }

  bool fetches() const noexcept override { return true; }
  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    background_.Request(deadline + -kReserve, [done = std::move(done)] { done(Ok()); });
  }
  Status Collect(FrameWriter& out) override {
    const Instant begun = out.read_at();
    series_.Write(reading_, out);
    out.ReadAt(begun);
    return reading_.status;
  }

 private:
  ClusterReading reading_;
  std::optional<ClusterReader> reader_;
  ClusterSeries series_;
  Background background_;  // the last: its thread ends before what it uses
};

std::string SinfoOf(const Config& config) {
  const std::string& folder = config.Text("programs");
  return folder.empty() ? "sinfo" : folder + "/sinfo";
}

constexpr std::string_view kOneIsEnough = "cluster metrics are disabled, as one agent per cluster is enough";
constexpr std::string_view kRemedy = "collectors: {slurm: {watch_cluster: true}}";

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // In an agent each of a thousand nodes would query the same controller.
  if (env.stats && !config.Bool("watch_cluster"))
    return Status{Code::kUnavailable, std::string(kOneIsEnough) + ": " + std::string(kRemedy)};
  if (auto program = FindProgram(SinfoOf(config)); !program) return program.error();
  return std::unique_ptr<Collector>(std::make_unique<SlurmCollector>(config, *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "slurm";
  auto program = FindProgram(SinfoOf(config));
  if (!program) {
    finding.kind =
        program.error().code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kNotHere;
    finding.why = program.error().detail;
    return {finding};
  }
  finding.what = *program;
  if (!config.Bool("watch_cluster")) {
    finding.kind = Finding::kNotHere;
    finding.why = kOneIsEnough;
    finding.remedy = kRemedy;
  }
  return {finding};
}

constexpr OptionSpec kOptions[] = {
    {.key = "watch_cluster",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Query the controller for the whole cluster; one agent per cluster is enough."},
    {.key = "cluster_name",
     .fallback = "",
     .help = "slurm.cluster.name of every series; empty: no such attribute."},
    {.key = "programs", .fallback = "", .help = "The folder of Slurm's programs; empty: those in PATH."},
    {.key = "call_timeout",
     .type = OptionType::kTime,
     .fallback = "30s",
     .help = "Timeout of one run of a program, which is then killed.",
     .min = 0.05},
    {.key = "window",
     .type = OptionType::kTime,
     .fallback = "5m",
     .help = "slurm.ended.* cover jobs that ended within this time.",
     .min = 1,
     .max = 86400},
};

}  // namespace

extern const CollectorSpec slurm_collector;
const CollectorSpec slurm_collector{.name = "slurm",
                                    .help = "A Slurm cluster, through its programs.",
                                    .period = seconds(300),
                                    .ttl = seconds(900),
                                    .options = kOptions,
                                    .metrics = kSlurmRows,
                                    .create = &Create,
                                    .probe = &Probe};

}  // namespace gpulens
