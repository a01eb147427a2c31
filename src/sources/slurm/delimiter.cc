#include "sources/slurm/delimiter.h"

#include <sys/random.h>

#include "base/check.h"

namespace gpulens::slurm {

std::string MakeDelimiter() {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  // A byte at or above this would make the first letters likelier than the others.
  constexpr unsigned kFair = 256 / kLetters.size() * kLetters.size();
  constexpr size_t kRandom = 12;
  std::string out(kDelimiterStart);
  while (out.size() < kDelimiterStart.size() + kRandom) {
    unsigned char byte = 0;
    CHECK(::getrandom(&byte, 1, 0) == 1);
    if (byte < kFair) out += kLetters[byte % kLetters.size()];
  }
  return out;
}

}  // namespace gpulens::slurm
