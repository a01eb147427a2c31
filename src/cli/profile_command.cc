// `gpulens profile`: the time of GPU kernels by name, as a table, a pprof file, or OTLP profiles.
#include <cxxabi.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/run_probes.h"
#include "cli/url/url_request.h"
#include "config/value_parse.h"
#include "job_page/job_page.h"
#include "job_page/job_page_reader.h"
#include "net/blocking/blocking_post.h"
#include "net/client/http_client.h"
#include "wire/packing.h"
#include "wire/pprof/kernel_profile.h"

namespace gpulens {
namespace {

using job_page::JobPageReader;
using job_page::KernelsCopy;
using job_page::Level;
using job_page::PageCopy;

constexpr const char* kProfileFooter = R"(
  gpulens profile python train.py                          a table of kernels when it has ended
  gpulens profile -o kernels.pb.gz python train.py         go tool pprof -http : kernels.pb.gz
  gpulens profile --for 30s -o kernels.pb.gz 4711          a running process that was started with libgpulens-cuda.so
  gpulens profile --otlp http://collector:4318 python train.py

The program loads libgpulens-cuda.so (docs/cuda.md), which times each kernel: it may run slower. Options of the program come
after its name. Names of kernels leave in profiles alone, never as labels of metrics.
Exit: that of the program · 0 written · 1 nothing could be measured or written · 2 wrong use)";

// The library gets kernels from CUPTI once a second, or after 3 s of a program that never waits for its GPU.
constexpr Duration kShortest = std::chrono::seconds(3);

struct ProfileOptions {
  std::string output, otlp, length = "10s";
  std::vector<std::string> headers, words;
  size_t most = 30;
};

// Totals of a kernel over all processes.
using KernelKey = std::pair<std::string, std::string>;  // symbol, device
struct KernelTotals {
  uint64_t count = 0, total_ns = 0;
};
struct Measured {
  std::map<KernelKey, KernelTotals> kernels;
  uint64_t dropped = 0;
  std::vector<std::string> troubles;
  size_t pages = 0;
};

std::string DeviceName(const PageCopy& page, int32_t device) {
  for (const job_page::CudaDeviceCopy& known : page.devices) {
    if (static_cast<int64_t>(known.device) == device && !known.device_id.empty()) return known.device_id;
  }
  return device < 0 ? "unknown" : std::to_string(device);
}

void AddKernels(const PageCopy& page, const KernelsCopy& kernels, Measured& out) {
  for (const job_page::KernelCopy& kernel : kernels.kernels) {
    KernelTotals& totals = out.kernels[{kernel.name, DeviceName(page, kernel.device)}];
    totals.count += kernel.count, totals.total_ns += kernel.total_ns;
  }
  if (kernels.other_count > 0) {
    KernelTotals& totals = out.kernels[{"(others)", "unknown"}];
    totals.count += kernels.other_count, totals.total_ns += kernels.other_ns;
  }
  out.dropped += page.lost[static_cast<size_t>(job_page::Loss::kDropped)];
  if (!page.trouble.empty()) out.troubles.push_back(page.trouble);
  ++out.pages;
}

void Subtract(const KernelsCopy& before, const PageCopy& page, Measured& out) {
  const auto subtract = [&](const KernelKey& key, uint64_t count, uint64_t total_ns) {
    const auto at = out.kernels.find(key);
    if (at == out.kernels.end()) return;
    at->second.count -= std::min(at->second.count, count);
    at->second.total_ns -= std::min(at->second.total_ns, total_ns);
    if (at->second.count == 0) out.kernels.erase(at);
  };
  for (const job_page::KernelCopy& kernel : before.kernels)
    subtract({kernel.name, DeviceName(page, kernel.device)}, kernel.count, kernel.total_ns);
  subtract({"(others)", "unknown"}, before.other_count, before.other_ns);
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), ::free);
  return status == 0 && text ? std::string(text.get()) : symbol;
}

// A socket at which libraries of the program hand over their pages, in a folder of its own.
class PageSocket {
 public:
  static Result<std::unique_ptr<PageSocket>> Open() {
    const char* base = std::getenv("TMPDIR");
    std::string folder = std::string(base && *base ? base : "/tmp") + "/gpulens-profile-XXXXXX";
    if (!::mkdtemp(folder.data())) return ErrnoStatus("mkdtemp " + folder, errno);
    auto out = std::unique_ptr<PageSocket>(new PageSocket(folder));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (out->path_.size() >= sizeof address.sun_path)
      return Status{Code::kInvalidArgument, out->path_ + " is too long for a socket; set TMPDIR"};
    out->path_.copy(address.sun_path, out->path_.size());
    out->socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!out->socket_ ||
        ::bind(out->socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(out->socket_.get(), 64) != 0)
      return ErrnoStatus("listen at " + out->path_, errno);
    return out;
  }
  PageSocket(const PageSocket&) = delete;
  PageSocket& operator=(const PageSocket&) = delete;
  ~PageSocket() {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return socket_.get(); }
  // Takes the connections that wait. The library writes its packet at once after it connects.
  void Accept() {
    for (;;) {
      UniqueFd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) return;
      if (auto reader = Receive(connection.get()); reader && pages_.size() < kMostPages)
        pages_.push_back({std::move(connection), std::move(*reader)});
    }
  }
  Measured Read(const Clock& clock) {
    Measured out;
    for (Page& page : pages_) {
      PageCopy copy;
      KernelsCopy kernels;
      if (page.reader.Read(clock.Now(), copy) && copy.writer == job_page::Writer::kCudaInjection &&
          page.reader.ReadKernels(kernels))
        AddKernels(copy, kernels, out);
    }
    return out;
  }

 private:
  static constexpr size_t kMostPages = 256;
  struct Page {
    UniqueFd connection;
    JobPageReader reader;
  };
  explicit PageSocket(std::string folder) : folder_(std::move(folder)), path_(folder_ + "/job.sock") {}

  static Result<JobPageReader> Receive(int connection) {
    job_page::Hello hello{};
    iovec bytes{&hello, sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    pollfd waiting{connection, POLLIN, 0};
    ::poll(&waiting, 1, 1000);
    const ssize_t got = ::recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const cmsghdr* rights = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (!rights || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof(int)))
      return Status{Code::kDataLoss, "no page"};
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    UniqueFd owned(fd);
    if (got != static_cast<ssize_t>(sizeof hello) || hello.magic != job_page::kMagic ||
        hello.layout != job_page::kLayout)
      return Status{Code::kDataLoss, "a page of another layout"};
    return JobPageReader::FromDescriptor(std::move(owned));
  }

  const std::string folder_, path_;
  UniqueFd socket_;
  std::vector<Page> pages_;
};

UniqueFd StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

struct Outcome {
  Measured measured;
  int64_t begin_unix_ns = 0, duration_ns = 0;
  int code = 0;
  std::string program;
};

Result<Outcome> ProfileProgram(const std::vector<std::string>& command, const Clock& clock) {
  ASSIGN_OR_RETURN(const auto socket, PageSocket::Open());
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return ErrnoStatus("/proc/self/exe", errno);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  JobProbes probes;
  probes.cuda = true;
  probes.cuda_level = "profile";
  ASSIGN_OR_RETURN(
      const EnvironmentVariables set,
      JobProbeEnvironment(probes, JobProbeFolders::Of(std::string(self, static_cast<size_t>(length))),
                          variable));
  ChildProcess::Options options;
  for (const auto& [name, value] : set) {
    if (name != job_page::kSocketVariable) options.environment.push_back(name + "=" + value);
  }
  options.environment.push_back(std::string(job_page::kSocketVariable) + "=" + socket->path());
  ASSIGN_OR_RETURN(options.program, FindProgram(command.front()));
  options.arguments.assign(command.begin() + 1, command.end());
  const UniqueFd signals = StopSignals();
  Outcome out;
  out.program = command.front();
  const Instant begin = clock.Now();
  out.begin_unix_ns = begin.unix_ns;
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(options));
  std::optional<int> status;
  while (!status) {
    pollfd waiting[] = {{socket->fd(), POLLIN, 0}, {child.end_fd(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    ::poll(waiting, 3, -1);
    signalfd_siginfo info{};
    while (::read(signals.get(), &info, sizeof info) == sizeof info) {
      // Ctrl-C of a terminal has reached the program, too.
      if (info.ssi_code != SI_KERNEL) child.Signal(static_cast<int>(info.ssi_signo));
    }
    socket->Accept();
    status = child.TryWait();
  }
  socket->Accept();
  out.duration_ns = clock.Now().boot_ns - begin.boot_ns;
  out.measured = socket->Read(clock);
  out.code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
  return out;
}

// The page that a running process has mapped: a file in memory by /proc/PID/map_files, which takes
// CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, or a file of the folder of pages, which takes its user.
Result<JobPageReader> OpenPageOf(int64_t pid, const Clock& clock) {
  const std::string folder = "/proc/" + std::to_string(pid);
  ASSIGN_OR_RETURN(const std::string maps, ReadFile(folder + "/maps", size_t{16} << 20));
  Status last{Code::kUnavailable,
              "process " + std::to_string(pid) +
                  " has no page of gpulens: start it by gpulens run --probes=cuda, or by gpulens profile"};
  for (std::string_view rest = maps; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find("gpulens-job") == std::string_view::npos) continue;
    const std::string range(line.substr(0, line.find(' ')));
    const std::string path = folder + "/map_files/" + range;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd && errno != ENOENT) last = ErrnoStatus(path, errno);
    if (!fd) {
      const size_t at = line.find('/');
      const std::string file(at == std::string_view::npos ? std::string_view() : line.substr(at));
      if (!file.starts_with("/memfd:"))
        fd.reset(::open((folder + "/root" + file).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    }
    if (!fd) continue;
    auto reader = JobPageReader::FromDescriptor(std::move(fd));
    if (!reader) {
      last = reader.error();
      continue;
    }
    PageCopy page;
    const Status read = reader->Read(clock.Now(), page);
    if (read && page.writer == job_page::Writer::kCudaInjection) return std::move(*reader);
    if (!read) last = read;
  }
  return last;
}

Result<Outcome> ProfileProcess(int64_t pid, Duration length, const Clock& clock) {
  ASSIGN_OR_RETURN(JobPageReader reader, OpenPageOf(pid, clock));
  PageCopy page;
  KernelsCopy before, after;
  RETURN_IF_ERROR(reader.Read(clock.Now(), page));
  RETURN_IF_ERROR(reader.ReadKernels(before));
  const Level wanted = page.wanted;
  const uint64_t dropped = page.lost[static_cast<size_t>(job_page::Loss::kDropped)];
  const UniqueFd signals = StopSignals();
  const Instant begin = clock.Now();
  RETURN_IF_ERROR(reader.SetWantedLevel(Level::kProfile));
  pollfd waiting{signals.get(), POLLIN, 0};
  ::poll(&waiting, 1,
         static_cast<int>(std::min<int64_t>(
             std::chrono::duration_cast<std::chrono::milliseconds>(length).count(), INT_MAX)));
  Status status = reader.Read(clock.Now(), page);
  if (status) status = reader.ReadKernels(after);
  const Status restored = reader.SetWantedLevel(wanted);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(restored);
  Outcome out;
  out.program = "process " + std::to_string(pid);
  out.begin_unix_ns = begin.unix_ns;
  out.duration_ns = clock.Now().boot_ns - begin.boot_ns;
  AddKernels(page, after, out.measured);
  Subtract(before, page, out.measured);
  out.measured.dropped -= std::min(out.measured.dropped, dropped);
  if (page.actual != Level::kProfile && page.trouble.empty())
    out.measured.troubles.push_back(
        "it made no CUDA call in which it could begin: launches and synchronisation calls");
  return out;
}

std::string Seconds(uint64_t ns) { return Printed("%.6f", static_cast<double>(ns) * 1e-9); }

std::string TableText(const KernelProfile& profile, size_t most) {
  uint64_t all = 0;
  for (const auto& kernel : profile.kernels) all += kernel.total_ns;
  TextTable table({"seconds", "share", "kernels", "mean µs", "device", "name"});
  for (size_t column = 0; column < 4; ++column) table.AlignRight(column);
  for (size_t i = 0; i < profile.kernels.size() && i < most; ++i) {
    const KernelProfile::Kernel& kernel = profile.kernels[i];
    table.Add(
        {Seconds(kernel.total_ns),
         Printed("%.1f %%",
                 all ? 100.0 * static_cast<double>(kernel.total_ns) / static_cast<double>(all) : 0),
         CountText(static_cast<int64_t>(kernel.count)),
         Printed("%.1f", static_cast<double>(kernel.total_ns) / static_cast<double>(kernel.count) * 1e-3),
         kernel.device, Shortened(kernel.name, 160)});
  }
  std::string out = table.Text();
  if (profile.kernels.size() > most)
    out += "and " + CountText(static_cast<int64_t>(profile.kernels.size() - most)) + " more\n";
  return out;
}

Status SendOtlp(const KernelProfile& profile, const Outcome& outcome, const ProfileOptions& options) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(options.otlp));
  if (!url.has_path || url.target == "/") url.target = "/v1development/profiles";
  ASSIGN_OR_RETURN(const UrlRequest request, MakeUrlRequest(url, "Content-Type: application/x-protobuf\r\n",
                                                            {.headers = options.headers}));
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string id(16, '\0');
  for (size_t i = 0; i < 8; ++i) {
    id[i] = static_cast<char>(static_cast<uint64_t>(outcome.begin_unix_ns) >> (8 * i));
    id[8 + i] = static_cast<char>(static_cast<uint64_t>(::getpid()) >> (8 * i));
  }
  const std::string body = EncodeOtlpProfiles(
      profile, {.resource = AttributeSet({{"host.name", std::string_view(host)},
                                          {"service.name", std::string_view("gpulens")},
                                          {"process.command", std::string_view(outcome.program)}}),
                .scope_name = "gpulens",
                .scope_version = Version(),
                .profile_id = id});
  LinkSecurePost();
  BlockingPost post;
  BlockingPost::Request sent{.url = url, .unix_socket = {}, .headers = request.fields, .body = body};
  const auto reply = url.tls ? LinkedSecurePost()(sent, std::chrono::seconds(30))
                             : post.Send(sent, std::chrono::seconds(30));
  if (!reply) return reply.error();
  if (reply->status / 100 != 2)
    return {Code::kUnavailable, url.Shown() + ": HTTP " + std::to_string(reply->status) + " " +
                                    Shortened(Printable(reply->body), 200)};
  return Ok();
}

int RunProfile(const ProfileOptions& options) {
  if (options.words.empty())
    return FailCommand("profile", "no program and no process given   gpulens profile python train.py", 2);
  Duration length{};
  if (ParseTimeValue(options.length, length) || length < kShortest)
    return FailCommand(
        "profile",
        "--for " + options.length +
            ": expected a time of 3s or more, as 30s; CUPTI keeps what it measured for up to 3 s",
        2);
  if (!options.otlp.empty()) {
    if (const auto url = ParseHttpUrl(options.otlp); !url)
      return FailCommand("profile", "--otlp: " + url.error().detail, 2);
  }
  const Clock& clock = RealClock();
  const auto pid = options.words.size() == 1 ? ParseInt<int64_t>(options.words.front()) : std::nullopt;
  const auto outcome = pid ? ProfileProcess(*pid, length, clock) : ProfileProgram(options.words, clock);
  if (!outcome) return FailCommand("profile", outcome.error());
  for (const std::string& trouble : outcome->measured.troubles) WriteNote("gpulens profile: " + trouble);
  if (outcome->measured.dropped > 0)
    WriteNote("gpulens profile: CUPTI dropped " + CountText(static_cast<int64_t>(outcome->measured.dropped)) +
              " records");
  if (outcome->measured.pages == 0)
    WriteNote("gpulens profile: " + outcome->program +
              " did not load the library: it did not use CUDA, or cleared its environment");
  KernelProfile profile;
  profile.begin_unix_ns = outcome->begin_unix_ns;
  profile.duration_ns = outcome->duration_ns;
  for (const auto& [key, totals] : outcome->measured.kernels)
    profile.kernels.push_back({Demangled(key.first), key.first, key.second, totals.count, totals.total_ns});
  std::ranges::sort(profile.kernels, std::ranges::greater(), &KernelProfile::Kernel::total_ns);
  int code = outcome->measured.pages == 0 ? 1 : 0;
  if (!options.output.empty()) {
    std::string packed;
    GzipCompressor(6).Compress(EncodePprof(profile), packed);
    const Status written = options.output == "-"
                               ? (WriteOut(packed) ? Ok() : Status{Code::kIo, "standard output is closed"})
                               : WriteFileAtomically(options.output, packed);
    if (!written) code = FailCommand("profile", written);
  }
  if (!options.otlp.empty()) {
    if (const Status sent = SendOtlp(profile, *outcome, options); !sent) code = FailCommand("profile", sent);
  }
  if (options.output.empty() && options.otlp.empty() && code == 0 &&
      !WriteOut(TableText(profile, options.most)))
    code = 1;
  return outcome->code != 0 ? outcome->code : code;
}

}  // namespace

void AddProfile(CLI::App& app, int& code) {
  auto* const profile =
      app.add_subcommand("profile", "Time of GPU kernels by name, of a program or a process");
  profile->footer(kProfileFooter);
  const auto options = std::make_shared<ProfileOptions>();
  AddOption(*profile, "-o,--output", options->output,
            "Write a pprof file, packed by gzip; - is standard output", "FILE");
  AddOption(*profile, "--otlp", options->otlp, "Send OTLP profiles (v1development) to this URL", "URL");
  AddOption(*profile, "--header", options->headers, "A field of the request, as \"Authorization: Bearer …\"",
            "FIELD")
      ->allow_extra_args(false);
  AddOption(*profile, "--for", options->length, "How long a running process is measured (10s)", "TIME");
  profile->add_option("PROGRAM", options->words, "A program with its arguments, or the number of a process");
  profile->positionals_at_end();
  profile->callback([options, &code] { code = RunProfile(*options); });
}

}  // namespace gpulens
