#include "sources/torch_recorder/recorder_dump.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "sources/torch_recorder/pickle_json.h"

namespace gpulens::torch_recorder {
namespace {

constexpr size_t kMaxDumpBytes = 64u << 20;
constexpr size_t kMaxEntries = 1'000'000;
constexpr size_t kMaxRanks = 1'000'000;
constexpr size_t kShownText = 256;

// A number, or a text that is one: the JSON form writes some numbers as texts.
std::optional<uint64_t> WholeOf(JsonScanner& json) {
  if (json.Peek() == JsonScanner::kString) return ParseInt<uint64_t>(json.Text());
  if (json.Peek() == JsonScanner::kNumber) {
    std::string_view number;
    if (json.Number(number)) return JsonInteger<uint64_t>(number);
    return {};
  }
  json.Skip();
  return {};
}

std::string Bounded(std::string_view text) { return std::string(text.substr(0, kShownText)); }

// Lists of lists of numbers and texts, in one form whatever the blanks were.
void WriteShape(JsonScanner& json, std::string& out, int depth) {
  switch (json.Peek()) {
    case JsonScanner::kArray: {
      if (depth > 8) return static_cast<void>(json.Fail("a shape that is nested deeper than 8"));
      out += '[';
      bool first = true;
      json.Array([&] {
        if (!std::exchange(first, false)) out += ',';
        WriteShape(json, out, depth + 1);
      });
      out += ']';
      return;
    }
    case JsonScanner::kNumber: {
      std::string_view number;
      if (json.Number(number)) out += number;
      return;
    }
    case JsonScanner::kString: out += json.Text(); return;
    default: json.Skip(); return;
  }
}

EntryState StateOf(std::string_view text) {
  if (text == "scheduled") return EntryState::kScheduled;
  if (text == "started") return EntryState::kStarted;
  if (text == "completed") return EntryState::kCompleted;
  return EntryState::kUnknown;
}

// Whether it is a collective with a number, and not a send or receive.
bool ReadEntry(JsonScanner& json, RecorderEntry& entry) {
  bool point_to_point = false, numbered = false;
  json.Object([&](std::string_view key) {
    if (key == "process_group") {
      int at = 0;
      json.Array([&] {
        if (json.Peek() != JsonScanner::kString) return static_cast<void>(json.Skip());
        (at++ == 0 ? entry.group : entry.group_description) = Bounded(json.Text());
      });
    } else if (key == "collective_seq_id" || (key == "seq_id" && !numbered)) {
      if (const auto sequence = WholeOf(json)) entry.sequence = *sequence, numbered = true;
    } else if (key == "profiling_name") {
      entry.name = Bounded(json.Text());
    } else if (key == "state") {
      entry.state = StateOf(json.Text());
    } else if (key == "is_p2p") {
      point_to_point = json.Bool().value_or(false);
    } else if (key == "time_created_ns") {
      const auto created = WholeOf(json).value_or(0);
      if (created <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        entry.created_unix_ns = static_cast<int64_t>(created);
    } else if (key == "input_sizes") {
      WriteShape(json, entry.input_sizes, 0);
    } else if (key == "output_sizes") {
      WriteShape(json, entry.output_sizes, 0);
    } else if (key == "input_dtypes") {
      WriteShape(json, entry.input_types, 0);
    } else if (key == "output_dtypes") {
      WriteShape(json, entry.output_types, 0);
    }
  });
  return numbered && !point_to_point;
}

// "[0, 1, 2]" as a text, or a list.
std::vector<int> ReadRanks(JsonScanner& json) {
  std::vector<int> ranks;
  const auto add = [&](std::string_view text) {
    const auto rank = ParseInt<int>(text);
    if (rank && *rank >= 0 && ranks.size() < kMaxRanks) ranks.push_back(*rank);
  };
  if (json.Peek() == JsonScanner::kArray) {
    json.Array([&] {
      std::string_view number;
      if (json.Peek() == JsonScanner::kNumber && json.Number(number)) add(number);
    });
    return ranks;
  }
  std::string_view text = json.Text();
  while (!text.empty()) {
    const size_t begin = text.find_first_of("0123456789");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    add(text.substr(0, end));
    text.remove_prefix(end);
  }
  return ranks;
}

Result<RecorderDump> ReadJson(std::string_view text) {
  RecorderDump dump;
  JsonScanner json(text);
  bool has_entries = false, too_many = false;
  json.Object([&](std::string_view key) {
    if (key == "version") {
      dump.version = Bounded(json.Text());
    } else if (key == "rank") {
      if (const auto rank = WholeOf(json); rank && *rank < kMaxRanks) dump.rank = static_cast<int>(*rank);
    } else if (key == "entries") {
      has_entries = true;
      json.Array([&] {
        if (dump.entries.size() >= kMaxEntries) return too_many = true, static_cast<void>(json.Skip());
        RecorderEntry entry;
        if (ReadEntry(json, entry)) dump.entries.push_back(std::move(entry));
      });
    } else if (key == "pg_config") {
      json.Object([&](std::string_view group) {
        std::vector<int>& members = dump.members[Bounded(group)];
        json.Object([&](std::string_view member) {
          if (member == "ranks") members = ReadRanks(json);
        });
      });
    }
  });
  RETURN_IF_ERROR(json.Finish());
  if (too_many) return Status{Code::kExhausted, "more than 1,000,000 entries"};
  if (!has_entries) return Status{Code::kDataLoss, "no dump of a flight recorder: it has no \"entries\""};
  return dump;
}

struct CallOfRank {
  int rank = -1;
  const RecorderEntry* entry = nullptr;
};
// What must be equal on all ranks. The sizes of some functions differ by design.
std::string ShapeOf(const RecorderEntry& entry) {
  std::string shape = entry.name + " of " + entry.input_types;
  for (const char* uneven : {"all_to_all", "gather", "scatter", "coalesced", "broadcast"}) {
    if (entry.name.find(uneven) != std::string::npos) return shape;
  }
  return shape + ' ' + entry.input_sizes;
}

// One collective of one group, by all dumps that have it.
struct PlaceInGroup {
  std::string group;
  uint64_t sequence = 0;
  int64_t created_unix_ns = 0;  // of the earliest call
  std::vector<CallOfRank> calls;
};

}  // namespace

Result<RecorderDump> ParseRecorderDump(std::string_view bytes) {
  if (bytes.size() > kMaxDumpBytes) return Status{Code::kExhausted, "larger than 64 MiB"};
  const size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && bytes[begin] == '{') return ReadJson(bytes);
  ASSIGN_OR_RETURN(const std::string json, PickleAsJson(bytes));
  return ReadJson(json);
}

std::optional<int> RankOfFile(std::string_view path) noexcept {
  size_t end = path.size();
  for (const std::string_view suffix : {".json", ".pkl", ".pickle"}) {
    if (path.ends_with(suffix)) end = path.size() - suffix.size();
  }
  size_t begin = end;
  while (begin > 0 && path[begin - 1] >= '0' && path[begin - 1] <= '9') --begin;
  if (begin == end) return {};
  return ParseInt<int>(path.substr(begin, end - begin));
}

namespace {

// The collectives of all groups that every dump of a member still has room for, the earliest call first.
std::vector<PlaceInGroup> PlacesOf(std::span<const RecorderDump> dumps) {
  std::map<std::string, uint64_t> first;  // by group: the highest of the ranks' oldest numbers
  for (const RecorderDump& dump : dumps) {
    std::map<std::string, uint64_t> oldest;
    for (const RecorderEntry& entry : dump.entries) {
      const auto [at, added] = oldest.try_emplace(entry.group, entry.sequence);
      if (!added) at->second = std::min(at->second, entry.sequence);
    }
    for (const auto& [group, sequence] : oldest) {
      auto& of_group = first[group];
      of_group = std::max(of_group, sequence);
    }
  }
  std::map<std::pair<std::string, uint64_t>, PlaceInGroup> places;
  for (const RecorderDump& dump : dumps) {
    for (const RecorderEntry& entry : dump.entries) {
      if (entry.sequence < first[entry.group]) continue;
      PlaceInGroup& place = places[{entry.group, entry.sequence}];
      place.group = entry.group, place.sequence = entry.sequence;
      if (entry.created_unix_ns > 0 &&
          (place.created_unix_ns == 0 || entry.created_unix_ns < place.created_unix_ns))
        place.created_unix_ns = entry.created_unix_ns;
      place.calls.push_back({dump.rank, &entry});
    }
  }
  std::vector<PlaceInGroup> sorted;
  for (auto& [key, place] : places) sorted.push_back(std::move(place));
  std::sort(sorted.begin(), sorted.end(), [](const PlaceInGroup& a, const PlaceInGroup& b) {
    return std::tie(a.created_unix_ns, a.group, a.sequence) <
           std::tie(b.created_unix_ns, b.group, b.sequence);
  });
  return sorted;
}

// The value that most calls have.
template <class Of>
auto MostOf(const std::vector<CallOfRank>& calls, Of of) {
  std::map<decltype(of(*calls[0].entry)), size_t> counts;
  for (const CallOfRank& call : calls) ++counts[of(*call.entry)];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// kNone: all matched and it is complete.
RecorderFinding FindingAt(const PlaceInGroup& place, const std::set<int>& members,
                          const std::set<int>& known) {
  RecorderFinding finding;
  const RecorderEntry& any = *place.calls[0].entry;
  finding.group = place.group, finding.group_description = any.group_description;
  finding.sequence = place.sequence, finding.name = any.name;
  std::set<int> called;
  bool complete = true;
  for (const CallOfRank& call : place.calls) {
    called.insert(call.rank);
    complete = complete && call.entry->state == EntryState::kCompleted;
  }
  for (const int member : members) {
    if (known.contains(member) && !called.contains(member)) finding.culprits.push_back(member);
  }
  const std::string shape = MostOf(place.calls, ShapeOf);
  const auto wait = [&] {
    for (const CallOfRank& call : place.calls) {
      if (call.entry->state != EntryState::kCompleted && ShapeOf(*call.entry) == shape &&
          std::find(finding.culprits.begin(), finding.culprits.end(), call.rank) == finding.culprits.end())
        finding.waiting.push_back(call.rank);
    }
  };
  const auto found = [&](Mismatch mismatch) {
    finding.mismatch = mismatch;
    wait();
    return finding;
  };
  // A collective that is complete had all its ranks, whatever the dumps have.
  const bool any_complete = std::any_of(place.calls.begin(), place.calls.end(), [](const CallOfRank& call) {
    return call.entry->state == EntryState::kCompleted;
  });
  if (!finding.culprits.empty() && !any_complete) return found(Mismatch::kNotCalled);
  finding.culprits.clear();
  for (const CallOfRank& call : place.calls) {
    if (ShapeOf(*call.entry) == shape) continue;
    if (finding.culprits.empty())
      finding.detail =
          "most called " + shape + ", rank " + std::to_string(call.rank) + " " + ShapeOf(*call.entry);
    finding.culprits.push_back(call.rank);
  }
  if (!finding.culprits.empty()) return found(Mismatch::kDifferent);
  if (complete) return finding;
  for (const CallOfRank& call : place.calls) {
    if (call.entry->state == EntryState::kScheduled) finding.culprits.push_back(call.rank);
  }
  // Where none has started, the GPUs of all wait for something else.
  if (!finding.culprits.empty() && finding.culprits.size() < place.calls.size())
    return found(Mismatch::kNotStarted);
  finding.culprits.clear();
  return any_complete ? finding : found(Mismatch::kNotEnded);
}

}  // namespace

RecorderFinding FindFirstMismatch(std::span<const RecorderDump> dumps) {
  std::set<int> known;
  std::map<std::string, std::set<int>> members;
  for (const RecorderDump& dump : dumps) {
    known.insert(dump.rank);
    for (const auto& [group, ranks] : dump.members) members[group].insert(ranks.begin(), ranks.end());
    for (const RecorderEntry& entry : dump.entries) members[entry.group].insert(dump.rank);
  }
  for (const PlaceInGroup& place : PlacesOf(dumps)) {
    RecorderFinding finding = FindingAt(place, members[place.group], known);
    if (finding.mismatch == Mismatch::kNone) continue;
    for (const int member : members[place.group]) {
      if (!known.contains(member)) finding.absent.push_back(member);
    }
    return finding;
  }
  return {};
}

}  // namespace gpulens::torch_recorder
