// How many bytes a token of a model has, learnt from answers whose usage is known, for those whose usage is
// not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens {

// Tokens that a number of bytes is likely to be.
struct TokenEstimate {
  int64_t tokens = 0;
  // Half the width of the interval that has the tokens of 95 of 100 sums of this size, as a part of them; 0
  // before anything is learnt.
  double half_width = 0;
  bool learnt = false;  // else 4 bytes a token
};

// Keeps sums for each key (provider and model, by the caller's choice), not means of answers. Holds at most
// `max_keys`; later ones are not learnt. Not thread-safe.
class TokenCalibration {
 public:
  static constexpr int64_t kEnough = 50;        // answers
  static constexpr int64_t kBytesPerToken = 4;  // before that
  static constexpr int64_t kMaxOf =
      1'000'000'000;  // bytes or tokens of one answer; larger ones are not learnt

  explicit TokenCalibration(size_t max_keys = 4096) noexcept : max_keys_(max_keys) {}

  // One answer with `bytes` of text and `tokens` by its usage.
  void Learn(std::string_view key, int64_t bytes, int64_t tokens);
  // Rounds up: text of one byte is a token.
  TokenEstimate Tokens(std::string_view key, int64_t bytes) const;
  // Tokens that 95 of 100 answers had at most, to the next of four steps an octave; none before kEnough
  // answers.
  std::optional<int64_t> OutputP95(std::string_view key) const;
  int64_t answers(std::string_view key) const;
  size_t size() const noexcept { return sums_.size(); }

 private:
  static constexpr size_t kSteps = 4 * 31;
  struct Sums {
    int64_t answers = 0;
    // Doubles: squares of 10⁹ × 10⁶ answers pass 2⁶³, and their ratio is an estimate anyway.
    double bytes = 0, tokens = 0, bytes2 = 0, tokens2 = 0, both = 0;
    std::array<uint32_t, kSteps> of_size{};
  };
  static size_t StepOf(int64_t tokens) noexcept;
  static int64_t EndOf(size_t step) noexcept;
  const Sums* Find(std::string_view key) const;

  const size_t max_keys_;
  std::map<std::string, Sums, std::less<>> sums_;
};

}  // namespace gpulens
