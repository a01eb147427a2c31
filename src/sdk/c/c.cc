#include <gpulens/c.h>
#include <gpulens/export.h>
#include <gpulens/instruments.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "sdk/c/c_state.h"

struct gpulens_series {
  gpulens::InstrumentKind kind;
  gpulens::internal::Handle handle;
  std::atomic<double>* gauge = nullptr;
};

namespace gpulens::sdk {
namespace {

static_assert(GPULENS_IO == static_cast<int>(Code::kIo));

// Never destroyed, since destructors of globals may still record.
struct ProcessState {
  static ProcessState& Instance() {
    static ProcessState* const state = new ProcessState;
    return *state;
  }
  using Key = std::tuple<InstrumentKind, uint32_t, uint32_t>;

  // The lock may be taken around a fork: no other lock is taken while it is held.
  ProcessState() {
    static_cast<void>(::pthread_atfork([] { Instance().mutex.lock(); }, [] { Instance().mutex.unlock(); },
                                       [] { Instance().mutex.unlock(); }));
  }

  std::mutex mutex;  // guards what follows
  std::map<Key, std::unique_ptr<gpulens_series>> series;
  std::map<std::string, Exporter> exporters;
};

std::string& LastError() {
  static thread_local std::string why;
  return why;
}

std::string_view TextOf(const char* text) { return text ? text : ""; }

gpulens_series* SeriesOf(InstrumentKind kind, const char* name, const char* unit,
                         std::span<const gpulens_attribute> given) {
  const bool integer = kind == InstrumentKind::kCounter || kind == InstrumentKind::kUpDownCounter;
  internal::Handle handle =
      internal::Make(kind, integer, TextOf(name), {.unit = TextOf(unit)}, Registry::Process());
  static_cast<void>(Reported(internal::StatusOf(handle)));
  std::vector<Attribute> attributes;
  for (const gpulens_attribute& one : given) attributes.push_back({TextOf(one.key), TextOf(one.value)});
  if (!attributes.empty()) handle = internal::Bind(handle, attributes);
  ProcessState& state = ProcessState::Instance();
  std::lock_guard lock(state.mutex);
  auto& series = state.series[{kind, handle.cell, handle.family}];
  if (!series) {
    series = std::make_unique<gpulens_series>(gpulens_series{kind, handle});
    if (kind == InstrumentKind::kGauge) series->gauge = internal::GaugeAt(handle);
  }
  return series.get();
}

std::span<const gpulens_attribute> SpanOf(const gpulens_attribute* attributes, size_t count) {
  return {attributes, attributes ? count : 0};
}

}  // namespace

int Reported(const Status& status) {
  LastError() = status.detail;
  return static_cast<int>(status.code);
}

std::chrono::nanoseconds TimeoutOf(double seconds) noexcept {
  constexpr double kLongest = 3600;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds > 0 ? std::min(seconds, kLongest) : 0));
}

int Keep(const std::string& what, const std::function<Result<Exporter>()>& start) {
  ProcessState& state = ProcessState::Instance();
  {
    std::lock_guard lock(state.mutex);
    if (state.exporters.contains(what)) return Reported(Ok());
  }
  Result<Exporter> made = start();
  if (!made) return Reported(made.error());
  // If another thread was first, this exporter ends after the lock is released.
  Exporter mine = *std::move(made);
  std::lock_guard lock(state.mutex);
  state.exporters.try_emplace(what, std::move(mine));
  return Reported(Ok());
}

}  // namespace gpulens::sdk

using gpulens::InstrumentKind;
using gpulens::sdk::SeriesOf;
using gpulens::sdk::SpanOf;

gpulens_series* gpulens_counter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                size_t count) {
  return SeriesOf(InstrumentKind::kCounter, name, unit, SpanOf(attributes, count));
}
gpulens_series* gpulens_updowncounter(const char* name, const char* unit, const gpulens_attribute* attributes,
                                      size_t count) {
  return SeriesOf(InstrumentKind::kUpDownCounter, name, unit, SpanOf(attributes, count));
}
gpulens_series* gpulens_gauge(const char* name, const char* unit, const gpulens_attribute* attributes,
                              size_t count) {
  return SeriesOf(InstrumentKind::kGauge, name, unit, SpanOf(attributes, count));
}
gpulens_series* gpulens_histogram(const char* name, const char* unit, const gpulens_attribute* attributes,
                                  size_t count) {
  return SeriesOf(InstrumentKind::kHistogram, name, unit, SpanOf(attributes, count));
}

void gpulens_add(gpulens_series* series, int64_t n) {
  using namespace gpulens;
  if (!series || series->kind == InstrumentKind::kGauge || series->kind == InstrumentKind::kHistogram)
    return internal::Drop();
  const bool monotonic = series->kind == InstrumentKind::kCounter;
  const internal::Cells& mine = internal::cells;
  if (series->handle.cell >= mine.size || (monotonic && n < 0)) [[unlikely]]
    return internal::AddSlow(series->handle, n, monotonic);
  std::atomic<uint64_t>& cell = mine.at[series->handle.cell];
  cell.store(cell.load(std::memory_order_relaxed) + static_cast<uint64_t>(n), std::memory_order_relaxed);
}

void gpulens_set(gpulens_series* series, double value) {
  using namespace gpulens;
  if (!series || !series->gauge) return internal::Drop();
  if (internal::cells.size == 0) [[unlikely]]
    internal::Touch();
  series->gauge->store(value, std::memory_order_relaxed);
}

void gpulens_record(gpulens_series* series, double value) {
  using namespace gpulens;
  if (!series || series->kind != InstrumentKind::kHistogram) return internal::Drop();
  internal::RecordExponential(series->handle, value);
}

int gpulens_export_to_agent(const char* socket) {
  gpulens::AgentOptions options;
  options.socket = gpulens::sdk::TextOf(socket);
  return gpulens::sdk::Keep("agent " + options.socket, [&] { return gpulens::ExportToAgent(options); });
}

int gpulens_expose(const char* listen) {
  gpulens::ExposeOptions options;
  if (listen) options.listen = listen;
  return gpulens::sdk::Keep("expose " + options.listen, [&] { return gpulens::Expose(options); });
}

int gpulens_share_with_workers(const char* folder) {
  gpulens::WorkersOptions options;
  options.folder = gpulens::sdk::TextOf(folder);
  return gpulens::sdk::Reported(gpulens::ShareWithWorkers(options));
}

int gpulens_flush(double timeout_seconds) {
  using namespace gpulens;
  const auto end = std::chrono::steady_clock::now() + sdk::TimeoutOf(timeout_seconds);
  std::vector<Exporter*> exporters;  // never removed
  {
    sdk::ProcessState& state = sdk::ProcessState::Instance();
    std::lock_guard lock(state.mutex);
    for (auto& [what, exporter] : state.exporters) exporters.push_back(&exporter);
  }
  Status worst;
  for (Exporter* exporter : exporters) {
    const auto left = std::max<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now(), {});
    if (Status one = exporter->Flush(left); !one) worst = std::move(one);
  }
  return sdk::Reported(worst);
}

const char* gpulens_last_error(void) { return gpulens::sdk::LastError().c_str(); }
