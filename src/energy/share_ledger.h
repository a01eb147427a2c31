// Divides the energy of devices among the accounts open at the same time. Pure: it receives begins and ends,
// and calls a function for the energy at an instant.
//
// Between two edges (an account begins or ends) energy is divided among the open accounts in equal parts, or
// by the tokens that each added in the stretch that is settled at once; where none added any, in equal parts.
// Energy while none is open is unattributed. So shares and unattributed energy add up to the devices' energy.
//
// A stretch is settled once, when its readings are complete. Costs one step per account and stretch and a
// sort of its edges, not the product of both. The half-width of a share bounds the uncertain energy at the
// edges; it assumes that equal tokens draw equal power. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "energy/energy_curve.h"

namespace gpulens::energy {

enum class LedgerPart : uint8_t { kGpu, kCpu, kDram };
inline constexpr size_t kParts = 3;

// The devices' energy at one instant, since an arbitrary zero.
struct EnergyCut {
  double joules = 0;                          // of what is shared
  std::array<double, kParts> parts{};         // NaN: not known
  double half_width = 0;                      // how far off `joules` can be at this instant
  double integral_half_width = 0;             // of all that was integrated up to here
  uint32_t flaws_ended = 0, flaws_begun = 0;  // as in CurvePosition
  EnergyFlaw flaw = EnergyFlaw::kNone;
};
using CutAt = std::function<EnergyCut(int64_t at_ns)>;

struct EnergyTally {
  double joules = 0;
  double half_width = 0;
  std::array<double, kParts> parts{};
  std::array<bool, kParts> missing{};  // parts that were not known all of the time
  int64_t ns = 0;
  EnergyFlaw flaw = EnergyFlaw::kNone;  // not kNone: `joules` is incomplete
};

inline constexpr size_t kPhases = 9;  // the first has no name: before the first mark
inline constexpr size_t kPendingMarks = 16;
inline constexpr int64_t kOpenEnd = std::numeric_limits<int64_t>::max();

// One window or request. Its owner writes the first part and keeps it in place while the ledger has it.
struct EnergyAccount {
  bool shares = true;  // false: receives the devices' whole energy, and no share
  int64_t begin_ns = 0, end_ns = kOpenEnd;
  int64_t tokens = 0;  // added so far
  struct Mark {
    int64_t at_ns;
    uint8_t phase;
  };
  std::array<Mark, kPendingMarks> marks{};  // not settled yet, by time
  size_t mark_count = 0;

  struct Both {
    EnergyTally mine, devices;
  };
  Both total;
  std::array<Both, kPhases> phases{};
  bool settled = false;  // its end is settled: it does not change any more

 private:
  friend class ShareLedger;
  static constexpr size_t kKinds = 2 + kParts;  // joules, what was integrated, parts
  using Sums = std::array<double, kKinds>;
  // The ledger's sums when this account was last looked at.
  struct Snapshot {
    int64_t at_ns = 0;
    Sums equal{}, by_tokens{}, drawn{};
    double equal_error = 0, token_error = 0;
    std::array<uint32_t, kParts> gaps{};
    uint32_t flaws = 0;
  } since_;
  int64_t tokens_seen_ = 0;
  uint8_t phase_ = 0;
  bool begun_ = false;
};

class ShareLedger {
 public:
  enum class By : uint8_t { kTime, kTokens };

  explicit ShareLedger(By by) : by_(by) {}

  // Nothing before `at_ns` is settled. Once, before anything else.
  void Start(int64_t at_ns, const EnergyCut& cut);
  bool started() const noexcept { return started_; }
  int64_t settled_ns() const noexcept { return state_.at_ns; }

  // It may have begun before what is settled: then it has a share from there on.
  void Open(EnergyAccount* account) { open_.push_back(account); }
  // Settles up to `until_ns`; accounts that ended until then are settled and forgotten.
  void Settle(int64_t until_ns, const CutAt& at);
  // The account as it would be were everything settled until then. The ledger is not changed.
  EnergyAccount Project(const EnergyAccount& account, int64_t until_ns, const CutAt& at) const;

  // Energy while no account that shares was open.
  double unattributed_joules() const noexcept { return state_.unattributed; }
  size_t open() const noexcept { return open_.size(); }

 private:
  using Sums = EnergyAccount::Sums;
  // The state of a sweep over a stretch.
  struct State {
    int64_t at_ns = 0;
    EnergyCut cut;
    Sums equal{}, by_tokens{};  // per open account; per unit of rate
    double equal_error = 0, token_error = 0;
    std::array<uint32_t, kParts> gaps{};
    double unattributed = 0;

    void ForgetSums() noexcept;
  };
  // Those that share at an instant.
  struct Sharers {
    uint64_t count = 0, with_tokens = 0, rate = 0;
    void Join(uint64_t rate) noexcept;
    void Leave(uint64_t rate) noexcept;
    double Weight(uint64_t rate) const noexcept;
  };
  struct Item {
    EnergyAccount* account;
    EnergyAccount* writes;  // null: it is only counted
    uint64_t rate;
  };
  enum class EdgeKind : uint8_t { kBegin, kMark, kEnd };  // the order of equal times
  struct Edge {
    int64_t at_ns, true_ns;
    EdgeKind kind;
    uint32_t item;
    uint8_t phase;
  };
  struct Sweep;

  const By by_;
  bool started_ = false;
  State state_;
  std::vector<EnergyAccount*> open_;
  // Kept for their memory.
  mutable std::vector<Item> items_;
  mutable std::vector<Edge> edges_;
};

}  // namespace gpulens::energy
