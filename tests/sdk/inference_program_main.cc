// A program for end-to-end tests that keeps inference records in two stores: runs the command of each line of
// its standard input and answers with a line.
#include <gpulens/inference.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "base/parse.h"
#include "store/telemetry/rows.h"

namespace {

using namespace gpulens;

std::vector<InferenceStore> stores;

std::string Reported(const Status& status) {
  return status.ok() ? "ok" : std::string(CodeName(status.code)) + " " + status.detail;
}

std::string Open(const std::string& url, StoreOptions options = {}) {
  options.flush_interval = std::chrono::milliseconds(20);
  auto store = InferenceStore::Open(url, options);
  if (!store) return Reported(store.status());
  stores.push_back(*std::move(store));
  return "ok " + stores.back().path();
}

// The i-th of all; what is not set is not known.
InferenceRecord Call(int64_t i) {
  static std::string session;
  session = "s\"\\{},NULL\n" + std::to_string(i) + "é";
  InferenceRecord record{.model = i % 3 == 0 ? "llama" : "qwen", .engine = i % 2 == 0 ? "vllm" : "sglang"};
  record.time =
      std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'000 + 1'700 * i));
  record.prompt_tokens = i % 700;
  if (i % 5 != 0) record.completion_tokens = i % 300;
  record.latency_seconds = 0.1 + static_cast<double>(i % 997) / 7;
  if (i % 4 != 0) record.ttft_seconds = static_cast<double>(i % 89) / 300;
  if (i % 2 == 0) record.energy_joules = 1.0 / 3 + static_cast<double>(i);
  if (i % 6 == 0) record.gpu_utilization_ratio = static_cast<double>(i % 101) / 100;
  record.outcome = i % 50 == 0 ? Outcome::kError : i % 51 == 0 ? Outcome::kCancelled : Outcome::kOk;
  if (i % 50 == 0) record.error_type = "timeout";
  record.warmup = i % 40 == 0;
  if (i % 9 == 0) record.batch_id = i % 2 == 0 ? "b1" : "b2";
  record.mining_session_id = session;
  if (i % 8 == 0) record.metadata_json = R"({"a": "\u0000 \"x\""})";
  return record;
}

void RecordSome(int64_t from, int64_t count) {
  for (int64_t i = from; i < from + count; ++i) {
    const InferenceRecord record = Call(i);
    for (InferenceStore& store : stores) store.Record(record);
  }
}

// Records each kind of invalid record among valid ones.
void RecordBad() {
  const std::string nul("a\0b", 3);
  InferenceRecord infinite{.model = "bad"};
  infinite.latency_seconds = std::numeric_limits<double>::infinity();
  InferenceStore& server = stores.back();
  for (int64_t i = 0; i < 50; ++i) server.Record(Call(i));
  server.Record(infinite);
  server.Record({.model = "bad", .metadata_json = "{not json"});
  server.Record({.model = "\xff\xfe"});
  server.Record({.model = nul});
  for (int64_t i = 50; i < 100; ++i) server.Record(Call(i));
}

std::vector<std::string> Lines(const InferenceStore& store, const Query& query, Status& status) {
  std::vector<std::string> lines;
  status = store.Each(query, [&](const InferenceRecord& record) {
    lines.push_back(telemetry::ToJson(telemetry::FromRecord(record)));
    return true;
  });
  return lines;
}

bool Near(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}
bool Same(const Distribution& a, const Distribution& b) {
  return a.n == b.n && Near(a.sum, b.sum) && Near(a.mean, b.mean) && Near(a.std, b.std) &&
         Near(a.min, b.min) && Near(a.max, b.max) && Near(a.p50, b.p50) && Near(a.p95, b.p95) &&
         Near(a.p99, b.p99);
}
bool Same(const InferenceSummary& a, const InferenceSummary& b) {
  return a.key == b.key && a.calls == b.calls && a.errors == b.errors && a.cancelled == b.cancelled &&
         a.prompt_tokens == b.prompt_tokens && a.completion_tokens == b.completion_tokens &&
         a.total_tokens == b.total_tokens && Same(a.latency_seconds, b.latency_seconds) &&
         Same(a.ttft_seconds, b.ttft_seconds) && Same(a.energy_joules, b.energy_joules) &&
         Same(a.gpu_utilization_ratio, b.gpu_utilization_ratio) &&
         Near(a.joules_per_output_token, b.joules_per_output_token) &&
         Near(a.output_tokens_per_second, b.output_tokens_per_second);
}

// Flushes both stores and returns the first error.
std::string FlushAll() {
  Status first;
  for (InferenceStore& store : stores) {
    Status status = store.Flush(std::chrono::seconds(20));
    if (first.ok()) first = std::move(status);
  }
  return Reported(first);
}

// Compares the results of all queries in both stores. Returns the number of groups and records compared.
std::string Compare() {
  using namespace std::chrono_literals;
  const std::chrono::system_clock::time_point begin(1'700'000'000s);
  std::vector<Query> queries = {
      {.warmup = true}, {.model = "qwen"}, {.since = begin + 1h, .until = begin + 3h}};
  queries.push_back({.engine = "vllm", .limit = 17, .newest_first = true});
  queries.push_back({.batch_id = "b2"});
  size_t records = 0, groups = 0;
  for (Query query : queries) {
    Status first, second;
    const auto a = Lines(stores[0], query, first), b = Lines(stores[1], query, second);
    if (!first || !second) return Reported(first) + ", " + Reported(second);
    if (a != b || a.empty()) return "records differ";
    records += a.size();
    for (int by = 0; by <= static_cast<int>(GroupBy::kDay); ++by) {
      query.by = static_cast<GroupBy>(by);
      auto c = stores[0].Summarize(query), d = stores[1].Summarize(query);
      if (!c || !d) return Reported(c.status()) + ", " + Reported(d.status());
      if (c->size() != d->size()) return "numbers of groups differ: " + std::to_string(by);
      for (size_t i = 0; i < c->size(); ++i) {
        if (!Same((*c)[i], (*d)[i])) return "group " + (*c)[i].key + " differs";
      }
      groups += c->size();
    }
  }
  return "same " + std::to_string(records) + " " + std::to_string(groups);
}

std::string Health() {
  const StoreHealth health = stores.back().health();
  return std::to_string(health.stored) + " " + std::to_string(health.queued) + " " +
         std::to_string(health.dropped) + " " + std::to_string(health.rejected) + " " +
         health.last_error.detail;
}

std::string Number(const Result<uint64_t>& number) {
  return number ? std::to_string(*number) : Reported(number.status());
}

// A child records while its parent's queue is not empty.
std::string RecordInChild(int64_t from, int64_t count) {
  const pid_t child = ::fork();
  if (child == 0) {
    RecordSome(from, count);
    bool good = true;
    for (InferenceStore& store : stores) {
      good = good && store.Flush(std::chrono::seconds(20)).ok() &&
             store.health().stored == static_cast<uint64_t>(count);
      good = store.Close().ok() && good;
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return "no child";
  return status == 0 ? "ok" : "the child failed";
}

std::string Do(std::string_view word, std::string_view rest) {
  if (word == "open") return Open(std::string(rest));
  if (word == "block") return Open(std::string(rest), {.queue_records = 1024, .when_full = WhenFull::kBlock});
  if (word == "keep") {
    const std::string_view seconds = TakeUntil(rest, ' ');
    return Open(std::string(rest),
                {.retention = std::chrono::seconds(ParseInt<int64_t>(seconds).value_or(0))});
  }
  if (stores.empty()) return "no store";
  if (word == "record") {
    const std::string_view from = TakeUntil(rest, ' ');
    return RecordSome(ParseInt<int64_t>(from).value_or(0), ParseInt<int64_t>(rest).value_or(0)), "ok";
  }
  if (word == "fork") {
    const std::string_view from = TakeUntil(rest, ' ');
    return RecordInChild(ParseInt<int64_t>(from).value_or(0), ParseInt<int64_t>(rest).value_or(0));
  }
  InferenceStore& last = stores.back();
  if (word == "bad") return RecordBad(), "ok";
  if (word == "flush") return FlushAll();
  if (word == "health") return Health();
  if (word == "count") return Number(last.Count());
  if (word == "clear") return Number(last.Clear());
  if (word == "vacuum") return Reported(last.Vacuum());
  if (word == "check") return Reported(last.Check());
  if (word == "close") return Reported(last.Close());
  return word == "compare" && stores.size() == 2 ? Compare() : "what?";
}

}  // namespace

int main() {
  char bytes[1024];
  while (std::fgets(bytes, sizeof bytes, stdin)) {
    std::string_view rest = Trim(bytes);
    const std::string_view word = TakeUntil(rest, ' ');
    std::printf("%s\n", Do(word, rest).c_str());
    std::fflush(stdout);
  }
  return 0;
}
