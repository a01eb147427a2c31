// Collector of the agent's own processes, servers and configuration.

#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "catalog/self.h"
#include "plugins/agent_stats.h"
#include "plugins/plugin.h"
#include "sources/host/files.h"
#include "sources/host/process.h"

namespace gpulens {
namespace {

// The kernel walks all mappings for the proportional share, so it is read rarely.
constexpr int64_t kMemoryPeriod = 10'000'000'000;

double PerTick() { return 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)); }

// The agent, or a reader process.
class OwnProcess {
 public:
  OwnProcess(std::string_view name, HostFiles& files) : name_(name), files_(files) {}

  // `pid` 0: not running; its series end.
  void Update(int32_t pid, FrameWriter& out) {
    if (pid != pid_) Begin(pid, out.table());
    if (!reader_) return;
    ProcessStat stat;
    if (!reader_->ReadStat(stat)) return;
    double cpu = static_cast<double>(stat.user_ticks + stat.system_ticks) * PerTick();
    out.Set(cpu_, cpu);
    out.Set(threads_, stat.threads);
    out.Set(rss_, stat.resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
    UpdateShare(cpu, out.read_at());
    if (memory_read_at_ == 0 || out.read_at().boot_ns - memory_read_at_ >= kMemoryPeriod) {
      ProcessMemory memory;
      memory_read_at_ = out.read_at().boot_ns;
      if (reader_->ReadMemory(memory) && memory.proportional) out.Set(pss_, *memory.proportional);
    } else {
      out.Keep(pss_);
    }
  }
  // CPU seconds per second since the last update; empty before the second one.
  std::optional<double> share() const noexcept { return share_; }
  ProcessReader* reader() noexcept { return reader_ ? &*reader_ : nullptr; }

 private:
  void Begin(int32_t pid, SeriesTable& table) {
    if (entity_) table.Retire(entity_);
    pid_ = pid;
    reader_.reset();
    share_.reset();
    last_cpu_at_ = memory_read_at_ = 0;
    if (pid == 0) return;
    reader_.emplace(files_, pid);
    entity_ = MakeRef<Entity>("process", AttributeSet({{"process", name_}}));
    cpu_ = table.Declare(kSelfProcessCpuTime, entity_);
    threads_ = table.Declare(kSelfProcessThreads, entity_);
    rss_ = table.Declare(kSelfProcessMemory, entity_, {{"gpulens.memory.type", "rss"}});
    pss_ = table.Declare(kSelfProcessMemory, entity_, {{"gpulens.memory.type", "pss"}});
  }

  void UpdateShare(double cpu, Instant now) {
    if (last_cpu_at_ != 0 && now.boot_ns > last_cpu_at_)
      share_ = (cpu - last_cpu_) / (static_cast<double>(now.boot_ns - last_cpu_at_) * 1e-9);
    last_cpu_ = cpu;
    last_cpu_at_ = now.boot_ns;
  }

  const std::string_view name_;
  HostFiles& files_;
  std::optional<ProcessReader> reader_;
  int32_t pid_ = 0;
  EntityRef entity_;
  Series cpu_, threads_, rss_, pss_;
  double last_cpu_ = 0;
  int64_t last_cpu_at_ = 0, memory_read_at_ = 0;
  std::optional<double> share_;
};

class SelfCollector final : public Collector {
 public:
  SelfCollector(HostFiles files, Env& env)
      : files_(std::move(files)),
        env_(env),
        agent_("agent", files_),
        nvml_("nvml", files_),
        amdsmi_("amdsmi", files_) {}

  Status Collect(FrameWriter& out) override {
    if (!declared_) Declare(out.table());
    agent_.Update(static_cast<int32_t>(::getpid()), out);
    nvml_.Update(env_.stats ? env_.stats->nvml_driver_pid.load() : 0, out);
    amdsmi_.Update(env_.stats ? env_.stats->amdsmi_driver_pid.load() : 0, out);
    if (agent_.share())
      out.Set(overhead_, *agent_.share() + nvml_.share().value_or(0) + amdsmi_.share().value_or(0));
    RETURN_IF_ERROR(CollectProcess(out));
    if (env_.stats) CollectStats(*env_.stats, out);
    return Ok();
  }

 private:
  struct Server {
    Series connections, refused[kRefusals];
  };

  void Declare(SeriesTable& table) {
    declared_ = true;
    EntityRef none;
    overhead_ = table.Declare(kSelfOverheadCpu, none);
    cpu_time_ = table.Declare(kProcessCpuTime, none);
    resident_ = table.Declare(kProcessMemoryUsage, none);
    virtual_ = table.Declare(kProcessMemoryVirtual, none);
    fds_ = table.Declare(kProcessUnixFileDescriptorCount, none);
    fds_limit_ = table.Declare(kProcessUnixFileDescriptorLimit, none);
    start_time_ = table.Declare(kProcessStartTime, none);
    if (!env_.stats) return;
    for (const SandboxLayer& layer : env_.stats->sandbox)
      sandbox_.push_back(table.Declare(kSelfSandboxActive, none, {{"layer", layer.name}}));
    reload_ok_ = table.Declare(kSelfConfigLastReloadSuccess, none);
    reload_time_ = table.Declare(kSelfConfigLastReloadTime, none);
    constexpr std::string_view kResults[] = {"applied", "rejected", "unchanged"};
    for (size_t i = 0; i < 3; ++i)
      reloads_[i] = table.Declare(kSelfConfigReloads, none, {{"result", kResults[i]}});
    for (size_t i = 0; i < kPageDropReasons; ++i)
      page_losses_[i] = table.Declare(kSelfPageSeriesDropped, none, {{"reason", kPageDropReasonNames[i]}});
  }

  void DeclareServer(SeriesTable& table, std::string_view listener, Server& server) {
    EntityRef entity = MakeRef<Entity>("listener", AttributeSet({{"listener", listener}}));
    server.connections = table.Declare(kSelfHttpConnections, entity);
    for (size_t i = 0; i < kRefusals; ++i) {
      server.refused[i] =
          table.Declare(kSelfHttpRefused, entity, {{"reason", std::string_view(kRefusalNames[i])}});
    }
  }

  Status CollectProcess(FrameWriter& out) {
    ProcessReader* reader = agent_.reader();
    ProcessStat stat;
    RETURN_IF_ERROR(reader->ReadStat(stat));
    out.Set(cpu_time_, static_cast<double>(stat.user_ticks + stat.system_ticks) * PerTick());
    out.Set(resident_, stat.resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
    out.Set(virtual_, stat.virtual_bytes);
    // Once: a change of the wall clock must not move the start.
    if (started_unix_ == 0) {
      const auto booted = static_cast<double>(out.read_at().unix_ns - out.read_at().boot_ns) * 1e-9;
      started_unix_ = booted + static_cast<double>(stat.start_ticks) * PerTick();
    }
    out.Set(start_time_, started_unix_);
    ProcessReader::Descriptors descriptors;
    RETURN_IF_ERROR(reader->ReadDescriptors(descriptors));
    out.Set(fds_, descriptors.open);
    if (descriptors.limit) out.Set(fds_limit_, *descriptors.limit);
    return Ok();
  }

  void CollectStats(const AgentStats& stats, FrameWriter& out) {
    for (size_t i = 0; i < sandbox_.size(); ++i) out.Set(sandbox_[i], stats.sandbox[i].on ? 1 : 0);
    out.Set(reloads_[0], stats.reloads_applied.load());
    out.Set(reloads_[1], stats.reloads_rejected.load());
    out.Set(reloads_[2], stats.reloads_unchanged.load());
    out.Set(reload_ok_, stats.last_reload_ok.load() ? 1 : 0);
    if (int64_t at = stats.last_reload_unix_ns.load()) out.Set(reload_time_, static_cast<double>(at) * 1e-9);
    for (size_t i = 0; i < kPageDropReasons; ++i) out.Set(page_losses_[i], stats.page_losses[i].load());
    CollectServer("http", stats.http.load(), http_, out);
    CollectServer("websocket", stats.websocket.load(), websocket_, out);
  }

  void CollectServer(std::string_view listener, const ServerStats* stats, Server& server, FrameWriter& out) {
    if (!stats) return;
    if (!server.connections) DeclareServer(out.table(), listener, server);
    out.Set(server.connections, stats->connections.load(std::memory_order_relaxed));
    for (size_t i = 0; i < kRefusals; ++i)
      out.Set(server.refused[i], stats->refusals(static_cast<Refusal>(i)));
  }

  HostFiles files_;
  Env& env_;
  OwnProcess agent_, nvml_, amdsmi_;
  bool declared_ = false;
  double started_unix_ = 0;
  Series start_time_, overhead_, cpu_time_, resident_, virtual_, fds_, fds_limit_, reload_ok_, reload_time_,
      reloads_[3];
  Series page_losses_[kPageDropReasons];
  std::vector<Series> sandbox_;  // of each layer
  Server http_, websocket_;
};

Result<std::unique_ptr<Collector>> Create(const Config&, Env& env) {
  // Always the real root, as this process is measured.
  ASSIGN_OR_RETURN(HostFiles files, HostFiles::Open("/"));
  return std::unique_ptr<Collector>(std::make_unique<SelfCollector>(std::move(files), env));
}

constexpr const MetricDesc* kMetrics[] = {&kSelfProcessCpuTime,
                                          &kSelfProcessThreads,
                                          &kSelfProcessMemory,
                                          &kSelfOverheadCpu,
                                          &kProcessCpuTime,
                                          &kProcessMemoryUsage,
                                          &kProcessMemoryVirtual,
                                          &kProcessUnixFileDescriptorCount,
                                          &kProcessUnixFileDescriptorLimit,
                                          &kProcessStartTime,
                                          &kSelfSandboxActive,
                                          &kSelfConfigReloads,
                                          &kSelfConfigLastReloadSuccess,
                                          &kSelfConfigLastReloadTime,
                                          &kSelfPageSeriesDropped,
                                          &kSelfHttpConnections,
                                          &kSelfHttpRefused};

}  // namespace

extern const CollectorSpec self_collector;
const CollectorSpec self_collector{.name = "self",
                                   .help = "The agent's own resource use and state.",
                                   .period = std::chrono::seconds(1),
                                   .ttl = std::chrono::seconds(10),
                                   .options = {},
                                   .metrics = kMetrics,
                                   .create = &Create};

}  // namespace gpulens
