#include "cli/proxy/telemetry_records.h"

#include <atomic>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "sdk/inference/core.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"

namespace gpulens {
namespace {

constexpr Duration kCloseTime = std::chrono::seconds(5);

// A server that is opened by the thread that writes.
class LateServer final : public telemetry::RecordDestination {
 public:
  LateServer(std::string url, Duration retention) : url_(std::move(url)), retention_(retention) {}

  Result<telemetry::WriteCounts> Write(std::span<const telemetry::RecordRow> rows,
                                       uint64_t dropped) override {
    RETURN_IF_ERROR(Open());
    return server_->Write(rows, dropped);
  }
  Status SetAside(std::string_view record, std::string_view reason) override {
    RETURN_IF_ERROR(Open());
    return server_->SetAside(record, reason);
  }
  Result<bool> Tidy() override { return server_ ? server_->Tidy() : Result<bool>(false); }
  Result<uint64_t> Clear() override {
    RETURN_IF_ERROR(Open());
    return server_->Clear();
  }
  Status Vacuum() override {
    RETURN_IF_ERROR(Open());
    return server_->Vacuum();
  }
  Status Close(uint64_t dropped) override { return server_ ? server_->Close(dropped) : Ok(); }

 private:
  Status Open() {
    if (server_) return Ok();
    ASSIGN_OR_RETURN(server_, telemetry::OpenServer(url_, retention_));
    return Ok();
  }

  const std::string url_;
  const Duration retention_;
  std::unique_ptr<telemetry::RecordDestination> server_;
};

class TelemetryRecords final : public proxy::RequestRecords {
 public:
  explicit TelemetryRecords(std::unique_ptr<inference::CallRecorder> recorder)
      : recorder_(std::move(recorder)) {}
  ~TelemetryRecords() override { static_cast<void>(recorder_->Close(kCloseTime)); }

  void Add(const ChargeRecord& record, bool streaming) noexcept override {
    try {
      std::string room;
      static_cast<void>(recorder_->Record(proxy::RecordOf(record, streaming, room)));
    } catch (...) {  // no memory
      lost_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Counts counts() const override {
    const StoreHealth health = recorder_->health();
    return {.stored = health.stored,
            .queued = health.queued,
            .lost = health.dropped + lost_.load(std::memory_order_relaxed),
            .set_aside = health.rejected,
            .failing = !health.last_error.ok()};
  }

 private:
  const std::unique_ptr<inference::CallRecorder> recorder_;
  std::atomic<uint64_t> lost_ = 0;
};

}  // namespace

std::string TelemetryFile(const std::string& place) {
  if (telemetry::IsServer(place)) return {};
  const Result<std::string> path = telemetry::ExpandPath(place);
  return path ? *path : place;
}

Result<std::unique_ptr<proxy::RequestRecords>> OpenTelemetryRecords(const TelemetryRecordsOptions& options) {
  std::unique_ptr<telemetry::RecordDestination> destination;
  std::string name;
  if (telemetry::IsServer(options.place)) {
    name = telemetry::ServerName(options.place);
    destination = std::make_unique<LateServer>(options.place, options.retention);
  } else {
    if (options.place.find("://") != std::string::npos)
      return Status{
          Code::kInvalidArgument,
          "telemetry.url: expected a path, postgresql://… or clickhouse://…, not " + UrlName(options.place)};
    ASSIGN_OR_RETURN(name, telemetry::ExpandPath(options.place));
    ASSIGN_OR_RETURN(destination,
                     telemetry::FileWriter::Open({.path = name,
                                                  .retention = options.retention,
                                                  .rollup = std::make_unique<telemetry::RollupWriter>()}));
  }
  ASSIGN_OR_RETURN(auto recorder, inference::CallRecorder::Start({.name = std::move(name),
                                                                  .queue_records = options.queue_records,
                                                                  .flush_interval = options.flush_interval},
                                                                 std::move(destination)));
  return std::unique_ptr<proxy::RequestRecords>(std::make_unique<TelemetryRecords>(std::move(recorder)));
}

}  // namespace gpulens
