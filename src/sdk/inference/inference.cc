#include <gpulens/inference.h>

#include "base/result.h"
#include "sdk/inference/core.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"

namespace gpulens {

InferenceStore::InferenceStore(std::shared_ptr<internal::InferenceCore> core) noexcept
    : core_(std::move(core)) {}
InferenceStore::InferenceStore(InferenceStore&&) noexcept = default;
InferenceStore& InferenceStore::operator=(InferenceStore&& other) noexcept {
  if (this != &other) {
    InferenceStore old(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

InferenceStore::~InferenceStore() {
  if (core_) static_cast<void>(Close());
}

Result<InferenceStore> InferenceStore::Open(std::string_view path_or_url, const StoreOptions& options) {
  ASSIGN_OR_RETURN(auto core, internal::InferenceCore::Open(path_or_url, options));
  return InferenceStore(std::move(core));
}

void InferenceStore::Record(const InferenceRecord& record) noexcept { core_->Record(record); }

Status InferenceStore::Flush(std::chrono::nanoseconds timeout) { return core_->Flush(timeout); }
Status InferenceStore::Close(std::chrono::nanoseconds timeout) { return core_->Close(timeout); }
StoreHealth InferenceStore::health() const { return core_->health(); }
const std::string& InferenceStore::path() const noexcept { return core_->path(); }

Result<std::vector<InferenceSummary>> InferenceStore::Summarize(const Query& query) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::SummarizeServer(server, query);
  std::vector<InferenceSummary> groups;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(groups, telemetry::Summarize(database, query));
    return Ok();
  }));
  return groups;
}

Status InferenceStore::Each(const Query& query,
                            const std::function<bool(const InferenceRecord&)>& on_record) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty())
    return telemetry::EachServerRow(
        server, query, [&](const telemetry::Row& row) { return on_record(telemetry::ToRecord(row)); });
  return core_->Read(
      [&](const sqlite::Database& database) { return telemetry::EachRecord(database, query, on_record); });
}

Result<uint64_t> InferenceStore::Count() const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::CountServerRecords(server);
  uint64_t count = 0;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(const int64_t number, database.Number("SELECT count(*) FROM telemetry"));
    count = static_cast<uint64_t>(number);
    return Ok();
  }));
  return count;
}

Result<uint64_t> InferenceStore::Clear() { return core_->Clear(); }
Status InferenceStore::Vacuum() { return core_->Vacuum(); }

Status InferenceStore::Check() const {
  return core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(sqlite::Statement check, database.Prepare("PRAGMA integrity_check(10)"));
    std::string wrong;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, check.Step());
      if (!row) break;
      if (check.Text(0) != "ok") wrong += (wrong.empty() ? "" : "; ") + std::string(check.Text(0));
    }
    return wrong.empty() ? Ok() : Status{Code::kDataLoss, core_->path() + ": " + wrong};
  });
}

}  // namespace gpulens
