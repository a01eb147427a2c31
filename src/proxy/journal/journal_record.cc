#include "proxy/journal/journal_record.h"

#include <cstring>
#include <vector>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr uint8_t kEntryVersion = 1;
constexpr size_t kEntryHeadBytes = 2 + sizeof(RequestId);

// Calls visit for the members of a progress behind its id, in their order.
template <class Progress, class Visit>
void ForEachProgressField(Progress& progress, Visit&& visit) {
  visit("ttft_ns", progress.ttft_ns);
  visit("model_answered", progress.model_answered);
  visit("tier", progress.tier);
  visit("counted_by", progress.counted_by);
  visit("usage", progress.usage);
  visit("list_pico", progress.list_pico);
  visit("charged_pico", progress.charged_pico);
  visit("price_version", progress.price_version);
  visit("price_row", progress.price_row);
  visit("events", progress.events);
  visit("answer_bytes", progress.answer_bytes);
}

struct EntryWriter {
  std::string& out;

  void Word(uint64_t word) const {
    for (; word >= 0x80; word >>= 7) out += static_cast<char>(word | 0x80);
    out += static_cast<char>(word);
  }
  void operator()(const char*, int64_t value) const {
    Word(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void operator()(const char*, const RequestId& id) const {
    out.append(reinterpret_cast<const char*>(id.data()), id.size());
  }
  void operator()(const char*, const std::string& text) const {
    Word(text.size());
    out += text;
  }
  void operator()(const char* name, const std::optional<int64_t>& value) const {
    out += static_cast<char>(value.has_value());
    if (value) (*this)(name, *value);
  }
  void operator()(const char* name, const std::vector<std::string>& texts) const {
    Word(texts.size());
    for (const std::string& text : texts) (*this)(name, text);
  }
  void operator()(const char*, ChargeOutcome outcome) const { out += static_cast<char>(outcome); }
  void operator()(const char*, CountedBy by) const { out += static_cast<char>(by); }
  void operator()(const char* name, const LlmUsage& usage) const {
    uint64_t mask = 0;
    for (size_t i = 0; i < kLlmClasses; ++i) mask |= uint64_t{usage.units[i] != 0} << i;
    Word(mask);
    for (int64_t units : usage.units)
      if (units != 0) (*this)(name, units);
    out += static_cast<char>(UsageBits(usage));
  }
  void operator()(const char*, const std::optional<IdempotencyHash>& hash) const {
    out += static_cast<char>(hash.has_value());
    if (hash) out.append(reinterpret_cast<const char*>(hash->data()), hash->size());
  }
  void Attempts(const std::vector<ChargeAttempt>& attempts) const {
    Word(attempts.size());
    for (const ChargeAttempt& attempt : attempts) {
      (*this)("", attempt.provider);
      (*this)("", attempt.result);
      (*this)("", attempt.begin_unix_ns);
      (*this)("", attempt.duration_ns);
      (*this)("", attempt.uncertain_list_pico);
    }
  }
};

// After the first error `good` is false and nothing more is read.
struct EntryReader {
  std::string_view rest;
  bool good = true;

  uint8_t Byte(uint8_t most) {
    if (!good || rest.empty() || static_cast<uint8_t>(rest[0]) > most) return good = false, uint8_t{0};
    const auto byte = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    return byte;
  }
  uint64_t Word() {
    uint64_t word = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte(0xff);
      const uint64_t part = byte & 0x7f;
      // The tenth byte has one bit left, and no number ends with an empty byte.
      if ((shift == 63 && byte > 1) || (byte == 0 && shift > 0)) good = false;
      if (!good) return 0;
      word |= part << shift;
      if (byte < 0x80) return word;
    }
    return good = false, 0;
  }
  std::string_view Take(uint64_t size) {
    if (!good || size > rest.size()) return good = false, std::string_view();
    const std::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
  }
  size_t Count(size_t most) {
    const uint64_t count = Word();
    if (count > most) good = false;
    return good ? static_cast<size_t>(count) : 0;
  }

  void operator()(const char*, int64_t& value) {
    const uint64_t word = Word();
    value = static_cast<int64_t>(word >> 1 ^ (~(word & 1) + 1));
  }
  template <size_t size>
  void Bytes(std::array<uint8_t, size>& out) {
    const std::string_view bytes = Take(size);
    if (good) std::memcpy(out.data(), bytes.data(), size);
  }
  void operator()(const char*, RequestId& id) { Bytes(id); }
  void operator()(const char*, std::string& text) { text = Take(Count(kMostChargeText)); }
  void operator()(const char* name, std::optional<int64_t>& value) {
    value.reset();
    if (Byte(1) == 1) (*this)(name, value.emplace());
  }
  void operator()(const char* name, std::vector<std::string>& texts) {
    texts.resize(Count(kMostBudgets));
    for (std::string& text : texts) (*this)(name, text);
  }
  void operator()(const char*, ChargeOutcome& outcome) {
    outcome = static_cast<ChargeOutcome>(Byte(kChargeOutcomes - 1));
  }
  void operator()(const char*, CountedBy& by) { by = static_cast<CountedBy>(Byte(kCountedBys - 1)); }
  void operator()(const char* name, LlmUsage& usage) {
    const uint64_t mask = Word();
    if (mask >> kLlmClasses != 0) good = false;
    for (size_t i = 0; i < kLlmClasses && good; ++i) {
      if ((mask >> i & 1) == 0) continue;
      (*this)(name, usage.units[i]);
      if (usage.units[i] == 0) good = false;
    }
    SetUsageBits(usage, Byte(7));
  }
  void operator()(const char*, std::optional<IdempotencyHash>& hash) {
    hash.reset();
    if (Byte(1) == 1) Bytes(hash.emplace());
  }
  void Attempts(std::vector<ChargeAttempt>& attempts) {
    attempts.resize(Count(kMostAttempts));
    for (ChargeAttempt& attempt : attempts) {
      (*this)("", attempt.provider);
      (*this)("", attempt.result);
      (*this)("", attempt.begin_unix_ns);
      (*this)("", attempt.duration_ns);
      (*this)("", attempt.uncertain_list_pico);
    }
  }
};

void BeginEntry(JournalKind kind, std::string& out) {
  out += static_cast<char>(kind);
  out += static_cast<char>(kEntryVersion);
}

}  // namespace

std::string EncodeEntry(JournalKind kind, const ChargeRecord& record) {
  std::string body;
  body.reserve(512);
  BeginEntry(kind, body);
  const EntryWriter writer{body};
  ForEachChargeField(record, writer);
  writer.Attempts(record.attempts);
  return body;
}

std::string EncodeEntry(const ChargeProgress& progress) {
  std::string body;
  body.reserve(160);
  BeginEntry(JournalKind::kProgress, body);
  const EntryWriter writer{body};
  writer("request_id", progress.id);
  ForEachProgressField(progress, writer);
  return body;
}

std::optional<JournalEntryHead> HeadOfEntry(std::string_view body) noexcept {
  if (body.size() < kEntryHeadBytes || static_cast<uint8_t>(body[1]) != kEntryVersion) return std::nullopt;
  const auto kind = static_cast<uint8_t>(body[0]);
  if (kind < 1 || kind > 3) return std::nullopt;
  JournalEntryHead head{static_cast<JournalKind>(kind), {}};
  std::memcpy(head.id.data(), body.data() + 2, head.id.size());
  return head;
}

Result<JournalEntry> DecodeEntry(std::string_view body) {
  if (body.size() >= 2 && static_cast<uint8_t>(body[1]) > kEntryVersion)
    return Status{Code::kUnavailable, "a record of the journal is of a newer program"};
  const auto head = HeadOfEntry(body);
  if (!head) return Status{Code::kDataLoss, "not a record of a journal of charges"};
  JournalEntry entry;
  entry.kind = head->kind;
  EntryReader reader{body.substr(2)};
  if (entry.kind == JournalKind::kProgress) {
    reader("request_id", entry.progress.id);
    ForEachProgressField(entry.progress, reader);
  } else {
    ForEachChargeField(entry.record, reader);
    reader.Attempts(entry.record.attempts);
  }
  if (!reader.good || !reader.rest.empty())
    return Status{Code::kDataLoss, "a record of the journal has members that no request has"};
  return entry;
}

}  // namespace gpulens
