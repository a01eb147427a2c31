// The instruments of programs that export to this agent: gpulens' SDK, or any other that speaks OTLP over
// HTTP at a Unix socket.

#include <algorithm>

#include "base/log.h"
#include "base/result.h"
#include "catalog/self.h"
#include "plugins/collectors/programs/energy_socket.h"
#include "plugins/collectors/programs/program_registry.h"
#include "plugins/collectors/programs/program_socket.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

std::string PathOf(const Config& config) {
  const std::string& asked = config.Text("socket");
  return asked.empty() ? DefaultProgramSocket() : asked;
}

class Programs final : public Collector {
 public:
  Programs(std::string path, const Config& config, Env& env)
      : path_(std::move(path)),
        queried_(!config.Text("socket").empty()),
        energy_(config.Bool("energy")),
        env_(env),
        table_(std::make_shared<ProgramRegistry>(
            ProgramRegistry::Limits{.series_of_user = static_cast<size_t>(config.Int("series_per_user"))})) {}

  Status Collect(FrameWriter& out) override {
    const Status open = Open();
    if (open.ok() && energy_ && !door_) OpenDoor();
    Count(out);
    table_->Write(out);
    // Without a socket of its own choice the agent also runs where it may make none, or where another has it.
    return queried_ ? open : Ok();
  }

 private:
  // Tried again at each run: who has it now may end.
  Status Open() {
    if (socket_) return Ok();
    auto opened = ProgramSocket::Open(path_, table_, env_);
    if (opened) {
      socket_ = *std::move(opened);
      Log(LogLevel::kInfo, "programs", "listening", "listening for programs at " + path_);
      return Ok();
    }
    // Where another agent has the socket, programs are heard there and not here.
    if (why_.ok())
      Log(LogLevel::kWarn, "programs", "no_socket",
          "programs cannot connect: " + opened.error().detail +
              "; set collectors.programs.socket to another path");
    why_ = opened.error();
    return why_;
  }

  void OpenDoor() {
    auto opened =
        EnergySocket::Open({.path = EnergySocketBeside(path_), .simulated = env_.demo, .control = env_.nvml});
    const bool told = !why_door_.ok();
    why_door_ = opened.status();
    if (opened) door_ = *std::move(opened);
    else if (!told)
      Log(LogLevel::kInfo, "programs", "no_energy",
          "energy is not available to programs: " + why_door_.detail);
  }

  void Count(FrameWriter& out) {
    if (!programs_) {
      programs_ = out.table().Declare(kSelfPrograms, {});
      accepted_ = out.table().Declare(kSelfProgramsPoints, {}, {{"result", "accepted"}});
      rejected_ = out.table().Declare(kSelfProgramsPoints, {}, {{"result", "rejected"}});
    }
    const ProgramRegistry::Counts counts = table_->counts();
    out.Set(programs_, counts.programs);
    out.Set(accepted_, counts.accepted);
    out.Set(rejected_, counts.rejected);
  }

  const std::string path_;
  const bool queried_, energy_;
  Env& env_;
  const std::shared_ptr<ProgramRegistry> table_;
  std::unique_ptr<ProgramSocket> socket_;
  std::unique_ptr<EnergySocket> door_;
  Status why_, why_door_;
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
