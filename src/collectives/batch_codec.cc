#include "collectives/batch_codec.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/hash.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens::collectives {
namespace {

constexpr std::string_view kBatchMagic = "GPLC";
constexpr size_t kBatchTexts = 4096;
constexpr int64_t kMillisecondNs = 1'000'000;
constexpr int32_t kMostPeer = 1 << 20;
constexpr uint64_t kMostMilliseconds = uint64_t{1} << 40;

void PutNumber(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}
// Small in either direction.
void PutSigned(std::string& out, int64_t value) {
  PutNumber(out, static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}
void PutFixed(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
}
int64_t Difference(uint64_t a, uint64_t b) noexcept { return static_cast<int64_t>(a - b); }

// Texts are sent once.
class TextTable {
 public:
  uint64_t Add(std::string_view text) {
    const auto [at, added] = index_.try_emplace(std::string(text.substr(0, Cut(text))), texts_.size());
    if (added) texts_.push_back(at->first);
    return at->second;
  }
  const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  // Not inside a character.
  static size_t Cut(std::string_view text) noexcept {
    size_t size = std::min(text.size(), kTextBytes);
    while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
    return size;
  }
  std::map<std::string, uint64_t, std::less<>> index_;
  std::vector<std::string> texts_;
};

// What samples of one function are relative to.
struct Previous {
  uint64_t sequence = 0, bytes = 0, total_ns = 0, total_count = 0;
  int64_t ended_ns = 0;
};

class BatchReader {
 public:
  explicit BatchReader(std::string_view bytes) noexcept : rest_(bytes) {}

  bool failed() const noexcept { return failed_; }
  size_t left() const noexcept { return rest_.size(); }
  void Fail() noexcept { failed_ = true; }

  uint64_t Number() noexcept {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = Byte();
      if (shift == 63 && byte > 1) Fail();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  int64_t Signed() noexcept {
    const uint64_t value = Number();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  uint8_t Byte() noexcept {
    if (rest_.empty()) {
      Fail();
      return 0;
    }
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint64_t Fixed() noexcept {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(Byte()) << (8 * i);
    return value;
  }
  // At most `most`, and no more than there are bytes: each element has one.
  size_t Count(size_t most) noexcept {
    const uint64_t count = Number();
    if (count > most || count > rest_.size()) {
      Fail();
      return 0;
    }
    return static_cast<size_t>(count);
  }
  std::string_view Text(size_t size) noexcept {
    if (size > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  template <class Enum>
  Enum Value(Enum end) noexcept {
    const uint8_t value = Byte();
    if (value < static_cast<uint8_t>(end)) return static_cast<Enum>(value);
    Fail();
    return {};
  }
  int32_t Int(uint64_t most) noexcept {
    const uint64_t value = Number();
    if (value > most) Fail();
    return failed_ ? 0 : static_cast<int32_t>(value);
  }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

// Names in labels and logs: printable UTF-8.
bool IsName(std::string_view text) noexcept {
  const bool printable = std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  return printable && IsUtf8(text);
}

void PutProgress(std::string& out, const Progress& progress) {
  out += static_cast<char>(progress.function);
  PutNumber(out, progress.done);
  PutSigned(out, Difference(progress.started, progress.done));
  PutSigned(out, Difference(progress.enqueued, progress.started));
  PutNumber(out, progress.bytes);
  PutNumber(out, static_cast<uint64_t>(std::max<int64_t>(progress.idle_ns, 0) / kMillisecondNs));
  out += static_cast<char>(progress.wait);
  PutNumber(out, progress.peer < 0 ? 0 : static_cast<uint64_t>(progress.peer) + 1);
}

Progress TakeProgress(BatchReader& in) {
  Progress progress;
  progress.function = in.Value(Function::kCount);
  progress.done = in.Number();
  progress.started = progress.done + static_cast<uint64_t>(in.Signed());
  progress.enqueued = progress.started + static_cast<uint64_t>(in.Signed());
  progress.bytes = in.Number();
  const uint64_t idle = in.Number();
  if (idle > kMostMilliseconds) in.Fail();
  progress.idle_ns = in.failed() ? 0 : static_cast<int64_t>(idle) * kMillisecondNs;
  progress.wait = in.Value(ProxyWait::kCount);
  progress.peer = in.Int(kMostPeer) - 1;
  constexpr uint64_t kMost = uint64_t{1} << 62;
  if (progress.done > kMost || progress.started > kMost || progress.enqueued > kMost) in.Fail();
  return progress;
}

void PutSample(std::string& out, const Sample& sample, Previous& previous) {
  out += static_cast<char>(sample.function);
  out +=
      static_cast<char>(static_cast<uint8_t>(sample.algorithm) << 4 | static_cast<uint8_t>(sample.protocol));
  PutNumber(out, sample.sequence - previous.sequence);
  PutSigned(out, Difference(sample.bytes, previous.bytes));
  PutNumber(out, sample.duration_ns);
  // Where each is sent, the total grows by the duration.
  PutSigned(out, Difference(sample.total_ns, previous.total_ns + sample.duration_ns));
  PutSigned(out, Difference(sample.total_count, previous.total_count));
  PutSigned(out,
            Difference(static_cast<uint64_t>(sample.ended_ns), static_cast<uint64_t>(previous.ended_ns)));
  previous = {sample.sequence, sample.bytes, sample.total_ns, sample.total_count, sample.ended_ns};
}

Sample TakeSample(BatchReader& in, std::array<Previous, kFunctions>& all) {
  Sample sample;
  sample.function = in.Value(Function::kCount);
  const uint8_t how = in.Byte();
  if (how >> 4 >= static_cast<uint8_t>(Algorithm::kCount) ||
      (how & 15) >= static_cast<uint8_t>(Protocol::kCount)) {
    in.Fail();
    return sample;
  }
  sample.algorithm = static_cast<Algorithm>(how >> 4);
  sample.protocol = static_cast<Protocol>(how & 15);
  Previous& previous = all[static_cast<size_t>(sample.function)];
  sample.sequence = previous.sequence + in.Number();
  sample.bytes = previous.bytes + static_cast<uint64_t>(in.Signed());
  sample.duration_ns = in.Number();
  sample.total_ns = previous.total_ns + sample.duration_ns + static_cast<uint64_t>(in.Signed());
  sample.total_count = previous.total_count + static_cast<uint64_t>(in.Signed());
  sample.ended_ns =
      static_cast<int64_t>(static_cast<uint64_t>(previous.ended_ns) + static_cast<uint64_t>(in.Signed()));
  previous = {sample.sequence, sample.bytes, sample.total_ns, sample.total_count, sample.ended_ns};
  return sample;
}

std::array<Previous, kFunctions> FirstPrevious(const Batch& batch) noexcept {
  std::array<Previous, kFunctions> all;
  for (Previous& previous : all) previous.ended_ns = batch.made_boot_ns;
  return all;
}

void PutMember(std::string& out, const Batch& batch, const Member& member, uint64_t name) {
  PutNumber(out, member.process);
  PutFixed(out, member.hash);
  PutNumber(out, static_cast<uint64_t>(std::max(member.ranks, 0)));
  PutNumber(out, static_cast<uint64_t>(std::max(member.rank, 0)));
  out += member.closed ? '\1' : '\0';
  PutNumber(out, name);
  const size_t progress = std::min(member.progress.size(), kFunctions);
  PutNumber(out, progress);
  for (size_t i = 0; i < progress; ++i) PutProgress(out, member.progress[i]);
  // The latest, since the totals have the others.
  const size_t samples = std::min(member.samples.size(), kMemberSamples);
  PutNumber(out, samples);
  auto all = FirstPrevious(batch);
  for (size_t i = member.samples.size() - samples; i < member.samples.size(); ++i)
    PutSample(out, member.samples[i], all[static_cast<size_t>(member.samples[i].function) % kFunctions]);
  const size_t links = std::min(member.links.size(), kMemberLinks);
  PutNumber(out, links);
  for (size_t i = 0; i < links; ++i) {
    PutNumber(out, static_cast<uint64_t>(std::max(member.links[i].peer, 0)));
    PutNumber(out, member.links[i].delay_ns);
  }
}

std::string_view TakeText(BatchReader& in, const std::vector<std::string_view>& texts) noexcept {
  const uint64_t at = in.Number();
  if (at >= texts.size()) in.Fail();
  return in.failed() ? std::string_view() : texts[static_cast<size_t>(at)];
}

Hint TakeHint(BatchReader& in, const std::vector<std::string_view>& texts) {
  Hint hint;
  hint.host = TakeText(in, texts);
  hint.gpu = TakeText(in, texts);
  hint.what = TakeText(in, texts);
  hint.cause = in.Value(Cause::kCount);
  const uint8_t lasts = in.Byte();
  const uint64_t age = in.Number();
  if (lasts > 1 || age > kMostMilliseconds) in.Fail();
  hint.lasts = lasts == 1;
  hint.age_ns = in.failed() ? 0 : static_cast<int64_t>(age) * kMillisecondNs;
  return hint;
}

void TakeMember(BatchReader& in, const Batch& batch, const std::vector<std::string_view>& texts,
                Member& member) {
  const uint64_t process = in.Number();
  if (process >= batch.processes.size()) in.Fail();
  member.process = static_cast<uint32_t>(process);
  member.hash = in.Fixed();
  member.ranks = in.Int(kMostPeer);
  member.rank = in.Int(kMostPeer);
  const uint8_t closed = in.Byte();
  if (closed > 1) in.Fail();
  member.closed = closed == 1;
  member.name = TakeText(in, texts);
  const size_t progress = in.Count(kFunctions);
  for (size_t i = 0; i < progress && !in.failed(); ++i) member.progress.push_back(TakeProgress(in));
  const size_t samples = in.Count(kMemberSamples);
  auto all = FirstPrevious(batch);
  for (size_t i = 0; i < samples && !in.failed(); ++i) member.samples.push_back(TakeSample(in, all));
  const size_t links = in.Count(kMemberLinks);
  for (size_t i = 0; i < links && !in.failed(); ++i) {
    LinkDelay link;
    link.peer = in.Int(kMostPeer);
    link.delay_ns = in.Number();
    member.links.push_back(link);
  }
}

}  // namespace

void EncodeBatch(const Batch& batch, std::string& out) {
  TextTable texts;
  const size_t processes = std::min(batch.processes.size(), kBatchProcesses);
  std::vector<std::array<uint64_t, 4>> of_process;
  for (size_t i = 0; i < processes; ++i) {
    const Process& process = batch.processes[i];
    of_process.push_back(
        {texts.Add(process.host), texts.Add(process.gpu), texts.Add(process.job), texts.Add(process.pod)});
  }
  std::vector<std::pair<const Member*, uint64_t>> members;
  for (const Member& member : batch.members) {
    if (member.process >= processes || members.size() == kBatchMembers || texts.texts().size() >= kBatchTexts)
      continue;
    members.emplace_back(&member, texts.Add(member.name));
  }
  std::vector<std::array<uint64_t, 3>> of_hint;
  for (size_t i = 0; i < std::min(batch.hints.size(), kBatchHints); ++i) {
    const Hint& hint = batch.hints[i];
    of_hint.push_back({texts.Add(hint.host), texts.Add(hint.gpu), texts.Add(hint.what)});
  }
  out += kBatchMagic;
  out += static_cast<char>(of_hint.empty() ? 1 : kBatchVersion);
  PutFixed(out, batch.sender);
  PutNumber(out, batch.number);
  PutSigned(out, batch.made_boot_ns);
  PutNumber(out, texts.texts().size());
  for (const std::string& text : texts.texts()) {
    PutNumber(out, text.size());
    out += text;
  }
  PutNumber(out, processes);
  for (size_t i = 0; i < processes; ++i) {
    for (uint64_t text : of_process[i]) PutNumber(out, text);
    PutSigned(out, batch.processes[i].pid);
    out += static_cast<char>(batch.processes[i].state);
    out += static_cast<char>(batch.processes[i].phase);
  }
  PutNumber(out, members.size());
  for (const auto& [member, name] : members) PutMember(out, batch, *member, name);
  if (of_hint.empty()) return;
  PutNumber(out, of_hint.size());
  for (size_t i = 0; i < of_hint.size(); ++i) {
    const Hint& hint = batch.hints[i];
    for (uint64_t text : of_hint[i]) PutNumber(out, text);
    out += static_cast<char>(hint.cause);
    out += hint.lasts ? '\1' : '\0';
    PutNumber(out, static_cast<uint64_t>(std::max<int64_t>(hint.age_ns, 0) / kMillisecondNs));
  }
}

Status DecodeBatch(std::string_view bytes, Batch& out) {
  out = {};
  if (bytes.size() > kBatchBytes) return {Code::kInvalidArgument, "the batch has more than 4 MiB"};
  if (!bytes.starts_with(kBatchMagic)) return {Code::kInvalidArgument, "this is no batch of collectives"};
  BatchReader in(bytes.substr(kBatchMagic.size()));
  const uint8_t version = in.Byte();
  if (version < 1 || version > kBatchVersion)
    return {Code::kInvalidArgument, "batches of collectives have version 1 or " +
                                        std::to_string(kBatchVersion) + " here, not " +
                                        std::to_string(version)};
  Status cut{Code::kDataLoss, "the batch of collectives is cut or cannot be true"};
  out.sender = in.Fixed();
  out.number = in.Number();
  out.made_boot_ns = in.Signed();
  std::vector<std::string_view> texts;
  const size_t text_count = in.Count(kBatchTexts + 4 * kBatchProcesses + 3 * kBatchHints);
  for (size_t i = 0; i < text_count && !in.failed(); ++i) {
    const std::string_view text = in.Text(in.Count(kTextBytes));
    if (!IsName(text)) in.Fail();
    texts.push_back(text);
  }
  const size_t processes = in.Count(kBatchProcesses);
  for (size_t i = 0; i < processes && !in.failed(); ++i) {
    Process& process = out.processes.emplace_back();
    for (std::string* text : {&process.host, &process.gpu, &process.job, &process.pod}) {
      const uint64_t at = in.Number();
      if (at >= texts.size()) return cut;
      *text = texts[static_cast<size_t>(at)];
    }
    process.pid = in.Signed();
    process.state = in.Value(ProcessState::kCount);
    process.phase = in.Value(Phase::kCount);
  }
  const size_t members = in.Count(kBatchMembers);
  for (size_t i = 0; i < members && !in.failed(); ++i) TakeMember(in, out, texts, out.members.emplace_back());
  const size_t hints = version >= 2 ? in.Count(kBatchHints) : 0;
  for (size_t i = 0; i < hints && !in.failed(); ++i) out.hints.push_back(TakeHint(in, texts));
  return in.failed() || in.left() != 0 ? cut : Ok();
}

std::string EncodeWantedLinks(std::span<const uint64_t> communicators) {
  std::string text;
  for (const uint64_t hash : communicators.first(std::min(communicators.size(), kWantedLinks)))
    text += std::to_string(hash) + "\n";
  return text;
}

std::vector<uint64_t> DecodeWantedLinks(std::string_view text) {
  std::vector<uint64_t> communicators;
  for (size_t lines = 0; lines < kWantedLinks && !text.empty(); ++lines) {
    if (const auto hash = ParseInt<uint64_t>(TakeUntil(text, '\n'))) communicators.push_back(*hash);
  }
  return communicators;
}

std::vector<Batch> DivideBatch(const Batch& batch, std::span<const uint64_t> urls) {
  std::vector<Batch> parts(urls.size());
  if (urls.empty()) return parts;
  std::vector<std::map<uint32_t, uint32_t>> processes(urls.size());
  for (Batch& part : parts) {
    part.sender = batch.sender;
    part.number = batch.number;
    part.made_boot_ns = batch.made_boot_ns;
  }
  for (const Member& member : batch.members) {
    if (member.process >= batch.processes.size()) continue;
    const size_t at = PickEndpoint(MixBits(member.hash), urls);
    Batch& part = parts[at];
    const auto [process, added] =
        processes[at].try_emplace(member.process, static_cast<uint32_t>(part.processes.size()));
    if (added) part.processes.push_back(batch.processes[member.process]);
    part.members.push_back(member);
    part.members.back().process = process->second;
  }
  for (const Hint& hint : batch.hints) {
    for (Batch& part : parts) {
      const bool about = std::ranges::any_of(part.processes, [&](const Process& process) {
        return process.host == hint.host && (hint.gpu.empty() || process.gpu == hint.gpu);
      });
      if (about) part.hints.push_back(hint);
    }
  }
  return parts;
}

}  // namespace gpulens::collectives
