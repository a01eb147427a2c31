#include "wire/llm/llm_usage_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpulens {
namespace {

using Fields = LlmUsageFields;
static_assert(Fields::kFields <= 32, "a bit each");

struct FieldRow {
  std::string_view path;
  Fields::Field field;
};

constexpr size_t kMaxPath = 80;
constexpr int kMaxUsageDepth = 4;

constexpr auto kFieldRows = [] {
  std::array rows{
#define LLM_FIELD(path, field) FieldRow{path, Fields::field},
#include "wire/llm/llm_apis.def"
  };
  std::ranges::sort(rows, [](const FieldRow& a, const FieldRow& b) {
    return a.path.size() != b.path.size() ? a.path.size() < b.path.size() : a.path < b.path;
  });
  return rows;
}();
static_assert(kFieldRows.back().path.size() < kMaxPath);

const FieldRow* FindField(std::string_view path) noexcept {
  const auto at = std::ranges::lower_bound(
      kFieldRows, path,
      [](std::string_view a, std::string_view b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
      },
      &FieldRow::path);
  return at != kFieldRows.end() && at->path == path ? &*at : nullptr;
}

// Hands out parts of a whole. What does not fit is given to none and marks the usage.
class Whole {
 public:
  Whole(int64_t whole, bool& inconsistent) noexcept
      : whole_(whole), left_(whole), inconsistent_(inconsistent) {}

  int64_t Take(int64_t part) noexcept {
    // Parts may overlap where the provider divides the whole twice (cached and by modality): only one that is
    // larger than the whole contradicts it.
    if (part > whole_) inconsistent_ = true;
    const int64_t taken = std::min(part, left_);
    left_ -= taken;
    return taken;
  }
  int64_t left() const noexcept { return left_; }

 private:
  const int64_t whole_;
  int64_t left_;
  bool& inconsistent_;
};

// A part that may be inside its whole or besides it.
struct MovablePart {
  int64_t units;
  bool besides;
};

// Moves parts so that what is besides adds up to `besides`: as few as possible change sides. False, and
// nothing moves, when no choice does.
bool FitToTotal(std::array<MovablePart, 3>& parts, int64_t besides) noexcept {
  unsigned first = 0;
  for (size_t i = 0; i < parts.size(); ++i) first |= unsigned{parts[i].besides} << i;
  for (unsigned change : {0u, 1u, 2u, 4u, 3u, 5u, 6u, 7u}) {
    int64_t sum = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if ((first ^ change) >> i & 1) sum += parts[i].units;
    }
    if (sum != besides) continue;
    for (size_t i = 0; i < parts.size(); ++i) parts[i].besides = (first ^ change) >> i & 1;
    return true;
  }
  return false;
}

}  // namespace

void LlmUsageFields::Clear() noexcept {
  present_ = bad_ = 0;
  tier_.clear();
  iterations_.clear();
}

void LlmUsageFields::Set(Field field, int64_t value, bool bad) noexcept {
  const uint32_t bit = uint32_t{1} << field;
  present_ = bad ? present_ & ~bit : present_ | bit;
  bad_ = bad ? bad_ | bit : bad_ & ~bit;
  values_[field] = bad ? 0 : value;
}

void LlmUsageFields::Read(JsonScanner& json) {
  char path[kMaxPath];
  ReadObject(json, path, 0, 0);
}

bool LlmUsageFields::ReadMember(std::string_view key, JsonScanner& json) {
  if (!FindField(key)) return false;
  ReadNumber(json, key);
  return true;
}

void LlmUsageFields::ReadObject(JsonScanner& json, char* path, size_t size, int depth) {
  json.Object([&](std::string_view key) {
    if (size + key.size() + 2 > kMaxPath) return;
    key.copy(path + size, key.size());
    const size_t end = size + key.size();
    const std::string_view here(path, end);
    switch (json.Peek()) {
      case JsonScanner::kObject:
        if (depth + 1 >= kMaxUsageDepth) break;
        path[end] = '/';
        ReadObject(json, path, end + 1, depth + 1);
        break;
      case JsonScanner::kArray:
        if (depth != 0) break;
        if (here == "iterations") {
          ReadIterations(json);
          break;
        }
        path[end] = '/';
        ReadList(json, path, end + 1);
        break;
      case JsonScanner::kNull: break;
      case JsonScanner::kString:
        if (depth == 0 &&
            (here == "service_tier" || here == "serviceTier" || here == "trafficType" || here == "speed")) {
          ReadTier(json, here);
          break;
        }
        [[fallthrough]];
      default: ReadNumber(json, here); break;
    }
  });
}

// What is fast is priced as such, whatever its tier.
void LlmUsageFields::ReadTier(JsonScanner& json, std::string_view key) {
  const std::string_view tier = json.Text();
  if (tier.empty() || tier.size() > 64) return;
  if (key == "speed" ? tier == "fast" : tier_ != "fast") tier_ = tier;
}

void LlmUsageFields::ReadNumber(JsonScanner& json, std::string_view path) {
  const FieldRow* row = FindField(path);
  if (!row) return;
  if (json.Peek() == JsonScanner::kNull) return;
  if (json.Peek() != JsonScanner::kNumber) {
    Set(row->field, 0, true);
    return;
  }
  std::string_view number;
  if (!json.Number(number)) return;
  if (row->field == kSeconds) {
    const auto seconds = ParseDouble(number);
    const bool good = seconds && *seconds >= 0 && *seconds <= 1e9;
    Set(kSeconds, good ? static_cast<int64_t>(std::ceil(*seconds * 1000)) : 0, !good);
    return;
  }
  const auto units = JsonInteger<int64_t>(number);
  const bool good = units && *units >= 0 && *units <= kMaxUnits;
  Set(row->field, good ? *units : 0, !good);
}

// [{"modality": "AUDIO", "tokenCount": 5}, …]
void LlmUsageFields::ReadList(JsonScanner& json, char* path, size_t size) {
  json.Array([&] {
    size_t end = size;
    std::string_view number;
    json.Object([&](std::string_view key) {
      if (key == "modality" && json.Peek() == JsonScanner::kString) {
        const std::string_view modality = json.Text();
        if (size + modality.size() > kMaxPath) return;
        modality.copy(path + size, modality.size());
        end = size + modality.size();
      } else if (key == "tokenCount" && json.Peek() == JsonScanner::kNumber) {
        json.Number(number);
      }
    });
    const FieldRow* row = end == size || number.empty() ? nullptr : FindField({path, end});
    if (!row) return;
    const auto units = JsonInteger<int64_t>(number);
    const bool good = units && *units >= 0 && *units <= kMaxUnits;
    Set(row->field, good ? *units : 0, !good);
  });
}

void LlmUsageFields::ReadIterations(JsonScanner& json) {
  iterations_.clear();
  json.Array([&] {
    if (json.Peek() != JsonScanner::kObject) return;
    LlmIteration iteration;
    LlmUsageFields fields;
    char path[kMaxPath];
    json.Object([&](std::string_view key) {
      if (key == "model" && json.Peek() == JsonScanner::kString) {
        iteration.model = json.Text();
      } else if (json.Peek() == JsonScanner::kObject && key.size() + 2 <= kMaxPath) {
        key.copy(path, key.size());
        path[key.size()] = '/';
        fields.ReadObject(json, path, key.size() + 1, 1);
      } else if (json.Peek() != JsonScanner::kArray) {
        fields.ReadNumber(json, key);
      }
    });
    if (!fields.any() || iterations_.size() >= kMaxIterations) return;
    iteration.usage = fields.Usage();
    iterations_.push_back(std::move(iteration));
  });
}

LlmUsage LlmUsageFields::Usage(bool reasoning_besides) const {
  LlmUsage usage;
  usage.inconsistent = bad_ != 0;
  usage[LlmClass::kWebSearches] = Of(kWebSearches);
  usage[LlmClass::kWebFetches] = Of(kWebFetches);
  usage[LlmClass::kPages] = Of(kPages);
  usage[LlmClass::kMilliseconds] = Of(kSeconds);
  usage[LlmClass::kQueries] = Of(kQueries);
  if (!iterations_.empty()) {
    for (const LlmIteration& iteration : iterations_) {
      for (size_t i = 0; i < kLlmClasses; ++i) usage.units[i] += iteration.usage.units[i];
      usage.input_known |= iteration.usage.input_known;
      usage.output_known |= iteration.usage.output_known;
      usage.inconsistent |= iteration.usage.inconsistent;
    }
    // Searches are counted once, in the whole, where both have them.
    if (Has(kWebSearches)) usage[LlmClass::kWebSearches] = Of(kWebSearches);
    if (Has(kWebFetches)) usage[LlmClass::kWebFetches] = Of(kWebFetches);
    return usage;
  }

  const bool prompt_named = Has(kInPrompt);
  int64_t in = prompt_named ? Of(kInPrompt) : Of(kInInput);
  int64_t out = Of(kOut);
  usage.input_known = prompt_named || Has(kInInput);
  usage.output_known = Has(kOut);

  const bool cached_inside = Has(kCached) || Has(kCachedHit), written_inside = Has(kWritten);
  const int64_t cached = Has(kCached) ? Of(kCached) : cached_inside ? Of(kCachedHit) : Of(kReadBesides);
  const int64_t split = Of(kWritten5m) + Of(kWritten1h);
  // The parts alone, or what they add up to.
  const int64_t written = written_inside ? Of(kWritten) : Has(kWrittenBesides) ? Of(kWrittenBesides) : split;
  // Without a count of the input, input that was read and written is all that is known of it.
  if (!usage.input_known && (Has(kReadBesides) || Has(kWrittenBesides)) && !Has(kTotal))
    usage.input_known = true;
  if (Has(kTotal) && (!usage.input_known || !usage.output_known)) {
    const int64_t total = Of(kTotal);
    if (!usage.input_known) {
      // Rerankers send a total alone: they have no output.
      in = std::max<int64_t>(total - out, 0);
      usage.input_known = true;
      if (total < out) usage.inconsistent = true;
    }
  }
  const bool reasoning_named_besides = Has(kThoughts);
  std::array<MovablePart, 3> parts{
      MovablePart{cached + written, !cached_inside && !written_inside && !prompt_named},
      MovablePart{Of(kInTool), true},
      MovablePart{reasoning_named_besides ? Of(kThoughts) : Of(kReasoning),
                  reasoning_named_besides || reasoning_besides},
  };
  if (Has(kTotal) && usage.input_known && usage.output_known && !FitToTotal(parts, Of(kTotal) - in - out))
    usage.inconsistent = true;
  // Output that is nothing but reasoning: Gemini leaves out the count of candidates then.
  if (!usage.output_known && reasoning_named_besides) {
    usage.output_known = true;
    if (Has(kTotal) && prompt_named && !FitToTotal(parts, Of(kTotal) - in)) usage.inconsistent = true;
  }

  in += (parts[0].besides ? parts[0].units : 0) + (parts[1].besides ? parts[1].units : 0);
  Whole input(in, usage.inconsistent);
  const int64_t read = input.Take(cached);
  const int64_t written_taken = input.Take(written);
  if (cached + written > in) usage.inconsistent = true;
  usage[LlmClass::kInputTool] = input.Take(Of(kInTool));
  // Of what is cached only audio has a class of its own; the rest of a modality is what was not cached.
  Whole cache(read, usage.inconsistent);
  usage[LlmClass::kInputAudioCached] = cache.Take(Of(kCachedAudio));
  usage[LlmClass::kInputCached] = cache.left();
  Whole write(written_taken, usage.inconsistent);
  usage[LlmClass::kInputWriteLong] = write.Take(Of(kWritten1h));
  usage[LlmClass::kInputWrite5m] = write.left();
  if (split > written && Has(kWrittenBesides)) usage.inconsistent = true;
  const auto fresh = [&](Field all, Field in_cache) {
    if (Of(all) > in) usage.inconsistent = true;
    return input.Take(std::min(std::max<int64_t>(Of(all) - Of(in_cache), 0), in));
  };
  usage[LlmClass::kInputAudio] = fresh(kInAudio, kCachedAudio);
  usage[LlmClass::kInputImage] = fresh(kInImage, kCachedImage);
  usage[LlmClass::kInputVideo] = fresh(kInVideo, kCachedVideo);
  usage[LlmClass::kInput] = input.left();

  out += parts[2].besides ? parts[2].units : 0;
  Whole output(out, usage.inconsistent);
  usage[LlmClass::kOutputReasoning] = output.Take(parts[2].units);
  usage[LlmClass::kOutputAudio] = output.Take(Of(kOutAudio));
  usage[LlmClass::kOutputImage] = output.Take(Of(kOutImage));
  usage[LlmClass::kOutput] = output.left();
  return usage;
}

}  // namespace gpulens
