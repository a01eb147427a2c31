// The series of one plugin instance: declared once, then written by a FrameWriter. Not thread-safe; Freeze()
// returns what other threads may read.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/layout.h"

namespace gpulens {

// A handle. The default is invalid: writes to it are dropped and counted.
struct Series {
  uint32_t slot = UINT32_MAX;
  uint32_t generation = 0;
  explicit operator bool() const noexcept { return slot != UINT32_MAX; }
};

// Why a declaration was refused.
enum class SeriesRefusal : uint8_t { kLimit, kDuplicate, kInvalidName, kMemory };
inline constexpr size_t kSeriesRefusals = 4;
std::string_view SeriesRefusalName(SeriesRefusal refusal) noexcept;

// Counts the series of all tables against one limit. Thread-safe.
class SeriesBudget {
 public:
  explicit SeriesBudget(uint64_t limit) noexcept : limit_(limit) {}
  bool Take() noexcept;
  void Give(uint64_t count) noexcept { used_.fetch_sub(count, std::memory_order_relaxed); }
  uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const noexcept { return limit_; }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

class SeriesTable {
 public:
  struct Options {
    SeriesBudget* budget = nullptr;  // null: no common limit
    uint32_t limit = UINT32_MAX;     // of this table alone
    // Whether there is memory for one more; called at each declaration except of gpulens.…. Empty: always.
    std::function<bool()> has_room = {};
    // Attributes from enrichers of an entity, under its own, with what follows from its parents. Not called
    // for parents: the pod of a process may differ from that of its GPU. May be empty.
    std::function<AttributeSet(const Entity&)> describe = {};
  };
  // Shape and start; the default fits a gauge and a counter of unknown start.
  struct Form {
    Ref<const Shape> shape = {};
    int64_t start_unix_ns = 0;  // known start of a counter; 0: unknown
  };

  SeriesTable();
  explicit SeriesTable(Options options);
  ~SeriesTable();
  SeriesTable(const SeriesTable&) = delete;
  SeriesTable& operator=(const SeriesTable&) = delete;

  // A row for a scraped family, copied, in valid UTF-8, shared by equal ones. Null when 10,000 are owned.
  const MetricDesc* Own(const MetricDesc& scraped);
  // Allocates; call once per series. Invalid, and counted, when refused.
  Series Declare(const MetricDesc& desc, const EntityRef& entity, const AttributeSet& extra = {});
  Series Declare(const MetricDesc& desc, const EntityRef& entity, const AttributeSet& extra,
                 const Form& form);
  // Removes the series at the next Freeze. Ignores invalid and retired handles.
  void Retire(Series series);
  // Removes all series on the entity.
  void Retire(const EntityRef& entity);
  // Removes all series for which `ends` is true.
  void RetireIf(const std::function<bool(const SeriesInfo&)>& ends);
  // A counter restarted: its next readings have a new identity that starts here. `known`: the source gives
  // this start, at which the counter was 0.
  void Restart(uint32_t slot, int64_t start_unix_ns, bool known = false);
  // Calls `describe` again for every entity; series whose attributes changed get a new identity.
  void Redescribe(int64_t now_unix_ns);

  // Returns the same layout when nothing changed.
  Ref<const Layout> Freeze();

  bool Live(Series series) const noexcept {
    return series.slot < generations_.size() && generations_[series.slot] == series.generation &&
           InfoAt(series.slot).desc != nullptr;
  }
  const SeriesInfo& InfoAt(uint32_t slot) const noexcept {
    return blocks_[slot / Layout::kBlockSlots]->slots[slot % Layout::kBlockSlots];
  }
  uint32_t slots() const noexcept { return static_cast<uint32_t>(generations_.size()); }
  uint32_t cells() const noexcept { return cells_; }
  uint32_t size() const noexcept { return live_; }
  uint64_t refused(SeriesRefusal why) const noexcept { return refused_[static_cast<size_t>(why)]; }
  // By a limit of series or memory.
  uint64_t refused_for_room() const noexcept {
    return refused(SeriesRefusal::kLimit) + refused(SeriesRefusal::kMemory);
  }

 private:
  struct FreeSlots {
    uint32_t cells;
    std::vector<uint32_t> slots;
  };

  SeriesInfo& Mutable(uint32_t slot);
  Series Refuse(SeriesRefusal why) noexcept;
  AttributeSet Resolve(const EntityRef& entity, const AttributeSet& extra) const;
  AttributeSet Shared(AttributeSet attributes);
  uint32_t TakeSlot(uint32_t cells);
  bool Known(const MetricDesc& desc, const AttributeSet& attributes) const;
  void Index(uint32_t slot);
  void Rehash(size_t buckets);

  Options options_;
  std::vector<Ref<Layout::Block>> blocks_;
  std::vector<bool> shared_;  // per block: a layout holds it, so it is copied before a change
  std::vector<uint32_t> generations_;
  std::vector<uint32_t> by_identity_;  // open addressing over slots; UINT32_MAX empty, -1 dead
  size_t indexed_ = 0;
  std::vector<FreeSlots> free_;
  std::shared_ptr<DescStore> descs_;
  // Sets of this run, open addressing: equal ones share their text. Empty between runs.
  std::vector<AttributeSet> run_sets_;
  size_t run_sets_used_ = 0;
  std::unordered_map<uint32_t, AttributeSet> extras_;  // of slots whose extra is not empty, for Redescribe
  Ref<const Layout> frozen_;
  uint32_t cells_ = 0, live_ = 0;
  bool changed_ = true;
  uint64_t refused_[kSeriesRefusals] = {};
};

}  // namespace gpulens
