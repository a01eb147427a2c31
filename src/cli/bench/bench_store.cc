#include "cli/bench/bench_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "sdk/inference/call.h"
#include "sdk/inference/core.h"
#include "store/experiments/run_rows.h"

namespace gpulens {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

// Limit of the kept readings; a longer run is read less often.
constexpr int64_t kMostReadings = 60'000;

EnergyOptions EnergyOptionsOf(const LoadPlan& plan) {
  EnergyOptions options;
  const bool known = plan.duration.count() > 0;
  options.history = known ? plan.duration + plan.timeout + minutes(1) : Duration(hours(1));
  options.interval =
      std::clamp<Duration>(options.history / kMostReadings, milliseconds(50), milliseconds(1000));
  return options;
}

using std::chrono::system_clock;

double Seconds(int64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

std::optional<int64_t> CountOf(std::optional<uint64_t> tokens) noexcept {
  return tokens && *tokens <= INT64_MAX ? std::optional(static_cast<int64_t>(*tokens)) : std::nullopt;
}

// Times between tokens: the gaps between events when each event brought one token (many servers count the end
// mark of a sequence, which brings no text), else only their mean. Unknown when the tokens were not counted.
Distribution ItlOf(const LoadRequest& request, std::span<const double> gap_seconds) {
  if (!request.completion_tokens || *request.completion_tokens < 2 || request.first_ns == 0) return {};
  const uint64_t tokens = *request.completion_tokens;
  if (tokens == request.chunks || tokens == request.chunks + 1) return Describe(gap_seconds);
  Distribution itl;
  itl.n = tokens - 1;
  itl.sum = Seconds(request.last_ns - request.first_ns);
  itl.mean = itl.sum / static_cast<double>(itl.n);
  return itl;
}

// Sets the tokens and times of an answered request, by the definitions of the run's figures.
void Measure(const LoadRequest& request, std::span<const double> gap_seconds, InferenceRecord& out) {
  out.prompt_tokens = CountOf(request.prompt_tokens);
  out.cached_prompt_tokens = CountOf(request.cached_tokens);
  out.completion_tokens = CountOf(request.completion_tokens);
  out.latency_seconds = Seconds(request.done_ns - request.due_ns);
  if (request.first_ns > 0) out.ttft_seconds = Seconds(request.first_ns - request.due_ns);
  out.itl_seconds = ItlOf(request, gap_seconds);
}

// Formatted like the id of a run, "exp-20261123-025500-0a1b2c3d", with another prefix.
std::string MakeBatchId() { return "bench" + experiments::MakeRunId(RealClock().Now().unix_ns).substr(3); }

}  // namespace

void AddFigure(JsonObject& object, std::string_view key, double value) {
  object.Raw(key, std::isfinite(value) ? Printed("%.9g", value) : "null");
}

bool IsLocalHost(std::string_view host) noexcept {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

BenchMeter::BenchMeter(const LoadPlan& plan, bool always) {
  if (always || IsLocalHost(plan.url.host)) monitor_.emplace(EnergyOptionsOf(plan));
  else
    why_ = "the server is on another machine: run this command there, or pass --energy if " + plan.url.host +
           " is this machine";
}

BenchEnergy BenchMeter::Measure(const LoadRecord& record, const LoadSummary& summary) {
  BenchEnergy out;
  if (!monitor_ || summary.end_ns <= summary.begin_ns) {
    out.run.validity = monitor_ ? EnergyValidity::kGap : EnergyValidity::kNoDevice;
    out.run.reason = monitor_ ? "no request was measured" : why_;
    return out;
  }
  const auto at = [&](int64_t ns) { return TimePoint(Duration(record.start_ns + ns)); };
  // A window that ends now waits for the reading that closes the run, too.
  static_cast<void>(monitor_->Window().result(std::chrono::seconds(1)));
  out.run = monitor_->Between(at(summary.begin_ns), at(summary.end_ns));
  if (!out.run.valid()) return out;
  if (summary.completion_tokens > 0)
    out.joules_per_output_token = out.run.energy_joules / static_cast<double>(summary.completion_tokens);
  if (summary.ok > 0) out.joules_per_request = out.run.energy_joules / static_cast<double>(summary.ok);
  return out;
}

std::string EnergyText(const BenchEnergy& energy) {
  const EnergyResult& run = energy.run;
  std::string out = "  energy       ";
  if (!run.valid()) {
    return out + "unknown (" + std::string(EnergyValidityName(run.validity)) + "): " + Printable(run.reason) +
           "\n";
  }
  out += ToString(run) + " by " + std::string(EnergyVendorName(run.vendor));
  if (std::isfinite(energy.joules_per_output_token))
    out += Printed("; %.3g J/token out, ", energy.joules_per_output_token) +
           Printed("%.3g J/request", energy.joules_per_request);
  out += "\n";
  if (!run.reason.empty()) out += "  note         " + Printable(run.reason) + "\n";
  return out;
}

void AddEnergy(JsonObject& parent, const BenchEnergy& energy) {
  const EnergyResult& run = energy.run;
  JsonObject object(parent.Key("energy"));
  object.Whole("devices", run.devices);
  object.Text("validity", EnergyValidityName(run.validity));
  object.Text("reason", run.reason);
  object.Text("vendor", EnergyVendorName(run.vendor));
  object.Text("method", EnergyMethodName(run.method));
  AddFigure(object, "joules", run.energy_joules);
  AddFigure(object, "uncertainty_joules", run.uncertainty_joules);
  AddFigure(object, "mean_power_watts", run.mean_power_watts);
  AddFigure(object, "cpu_joules", run.cpu_joules);
  AddFigure(object, "dram_joules", run.dram_joules);
  AddFigure(object, "joules_per_output_token", energy.joules_per_output_token);
  AddFigure(object, "joules_per_request", energy.joules_per_request);
}

BenchStore::BenchStore(InferenceStore store, const LoadPlan& plan, std::string engine, EnergyMonitor* monitor)
    : store_(std::move(store)),
      monitor_(monitor),
      model_(plan.model),
      engine_(std::move(engine)),
      batch_id_(MakeBatchId()),
      stream_(plan.stream),
      warmup_(plan.warmup) {}

Result<std::unique_ptr<BenchStore>> BenchStore::Open(const std::string& path_or_url, const LoadPlan& plan,
                                                     std::string engine, EnergyMonitor* monitor) {
  ASSIGN_OR_RETURN(InferenceStore store, InferenceStore::Open(path_or_url));
  return std::unique_ptr<BenchStore>(new BenchStore(std::move(store), plan, std::move(engine), monitor));
}

// Warm-up requests take their share of the joules, too.
void BenchStore::OnSent(const LoadRequest& request) {
  if (!monitor_) return;
  const auto at = windows_.emplace(request.number, monitor_->Request()).first;
  at->second.Mark(inference::kPrefill);
}

void BenchStore::OnFirstToken(const LoadRequest& request) {
  if (const auto at = windows_.find(request.number); at != windows_.end())
    at->second.Mark(inference::kDecode);
}

void BenchStore::OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) {
  std::unique_ptr<inference::RecordSettler> joules;
  if (const auto at = windows_.find(request.number); at != windows_.end()) {
    at->second.End();
    joules = inference::SettleEnergy(std::move(at->second));
    windows_.erase(at);
  }
  if (request.number < warmup_) return;
  InferenceRecord record{.model = model_, .engine = engine_, .batch_id = batch_id_};
  record.error_type = request.error;
  record.time = system_clock::now() - std::chrono::duration_cast<system_clock::duration>(
                                          Duration(request.done_ns - request.due_ns));
  record.outcome = request.outcome;
  record.streaming = stream_;
  if (request.outcome == LoadRequest::Outcome::kOk) Measure(request, gap_seconds, record);
  ++given_;
  store_.core().Record(telemetry::FromRecord(record), joules ? &joules : nullptr);
}

BenchStored BenchStore::Close() {
  BenchStored out{.path = store_.path(), .batch_id = batch_id_};
  windows_.clear();
  out.status = store_.Close(std::chrono::seconds(30));
  const StoreHealth health = store_.health();
  out.stored = health.stored;
  out.lost = given_ - std::min(given_, health.stored);
  if (out.lost > 0 && out.status)  // dropped ones are an error of Close
    out.status = {Code::kDataLoss, "they were rejected; see the table telemetry_poison for the reasons"};
  return out;
}

std::string StoredText(const BenchStored& stored) {
  std::string out = "  stored       " + std::to_string(stored.stored) +
                    " records: gpulens telemetry stats --db " + Printable(stored.path) + " --batch " +
                    stored.batch_id + "\n";
  if (stored.lost == 0 && stored.status.ok()) return out;
  return out + "  note         " + std::to_string(stored.lost) +
         " records are lost: " + Printable(stored.status.detail) + "\n";
}

void AddStored(JsonObject& parent, const BenchStored& stored) {
  JsonObject object(parent.Key("store"));
  object.Text("path", stored.path);
  object.Text("batch_id", stored.batch_id);
  object.Count("stored", stored.stored);
  object.Count("lost", stored.lost);
  object.Text("reason", stored.status.detail);
}

}  // namespace gpulens
