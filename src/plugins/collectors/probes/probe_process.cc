#include "plugins/collectors/probes/probe_process.h"

#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <new>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/text.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace gpulens::probes {
namespace {

constexpr size_t kMostClients = 32;
constexpr int kBacklog = 16;
constexpr int64_t kIdleNs = 10'000'000'000;   // of a client without a request
constexpr int64_t kWriteNs = 5'000'000'000;   // of a client that does not read
constexpr int64_t kListNs = 500'000'000;      // between two lists of who is not privileged
constexpr int64_t kSilentNs = 3'000'000'000;  // of the working process
constexpr int64_t kStartNs = 20'000'000'000;  // until it is expected to answer: it tries and measures first
constexpr int64_t kEndingNs = 5'000'000'000;  // of one that was killed: the kernel closes its socket late
constexpr int kIdleMs = 1000;

int64_t BootNs() { return RealClock().Now().boot_ns; }

Result<UniqueFd> ListenAt(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.front() != '/' || path.size() >= sizeof at.sun_path)
    return Status{Code::kInvalidArgument, "the socket must be a full path of at most 107 bytes: " + path};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  RETURN_IF_ERROR(MakeFoldersAbove(path));
  const auto* name = reinterpret_cast<const sockaddr*>(&at);
  int error = 0;
  for (const int64_t begun_ns = BootNs();; ::poll(nullptr, 0, 20)) {
    const UniqueFd old(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!old) return ErrnoStatus("socket", errno);
    error = ::connect(old.get(), name, sizeof at) == 0 ? 0 : errno;
    if (error != 0 && error != EAGAIN) break;
    if (BootNs() - begun_ns > kEndingNs)
      return Status{Code::kUnavailable, "another probe host listens at " + path};
  }
  if (error == ECONNREFUSED) ::unlink(path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("socket", errno);
  if (::bind(socket.get(), name, sizeof at) != 0) return ErrnoStatus("bind " + path, errno);
  // Anyone may connect: what each may do follows from its user.
  if (::chmod(path.c_str(), 0666) != 0) return ErrnoStatus("chmod " + path, errno);
  if (::listen(socket.get(), kBacklog) != 0) return ErrnoStatus("listen " + path, errno);
  return socket;
}

bool SameUserNamespace(const std::string& process) {
  struct stat ours{}, theirs{};
  return ::stat("/proc/self/ns/user", &ours) == 0 &&
         ::stat(("/proc/" + process + "/ns/user").c_str(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

bool HasCapability(const std::string& process, int capability) {
  const Result<std::string> text = ReadFile("/proc/" + process + "/status", 64 << 10);
  if (!text) return false;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    if (TakeUntil(line, ':') != "CapEff") continue;
    const std::string_view digits = Trim(line);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc() && end == digits.data() + digits.size() && (value >> capability & 1) != 0;
  }
  return false;
}

// One connection. A request is a line; while its reply is not written the next one waits.
struct Client {
  UniqueFd socket;
  ProbePeer peer;
  std::string in, out;
  size_t written = 0;
  int64_t active_ns = 0;

  bool writes() const noexcept { return written < out.size(); }
};

class Server {
 public:
  Server(const ProbeProcessOptions& options, UniqueFd listening, UniqueFd signals, std::atomic<int64_t>& beat)
      : options_(options), listening_(std::move(listening)), signals_(std::move(signals)), beat_(beat) {}

  // Until a signal ends it.
  void Run() {
    backend_ = options_.make_backend();
    host_.emplace(*backend_, LoadOptions(), options_.switch_files);
    const Ability& ability = host_->ability();
    if (ability.reason.empty())
      Log(LogLevel::kInfo, "probes", "ready", "probes can be attached: " + ability.mechanism);
    else Log(LogLevel::kWarn, "probes", "refused", ability.reason + ": " + ability.sentence);
    int64_t next_tick_ns = 0;
    while (true) {
      beat_.store(BootNs(), std::memory_order_relaxed);
      const int64_t wait_ns = host_->busy() ? next_tick_ns - BootNs() : kIdleMs * int64_t{1'000'000};
      if (!Wait(static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, kIdleMs)))) break;
      const Instant now = RealClock().Now();
      if (now.boot_ns >= next_tick_ns) {
        host_->Tick(now);
        next_tick_ns = RealClock().Now().boot_ns + host_->wait().count();
      }
      LogNotes();
    }
    host_->DetachAll("ending", "the probe host ends", RealClock().Now());
    LogNotes();
  }

 private:
  ProbeHostOptions LoadOptions() {
    Result<ProbeHostOptions> loaded = options_.load();
    if (loaded) return *std::move(loaded);
    Log(LogLevel::kError, "probes", "configuration", loaded.error().detail);
    ProbeHostOptions nothing;
    nothing.thread_budget_ppm = nothing.host_budget_ppm = 0;
    return nothing;
  }

  void LogNotes() {
    for (const ProbeNote& note : host_->NotesSince(logged_)) {
      logged_ = note.number;
      std::string line = note.change + (note.reason.empty() ? "" : " (" + note.reason + ")");
      if (note.pid != 0) line += ", process " + std::to_string(note.pid);
      line += ", by user " + std::to_string(note.user);
      if (!note.sentence.empty()) line += ": " + note.sentence;
      Log(LogLevel::kInfo, "probes", note.change, line, std::to_string(note.number));
    }
  }

  // False: it shall end.
  bool Wait(int timeout_ms) {
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0},
                               {clients_.size() < kMostClients ? listening_.get() : -1, POLLIN, 0}};
    for (const Client& client : clients_) {
      polled.push_back({client.socket.get(), static_cast<short>(client.writes() ? POLLOUT : POLLIN), 0});
      if (!client.writes() && client.in.find('\n') != std::string::npos) timeout_ms = 0;
    }
    if (::poll(polled.data(), polled.size(), timeout_ms) < 0 && errno != EINTR) return false;
    if (polled[0].revents != 0 && !TakeSignal()) return false;
    const int64_t now_ns = BootNs();
    for (size_t i = 0; i < clients_.size(); ++i) {
      if (!Serve(clients_[i], polled[i + 2].revents, now_ns)) clients_[i].socket.reset();
    }
    std::erase_if(clients_, [](const Client& client) { return !client.socket; });
    if (polled[1].revents != 0) Accept(now_ns);
    return true;
  }

  bool TakeSignal() {
    signalfd_siginfo signal{};
    if (::read(signals_.get(), &signal, sizeof signal) != sizeof signal) return true;
    if (signal.ssi_signo != SIGHUP) return false;
    host_->DetachAll("reload", "the configuration is read again", RealClock().Now());
    host_->Reload(LoadOptions(), RealClock().Now());
    return true;
  }

  void Accept(int64_t now_ns) {
    UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    Client& client = clients_.emplace_back();
    client.peer = PeerOf(socket.get());
    client.socket = std::move(socket);
    client.active_ns = now_ns;
  }

  // False: the connection ends.
  bool Serve(Client& client, short events, int64_t now_ns) {
    if (client.writes()) {
      if (events == 0) return now_ns - client.active_ns < kWriteNs;
      return Write(client, now_ns);
    }
    if (events != 0) {
      std::array<char, 4096> bytes;
      const ssize_t count = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (count > 0) client.in.append(bytes.data(), static_cast<size_t>(count));
    } else if (now_ns - client.active_ns > kIdleNs) {
      return false;
    }
    const size_t end = client.in.find('\n');
    if (end == std::string::npos) return client.in.size() <= kMostRequestBytes;
    const Result<ProbeRequest> request = DecodeRequest(std::string_view(client.in).substr(0, end));
    client.in.erase(0, end + 1);
    if (!request) return false;
    client.active_ns = now_ns;
    client.out = EncodeReply(Answer(*request, client.peer, now_ns));
    client.written = 0;
    return Write(client, now_ns);
  }

  ProbeReply Answer(const ProbeRequest& request, const ProbePeer& peer, int64_t now_ns) {
    if (request.verb == RequestVerb::kList && !peer.privileged && now_ns - listed_ns_ < kListNs) {
      ProbeReply busy;
      busy.refusal = "busy";
      busy.sentence = "try again in a second";
      return busy;
    }
    if (request.verb == RequestVerb::kList) listed_ns_ = now_ns;
    const int64_t begun_ns = BootNs();
    ProbeReply reply = host_->Handle(request, peer, RealClock().Now());
    reply.took_s = static_cast<double>(BootNs() - begun_ns) * 1e-9;
    return reply;
  }

  static bool Write(Client& client, int64_t now_ns) {
    while (client.writes()) {
      const ssize_t count = ::send(client.socket.get(), client.out.data() + client.written,
                                   client.out.size() - client.written, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      client.written += static_cast<size_t>(count);
      client.active_ns = now_ns;
    }
    client.out.clear();
    client.written = 0;
    return true;
  }

  const ProbeProcessOptions& options_;
  const UniqueFd listening_, signals_;
  std::atomic<int64_t>& beat_;
  std::unique_ptr<ProbeBackend> backend_;
  std::optional<ProbeHost> host_;
  std::vector<Client> clients_;
  uint64_t logged_ = 0;
  int64_t listed_ns_ = 0;
};

// The process that holds the rights. Returns its exit status.
int Work(const ProbeProcessOptions& options, UniqueFd listening, UniqueFd signals, std::atomic<int64_t>& beat,
         pid_t watcher) {
  // The kernel ends it with its watcher, and removes the probes with it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != watcher) return 1;
  // No list of files: programs of other containers are below /proc/PID/root, which Landlock hides.
  for (const SandboxLayer& layer : EnterSandbox({.mode = options.sandbox,
                                                 .filter = CallFilter::kProbes,
                                                 .files = std::nullopt,
                                                 .capabilities = {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE}})) {
    if (!layer.on && options.sandbox == SandboxMode::kEnforce)
      Log(LogLevel::kWarn, "probes", "sandbox", std::string(layer.name) + ": " + layer.detail);
  }
  Server(options, std::move(listening), std::move(signals), beat).Run();
  return 0;
}

}  // namespace

ProbePeer PeerOf(int socket) {
  ProbePeer out;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  out.user = UINT32_MAX;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return out;
  out.user = credentials.uid;
  out.privileged = credentials.uid == 0 || credentials.uid == ::geteuid();
  if (out.privileged || credentials.pid <= 0) return out;
  // The number of the process may be another one's by now: a descriptor of it shows whether it still runs.
  int descriptor = -1;
  size = sizeof descriptor;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) != 0) return out;
  const UniqueFd process(descriptor);
  const std::string number = std::to_string(credentials.pid);
  const bool has = HasCapability(number, CAP_PERFMON) && SameUserNamespace(number);
  pollfd ended{process.get(), POLLIN, 0};
  out.privileged = has && ::poll(&ended, 1, 0) == 0;
  return out;
}

int RunProbeProcess(const ProbeProcessOptions& options) {
  Result<UniqueFd> listening = ListenAt(options.socket);
  if (!listening) {
    Log(LogLevel::kError, "probes", "listen", listening.error().detail);
    return 1;
  }
  void* room = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    Log(LogLevel::kError, "probes", "memory", ErrnoStatus("mmap", errno).detail);
    return 1;
  }
  auto& beat = *new (room) std::atomic<int64_t>(BootNs() + kStartNs);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&wanted, signal);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  UniqueFd signals(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  const pid_t watcher = ::getpid();
  const pid_t worker = signals ? ::fork() : -1;
  if (worker < 0) {
    Log(LogLevel::kError, "probes", "start", ErrnoStatus("fork", errno).detail);
    return 1;
  }
  if (worker == 0) return Work(options, *std::move(listening), std::move(signals), beat, watcher);
  listening->reset();
  static_cast<void>(EnterSandbox(
      {.mode = options.sandbox, .filter = CallFilter::kLauncher, .files = std::nullopt, .capabilities = {}}));
  int64_t end_ns = 0;  // not 0: when a worker that should end is killed
  while (true) {
    pollfd polled{signals.get(), POLLIN, 0};
    ::poll(&polled, 1, kIdleMs);
    signalfd_siginfo signal{};
    while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo == SIGCHLD) continue;
      ::kill(worker, static_cast<int>(signal.ssi_signo));
      if (signal.ssi_signo != SIGHUP) end_ns = BootNs() + 1'000'000'000;
    }
    const int64_t now_ns = BootNs();
    const bool silent = now_ns - beat.load(std::memory_order_relaxed) > kSilentNs;
    if (silent || (end_ns != 0 && now_ns > end_ns)) {
      if (silent) Log(LogLevel::kError, "probes", "silent", "it did not answer for 3 s and was killed");
      ::kill(worker, SIGKILL);
    }
    int status = 0;
    if (::waitpid(worker, &status, WNOHANG) != worker) continue;
    ::unlink(options.socket.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    Log(LogLevel::kError, "probes", "ended", "the probe host " + DescribeWaitStatus(status));
    return 1;
  }
}

}  // namespace gpulens::probes
