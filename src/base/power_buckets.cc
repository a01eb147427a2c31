#include "base/power_buckets.h"

namespace gpulens::buckets {
namespace {

constexpr int kPerDoubling = 1 << kFinest;
constexpr int kMantissaBits = BucketTables::kMantissaBits, kPartBits = BucketTables::kPartBits;

// 2^(1/2), 2^(1/4) … 2^(1/256)
constexpr long double kRoots[kFinest] = {
    1.414213562373095048801688724209698078570L, 1.189207115002721066717499970560475915293L,
    1.090507732665257659207010655760707978993L, 1.044273782427413840321966478739929008785L,
    1.021897148654116678234480134783299439782L, 1.010889286051700460020409790561860524388L,
    1.005429901112802821351383955934799814700L, 1.002711275050202485430745588450362040473L};

constexpr BucketTables MakeTables() {
  BucketTables tables;
  const long double whole = static_cast<long double>(uint64_t{1} << kMantissaBits);
  for (int k = 0; k < kPerDoubling; ++k) {
    long double power = 1;
    for (int bit = 0; bit < kFinest; ++bit) {
      if (k >> (kFinest - 1 - bit) & 1) power *= kRoots[bit];
    }
    tables.begins[static_cast<size_t>(k)] = static_cast<uint64_t>((power - 1) * whole);
  }
  tables.begins[kPerDoubling] = uint64_t{1} << kMantissaBits;
  for (int part = 0; part < 1 << kPartBits; ++part) {
    const uint64_t least = static_cast<uint64_t>(part) << (kMantissaBits - kPartBits);
    size_t k = 0;
    while (k + 1 < kPerDoubling && tables.begins[k + 1] <= least) ++k;
    tables.first[static_cast<size_t>(part)] = static_cast<uint8_t>(k);
  }
  return tables;
}

}  // namespace

constexpr BucketTables kBucketTables = MakeTables();

}  // namespace gpulens::buckets
