#include "agent/control/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/events.h"
#include "config/value_parse.h"
#include "net/blocking/listening_socket.h"
#include "plugins/event_queue.h"

namespace gpulens {

namespace {

constexpr Duration kLongestRelease = std::chrono::hours(24);

Status Wrong(std::string_view what) {
  std::string text(what);
  return {Code::kInvalidArgument, text +
                                      "; expected: agent status, get TARGET, xid clear [GPU], nvml release "
                                      "[DURATION], nvml resume or nvml status"};
}

// An index or a UUID; empty: every GPU.
bool IsGpuName(std::string_view name) {
  if (name.size() > 64) return false;
  for (char c : name) {
    bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!good) return false;
  }
  return true;
}

}  // namespace

Result<ControlCommand> ParseControlCommand(std::string_view line) {
  std::string_view rest = Trim(line);
  if (rest.starts_with("get ") && line.size() <= kMaxGetLine) {
    ControlCommand get{
        .verb = ControlCommand::kGet, .words = std::string(Trim(rest.substr(4))), .length = {}};
    return get;
  }
  if (line.size() > kMaxControlLine) return Wrong("the command is too long");
  std::string_view driver = TakeUntil(rest, ' ');
  rest = Trim(rest);
  std::string_view verb = TakeUntil(rest, ' ');
  rest = Trim(rest);
  ControlCommand out;
  if (driver == "agent" && verb == "status" && rest.empty()) {
    out.verb = ControlCommand::kAgentStatus;
    return out;
  }
  if (driver == "xid" && verb == "clear") {
    if (!IsGpuName(rest)) return Wrong("expected the index or the UUID of a GPU");
    out.verb = ControlCommand::kXidClear;
    out.words = rest;
    return out;
  }
  if (driver == "demo" && (verb == "set" || verb == "stop")) {
    out.verb = ControlCommand::kDemo;
    out.words = std::string(verb) + " " + std::string(rest);
    return out;
  }
  if (driver != "nvml") return Wrong("no such driver");
  if (verb == "release") {
    out.verb = ControlCommand::kRelease;
    if (rest.empty()) return out;
    if (auto problem = ParseTimeValue(rest, out.length)) return Wrong("invalid duration");
    if (out.length <= Duration(0) || out.length > kLongestRelease)
      return Wrong("the duration must be more than 0 s and at most 24 h");
    return out;
  }
  if (verb == "fail" || verb == "heal") {
    out.verb = verb == "fail" ? ControlCommand::kFail : ControlCommand::kHeal;
    out.words = rest;
    return out;
  }
  if (!rest.empty()) return Wrong("unexpected text after the command");
  if (verb == "resume") out.verb = ControlCommand::kResume;
  else if (verb == "faults") out.verb = ControlCommand::kFaults;
  else if (verb != "status") return Wrong("no such command");
  return out;
}

std::string DefaultControlSocket() { return OwnAgentSocket("gpulens.sock"); }

std::optional<Finding> DriverFinding(std::string_view status) {
  constexpr std::string_view kBut = "running, but ";
  Finding finding;
  finding.subject = "nvidia";
  // "releasing: …": the process has not ended yet; nothing is read meanwhile, either.
  if (status.starts_with("released") || status.starts_with("releasing")) {
    finding.kind = Finding::kNoPermission;
    finding.what = "the running agent reads no GPU";
    finding.why = "its reader process is " + std::string(status);
    finding.remedy = "gpulens gpu resume";
    return finding;
  }
  if (!status.starts_with(kBut)) return std::nullopt;
  finding.kind = Finding::kBroken;
  finding.what = "the running agent receives no XIDs or other GPU events";
  finding.why = status.substr(kBut.size());
  finding.remedy = "gpulens gpu release, then gpulens gpu resume: starts another process";
  return finding;
}

Result<std::string> FaultFile::Fail(std::string_view words, int64_t now_ns, size_t gpus) {
  ASSIGN_OR_RETURN(std::string done, list_.Fail(words, now_ns, gpus));
  RETURN_IF_ERROR(file_.Write(nvml::FormatFaultScript(list_.faults())));
  return done;
}

Result<std::string> FaultFile::Heal(std::string_view words, int64_t now_ns) {
  ASSIGN_OR_RETURN(std::string done, list_.Heal(words, now_ns));
  RETURN_IF_ERROR(file_.Write(nvml::FormatFaultScript(list_.faults())));
  return done;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxClients = 8;
constexpr Duration kRequestTime = seconds(5);
// The collector sees a release at its next run, and the process has to end.
constexpr Duration kReleaseTime = seconds(20);
constexpr Duration kLookAgain = milliseconds(20);

// Root, and the user whose agent this is.
bool MayCommand(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

std::string Seconds(int64_t until_boot_ns, Instant now) {
  return std::to_string((std::max<int64_t>(until_boot_ns - now.boot_ns, 0) + 999'999'999) / 1'000'000'000) +
         " s";
}

}  // namespace

class ControlSocket::Client final : public StreamHandler, public std::enable_shared_from_this<Client> {
 public:
  Client(ControlSocket& owner, Stream stream) : owner_(owner), stream_(std::move(stream)) {
    stream_.SetHandler(this);
  }
  ~Client() {
    if (timer_) owner_.loop_.Cancel(timer_);
  }

  void Begin() {
    end_ns_ = (owner_.clock_.Now() + kRequestTime).boot_ns;
    timer_ = owner_.loop_.After(kRequestTime, [this] {
      timer_ = 0;
      owner_.Forget(this);
    });
    stream_.WaitReadable();
  }

  void OnReadable() override {
    std::array<char, kMaxGetLine + 2> bytes;
    while (true) {
      IoResult result = stream_.ReadSome(bytes);
      if (result.outcome == IoOutcome::kWouldBlock) return stream_.WaitReadable();
      if (result.outcome != IoOutcome::kOk) return owner_.Forget(this);
      line_.append(bytes.data(), result.bytes);
      size_t end = line_.find('\n');
      if (end != std::string::npos) return Obey(std::string_view(line_).substr(0, end));
      if (line_.size() > kMaxGetLine) return Reply("error the command is too long");
    }
  }
  void OnWritable() override { Write(); }

 private:
  void Obey(std::string_view line) {
    Result<ControlCommand> command = ParseControlCommand(line);
    if (!command) return Reply("error " + command.error().detail);
    if (command->verb == ControlCommand::kAgentStatus) return ReportStatus();
    if (command->verb == ControlCommand::kGet) return Get(std::move(command->words));
    if (command->verb == ControlCommand::kXidClear) return Reply(owner_.ClearXids(*command));
    if (command->verb == ControlCommand::kDemo) return Reply(owner_.ObeyDemo(command->words));
    ReaderControl& nvml = owner_.nvml_;
    if (nvml.view().state == ReaderControl::State::kUnowned)
      return Reply("error no NVIDIA collector runs in this agent");
    if (command->verb >= ControlCommand::kFail) return Reply(owner_.ObeyFault(*command));
    Instant now = owner_.clock_.Now();
    if (command->verb == ControlCommand::kRelease) {
      nvml.Release(now, command->length);
      Log(LogLevel::kInfo, "nvidia", "release", "the GPUs are released on request.");
    } else if (command->verb == ControlCommand::kResume) {
      nvml.Resume();
      Log(LogLevel::kInfo, "nvidia", "resume", "the GPUs are read again on request.");
    }
    // An error for the command that requested the release; other commands get the state.
    if (command->verb == ControlCommand::kStatus && nvml.view().state == ReaderControl::State::kReleasing)
      return Reply("ok releasing: the reader process has not ended yet; it may be stuck in the kernel");
    if (command->verb != ControlCommand::kRelease) return Reply(owner_.Answer());
    end_ns_ = (now + kReleaseTime).boot_ns;
    AwaitRelease();
  }

  // The status is made by a worker; by then this client may be gone.
  void ReportStatus() {
    const ControlHooks& hooks = owner_.hooks_;
    if (!hooks.workers || !hooks.status) return Reply("error this agent has no status");
    bool posted =
        hooks.workers->Post([&loop = owner_.loop_, status = hooks.status, client = weak_from_this()] {
          loop.Post([text = "ok " + status(), client] {
            if (std::shared_ptr<Client> still = client.lock()) still->Reply(text);
          });
        });
    if (!posted) Reply("error the work queue is full");
  }

  // As ReportStatus. Errors have their code, so that a client knows a wrong parameter from a missing page.
  void Get(std::string target) {
    if (!owner_.hooks_.get) return Reply(ErrorLine({Code::kUnavailable, "this agent has no such pages"}));
    auto done = [&loop = owner_.loop_, client = weak_from_this()](Result<std::string> page) {
      if (page && page->size() > kMaxGetAnswer - 8)
        page = Status{Code::kExhausted, "the answer is longer than 16 MiB; request less"};
      std::string text = page ? "ok " + *page : ErrorLine(page.error());
      std::ranges::replace(text, '\n', ' ');
      loop.Post([text = std::move(text), client]() mutable {
        if (std::shared_ptr<Client> still = client.lock()) still->Reply(std::move(text));
      });
    };
    if (!owner_.hooks_.get(std::move(target), std::move(done)))
      Reply(ErrorLine({Code::kTimeout, "too many requests wait; try again"}));
  }

  static std::string ErrorLine(const Status& status) {
    return "error " + std::string(CodeName(status.code)) + " " + status.detail;
  }

  // Answers once no process has a device open: only then may the caller unload the driver.
  void AwaitRelease() {
    bool over = owner_.clock_.Now().boot_ns >= end_ns_;
    if (owner_.nvml_.view().state != ReaderControl::State::kReleasing || over) return Reply(owner_.Answer());
    Rearm(kLookAgain, [this] { AwaitRelease(); });
  }

  template <class Task>
  void Rearm(Duration delay, Task task) {
    if (timer_) owner_.loop_.Cancel(timer_);
    timer_ = owner_.loop_.After(delay, [this, task] {
      timer_ = 0;
      task();
    });
  }

  void Reply(std::string text) {
    answer_ = std::move(text);
    answer_ += '\n';
    Rearm(kRequestTime, [this] { owner_.Forget(this); });
    Write();
  }

  void Write() {
    while (written_ < answer_.size()) {
      std::string_view rest = std::string_view(answer_).substr(written_);
      IoResult result = stream_.WriteSome({&rest, 1});
      if (result.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
      if (result.outcome != IoOutcome::kOk) break;
      written_ += result.bytes;
    }
    owner_.Forget(this);
  }

  ControlSocket& owner_;
  Stream stream_;
  std::string line_, answer_;
  size_t written_ = 0;
  int64_t end_ns_ = 0;
  IoLoop::TimerId timer_ = 0;
};

ControlSocket::ControlSocket(IoLoop& loop, const Clock& clock, ReaderControl& nvml, FaultFile* faults,
                             ControlHooks hooks)
    : loop_(loop),
      clock_(clock),
      nvml_(nvml),
      faults_(faults),
      hooks_(std::move(hooks)),
      listeners_(loop, *this) {}
ControlSocket::~ControlSocket() = default;

Status ControlSocket::Open(const std::string& path) {
  std::string folder = path.substr(0, path.rfind('/'));
  if (path.empty() || path.front() != '/' || path.back() == '/')
    return {Code::kInvalidArgument, "control.socket must be the full path of a file"};
  if (!folder.empty() && ::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return ErrnoStatus("make " + folder, errno);
  Endpoint at;
  at.family = Endpoint::Family::kUnix;
  at.path = path;
  ASSIGN_OR_RETURN(UniqueFd socket, OpenListeningSocket(at));
  // Credentials of each client are checked, too: until this chmod the file has the mode of the umask.
  if (::chmod(path.c_str(), 0600) != 0) return ErrnoStatus("chmod " + path, errno);
  ASSIGN_OR_RETURN(at, listeners_.Add(std::move(socket)));
  return Ok();
}

void ControlSocket::OnAccept(UniqueFd socket, const Endpoint&) {
  if (clients_.size() >= kMaxClients || !MayCommand(socket.get())) return;
  Result<Stream> stream = Stream::Adopt(loop_, std::move(socket));
  if (!stream) return;
  clients_.push_back(std::make_shared<Client>(*this, *std::move(stream)));
  clients_.back()->Begin();
}

std::string ControlSocket::Answer() const {
  ReaderControl::View view = nvml_.view();
  switch (view.state) {
    case ReaderControl::State::kUnowned: return "error no NVIDIA collector runs in this agent";
    case ReaderControl::State::kRunning:
      return view.trouble.empty() ? "ok running" : "ok running, but " + view.trouble;
    case ReaderControl::State::kReleasing:
      return "error the reader process has not ended yet; it may be stuck in the kernel";
    case ReaderControl::State::kReleased:
      return view.until_boot_ns == 0 ? "ok released until it is resumed"
                                     : "ok released for " + Seconds(view.until_boot_ns, clock_.Now());
  }
  return "error";
}

std::string ControlSocket::ClearXids(const ControlCommand& command) {
  if (!hooks_.events) return "error this agent does not accept events";
  Event event;
  event.at = clock_.Now();
  event.name = kEventGpuXidClear.name;
  std::string whose = command.words.empty() ? "every GPU" : "GPU " + command.words;
  event.attributes = AttributeSet({{"event.source", std::string_view("operator")}});
  if (!command.words.empty()) {
    event.attributes = AttributeSet({{"event.source", std::string_view("operator")},
                                     {"gpu.xid.clear.gpu", std::string_view(command.words)}});
  }
  event.body = "An operator cleared the XIDs of " + whose;
  hooks_.events->Report(std::move(event));
  return "ok the XIDs of " + whose + " so far are cleared";
}

std::string ControlSocket::ObeyFault(const ControlCommand& command) {
  ReaderControl::View view = nvml_.view();
  if (!view.simulated || !faults_)
    return "error this agent reads real GPUs; faults are for simulated ones: gpulens agent --demo, or "
           "collectors.nvidia.library: simulated";
  int64_t now_ns = clock_.Now().boot_ns;
  if (command.verb == ControlCommand::kFaults) {
    std::string all = "ok " + faults_->list().Describe(now_ns);
    if (hooks_.demo) {
      if (auto state = hooks_.demo("status")) all += ";" + *state;
    }
    return all;
  }
  const bool of_engine = command.words.find("engine=") != std::string::npos;
  if (command.verb == ControlCommand::kHeal && of_engine) return ObeyDemo("heal " + command.words);
  bool fails = command.verb == ControlCommand::kFail;
  Result<std::string> done =
      fails ? faults_->Fail(command.words, now_ns, view.gpus) : faults_->Heal(command.words, now_ns);
  if (!done) return "error " + done.error().detail;
  if (command.verb == ControlCommand::kHeal && command.words.empty() && hooks_.demo) {
    Result<std::string> healed = hooks_.demo("heal ");
    if (!healed) return "error " + healed.error().detail;
    *done += ";" + *healed;
  }
  Log(LogLevel::kInfo, "nvidia", "simulated_fault",
      (fails ? "injected on request: " : "on request: ") + *done);
  return "ok " + *done;
}

std::string ControlSocket::ObeyDemo(const std::string& words) const {
  if (!hooks_.demo) return "error this agent simulates no engines: gpulens agent --demo";
  Result<std::string> done = hooks_.demo(words);
  if (!done) return "error " + done.error().detail;
  Log(LogLevel::kInfo, "demo", "changed", "on request: " + *done);
  return "ok " + *done;
}

void ControlSocket::Forget(Client* client) {
  auto found = std::ranges::find_if(clients_, [&](const auto& one) { return one.get() == client; });
  if (found == clients_.end()) return;
  gone_->push_back(std::move(*found));
  clients_.erase(found);
  loop_.Post([gone = std::weak_ptr<Clients>(gone_)] {
    if (auto clients = gone.lock()) clients->clear();
  });
}

Result<std::string> QueryAgent(const std::string& path, const std::string& command, Duration timeout) {
  Endpoint at;
  at.family = Endpoint::Family::kUnix;
  at.path = path;
  sockaddr_storage address{};
  socklen_t size = at.ToSockaddr(address);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (size == 0) return Status{Code::kInvalidArgument, path + " is too long for a socket"};
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    Status status = ErrnoStatus("connect to " + path, errno);
    if (errno == ECONNREFUSED || errno == ENOENT) status.code = Code::kUnavailable;
    return status;
  }
  std::string line = command + "\n", answer;
  if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return ErrnoStatus("write to " + path, errno);
  int64_t end = (RealClock().Now() + timeout).boot_ns;
  bool whole = false;
  std::vector<char> bytes(64 << 10);
  while (!whole) {
    if (answer.size() > kMaxGetAnswer) return Status{Code::kExhausted, "the answer of the agent is too long"};
    int64_t left_ms = (end - RealClock().Now().boot_ns) / 1'000'000;
    pollfd wait{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (left_ms <= 0 || ::poll(&wait, 1, static_cast<int>(left_ms)) == 0)
      return Status{Code::kTimeout, "the agent does not answer"};
    ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Status{Code::kPermissionDenied, "the agent at " + path + " denied access"};
    whole = std::memchr(bytes.data(), '\n', static_cast<size_t>(count)) != nullptr;
    answer.append(bytes.data(), static_cast<size_t>(count));
  }
  return std::string(Trim(answer));
}

}  // namespace gpulens
