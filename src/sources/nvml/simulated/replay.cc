#include "sources/nvml/simulated/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "sources/nvml/simulated/fake_call.h"

namespace gpulens::nvml {
namespace {

void QueryIn(CallQuestion& question, const ReplayCall& call, bool& first, Device device) {
  if (!std::exchange(first, false)) question.Add(call.PeerName(device));
}
template <class P>
void QueryIn(CallQuestion& question, const ReplayCall&, bool&, P parameter) {
  question.In(parameter);
}

int PutAnswer(const ReplayCall& call, CallQuestion question, auto... parameters) {
  RecordedAnswer answer = call.Find(std::move(question).Take());
  if (answer.code != kSuccess && answer.values.empty()) return answer.code;
  ValuesIn in(answer.values);
  (in.Out(parameters), ...);
  int code = in.code();
  return code != kSuccess ? code : answer.code;
}

// A call whose parameters all have words.
template <Call kCall, class... P>
struct ReplayPlain {
  static int Do(P... parameters) {
    const char* name = CallName(kCall).data();
    auto first_of = [](auto first, auto...) { return first; };
    auto call = [&] {
      if constexpr (std::is_same_v<decltype(first_of(parameters...)), Device>)
        return ReplayCall(name, first_of(parameters...));
      else return ReplayCall(name);
    }();
    if (call.code() != kSuccess) return call.code();
    CallQuestion question(name);
    bool first = true;
    (QueryIn(question, call, first, parameters), ...);
    return PutAnswer(call, std::move(question), parameters...);
  }
};

template <Call kCall, class... P>
void* PlainFunction(reader::LibraryFunction<Call, int(P...)> NvmlSymbols::*) {
  if constexpr (sizeof...(P) > 0 && (kPlainParameter<P> && ...))
    return reinterpret_cast<void*>(&ReplayPlain<kCall, P...>::Do);
  else return nullptr;
}

constexpr size_t kHexDigitsOfUuid = 8;

// Other digits behind "GPU-" or "MIG-", the same for the same copy.
std::string CopyOfUuid(std::string uuid, unsigned copy) {
  size_t at = uuid.find('-') + 1;
  auto number = ParseInt<uint32_t>(std::string_view(uuid).substr(at, kHexDigitsOfUuid), 16);
  if (at == 0 || !number) return uuid + "-" + std::to_string(copy);
  char text[16];
  std::snprintf(text, sizeof text, "%08x", *number + copy * 0x10001);
  return uuid.replace(at, kHexDigitsOfUuid, text);
}

// Another PCI domain: "00000000:1A:00.0" becomes "00000001:1A:00.0".
std::string CopyOfBusId(const std::string& text, unsigned copy) {
  size_t colon = text.find(':');
  auto domain = ParseInt<uint32_t>(std::string_view(text).substr(0, colon), 16);
  if (colon == text.npos || !domain) return text;
  char out[16];
  std::snprintf(out, sizeof out, "%0*x", static_cast<int>(colon), *domain + copy);
  return out + text.substr(colon);
}

}  // namespace

ReplayCall::ReplayCall(const char* call) { Enter(call, -1); }

ReplayCall::ReplayCall(const char* call, Device device) {
  int index = FakeIndexOf(device), mig = FakeMigPlaceOf(device);
  if (mig >= 0) index = mig / static_cast<int>(kMaxFakeMig);
  if (index < 0) {
    code_ = kInvalidArgument;
    return;
  }
  Enter(call, index);
  if (code_ != kSuccess) return;
  size_t recorded = recording().gpus.size();
  gpu_ = static_cast<unsigned>(index);
  if (gpu_ >= profile_->gpus.size()) {
    code_ = kGpuIsLost;
    return;
  }
  copy_ = gpu_ / static_cast<unsigned>(recorded);
  const RecordedGpu& gpu = recording().gpus[gpu_ % recorded];
  tracks_ = &gpu.calls;
  if (mig < 0) return;
  auto found = gpu.mig.find(static_cast<unsigned>(mig) % kMaxFakeMig);
  if (found == gpu.mig.end()) code_ = kNotFound;
  else tracks_ = &found->second;
}

void ReplayCall::Enter(const char* call, int gpu) {
  FakeWorld& world = FakeWorld::Get();
  code_ = world.open() ? world.Enter(call, gpu) : int{kUninitialized};
  profile_ = world.profile();
  if (code_ != kSuccess) return;
  if (!profile_ || !profile_->recording) {  // Another profile has taken its place.
    code_ = kUnknownError;
    return;
  }
  tracks_ = &recording().system;
  double since_open = std::max(world.OpenFor(), 0.0), length = recording().seconds;
  if (profile_->recording_holds) {
    at_ = std::min(since_open, length);
  } else {
    rounds_ = static_cast<uint64_t>(since_open / length);
    at_ = since_open - static_cast<double>(rounds_) * length;
  }
}

RecordedAnswer ReplayCall::Find(std::string_view question) const {
  if (code_ != kSuccess) return {.code = code_, .values = {}};
  auto found = tracks_->find(question);
  if (found == tracks_->end()) return {.code = kNotSupported, .values = {}};
  RecordedAnswer answer = found->second.At(at_);
  if (rounds_ > 0) GoOn(question, found->second, answer);
  if (copy_ > 0) MakeCopy(question, answer);
  return answer;
}

// Counters go on from where the recording ended.
void ReplayCall::GoOn(std::string_view question, const AnswerTrack& track, RecordedAnswer& answer) const {
  auto counters = recording().counters.find(BaseOf(question));
  if (counters == recording().counters.end()) return;
  // The first and the last answer that had values: a GPU that was lost in between has none.
  const RecordedAnswer *first = track.first.values.empty() ? nullptr : &track.first, *last = first;
  for (const auto& [at, later] : track.later) {
    if (later.values.empty()) continue;
    if (!first) first = &later;
    last = &later;
  }
  if (!first) return;
  size_t count =
      std::min({size_t{counters->second}, answer.values.size(), first->values.size(), last->values.size()});
  for (size_t i = 0; i < count; ++i) {
    auto begin = ParseInt<uint64_t>(first->values[i]), end = ParseInt<uint64_t>(last->values[i]);
    auto now = ParseInt<uint64_t>(answer.values[i]);
    if (begin && end && now && *end > *begin)
      answer.values[i] = std::to_string(*now + rounds_ * (*end - *begin));
  }
}

// A copy is another board in another place.
void ReplayCall::MakeCopy(std::string_view question, RecordedAnswer& answer) const {
  auto& values = answer.values;
  if (values.empty()) return;
  if (question == "nvmlDeviceGetUUID") values[0] = CopyOfUuid(values[0], copy_);
  if (question == "nvmlDeviceGetSerial") values[0] += "-" + std::to_string(copy_);
  if (question == "nvmlDeviceGetMinorNumber") values[0] = std::to_string(gpu_);
  if (!question.starts_with("nvmlDeviceGetPciInfo")) return;
  size_t texts = question == "nvmlDeviceGetPciInfo_v3" ? 2 : 1;
  if (values.size() <= texts) return;
  for (size_t i = 0; i < texts; ++i) values[i] = CopyOfBusId(values[i], copy_);
  if (auto domain = ParseInt<uint32_t>(values[texts])) values[texts] = std::to_string(*domain + copy_);
}

std::string ReplayCall::PeerName(Device peer) const {
  int index = FakeIndexOf(peer);
  return index < 0 ? "none" : "gpu" + std::to_string(static_cast<size_t>(index) % recording().gpus.size());
}

int64_t ReplayUnixUs() { return FakeWorld::Get().Now().unix_ns / 1000; }

void* ReplayLookup(const FakeProfile& profile, std::string_view name) {
  const auto& missing = profile.recording->missing;
  if (std::find(missing.begin(), missing.end(), name) != missing.end()) return nullptr;
  if (void* special = FindFunction(ReplaySpecialFunctions(), name)) return special;
  static const NamedFunction kPlain[] = {
#define GPULENS_NVML_REPLAY(id, symbol, parameters) {#symbol, PlainFunction<Call::k##id>(&NvmlSymbols::id)},
      GPULENS_NVML_CALLS(GPULENS_NVML_REPLAY)
#undef GPULENS_NVML_REPLAY
  };
  return FindFunction(kPlain, name);
}

bool IsRecording(const std::string& yaml) {
  constexpr std::string_view kKey = "gpulens_recording:";
  return yaml.starts_with(kKey) || yaml.find("\n" + std::string(kKey)) != yaml.npos;
}

Status LoadRecording(const std::string& path, const std::string& at_end, FakeProfile& out) {
  if (at_end != "loop" && at_end != "hold") return {Code::kInvalidArgument, "at_end must be loop or hold"};
  Result<std::string> text = ReadFile(path, kMaxRecordingBytes);
  if (!text) return {Code::kInvalidArgument, text.error().detail};
  Result<NvmlRecording> recording = ReadRecording(*text);
  if (!recording) return {Code::kInvalidArgument, path + ": " + recording.error().detail};
  out.recording = std::make_shared<const NvmlRecording>(*std::move(recording));
  out.recording_holds = at_end == "hold";
  return Status{};
}

}  // namespace gpulens::nvml
