// Price table: what providers of LLM APIs charge, from files. Pure: the caller reads the files.
//
// THE FILE. Text in UTF-8, lines of cells separated by tabs. Lines that begin with "#" and blank lines are
// comments. The first other line names the columns, in any order; all other lines are rows with as many
// cells. An empty cell and "-" mean: not known, or not sold. 0 means free. Prices are whole micro-dollars per
// 1,000,000 units: 2 USD per million tokens is 2000000, and 0.10 USD a search is 100000000000. Limits: 16
// MiB and 100,000 rows a file, 1,000 rows of a model, 128 columns, 8 KiB a line, 200 bytes a name, 10^15 a
// price.
//
//   provider, model      needed. Names as the provider writes them; case counts. The model "*" is the price
//                        of models that have none (Default below), never a pattern.
//   mode                 chat, responses, completion, embedding, image_generation, audio_speech,
//                        audio_transcription, realtime, video_generation or another word; empty: chat.
//                        Decides only what a class without a price costs (charge.h).
//   unit                 what the row sells: token (or empty), second, character, image, page, query.
//                        video_second, and second in the mode video_generation, are known and never priced.
//                        For a unit other than token the price is `input`; `output` where `input` is unknown
//                        or 0. Both, and different: unknown, since the two directions are not counted apart.
//   input, cached_input, cache_write, cache_write_long, audio_input, audio_cached_input, image_input,
//   video_input, tool_input, output, reasoning_output, audio_output, image_output
//                        prices of the classes of llm_usage.h. cache_write is for the provider's short time,
//                        cache_write_long for an hour or more.
//   web_search, web_fetch, request
//                        prices of each, besides the unit.
//   batch_X, flex_X, priority_X, fast_X   (X: a price above)
//                        prices of a tier. A tier exists in a row that has one of its prices or its
//                        multiplier. A price that the tier lacks is X x tier_input / input, or x tier_output
//                        / output for what goes out; web_search, web_fetch and request stay as they are.
//   long_above, long_X   a request with more input tokens than long_above, of all classes together, has long
//                        prices for the whole of it. What long_X lacks is derived as for tiers; and so is the
//                        long price of a tier: tier_X x long_X / X. These ratios are those of the providers:
//                        in the list of 2026-11-23 all 129 long cached prices and all 58 long prices of cache
//                        writes are exactly that, and 303 of 335 cached prices of tiers; most of the others
//                        are Gemini's, which discounts cached input no further.
//   tiers                instead of input, cached_input, output and long_X, any number of steps by input
//                        tokens: "0:400000:1200000:;256000:1200000:3600000:" is from:input:output:cached;…,
//                        in force above `from` as long_above is. The first is from 0.
//   multiplier, batch_multiplier, flex_multiplier, priority_multiplier, fast_multiplier, long_multiplier
//                        "11/10" or "1.1". `multiplier` is for every price of the row: a region's uplift, a
//                        discount. Those of tiers and of long requests are for prices that the tier lacks.
//                        They are applied once, here, and the result is rounded half up to a whole
//                        micro-dollar.
//   valid_from, valid_to a day (its begin in UTC) or an RFC 3339 time; from inclusive, to exclusive.
//                        effective_from is another name of valid_from.
//   hours                of the day in UTC, up to four, "01:00-04:00/06:00-10:00"; "," separates, too. From
//                        inclusive, to exclusive; 22:00-02:00 is night, and 24:00 an end.
//   weekdays             in UTC: "mon-fri", "sat,sun". A row of hours over midnight counts by the day of each
//                        moment.
//   check                a note of the reference list. "~peak [WEEKDAYS] HH:MM-HH:MM/…Z; else input=…,…":
//                        the row's prices are in force in these hours, and outside of them with the given
//                        ones instead: the same as two rows, one of them with hours. "!…" marks the row as
//                        disputed. Other notes are not read.
//   max_input, max_output  tokens that the model takes and gives at most: for reservations.
//   retires, source, note, and names that begin with "x_": not read.
//
// Any other column is an error, since a misspelt price would silently be another one. DeepSeek's peak hours,
// with its weekends, in a file of one's own (the base row, and the row of the hours):
//   provider  model            input    cached_input  output   valid_from  hours                    weekdays
//   deepseek  deepseek-v4-pro  660000   22000         1980000  2026-08-17  -                        -
//   deepseek  deepseek-v4-pro  1320000  44000         3960000  2026-08-17  01:00-04:00/06:00-10:00  mon-fri
//
// WHICH ROW. Names first: the exact name of the answer's model, then that name without a date at its end
// (-2026-04-23, -20260423, @20260423), then the same of the name that was sent. A name that was sent and is
// an alias (chat-latest, grok-4.20-beta-latest-reasoning) moves, so it prices nothing; one that the answer
// names does. No other part of a name ever matches. Then, of the rows of that name in force at the time, the
// one of the last file (own.tsv after the list); in it the one that is limited by weekdays and hours before
// one that is not; then the latest valid_from. Two rows of a file that agree in all of that are an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/llm/llm_usage.h"

namespace gpulens::pricing {

enum class PriceTier : uint8_t { kStandard, kBatch, kFlex, kPriority, kFast };
inline constexpr size_t kPriceTiers = 5;
// "standard", "batch", "flex", "priority", "fast".
std::string_view PriceTierName(PriceTier tier) noexcept;
// The reverse.
std::optional<PriceTier> ParsePriceTier(std::string_view name) noexcept;
// The tier that an answer names: `service_tier` of OpenAI and those that have its API, of Anthropic and
// Bedrock, `speed` of Anthropic, `trafficType` of Google. A name for no tier in particular ("", "auto",
// "default") is the standard one; a line of a batch names none, so the caller must know it. None: capacity
// that is not paid by the unit ("scale", "PROVISIONED_THROUGHPUT", "reserved") and unknown names.
std::optional<PriceTier> ServedTier(std::string_view name) noexcept;

// Names a row for ever: the first 8 bytes of the SHA-256 of its file, and the row's line. With the file, the
// record's time, tier and usage every charge can be computed again. Old files are to be kept for that.
struct PriceRowId {
  uint64_t file = 0;
  uint32_t line = 0;  // from 1; 0: no row

  bool operator==(const PriceRowId&) const = default;
};
// "1c8b4dd671fa0cd0:123".
std::string PriceRowText(PriceRowId id);
std::optional<PriceRowId> ParsePriceRow(std::string_view text) noexcept;

// Micro-dollars per 1,000,000 units of each class; for kMilliseconds per 1,000,000 seconds. kUnpriced: the
// file has none.
inline constexpr int64_t kUnpriced = -1;
using ClassPrices = std::array<int64_t, kLlmClasses>;

// What a row sells.
enum class PriceUnit : uint8_t { kToken, kSecond, kCharacter, kImage, kPage, kQuery, kUncounted };

// A row of a file, its prices ready for use. A plain value inside the table.
struct PriceRow {
  struct Step {
    int64_t above = -1;  // in force for more input tokens than this
    uint32_t prices = 0;
  };
  struct Minutes {
    uint16_t from = 0, to = 0;  // of the day in UTC
  };

  PriceRowId id;
  uint16_t file = 0;  // its position in the list of files
  PriceUnit unit = PriceUnit::kToken;
  bool disputed = false;         // two sources of the list contradict each other
  int64_t from_s = 0, to_s = 0;  // Unix time
  uint8_t weekdays = 0x7f;       // bit 0: Monday
  uint8_t hour_count = 0;        // 0: all day
  std::array<Minutes, 8> hours{};
  int64_t max_input = -1, max_output = -1;         // -1: unknown
  std::array<uint32_t, kPriceTiers> first_step{};  // of each tier, ascending by `above`
  std::array<uint16_t, kPriceTiers> step_count{};  // 0: the row does not sell that tier

  bool InForce(int64_t unix_ns) const noexcept;
  // Whether it is in force at some moment of the closed interval, and whether at each.
  bool InForceWithin(int64_t from_ns, int64_t to_ns) const noexcept;
  bool InForceThroughout(int64_t from_ns, int64_t to_ns) const noexcept;
};

enum class PriceMatch : uint8_t { kNone, kAnswer, kSent, kDefault };

namespace price_table_internal {
struct Tables;
}

// The rows of one model: what Find returns. Valid while a copy of its table lives.
class ModelPrices {
 public:
  ModelPrices() noexcept = default;

  explicit operator bool() const noexcept { return match_ != PriceMatch::kNone; }
  PriceMatch match() const noexcept { return match_; }
  std::string_view provider() const noexcept;
  std::string_view model() const noexcept;  // as the file names it
  // Highest precedence first.
  std::span<const PriceRow> rows() const noexcept;
  // The row that counts at a time; null: none is in force.
  const PriceRow* RowAt(int64_t unix_ns) const noexcept;
  // The steps of a tier of one of these rows; empty: the row does not sell it.
  std::span<const PriceRow::Step> Steps(const PriceRow& row, PriceTier tier) const noexcept;
  const ClassPrices& Prices(const PriceRow::Step& step) const noexcept;

 private:
  friend class PriceTable;
  ModelPrices(const price_table_internal::Tables* tables, uint32_t model, PriceMatch match) noexcept
      : tables_(tables), model_(model), match_(match) {}

  const price_table_internal::Tables* tables_ = nullptr;
  uint32_t model_ = 0;
  PriceMatch match_ = PriceMatch::kNone;
};

// A file that the caller has read. `name` is for messages.
struct PriceFile {
  std::string name, text;
};

// Immutable, any thread. A copy shares the tables, so a request can keep the table that it began with. A
// lookup is two or three probes of a hash table and does not allocate.
class PriceTable {
 public:
  // Knows no price.
  PriceTable() noexcept = default;

  // Files in ascending precedence. With `providers`, rows of others are checked one by one and left out: a
  // list of all providers of the world costs memory only for those that are configured. kInvalidArgument: a
  // file breaks a rule above; the detail is "own.tsv:12: column cached_input: …".
  static Result<PriceTable> Load(std::span<const PriceFile> files,
                                 std::span<const std::string> providers = {});

  // The prices of a request. An empty name is not known, as before the answer; false: none. The cost is that
  // of hashing the names.
  ModelPrices Find(std::string_view provider, std::string_view answer_model,
                   std::string_view sent_model) const noexcept;
  // For estimates before the answer: as Find, but a name that was sent may be an alias.
  ModelPrices FindEstimate(std::string_view provider, std::string_view sent_model) const noexcept;
  // The row of the model "*" of the provider, then that of the provider "*": for the policy "default".
  ModelPrices Default(std::string_view provider) const noexcept;
  // Whether a name is one that moves: "latest" as a word of its own between -, : and @.
  static bool IsAlias(std::string_view model) noexcept;

  struct Source {
    std::string name;
    uint64_t id = 0;      // as PriceRowId::file
    size_t rows = 0;      // lines that are used
    size_t disputed = 0;  // of these
  };
  std::span<const Source> sources() const noexcept;
  size_t models() const noexcept;
  // Each model once, sorted by provider and name: for lists.
  ModelPrices ModelAt(size_t index) const noexcept;
  size_t bytes() const noexcept;  // of memory, about

 private:
  ModelPrices FindName(std::string_view provider, std::string_view model, PriceMatch match) const noexcept;
  ModelPrices FindExact(std::string_view provider, std::string_view model, PriceMatch match) const noexcept;

  std::shared_ptr<const price_table_internal::Tables> tables_;
};

}  // namespace gpulens::pricing
