// Analyzer that divides the energy, time and money of the GPUs among those who use them: docs/ledger.md.

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "catalog/cost.h"
#include "catalog/ledger.h"
#include "ledger/ledger.h"
#include "plugins/analyzers/cost/cost_metrics.h"
#include "plugins/analyzers/cost/cost_options.h"
#include "plugins/analyzers/cost/engine_binding.h"
#include "plugins/analyzers/cost/engine_readings.h"
#include "plugins/analyzers/cost/gpu_readings.h"
#include "plugins/analyzers/cost/ledger_series.h"
#include "plugins/analyzers/cost/ledger_writer.h"
#include "plugins/analyzers/cost/program_signals.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using cost::CostMetrics;
using cost::EngineReadings;
using cost::EngineRules;
using cost::GpuReadings;
using cost::LedgerSeries;
using cost::LedgerWriter;
using cost::LiveRates;
using cost::ProgramSignals;
using ledger::Ledger;

constexpr std::string_view kLedgerFile = "/ledger.db";

constexpr std::array kLedgerOptions = {
    TimeOption("window", "10s", "Time whose energy is divided at once; 1s at most in gpulens collect.", 1,
               3600),
    TimeOption("longest_gap", "30s",
               "Between two readings of a GPU; beyond it the time is unobserved. Above the interval of the "
               "collector.",
               2, 3600),
    IntOption("owners", "200",
              "Owners that an hour distinguishes; further ones are booked together as (other).", 1, 10'000),
    IntOption("owner_series", "20",
              "Owners of a kind (tenant, pod, job, engine, model) with series of their own: those with most "
              "energy lately.",
              0, 1000),
    TextsOption("tenant_attributes",
                R"(["tenant", "k8s.namespace.name", "slurm.job.account", "process.owner"])",
                "Attributes of processes and GPUs that name the tenant: the first that is there."),
    OptionSpec{.key = "engines",
               .type = OptionType::kTextMap,
               .help = "Where the processes of an engine's target are, for targets on which it is not found: "
                       "{TARGET: \"gpu=0-3\"}, \"pid=123\" (and its children), \"pod=NAMESPACE/NAME\"; "
                       "several with blanks between."},
    NumberOption("idle_threshold", OptionType::kDouble, "0.05",
                 "Utilization below which a GPU that is held does nothing.", 0, 1),
    TimeOption("hold_time", "60s", "A GPU that is held and does nothing for so long is held idle.", 0, 86400),
    NumberOption("idle_watts", OptionType::kDouble, "0",
                 "Power of a GPU without work. 0: the lowest that was seen while no process used it.", 0,
                 5000),
    TimeOption("retention", "9600h", "How long the ledger's file keeps its hours; 0s: for ever.", 0),
};
constexpr auto kOptions = JoinOptions(kLedgerOptions, cost::kRateOptions);
constexpr auto kMetrics = JoinRows(kLedgerRows, kCostRows);
using Options = OptionsOf<kOptions>;

// The ledgers of this program that have a file. A reload makes a new analyzer before the old one has written
// what it knows: the new one begins when the old one has ended.
class FileClaim {
 public:
  // Empty: there is no file, so any number may begin.
  explicit FileClaim(std::string path) : path_(std::move(path)) {}
  ~FileClaim() {
    if (!claimed_) return;
    std::lock_guard lock(Mutex());
    Paths().erase(path_);
  }
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;

  bool Take() {
    if (path_.empty() || claimed_) return true;
    std::lock_guard lock(Mutex());
    claimed_ = Paths().insert(path_).second;
    return claimed_;
  }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<std::string>& Paths() {
    static std::set<std::string> paths;
    return paths;
  }
  const std::string path_;
  bool claimed_ = false;
};

struct CostSetup {
  Ledger::Options ledger;
  CostMetrics::Options metrics;
  EngineRules engines;
  std::vector<std::string> tenant_keys;
  size_t owner_series = 0;
  Duration retention{};
};

class Cost final : public Analyzer {
 public:
  Cost(CostSetup setup, LiveRates rates, Env& env)
      : setup_(std::move(setup)),
        rates_(std::move(rates)),
        env_(env),
        path_(env.state_dir.empty() ? "" : env.state_dir + std::string(kLedgerFile)),
        claim_(path_),
        gpus_(setup_.tenant_keys),
        metrics_(setup_.metrics) {}

  ~Cost() override {
    if (!ledger_) return;
    Ledger::Closed rest = ledger_->Finish(env_.clock->Now());
    if (writer_) writer_->Add(std::move(rest.entries), ledger_->state());
    writer_.reset();
  }

  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    const Instant now = snapshot.closed_at;
    const bool engines_changed = engines_.Follow(snapshot);
    if (gpus_.Follow(snapshot) || engines_changed) gpus_.Bind(setup_.engines, engines_.engines());
    rates_.Update(now, snapshot.resource);
    const auto readings = gpus_.Take(snapshot);
    // A machine without a GPU has no ledger.
    if (!ledger_ && (readings.empty() || !Start(now))) return Ok();
    for (const ledger::GpuReading* reading : readings) {
      ledger_->Observe(*reading);
      series_->Begin(reading->gpu);
      metrics_.Observe(*reading, gpus_.GpuEntity(reading->gpu));
    }
    for (const ledger::EngineReading* reading : engines_.Take(snapshot)) {
      ledger_->Observe(*reading);
      metrics_.Observe(*reading, engines_.EngineEntity(reading->engine));
    }
    for (const ledger::ProgramSignal& signal : programs_.Take(snapshot)) ledger_->Observe(signal);
    metrics_.Write(now, rates_, out);
    Ledger::Closed closed = ledger_->Close(now);
    series_->Take(closed, now);
    const bool exact = closed.residual_uj == 0 && closed.residual_ms == 0 && closed.residual_pico == 0;
    if (!closed.entries.empty()) {
      if (writer_) writer_->Add(std::move(closed.entries), ledger_->state());
      else not_kept_ += closed.entries.size();
    }
    series_->Write(now, out);
    WriteOwnSeries(out);
    if (exact) return Ok();
    return {Code::kDataLoss, "the ledger's parts do not add up: " + std::to_string(closed.residual_uj) +
                                 " uJ, " + std::to_string(closed.residual_ms) + " ms, " +
                                 std::to_string(closed.residual_pico) + " pUSD too much"};
  }

 private:
  // Returns false while another ledger has the file.
  bool Start(Instant now) {
    if (!claim_.Take()) return false;
    Ledger::Options options = setup_.ledger;
    options.boot_to_unix_ns = now.unix_ns - now.boot_ns;
    options.boot_id = BootId();
    ledger_ = std::make_unique<Ledger>(
        options, [this](std::string_view model, int64_t unix_ns) { return rates_.At(model, unix_ns); });
    if (!path_.empty()) {
      writer_ = std::make_unique<LedgerWriter>(
          ledger::LedgerFile::Options{.path = path_, .retention = setup_.retention}, *env_.clock);
      if (auto state = writer_->Start()) ledger_->Restore(*state, now, options.boot_id);
    }
    host_ = MakeRef<Entity>("host", env_.demo ? AttributeSet({{"simulated", true}}) : AttributeSet());
    series_ = std::make_unique<LedgerSeries>(
        LedgerSeries::Options{.owners = setup_.owner_series, .start_unix_ns = now.unix_ns, .host = host_},
        cost::LedgerEntities{[this](std::string_view gpu) { return gpus_.GpuEntity(gpu); },
                             [this](std::string_view gpu, int64_t pid, int64_t start) {
                               return gpus_.ProcessEntity(gpu, pid, start);
                             }});
    return true;
  }

  std::string BootId() const {
    const std::string root = env_.root == "/" ? "" : env_.root;
    const Result<std::string> text = ReadFile(root + "/proc/sys/kernel/random/boot_id", 256);
    return text ? std::string(Trim(*text)) : "";
  }

  void WriteOwnSeries(FrameWriter& out) {
    using namespace std::string_view_literals;
    const LedgerWriter::Counts counts = writer_ ? writer_->counts() : LedgerWriter::Counts();
    auto entries = [&](Series& series, std::string_view result, uint64_t count) {
      out.DeclareAndSet(series, kSelfLedgerEntries, {}, {{"result", result}}, count);
    };
    if (writer_) {
      entries(written_, "written", counts.written);
      entries(dropped_, "dropped", counts.dropped);
      out.DeclareAndSet(up_, kSelfLedgerUp, {}, {}, counts.up ? 1 : 0);
      out.DeclareAndSet(waiting_, kSelfLedgerWaiting, {}, {}, counts.waiting);
      out.DeclareAndSet(failures_, kSelfLedgerWriteErrors, {}, {}, counts.failures);
    } else {
      entries(kept_, "not_kept", not_kept_);
    }
    out.DeclareAndSet(refused_, kSelfLedgerRefused, {}, {}, ledger_->refused());
  }

  const CostSetup setup_;
  LiveRates rates_;
  Env& env_;
  const std::string path_;  // empty: nothing is kept
  FileClaim claim_;         // released after the writer has ended
  GpuReadings gpus_;
  EngineReadings engines_;
  ProgramSignals programs_;
  CostMetrics metrics_;
  std::unique_ptr<Ledger> ledger_;  // null: not begun
  std::unique_ptr<LedgerWriter> writer_;
  std::unique_ptr<LedgerSeries> series_;
  EntityRef host_;
  uint64_t not_kept_ = 0;
  Series written_, dropped_, kept_, up_, waiting_, failures_, refused_;
};

void Check(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  options.Refuse("engines", faults, EngineRules::Parse(options.TextMap("engines")).status());
  cost::CheckRateOptions(config, faults);
}

Result<std::unique_ptr<Analyzer>> Create(const Config& config, Env& env) {
  const Options options(config);
  CostSetup setup;
  ASSIGN_OR_RETURN(LiveRates rates, LiveRates::Make(config));
  ASSIGN_OR_RETURN(setup.engines, EngineRules::Parse(options.TextMap("engines")));
  setup.ledger.window = options.Time("window");
  // A command shows something after two readings.
  if (!env.stats) setup.ledger.window = std::min<Duration>(setup.ledger.window, std::chrono::seconds(1));
  setup.ledger.longest_gap = options.Time("longest_gap");
  setup.ledger.hold_time = options.Time("hold_time");
  setup.ledger.idle_below = options.Double("idle_threshold");
  if (options.Double("idle_watts") > 0) setup.ledger.idle_watts = options.Double("idle_watts");
  setup.ledger.most_owners = static_cast<size_t>(options.Int("owners"));
  setup.tenant_keys = options.Texts("tenant_attributes");
  setup.owner_series = static_cast<size_t>(options.Int("owner_series"));
  setup.retention = options.Time("retention");
  setup.metrics.idle_below = options.Double("idle_threshold");
  setup.metrics.idle_hold = options.Time("hold_time");
  // A command is about money; an agent, where it is configured.
  setup.metrics.price_expected = !env.stats || rates.wants_price();
  return std::unique_ptr<Analyzer>(std::make_unique<Cost>(std::move(setup), std::move(rates), env));
}

}  // namespace

extern const AnalyzerSpec cost_analyzer;
const AnalyzerSpec cost_analyzer{
    .name = "cost",
    .help = "Energy, time and money of the GPUs by who used them, in parts that add up.",
    .options = kOptions,
    .metrics = kMetrics,
    .create = &Create,
    .check = &Check};

}  // namespace gpulens
