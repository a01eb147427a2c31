#include "agent/api/event_ring.h"

#include <algorithm>
#include <utility>

#include "agent/api/history_pages.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/events.h"
#include "store/incident_store.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr int64_t kDefaultSinceMs = 3'600'000;
// What an earlier run stored is of interest as long as the window of the views.
constexpr int64_t kStoredNs = 3'600'000'000'000;
// Of an event as JSON. A longer body is cut; attributes that make it longer are left out.
constexpr size_t kMostEventJson = 16 << 10;

// The beginning of a long text, up to a whole character.
std::string_view Beginning(std::string_view text) {
  size_t size = std::min(text.size(), kMostEventJson / 4);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

bool IsJsonObject(std::string_view text) {
  JsonScanner json(text);
  return json.Peek() == JsonScanner::kObject && json.Skip() && json.Finish().ok();
}

Status WrongEventQuery(std::string detail) { return {Code::kInvalidArgument, std::move(detail)}; }

Result<EventRing::Query> ParseEventQuery(const ApiRequest& request, int64_t now_ms) {
  EventRing::Query query;
  query.since_ms = now_ms - kDefaultSinceMs;
  for (const auto& [name, value] : request.parameters) {
    if (name == "since") {
      if (const auto at = ParseInt<int64_t>(value)) {
        if (*at < 0) return WrongEventQuery("since is a time such as 1h, or in ms since 1970");
        query.since_ms = *at;
      } else {
        ASSIGN_OR_RETURN(const int64_t ago, MillisecondsOf("since", value));
        query.since_ms = now_ms - ago;
      }
    } else if (name == "gpu") {
      query.gpu_index = ParseInt<int64_t>(value);
      if (!query.gpu_index || *query.gpu_index < 0) return WrongEventQuery("gpu is the index of a GPU");
    } else if (name == "limit") {
      const auto limit = ParseInt<size_t>(value);
      if (!limit || *limit == 0) return WrongEventQuery("limit is a number from 1");
      query.limit = *limit;
    } else {
      return WrongEventQuery("there is no parameter " + Printable(name) + "; since, gpu, limit");
    }
  }
  return query;
}

}  // namespace

EventRing::Kept EventRing::MakeKept(const Incident& incident) {
  Kept kept;
  kept.unix_ms = incident.unix_ns / 1'000'000;
  kept.gpu_index = incident.gpu_index;
  EventSeverity severity = incident.severity;
  if (const EventDesc* row = FindEvent(incident.name); row && severity == EventSeverity::kUnset)
    severity = row->severity;
  auto write = [&](std::string_view attributes) {
    kept.json.clear();
    JsonObject object(kept.json);
    object.Whole("at", kept.unix_ms);
    object.Text("name", incident.name);
    object.Text("severity", EventSeverityName(severity));
    object.Text("body", Beginning(incident.body));
    object.Raw("attributes", attributes);
  };
  write(incident.attributes.empty() ? "{}" : std::string_view(incident.attributes));
  if (kept.json.size() > kMostEventJson) write("{}");
  return kept;
}

// Sources report a little late, and not in the order of time.
void EventRing::Insert(Kept kept) {
  bytes_ += kept.json.size();
  const auto place = std::ranges::upper_bound(kept_, kept.unix_ms, {}, &Kept::unix_ms);
  kept_.insert(place, std::move(kept));
  while (kept_.size() > kMostEvents || bytes_ > kMostBytes) {
    bytes_ -= kept_.front().json.size();
    kept_.pop_front();
  }
}

std::vector<std::string> EventRing::Add(const Events& events) {
  std::vector<std::string> added;
  for (const Event& event : events.list) {
    Kept kept = MakeKept(MakeIncident(event));
    added.push_back(kept.json);
    std::lock_guard lock(mutex_);
    Insert(std::move(kept));
  }
  return added;
}

void EventRing::ReadStore() {
  if (options_.store.empty()) return;
  auto store = IncidentStore::Open({.path = options_.store, .max_bytes = 0, .read_only = true});
  if (!store) return;  // there is no file; `gpulens doctor` names a broken one
  IncidentStore::Filter filter;
  filter.since_unix_ns = options_.start_ns - kStoredNs;
  filter.limit = kMostEvents;
  Result<std::vector<Incident>> stored = (*store)->Find(filter);
  if (!stored) return;
  std::lock_guard lock(mutex_);
  for (const Incident& incident : *stored) {
    if (incident.unix_ns < options_.start_ns &&
        (incident.attributes.empty() || IsJsonObject(incident.attributes)))
      Insert(MakeKept(incident));
  }
}

std::vector<std::string> EventRing::Find(const Query& query) {
  std::call_once(store_read_, [this] { ReadStore(); });
  std::vector<std::string> found;
  std::lock_guard lock(mutex_);
  for (auto each = kept_.rbegin(); each != kept_.rend() && found.size() < query.limit; ++each) {
    if (each->unix_ms < query.since_ms) break;
    if (!query.gpu_index || each->gpu_index == query.gpu_index) found.push_back(each->json);
  }
  return found;
}

void AddEventsPage(Api& api, EventRing& ring, const Clock& clock) {
  api.Add("/api/events", [&ring, &clock](const ApiRequest& request) -> Result<std::string> {
    ASSIGN_OR_RETURN(const EventRing::Query query, ParseEventQuery(request, clock.Now().unix_ns / 1'000'000));
    std::string out;
    {
      JsonObject page(out);
      page.Text("schema", "gpulens.events/1");
      page.List("events", ring.Find(query),
                [](std::string& text, const std::string& event) { text += event; });
    }
    return out;
  });
}

}  // namespace gpulens
