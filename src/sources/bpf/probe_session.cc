#include "sources/bpf/probe_session.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "sources/bpf/elf_file.h"
#include "sources/bpf/kernel_calls.h"
#include "sources/bpf/programs/shared.h"

namespace gpulens::bpf {
namespace {

static_assert(GPULENS_BUCKETS == job_page::kBuckets);

// The compiled programs; tools/bpf_object.py writes them.
constexpr unsigned char kObject[] = {
#include "sources/bpf/programs/probes.inc"
};

constexpr uint32_t kSelfSlot = GPULENS_LIBRARIES - 1;  // of the measurement of costs
constexpr uint64_t kTick = 10'000'000;                 // USER_HZ is 100 on all machines of today
constexpr size_t kMostDescendants = 4096;
constexpr double kSwitchNsUnmeasured = 1000;

struct ProbedSymbol {
  std::string_view name;
  CudaFunction function;
};
constexpr ProbedSymbol kSymbols[] = {
    {"cuLaunchKernel", CudaFunction::kLaunchKernel},
    {"cuLaunchKernel_ptsz", CudaFunction::kLaunchKernel},
    {"cuLaunchKernelEx", CudaFunction::kLaunchKernelEx},
    {"cuLaunchKernelEx_ptsz", CudaFunction::kLaunchKernelEx},
    {"cuLaunchCooperativeKernel", CudaFunction::kLaunchCooperative},
    {"cuLaunchCooperativeKernel_ptsz", CudaFunction::kLaunchCooperative},
    {"cuGraphLaunch", CudaFunction::kGraphLaunch},
    {"cuGraphLaunch_ptsz", CudaFunction::kGraphLaunch},
    {"cuStreamSynchronize", CudaFunction::kStreamSynchronize},
    {"cuStreamSynchronize_ptsz", CudaFunction::kStreamSynchronize},
    {"cuEventSynchronize", CudaFunction::kEventSynchronize},
    {"cuCtxSynchronize", CudaFunction::kContextSynchronize},
};
constexpr auto kSymbolNames = [] {
  std::array<std::string_view, std::size(kSymbols)> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = kSymbols[i].name;
  return out;
}();

// What libbpf last printed as a warning: the reason of its next error.
thread_local std::string last_warning;

int KeepWarning(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  std::array<char, 512> text{};
  (void)std::vsnprintf(text.data(), text.size(), format, arguments);
  if (last_warning.empty()) last_warning = std::string(Trim(text.data()));
  return 0;
}

uint32_t FlagsOf(const AttachKinds& kinds) {
  uint32_t out = 0;
  if (kinds.launches) out |= WANTS_LAUNCHES;
  if (kinds.synchronizes) out |= WANTS_SYNCHRONIZES;
  if (kinds.data_waits) out |= WANTS_DATA;
  return out;
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The parent and the start of a process.
struct Stat {
  int32_t parent = 0;
  uint64_t start_ticks = 0;
};
std::optional<Stat> ReadStat(const std::string& proc, int32_t pid) {
  const auto text = ReadFile(proc + "/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  const size_t end = text->rfind(')');
  if (end == std::string::npos || end + 2 > text->size()) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(end + 2);
  const std::string_view state = TakeUntil(rest, ' ');
  if (state == "Z" || state == "X") return std::nullopt;
  const auto parent = ParseInt<int32_t>(TakeUntil(rest, ' '));
  for (int field = 5; field < 22; ++field) TakeUntil(rest, ' ');
  const auto start = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  if (!parent || !start) return std::nullopt;
  return Stat{*parent, *start};
}

void CopyHistogram(const u64 (&buckets)[GPULENS_BUCKETS], uint64_t sum, job_page::HistogramCopy& out) {
  out.count = 0, out.sum_ns = sum;
  for (size_t i = 0; i < out.buckets.size(); ++i) out.count += out.buckets[i] = buckets[i];
}

}  // namespace

std::string_view CudaFunctionName(CudaFunction function) noexcept {
  for (const ProbedSymbol& symbol : kSymbols) {
    if (symbol.function == function) return symbol.name;
  }
  return "unknown";
}

struct ProbeSession::State {
  // A map of the kernel. Keys and values are plain structs of shared.h.
  class KernelMap {
   public:
    KernelMap() = default;
    explicit KernelMap(int fd) : fd_(fd) {}

    template <class Key, class Value>
    bool Find(const Key& key, Value& value) const {
      return ::bpf_map_lookup_elem(fd_, &key, &value) == 0;
    }
    template <class Key, class Value>
    bool Set(const Key& key, const Value& value, uint64_t flags = BPF_ANY) const {
      return ::bpf_map_update_elem(fd_, &key, &value, flags) == 0;
    }
    template <class Key>
    void Remove(const Key& key) const {
      (void)::bpf_map_delete_elem(fd_, &key);
    }
    template <class Key>
    std::vector<Key> Keys(size_t most) const {
      std::vector<Key> out;
      Key key{}, next{};
      // A key that is removed meanwhile begins the walk again.
      for (bool first = true; out.size() < most; first = false) {
        if (::bpf_map_get_next_key(fd_, first ? nullptr : &key, &next) != 0) break;
        out.push_back(next), key = next;
      }
      return out;
    }
    int fd() const { return fd_; }

   private:
    int fd_ = -1;
  };

  struct ObjectCloser {
    void operator()(bpf_object* opened) const { ::bpf_object__close(opened); }
  };

  struct Place {
    CudaFunction function;
    uint64_t offset;
  };
  struct Library {
    uint64_t device = 0, inode = 0;
    uint32_t slot = 0, sampling = 1;
    std::string name, build_id;
    UniqueFd file;
    std::vector<FunctionOutcome> functions;
    std::vector<Place> places;
    std::vector<UniqueFd> launch_links, synchronize_links;
    bool detached = false;  // by DetachLibrary
    std::set<int32_t> roots;
  };

  Options options;
  std::unique_ptr<bpf_object, ObjectCloser> object;
  KernelMap series, processes, libraries, calls_of_libraries, settings, losses, data_waits, wait_states,
      switches;
  int call_program = -1, switch_program = -1, waking_program = -1;
  std::vector<int> programs;
  std::vector<UniqueFd> life_links, wait_links;
  std::map<int32_t, AttachKinds> roots;
  std::map<std::pair<uint64_t, uint64_t>, Library> known;
  bool waits_detached = false;
  ProbeCosts costs;

  Status Load();
  Status LoadWith(std::string_view waking);
  void FindMaps();
  Status MeasureCosts();
  Status MeasureSwitches();
  Status AttachLife();
  Status AttachWaits();
  bool AddProcess(int32_t pid, int32_t root, const AttachKinds& kinds);
  void AddDescendants(int32_t root, const AttachKinds& kinds);
  void RemoveProcess(uint32_t tgid, const process_value& value);
  Result<Library*> OpenLibrary(int32_t pid, const LoadedLibrary& loaded, const ProcessFacts& facts);
  Status LinkKind(Library& library, bool launches);
  Status LinkLibrary(Library& library, const AttachKinds& kinds);
  AttachKinds KindsOf(const Library& library) const;
  // Looks at one followed process; the number of libraries that are new for its root.
  Result<size_t> Scan(int32_t pid, std::vector<LibraryOutcome>* outcomes, std::string* trouble);
  void ForgetUnused();
  void WriteSampling(const Library& library);
  Library* Find(uint64_t device, uint64_t inode);
  Status WritePrefixes(const std::vector<std::string>& prefixes);
};

namespace {

constexpr std::string_view kDataWaitsTarget = "data_waits";

std::string TargetOf(uint64_t device, uint64_t inode) {
  return std::to_string(device) + ":" + std::to_string(inode);
}

}  // namespace

// ---- loading ------------------------------------------------------------------------------------

Status ProbeSession::State::LoadWith(std::string_view waking) {
  last_warning.clear();
  bpf_object_open_opts open{};
  open.sz = sizeof open;
  open.object_name = "gpulens";
  object.reset(::bpf_object__open_mem(kObject, sizeof kObject, &open));
  if (!object) return ErrnoStatus("open the programs: " + last_warning, errno);
  bpf_program* program = nullptr;
  const std::string wanted_call =
      "call_" + std::string(options.capabilities.mechanism == Mechanism::kSession ? "session"
                            : options.capabilities.mechanism == Mechanism::kMulti ? "multi"
                                                                                  : "perf");
  bpf_object__for_each_program(program, object.get()) {
    const std::string_view name = ::bpf_program__name(program);
    if (name.starts_with("call_")) {
      const bool wanted = name == wanted_call && options.capabilities.launches();
      (void)::bpf_program__set_autoload(program, wanted);
      (void)::bpf_program__set_expected_attach_type(
          program, static_cast<bpf_attach_type>(AttachTypeOf(options.capabilities.mechanism)));
    }
    if (name.starts_with("woken_")) (void)::bpf_program__set_autoload(program, name == waking);
  }
  const auto limit = [&](const char* map, uint32_t entries) {
    bpf_map* found = ::bpf_object__find_map_by_name(object.get(), map);
    if (found) (void)::bpf_map__set_max_entries(found, entries);
  };
  limit("series", options.most_series);
  limit("processes", options.most_processes);
  limit("data_waits", options.most_processes);
  // Linux 5.18 passes the state of the thread that stops; before, it is read from the thread.
  if (options.capabilities.kernel >= KernelVersion{5, 18}) {
    bpf_map* constants = ::bpf_object__find_map_by_name(object.get(), ".rodata");
    size_t size = 0;
    void* value = constants ? const_cast<void*>(::bpf_map__initial_value(constants, &size)) : nullptr;
    const btf* types = ::bpf_object__btf(object.get());
    const int id = types ? ::btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC) : -1;
    if (value && id > 0) {
      const btf_type* section = ::btf__type_by_id(types, static_cast<uint32_t>(id));
      const btf_var_secinfo* variables = ::btf_var_secinfos(section);
      for (uint32_t i = 0; i < ::btf_vlen(section); ++i) {
        const btf_type* variable = ::btf__type_by_id(types, variables[i].type);
        if (std::string_view(::btf__name_by_offset(types, variable->name_off)) != "switch_has_state")
          continue;
        const uint32_t one = 1;
        if (variables[i].offset + sizeof one <= size)
          std::memcpy(static_cast<char*>(value) + variables[i].offset, &one, sizeof one);
      }
    }
  }
  const int error = ::bpf_object__load(object.get());
  if (error != 0) return ErrnoStatus("load the programs: " + last_warning, -error);
  return Ok();
}

void ProbeSession::State::FindMaps() {
  const auto map = [&](const char* name) {
    return KernelMap(::bpf_object__find_map_fd_by_name(object.get(), name));
  };
  series = map("series"), processes = map("processes"), libraries = map("libraries");
  calls_of_libraries = map("calls_of_libraries"), settings = map("settings"), losses = map("losses");
  data_waits = map("data_waits"), wait_states = map("wait_states"), switches = map("switches");
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object.get()) {
    const int fd = ::bpf_program__fd(program);
    if (fd < 0) continue;
    programs.push_back(fd);
    const std::string_view name = ::bpf_program__name(program);
    if (name.starts_with("call_")) call_program = fd;
    if (name == "thread_switched") switch_program = fd;
    if (name.starts_with("woken_")) waking_program = fd;
  }
}

Status ProbeSession::State::Load() {
  ::libbpf_set_print(&KeepWarning);
  Status last;
  // How an interrupt is recognised differs by kernel: the first that loads is the best.
  for (const std::string_view waking : {"woken_variable", "woken_older", "woken_registers"}) {
    last = LoadWith(waking);
    if (!last) continue;
    FindMaps();
    settings_value value{};
    value.allow_seccomp = options.allow_seccomp;
    if (!settings.Set(uint32_t{0}, value)) return ErrnoStatus("write a map of the kernel", errno);
    return WritePrefixes(options.waker_prefixes);
  }
  return last;
}

Status ProbeSession::State::WritePrefixes(const std::vector<std::string>& prefixes) {
  settings_value value{};
  if (!settings.Find(uint32_t{0}, value)) return ErrnoStatus("read a map of the kernel", errno);
  if (prefixes.size() > GPULENS_PREFIXES)
    return {Code::kInvalidArgument, "at most 16 prefixes of threads' names"};
  value.prefixes = static_cast<uint32_t>(prefixes.size());
  std::memset(static_cast<void*>(value.prefix), 0, sizeof value.prefix);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const std::string& text = prefixes[i];
    if (text.empty() || text.size() > 15)
      return {Code::kInvalidArgument, "a prefix of threads' names has 1 to 15 bytes: \"" + text + "\""};
    std::memcpy(value.prefix[i].text, text.data(), text.size());
    std::memset(value.prefix[i].mask, 0xff, text.size());
  }
  if (!settings.Set(uint32_t{0}, value)) return ErrnoStatus("write a map of the kernel", errno);
  return Ok();
}

// ---- costs --------------------------------------------------------------------------------------

namespace {

// The least of some rounds, in this thread's own time: other work of the machine does not count.
double NsPerCall(void (*call)(), Duration time) {
  const auto own_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  };
  constexpr int kCalls = 200;
  const Clock& clock = RealClock();
  const Instant begin = clock.Now();
  double least = 0;
  do {
    const double before = own_ns();
    for (int i = 0; i < kCalls; ++i) call();
    const double each = (own_ns() - before) / kCalls;
    if (least == 0 || each < least) least = each;
  } while (clock.Now() - begin < time);
  return least;
}

}  // namespace

Status ProbeSession::State::MeasureCosts() {
  if (options.cost_time.count() <= 0 || call_program < 0) return Ok();
  ASSIGN_OR_RETURN(SelfFunction self, FindSelfFunction());
  const auto pid = static_cast<uint32_t>(::getpid());
  process_value value{};
  value.start = 1, value.flags = WANTS_LAUNCHES, value.root = pid;
  processes.Set(pid, value);
  const uint64_t cookie = uint64_t{kSelfSlot} << 8;
  {
    libraries.Set(kSelfSlot, library_value{0, 0});
    ASSIGN_OR_RETURN(const UniqueFd link,
                     LinkProbes(call_program, options.capabilities.mechanism, self.file.get(),
                                std::span(&self.offset, 1), std::span(&cookie, 1)));
    (void)NsPerCall(self.call, options.cost_time / 20);  // the first calls create the entry
    costs.count_ns = NsPerCall(self.call, options.cost_time / 3);
    libraries.Set(kSelfSlot, library_value{UINT32_MAX, 1});
    costs.timed_ns = std::max(costs.count_ns, NsPerCall(self.call, options.cost_time / 3));
  }
  processes.Remove(pid);
  series.Remove(series_key{pid, 0, 1});
  calls_of_libraries.Set(kSelfSlot, library_calls{});
  return Ok();
}

// The kernel's own statistics of the programs while two threads of the machine take turns; and what entering
// two programs takes.
Status ProbeSession::State::MeasureSwitches() {
  constexpr double kEntries = 100;
  const UniqueFd statistics(::bpf_enable_stats(BPF_STATS_RUN_TIME));
  if (!statistics) return ErrnoStatus("statistics of programs", errno);
  RETURN_IF_ERROR(AttachWaits());
  const Clock& clock = RealClock();
  const Instant begin = clock.Now();
  const timespec nap{0, 50'000};
  while (clock.Now() - begin < options.cost_time / 4) ::nanosleep(&nap, nullptr);
  double ns = kEntries;
  for (int program : {switch_program, waking_program}) {
    bpf_prog_info info{};
    uint32_t size = sizeof info;
    if (::bpf_obj_get_info_by_fd(program, &info, &size) == 0 && info.run_cnt > 0)
      ns += static_cast<double>(info.run_time_ns) / static_cast<double>(info.run_cnt);
  }
  costs.switch_ns = ns;
  wait_links.clear();
  return Ok();
}

// ---- attaching ----------------------------------------------------------------------------------

Status ProbeSession::State::AttachLife() {
  if (!life_links.empty()) return Ok();
  for (const char* name : {"process_forked", "process_execed", "process_exited"}) {
    const bpf_program* program = ::bpf_object__find_program_by_name(object.get(), name);
    auto link = LinkTracepoint(program ? ::bpf_program__fd(program) : -1);
    if (!link) {
      life_links.clear();
      return link.error();
    }
    life_links.push_back(*std::move(link));
  }
  return Ok();
}

Status ProbeSession::State::AttachWaits() {
  if (!wait_links.empty()) return Ok();
  for (int program : {switch_program, waking_program}) {
    auto link = LinkTracepoint(program);
    if (!link) {
      wait_links.clear();
      return link.error();
    }
    wait_links.push_back(*std::move(link));
  }
  return Ok();
}

bool ProbeSession::State::AddProcess(int32_t pid, int32_t root, const AttachKinds& kinds) {
  const auto stat = ReadStat(options.proc, pid);
  if (!stat) return false;
  const auto tgid = static_cast<uint32_t>(pid);
  process_value value{};
  const bool there =
      processes.Find(tgid, value) && value.ended == 0 && value.start / kTick == stat->start_ticks;
  if (!there) value = {}, value.start = stat->start_ticks * kTick, value.root = static_cast<uint32_t>(root);
  const uint32_t flags = value.flags | FlagsOf(kinds);
  if (there && flags == value.flags) return false;
  value.flags = flags;
  if (!processes.Set(tgid, value)) return false;
  if (!kinds.data_waits) return true;
  const data_key key{tgid, 0, value.start};
  (void)data_waits.Set(key, data_value{}, BPF_NOEXIST);
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  wait_state state{};
  state.key = key;
  const int fd = process.get();
  if (process) (void)wait_states.Set(fd, state, BPF_NOEXIST);
  return true;
}

// Until a walk finds no new one: a process that forks during the walk has children that the kernel's program
// added, if it was known by then.
void ProbeSession::State::AddDescendants(int32_t root, const AttachKinds& kinds) {
  std::set<int32_t> family = {root};
  bool grew = true;
  while (grew && family.size() < kMostDescendants) {
    grew = false;
    const Status walked = ForEachName(options.proc, [&](std::string_view name) {
      const auto pid = ParseInt<int32_t>(name);
      if (!pid || *pid <= 0 || family.contains(*pid)) return true;
      const auto stat = ReadStat(options.proc, *pid);
      if (!stat || !family.contains(stat->parent)) return true;
      family.insert(*pid);
      (void)AddProcess(*pid, root, kinds);
      grew = true;
      return family.size() < kMostDescendants;
    });
    if (!walked) return;
  }
}

AttachKinds ProbeSession::State::KindsOf(const Library& library) const {
  AttachKinds out;
  for (int32_t root : library.roots) {
    const auto found = roots.find(root);
    if (found == roots.end()) continue;
    out.launches |= found->second.launches;
    out.synchronizes |= found->second.synchronizes;
  }
  return out;
}

void ProbeSession::State::WriteSampling(const Library& library) {
  const bool timing = options.capabilities.mechanism == Mechanism::kSession && library.sampling > 0;
  libraries.Set(library.slot, library_value{timing ? UINT32_MAX / library.sampling : 0, timing});
}

Result<ProbeSession::State::Library*> ProbeSession::State::OpenLibrary(int32_t pid,
                                                                       const LoadedLibrary& loaded,
                                                                       const ProcessFacts& facts) {
  ASSIGN_OR_RETURN(UniqueFd file, OpenMapped(options.proc, pid, loaded.file));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus("stat of a library", errno);
  const auto key = std::pair<uint64_t, uint64_t>(info.st_dev, info.st_ino);
  const auto found = known.find(key);
  if (found != known.end()) return &found->second;
  uint32_t slot = 0;
  while (std::ranges::any_of(known, [&](const auto& one) { return one.second.slot == slot; })) ++slot;
  if (slot >= kSelfSlot) return Status{Code::kExhausted, "more than 63 files of libraries are probed"};
  ASSIGN_OR_RETURN(const ElfFunctions elf, FindElfFunctions(file.get(), kSymbolNames));
  Library library;
  library.device = key.first, library.inode = key.second, library.slot = slot,
  library.sampling = options.sampling;
  library.name = NameOf(loaded.file.path), library.build_id = elf.build_id;
  for (const ElfFunction& function : elf.functions) {
    const ProbePlace place =
        ClassifyFirstInstruction(elf.architecture, options.capabilities.kernel, function.code);
    DenyFacts deny;
    deny.architecture = elf.architecture, deny.kernel = options.capabilities.kernel;
    deny.gpu = options.capabilities.machine.gpus;
    deny.instruction = place.instruction, deny.emulated = place.emulated;
    FunctionOutcome outcome{function.name, Refusal::kNone, ""};
    const DenyRow* row = FindDenyRow(deny);
    if (row) outcome.refusal = row->refusal, outcome.sentence = row->sentence;
    const auto* symbol = std::ranges::find(kSymbols, std::string_view(function.name), &ProbedSymbol::name);
    const uint64_t offset = function.offset + place.skip;
    // Two names of one place are one function: a call would count twice.
    const bool known_place =
        std::ranges::any_of(library.places, [&](const Place& one) { return one.offset == offset; });
    if (!row && !known_place) library.places.push_back({symbol->function, offset});
    library.functions.push_back(std::move(outcome));
  }
  (void)facts;
  library.file = std::move(file);
  calls_of_libraries.Set(slot, library_calls{});
  Library& added = known.emplace(key, std::move(library)).first->second;
  WriteSampling(added);
  return &added;
}

Status ProbeSession::State::LinkKind(Library& library, bool launches) {
  std::vector<UniqueFd>& links = launches ? library.launch_links : library.synchronize_links;
  if (!links.empty()) return Ok();
  std::vector<uint64_t> offsets, cookies;
  for (const Place& place : library.places) {
    if (IsLaunch(place.function) != launches) continue;
    offsets.push_back(place.offset);
    cookies.push_back(uint64_t{library.slot} << 8 | static_cast<uint64_t>(place.function));
  }
  if (offsets.empty()) return Ok();
  const Mechanism mechanism = options.capabilities.mechanism;
  const size_t at_once = mechanism == Mechanism::kPerfEvent ? 1 : offsets.size();
  for (size_t i = 0; i < offsets.size(); i += at_once) {
    auto link = LinkProbes(call_program, mechanism, library.file.get(),
                           std::span(offsets).subspan(i, at_once), std::span(cookies).subspan(i, at_once));
    if (!link) {
      links.clear();
      for (FunctionOutcome& outcome : library.functions) {
        const auto* symbol =
            std::ranges::find(kSymbols, std::string_view(outcome.symbol), &ProbedSymbol::name);
        if (outcome.refusal == Refusal::kNone && IsLaunch(symbol->function) == launches)
          outcome.refusal = Refusal::kKernelRefused, outcome.sentence = link.error().detail;
      }
      return link.error();
    }
    links.push_back(*std::move(link));
  }
  return Ok();
}

Status ProbeSession::State::LinkLibrary(Library& library, const AttachKinds& kinds) {
  if (library.detached) return Ok();
  if (kinds.launches) RETURN_IF_ERROR(LinkKind(library, true));
  if (kinds.synchronizes) RETURN_IF_ERROR(LinkKind(library, false));
  return Ok();
}

Result<size_t> ProbeSession::State::Scan(int32_t pid, std::vector<LibraryOutcome>* outcomes,
                                         std::string* trouble) {
  const auto tgid = static_cast<uint32_t>(pid);
  process_value value{};
  if (!processes.Find(tgid, value)) return Status{Code::kUnavailable, "not followed"};
  const AttachKinds kinds = roots[static_cast<int32_t>(value.root)];
  if (!kinds.launches && !kinds.synchronizes) return size_t{0};
  ASSIGN_OR_RETURN(const ProcessFacts facts, ReadProcess(options.proc, pid));
  size_t fresh = 0;
  for (const LoadedLibrary& loaded : facts.libraries) {
    if (loaded.kind != LibraryKind::kCuda) continue;
    auto library = OpenLibrary(pid, loaded, facts);
    if (!library) {
      if (trouble) *trouble = library.error().detail;
      continue;
    }
    fresh += (*library)->roots.insert(static_cast<int32_t>(value.root)).second;
    const Status linked = LinkLibrary(**library, KindsOf(**library));
    if (!linked && trouble) *trouble = linked.detail;
    if (value.library != (*library)->slot + 1 && processes.Find(tgid, value)) {
      value.library = (*library)->slot + 1;
      (void)processes.Set(tgid, value, BPF_EXIST);
    }
    const auto same = [&](const LibraryOutcome& one) {
      return one.device == (*library)->device && one.inode == (*library)->inode;
    };
    if (outcomes && std::ranges::none_of(*outcomes, same)) {
      outcomes->push_back({(*library)->name, (*library)->device, (*library)->inode, (*library)->build_id,
                           (*library)->functions});
    }
  }
  return fresh;
}

void ProbeSession::State::ForgetUnused() {
  std::erase_if(known, [](const auto& one) { return one.second.roots.empty(); });
  for (auto& [key, library] : known) {
    const AttachKinds kinds = KindsOf(library);
    if (!kinds.launches) library.launch_links.clear();
    if (!kinds.synchronizes) library.synchronize_links.clear();
  }
  const bool waits = std::ranges::any_of(roots, [](const auto& one) { return one.second.data_waits; });
  if (!waits) wait_links.clear();
  if (roots.empty()) life_links.clear();
}

void ProbeSession::State::RemoveProcess(uint32_t tgid, const process_value& value) {
  processes.Remove(tgid);
  data_waits.Remove(data_key{tgid, 0, value.start});
  for (uint32_t function = 0; function < kCudaFunctions; ++function)
    series.Remove(series_key{tgid, function, value.start});
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(tgid), 0)));
  const int fd = process.get();
  if (process) wait_states.Remove(fd);
}

ProbeSession::State::Library* ProbeSession::State::Find(uint64_t device, uint64_t inode) {
  const auto found = known.find({device, inode});
  return found == known.end() ? nullptr : &found->second;
}

// ---- the interface ------------------------------------------------------------------------------

ProbeSession::ProbeSession(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ProbeSession::~ProbeSession() = default;

Result<std::unique_ptr<ProbeSession>> ProbeSession::Open(const Options& options) {
  if (!options.capabilities.data_waits)
    return Status{Code::kUnavailable, std::string(options.capabilities.trouble())};
  auto state = std::make_unique<State>();
  state->options = options;
  RETURN_IF_ERROR(state->Load());
  RETURN_IF_ERROR(state->MeasureCosts());
  if (options.cost_time.count() > 0) {
    // Statistics need CAP_SYS_ADMIN: without it, more than any machine that was measured.
    const Status measured = state->MeasureSwitches();
    if (!measured) state->costs.switch_ns = kSwitchNsUnmeasured, state->wait_links.clear();
  }
  return std::unique_ptr<ProbeSession>(new ProbeSession(std::move(state)));
}

const ProbeCosts& ProbeSession::costs() const noexcept { return state_->costs; }
Mechanism ProbeSession::mechanism() const noexcept { return state_->options.capabilities.mechanism; }

Result<AttachOutcome> ProbeSession::Attach(int32_t pid, const AttachKinds& kinds) {
  State& s = *state_;
  if (FlagsOf(kinds) == 0) return Status{Code::kInvalidArgument, "no kind of probe"};
  ASSIGN_OR_RETURN(const ProcessFacts facts, ReadProcess(s.options.proc, pid));
  DenyFacts deny;
  deny.architecture = s.options.capabilities.machine.architecture,
  deny.kernel = s.options.capabilities.kernel;
  deny.gpu = s.options.capabilities.machine.gpus, deny.traced = facts.tracer != 0,
  deny.tool = !facts.tool.empty();
  const DenyRow* row = kinds.launches || kinds.synchronizes ? FindDenyRow(deny) : nullptr;
  if (row) {
    std::string text = std::string(RefusalName(row->refusal)) + ": " + std::string(row->sentence);
    if (!facts.tool.empty()) text += " (" + facts.tool + ")";
    return Status{Code::kPermissionDenied, std::move(text)};
  }
  AttachOutcome out;
  if ((kinds.launches || kinds.synchronizes) && !s.options.capabilities.launches())
    return Status{Code::kUnavailable, std::string(s.options.capabilities.trouble())};
  RETURN_IF_ERROR(s.AttachLife());
  AttachKinds& all = s.roots[pid];
  all.launches |= kinds.launches, all.synchronizes |= kinds.synchronizes, all.data_waits |= kinds.data_waits;
  if (kinds.data_waits && !s.waits_detached) {
    const Status attached = s.AttachWaits();
    if (!attached) out.trouble = attached.detail;
  }
  out.data_waits = kinds.data_waits && !s.wait_links.empty();
  (void)s.AddProcess(pid, pid, kinds);
  s.AddDescendants(pid, kinds);
  for (uint32_t tgid : s.processes.Keys<uint32_t>(s.options.most_processes)) {
    process_value value{};
    if (!s.processes.Find(tgid, value) || static_cast<int32_t>(value.root) != pid) continue;
    auto scanned = s.Scan(static_cast<int32_t>(tgid), &out.libraries, &out.trouble);
    if (!scanned && static_cast<int32_t>(tgid) == pid) {
      Detach(pid);
      return scanned.error();
    }
  }
  return out;
}

size_t ProbeSession::Follow() {
  State& s = *state_;
  size_t fresh = 0;
  for (uint32_t tgid : s.processes.Keys<uint32_t>(s.options.most_processes)) {
    process_value value{};
    if (!s.processes.Find(tgid, value) || value.ended != 0) continue;
    const auto stat = ReadStat(s.options.proc, static_cast<int32_t>(tgid));
    if (!stat || stat->start_ticks != value.start / kTick) {
      if (s.processes.Find(tgid, value) && value.ended == 0) {
        value.ended = 1;
        (void)s.processes.Set(tgid, value, BPF_EXIST);
      }
      continue;
    }
    fresh += s.Scan(static_cast<int32_t>(tgid), nullptr, nullptr).value_or(0);
  }
  return fresh;
}

void ProbeSession::Detach(int32_t pid) {
  State& s = *state_;
  s.roots.erase(pid);
  for (auto& [key, library] : s.known) library.roots.erase(pid);
  s.ForgetUnused();
  for (uint32_t tgid : s.processes.Keys<uint32_t>(s.options.most_processes)) {
    process_value value{};
    if (s.processes.Find(tgid, value) && static_cast<int32_t>(value.root) == pid)
      s.RemoveProcess(tgid, value);
  }
}

void ProbeSession::DetachLibrary(uint64_t device, uint64_t inode) {
  State::Library* library = state_->Find(device, inode);
  if (!library) return;
  library->detached = true;
  library->launch_links.clear();
  library->synchronize_links.clear();
}

Status ProbeSession::AttachLibrary(uint64_t device, uint64_t inode) {
  State::Library* library = state_->Find(device, inode);
  if (!library) return {Code::kUnavailable, "no followed process uses the library any more"};
  library->detached = false;
  return state_->LinkLibrary(*library, state_->KindsOf(*library));
}

void ProbeSession::DetachDataWaits() {
  state_->waits_detached = true;
  state_->wait_links.clear();
}

Status ProbeSession::AttachDataWaits() {
  state_->waits_detached = false;
  const bool wanted =
      std::ranges::any_of(state_->roots, [](const auto& one) { return one.second.data_waits; });
  return wanted ? state_->AttachWaits() : Ok();
}

void ProbeSession::DetachAll() {
  while (!state_->roots.empty()) Detach(state_->roots.begin()->first);
}

void ProbeSession::SetSampling(uint64_t device, uint64_t inode, uint32_t one_in) {
  State::Library* library = state_->Find(device, inode);
  if (!library) return;
  library->sampling = std::min<uint32_t>(one_in, 65536);
  state_->WriteSampling(*library);
}

Status ProbeSession::SetWakerPrefixes(const std::vector<std::string>& prefixes) {
  return state_->WritePrefixes(prefixes);
}

std::vector<TargetLoad> ProbeSession::Loads(const ProbeStats& stats) const {
  std::vector<TargetLoad> out;
  for (const LibraryStats& library : stats.libraries) {
    TargetLoad load;
    load.target = TargetOf(library.device, library.inode);
    load.events = library.calls, load.timed_events = library.timed;
    load.count_ns = costs().count_ns, load.timed_ns = costs().timed_ns;
    ProcessLoad others{0, 0, library.calls, library.timed};
    for (const ProcessStats& process : stats.processes) {
      if (process.device != library.device || process.inode != library.inode) continue;
      ProcessLoad one{process.key.pid, process.key.start_boot_ns, 0, 0};
      for (const FunctionStats& function : process.functions)
        one.events += function.calls, one.timed_events += function.duration.count;
      others.events -= std::min(others.events, one.events);
      load.processes.push_back(one);
    }
    others.timed_events = 0;
    load.processes.push_back(others);
    out.push_back(std::move(load));
  }
  const bool waits =
      std::ranges::any_of(state_->roots, [](const auto& one) { return one.second.data_waits; });
  if (waits) {
    TargetLoad load;
    load.target = kDataWaitsTarget;
    load.events = stats.switches, load.count_ns = load.timed_ns = costs().switch_ns;
    out.push_back(std::move(load));
  }
  return out;
}

Status ProbeSession::Apply(const Decision& decision) {
  if (decision.target == kDataWaitsTarget) {
    if (decision.attached) return AttachDataWaits();
    DetachDataWaits();
    return Ok();
  }
  for (const auto& [key, library] : state_->known) {
    if (TargetOf(key.first, key.second) != decision.target) continue;
    SetSampling(key.first, key.second, decision.sampling);
    if (decision.attached) return AttachLibrary(key.first, key.second);
    DetachLibrary(key.first, key.second);
    return Ok();
  }
  return Ok();  // it has gone
}

size_t ProbeSession::links() const noexcept {
  size_t out = state_->life_links.size() + state_->wait_links.size();
  for (const auto& [key, library] : state_->known)
    out += library.launch_links.size() + library.synchronize_links.size();
  return out;
}

Result<ProbeStats> ProbeSession::Read() {
  State& s = *state_;
  ProbeStats out;
  std::map<ProcessKey, size_t> index;
  std::vector<std::pair<uint32_t, process_value>> gone;
  const auto add = [&](uint32_t tgid, uint64_t start) -> ProcessStats& {
    const ProcessKey key{static_cast<int32_t>(tgid), start};
    const auto [at, fresh] = index.try_emplace(key, out.processes.size());
    if (fresh) {
      out.processes.emplace_back();
      out.processes.back().key = key;
      out.processes.back().ended = true;  // until its entry is found
    }
    return out.processes[at->second];
  };
  for (uint32_t tgid : s.processes.Keys<uint32_t>(s.options.most_processes)) {
    process_value value{};
    if (!s.processes.Find(tgid, value)) continue;
    ProcessStats& process = add(tgid, value.start);
    process.root = static_cast<int32_t>(value.root);
    process.execs = value.execs;
    process.ended = value.ended != 0;
    for (const auto& [key, library] : s.known) {
      if (library.slot + 1 == value.library) process.device = key.first, process.inode = key.second;
    }
    process.timing_refused = (value.flags & WAS_NOT_TIMED) != 0;
    if (process.ended) gone.emplace_back(tgid, value);
  }
  auto counted = std::make_unique<series_value>();
  for (const series_key& key : s.series.Keys<series_key>(s.options.most_series)) {
    if (key.function >= kCudaFunctions || !s.series.Find(key, *counted)) continue;
    ProcessStats& process = add(key.tgid, key.start);
    FunctionStats& function = process.functions[key.function];
    function.calls = counted->calls, function.nested = counted->nested;
    CopyHistogram(counted->buckets, counted->sum_ns, function.duration);
    if (process.ended) s.series.Remove(key);
  }
  auto waits = std::make_unique<data_value>();
  for (const data_key& key : s.data_waits.Keys<data_key>(s.options.most_processes)) {
    if (!s.data_waits.Find(key, *waits)) continue;
    ProcessStats& process = add(key.tgid, key.start);
    DataWaitStats& data = process.data.emplace();
    CopyHistogram(waits->buckets, waits->sum_ns, data.wait);
    data.short_waits = waits->short_count, data.short_ns = waits->short_ns, data.other_ns = waits->other_ns;
    if (process.ended) s.data_waits.Remove(key);
  }
  for (const auto& [tgid, value] : gone) {
    process_value present{};
    if (s.processes.Find(tgid, present) && present.start == value.start) s.processes.Remove(tgid);
  }
  for (const auto& [key, library] : s.known) {
    library_calls calls{};
    (void)s.calls_of_libraries.Find(library.slot, calls);
    out.libraries.push_back({library.device, library.inode, library.name, calls.calls, calls.timed,
                             library.sampling,
                             std::vector<int32_t>(library.roots.begin(), library.roots.end())});
  }
  losses_value lost{};
  if (!s.losses.Find(uint32_t{0}, lost)) return ErrnoStatus("read a map of the kernel", errno);
  out.lost.series_full = lost.lost[LOST_SERIES], out.lost.processes_full = lost.lost[LOST_PROCESSES];
  for (int program : s.programs) {
    bpf_prog_info info{};
    uint32_t size = sizeof info;
    if (::bpf_obj_get_info_by_fd(program, &info, &size) == 0) out.lost.recursion += info.recursion_misses;
  }
  if (s.switches.fd() >= 0) {
    std::vector<uint64_t> each(static_cast<size_t>(std::max(1, ::libbpf_num_possible_cpus())));
    const uint32_t zero = 0;
    if (::bpf_map_lookup_elem(s.switches.fd(), &zero, each.data()) == 0) {
      for (uint64_t one : each) out.switches += one;
    }
  }
  return out;
}

}  // namespace gpulens::bpf
