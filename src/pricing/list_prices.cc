#include "pricing/list_prices.h"

#include "base/check.h"
#include "wire/packing.h"

namespace gpulens::pricing {

namespace {

constexpr std::string_view kPacked =
#include "pricing/list_prices.inc"
    ;
constexpr size_t kMostBytes = 1u << 20;

}  // namespace

std::string ListPrices() {
  std::string text;
  const Status status = Gunzip(kPacked, kMostBytes, text);
  CHECK(status.ok());
  return text;
}

}  // namespace gpulens::pricing
