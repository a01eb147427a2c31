// Real probes on real processes. Skipped with the reason where that is not allowed.
#include "sources/bpf/probe_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/temp_folder.h"
#include "sources/bpf/elf_file.h"
#include "sources/bpf/governor.h"

namespace gpulens::bpf {
namespace {

const std::string kFakes = BPF_FAKES;

std::string LibraryOf(const std::string& style) { return kFakes + "/" + style + "/libcuda.so.1"; }

const Capabilities& Machine() {
  static const Capabilities machine = FindCapabilities(RealCapabilityProbe());
  return machine;
}

// A program that calls the fake library on request.
class Caller {
 public:
  // `command` runs instead of the caller.
  explicit Caller(std::vector<std::string> command = {kFakes + "/bpf_caller"}) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0), ::dup2(out[1], 1);
      std::vector<char*> arguments;
      for (std::string& one : command) arguments.push_back(one.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(9);
    }
    ::close(in[0]), ::close(out[1]);
    in_ = in[1], out_ = ::fdopen(out[0], "r");
    Wait("ready");
  }
  ~Caller() {
    ::close(in_);
    (void)::fclose(out_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void Send(const std::string& line) {
    const std::string text = line + "\n";
    if (::write(in_, text.data(), text.size()) < 0) ADD_FAILURE() << "caller is gone";
  }
  // The next line that begins so.
  std::string Wait(const std::string& begin) {
    std::array<char, 4096> line{};
    while (::fgets(line.data(), line.size(), out_)) {
      const std::string text(Trim(line.data()));
      if (text.starts_with(begin)) return text;
    }
    ADD_FAILURE() << "no line \"" << begin << "\"";
    return {};
  }
  std::string Do(const std::string& line, const std::string& answer) {
    Send(line);
    return Wait(answer);
  }
  void Open(const std::string& library) { Do("open " + library, "opened"); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  FILE* out_ = nullptr;
};

class ProbeSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Machine().launches()) GTEST_SKIP() << Machine().trouble();
  }
  std::unique_ptr<ProbeSession> Open(ProbeSession::Options options = {}) {
    options.capabilities = Machine();
    auto session = ProbeSession::Open(options);
    if (!session) {
      ADD_FAILURE() << session.error().detail;
      return nullptr;
    }
    return *std::move(session);
  }
};

uint64_t CallsOf(const ProbeStats& stats, pid_t pid, CudaFunction function) {
  for (const ProcessStats& process : stats.processes) {
    if (process.key.pid == pid) return process.functions[static_cast<size_t>(function)].calls;
  }
  return 0;
}
uint64_t AllCalls(const ProbeStats& stats, CudaFunction function) {
  uint64_t sum = 0;
  for (const ProcessStats& process : stats.processes)
    sum += process.functions[static_cast<size_t>(function)].calls;
  return sum;
}
const ProcessStats* Of(const ProbeStats& stats, pid_t pid) {
  for (const ProcessStats& process : stats.processes) {
    if (process.key.pid == pid) return &process;
  }
  return nullptr;
}

constexpr AttachKinds kLaunches = {.launches = true, .synchronizes = false, .data_waits = false};
constexpr AttachKinds kCalls = {.launches = true, .synchronizes = true, .data_waits = false};

TEST_F(ProbeSessionTest, CountsEveryCallOfThreadsAndProcesses) {
  auto session = Open();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->links(), 0u);
  EXPECT_GT(session->costs().count_ns, 20);
  EXPECT_GE(session->costs().timed_ns, session->costs().count_ns);
  Caller caller;
  caller.Open(LibraryOf("push"));
  const auto attached = session->Attach(caller.pid(), kCalls);
  ASSERT_TRUE(attached) << attached.error().detail;
  ASSERT_EQ(attached->libraries.size(), 1u);
  EXPECT_EQ(attached->libraries[0].name, "libcuda.so.1");
  for (const FunctionOutcome& function : attached->libraries[0].functions)
    EXPECT_EQ(function.refusal, Refusal::kNone) << function.symbol << ": " << function.sentence;
  caller.Do("call cuLaunchKernel 20000 0 1", "called");
  caller.Do("call cuLaunchKernel_ptsz 3000 0 1", "called");
  caller.Do("call cuLaunchCooperativeKernel 10000 0 4", "called");
  caller.Do("call cuGraphLaunch 11 0 1", "called");
  caller.Do("call cuStreamSynchronize 7 0 1", "called");
  caller.Do("fork cuLaunchKernel 5000 0 3", "forked");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kLaunchKernel), 23000u);
  EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kLaunchCooperative), 40000u);
  EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kGraphLaunch), 11u);
  EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kStreamSynchronize), 7u);
  EXPECT_EQ(AllCalls(*stats, CudaFunction::kLaunchKernel), 23000u + 3 * 5000);
  // The children have ended: they are reported once.
  EXPECT_EQ(stats->processes.size(), 4u);
  const auto again = session->Read();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->processes.size(), 1u);
  EXPECT_EQ(stats->lost.series_full + stats->lost.processes_full + stats->lost.recursion, 0u);
  if (session->mechanism() == Mechanism::kSession) {
    const auto& all = Of(*stats, caller.pid())->functions[0];
    EXPECT_EQ(all.duration.count, all.calls);  // one in one is timed
    EXPECT_EQ(all.nested, 0u);
  }
}

TEST_F(ProbeSessionTest, LeavesOthersUncounted) {
  auto session = Open();
  ASSERT_TRUE(session);
  Caller one, other;
  one.Open(LibraryOf("push")), other.Open(LibraryOf("push"));
  ASSERT_TRUE(session->Attach(one.pid(), kLaunches));
  one.Do("call cuLaunchKernel 100 0 1", "called");
  other.Do("call cuLaunchKernel 900 0 1", "called");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  EXPECT_EQ(AllCalls(*stats, CudaFunction::kLaunchKernel), 100u);
  ASSERT_EQ(stats->libraries.size(), 1u);
  EXPECT_EQ(stats->libraries[0].calls, 1000u);  // what the probe cost
  session->Detach(one.pid());
  EXPECT_EQ(session->links(), 0u);
}

TEST_F(ProbeSessionTest, FollowsExecAndLibrariesThatComeLate) {
  auto session = Open();
  ASSERT_TRUE(session);
  Caller caller;
  const auto attached = session->Attach(caller.pid(), kLaunches);
  ASSERT_TRUE(attached) << attached.error().detail;
  EXPECT_TRUE(attached->libraries.empty());
  caller.Open(LibraryOf("push"));
  EXPECT_EQ(session->Follow(), 1u);
  EXPECT_EQ(session->Follow(), 0u);
  caller.Do("call cuLaunchKernel 1000 0 1", "called");
  const std::string executed = caller.Do("exec cuLaunchKernel 77 " + LibraryOf("endbr"), "executed");
  const auto child = ParseInt<pid_t>(executed.substr(9));
  ASSERT_TRUE(child);
  EXPECT_EQ(session->Follow(), 1u);
  caller.Do("now", "called");
  caller.Do("end", "forked");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kLaunchKernel), 1000u);
  EXPECT_EQ(CallsOf(*stats, *child, CudaFunction::kLaunchKernel), 77u);
  const ProcessStats* process = Of(*stats, *child);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->execs, 1u);
  EXPECT_EQ(process->root, caller.pid());
  EXPECT_TRUE(process->ended);
}

TEST_F(ProbeSessionTest, CountsInAnotherMountAndPidNamespace) {
  const testing::TempFolder folder;
  auto session = Open();
  ASSERT_TRUE(session);
  // The library lies in a file system that only the process sees.
  const std::string script = folder.WriteProgram(
      "contained", "mount -t tmpfs none " + folder.path() + "/in || exit 7\ncp " + LibraryOf("push") + " " +
                       folder.path() + "/in/libcuda.so.1\nexec " + kFakes + "/bpf_caller\n");
  ASSERT_EQ(::mkdir((folder.path() + "/in").c_str(), 0755), 0);
  if (::system("unshare --mount --pid --fork true 2>/dev/null") != 0) GTEST_SKIP() << "no namespaces here";
  Caller caller({"unshare", "--mount", "--pid", "--fork", "--kill-child", script});

  caller.Open(folder.path() + "/in/libcuda.so.1");
  const auto attached = session->Attach(caller.pid(), kLaunches);
  ASSERT_TRUE(attached) << attached.error().detail;
  ASSERT_EQ(attached->libraries.size(), 1u) << attached->trouble;
  caller.Do("call cuLaunchKernel 1234 0 1", "called 1");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  EXPECT_EQ(AllCalls(*stats, CudaFunction::kLaunchKernel), 1234u);
}

TEST_F(ProbeSessionTest, CountsInADeletedLibrary) {
  const testing::TempFolder folder;
  auto bytes = ReadFile(LibraryOf("push"), 4u << 20);
  ASSERT_TRUE(bytes);
  const std::string path = folder.Write("libcuda.so.1", *bytes);
  auto session = Open();
  ASSERT_TRUE(session);
  Caller caller;
  caller.Open(path);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const auto attached = session->Attach(caller.pid(), kLaunches);
  ASSERT_TRUE(attached) << attached.error().detail;
  // Without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE it cannot be opened, and that is reported.
  if (attached->trouble.starts_with("not_readable: ")) GTEST_SKIP() << attached->trouble;
  ASSERT_EQ(attached->libraries.size(), 1u) << attached->trouble;
  caller.Do("call cuLaunchKernel 55 0 1", "called");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  EXPECT_EQ(AllCalls(*stats, CudaFunction::kLaunchKernel), 55u);
}

TEST_F(ProbeSessionTest, RefusesWhatTheKernelWouldSingleStep) {
  auto session = Open();
  ASSERT_TRUE(session);
  for (const auto& [style, refusal] :
       std::map<std::string, Refusal>{{"sub", Refusal::kSingleStep}, {"nop5", Refusal::kSyscall}}) {
    Caller caller;
    caller.Open(LibraryOf(style));
    const auto attached = session->Attach(caller.pid(), kLaunches);
    ASSERT_TRUE(attached) << attached.error().detail;
    ASSERT_EQ(attached->libraries.size(), 1u);
    for (const FunctionOutcome& function : attached->libraries[0].functions) {
      EXPECT_EQ(function.refusal, refusal) << style << " " << function.symbol;
      EXPECT_FALSE(function.sentence.empty());
    }
    caller.Do("call cuLaunchKernel 55 0 1", "called");
    const auto stats = session->Read();
    ASSERT_TRUE(stats);
    EXPECT_EQ(CallsOf(*stats, caller.pid(), CudaFunction::kLaunchKernel), 0u);
    session->Detach(caller.pid());
  }
}

TEST_F(ProbeSessionTest, TimesOneInSomeAndNotesNestedCalls) {
  if (Machine().mechanism != Mechanism::kSession) GTEST_SKIP() << "calls cannot be timed here";
  auto session = Open();
  ASSERT_TRUE(session);
  Caller caller;
  caller.Open(LibraryOf("push"));
  const auto attached = session->Attach(caller.pid(), kLaunches);
  ASSERT_TRUE(attached);
  const LibraryOutcome& library = attached->libraries.at(0);
  session->SetSampling(library.device, library.inode, 64);
  caller.Do("call cuLaunchKernel 64000 0 2", "called");
  auto stats = session->Read();
  ASSERT_TRUE(stats);
  const FunctionStats sampled = Of(*stats, caller.pid())->functions[0];
  EXPECT_EQ(sampled.calls, 128000u);
  EXPECT_NEAR(static_cast<double>(sampled.duration.count), 2000, 20);
  session->SetSampling(library.device, library.inode, 0);
  caller.Do("call cuLaunchKernel 1000 0 1", "called");
  stats = session->Read();
  EXPECT_EQ(Of(*stats, caller.pid())->functions[0].calls, 129000u);
  EXPECT_EQ(Of(*stats, caller.pid())->functions[0].duration.count, sampled.duration.count);
  session->SetSampling(library.device, library.inode, 1);
  caller.Do("call cuLaunchKernelEx 500 0 1", "called");
  stats = session->Read();
  const ProcessStats* process = Of(*stats, caller.pid());
  EXPECT_EQ(process->functions[1].calls, 500u);
  EXPECT_EQ(process->functions[0].calls, 129500u);
  EXPECT_EQ(process->functions[0].nested, 500u);
  EXPECT_EQ(process->functions[1].nested, 0u);
}

// Those of a line after its first word.
std::vector<double> NumbersOf(std::string_view line) {
  std::vector<double> out;
  TakeUntil(line, ' ');
  while (!line.empty()) out.push_back(ParseDouble(TakeUntil(line, ' ')).value_or(-1));
  return out;
}

double Quantile(const job_page::HistogramCopy& histogram, double q) {
  const double wanted = q * static_cast<double>(histogram.count);
  uint64_t seen = 0;
  for (size_t i = 0; i < histogram.buckets.size(); ++i) {
    seen += histogram.buckets[i];
    if (static_cast<double>(seen) >= wanted) return static_cast<double>(i);
  }
  return 0;
}

TEST_F(ProbeSessionTest, QuantilesAreWithinOneBucket) {
  if (Machine().mechanism != Mechanism::kSession) GTEST_SKIP() << "calls cannot be timed here";
  auto session = Open();
  ASSERT_TRUE(session);
  Caller caller;
  caller.Open(LibraryOf("push"));
  ASSERT_TRUE(session->Attach(caller.pid(), kLaunches));
  const std::string mixed = caller.Do("mix cuLaunchKernel 1000", "mixed ");
  const std::vector<double> truth = NumbersOf(mixed);
  ASSERT_EQ(truth.size(), 3u);
  const double p50 = truth[0], p99 = truth[1], sum = truth[2];
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  const job_page::HistogramCopy& duration = Of(*stats, caller.pid())->functions[0].duration;
  EXPECT_EQ(duration.count, 1000u);
  const auto bucket = [](double ns) {
    return static_cast<double>(job_page::Histogram::BucketOf(static_cast<uint64_t>(ns)));
  };
  EXPECT_NEAR(Quantile(duration, 0.5), bucket(p50), 1);
  EXPECT_NEAR(Quantile(duration, 0.99), bucket(p99), 1);
  EXPECT_NEAR(static_cast<double>(duration.sum_ns), sum, 0.02 * sum);
}

// The first byte of a function in another process.
int FirstByte(pid_t pid, const std::string& library, std::string_view function) {
  const UniqueFd file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
  const auto found = FindElfFunctions(file.get(), std::span(&function, 1));
  const auto facts = ReadProcess("/proc", pid);
  if (!found || found->functions.empty() || !facts) return -1;
  for (const LoadedLibrary& loaded : facts->libraries) {
    const uint64_t offset = found->functions[0].offset;
    if (offset < loaded.file.offset || offset - loaded.file.offset >= loaded.file.end - loaded.file.begin)
      continue;
    const UniqueFd memory(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    unsigned char byte = 0;
    const auto at = static_cast<off_t>(loaded.file.begin + (offset - loaded.file.offset));
    return ::pread(memory.get(), &byte, 1, at) == 1 ? byte : -1;
  }
  return -1;
}

TEST_F(ProbeSessionTest, NothingStaysWhenItsProcessIsKilled) {
  Caller caller;
  caller.Open(LibraryOf("push"));
  const int before = FirstByte(caller.pid(), LibraryOf("push"), "cuLaunchKernel");
  ASSERT_GE(before, 0);
  std::array<int, 2> attached{};
  ASSERT_EQ(::pipe2(attached.data(), O_CLOEXEC), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    ProbeSession::Options options;
    options.capabilities = Machine();
    auto session = ProbeSession::Open(options);
    const char done = session && (*session)->Attach(caller.pid(), kCalls) ? '1' : '0';
    if (::write(attached[1], &done, 1) == 1) ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(attached[0], &done, 1), 1);
  ASSERT_EQ(done, '1');
  EXPECT_NE(FirstByte(caller.pid(), LibraryOf("push"), "cuLaunchKernel"), before);
  ::kill(holder, SIGKILL);
  const Instant killed = RealClock().Now();
  ::waitpid(holder, nullptr, 0);
  while (FirstByte(caller.pid(), LibraryOf("push"), "cuLaunchKernel") != before &&
         RealClock().Now() - killed < std::chrono::seconds(5)) {
    (void)::poll(nullptr, 0, 5);
  }
  const double took = std::chrono::duration<double>(RealClock().Now() - killed).count();
  EXPECT_LT(took, 1.0);
  RecordProperty("restored_ms", static_cast<int>(took * 1000));
  caller.Do("call cuLaunchKernel 100 0 1", "called");
  ::close(attached[0]), ::close(attached[1]);
}

// Runs the governor over a session, as its process does, until a time has passed.
Instant RunGoverned(ProbeSession& session, Governor& governor, Duration time) {
  const Instant begin = RealClock().Now();
  Instant detached{};
  while (RealClock().Now() - begin < time) {
    const auto stats = session.Read();
    if (!stats) break;
    for (const Decision& one : governor.Step(RealClock().Now(), session.Loads(*stats))) {
      const Status applied = session.Apply(one);
      if (!applied) ADD_FAILURE() << applied.detail;
      if (!one.attached && detached.boot_ns == 0) detached = RealClock().Now();
    }
    const Duration wait = governor.Wait(RealClock().Now());
    (void)::poll(nullptr, 0, static_cast<int>(wait.count() / 1'000'000) + 1);
  }
  return detached;
}

TEST_F(ProbeSessionTest, AStormIsLeftAloneWithinASecond) {
  const std::string storm = "storm cuLaunchKernel 300 1000";  // two million calls a second or so
  Caller caller;
  caller.Open(LibraryOf("push"));
  auto session = Open();
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->Attach(caller.pid(), kLaunches));
  Governor governor({});
  const Instant begin = RealClock().Now();
  caller.Send("storm cuLaunchKernel 2500 1000");
  const Instant detached = RunGoverned(*session, governor, std::chrono::milliseconds(2600));
  caller.Wait("stormed");
  ASSERT_NE(detached.boot_ns, 0);
  const double took = std::chrono::duration<double>(detached - begin).count();
  EXPECT_LT(took, 1.0);
  // Next to a program that never had probes, in turns, as the machine has other work; the best rounds count.
  // Its library is another file, so that it would not have them either if they were still there.
  const testing::TempFolder folder;
  std::filesystem::copy_file(LibraryOf("push"), folder.path() + "/libcuda.so.1");
  Caller without;
  without.Open(folder.path() + "/libcuda.so.1");
  double bare = 0, after = 0;
  for (int i = 0; i < 20 && (i < 3 || after <= 0.99 * bare); ++i) {
    bare = std::max(bare, NumbersOf(without.Do(storm, "stormed")).at(1));
    after = std::max(after, NumbersOf(caller.Do(storm, "stormed")).at(1));
  }
  std::printf("storm: detached after %.2f s, then %.0f calls/s; without probes %.0f (%.2f %%)\n", took, after,
              bare, 100 * (after / bare - 1));
  EXPECT_GT(after, 0.97 * bare);
}

TEST_F(ProbeSessionTest, AboveTheBudgetCallsAreSampledAndMarked) {
  if (Machine().mechanism != Mechanism::kSession) GTEST_SKIP() << "calls cannot be timed here";
  auto session = Open();
  ASSERT_TRUE(session);
  Caller caller;
  caller.Open(LibraryOf("push"));
  const auto attached = session->Attach(caller.pid(), kLaunches);
  ASSERT_TRUE(attached);
  // A budget that counting alone fits, and timing does not, at 20,000 calls a second.
  const double each = session->costs().count_ns * 1.2 * 1e-9;
  Governor governor({.thread_budget = 20'000 * each, .host_budget = 1});
  caller.Send("call cuLaunchKernel 40000 50000 1");
  RunGoverned(*session, governor, std::chrono::milliseconds(1500));
  caller.Wait("called");
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  const FunctionStats& function = Of(*stats, caller.pid())->functions[0];
  const Decision* decision = governor.Of(std::to_string(attached->libraries.at(0).device) + ":" +
                                         std::to_string(attached->libraries.at(0).inode));
  ASSERT_TRUE(decision);
  EXPECT_TRUE(decision->attached) << decision->reason;
  EXPECT_TRUE(decision->exact);
  EXPECT_EQ(function.calls, 40000u);
  EXPECT_LT(function.duration.count, function.calls);
  EXPECT_GT(function.duration.count, 0u);
}

struct LoaderCase {
  std::string mode;
  int load_ms, step_ms;
};

class DataWaitTest : public ProbeSessionTest, public ::testing::WithParamInterface<LoaderCase> {};

TEST_P(DataWaitTest, TheSumIsWhatTheLoopWaited) {
  auto session = Open();
  ASSERT_TRUE(session);
  EXPECT_GT(session->costs().switch_ns, 0);
  const LoaderCase& one = GetParam();
  Caller loop({"python3", GPULENS_SOURCE_DIR "/src/sources/bpf/testdata/data_loader.py", one.mode, "40",
               std::to_string(one.load_ms), std::to_string(one.step_ms)});
  const auto attached =
      session->Attach(loop.pid(), {.launches = false, .synchronizes = false, .data_waits = true});
  ASSERT_TRUE(attached) << attached.error().detail;
  EXPECT_TRUE(attached->data_waits);
  const std::string line = loop.Do("begin", "waited");
  const auto waited = NumbersOf(line);
  ASSERT_EQ(waited.size(), 3u) << line;
  const auto stats = session->Read();
  ASSERT_TRUE(stats);
  const ProcessStats* process = Of(*stats, loop.pid());
  ASSERT_TRUE(process && process->data);
  const auto sum = static_cast<double>(process->data->wait.sum_ns);
  std::printf(
      "%s: waited %.1f ms, measured %.1f ms in %llu waits, %.1f ms in short ones, otherwise off %.1f ms\n",
      one.mode.c_str(), waited[0] * 1e-6, sum * 1e-6,
      static_cast<unsigned long long>(process->data->wait.count),
      static_cast<double>(process->data->short_ns) * 1e-6,
      static_cast<double>(process->data->other_ns) * 1e-6);
  EXPECT_NEAR(sum, waited[0], 0.05 * waited[0]);
  EXPECT_GE(static_cast<double>(process->data->other_ns), 4 * 30e6);  // the checkpoints
  for (const ProcessStats& other : stats->processes) {
    if (other.key.pid == loop.pid() || !other.data) continue;
    EXPECT_EQ(other.data->wait.count, 0u) << "a loader waits for no data";
  }
  session->Detach(loop.pid());
  EXPECT_EQ(session->links(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, DataWaitTest,
                         ::testing::Values(LoaderCase{"queue", 30, 8}, LoaderCase{"pin", 30, 8}),
                         [](const auto& one) { return one.param.mode; });

}  // namespace
}  // namespace gpulens::bpf
