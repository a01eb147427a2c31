// Divides the energy and time of GPUs inside one window among their users: pure functions of what was read
// and of what the windows before have left.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/timeline.h"

namespace gpulens::ledger {

// A signal of a program holds until its next one, at most so long: programs repeat it.
inline constexpr int64_t kSignalLife = 60'000'000'000;

// An account with numbers for its names.
struct AccountKey {
  uint32_t gpu = 0, slice = 0;
  EnergyState energy_state = EnergyState::kIdle;
  ComputeState compute_state = ComputeState::kUnallocated;
  Cause cause = Cause::kNone;
  RequestClass request_class = RequestClass::kNone;
  Method method = Method::kWhole;
  OwnerId owner = kNoOwner;
  auto operator<=>(const AccountKey&) const = default;
};

// What one account has of a window before rates are known: nanoseconds of the GPU's time.
struct Share {
  AccountKey key;
  int64_t energy_uj = 0, time_ns = 0;
  int64_t had_ns = 0, used_ns = 0;  // by who had the GPU, and by who used it
  int64_t unmetered_ns = 0, tokens = 0;
  int engine = -1, model = -1;  // of EngineWindow, once divided
  bool empty() const noexcept {
    return (energy_uj | time_ns | had_ns | used_ns | unmetered_ns | tokens) == 0;
  }
};

struct ProcessShare {
  uint32_t gpu = 0;
  int64_t pid = 0, start_ticks = 0;
  Method method = Method::kWhole;
  int64_t energy_uj = 0;
};

// What the rules remember from window to window, of a GPU or MIG instance.
struct Hold {
  uint32_t slice = 0;
  bool idle = false;
  int64_t idle_since = 0;
  OwnerId allocated = kNoOwner;
  int64_t allocated_since = 0;
  std::array<int64_t, 3> ended = {kNever, kNever, kNever};  // when processes ended, the latest first
  bool operator==(const Hold&) const = default;
};

struct GpuFold {
  int64_t idle_uw = -1;                             // lowest power without a process; negative: not learnt
  std::vector<std::pair<int, int64_t>> idle_uw_of;  // by performance state
  int64_t price_rest = 0, electricity_rest = 0, carbon_rest = 0;
  std::vector<Hold> holds;
  bool operator==(const GpuFold&) const = default;
};

struct EngineFold {
  double prefill_seconds = 0, prefill_tokens = 0, decode_seconds = 0, decode_tokens = 0;
  bool operator==(const EngineFold&) const = default;
};

// All that a window takes over from those before it.
struct Fold {
  std::vector<GpuFold> gpus;
  std::vector<EngineFold> engines;
  int64_t hour = kNever;
  std::vector<OwnerId> owners;  // that have accounts of their own in this hour, sorted
  bool operator==(const Fold&) const = default;
};

// Adds up shares of equal keys, and drops empty ones. The order is by numbers.
void MergeShares(std::vector<Share>& shares);

// Not thread-safe; keeps its rooms from call to call.
class WindowSplit {
 public:
  // Whether an engine had an open request in the window: none, some, or not known.
  enum class Open : uint8_t { kUnknown, kNone, kSome };

  WindowSplit(const Ledger::Options& options, const OwnerTable& owners, const Signals& signals)
      : options_(options), owners_(owners), signals_(signals) {}

  // Adds the shares of one GPU between two times. `engine_open` by name of the engine.
  using EngineOpen = std::function<Open(std::string_view engine)>;
  void Split(const GpuTimeline& gpu, uint32_t number, int64_t start, int64_t end,
             const EngineOpen& engine_open, GpuFold& fold, std::vector<Share>& shares,
             std::vector<ProcessShare>& processes);

 private:
  // A stretch inside the window, with one state.
  struct Piece {
    const KeptReading* before;
    const KeptReading* now;
    int64_t begin, end;
    int64_t energy;
    bool metered;
    bool first;  // of its stretch
  };
  // A GPU, or one of its MIG instances, in one piece.
  struct Part {
    uint32_t slice = 0;
    int64_t size = 1;
    int use_ppm = kUnknownPpm;
    OwnerId allocated = kNoOwner;
    std::vector<const KeptUser*> users;
    bool ran = false;      // something did, as far as is known
    bool unknown = false;  // whether something ran is not known
    int64_t ns = 0, base = 0, dynamic = 0;
  };
  struct Holder {
    OwnerId owner = kNoOwner;
    const KeptUser* user = nullptr;  // none: the allocation
    Cause idle_cause = Cause::kUnknown;
  };
  // How the time of a part is divided among states.
  struct StatePart {
    ComputeState state;
    Cause cause;
    int64_t weight;
  };
  struct Quantities {
    int64_t energy = 0, time = 0, had = 0, used = 0, unmetered = 0;
  };

  void SplitPiece(const Piece& piece);
  void FindParts(const KeptReading& now);
  Part& NextPart();
  void Classify(Part& part, const KeptReading& now);
  void DivideEnergy(const Piece& piece);
  void SplitPart(const Piece& piece, Part& part);
  void FindHolders(const Piece& piece, const Part& part);
  void Remember(const Piece& piece, const Part& part, Hold& hold);
  void FindStates(const Piece& piece, const Part& part, Hold& hold, bool busy);
  bool Busy(const Part& part) const;
  void AddMoney(const Part& part, AccountKey key, bool known_runners);
  void Add(AccountKey key, const Holder& holder, const Quantities& quantities);
  void AddProcess(const KeptUser& user, Method method, int64_t energy);
  Cause IdleCause(const KeptUser& user, const Piece& piece) const;
  Hold& HoldOf(uint32_t slice);
  void Learn(const Piece& piece);
  int64_t IdlePower(int performance_state) const;

  const Ledger::Options& options_;
  const OwnerTable& owners_;
  const Signals& signals_;
  // Of the call of Split.
  uint32_t number_ = 0;
  const EngineOpen* engine_open_ = nullptr;
  GpuFold* fold_ = nullptr;
  std::vector<Share>* shares_ = nullptr;
  std::vector<ProcessShare>* processes_ = nullptr;
  // Whether the window so far shows the GPU without a process, in one performance state.
  bool empty_ = true;
  int empty_state_ = -1;
  int64_t empty_energy_ = 0, empty_ns_ = 0;
  // Rooms.
  std::vector<Part> parts_;
  size_t part_count_ = 0;
  std::vector<Holder> holders_;
  std::vector<StatePart> states_;
  std::vector<int64_t> reserved_, run_, weights_, results_, state_weights_, energy_parts_, time_parts_;
  Method reserved_method_ = Method::kWhole, run_method_ = Method::kWhole;
};

}  // namespace gpulens::ledger
