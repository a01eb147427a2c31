#include "plugins/collectors/probes/probe_protocol.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::probes {
namespace {

constexpr std::string_view kVerbs[] = {"frame", "status", "list", "attach", "detach", "switch"};
static_assert(std::size(kVerbs) == static_cast<size_t>(RequestVerb::kCount));
constexpr std::string_view kMeasuring[] = {"exact", "sampled", "count_only", "windows", "paused", "given_up"};
static_assert(std::size(kMeasuring) == static_cast<size_t>(Measuring::kCount));
constexpr std::string_view kLaunchNames[kLaunchTypes] = {"kernel", "cooperative", "graph"};
constexpr std::string_view kSyncNames[kSyncTypes] = {"stream", "event", "context"};

constexpr int64_t kMostPid = 1 << 22;
constexpr uint64_t kMostPpm = 1'000'000;
// A number of a program that has counted for years is below this; so sums of a few cannot overflow.
constexpr uint64_t kMostCount = uint64_t{1} << 60;
constexpr int64_t kMostForNs = int64_t{24} * 3600 * 1'000'000'000;

// ---- Writing.

void AppendHistogram(std::string& out, const job_page::HistogramCopy& histogram) {
  out += "{\"sum\":" + std::to_string(histogram.sum_ns) + ",\"buckets\":[";
  bool first = true;
  for (size_t i = 0; i < histogram.buckets.size(); ++i) {
    if (histogram.buckets[i] == 0) continue;
    if (!first) out += ',';
    first = false;
    out += std::to_string(i) + "," + std::to_string(histogram.buckets[i]);
  }
  out += "]}";
}

template <class Histograms>
void AddHistograms(JsonObject& object, std::string_view key, const Histograms& histograms) {
  if (std::ranges::all_of(histograms, [](const auto& one) { return one.count == 0; })) return;
  object.List(key, histograms, AppendHistogram);
}

void AppendProcess(std::string& out, const ProcessCounts& process) {
  JsonObject object(out);
  object.Whole("pid", process.pid);
  object.Count("start", process.start_boot_ns);
  object.Whole("root", process.root);
  object.Flag("exact", process.exact);
  object.Flag("all_timed", process.all_timed);
  object.Flag("cuda", process.has_cuda);
  object.Flag("waits", process.has_data);
  object.List("launches", process.launches, [](std::string& to, uint64_t n) { to += std::to_string(n); });
  AddHistograms(object, "enqueue", process.enqueue);
  AddHistograms(object, "sync", process.sync_wait);
  AddHistograms(object, "data", std::span(&process.data_wait, 1));
}

void AppendAttached(std::string& out, const AttachedTarget& target) {
  JsonObject object(out);
  object.Whole("pid", target.pid);
  object.Count("user", target.user);
  object.Count("by", target.requested_by);
  object.Flag("configured", target.by_configuration);
  object.Count("probes", target.probes);
  object.Text("measuring", MeasuringName(target.measuring));
  object.Count("one_in", target.timed_one_in);
  object.Count("left", target.left_ns);
  object.Count("share", target.share_ppm);
  object.Count("budget", target.budget_ppm);
  object.TextIfAny("trouble", target.trouble);
}

void AppendListed(std::string& out, const ListedTarget& target) {
  JsonObject object(out);
  object.Whole("pid", target.pid);
  object.Count("user", target.user);
  object.TextIfAny("name", target.name);
  object.TextIfAny("library", target.library);
  object.TextIfAny("build_id", target.build_id);
  object.Flag("attached", target.attached);
  AppendRefusal(object, target.reason, target.sentence, target.row);
  object.List("points", target.points, [](std::string& to, const ProbePoint& point) {
    JsonObject item(to);
    item.Text("function", point.function);
    if (point.cost_ns > 0) item.Number("cost", point.cost_ns);
    AppendRefusal(item, point.reason, point.sentence, point.row);
  });
}

void AppendStatus(std::string& out, const HostStatus& status) {
  JsonObject object(out);
  object.Whole("pid", status.pid);
  object.TextIfAny("mechanism", status.mechanism);
  AppendRefusal(object, status.reason, status.sentence, "");
  object.Flag("off", status.switched_off);
  object.TextIfAny("off_file", status.switch_file);
  object.TextIfAny("off_reason", status.switch_reason);
  object.Count("links", status.links);
  object.Count("thread_budget", status.thread_budget_ppm);
  object.Count("host_budget", status.host_budget_ppm);
  object.Count("agent_age", status.agent_age_ns);
  if (status.entry_cost_ns > 0) object.Number("entry_cost", status.entry_cost_ns);
  if (status.pair_cost_ns > 0) object.Number("pair_cost", status.pair_cost_ns);
  const std::pair<std::string_view, const std::vector<WordCount>*> words[] = {{"events", &status.events},
                                                                              {"cost", &status.cost_ns},
                                                                              {"lost", &status.lost},
                                                                              {"detached", &status.detached},
                                                                              {"refused", &status.refused}};
  for (const auto& [key, counts] : words) {
    if (!counts->empty()) AppendWords(object, key, *counts);
  }
  object.List("targets", status.targets, AppendAttached);
  if (!status.processes.empty()) object.List("processes", status.processes, AppendProcess);
  object.List("notes", status.notes, [](std::string& to, const ProbeNote& note) {
    JsonObject item(to);
    item.Count("number", note.number);
    item.Text("change", note.change);
    item.TextIfAny("reason", note.reason);
    item.Whole("pid", note.pid);
    item.Count("user", note.user);
    item.TextIfAny("sentence", note.sentence);
  });
}

// ---- Reading. After the first failure, which is the scanner's, values do not matter.

class Reader {
 public:
  explicit Reader(std::string_view line) : json(line, 16) {}

  JsonScanner json;

  void Fail(const char* what) { json.Fail(what); }

  void Take(uint64_t& out, uint64_t most = kMostCount) {
    const auto value = json.Unsigned();
    if (!value || *value > most) return Fail("a number that cannot be true");
    out = *value;
  }
  void Take(uint32_t& out) {
    uint64_t value = 0;
    Take(value, std::numeric_limits<uint32_t>::max());
    out = static_cast<uint32_t>(value);
  }
  void TakePid(int64_t& out) {
    uint64_t value = 0;
    Take(value, kMostPid);
    out = static_cast<int64_t>(value);
  }
  void Take(double& out) {
    const auto value = json.Double();
    if (!value || !std::isfinite(*value) || *value < 0 || *value > 1e12)
      return Fail("a number that cannot be true");
    out = *value;
  }
  void Take(bool& out) {
    const auto value = json.Bool();
    if (!value) return Fail("neither true nor false");
    out = *value;
  }
  void TakeText(std::string& out) {
    if (json.Peek() != JsonScanner::kString) return Fail("a text is missing");
    out = Printable(json.Text());
    if (out.size() > kMostTextBytes) Fail("a text that is too long");
  }
  // Letters, digits, "_", "-" and ".".
  void TakeWord(std::string& out) {
    TakeText(out);
    const auto good = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    };
    if (out.size() > kMostWordBytes || !std::ranges::all_of(out, good)) Fail("no word");
  }
  void TakeProbes(uint8_t& out) {
    uint64_t value = 0;
    Take(value, kAllProbes);
    out = static_cast<uint8_t>(value);
  }
  // Calls `item()` for each, at most `most` times.
  template <class Item>
  void TakeList(size_t most, Item item) {
    if (json.Peek() != JsonScanner::kArray) return Fail("a list is missing");
    size_t count = 0;
    json.Array([&] {
      if (++count > most) return Fail("a list that is too long");
      item();
    });
  }
  template <class Member>
  void TakeObject(Member member) {
    if (json.Peek() != JsonScanner::kObject) return Fail("an object is missing");
    json.Object(member);
  }
};

void TakeHistogram(Reader& in, job_page::HistogramCopy& out) {
  out = {};
  in.TakeObject([&](std::string_view key) {
    if (key == "sum") return in.Take(out.sum_ns, std::numeric_limits<uint64_t>::max());
    if (key != "buckets") return;
    out.buckets = {};
    out.count = 0;
    bool is_index = true;
    uint64_t index = 0, above = 0;
    in.TakeList(2 * job_page::kBuckets, [&] {
      if (is_index) {
        in.Take(index, job_page::kBuckets - 1);
        if (index < above) in.Fail("buckets out of order");
        above = index + 1;
      } else if (!in.json.failed()) {
        in.Take(out.buckets[index]);
        out.count += out.buckets[index];
      }
      is_index = !is_index;
    });
    if (!is_index) in.Fail("a bucket without a count");
    if (out.count > kMostCount) in.Fail("a number that cannot be true");
  });
}

template <class Array, class TakeOne>
void TakeArray(Reader& in, Array& out, TakeOne take_one) {
  size_t at = 0;
  in.TakeList(out.size(), [&] { take_one(out[at++]); });
}

void TakeProcess(Reader& in, ProcessCounts& out) {
  const auto histogram = [&](job_page::HistogramCopy& one) { TakeHistogram(in, one); };
  in.TakeObject([&](std::string_view key) {
    if (key == "pid") return in.TakePid(out.pid);
    if (key == "start") return in.Take(out.start_boot_ns);
    if (key == "root") return in.TakePid(out.root);
    if (key == "exact") return in.Take(out.exact);
    if (key == "all_timed") return in.Take(out.all_timed);
    if (key == "cuda") return in.Take(out.has_cuda);
    if (key == "waits") return in.Take(out.has_data);
    if (key == "launches") return TakeArray(in, out.launches, [&](uint64_t& one) { in.Take(one); });
    if (key == "enqueue") return TakeArray(in, out.enqueue, histogram);
    if (key == "sync") return TakeArray(in, out.sync_wait, histogram);
    if (key == "data") return in.TakeList(1, [&] { histogram(out.data_wait); });
  });
  if (out.pid == 0) in.Fail("counts without a process");
}

void TakeAttached(Reader& in, AttachedTarget& out) {
  in.TakeObject([&](std::string_view key) {
    if (key == "pid") return in.TakePid(out.pid);
    if (key == "user") return in.Take(out.user);
    if (key == "by") return in.Take(out.requested_by);
    if (key == "configured") return in.Take(out.by_configuration);
    if (key == "probes") return in.TakeProbes(out.probes);
    if (key == "measuring") {
      std::string word;
      in.TakeWord(word);
      const auto* at = std::ranges::find(kMeasuring, word);
      if (at == std::end(kMeasuring)) return in.Fail("an unknown word");
      out.measuring = static_cast<Measuring>(at - std::begin(kMeasuring));
      return;
    }
    if (key == "one_in") return in.Take(out.timed_one_in, uint64_t{1} << 32);
    if (key == "left") return in.Take(out.left_ns);
    if (key == "share") return in.Take(out.share_ppm);
    if (key == "budget") return in.Take(out.budget_ppm, kMostPpm);
    if (key == "trouble") return in.TakeText(out.trouble);
  });
  if (out.pid == 0) in.Fail("a target without a process");
}

void TakeWords(Reader& in, std::vector<WordCount>& out) {
  out.clear();
  in.TakeList(kMostCounters, [&] {
    WordCount& one = out.emplace_back();
    in.TakeObject([&](std::string_view key) {
      if (key == "probe") return in.TakeWord(one.probe);
      if (key == "reason") return in.TakeWord(one.reason);
      if (key == "count") return in.Take(one.count);
    });
  });
}

void TakeListed(Reader& in, ListedTarget& out) {
  in.TakeObject([&](std::string_view key) {
    if (key == "pid") return in.TakePid(out.pid);
    if (key == "user") return in.Take(out.user);
    if (key == "name") return in.TakeText(out.name);
    if (key == "library") return in.TakeText(out.library);
    if (key == "build_id") return in.TakeWord(out.build_id);
    if (key == "attached") return in.Take(out.attached);
    if (key == "reason") return in.TakeWord(out.reason);
    if (key == "sentence") return in.TakeText(out.sentence);
    if (key == "row") return in.TakeText(out.row);
    if (key != "points") return;
    in.TakeList(kMostPoints, [&] {
      ProbePoint& point = out.points.emplace_back();
      in.TakeObject([&](std::string_view member) {
        if (member == "function") return in.TakeWord(point.function);
        if (member == "cost") return in.Take(point.cost_ns);
        if (member == "reason") return in.TakeWord(point.reason);
        if (member == "sentence") return in.TakeText(point.sentence);
        if (member == "row") return in.TakeText(point.row);
      });
    });
  });
  if (out.pid == 0) in.Fail("a target without a process");
}

void TakeStatus(Reader& in, HostStatus& out) {
  in.TakeObject([&](std::string_view key) {
    if (key == "pid") return in.TakePid(out.pid);
    if (key == "mechanism") return in.TakeWord(out.mechanism);
    if (key == "reason") return in.TakeWord(out.reason);
    if (key == "sentence") return in.TakeText(out.sentence);
    if (key == "off") return in.Take(out.switched_off);
    if (key == "off_file") return in.TakeText(out.switch_file);
    if (key == "off_reason") return in.TakeText(out.switch_reason);
    if (key == "links") return in.Take(out.links);
    if (key == "thread_budget") return in.Take(out.thread_budget_ppm, kMostPpm);
    if (key == "host_budget") return in.Take(out.host_budget_ppm, kMostPpm);
    if (key == "agent_age") return in.Take(out.agent_age_ns);
    if (key == "entry_cost") return in.Take(out.entry_cost_ns);
    if (key == "pair_cost") return in.Take(out.pair_cost_ns);
    if (key == "events") return TakeWords(in, out.events);
    if (key == "cost") return TakeWords(in, out.cost_ns);
    if (key == "lost") return TakeWords(in, out.lost);
    if (key == "detached") return TakeWords(in, out.detached);
    if (key == "refused") return TakeWords(in, out.refused);
    if (key == "targets")
      return in.TakeList(kMostTargets, [&] { TakeAttached(in, out.targets.emplace_back()); });
    if (key == "processes")
      return in.TakeList(kMostProcesses, [&] { TakeProcess(in, out.processes.emplace_back()); });
    if (key != "notes") return;
    in.TakeList(kMostNotes, [&] {
      ProbeNote& note = out.notes.emplace_back();
      in.TakeObject([&](std::string_view member) {
        if (member == "number") return in.Take(note.number);
        if (member == "change") return in.TakeWord(note.change);
        if (member == "reason") return in.TakeWord(note.reason);
        if (member == "pid") return in.TakePid(note.pid);
        if (member == "user") return in.Take(note.user);
        if (member == "sentence") return in.TakeText(note.sentence);
      });
    });
  });
  const auto twice = [](const auto& list) {
    std::set<int64_t> seen;
    return !std::ranges::all_of(list, [&](const auto& one) { return seen.insert(one.pid).second; });
  };
  if (twice(out.targets) || twice(out.processes)) in.Fail("a process that is there twice");
}

}  // namespace

void AppendRefusal(JsonObject& object, std::string_view reason, std::string_view sentence,
                   std::string_view row) {
  object.TextIfAny("reason", reason);
  object.TextIfAny("sentence", sentence);
  object.TextIfAny("row", row);
}

void AppendWords(JsonObject& object, std::string_view key, const std::vector<WordCount>& counts) {
  object.List(key, counts, [](std::string& out, const WordCount& one) {
    JsonObject item(out);
    item.TextIfAny("probe", one.probe);
    item.TextIfAny("reason", one.reason);
    item.Count("count", one.count);
  });
}

std::string ProbeNames(uint8_t probes) {
  std::string out;
  if (probes & kCudaProbe) out = "cuda";
  if (probes & kDataloadProbe) out += out.empty() ? "dataload" : ",dataload";
  return out;
}

Result<uint8_t> ParseProbes(std::string_view words) {
  uint8_t out = 0;
  while (!words.empty()) {
    const std::string_view word = Trim(TakeUntil(words, ','));
    if (word == "cuda") out |= kCudaProbe;
    else if (word == "dataload") out |= kDataloadProbe;
    else
      return Status{Code::kInvalidArgument,
                    "no probe \"" + Printable(word.substr(0, 32)) + "\"; expected cuda or dataload"};
  }
  if (out == 0) return Status{Code::kInvalidArgument, "no probe given; expected cuda or dataload"};
  return out;
}

std::string_view MeasuringName(Measuring measuring) noexcept {
  return kMeasuring[std::min(static_cast<size_t>(measuring), std::size(kMeasuring) - 1)];
}
std::string_view LaunchTypeName(size_t type) noexcept {
  return kLaunchNames[std::min(type, kLaunchTypes - 1)];
}
std::string_view SyncTypeName(size_t type) noexcept { return kSyncNames[std::min(type, kSyncTypes - 1)]; }

std::string EncodeRequest(const ProbeRequest& request) {
  std::string out;
  {
    JsonObject object(out);
    object.Text("verb", kVerbs[static_cast<size_t>(request.verb)]);
    if (request.pid != 0) object.Whole("pid", request.pid);
    if (request.probes != 0) object.Count("probes", request.probes);
    if (request.for_ns != 0) object.Whole("for", request.for_ns);
    if (request.budget_ppm != 0) object.Count("budget", request.budget_ppm);
    if (request.switch_off) object.Flag("off", true);
    object.TextIfAny("reason", request.reason);
    if (request.seen_notes != 0) object.Count("seen", request.seen_notes);
  }
  return out += '\n';
}

Result<ProbeRequest> DecodeRequest(std::string_view line) {
  if (line.size() > kMostRequestBytes) return Status{Code::kExhausted, "a request that is too long"};
  Reader in(line);
  ProbeRequest out;
  bool has_verb = false;
  in.TakeObject([&](std::string_view key) {
    if (key == "verb") {
      std::string word;
      in.TakeWord(word);
      const auto* at = std::ranges::find(kVerbs, word);
      if (at == std::end(kVerbs)) return in.Fail("an unknown verb");
      has_verb = true;
      out.verb = static_cast<RequestVerb>(at - std::begin(kVerbs));
      return;
    }
    if (key == "pid") return in.TakePid(out.pid);
    if (key == "probes") return in.TakeProbes(out.probes);
    if (key == "for") {
      uint64_t value = 0;
      in.Take(value, static_cast<uint64_t>(kMostForNs));
      out.for_ns = static_cast<int64_t>(value);
      return;
    }
    if (key == "budget") return in.Take(out.budget_ppm, kMostPpm);
    if (key == "off") return in.Take(out.switch_off);
    if (key == "reason") return in.TakeText(out.reason);
    if (key == "seen") return in.Take(out.seen_notes);
  });
  if (!has_verb) in.Fail("no verb");
  RETURN_IF_ERROR(in.json.Finish());
  if (out.verb == RequestVerb::kAttach && (out.pid == 0 || out.probes == 0))
    return Status{Code::kDataLoss, "attach needs a process and probes"};
  return out;
}

std::string EncodeReply(const ProbeReply& reply) {
  std::string out;
  {
    JsonObject object(out);
    object.TextIfAny("refusal", reply.refusal);
    object.TextIfAny("sentence", reply.sentence);
    object.TextIfAny("row", reply.row);
    if (reply.took_s > 0) object.Number("took", reply.took_s);
    AppendStatus(object.Key("status"), reply.status);
    if (!reply.targets.empty()) object.List("targets", reply.targets, AppendListed);
  }
  return out += '\n';
}

Result<ProbeReply> DecodeReply(std::string_view line) {
  if (line.size() > kMostReplyBytes) return Status{Code::kExhausted, "a reply that is too long"};
  Reader in(line);
  ProbeReply out;
  in.TakeObject([&](std::string_view key) {
    if (key == "refusal") return in.TakeWord(out.refusal);
    if (key == "sentence") return in.TakeText(out.sentence);
    if (key == "row") return in.TakeText(out.row);
    if (key == "took") return in.Take(out.took_s);
    if (key == "status") {
      out.status = {};
      return TakeStatus(in, out.status);
    }
    if (key != "targets") return;
    out.targets.clear();
    in.TakeList(kMostListed, [&] { TakeListed(in, out.targets.emplace_back()); });
  });
  RETURN_IF_ERROR(in.json.Finish());
  return out;
}

}  // namespace gpulens::probes
