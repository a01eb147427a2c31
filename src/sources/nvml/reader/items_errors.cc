// Memory errors by place, and what the board can still repair.
#include <utility>

#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {
namespace {

using F = Field;

int ReadAggregate(const ItemContext& in) {
  unsigned long long corrected = 0, uncorrected = 0;
  auto* function = in.caller.fn().TotalEccErrors;
  int code = in.caller.Do(Call::kTotalEccErrors, function, in.identity.device, unsigned{kCorrectedError},
                          unsigned{kAggregateEcc}, &corrected);
  if (code != kSuccess) return code;
  code = in.caller.Do(Call::kTotalEccErrors, function, in.identity.device, unsigned{kUncorrectedError},
                      unsigned{kAggregateEcc}, &uncorrected);
  if (code != kSuccess) return code;
  in.Emit(F::kEccAggregateCorrected, static_cast<int64_t>(corrected));
  in.Emit(F::kEccAggregateUncorrected, static_cast<int64_t>(uncorrected));
  return code;
}

// The fields of the places lie in the order of the library's numbers for them, four to a place.
constexpr size_t kPlaces = 8, kPerPlace = 4;
constexpr auto kFirstPlace = static_cast<size_t>(F::kEccVolatileCorrectedL1);
static_assert(static_cast<size_t>(F::kEccAggregateUncorrectedSram) == kFirstPlace + kPlaces * kPerPlace - 1);

template <size_t kAt>
int ReadPlace(const ItemContext& in) {
  unsigned long long count = 0;
  constexpr unsigned kPlace = kAt / kPerPlace;
  constexpr unsigned kType = kAt % 2 == 0 ? kCorrectedError : kUncorrectedError;
  constexpr unsigned kCounter = kAt % kPerPlace < 2 ? kVolatileEcc : kAggregateEcc;
  int code = in.caller.Do(Call::kMemoryErrorCounter, in.caller.fn().MemoryErrorCounter, in.identity.device,
                          unsigned{kType}, unsigned{kCounter}, unsigned{kPlace}, &count);
  if (code == kSuccess) in.Emit(static_cast<Field>(kFirstPlace + kAt), static_cast<int64_t>(count));
  return code;
}

int ReadSram(const ItemContext& in) {
  SramEccErrorStatus out{};
  out.version = StructVersion(sizeof out, 1);
  int code =
      in.caller.Do(Call::kSramEccErrorStatus, in.caller.fn().SramEccErrorStatus, in.identity.device, &out);
  if (code != kSuccess) return code;
  in.Emit(F::kSramThresholdExceeded, out.threshold_exceeded != 0);
  in.Emit(F::kSramL2, static_cast<int64_t>(out.bucket_l2));
  in.Emit(F::kSramSm, static_cast<int64_t>(out.bucket_sm));
  in.Emit(F::kSramMicrocontroller, static_cast<int64_t>(out.bucket_microcontroller));
  in.Emit(F::kSramPcie, static_cast<int64_t>(out.bucket_pcie));
  in.Emit(F::kSramOther, static_cast<int64_t>(out.bucket_other));
  return code;
}

int ReadBanks(const ItemContext& in) {
  RowRemapperHistogram out{};
  int code = in.caller.Do(Call::kRowRemapperHistogram, in.caller.fn().RowRemapperHistogram,
                          in.identity.device, &out);
  if (code != kSuccess) return code;
  in.Emit(F::kRemapBanksMax, out.max);
  in.Emit(F::kRemapBanksHigh, out.high);
  in.Emit(F::kRemapBanksPartial, out.partial);
  in.Emit(F::kRemapBanksLow, out.low);
  in.Emit(F::kRemapBanksNone, out.none);
  return code;
}

int ReadUnrepairable(const ItemContext& in) {
  unsigned flag = 0;
  int code =
      in.caller.Do(Call::kUnrepairableMemory, in.caller.fn().UnrepairableMemory, in.identity.device, &flag);
  if (code == kSuccess) in.Emit(F::kMemoryUnrepairable, flag != 0);
  return code;
}

constexpr size_t kOthers = 4;

template <size_t... kAt>
constexpr auto MakeItems(std::index_sequence<kAt...>) {
  return std::array<MoreItem, kOthers + sizeof...(kAt)>{{
      {Tier::kMedium, {F::kEccAggregateCorrected, F::kEccAggregateUncorrected, kEndOfFields}, &ReadAggregate},
      {Tier::kSlow,
       {F::kSramThresholdExceeded, F::kSramL2, F::kSramSm, F::kSramMicrocontroller, F::kSramPcie,
        F::kSramOther},
       &ReadSram},
      {Tier::kSlow,
       {F::kRemapBanksMax, F::kRemapBanksHigh, F::kRemapBanksPartial, F::kRemapBanksLow, F::kRemapBanksNone,
        kEndOfFields},
       &ReadBanks},
      {Tier::kSlow, {F::kMemoryUnrepairable, kEndOfFields}, &ReadUnrepairable},
      {Tier::kSlow, {static_cast<Field>(kFirstPlace + kAt), kEndOfFields}, &ReadPlace<kAt>}...,
  }};
}
constexpr auto kErrorItems = MakeItems(std::make_index_sequence<kPlaces * kPerPlace>());

}  // namespace

std::span<const MoreItem> ErrorItems() noexcept { return kErrorItems; }

}  // namespace gpulens::nvml
