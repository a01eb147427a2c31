// Collector of the metrics that programs of this machine export to the agent: gpulens' SDK, or any other OTLP
// over HTTP at a Unix socket.

#include "plugins/collectors/programs/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/self.h"
#include "catalog/training.h"
#include "net/blocking/listening_socket.h"
#include "net/grpc/grpc_wire.h"
#include "plugins/reader_control.h"
#include "reader/reader_child.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

constexpr size_t kMostBytes = size_t{8} << 20;  // of a request, unpacked

HttpResponse Failure(int status, GrpcCode code, std::string_view why) {
  HttpResponse response;
  response.status = status;
  response.content_type = OtlpContentType(OtlpFormat::kProtobuf);
  response.body = OtlpFailure(OtlpFormat::kProtobuf, static_cast<uint32_t>(code), why);
  return response;
}

HttpResponse Answer(ProgramRegistry& registry, const ProgramRegistry::Sender& sender, std::string_view body,
                    bool packed, Instant now) {
  std::string unpacked;
  if (packed) {
    if (Status status = Gunzip(body, kMostBytes, unpacked); !status)
      return Failure(status.code == Code::kExhausted ? 413 : 400, GrpcCode::kInvalidArgument, status.detail);
    body = unpacked;
  }
  OtlpPointsReport report;
  const Status taken = registry.Take(sender, body, now, report);
  if (taken.code == Code::kExhausted) {
    HttpResponse busy = Failure(429, GrpcCode::kResourceExhausted, taken.detail);
    busy.AddHeader("Retry-After", "60");
    return busy;
  }
  if (!taken) return Failure(400, GrpcCode::kInvalidArgument, taken.detail);
  HttpResponse response;
  response.content_type = OtlpContentType(OtlpFormat::kProtobuf);
  response.body = OtlpSuccess(OtlpSignal::kMetrics, OtlpFormat::kProtobuf, report.rejected, report.why);
  return response;
}

constexpr int kPollMs = 500;
// Back-off between starts of a reader that ends at once.
constexpr int64_t kLeastPauseNs = 1'000'000'000, kLongestPauseNs = 60'000'000'000,
                  kGoodRunNs = 20'000'000'000;

int64_t Now() { return RealClock().Now().boot_ns; }

}  // namespace

ProgramSocket::ProgramSocket(std::shared_ptr<ProgramRegistry> registry, Env& env)
    : registry_(std::move(registry)), env_(env) {
  router_.Add("/v1/metrics", "POST", [this](const HttpRequest& request, HttpResponder responder) {
    Handle(request, std::move(responder));
  });
  HttpLimits limits;
  limits.connections = 256;
  limits.body_bytes = kMostBytes;
  limits.arriving_bytes = 4 * kMostBytes;
  server_ = std::make_unique<HttpServer>(*env_.io, router_, HttpServer::Options{.limits = limits});
}

Result<std::unique_ptr<ProgramSocket>> ProgramSocket::Open(const std::string& path,
                                                           std::shared_ptr<ProgramRegistry> registry,
                                                           Env& env) {
  if (path.empty() || path.front() != '/' || path.back() == '/')
    return Status{Code::kInvalidArgument, "collectors.programs.socket must be the full path of a file"};
  RETURN_IF_ERROR(MakeFoldersAbove(path));
  Endpoint at;
  at.family = Endpoint::Family::kUnix;
  at.path = path;
  ASSIGN_OR_RETURN(UniqueFd listening, OpenListeningSocket(at));
  if (::chmod(path.c_str(), 0666) != 0) return ErrnoStatus("chmod " + path, errno);
  std::unique_ptr<ProgramSocket> made(new ProgramSocket(std::move(registry), env));
  ASSIGN_OR_RETURN(at, made->server_->Listen(std::move(listening)));
  return made;
}

void ProgramSocket::Handle(const HttpRequest& request, HttpResponder responder) {
  std::string_view type = request.Header("Content-Type");
  if (!EqualsIgnoringCase(Trim(TakeUntil(type, ';')), "application/x-protobuf"))
    return responder.Send(
        Failure(415, GrpcCode::kInvalidArgument, "Content-Type must be application/x-protobuf"));
  const std::string packing = request.JoinedHeader("Content-Encoding");
  const bool packed = EqualsIgnoringCase(packing, "gzip");
  if (!packed && !packing.empty() && !EqualsIgnoringCase(packing, "identity"))
    return responder.Send(
        Failure(415, GrpcCode::kInvalidArgument, "Content-Encoding must be gzip or identity"));
  const ProgramRegistry::Sender sender{request.peer_pid(), request.peer_uid()};
  const Instant now = env_.clock->Now();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  auto work = [registry = registry_, sender, now, packed, waiting, body = request.TakeBody()] {
    waiting->Send(Answer(*registry, sender, body, packed, now));
  };
  if (!env_.workers) return work();
  if (!env_.workers->Post(std::move(work)))
    waiting->Send(Failure(503, GrpcCode::kResourceExhausted, "the work queue is full"));
}

std::string EnergySocketNextTo(const std::string& program_socket) {
  const size_t slash = program_socket.rfind('/');
  return slash == std::string::npos ? std::string() : program_socket.substr(0, slash) + "/energy.sock";
}

Result<std::unique_ptr<EnergySocket>> EnergySocket::Open(Options options) {
  RETURN_IF_ERROR(MakeFoldersAbove(options.path));
  ASSIGN_OR_RETURN(UniqueFd listening, OpenPacketSocket(options.path));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return ErrnoStatus("eventfd", errno);
  std::unique_ptr<EnergySocket> socket(
      new EnergySocket(std::move(options), std::move(listening), std::move(stop)));
  RETURN_IF_ERROR(StartThread(socket->thread_, [watcher = socket.get()] { watcher->Watch(); }));
  return socket;
}

EnergySocket::EnergySocket(Options options, UniqueFd listening, UniqueFd stop)
    : options_(std::move(options)), listening_(std::move(listening)), stop_(std::move(stop)) {}

EnergySocket::~EnergySocket() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
  ::unlink(options_.path.c_str());
}

bool EnergySocket::Released() const {
  if (!options_.control) return false;
  const auto state = options_.control->view().state;
  return state == ReaderControl::State::kReleasing || state == ReaderControl::State::kReleased;
}

// The reader process accepts on the socket, including waiting connections.
void EnergySocket::Start() {
  ChildProcess::Options start;
  start.program = options_.program;
  start.arguments = {"reader", "energy"};
  // The NVIDIA collector may set it after this socket was opened.
  if (options_.simulated || (options_.control && options_.control->view().simulated))
    start.arguments.push_back("--simulated");
  start.arguments.push_back("--listen-fd=" + std::to_string(listening_.get()));
  start.pass_fds = {{listening_.get(), listening_.get()}};
  auto started = ChildProcess::Start(start);
  if (started) reader_ = *std::move(started);
  else Log(LogLevel::kWarn, "programs", "energy_reader", "cannot be started: " + started.error().detail);
}

void EnergySocket::Watch() {
  int64_t pause_ns = kLeastPauseNs, started_ns = Now() - kLeastPauseNs;
  while (true) {
    const bool pauses = reader_.running() || Released() || Now() - started_ns < pause_ns;
    std::array<pollfd, 3> polled{{{stop_.get(), POLLIN, 0},
                                  {pauses ? -1 : listening_.get(), POLLIN, 0},
                                  {reader_.running() ? reader_.end_fd() : -1, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), kPollMs) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    if (reader_.running() && Released()) reader_.Signal(SIGKILL);
    if (reader_.running() && reader_.TryWait()) {
      const bool good = Now() - started_ns >= kGoodRunNs;
      pause_ns = good ? kLeastPauseNs : std::min(2 * pause_ns, kLongestPauseNs);
    }
    if (polled[1].revents != 0 && !reader_.running()) {
      started_ns = Now();
      Start();
    }
  }
}

namespace {

using std::chrono::seconds;

constexpr OptionSpec kOptions[] = {
    TextOption(
        "socket", {},
        "Unix socket for the metrics of programs (OTLP over HTTP); default: /run/gpulens/otlp.sock for "
        "root, in the "
        "runtime folder of a service, or below $XDG_RUNTIME_DIR."),
    BoolOption("energy", true, "Offer the energy of GPUs to programs, at energy.sock in the same folder"),
    IntOption("series_per_user", "20000",
              "Series of all programs of one user; all users together have 100,000", 1, 100'000),
};
using Options = OptionsOf<kOptions>;

std::string PathOf(const Options& options) {
  const std::string& path = options.Text("socket");
  return path.empty() ? OwnAgentSocket("otlp.sock") : path;
}

class Programs final : public Collector {
 public:
  Programs(std::string path, const Options& options, Env& env)
      : path_(std::move(path)),
        configured_(!options.Text("socket").empty()),
        energy_(options.Bool("energy")),
        env_(env),
        registry_(std::make_shared<ProgramRegistry>(
            ProgramRegistry::Limits{.series_of_user = static_cast<size_t>(options.Int("series_per_user"))})) {
  }

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
    const ProgramRegistry::Counts counts = registry_->counts();
    out.DeclareAndSet(programs_, kSelfPrograms, {}, {}, counts.programs);
    out.DeclareAndSet(accepted_, kSelfProgramsPoints, {}, {{"result", "accepted"}}, counts.accepted);
    out.DeclareAndSet(rejected_, kSelfProgramsPoints, {}, {{"result", "rejected"}}, counts.rejected);
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

void NeededRights(const Config& config, const Env&, Rights& out) {
  const std::string path = PathOf(config);
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return;
  out.folders.push_back(path.substr(0, slash));
  if (!Options(config).Bool("energy")) return;
  ProgramRule reader{.path = "/proc/self/exe",
                     .arguments = {"reader", "energy", "--simulated"},
                     .prefixes = {"--listen-fd="},
                     .variables = reader::ReaderVariables()};
  reader.confines_itself = true;
  // Which processes belong to a run is in their environment.
  reader.reads_processes = true;
  out.programs.push_back(std::move(reader));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  const std::string path = PathOf(config);
  if (path.empty())
    return {{Finding::kNotHere, "programs", "", "there is no folder for a socket",
             "collectors: {programs: {socket: /tmp/gpulens/otlp.sock}}"}};
  return {{Finding::kFound, "programs", "listening at " + path, "", ""}};
}

void Check(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  const std::string& path = options.Text("socket");
  if (!path.empty() && (path.front() != '/' || path.back() == '/'))
    options.Refuse("socket", faults, "socket must be the full path of a file");
}

constexpr std::array kOwnMetrics{&kSelfPrograms, &kSelfProgramsPoints};
constexpr auto kMetrics = JoinRows(kOwnMetrics, kTrainingRows);

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
                                       .check = &Check,
                                       .rights = &NeededRights};

}  // namespace gpulens
