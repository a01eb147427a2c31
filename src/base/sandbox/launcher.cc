#include "base/sandbox/launcher.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/process_files.h"
#include "base/result.h"
#include "base/text.h"

extern char** environ;

namespace gpulens {
namespace {

// A message is a number, a letter and texts, each ended by a zero byte; descriptors go with it.
//   S program arguments "" variables "" the children's numbers of the descriptors   (first: the end's pipe)
//   K pid signal
//   f, s, l path                                                        base/process_files.h
// An answer is the same number, then a Code as a letter, then a text: a pid, or what went wrong.
constexpr size_t kMostMessage = 60 << 10;  // a packet of a local socket may be longer
constexpr size_t kMostFds = 16;
constexpr size_t kMostChildren = 1024;     // a target with isolate has one
constexpr size_t kMostSockets = 64 << 10;  // descriptors of a process that are looked at
constexpr timeval kTimeout{.tv_sec = 5, .tv_usec = 0};
constexpr const char* kLauncherVariable = "GPULENS_LAUNCHER_FD";
constexpr std::string_view kAlways[] = {"PATH", "LANG", "TZ", "LC_ALL"};

struct Message {
  std::string text;
  std::vector<UniqueFd> fds;
};

bool SendMessage(int socket, std::string_view text, const std::vector<int>& fds, int flags = 0) noexcept {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(first), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

// kUnavailable: the other end has gone; kTimeout; kDataLoss: too long.
Result<Message> TakeMessage(int socket) {
  Message out;
  out.text.resize(kMostMessage);
  iovec part{out.text.data(), out.text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size;
  do {
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return Status{Code::kTimeout, "the launcher does not answer"};
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); size >= 0 && one; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + i * sizeof(int), sizeof fd);
      out.fds.emplace_back(fd);
    }
  }
  if (size <= 0) return Status{Code::kUnavailable, "the launcher has ended: the agent must be restarted"};
  if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Status{Code::kDataLoss, "a message is too long"};
  out.text.resize(static_cast<size_t>(size));
  return out;
}

void Add(std::string& text, std::string_view part) {
  text += part;
  text += '\0';
}

std::string_view TakeText(std::string_view& rest) { return TakeUntil(rest, '\0'); }

// Texts up to an empty one.
std::vector<std::string> TakeList(std::string_view& rest) {
  std::vector<std::string> out;
  while (!rest.empty()) {
    const std::string_view one = TakeText(rest);
    if (one.empty()) break;
    out.emplace_back(one);
  }
  return out;
}

// ---- Rules.

bool IsPlain(std::string_view value) noexcept {
  constexpr std::string_view kMarks = ".,:;=@#%+_-|\x1f";
  return !value.starts_with('-') && std::ranges::all_of(value, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool Allows(const ProgramRule& rule, std::string_view argument) {
  if (std::ranges::find(rule.arguments, argument) != rule.arguments.end()) return true;
  return std::ranges::any_of(rule.prefixes, [&](const std::string& prefix) {
    return argument.starts_with(prefix) && IsPlain(argument.substr(prefix.size()));
  });
}

bool Passes(const ProgramRule& rule, std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  if (std::ranges::find(kAlways, name) != std::end(kAlways)) return true;
  return std::ranges::any_of(rule.variables, [&](const std::string& one) {
    return one.ends_with('_') ? name.starts_with(one) : name == one;
  });
}

// What the agent may set for a program, besides what the launcher itself was started with: an agent that is
// taken over must not choose libraries.
constexpr std::string_view kSettable[] = {"LC_ALL", "TZ", "SLURM_TIME_FORMAT", "GPULENS_FAKE_NVML",
                                          "GPULENS_FAKE_NVML_FAULTS"};
constexpr std::string_view kInherited = "/proc/self/fd/";

bool MaySet(std::string_view variable) {
  std::string_view value = variable;
  const std::string_view name = TakeUntil(value, '=');
  if (value.starts_with(kInherited)) value.remove_prefix(kInherited.size());
  return std::ranges::find(kSettable, name) != std::end(kSettable) && IsPlain(value);
}

struct Request {
  std::string program;
  std::vector<std::string> arguments, variables;
  std::vector<int> numbers;  // of its descriptors
};

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  AppendPrintable(out, text.substr(0, 200));
  return out + '"';
}

// The rule that permits it; several may be of one program.
Result<const ProgramRule*> RuleOf(const std::vector<ProgramRule>& rules, const Request& request) {
  std::string refused;
  for (const ProgramRule& rule : rules) {
    if (rule.path != request.program) continue;
    // This program confines itself as a reader process only; the first argument of the rule makes it one.
    if (rule.confines_itself &&
        (request.arguments.empty() || request.arguments.front() != rule.arguments.front()))
      continue;
    const auto bad = std::ranges::find_if_not(
        request.arguments, [&](const std::string& argument) { return Allows(rule, argument); });
    if (bad == request.arguments.end()) return &rule;
    refused = " with the argument " + Quoted(*bad);
  }
  return Status{Code::kPermissionDenied, "the agent may not start " + request.program + refused +
                                             ": programs are fixed when it starts; restart it"};
}

// ---- The launcher itself.

class Launcher {
 public:
  Launcher(LauncherOptions options, UniqueFd agent) : options_(std::move(options)) {
    clients_.push_back({std::move(agent), true});
    static_cast<void>(AllowReadingAll(readable_));
  }

  [[noreturn]] void Run() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    const UniqueFd children(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!children) ::_exit(1);
    Confine();
    while (true) {
      std::vector<pollfd> polled{{children.get(), POLLIN, 0}};
      for (const Client& client : clients_) polled.push_back({client.socket.get(), POLLIN, 0});
      const size_t clients = polled.size();
      for (const Child& child : children_) polled.push_back({child.end.get(), 0, 0});
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) ::_exit(1);
      // The agent gave up waiting for it.
      for (size_t i = clients; i < polled.size(); ++i) {
        if (polled[i].revents & POLLERR) ::kill(children_[i - clients].pid, SIGKILL);
      }
      if (polled[0].revents != 0) {
        signalfd_siginfo one;
        while (::read(children.get(), &one, sizeof one) > 0) {
        }
        Reap();
      }
      // From the last: answering may add a client.
      for (size_t i = clients - 1; i > 0; --i) {
        if (polled[i].revents == 0 || Answer(i - 1)) continue;
        // Without the agent there is nothing to do. Its programs end with this process.
        if (clients_[i - 1].starts) ::_exit(0);
        clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
    }
  }

 private:
  struct Client {
    UniqueFd socket;
    bool starts = false;  // the agent: not only for files of processes
  };
  struct Child {
    pid_t pid;
    UniqueFd end;
  };

  void Confine() {
    SandboxPlan plan{.mode = options_.mode, .filter = CallFilter::kLauncher, .files = {}, .capabilities = {}};
    plan.capabilities = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN};  // the last for readers of GPUs
    static_cast<void>(EnterSandbox(plan));
  }

  void Reap() {
    int status = 0;
    pid_t pid;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      const auto child = std::ranges::find(children_, pid, &Child::pid);
      if (child == children_.end()) continue;
      static_cast<void>(::write(child->end.get(), &status, sizeof status) > 0);
      children_.erase(child);
    }
  }

  // False: the client has gone, or sends nonsense.
  bool Answer(size_t index) {
    Result<Message> message = TakeMessage(clients_[index].socket.get());
    if (!message) return false;
    std::string_view rest = message->text;
    const std::string number(TakeText(rest));
    if (number.empty() || rest.empty()) return false;
    const char kind = rest.front();
    rest.remove_prefix(1);
    const bool starts = clients_[index].starts;
    Status status{Code::kInvalidArgument, "no such request"};
    std::string text;
    std::vector<UniqueFd> fds;
    if (kind == 'S' && starts) {
      const Result<pid_t> pid = Start(rest, std::move(message->fds));
      status = pid ? Ok() : pid.error();
      if (pid) text = std::to_string(*pid);
    } else if (kind == 'K' && starts) {
      status = Signal(rest);
    } else if (kind == 'f' || kind == 's' || kind == 'l') {
      Result<UniqueFd> file = Open(kind, std::string(TakeText(rest)));
      status = file ? Ok() : file.error();
      if (file) fds.push_back(*std::move(file));
    }
    std::string out;
    Add(out, number);
    out += static_cast<char>('0' + static_cast<int>(status.code));
    Add(out, status ? text : status.detail);
    std::vector<int> passed;
    for (const UniqueFd& fd : fds) passed.push_back(fd.get());
    // A reader process that does not take its answers holds up no other.
    return SendMessage(clients_[index].socket.get(), out, passed, starts ? 0 : MSG_DONTWAIT);
  }

  Result<pid_t> Start(std::string_view rest, std::vector<UniqueFd> fds) {
    Request request;
    request.program = TakeText(rest);
    request.arguments = TakeList(rest);
    request.variables = TakeList(rest);
    for (const std::string& number : TakeList(rest))
      request.numbers.push_back(ParseInt<int>(number).value_or(-1));
    const bool good = std::ranges::all_of(request.numbers, [](int n) { return n >= 0 && n < 1 << 20; });
    if (!good || fds.size() != request.numbers.size() + 1)
      return Status{Code::kInvalidArgument, "descriptors and their numbers differ"};
    if (children_.size() >= kMostChildren) return Status{Code::kExhausted, "too many programs are running"};
    ASSIGN_OR_RETURN(const ProgramRule* rule, RuleOf(options_.programs, request));

    std::vector<std::string> variables;
    for (std::string& one : request.variables) {
      if (MaySet(one)) variables.push_back(std::move(one));
    }
    for (char** one = environ; *one; ++one) {
      if (Passes(*rule, *one)) variables.emplace_back(*one);
    }
    std::optional<SocketPair> line;
    if (rule->reads_processes) {
      ASSIGN_OR_RETURN(SocketPair made, MakeSocketPair());
      line = std::move(made);
      ::fcntl(line->ours.get(), F_SETFL, 0);
      ::fcntl(line->theirs.get(), F_SETFL, 0);
      variables.push_back(std::string(kLauncherVariable) + "=" + std::to_string(LineNumber(request.numbers)));
    }
    const std::string_view mode = options_.mode == SandboxMode::kLog ? "log" : "enforce";
    variables.push_back(std::string(kSandboxVariable) + "=" + std::string(mode));
    std::vector<char*> argv{request.program.data()}, envp;
    for (std::string& one : request.arguments) argv.push_back(one.data());
    for (std::string& one : variables) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);

    const pid_t self = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return ErrnoStatus("fork", errno);
    if (pid == 0) {
      std::vector<std::pair<int, int>> numbers;
      for (size_t i = 0; i < request.numbers.size(); ++i)
        numbers.emplace_back(fds[i + 1].release(), request.numbers[i]);
      if (line) numbers.emplace_back(line->theirs.release(), LineNumber(request.numbers));
      Become(*rule, std::move(numbers), argv.data(), envp.data(), self);
    }
    if (line) clients_.push_back({std::move(line->ours), false});
    children_.push_back({pid, std::move(fds.front())});
    return pid;
  }

  // A number that no descriptor of the child has.
  static int LineNumber(const std::vector<int>& numbers) {
    return numbers.empty() ? 3 : std::max(3, *std::ranges::max_element(numbers) + 1);
  }

  // In the child. Nothing else runs in it, so it may allocate.
  [[noreturn]] void Become(const ProgramRule& rule, std::vector<std::pair<int, int>> numbers, char** argv,
                           char** envp, pid_t parent) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
    // First above all wanted numbers: none is overwritten before it is moved.
    int highest = 0;
    for (const auto& [from, to] : numbers) highest = std::max({highest, from, to});
    for (auto& [from, to] : numbers) {
      const int moved = ::fcntl(from, F_DUPFD_CLOEXEC, highest + 1);
      if (moved < 0) ::_exit(127);
      from = moved;
    }
    for (const auto& [from, to] : numbers) {
      if (::dup2(from, to) < 0) ::_exit(127);
    }
    if (!rule.confines_itself) {
      SandboxPlan plan{.mode = options_.mode,
                       .filter = rule.network ? CallFilter::kNetworkProgram : CallFilter::kProgram,
                       .files = readable_,
                       .capabilities = {}};
      for (const std::string& device : rule.devices) plan.files->devices.push_back(device);
      static_cast<void>(EnterSandbox(plan));
    }
    ::execve(argv[0], argv, envp);
    ::_exit(127);
  }

  Status Signal(std::string_view rest) {
    const auto pid = ParseInt<pid_t>(TakeText(rest));
    const auto signal = ParseInt<int>(TakeText(rest));
    if (!pid || !signal) return {Code::kInvalidArgument, "no pid or signal"};
    // Only its own children, which cannot have been replaced by others: they are not reaped yet.
    if (std::ranges::find(children_, *pid, &Child::pid) == children_.end())
      return {Code::kPermissionDenied, "not a program of the agent"};
    ::kill(*pid, *signal);
    return Ok();
  }

  // What of `path` is behind the root's /proc/: "17/environ". Empty: it is not there.
  std::string_view PartOfProcess(std::string_view path) const {
    std::string_view root = options_.root;
    if (root.ends_with('/')) root.remove_suffix(1);
    if (!path.starts_with(root)) return {};
    path.remove_prefix(root.size());
    return path.starts_with("/proc/") ? path.substr(6) : std::string_view();
  }

  Result<UniqueFd> Open(char kind, const std::string& path) const {
    std::string_view file = PartOfProcess(path);
    const std::string_view pid = TakeUntil(file, '/');
    const bool known = (kind == 'f' && (file == "environ" || (pid == "1" && file == "root/etc/passwd"))) ||
                       (kind == 's' && file == "fd") || (kind == 'l' && file == "ns/net");
    const auto number = ParseInt<pid_t>(pid);
    // Their environments have the secrets of the configuration.
    const bool ours = number && (*number == ::getpid() || *number == ::getppid() ||
                                 std::ranges::find(children_, *number, &Child::pid) != children_.end());
    if (!known || !number || (ours && file == "environ"))
      return Status{Code::kPermissionDenied, path + " is not opened for the agent"};
    if (kind == 'f') {
      UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
      if (!fd) return ErrnoStatus("open " + path, errno);
      return fd;
    }
    std::string text;
    if (kind == 'l') {
      ASSIGN_OR_RETURN(text, ReadProcessLink(path));
    } else {
      ASSIGN_OR_RETURN(const std::vector<uint64_t> sockets, ListProcessSockets(path, kMostSockets));
      for (uint64_t inode : sockets) text += std::to_string(inode) + "\n";
    }
    UniqueFd made(::memfd_create("gpulens-answer", MFD_CLOEXEC));
    if (!made || ::pwrite(made.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      return ErrnoStatus("memfd_create", errno);
    return made;
  }

  const LauncherOptions options_;
  FileRights readable_;          // of programs
  std::vector<Client> clients_;  // the first is the agent
  std::vector<Child> children_;
};

// ---- The agent's side.

class LauncherClient final : public ProgramStarter, public ProcessFileOpener {
 public:
  LauncherClient(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {
    if (pid > 0) end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  }

  Result<Started> Start(const ChildProcess::Options& options) override {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
    UniqueFd ours(ends[0]), theirs(ends[1]);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    std::string text;
    Add(text, options.program);
    for (const std::string& one : options.arguments) Add(text, one);
    Add(text, "");
    for (const std::string& one : options.environment) Add(text, one);
    Add(text, "");
    std::vector<int> fds{theirs.get()};
    for (const auto& [from, to] : options.pass_fds) {
      fds.push_back(from);
      Add(text, std::to_string(to));
    }
    if (fds.size() > kMostFds || text.size() >= kMostMessage - 32)
      return Status{Code::kExhausted, "too many arguments for " + options.program};
    ASSIGN_OR_RETURN(const Message answer, Query('S', text, fds));
    return Started{ParseInt<pid_t>(answer.text).value_or(-1), std::move(ours)};
  }

  void Signal(pid_t pid, int signal) noexcept override {
    std::string text;
    Add(text, std::to_string(pid));
    Add(text, std::to_string(signal));
    static_cast<void>(Query('K', text, {}));
  }

  Result<UniqueFd> Open(std::string_view question) override {
    std::string text;
    Add(text, question.substr(1));
    ASSIGN_OR_RETURN(Message answer, Query(question.front(), text, {}));
    if (answer.fds.empty()) return Status{Code::kDataLoss, "the launcher answered without a file"};
    return std::move(answer.fds.front());
  }

  int end_fd() const noexcept { return end_.get(); }
  pid_t pid() const noexcept { return pid_; }

 private:
  Result<Message> Query(char kind, std::string_view text, const std::vector<int>& fds) {
    std::lock_guard lock(mutex_);
    const std::string number = std::to_string(++number_);
    std::string out;
    Add(out, number);
    out += kind;
    out += text;
    if (!SendMessage(socket_.get(), out, fds))
      return Status{Code::kUnavailable, "the launcher has ended: the agent must be restarted"};
    while (true) {
      ASSIGN_OR_RETURN(Message answer, TakeMessage(socket_.get()));
      std::string_view rest = answer.text;
      if (TakeText(rest) != number) continue;  // of a question that was given up
      if (rest.empty()) return Status{Code::kDataLoss, "the launcher answers nonsense"};
      const auto code = static_cast<Code>(rest.front() - '0');
      rest.remove_prefix(1);
      std::string detail(TakeText(rest));
      if (code != Code::kOk) return Status{code, std::move(detail)};
      answer.text = std::move(detail);
      return answer;
    }
  }

  const UniqueFd socket_;
  const pid_t pid_;
  UniqueFd end_;
  std::mutex mutex_;
  uint64_t number_ = 0;
};

LauncherClient* client = nullptr;  // never destroyed: threads may outlive main

void UseClient(UniqueFd socket, pid_t pid, bool starts) {
  client = new LauncherClient(std::move(socket), pid);
  OpenProcessFilesBy(client);
  if (starts) StartProgramsBy(client);
}

}  // namespace

Status StartLauncher(LauncherOptions options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus("socketpair", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t agent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return ErrnoStatus("no process for the launcher, which counts as the agent's threads do: fork", errno);
  if (pid == 0) {
    ours.reset();
    // Sockets that the agent inherited are not its, either.
    const auto kept = static_cast<unsigned>(theirs.get());
    if (kept > 3) ::syscall(SYS_close_range, 3U, kept - 1, 0U);
    ::syscall(SYS_close_range, kept + 1, ~0U, 0U);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != agent) ::_exit(1);
    ::prctl(PR_SET_NAME, "gpulens-launch");
    // Ctrl-C and the end of a terminal reach its whole group; this ends with the agent.
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    Launcher(std::move(options), std::move(theirs)).Run();
  }
  UseClient(std::move(ours), pid, true);
  return Ok();
}

int LauncherEndFd() noexcept { return client ? client->end_fd() : -1; }
int LauncherPid() noexcept { return client ? client->pid() : -1; }

void UseInheritedLauncher() {
  const char* number = std::getenv(kLauncherVariable);
  const auto fd = number ? ParseInt<int>(std::string_view(number)) : std::nullopt;
  if (fd && *fd > 2) UseClient(UniqueFd(*fd), -1, false);
}

}  // namespace gpulens
