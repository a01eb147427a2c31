// The job page: shared memory that a library inside a job (the NCCL profiler plugin, the CUDA injection
// library, the SDK) writes and the agent reads. It holds exact counts, histograms, the progress of each
// communicator and a ring of the latest collectives.
//
// The writer never waits, allocates or calls the kernel: every function here is a few atomic operations. The
// agent trusts no byte of it; see job_page_reader.h. The layout is equal for all writers; parts that a writer
// does not use take no memory, since the file has holes. This header needs C++20 and no library at run time,
// so that plugins without libstdc++ can include it. All fields are in the byte order of the machine.
//
// Times: boot_ns is CLOCK_BOOTTIME in nanoseconds; device_ns is the clock of one GPU, which differs from it
// by an unknown offset.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpulens::job_page {

inline constexpr uint64_t kMagic = 0x3145474150424F4A;  // "JOBPAGE1"
inline constexpr uint32_t kLayout = 1;

enum class Writer : uint32_t { kNone, kNcclPlugin, kCudaInjection, kProgram };

// How much the writer measures; the agent and the operator may change it while the job runs.
enum class Level : uint32_t {
  kOff,      // nothing
  kCount,    // calls, bytes and sequence numbers
  kTime,     // and the duration of each on the device
  kLink,     // and the steps of the network; for a few seconds at a time
  kProfile,  // CUDA alone: kTime, and the time of each kernel by its name, which leaves only as a profile
};

enum class Function : uint8_t {
  kOther,
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
  kAllGatherV,
  kBarrier,
  kCount,
};
inline constexpr size_t kFunctions = 16;
static_assert(static_cast<size_t>(Function::kCount) <= kFunctions);

// Of an element; NCCL's numbers plus one. 0: unknown.
enum class Datatype : uint8_t {
  kUnknown,
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
  kCount,
};
enum class Algorithm : uint8_t {
  kUnknown,
  kTree,
  kRing,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
  kPat,
  kOther,
  kCount
};
enum class Protocol : uint8_t { kUnknown, kLowLatency, kLowLatency128, kSimple, kOther, kCount };

// What start and end of a record are.
enum class Timing : uint8_t {
  kNone,    // not measured: counted only
  kDevice,  // start and end of the kernels, device_ns
  kProxy,   // first and last step of the network proxy, boot_ns
  kHost,    // as the host saw begin and end: of a call that waits for its result, or of the kernels, boot_ns
  kCount,
};

// Why something is not in the page.
enum class Loss : uint8_t {
  kRingFull,        // the agent read too late: a record was overwritten or refused
  kNoHandle,        // too many operations in flight
  kNoCommunicator,  // more than kCommunicators
  kStaleTimer,      // the timer of a kernel was overwritten before it was read
  kUnknownEvent,    // of a kind that this writer does not know
  kNoDevice,        // more than kDevices, or a device that is not known
  kError,           // a call that failed
  kDropped,         // the vendor's library reports that it dropped some
  kCount,
};
inline constexpr size_t kLosses = 16;

// Histograms of nanoseconds: four buckets per doubling, 2^6 … 2^37 ns (64 ns … 137 s). A bucket holds
// (bound(i-1), bound(i)] with bound(i) = 2^(6 + (i + 1) / 4); the first holds everything below, the last
// everything above.
inline constexpr size_t kBuckets = 124;
inline constexpr int kFirstDoubling = 6;

struct Histogram {
  std::atomic<uint64_t> count, sum_ns;
  std::atomic<uint64_t> buckets[kBuckets];

  // Wait-free; several threads may add.
  void Add(uint64_t ns) noexcept {
    buckets[BucketOf(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_ns.fetch_add(ns, std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_relaxed);
  }
  static constexpr size_t BucketOf(uint64_t ns) noexcept {
    if (ns <= (uint64_t{1} << kFirstDoubling)) return 0;
    const int doubling = 63 - std::countl_zero(ns);
    // Against 2^63 times 2^(1/4), 2^(2/4) and 2^(3/4); a power of two belongs to the bucket below it.
    const uint64_t mantissa = ns << (63 - doubling);
    const int quarter = (mantissa > 0x9837F0518DB8A96F) + (mantissa > 0xB504F333F9DE6484) +
                        (mantissa > 0xD744FCCAD69D6AF4) - (mantissa == uint64_t{1} << 63);
    const auto at = static_cast<size_t>((doubling - kFirstDoubling) * 4 + quarter);
    return at < kBuckets ? at : kBuckets - 1;
  }
};

// Progress of one function in one communicator. Sequence numbers are NCCL's, counted per communicator and
// function; a number n is stored as n + 1, so that 0 means "none yet".
struct FunctionProgress {
  std::atomic<uint64_t> enqueued, started, done;  // highest sequence number + 1
  std::atomic<uint64_t> changed_boot_ns;          // of the last change of any of them
  std::atomic<uint64_t> operations, bytes;        // enqueued in total; bytes are message sizes
};

struct Communicator {
  // 0: free. Odd: being written. Even: usable; increases each time that the slot is used again.
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> closed;  // 1 when the communicator was destroyed
  uint64_t hash;                 // equal on all ranks
  int32_t rank, ranks, nodes;
  int32_t device;  // ordinal in the process; -1: unknown
  uint64_t opened_boot_ns;
  char name[64];       // ends with 0; empty: unnamed
  char device_id[32];  // "0000:1a:00.0", or empty
  FunctionProgress functions[kFunctions];
};
inline constexpr size_t kCommunicators = 64;

// A collective that ended (or was enqueued, with Timing::kNone). 80 bytes.
struct Record {
  // Position in the ring + 1 when complete; other values: being written.
  std::atomic<uint64_t> ticket;
  uint32_t communicator;  // slot
  uint32_t generation;    // of the slot
  Function function;
  Datatype datatype;
  Algorithm algorithm;
  Protocol protocol;
  Timing timing;
  uint8_t flags;  // kGraphCaptured
  uint16_t channels;
  int32_t peer_or_root;  // -1: none
  uint32_t reserved;
  uint64_t sequence;
  uint64_t bytes;  // message size as NCCL Inspector counts it
  uint64_t enqueued_boot_ns;
  uint64_t start_ns, end_ns;  // by `timing`
  uint64_t ended_boot_ns;     // when the writer learned that it ended
};
static_assert(sizeof(Record) == 80);
inline constexpr uint8_t kGraphCaptured = 1;
inline constexpr size_t kRecords = 4096;
static_assert((kRecords & (kRecords - 1)) == 0);

// What a step of NCCL's network proxy waits for.
enum class StepWait : uint8_t {
  kGpu,      // the own GPU: data to send, or room for what came
  kCredit,   // the peer, until it is ready to receive
  kSend,     // the network, until the data is sent
  kReceive,  // data of the peer
  kCount,
};
// Steps of the network with one peer, at Level::kLink. The time of a step that sends is from the moment at
// which the network has the data to the moment at which it is sent, so that a sender or receiver who is late
// is not in it. Counts only grow, also when the place is used for another peer.
struct Link {
  std::atomic<uint64_t> key;            // LinkKey; 0: free
  std::atomic<uint64_t> sent, send_ns;  // steps that were sent, and their time
  std::atomic<uint32_t> waiting[static_cast<size_t>(StepWait::kCount)];  // steps that wait now, by StepWait
};
inline constexpr size_t kLinks = 256;  // the first is not used
// `slot` and `generation` of the communicator.
constexpr uint64_t LinkKey(uint32_t slot, uint32_t generation, uint32_t peer) noexcept {
  return uint64_t{1} << 60 | uint64_t{generation} << 28 | uint64_t{slot} << 22 | peer;
}
inline constexpr int32_t kMostRanks = 1 << 22;

// CUDA, per device.
enum class Launch : uint8_t { kKernel, kCooperative, kGraph, kCount };
struct CudaDevice {
  std::atomic<uint64_t> launches[4];  // by Launch: exact
  Histogram enqueue[4];               // by Launch: begin to end of the launch call
  Histogram queue_delay;              // begin of the launch call to begin of the kernel
  Histogram kernel;                   // begin to end of a kernel
  Histogram sync_wait;                // of stream, event and context synchronisation
  Histogram graph;                // begin to end of a whole graph, where its kernels are not timed one by one
  Histogram graph_kernel;         // begin to end of a kernel inside a graph; `kernel` has only the others
  std::atomic<uint64_t> busy_ns;  // sum of kernel times, those inside graphs and whole graphs included
  char device_id[32];             // "0000:1a:00.0", or empty
};
inline constexpr size_t kDevices = 16;

// Kernels by name, at Level::kProfile. A slot is taken once and stays.
struct Kernel {
  std::atomic<uint64_t> key;       // of name and device, never 0; 0: free
  std::atomic<uint32_t> name_end;  // 0: being written; else the name is names[name_at] to names[name_end - 1]
  uint32_t name_at;
  std::atomic<uint64_t> count, total_ns;
  int32_t device;  // ordinal in the process
  uint32_t reserved;
};
inline constexpr size_t kKernels = 4096;
struct Kernels {
  std::atomic<uint64_t> other_count, other_ns;  // of kernels for which there was no room
  std::atomic<uint32_t> names_used;  // bytes of `names` that are taken, from 1 on; may exceed its size
  uint32_t reserved;
  Kernel kernels[kKernels];
  char names[1 << 20];  // as the compiler mangled them; a long one is cut
};

// Phases that the job marks itself.
enum class Phase : uint8_t {
  kUnknown,
  kDataLoading,
  kGpuCompute,
  kNcclCollective,
  kOptimizerStep,
  kCheckpoint,
  kPrefill,
  kDecode,
  kQueued,
  kIdle,
  kCount,
};
inline constexpr size_t kPhases = 16;
struct PhaseEdge {
  std::atomic<uint64_t> ticket;  // as in Record
  uint64_t boot_ns;
  uint32_t phase;  // Phase that begins
  uint32_t reserved;
};
inline constexpr size_t kPhaseEdges = 1024;
struct Phases {
  std::atomic<uint32_t> marked;   // 1 once the job marks phases
  std::atomic<uint32_t> current;  // Phase
  std::atomic<uint64_t> since_boot_ns;
  std::atomic<uint64_t> transitions;
  std::atomic<uint64_t> total_ns[kPhases];  // of phases that ended
  std::atomic<uint64_t> next_edge;
  PhaseEdge edges[kPhaseEdges];
};

// Waits of the training loop for the next batch.
struct DataLoading {
  Histogram wait;
  std::atomic<uint64_t> open_since_boot_ns;  // 0: not waiting
  std::atomic<uint64_t> batches;
};

struct Header {
  std::atomic<uint64_t> magic;  // written last
  uint32_t layout;
  uint32_t writer;       // Writer
  uint64_t size;         // sizeof(Page)
  int32_t pid;           // in the writer's namespace
  uint32_t user;         // as the writer sees it
  uint64_t start_ticks;  // field 22 of /proc/self/stat
  uint64_t opened_boot_ns;
  char writer_version[32];             // of gpulens
  char library_version[32];            // of NCCL, CUPTI or the framework
  std::atomic<uint32_t> wanted_level;  // Level; written by the agent
  std::atomic<uint32_t> actual_level;  // Level
  std::atomic<uint64_t> last_event_boot_ns;
  std::atomic<uint64_t> next_record;    // records that were begun
  std::atomic<uint64_t> read_records;   // written by the agent
  std::atomic<uint64_t> lost[kLosses];  // by Loss
  char trouble[128];                    // why the writer measures less than was wanted; ends with 0
  char job[48];  // that the process names: Slurm's job id, torchrun's run or a name; or empty
};
static_assert(sizeof(Header) == 448);

struct Page {
  Header header;
  alignas(64) Communicator communicators[kCommunicators];
  alignas(64) Histogram collective_duration[kFunctions];  // of records with Timing other than kNone
  alignas(64) CudaDevice devices[kDevices];
  alignas(64) Kernels kernels;
  alignas(64) Phases phases;
  alignas(64) DataLoading data_loading;
  alignas(64) Record records[kRecords];
  alignas(64) Link links[kLinks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// How a page reaches the agent: the writer makes a memory file of sizeof(Page) with holes, seals it against
// shrinking and growing, connects to this SEQPACKET socket without waiting and sends Hello with the
// descriptor. The connection stays open for the life of the process; by its end the agent knows that the
// process ended.
inline constexpr char kSocketVariable[] = "GPULENS_JOB_SOCKET";
inline constexpr char kDefaultSocket[] = "/run/gpulens/job.sock";
// Where no agent listens: a file gpulens-job-<uid>-<pid>-<writer> of mode 0600 in this folder, locked by
// flock while its process lives. Where another process of that number lives (of another namespace, in a
// shared folder), the name ends with -2 … -8. Parts that the writer does not use are holes: reading them
// through a mapping would take memory.
inline constexpr char kFolderVariable[] = "GPULENS_JOB_FOLDER";
inline constexpr char kDefaultFolder[] = "/dev/shm";
// Where Header::job is from: the first that is set, and not to "none".
inline constexpr const char* kJobVariables[] = {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "GPULENS_RUN_NAME"};
// "off" in the environment, or one of these files when the library is loaded: nothing is measured.
inline constexpr char kSwitchVariable[] = "GPULENS_PROBES";
inline constexpr const char* kSwitchFiles[] = {"/run/gpulens/probes.off", "/etc/gpulens/probes.off"};

struct Hello {
  uint64_t magic;   // kMagic
  uint32_t layout;  // kLayout
  uint32_t writer;  // Writer
};

}  // namespace gpulens::job_page
