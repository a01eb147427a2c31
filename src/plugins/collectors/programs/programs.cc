// Collector of the metrics that programs of this machine export to the agent: gpulens' SDK, or any other OTLP
// over HTTP at a Unix socket.

#include <algorithm>

#include "base/log.h"
#include "base/result.h"
#include "catalog/self.h"
#include "plugins/collectors/programs/program_registry.h"
#include "plugins/collectors/programs/program_socket.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

std::string PathOf(const Config& config) {
  const std::string& path = config.Text("socket");
  return path.empty() ? DefaultProgramSocket() : path;
}

class Programs final : public Collector {
 public:
  Programs(std::string path, const Config& config, Env& env)
      : path_(std::move(path)),
        configured_(!config.Text("socket").empty()),
        energy_(config.Bool("energy")),
        env_(env),
        registry_(std::make_shared<ProgramRegistry>(
            ProgramRegistry::Limits{.series_of_user = static_cast<size_t>(config.Int("series_per_user"))})) {}

  Status Collect(FrameWriter& out) override {
    const Status open = Open();
    if (open.ok() && energy_ && !energy_socket_) OpenEnergySocket();
    Count(out);
    registry_->Write(out);
    // At the default path, a socket that cannot be created is not an error.
    return configured_ ? open : Ok();
  }

 private:
  // Tried again at each run.
  Status Open() {
    if (socket_) return Ok();
    auto opened = ProgramSocket::Open(path_, registry_, env_);
    if (opened) {
      socket_ = *std::move(opened);
      Log(LogLevel::kInfo, "programs", "listening", "listening for programs at " + path_);
      return Ok();
    }
    if (error_.ok())
      Log(LogLevel::kWarn, "programs", "no_socket",
          "programs cannot connect: " + opened.error().detail +
              "; set collectors.programs.socket to another path");
    error_ = opened.error();
    return error_;
  }

  void OpenEnergySocket() {
    auto opened =
        EnergySocket::Open({.path = EnergySocketNextTo(path_), .simulated = env_.demo, .control = env_.nvml});
    const bool logged = !energy_error_.ok();
    energy_error_ = opened.status();
    if (opened) energy_socket_ = *std::move(opened);
    else if (!logged)
      Log(LogLevel::kInfo, "programs", "no_energy",
          "energy is not available to programs: " + energy_error_.detail);
  }

  void Count(FrameWriter& out) {
    if (!programs_) {
      programs_ = out.table().Declare(kSelfPrograms, {});
      accepted_ = out.table().Declare(kSelfProgramsPoints, {}, {{"result", "accepted"}});
      rejected_ = out.table().Declare(kSelfProgramsPoints, {}, {{"result", "rejected"}});
    }
    const ProgramRegistry::Counts counts = registry_->counts();
    out.Set(programs_, counts.programs);
    out.Set(accepted_, counts.accepted);
    out.Set(rejected_, counts.rejected);
  }

  const std::string path_;
  const bool configured_, energy_;
  Env& env_;
  const std::shared_ptr<ProgramRegistry> registry_;
  std::unique_ptr<ProgramSocket> socket_;
  std::unique_ptr<EnergySocket> energy_socket_;
  Status error_, energy_error_;
  Series programs_, accepted_, rejected_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (!env.io) return Status{Code::kUnavailable, "there is no network here"};
  std::string path = PathOf(config);
  if (path.empty())
    return Status{Code::kUnavailable, "there is no folder for a socket: set collectors.programs.socket"};
  return std::unique_ptr<Collector>(std::make_unique<Programs>(std::move(path), config, env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  const std::string path = PathOf(config);
  if (path.empty())
    return {{Finding::kNotHere, "programs", "", "there is no folder for a socket",
             "collectors: {programs: {socket: /tmp/gpulens/otlp.sock}}"}};
  return {{Finding::kFound, "programs", "listening at " + path, "", ""}};
}

void Check(const Config& config, ConfigFaults& faults) {
  const std::string& path = config.Text("socket");
  if (!path.empty() && (path.front() != '/' || path.back() == '/'))
    faults.Refuse(config, "socket", "socket must be the full path of a file");
}

constexpr OptionSpec kOptions[] = {
    {.key = "socket",
     .fallback = {},
     .help = "Unix socket for the metrics of programs (OTLP over HTTP); default: /run/gpulens/otlp.sock for "
             "root, in the "
             "runtime folder of a service, or below $XDG_RUNTIME_DIR."},
    {.key = "energy",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Offer the energy of GPUs to programs, at energy.sock in the same folder"},
    {.key = "series_per_user",
     .type = OptionType::kInt,
     .fallback = "20000",
     .help = "Series of all programs of one user; all users together have 100,000",
     .min = 1,
     .max = 100'000},
};

constexpr const MetricDesc* kMetrics[] = {&kSelfPrograms, &kSelfProgramsPoints};

}  // namespace

extern const CollectorSpec programs_collector;
const CollectorSpec programs_collector{.name = "programs",
                                       .help = "Metrics exported by programs of this machine.",
                                       .period = seconds(5),
                                       .ttl = seconds(150),
                                       .options = kOptions,
                                       .metrics = kMetrics,
                                       .scraped = true,
                                       .create = &Create,
                                       .probe = &Probe,
                                       .check = &Check};

}  // namespace gpulens
