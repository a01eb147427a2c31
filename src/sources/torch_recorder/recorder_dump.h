// Dumps of PyTorch's flight recorder: the last collectives that one rank called. And what a set of them
// shows: the first collective that not all ranks of a group called alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::torch_recorder {

enum class EntryState : uint8_t { kUnknown, kScheduled, kStarted, kCompleted };

struct RecorderEntry {
  std::string group, group_description;  // of process_group: "0", "default_pg"
  uint64_t sequence = 0;                 // of the collectives of its group
  std::string name;                      // "nccl:all_reduce"
  EntryState state = EntryState::kUnknown;
  int64_t created_unix_ns = 0;  // 0: unknown
  // As text, since they are only compared: "[[64,4]]", "[\"Float\"]".
  std::string input_sizes, output_sizes, input_types, output_types;
};

struct RecorderDump {
  int rank = -1;  // -1: unknown
  std::string version;
  std::vector<RecorderEntry> entries;  // collectives, in the order of their calls; no sends and receives
  // Ranks of each group, where the dump has them.
  std::map<std::string, std::vector<int>> members;
};

// Reads a dump: the pickle that PyTorch writes to a file, or the JSON of _dump_nccl_trace_json. The pickle is
// read as plain data and never executed. Bytes may come from anyone. kDataLoss: neither of them, with the
// place; kExhausted: larger than 64 MiB, or more than 1,000,000 entries.
Result<RecorderDump> ParseRecorderDump(std::string_view bytes);
// The number at the end of a file's name: PyTorch writes one file a rank. None: there is no number.
std::optional<int> RankOfFile(std::string_view path) noexcept;

enum class Mismatch : uint8_t {
  kNone,        // every collective that the dumps share was called and is complete on all ranks
  kNotCalled,   // some ranks did not call it, while others wait in it
  kDifferent,   // ranks called different functions, sizes or types at one place
  kNotStarted,  // some ranks have called it, but their GPU has not begun it
  kNotEnded,    // all ranks have begun it, and it did not end: no rank differs
};

// What a set of dumps, one of each rank, shows.
struct RecorderFinding {
  Mismatch mismatch = Mismatch::kNone;
  std::string group, group_description, name;  // of the first collective that not all ranks matched
  uint64_t sequence = 0;
  // Those to look at: they did not call, called something else than most, or have not started. Empty for
  // kNotEnded.
  std::vector<int> culprits;
  std::vector<int> waiting;  // that called it like most, and have not completed it
  std::vector<int> absent;   // members without a dump: nothing is known of them
  std::string detail;        // of kDifferent: what most called, and what the first culprit called
};
// Looks at the collectives that are recent enough to be in all dumps, the earliest call first.
RecorderFinding FindFirstMismatch(std::span<const RecorderDump> dumps);

}  // namespace gpulens::torch_recorder
