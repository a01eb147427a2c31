// Messages between the probe host (probe_host.h), the agent and `gpulens probe`: one JSON object a line over
// a Unix stream socket. A client sends a request and gets one reply; a connection may have many of them.
//
// Both sides validate what they read as bytes from outside: lines, lists and texts have limits, words are of
// a closed alphabet, and numbers must be possible. kDataLoss names what is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "job_page/job_page_reader.h"
#include "wire/json/json_object.h"

namespace gpulens::probes {

inline constexpr char kDefaultProbeSocket[] = "/run/gpulens/probes.sock";
inline constexpr size_t kMostRequestBytes = 1024;
inline constexpr size_t kMostReplyBytes = size_t{4} << 20;
inline constexpr size_t kMostTargets = 64;     // attached at the same time
inline constexpr size_t kMostProcesses = 256;  // with counts: targets, and what they forked
inline constexpr size_t kMostListed = 512;     // processes of a list
inline constexpr size_t kMostPoints = 32;      // functions of one process in a list
inline constexpr size_t kMostNotes = 64;       // of one reply
inline constexpr size_t kMostCounters = 64;    // words with a count, of one kind
inline constexpr size_t kMostTextBytes = 256;  // of any text
inline constexpr size_t kMostWordBytes = 48;

// What is attached to a process. A set is a mask of them.
enum ProbeBit : uint8_t { kCudaProbe = 1, kDataloadProbe = 2 };
inline constexpr uint8_t kAllProbes = kCudaProbe | kDataloadProbe;
// "cuda", "cuda,dataload". nullopt for an unknown word, or none.
std::string ProbeNames(uint8_t probes);
Result<uint8_t> ParseProbes(std::string_view words);

enum class RequestVerb : uint8_t {
  kFrame,   // the agent's, each second: all counts. Its absence for 3 s detaches everything
  kStatus,  // the same for people: no agent
  kList,
  kAttach,
  kDetach,
  kSwitch,
  kCount,
};

struct ProbeRequest {
  RequestVerb verb = RequestVerb::kStatus;
  int64_t pid = 0;  // kList, kDetach: 0 is all
  uint8_t probes = 0;
  int64_t for_ns = 0;       // kAttach: detach after this time
  uint64_t budget_ppm = 0;  // kAttach: of the hottest thread; 0: as configured
  bool switch_off = false;  // kSwitch: whether probes are switched off
  std::string reason;       // kSwitch
  uint64_t seen_notes = 0;  // kFrame: notes up to this number are not sent again
};

std::string EncodeRequest(const ProbeRequest& request);
Result<ProbeRequest> DecodeRequest(std::string_view line);

// A word of a closed set, and a number: losses by reason.
struct WordCount {
  std::string probe;   // "cuda"; empty where it has no meaning
  std::string reason;  // "map_full"; empty where it has no meaning
  uint64_t count = 0;
};

// A function of a process to which a probe can be attached, or why not.
struct ProbePoint {
  std::string function;  // "cuLaunchKernel"
  double cost_ns = 0;    // of one call, measured; 0: unknown
  std::string reason;    // code; empty: it can be attached
  std::string sentence;  // why not
  std::string row;       // of the list of refusals; empty: none
};

struct ListedTarget {
  int64_t pid = 0;
  uint32_t user = 0;
  std::string name;                   // of the process, as the kernel has it
  std::string library;                // file name without folders: libcuda.so.1
  std::string build_id;               // hexadecimal, or empty
  std::string reason, sentence, row;  // why no probe at all may be attached; empty: see `points`
  bool attached = false;
  std::vector<ProbePoint> points;
};

// How the probes of a target measure now.
enum class Measuring : uint8_t {
  kExact,      // all calls are counted and timed
  kSampled,    // all are counted, one in `timed_one_in` is timed
  kCountOnly,  // all are counted, none is timed
  kWindows,    // counted during a part of the time: counts are estimates
  kPaused,     // over the budget: not at all for a while
  kGivenUp,    // over the budget too often: not any more
  kCount,
};
std::string_view MeasuringName(Measuring measuring) noexcept;

inline constexpr size_t kLaunchTypes = 3;  // kernel, cooperative, graph
inline constexpr size_t kSyncTypes = 3;    // stream, event, context
std::string_view LaunchTypeName(size_t type) noexcept;
std::string_view SyncTypeName(size_t type) noexcept;

// Calls of a process since its probes were attached.
struct ProcessCounts {
  int64_t pid = 0;
  uint64_t start_boot_ns = 0;  // when the process started; 0: unknown
  int64_t root = 0;            // the target: the process itself, or one that it descends from
  // Whether launches are exact; else they are an estimate from windows of time. Once an estimate, always one.
  bool exact = true;
  bool all_timed = true;  // the histograms have every call
  bool has_cuda = false, has_data = false;
  std::array<uint64_t, kLaunchTypes> launches{};
  std::array<job_page::HistogramCopy, kLaunchTypes> enqueue;  // of timed calls
  std::array<job_page::HistogramCopy, kSyncTypes> sync_wait;
  job_page::HistogramCopy data_wait;
};

struct AttachedTarget {
  int64_t pid = 0;
  uint32_t user = 0, requested_by = 0;
  bool by_configuration = false;
  uint8_t probes = 0;
  Measuring measuring = Measuring::kExact;
  uint64_t timed_one_in = 1;  // 0: none is timed
  uint64_t left_ns = 0;       // until it is detached; 0: not limited
  uint64_t share_ppm = 0;     // of the hottest thread, in the last tick
  uint64_t budget_ppm = 0;
  std::string trouble;  // what works only in part
};

// Something that happened, for the log of events. Numbers grow by 1.
struct ProbeNote {
  uint64_t number = 0;
  std::string change;  // attached, detached, limited, refused, switched_off, switched_on
  std::string reason;  // budget, expired, request, ended, …; of a refusal its code
  int64_t pid = 0;     // 0: all
  uint32_t user = 0;   // who requested it
  std::string sentence;
};

struct HostStatus {
  int64_t pid = 0;               // of the probe host
  std::string mechanism;         // session, multi, pmu; empty: none works
  std::string reason, sentence;  // why none works: no_rights, no_btf, …
  bool switched_off = false;
  std::string switch_file, switch_reason;
  uint64_t links = 0;  // of the kernel that are open now
  uint64_t thread_budget_ppm = 0, host_budget_ppm = 0;
  uint64_t agent_age_ns = 0;                   // since its last request; 0: there is no agent
  double entry_cost_ns = 0, pair_cost_ns = 0;  // measured here; 0: unknown
  std::vector<WordCount> events, cost_ns, lost, detached, refused;
  std::vector<AttachedTarget> targets;
  std::vector<ProcessCounts> processes;  // kFrame, kStatus
  std::vector<ProbeNote> notes;
};

struct ProbeReply {
  // Empty: done. Else a code such as no_rights or over_budget, with its sentence, and the row of the list of
  // refusals if one applies.
  std::string refusal, sentence, row;
  HostStatus status;
  std::vector<ListedTarget> targets;  // kList
  double took_s = 0;                  // kSwitch, kDetach: until no link was left
};

// Members that messages and the output of commands have alike; empty texts are left out.
void AppendRefusal(JsonObject& object, std::string_view reason, std::string_view sentence,
                   std::string_view row);
void AppendWords(JsonObject& object, std::string_view key, const std::vector<WordCount>& counts);

std::string EncodeReply(const ProbeReply& reply);
Result<ProbeReply> DecodeReply(std::string_view line);

}  // namespace gpulens::probes
